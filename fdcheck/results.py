"""What a check returns: findings, pairs, reports and estimates."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from fdcheck.statuses import BREACHES as BREACHES
from fdcheck.statuses import Status as Status
from fdcheck.statuses import Verdict as Verdict

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from fdcheck.evidence import Evidence

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
    tolerance : float
        How far the claim may be off beside the error bar.
    noise : float
        Standard deviation of the noise of the output.
    forced : float
        Step that the user forced on the input, NaN where fdcheck chose.
    vectors : dict of str to object
        By name, the arguments that show a breach, as the callable takes them.
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
    tolerance: float = math.nan
    noise: float = math.nan
    forced: float = math.nan
    vectors: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


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
    tolerance : float
        How far the claim of the worst entry may be off beside the error bar.
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
    tolerance: float = math.nan

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
    evidence : tuple of Evidence
        What figures are drawn from, by endpoint. Not part of :meth:`to_dict`, and without a say in equality.
    contract_calls : dict of str to int
        Calls of apply and of each endpoint that their contract took; they are among ``applies`` and ``endpoint_calls``.
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
    evidence: tuple[Evidence, ...] = field(default=(), compare=False, repr=False, metadata={"in_dict": False})
    contract_calls: Mapping[str, int] = field(default_factory=dict)

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
        from fdcheck.report.text import report_text, terminal_width

        return report_text(self, terminal_width())

    def _repr_html_(self) -> str:
        """Return what a notebook shows."""
        from fdcheck.report.html import report_fragment

        return report_fragment(self)

    def to_html(self, path: str | os.PathLike[str]) -> None:
        """Write the report as one HTML page that needs no other file and no network.

        Parameters
        ----------
        path : path-like
            File to write; an older one is replaced.

        Raises
        ------
        InvalidInput
            If Jinja2 or matplotlib is missing (``pip install 'fdcheck[report]'``).
        OSError
            If the file cannot be written.
        """
        from fdcheck.report.html import report_page, write_html

        write_html(report_page(self), path)

    def plot(
        self,
        what: str = "map",
        *,
        endpoint: str | None = None,
        finding: Finding | None = None,
        ax: Axes | None = None,
    ) -> Axes:
        """Draw a figure with matplotlib.

        Parameters
        ----------
        what : str
            ``'map'``: the Jacobian with the error of each entry as a multiple of what is allowed; ``'claims'``: claimed
            against measured entries; ``'steps'``: distance of an entry's slopes from the estimate at each step, with
            the noise floor and the claim; ``'sides'``: the slopes to both sides of x0 at each step, as at a kink.
        endpoint : str, optional
            Whose; by default the first that has something to show.
        finding : Finding, optional
            Entry for ``'steps'`` and ``'sides'``; by default the worst one, or one that agrees.
        ax : matplotlib.axes.Axes, optional
            Where to draw; by default on a new figure.

        Returns
        -------
        matplotlib.axes.Axes

        Raises
        ------
        InvalidInput
            If there is nothing of that kind to draw, or matplotlib is missing (``pip install 'fdcheck[report]'``).

        Examples
        --------
        >>> import numpy as np
        >>> import fdcheck
        >>> report = fdcheck.verify(np.sin, np.array([0.1, 0.2]), vjp=lambda x, ct: ct * np.sin(x))
        >>> ax = report.plot("claims")
        >>> ax.get_xlabel(), ax.get_ylabel()
        ('measured', 'claimed')
        """
        from fdcheck.report.plots import plot_report

        return plot_report(self, what, endpoint, finding, ax)

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
