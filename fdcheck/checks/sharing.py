"""One step for many entries: what each step of a grid would do to all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.advice import EpsCurve
from fdcheck.numerics import balance
from fdcheck.numerics.balance import Curve
from fdcheck.numerics.steps import StepRange
from fdcheck.problem.callables import Problem


@dataclass(frozen=True)
class Shared:
    """What each step of a grid would do to the entries of a block that depend on the input.

    Parameters
    ----------
    grid : ndarray, shape (g,)
        Powers of two.
    worst, poor : ndarray, shape (g,)
        Largest relative error expected of entries with a safe range, and of those without; NaN where there are none.
    outside : ndarray of int, shape (g,)
        Entries with a safe range that does not hold the step.
    """

    grid: NDArray[np.float64]
    worst: NDArray[np.float64]
    poor: NDArray[np.float64]
    outside: NDArray[np.int64]

    def __add__(self, other: Shared) -> Shared:
        """Return what each step would do to both blocks."""
        worst, poor = np.fmax(self.worst, other.worst), np.fmax(self.poor, other.poor)
        return Shared(self.grid, worst, poor, self.outside + other.outside)

    def choice(self) -> tuple[float, float, int]:
        """Return the best step, the largest relative error there and how many entries it leaves outside.

        Fewest entries outside come first, then the smallest error; NaN where no entry has a step.
        """
        error = self.poor if np.isnan(self.worst).all() else self.worst
        usable = np.isfinite(error)
        if not usable.any():
            return float("nan"), float("nan"), 0
        fewest = usable & (self.outside == self.outside[usable].min())
        best = int(np.argmin(np.where(fewest, error, np.inf)))
        return float(self.grid[best]), float(error[best]), int(self.outside[best])


def empty_grids(problem: Problem, steps: StepRange) -> dict[tuple[int, int], Shared]:
    """Return the grids on which each block looks for a step that serves all of its entries."""
    shared = {}
    for b, source in enumerate(problem.inputs.leaves):
        own = slice(source.start, source.stop)
        low = np.log2(steps.scale[own].min()) - np.finfo(source.real_dtype).nmant
        high = np.log2(steps.high[own].max())
        grid = np.exp2(np.arange(np.floor(low), np.ceil(high) + 1))
        for a in range(len(problem.outputs.leaves)):
            nothing = np.full(len(grid), np.nan)
            shared[a, b] = Shared(grid, nothing, nothing, np.zeros(len(grid), np.int64))
    return shared


def add_columns(
    problem: Problem,
    shared: dict[tuple[int, int], Shared],
    columns: NDArray[np.int64],
    curve: Curve,
    range_: tuple[NDArray[np.float64], NDArray[np.float64]],
    reference: NDArray[np.float64],
    depends: NDArray[np.bool_],
) -> None:
    """Add some columns to what each step of the grids would do to their blocks.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    shared : dict of (int, int) to Shared
        By output leaf and input leaf; replaced by their sums.
    columns : ndarray of int, shape (c,)
        The columns.
    curve : Curve
        Errors of their central differences.
    range_ : pair of ndarray, shape (m, c)
        Ends of the safe ranges, NaN where there is none.
    reference : ndarray, shape (m, c)
        Size that relative errors refer to.
    depends : ndarray of bool, shape (m, c)
        Entries whose output the input moves and that have a derivative.
    """
    rows = [slice(leaf.start, leaf.stop) for leaf in problem.outputs.leaves]
    for b, source in enumerate(problem.inputs.leaves):
        own = np.flatnonzero((columns >= source.start) & (columns < source.stop))
        if not own.size:
            continue
        part = balance.columns_of(curve, own)
        low, high, size = range_[0][:, own], range_[1][:, own], reference[:, own]
        safe = depends[:, own] & np.isfinite(low)
        poor = depends[:, own] & np.isnan(low)
        grid = shared[0, b].grid
        found = [(np.full(len(grid), np.nan), np.full(len(grid), np.nan), np.zeros(len(grid), np.int64)) for _ in rows]
        for g, h in enumerate(grid):
            relative = relative_size(balance.expected_at(part, np.full(own.size, h)).T, size)
            out = safe & ~((low <= h) & (h <= high))
            for r, (worst, failing, outside) in zip(rows, found, strict=True):
                worst[g] = relative[r][safe[r]].max() if safe[r].any() else np.nan
                failing[g] = relative[r][poor[r]].max() if poor[r].any() else np.nan
                outside[g] = np.count_nonzero(out[r])
        for a, parts in enumerate(found):
            shared[a, b] += Shared(grid, *parts)


def keep_narrowest(
    problem: Problem,
    curves: dict[int, tuple[float, EpsCurve]],
    columns: NDArray[np.int64],
    curve: Curve,
    range_: tuple[NDArray[np.float64], NDArray[np.float64]],
    reference: NDArray[np.float64],
    depends: NDArray[np.bool_],
) -> None:
    """Keep the curve of the entry with the narrowest safe range of each input leaf.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    curves : dict of int to (float, EpsCurve)
        By input leaf, the ratio of the ends and the curve; receives those of these columns that are narrower.
    columns, curve, range_, reference, depends
        As for :func:`add_columns`.
    """
    ratio = range_[1] / range_[0]
    ratio = np.where(np.isfinite(ratio), ratio, 0.0)  # no safe range is the narrowest
    ratio[~(depends & (reference > 0))] = np.inf
    for b, source in enumerate(problem.inputs.leaves):
        own = np.flatnonzero((columns >= source.start) & (columns < source.stop))
        if not own.size:
            continue
        i, c = np.unravel_index(int(np.argmin(ratio[:, own])), (len(ratio), own.size))
        narrowest = float(ratio[i, own[c]])
        if narrowest < curves.get(b, (np.inf,))[0]:
            curves[b] = (
                narrowest,
                _curve_of(problem, curve, int(i), int(own[c]), int(columns[own[c]]), float(reference[i, own[c]])),
            )


def _curve_of(problem: Problem, curve: Curve, row: int, slot: int, column: int, size: float) -> EpsCurve:
    """Return the relative errors of one entry at the steps where there is a slope."""
    seen = np.isfinite(curve.deviation[:, slot, row])
    output, source = problem.outputs.leaf_at(row), problem.inputs.leaf_at(column)
    error, noise, truncation = (
        array[seen, slot, row] / size for array in (curve.deviation, curve.noise, curve.truncation)
    )
    return EpsCurve(
        output.path,
        output.index(row),
        source.index(column),
        curve.step[seen, slot],
        error,
        noise,
        truncation,
        float(curve.doubt[slot, row]) / size,
    )


def relative_size(error: NDArray[np.float64], reference: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return errors relative to a size that may be zero."""
    return np.divide(error, reference, out=np.where(error > 0, np.inf, 0.0), where=reference > 0)
