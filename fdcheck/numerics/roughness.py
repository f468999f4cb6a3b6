"""Jumps along one input: does a program stop early or round, so that its own slope is not the derivative?

A solver stopped at a tolerance, or an output printed with three decimals, is smooth at tiny steps with a slope
a few per cent off (or zero), and jumps back at intervals. Its error is a sawtooth e(t) about the ideal function:
between two jumps it grows with the slope error, and a jump undoes what has grown. So a jump of size J at
distance t explains a slope error s where J is of the order of s t. No jump of that size: the slope is real.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from fdcheck.problem.callables import Problem
from fdcheck.problem.evaluate import Bounds, column_differences, targets

_POINTS = 16
"""Grid points on each side: fourth differences of a function that is smooth over its scale are then below
1e-5 of it, and a jump that explains a slope error of 1e-3 stands out."""

_LEVELS = 6
"""Grids, each a sixteenth of the one before: down to 1e-6 of the scale, where roundoff takes over (or 1e-3 for
the treads of a staircase, which show in the values that are printed)."""

_HALVINGS = 8
"""Bisections of a candidate: a smooth change shrinks 16 times over the second half of them, a jump does not."""

_SUSPECTS = 6
"""Candidates bisected on one grid: the nearest ones, since the nearest jump says most."""

_SLIGHT = 0.05
"""Slope error, relative, that a solver stopped early may have: with a larger one next to a jump, the jump is a
branch of the function and the claim is wrong."""

_QUIET = 0.02
"""Odd part of a grid, over slope error times its width, below which no jump that matters lies inside: half of a
jump at a sixteenth of the width is 0.03."""

_FEWEST, _MOST = 0.2, 20.0
"""Jump over slope error times distance. The sawtooth of a linearly convergent iteration with rate q has local
slopes between q log(1/q) / (1 - q) and log(1/q) / (1 - q) of J over its period: 0.1 to 4 for q in 0.02 ... 0.5."""


def rough_outputs(
    problem: Problem,
    column: int,
    outputs: Sequence[int],
    slope: NDArray[np.float64],
    miss: NDArray[np.float64],
    scale: float,
    noise: NDArray[np.float64],
    bounds: Bounds,
) -> NDArray[np.bool_]:
    """Return which outputs jump along a column in a way that explains how far a claim is off.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    column : int
        Real input coordinate.
    outputs : sequence of int, length k
        Real output coordinates whose claims are off.
    slope, miss : ndarray, shape (k,)
        Measured slope, and how far the claim is from it.
    scale : float
        Scale of the input: the widest grid reaches that far on both sides, or twice as far.
    noise : ndarray, shape (k,)
        Noise of those outputs.
    bounds : Bounds
        Where apply may be evaluated.

    Returns
    -------
    ndarray of bool, shape (k,)
        Cost: 36 applies a grid, one or two grids as a rule, and 8 for each suspected jump.
    """
    line = _Line(problem, column, list(outputs), bounds)
    rough = np.zeros(len(outputs), np.bool_)
    settled = ~np.isfinite(miss)
    slight = miss <= _SLIGHT * np.abs(slope)
    width = 2.0 * scale if slight.any() else scale  # the slighter the error, the further apart its jumps may be
    for level in range(_LEVELS):
        offsets = width * np.arange(-_POINTS - 2, _POINTS + 3) / _POINTS  # two more, for fourth differences
        values = line.differences(offsets)
        for k in np.flatnonzero(~settled):
            odd = np.abs(0.5 * (values[:, k] - values[::-1, k]) - slope[k] * offsets)
            limit = _QUIET * miss[k] * width
            quiet = np.nanmax(odd) <= limit or limit <= 8.0 * noise[k]
            period = scale if slight[k] else 0.0
            rough[k] = not quiet and _explains(
                line, int(k), offsets, values[:, k], float(slope[k]), float(miss[k]), float(noise[k]), period
            )
            settled[k] = quiet or rough[k]
        if settled.all():
            break
        # a staircase is flat at x0; its treads have to be met at a grid that is neither much wider nor finer
        if level == 0 and width > scale:
            width = scale
        else:
            width /= 4.0 if np.any(slope[~settled] == 0.0) else 16.0
    return rough


class _Line:
    """apply along one input, counted in single points."""

    def __init__(self, problem: Problem, column: int, outputs: list[int], bounds: Bounds) -> None:
        self._problem, self._column, self._outputs, self._bounds = problem, column, outputs, bounds

    def differences(self, offsets: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return f(x + t) - f(x) of the outputs at each offset, shape (t, k)."""
        columns = np.full(len(offsets), self._column)
        target, moved = targets(self._problem, columns, offsets, self._bounds)
        everything = np.zeros((len(offsets), self._problem.outputs.size))
        away = np.flatnonzero(offsets)
        column_differences(self._problem, columns[away], target[away], moved[away], [everything[k] for k in away])
        return everything[:, self._outputs]


