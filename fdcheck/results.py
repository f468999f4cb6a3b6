"""What a check returns: findings, pairs, reports and estimates."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from fdcheck.statuses import BREACHES as BREACHES
from fdcheck.statuses import Status as Status
from fdcheck.statuses import Verdict as Verdict

SCHEMA = "fdcheck-report-1"
"""Form and version of a report as a dict or JSON: the number changes when a key changes its meaning or goes away."""


class InvalidInput(ValueError):
    """An argument that cannot be used; the message names it and says what was expected and what came."""


class DerivativeMismatch(AssertionError):
    """A derivative that did not pass; ``report`` holds the whole account.

    Parameters
    ----------
    report : Report
        The report whose text is the message.
    """

    def __init__(self, report: Report) -> None:
        super().__init__(str(report))
        self.report = report


@dataclass(frozen=True)
class Measured:
    """One step of the evidence: the central slope seen at one half-width.

    Parameters
    ----------
    eps : float
        Half-width of the difference, in the unit of the input.
    slope : float
        Central slope, or the one-sided slope where only one side is finite.
    left, right : float
        The two one-sided slopes, which differ at a kink; NaN where that side is not finite.
    """

    eps: float
    slope: float
    left: float = math.nan
    right: float = math.nan


@dataclass(frozen=True)
class Finding:
    """One thing that went wrong or is worth knowing.

    Parameters
    ----------
    endpoint : str
        ``'jacobian'``, ``'jvp'``, ``'vjp'`` or ``'apply'``.
    status : Status
        What was found.
    message : str
        One plain sentence with the numbers of this case.
    input, output : str
        Paths of the input and the output; empty where the finding concerns a whole endpoint.
    input_index, output_index : tuple of int
        Element within the leaf that the path names.
    part : str
        Which real parts of complex elements the entry stands for, such as ``'Im(y) by Re(x)'``; empty for
        real ones.
    claimed, estimated : float
        The two values, NaN where there is none.
    error : float
        Error bar of the estimate.
    eps : float
        Step (half-width) at which the estimate was taken, in the unit of the input.
    steps : tuple of Measured
        The slopes measured at each step, smallest step first.
    column_claimed, column_estimated : ndarray or None
        All elements of the output leaf in the column that the entry lies in, shaped like that leaf.
    point : int
        Where it was found: 0 for x0, else which of ``report.points``.
    """

    endpoint: str
    status: Status
    message: str
    input: str = ""
    input_index: tuple[int, ...] = ()
    output: str = ""
    output_index: tuple[int, ...] = ()
    part: str = ""
    claimed: float = math.nan
    estimated: float = math.nan
    error: float = math.nan
    eps: float = math.nan
    steps: tuple[Measured, ...] = ()
    column_claimed: NDArray[Any] | None = field(default=None, compare=False, repr=False)
    column_estimated: NDArray[Any] | None = field(default=None, compare=False, repr=False)
    point: int = 0


@dataclass(frozen=True)
class Pair:
    """Summary of one endpoint over the entries of one (output path, input path) block.

    Parameters
    ----------
    endpoint, output, input : str
        Which endpoint, and the paths of the block.
    entries : int
        Real entries measured (a complex element counts twice on each side).
    counts : dict of str to int
        How many entries have each status.
    claimed, estimated, error, eps : float
        The two values, the error bar and the step at the worst entry: the one whose difference is the
        largest multiple of what is allowed there.
    output_index, input_index : tuple of int
        Where the worst entry lies.
    excess : float
        That multiple; above 1 the entry does not agree.
    sensitivity, typical : float
        Smallest relative error that would have been noticed in every resolved entry of the block, and in half of them;
        of inputs moved together: in an entry of median size of every output, and of the middle one.
    together : bool
        Whether the inputs were moved together: the numbers are then those along a random direction.
    point : int
        At which of ``report.points`` the worst entry was found.
    """

    endpoint: str
    output: str
    input: str
    entries: int
    counts: Mapping[str, int]
    claimed: float
    estimated: float
    error: float
    eps: float
    output_index: tuple[int, ...]
    input_index: tuple[int, ...]
    excess: float
    sensitivity: float
    typical: float = math.nan
    together: bool = False
    point: int = 0

    @property
    def failures(self) -> int:
        """Entries that disagree."""
        return self.counts.get(Status.DISAGREES, 0)


@dataclass(frozen=True)
class Coverage:
    """What part of the derivative was looked at.

    Parameters
    ----------
    inputs, inputs_measured, outputs, outputs_measured : int
        Real input elements in all and those perturbed, real output elements in all and those compared.
    carried : tuple of str
        Paths of inputs that were carried along and not differentiated.
    elements : dict of str to (int, int)
        By input path: elements perturbed one by one, and elements there are.
    together : int
        Real input elements moved together, along a random direction.
    method : str
        How it was looked at, and why.
    """

    inputs: int
    inputs_measured: int
    outputs: int
    outputs_measured: int
    carried: tuple[str, ...] = ()
    elements: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    together: int = 0
    method: str = ""


@dataclass(frozen=True)
class Diagnosis:
    """A pattern in which an endpoint's claims are wrong, with its evidence.

    Parameters
    ----------
    endpoint : str
        ``'jacobian'``, ``'jvp'`` or ``'vjp'``.
    kind : str
        One stable word or two: ``'factor'``, ``'transpose'``, ``'conjugate'``, ``'missing column'``, ...
    message : str
        One plain sentence with the figures that speak for it.
    repair : str
        The simple change with which every measured entry would agree; empty where none was found that does.
    entries : int
        Failing entries that it explains.
    """

    endpoint: str
    kind: str
    message: str
    repair: str = ""
    entries: int = 0


@dataclass(frozen=True)
class Point:
    """A point at which was checked.

    Parameters
    ----------
    origin : str
        ``'x0'``, ``'given'`` for one of ``points=[...]``, ``'drawn'`` for one of ``points=k``, or ``'interrupted'``
        for a further one at which the check was broken off.
    verdict : Verdict
        What the check of this point alone came to.
    draw : int
        Number of the random draw, -1 where the point was not drawn. With the seed and x0 it gives the point again.
    values : dict of str to ndarray
        The differentiable inputs there, by path; empty at x0, and where they are more than 1000 numbers.
    """

    origin: str
    verdict: Verdict
    draw: int = -1
    values: Mapping[str, NDArray[Any]] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class Report:
    """The result of :func:`fdcheck.verify`: a verdict with its evidence.

    Parameters
    ----------
    verdict : Verdict
        ``'pass'``, ``'fail'`` or ``'inconclusive'``. A pass is evidence, not proof.
    findings : tuple of Finding
        What went wrong or was noted, worst first.
    pairs : tuple of Pair
        One summary per endpoint, output path and input path.
    coverage : Coverage
        What was measured of what there is.
    sensitivity, typical : float
        Smallest relative error that would have been noticed in every resolved entry, and in half of them; NaN where
        every entry is zero or nothing was measured.
    applies, endpoint_calls, seed : int, dict of str to int, int
        Calls of apply, and of each endpoint; seed of the random directions and samples.
    notes, versions : tuple of str, dict of str to str
        Remarks that change no verdict; versions of fdcheck and of the libraries that computed the result.
    diagnoses : tuple of Diagnosis
        Patterns that explain wrong claims; empty where none fits.
    max_failures : int
        Findings of each endpoint that the text shows.
    points : tuple of Point
        Where was checked: x0 first.
    settings : dict of str to object
        What the check was asked for, in plain types, for :func:`fdcheck.replay`; empty where it cannot be replayed.
    """

    verdict: Verdict
    findings: tuple[Finding, ...]
    pairs: tuple[Pair, ...]
    coverage: Coverage
    sensitivity: float
    applies: int
    endpoint_calls: Mapping[str, int]
    seed: int
    notes: tuple[str, ...]
    versions: Mapping[str, str]
    max_failures: int = 10
    typical: float = math.nan
    diagnoses: tuple[Diagnosis, ...] = ()
    points: tuple[Point, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)

    @property
    def passed(self) -> bool:
        """Whether the verdict is a pass."""
        return self.verdict is Verdict.PASS

    def __bool__(self) -> bool:
        return self.passed

    def __repr__(self) -> str:
        worst = next(iter(self.findings), None)
        about = f": {worst.endpoint} {worst.status}, {worst.message}" if worst else ""
        return f"<fdcheck.Report {self.verdict}{about:.300}>"

    def raise_if_failed(self, allow_inconclusive: bool = False) -> None:
        """Raise unless the check passed.

        Parameters
        ----------
        allow_inconclusive : bool
            Whether an inconclusive check counts as passed.

        Raises
        ------
        DerivativeMismatch
            With the whole report as its message.
        """
        __tracebackhide__ = True  # pytest then shows the line of the test
        if not (self.passed or (allow_inconclusive and self.verdict is Verdict.INCONCLUSIVE)):
            raise DerivativeMismatch(self)

    def __str__(self) -> str:
        from fdcheck.report.text import report_text

        return report_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain dicts, lists, numbers and strings.

        Returns
        -------
        dict
            ``schema`` names the form and its version, the other keys are the fields. Complex numbers are
            ``{'re': ..., 'im': ...}``.
        """
        from fdcheck.report.plain import plain

        return {"schema": SCHEMA, **plain(self)}

    def to_json(self) -> str:
        """Return the report as one JSON document; NaN and infinities are the strings ``'nan'`` and ``'inf'``."""
        return json.dumps(self.to_dict(), indent=2, allow_nan=False)

    @classmethod
    def from_json(cls, text: str | bytes) -> Report:
        """Return the report that a JSON document holds, such as to replay one of its findings.

        Parameters
        ----------
        text : str or bytes
            What :meth:`to_json` gave.

        Raises
        ------
        InvalidInput
            If it is no such document.
        """
        from fdcheck.report.reading import report_from_json

        return report_from_json(text)
