"""Jumps along one input, where a program stops early or rounds and its own slope is not the derivative.

A solver stopped at a tolerance, or an output printed with three decimals, is smooth at tiny steps with a slope
a few per cent off (or zero), and jumps back at intervals. Its error is a sawtooth e(t) about the ideal function:
between two jumps it grows with the slope error, and a jump undoes what has grown. So a jump of size J at
distance t explains a slope error s where J is of the order of s t. No jump of that size: the slope is real.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.problem.callables import Problem
from fdcheck.problem.evaluate import Bounds, column_differences, targets

_POINTS = 16
"""Grid points on each side: fourth differences of a function that is smooth over its scale are then below
1e-5 of it, and a jump that explains a slope error of 1e-3 stands out."""

_HALVINGS, _LAST_HALVINGS = 24, 3
"""Bisections of a candidate at most, and the last ones, over which a smooth change shrinks eight times and a jump
does not."""

_SHRUNK = 0.01
"""Part of a change at which the bisection gives up: what is left is not the jump that the grid saw."""

_SUSPECTS = 6
"""Candidates bisected on one grid: the nearest ones, since the nearest jump says most."""

_SLIGHT = 0.15
"""Slope error, relative, that a solver stopped early may have: with a larger one, one jump is a branch of the
function; a rounded output jumps on both sides of x0."""

_QUIET = 0.02
"""Odd part of a grid, over slope error times its width, below which no jump that matters lies inside: half of a
jump at a sixteenth of the width is 0.03."""

_OTHER_STORY = 0.2
"""Part of the slope error by which the slope over a wider step has to differ before it tells another story."""

_COARSE = (2.0**-7, 2.0**-5, 2.0**-3)
"""Steps, relative to the scale, over which a large slope error that jumps cause would have been undone."""

_FEWEST, _MOST = 0.2, 20.0
"""Jump over slope error times distance. The sawtooth of a linearly convergent iteration with rate q has local
slopes between q log(1/q) / (1 - q) and log(1/q) / (1 - q) of J over its period: 0.1 to 4 for q in 0.02 ... 0.5."""

_APART = (0.1, 4.0)
"""Jump over slope error times the distance of two neighbouring jumps of a staircase: 1, less where the ideal
function turns."""

_BUDGET = 400
"""Applies along one input: four grids and a dozen bisections. Only failing checks come to this, for two inputs."""

_GRAINS = 4.0
"""Narrowest interval looked at, in spacings of the numbers that x can take."""

_GRIDS = 3
"""Grids at the steps where outputs begin to tell another story, for outputs that do so at different steps."""


@dataclass(frozen=True)
class Doubt:
    """A claim of one output that is off, and what was measured of it.

    Parameters
    ----------
    output : int
        Real output coordinate.
    slope, miss : float
        Measured slope, and what the claim is more than that.
    steady : float
        Widest step up to which the measured slope was seen.
    noise : float
        Noise of the output.
    stands_still : bool
        Whether the output did not move at all at the smallest step.
    """

    output: int
    slope: float
    miss: float
    steady: float
    noise: float
    stands_still: bool

    @property
    def is_slight(self) -> bool:
        """Whether the claim is off by no more than a solver that stops early may be."""
        return abs(self.miss) <= _SLIGHT * abs(self.slope)


def rough_outputs(
    problem: Problem, column: int, doubts: Sequence[Doubt], scale: float, bounds: Bounds
) -> NDArray[np.bool_]:
    """Return which outputs jump along a column in a way that explains how far a claim is off.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    column : int
        Real input coordinate.
    doubts : sequence of Doubt, length k
        The outputs in question.
    scale : float
        Scale of the input: the widest grid reaches that far on both sides, or twice as far.
    bounds : Bounds
        Where apply may be evaluated.

    Returns
    -------
    ndarray of bool, shape (k,)
        Cost: 36 applies for each of a few grids, about 12 to find where the story changes, and 6 to 24 for each
        suspected jump; 400 at the most.
    """
    line = _Line(problem, column, bounds)
    rough = np.zeros(len(doubts), np.bool_)
    wide = 2.0 * scale if any(d.is_slight for d in doubts) else scale  # the slighter the error, the rarer its jumps
    pending = [k for k in range(len(doubts)) if math.isfinite(doubts[k].miss)]
    pending = _without_settled(line, doubts, pending, scale)
    jumps: dict[int, list[tuple[float, float]]] = {k: [] for k in pending}
    pending, _ = _after_grid(line, doubts, pending, jumps, wide, scale, rough)
    for _ in range(_GRIDS):
        if not pending:
            break
        first = pending[0]
        change = _where_story_changes(line, doubts[first], wide)
        widths = [] if change is None else [4.0 * change, 1.25 * change, 64.0 * change]
        if doubts[first].is_slight:
            widths += [scale, 0.5 * scale]  # where the function bends, finer grids show smaller jumps
        while widths and first in pending and not line.is_spent:
            width = min(widths.pop(0), wide)
            pending, jump = _after_grid(line, doubts, pending, jumps, width, scale, rough)
            apart = min(3.0 * jump / abs(doubts[first].miss), wide)
            if jump > 0.0 and abs(width - apart) > 0.1 * apart:
                widths = [apart]  # the next jumps are as far away as it takes to undo this one
        pending = [k for k in pending if k != first]
    return rough


class _Line:
    """apply along one input, on a budget; ``grain`` is the spacing of the numbers that the input can take."""

    def __init__(self, problem: Problem, column: int, bounds: Bounds) -> None:
        self._problem, self._column, self._bounds = problem, column, bounds
        leaf = problem.inputs.leaf_at(column)
        self._left = _BUDGET
        self.grain = float(np.spacing(np.abs(problem.x[column].astype(leaf.real_dtype))))

    @property
    def is_spent(self) -> bool:
        """Whether no further call may be made."""
        return self._left <= 0

    def differences(self, offsets: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return f(x + t) - f(x) of all outputs at each offset, shape (t, m)."""
        self._left -= len(offsets)
        columns = np.full(len(offsets), self._column)
        target, moved = targets(self._problem, columns, offsets, self._bounds)
        x = self._problem.x[self._column]
        target = np.where(target * x > 0, target, target if x == 0 else np.nan)  # a sign that may not change is common
        found = np.zeros((len(offsets), self._problem.outputs.size))
        away = np.flatnonzero(offsets)
        found[away] = column_differences(self._problem, columns[away], target[away], moved[away])
        return found


