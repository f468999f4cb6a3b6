"""Plain differences at a ladder of steps: what each step, taken alone, would have given."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.numerics.steps import StepRange
from fdcheck.problem.callables import Problem
from fdcheck.problem.evaluate import Bounds, both_sides

_TOP = -2
"""Exponent of the widest rung at first, relative to the scale: a quarter of the input."""

_RUNGS = 18
"""Bits of the dtype per bit between two rungs: three bits apart in float64, two in float32, one in float16."""

_SPARE_BITS = 3
"""Bits that the narrowest rung stays away from the last one of x, so that x + h is exact on both sides."""

CENTRAL, FORWARD = range(2)
"""The two plain differences, as the first index of arrays that hold both."""

ORDER = {CENTRAL: 2, FORWARD: 1}
"""Power of the step in the truncation error."""

SPREAD = {CENTRAL: 2.0**-0.5, FORWARD: 2.0**0.5}
"""Standard deviation of a slope times h over that of a value: two independent values, over 2 h or h."""


@dataclass(frozen=True)
class Ladder:
    """Differences of some columns at ascending steps; columns with fewer steps than others end in NaN.

    Parameters
    ----------
    step : ndarray, shape (k, c)
        Powers of two asked for.
    up_step, down_step : ndarray, shape (k, c)
        Spacings really taken.
    up, down : ndarray, shape (k, c, m)
        f(x + h) - f(x) and f(x - h) - f(x), NaN where apply gave nothing.
    """

    step: NDArray[np.float64]
    up_step: NDArray[np.float64]
    down_step: NDArray[np.float64]
    up: NDArray[np.float64]
    down: NDArray[np.float64]

    def slopes(self, kind: int) -> NDArray[np.float64]:
        """Return the central or forward slope at each step, shape (k, c, m), NaN where a side is missing."""
        if kind == FORWARD:
            found = self.up / self.up_step[:, :, None]
        else:
            found = (self.up - self.down) / (self.up_step + self.down_step)[:, :, None]
        return np.where(np.isfinite(found), found, np.nan)

    def largest(self, value: NDArray[np.float64], kind: int) -> NDArray[np.float64]:
        """Return the largest magnitude of the values that each slope is made of, shape (k, c, m)."""
        sides = (self.up,) if kind == FORWARD else (self.up, self.down)
        reached = np.abs(value) + np.zeros_like(self.up)
        for side in sides:
            reached = np.fmax(reached, np.abs(value + side))
        return reached


def first_rungs(problem: Problem, steps: StepRange) -> NDArray[np.float64]:
    """Return the steps at which every column is looked at, shape (k, n), NaN after the last of a column.

    Powers of two from a quarter of the scale down to a few ulps, twice as far apart in the lower half, where
    rounding alone rules and follows a known law.
    """
    ladders = []
    for leaf in problem.inputs.leaves:
        bits = -int(np.finfo(leaf.real_dtype).negep) - 1
        apart = -(-bits // _RUNGS)
        upper = list(range(_TOP, -bits // 2 - 1, -apart))
        lower = list(range(upper[-1] - 2 * apart, _SPARE_BITS - bits - 1, -2 * apart))
        ladders.append((leaf, np.array((upper + lower)[::-1], np.float64)))
    rungs = np.full((max(len(exponents) for _, exponents in ladders), problem.inputs.size), np.nan)
    for leaf, exponents in ladders:
        own = slice(leaf.start, leaf.stop)
        base = np.round(np.log2(steps.scale[own]))
        rungs[: len(exponents), own] = np.exp2(base + exponents[:, None])
    return rungs


def climb(problem: Problem, columns: NDArray[np.int64], step: NDArray[np.float64], bounds: Bounds) -> Ladder:
    """Evaluate both sides of columns at steps of shape (k, c), skipping NaN; two applies a step."""
    up_step, down_step = np.full(step.shape, np.nan), np.full(step.shape, np.nan)
    change = np.full((2, *step.shape, problem.outputs.size), np.nan)
    rung, slot = np.nonzero(np.isfinite(step))
    moving, h = columns[slot], step[rung, slot]
    change[:, rung, slot], up_step[rung, slot], down_step[rung, slot] = both_sides(problem, moving, h, bounds)
    return Ladder(step, up_step, down_step, *change)


def extended(ladder: Ladder, further: Ladder) -> Ladder:
    """Return two ladders of the same columns as one, ascending."""
    step = np.concatenate([ladder.step, further.step])
    order = np.argsort(step, axis=0, kind="stable")  # NaN comes last
    kept = int(np.isfinite(step).sum(axis=0).max())
    order = order[:kept]
    pairs = [(getattr(ladder, name), getattr(further, name)) for name in ("step", "up_step", "down_step")]
    flat = [np.take_along_axis(np.concatenate(pair), order, axis=0) for pair in pairs]
    deep = [
        np.take_along_axis(np.concatenate(pair), order[:, :, None], axis=0)
        for pair in ((ladder.up, further.up), (ladder.down, further.down))
    ]
    return Ladder(*flat, *deep)
