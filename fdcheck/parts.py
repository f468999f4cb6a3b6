"""What a report is made of: findings with their evidence, pairs, coverage, diagnoses, points."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from fdcheck.statuses import Status, Verdict


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
    point : int
        Where it was found: 0 for x0, else which of ``report.points``.
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
    point: int = 0
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
    tolerance: float = math.nan
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