def _explains(
    line: _Line,
    output: int,
    offsets: NDArray[np.float64],
    values: NDArray[np.float64],
    slope: float,
    miss: float,
    noise: float,
    period: float,
) -> bool:
    """Return whether one output has a jump on this grid that explains the slope error, or two large enough.

    A jump explains it at its own distance, or at ``period``, how far apart jumps may be, where x0 happens to
    lie close to one.
    """
    fourth = np.abs(np.diff(values, 4))
    size = np.minimum(fourth[1:], fourth[:-1]) / 3.0  # a jump of 1 between two points adds 3 to two of them
    inner = np.arange(2, 2 + len(size))  # interval k lies between grid points k and k + 1
    distance = np.maximum(np.abs(offsets[inner]), np.abs(offsets[inner + 1]))
    padded = np.pad(size, 1, constant_values=-np.inf)
    peak = (size >= padded[:-2]) & (size >= padded[2:])
    suspect = peak & (size >= 0.5 * _FEWEST * miss * distance) & (size > 8.0 * noise)
    jumps, bisected, reached = 0, 0, 0.0
    for k in inner[suspect][np.argsort(distance[suspect], kind="stable")]:
        far = float(max(abs(offsets[k]), abs(offsets[k + 1])))
        if far < 1.4 * reached or bisected == _SUSPECTS:
            continue
        around = (values[k] - values[k - 1] + values[k + 2] - values[k + 1]) / 2  # what the neighbours rise by
        nearby = float(around / (offsets[k + 1] - offsets[k]))
        for expected in (nearby, slope):  # where the neighbours jump too, their rise is no slope
            jump, place = _bisected(line, output, offsets[k : k + 2], values[k : k + 2], expected, noise)
            if jump > 0.0:
                break
        bisected += 1
        if jump > 0.0:
            reached = far
            ratio = jump / (miss * max(abs(place), 1e-300))
            jumps += ratio >= _FEWEST
            if _FEWEST <= ratio and jump <= _MOST * miss * max(abs(place), period) or jumps >= 2:
                return True
    return False


def _bisected(
    line: _Line, output: int, ends: NDArray[np.float64], values: NDArray[np.float64], slope: float, noise: float
) -> tuple[float, float]:
    """Return size and place of the jump between two points; size 0 where the change shrinks with the interval.

    A change that grows as the interval shrinks is a pole, not a jump.
    """
    a, b = ends
    fa, fb = values
    halfway = np.inf
    for halving in range(_HALVINGS):
        if halving == _HALVINGS // 2:
            halfway = abs(fb - fa - slope * (b - a))
        middle = 0.5 * (a + b)
        fm = float(line.differences(np.array([middle]))[0, output])
        if not np.isfinite(fm):
            return 0.0, middle
        left, right = abs(fm - fa - slope * (middle - a)), abs(fb - fm - slope * (b - middle))
        if left > right:
            b, fb = middle, fm
        else:
            a, fa = middle, fm
    size = abs(fb - fa - slope * (b - a))
    is_jump = size > 8.0 * noise and 0.4 * halfway < size < 4.0 * halfway
    return (size if is_jump else 0.0), 0.5 * (a + b)
