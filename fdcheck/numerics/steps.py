"""Which steps a column may take and where it starts, from scales, noise and claims."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.numerics.noise import Noise
from fdcheck.problem.callables import Problem

_SMALLEST_ULPS = 16.0
"""Narrowest step in ulps of x: the spacing really taken is then known to a sixteenth of an ulp's share."""

_RELATIVE = {2: (2.0**-2, 2.0**-14), 4: (2.0**-5, 1e-30), 8: (2.0**-5, 1e-30)}
"""By bytes of the dtype: widest first step relative to the scale, and narrowest step at x = 0. Small first
steps keep curvature, poles and kinks out; float16 has so few digits that it needs a quarter of its scale."""

STEP_NOISES = 30.0
"""Noises that the tolerance of an entry holds at its first step: the bar (3 noises) is then a tenth of the
tolerance, so a noise that was measured three times too small still decides nothing."""

_FIRST_AT_ZERO = 2.0**-44
"""Narrowest first step at x = 0 relative to the scale, where no ulp of x is a limit. Finer ones are taken only
where a step shows that they are needed."""

_WIDEST = 2.0**-2
"""Widest step of all relative to the largest scale, taken only where noise leaves no other."""

_TYPICAL = 4
"""Outputs that it takes to tell what noise is typical: an estimate from nine points is three times too low in
one of a hundred, and the rounding of one dtype is much the same in all outputs."""

_FULL = {2: (2.0**-2, 2.0**-3), 4: (2.0**-5, 2.0**-3), 8: (2.0**-11, 2.0**-9)}
"""Where a full-accuracy estimate starts, relative to the scale."""


@dataclass(frozen=True)
class StepRange:
    """Steps allowed in each column.

    Parameters
    ----------
    size, scale : ndarray, shape (n,)
        Magnitude and scale of each input coordinate: |x|, and the same or, where that is 0, the median magnitude
        of its leaf, of all leaves, or 1.
    low, first_high, high : ndarray, shape (n,)
        Narrowest step, widest first step, widest step of all.
    """

    size: NDArray[np.float64]
    scale: NDArray[np.float64]
    low: NDArray[np.float64]
    first_high: NDArray[np.float64]
    high: NDArray[np.float64]


def scales(problem: Problem) -> NDArray[np.float64]:
    """Return the scale of each input coordinate: its magnitude, or what is typical of its array where that is 0."""
    scale: NDArray[np.float64] = np.abs(problem.x).astype(np.float64, copy=False)
    for leaf in problem.inputs.leaves:
        own = scale[leaf.start : leaf.stop]
        own[own == 0] = problem.typical[0][leaf.position]
    return scale


def step_range(problem: Problem, forced: NDArray[np.float64]) -> StepRange:
    """Return the steps allowed in each column.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    forced : ndarray, shape (n,)
        Steps that the user forces, NaN where there is none. A forced step may be halved and doubled twice,
        so that it has an error bar.
    """
    n = problem.inputs.size
    x = np.abs(problem.x.astype(np.float64))
    typical_of, middle = problem.typical
    scale = scales(problem)
    low, first_high, high = np.empty(n), np.empty(n), np.empty(n)
    for leaf in problem.inputs.leaves:
        own = slice(leaf.start, leaf.stop)
        size = x[own]
        typical = typical_of[leaf.position]
        widest, at_zero = _RELATIVE.get(leaf.real_dtype.itemsize, _RELATIVE[8])
        ulp = np.spacing(size.astype(leaf.real_dtype)).astype(np.float64)
        low[own] = np.where(size > 0, _SMALLEST_ULPS * ulp, scale[own] * at_zero)
        first_high[own] = widest * np.maximum(scale[own], typical)
        high[own] = np.maximum(2 * widest, _WIDEST) * np.maximum.reduce(
            [scale[own], np.full(size.size, max(typical, middle, 1.0))]
        )
    is_forced = np.isfinite(forced)
    low = np.where(is_forced, forced / 4, low)
    first_high = np.where(is_forced, forced, first_high)
    high = np.where(is_forced, 4 * forced, high)
    return StepRange(x, scale, low, first_high, high)


