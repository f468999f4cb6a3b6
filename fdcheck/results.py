"""What a check returns: verdicts, statuses with their messages, findings, pairs, reports and estimates."""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Self

from numpy.typing import NDArray

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


class Verdict(enum.StrEnum):
    """The answer of a whole check."""

    PASS = "pass"
    FAIL = "fail"
    INCONCLUSIVE = "inconclusive"


class Status(enum.StrEnum):
    """What was found for one entry, or which part of its contract an endpoint breaks.

    ``status.meaning`` says it in a sentence, ``status.advice`` says what to do next.
    """

    meaning: str
    advice: str

    def __new__(cls, word: str, meaning: str, advice: str) -> Self:
        """Make a member whose value is its word."""
        member = str.__new__(cls, word)
        member._value_ = word
        member.meaning = meaning
        member.advice = advice
        return member

    AGREES = "agrees", "The claim lies within tolerance and error bar of the measured derivative.", ""
    KINK = (
        "kink",
        "x0 lies at a kink; the claim lies between the one-sided slopes and is accepted as a subgradient.",
        "Nothing has to be done; check beside the kink to test each side on its own.",
    )
    JUMP = (
        "jump",
        "apply jumps at x0; the claim is the slope of one of the two sides and is accepted.",
        "Move x0 off the jump: there is no derivative at it.",
    )
    DISAGREES = (
        "disagrees",
        "The claim lies outside of tolerance and error bar of the measured derivative.",
        "Correct the code that computes this entry.",
    )
    UNDECIDED = (
        "undecided",
        "The measurement is too poor to say whether the claim is right.",
        "Reduce the noise of apply (tighter solver tolerance, float64), widen rtol, or move x0.",
    )
    NONFINITE = (
        "nonfinite",
        "apply gave NaN, an infinity or an exception, so nothing could be measured.",
        "Move x0 to where apply is finite, or set bounds.",
    )
    STRUCTURE = (
        "structure",
        "The endpoint returned a structure other than the one its convention asks for.",
        "Return the structure that the message shows.",
    )
    SHAPE = (
        "shape",
        "An array of the endpoint has another shape than its convention asks for; nothing is broadcast.",
        "Return an array of exactly that shape.",
    )
    DTYPE = (
        "dtype",
        "An array of the endpoint has a narrower dtype, or one of another kind, than the value it belongs to.",
        "Compute the derivative in the precision of the value.",
    )
    RAISED = (
        "raised",
        "A callable raised an exception.",
        "Correct the callable at the file and line that the message names.",
    )
    MUTATION = (
        "mutation",
        "A callable changed its arguments in place.",
        "Work on a copy inside the callable.",
    )
    NONLINEAR = (
        "nonlinear",
        "The answer to a sum of vectors is not the sum of the answers to each: it is no product with a Jacobian.",
        "Add the terms of all inputs or outputs, each linear in its own tangent or cotangent.",
    )
    NONDETERMINISTIC = (
        "nondeterministic",
        "A callable gave two different results at the same point.",
        "Fix the random seed inside it, or check its expectation.",
    )
    LAYOUT = (
        "layout",
        "The endpoint answers differently when the same tangent or cotangent lies otherwise in memory.",
        "Do not assume contiguous memory: make a contiguous copy, or index without strides.",
    )
    ADJOINT = (
        "adjoint",
        "jvp and vjp contradict each other: <w, J v> is not <J^T w, v>.",
        "Compare both with the measured derivative to see which one is wrong.",
    )
    BATCHED = (
        "batched",
        "The answer to a stack of tangents or cotangents is not the stack of the answers to each.",
        "Make the derivative independent of further leading axes, or do not batch it.",
    )
    ASYMMETRIC = (
        "asymmetric",
        "A second derivative is not symmetric, as every Hessian is where it is continuous.",
        "Look for a term that was differentiated in one order only.",
    )


_OF_ENTRIES = {Status.AGREES, Status.DISAGREES, Status.KINK, Status.JUMP, Status.UNDECIDED, Status.NONFINITE}
BREACHES = frozenset(Status) - _OF_ENTRIES
"""Statuses of an endpoint that broke its contract."""


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
        Smallest relative error that would have been noticed in every resolved entry of the block, and in half of them.
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
    """

    inputs: int
    inputs_measured: int
    outputs: int
    outputs_measured: int
    carried: tuple[str, ...] = ()
    elements: Mapping[str, tuple[int, int]] = field(default_factory=dict)


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