def _without_settled(line: _Line, doubts: Sequence[Doubt], pending: Sequence[int], scale: float) -> list[int]:
    """Return the doubts without large ones whose slope is the same over coarse steps.

    Jumps undo what the slope error has let grow, so over many of them the slope is that of the ideal function. A slight
    error may have a single jump, far away, and an output that stands still jumps alike on both sides.
    """
    large = [k for k in pending if not doubts[k].is_slight and not doubts[k].stands_still]
    if not large:
        return list(pending)
    h = np.array(_COARSE) * scale
    values = line.differences(np.concatenate([h, -h]))
    half = len(h)
    settled = set()
    for k in large:
        own = values[:, doubts[k].output]
        slopes = 0.5 * (own[:half] - own[half:]) / h
        if (np.abs(slopes - doubts[k].slope) <= _OTHER_STORY * abs(doubts[k].miss)).all():
            settled.add(k)
    return [k for k in pending if k not in settled]


def _after_grid(
    line: _Line,
    doubts: Sequence[Doubt],
    pending: Sequence[int],
    jumps: dict[int, list[tuple[float, float]]],
    width: float,
    scale: float,
    rough: NDArray[np.bool_],
) -> tuple[list[int], float]:
    """Look at a grid, add to the jumps known, and note which outputs are rough.

    Returns those left open and the largest jump of the first of them on this grid.
    """
    if not pending or width < _GRAINS * _POINTS * line.grain or line.is_spent:
        return list(pending), 0.0
    offsets = width * np.arange(-_POINTS - 2, _POINTS + 3) / _POINTS  # two more, for fourth differences
    values = line.differences(offsets)
    left: list[int] = []
    largest = 0.0
    for k in pending:
        doubt = doubts[k]
        own = values[:, doubt.output]
        odd = np.abs(0.5 * (own - own[::-1]) - doubt.slope * offsets)
        whole = np.abs(own - doubt.slope * offsets)  # where one side is all there is, or both jump alike
        odd = np.where(np.isfinite(odd) & ~doubt.stands_still, odd, whole)
        if np.nanmax(odd, initial=0.0) <= max(_QUIET * abs(doubt.miss) * width, 8.0 * doubt.noise):
            continue  # no jump that matters can hide inside of a quiet grid
        before = len(jumps[k])
        _find_jumps(line, doubt, offsets, own, jumps[k], scale)
        rough[k] = _explained(doubt, jumps[k], scale)
        if not rough[k]:
            if not left:
                largest = max((abs(jump) for jump, _ in jumps[k][before:]), default=0.0)
            left.append(k)
    return left, largest


def _where_story_changes(line: _Line, doubt: Doubt, wide: float) -> float | None:
    """Return about the smallest step whose slope is not the one measured, None if there is none up to ``wide``."""
    low, high = doubt.steady, wide
    if not 0.0 < low < high:
        return None
    while high / low > 2.0 and not line.is_spent:
        middle = math.sqrt(low * high)
        down, up = line.differences(np.array([-middle, middle]))[:, doubt.output]
        same = abs(0.5 * (up - down) / middle - doubt.slope) <= _OTHER_STORY * abs(doubt.miss)
        same = up == down == 0.0 if doubt.stands_still else same  # two sides that jump alike have slope zero too
        low, high = (middle, high) if same else (low, middle)
    return high