@dataclass(frozen=True)
class Accuracy:
    """How accurate each entry has to be.

    Parameters
    ----------
    rtol_out : ndarray, shape (m,)
    rtol_in : ndarray, shape (n,)
        Relative tolerance asked by the dtype of the output and of the input; the larger holds.
    atol : ndarray, shape (m,)
        Absolute tolerance.
    sharp : float
        Relative accuracy to reach before an entry is decided; infinite to stop at the tolerance.
    share, row, top : ndarray, shape (m,)
        The floor of an entry's tolerance is ``share * min(row / scale, top)``: what the best central step
        can resolve, 10 (noise / row)**(2/3) of the largest scaled entry of its row, and at most rtol of it.
    """

    rtol_out: NDArray[np.float64]
    rtol_in: NDArray[np.float64]
    atol: NDArray[np.float64]
    sharp: float
    share: NDArray[np.float64]
    row: NDArray[np.float64]
    top: NDArray[np.float64]


def default_rtol(problem: Problem, rtol: float | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the relative tolerance by output and by input: the user's, or what the dtype resolves.

    A central difference at its best step has an error of about eps**(2/3), so the default is
    max(1e-3, 8 eps**(2/3)).
    """
    sides = []
    for layout in (problem.outputs, problem.inputs):
        asked = [
            max(1e-3, 8 * float(np.finfo(leaf.dtype).eps) ** (2 / 3)) if rtol is None else rtol
            for leaf in layout.leaves
        ]
        sides.append(layout.per_coordinate(asked))
    return sides[0], sides[1]


def accuracy(
    problem: Problem,
    claims: NDArray[np.float64],
    noise: Noise,
    steps: StepRange,
    rtol: float | None,
    atol: float,
    full: bool,
) -> tuple[Accuracy, Noise]:
    """Return how accurate each entry has to be, from the claims and what was measured of them.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    claims : ndarray, shape (e, m, n)
        Claims of each endpoint; ``e`` may be 0.
    noise : Noise
        As measured along one direction.
    steps : StepRange
        Scales of the inputs.
    rtol, atol : float
        Tolerances that the user asks for; None for the relative one that the dtypes resolve.
    full : bool
        Whether to measure as accurately as the function allows: to 10 eps**(2/3).

    Returns
    -------
    accuracy : Accuracy
    noise : Noise
        With levels that stand out as too low beside those of the other outputs raised to what is typical.
    """
    rtol_out, rtol_in = default_rtol(problem, rtol)
    size = np.where(np.isfinite(claims), np.abs(claims), 0.0).max(axis=0, initial=0.0, keepdims=False)
    claimed_row = (size * steps.scale).max(axis=1, initial=0.0)
    top = size.max(axis=1, initial=0.0)
    per_step = np.abs(noise.direction) / steps.scale
    length = _median_nonzero(per_step, 1.0)
    rise = np.where(np.isfinite(noise.slope_error), np.abs(noise.slope), 0.0)
    uncertain = np.where(np.isfinite(noise.slope_error), noise.slope_noise, np.inf)
    row = np.where(claimed_row > 0, np.minimum(claimed_row, 4 * (rise + uncertain) / length), 0.0)
    row = np.where(claimed_row > 0, row, np.where(rise > uncertain, 4 * rise / length, 0.0))
    row = np.where(row > 0, row, np.abs(problem.value.astype(np.float64)))
    top = np.where(top > 0, top, np.inf)
    noise, relative = typical_noise(noise, row)
    share = np.minimum(10 * np.maximum(relative, noise.unit) ** (2 / 3), rtol_out)
    sharp = 10 * float(np.finfo(problem.coarsest_dtype).eps) ** (2 / 3) if full else np.inf
    return Accuracy(rtol_out, rtol_in, np.full(len(row), atol), sharp, share, row, top), noise


def typical_noise(noise: Noise, row: NDArray[np.float64]) -> tuple[Noise, NDArray[np.float64]]:
    """Return a noise with levels that stand out as too low beside the others raised, and its levels relative to slopes.

    Parameters
    ----------
    noise : Noise
        As measured along one direction.
    row : ndarray, shape (m,)
        Size of the scaled slopes of each output.
    """
    relative = np.where(row > 0, np.minimum(noise.level / np.where(row > 0, row, 1.0), 1.0), 0.0)
    known = relative[np.isfinite(relative)]  # an output that is not finite says nothing about the others
    if len(known) < _TYPICAL:
        return noise, relative
    relative = np.maximum(relative, np.minimum(0.5 * np.median(known), 2 * noise.unit))
    return dataclasses.replace(noise, level=np.maximum(noise.level, relative * row)), relative


def first_steps(
    problem: Problem,
    claims: NDArray[np.float64],
    noise: Noise,
    steps: StepRange,
    goal: Accuracy,
    forced: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the two steps at which each column is measured first, shape (2, n)."""
    first: NDArray[np.float64] = np.empty((2, problem.inputs.size))
    if np.isfinite(goal.sharp) or not len(claims):
        for leaf in problem.inputs.leaves:
            own = slice(leaf.start, leaf.stop)
            narrow, wide = _FULL.get(leaf.real_dtype.itemsize, _FULL[8])
            first[0, own], first[1, own] = narrow * steps.scale[own], wide * steps.scale[own]
        first = np.exp2(np.round(np.log2(first)))
    else:
        first = _from_claims(claims, noise, steps, goal)
    at_zero = (problem.x == 0) & (first[0] < _FIRST_AT_ZERO * steps.scale)
    first = np.where(at_zero, np.maximum(first, np.outer([1.0, 8.0], _FIRST_AT_ZERO * steps.scale)), first)
    is_forced = np.isfinite(forced)
    first[0] = np.where(is_forced, forced, first[0])
    first[1] = np.where(is_forced, 2 * forced, first[1])
    return first


def _from_claims(claims: NDArray[np.float64], noise: Noise, steps: StepRange, goal: Accuracy) -> NDArray[np.float64]:
    """Return first steps that the noise of the outputs and the size of the claims ask for, shape (2, n).

    The first is the narrowest whose noise the tolerance of every nonzero claim allows; the second is eight times
    wider, or as wide as it takes to see an error of the size of the floor in a zero claim.
    """
    size = np.where(np.isfinite(claims), np.abs(claims), 0.0)
    floor = goal.share[:, None] * np.minimum(goal.row[:, None] / steps.scale, goal.top[:, None])
    asked = np.maximum(np.maximum(goal.rtol_out[:, None], goal.rtol_in) * size, floor)
    held = STEP_NOISES * np.where(np.isfinite(noise.level), noise.level, 0.0)[:, None]
    with np.errstate(divide="ignore", invalid="ignore"):
        narrow = np.where(size > 0, held / asked, 0.0).max(axis=(0, 1), initial=0.0)
        is_zero = (size == 0).any(axis=0) & (floor > 0)
        wide = np.zeros(size.shape[2])
        if is_zero.any():
            wide = np.where(is_zero, held / floor, 0.0).max(axis=0, initial=0.0)
    narrow = np.clip(np.where(narrow > 0, narrow, wide), steps.low, steps.first_high)
    narrow = np.exp2(np.round(np.log2(narrow)))
    wide = np.exp2(np.round(np.log2(np.clip(wide, steps.low, steps.first_high))))
    return np.stack([narrow, np.maximum(8.0 * narrow, wide)])


def _median_nonzero(values: NDArray[np.float64], default: float) -> float:
    """Return the upper median of the nonzero finite values, or a default where there is none."""
    usable = np.sort(values[(values > 0) & np.isfinite(values)])
    return float(usable[len(usable) // 2]) if usable.size else default