def _find_jumps(
    line: _Line,
    doubt: Doubt,
    offsets: NDArray[np.float64],
    values: NDArray[np.float64],
    jumps: list[tuple[float, float]],
    scale: float,
) -> None:
    """Append sizes and places of jumps of one output on a grid, nearest first, until they explain the error."""
    for k in _suspects(doubt, offsets, values):
        if line.is_spent:
            return
        around = (values[k] - values[k - 1] + values[k + 2] - values[k + 1]) / 2  # what the neighbours rise by
        nearby = float(around / (offsets[k + 1] - offsets[k]))
        for expected in (nearby, doubt.slope):  # where the neighbours jump too, their rise is no slope
            jump, place = _bisected(line, doubt, offsets[k : k + 2], values[k : k + 2], expected)
            if jump != 0.0:
                jumps.append((jump, place))
                break
        if _explained(doubt, jumps, scale):
            return


def _explained(doubt: Doubt, jumps: Sequence[tuple[float, float]], scale: float) -> bool:
    """Return whether jumps explain a slope error.

    A slight error is explained by one jump, of the right size for its own distance or, where x0 happens to lie
    close to one, for the scale. A larger error takes jumps of the right size and sign on both sides of x0.
    """
    if doubt.is_slight:
        miss = abs(doubt.miss)
        return any(_FEWEST * miss * abs(t) <= abs(j) <= _MOST * miss * max(abs(t), scale) for j, t in jumps)
    still = doubt.stands_still  # a staircase jumps both ways where the ideal function turns
    undoing = [(abs(j), t) for j, t in jumps if still or j * doubt.miss > 0.0]
    return any(
        min(i, j) >= _APART[0] * abs(doubt.miss) * (t - s)
        and (still or max(i, j) <= _APART[1] * abs(doubt.miss) * (t - s))
        and max(i, j) <= 2.0 * min(i, j)
        for j, t in undoing
        for i, s in undoing
        if s <= 0.0 < t
    )


def _suspects(doubt: Doubt, offsets: NDArray[np.float64], values: NDArray[np.float64]) -> list[int]:
    """Return the intervals of a grid that may hold a jump large enough to matter, nearest first."""
    fourth = np.abs(np.diff(values, 4))
    size = np.minimum(fourth[1:], fourth[:-1]) / 3.0  # a jump of 1 between two points adds 3 to two of them
    inner = np.arange(2, 2 + len(size))  # interval k lies between grid points k and k + 1
    distance = np.maximum(np.abs(offsets[inner]), np.abs(offsets[inner + 1]))
    padded = np.pad(size, 1, constant_values=-np.inf)
    with np.errstate(invalid="ignore"):
        peak = (size >= padded[:-2]) & (size >= padded[2:])
        suspect = peak & (size >= 0.5 * _FEWEST * abs(doubt.miss) * distance) & (size > 8.0 * doubt.noise)
    nearest = np.argsort(distance[suspect], kind="stable")[:_SUSPECTS]
    return [int(k) for k in inner[suspect][nearest]]


def _bisected(
    line: _Line, doubt: Doubt, ends: NDArray[np.float64], values: NDArray[np.float64], slope: float
) -> tuple[float, float]:
    """Return size and place of the jump between two points; size 0 where the change shrinks with the interval.

    The interval is halved until it is as narrow as the steps at which f is known to be smooth. A change that
    grows as the interval shrinks is a pole, not a jump.
    """
    (a, b), (fa, fb) = ends, values
    possible = math.floor(math.log2(b - a) - math.log2(_GRAINS * line.grain))  # finer, rounding x + t looks like a jump
    wanted = max(math.ceil(math.log2((b - a) / doubt.steady)) + _LAST_HALVINGS, 2 * _LAST_HALVINGS)
    halvings = min(wanted, possible, _HALVINGS)
    if halvings < _LAST_HALVINGS:
        return 0.0, float(0.5 * (a + b))
    whole, before = max(abs(fb - fa), abs(fb - fa - slope * (b - a))), np.inf
    for halving in range(halvings):
        if abs(fb - fa - slope * (b - a)) < _SHRUNK * whole:
            return 0.0, float(0.5 * (a + b))
        middle = 0.5 * (a + b)
        if halving == halvings - _LAST_HALVINGS:
            before = abs(fb - fa - slope * (b - a))
        fm = float(line.differences(np.array([middle]))[0, doubt.output])
        if not np.isfinite(fm):
            return 0.0, float(middle)
        left, right = abs(fm - fa - slope * (middle - a)), abs(fb - fm - slope * (b - middle))
        if left > right:
            b, fb = middle, fm
        else:
            a, fa = middle, fm
    jump = fb - fa - slope * (b - a)
    is_jump = abs(jump) > 8.0 * doubt.noise and 0.4 * before < abs(jump) < 4.0 * before
    return (float(jump) if is_jump else 0.0), float(0.5 * (a + b))
