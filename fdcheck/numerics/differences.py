"""Columns measured and decided, round by round, until every entry is decided."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fdcheck.numerics import kernels, tables
from fdcheck.numerics.compiled import decide_columns
from fdcheck.numerics.noise import Noise
from fdcheck.numerics.steps import STEP_NOISES, Accuracy, StepRange, typical_noise
from fdcheck.problem.callables import Problem
from fdcheck.problem.evaluate import Bounds, both_sides, direction_differences

_CHUNK = 2**19
"""Values (columns times outputs) of one step held at once: 4 MB a side."""

_ALONG = {2: (2.0**-5, 2.0**-2), 4: (2.0**-12, 2.0**-3), 8: (2.0**-26, 2.0**-3)}
"""Narrowest and widest step along a direction, in parts of it, by bytes of the dtype. The points are rounded, which
turns the direction by half an ulp over the step: 2e-4 of it at most in float32, and at random."""


_IS_PLAIN = np.isin(np.arange(kernels.SKIPPED + 1), (kernels.AGREES, kernels.SKIPPED))
"""By code, whether there is nothing to say of an entry."""


@dataclass(frozen=True)
class Column:
    """All that was measured of one column, smallest step first.

    Parameters
    ----------
    up_step, down_step : ndarray, shape (k,)
        Spacings really taken.
    up, down : ndarray, shape (k, m)
        f(x + h) - f(x) and f(x - h) - f(x), NaN where apply gave nothing.
    """

    up_step: NDArray[np.float64]
    down_step: NDArray[np.float64]
    up: NDArray[np.float64]
    down: NDArray[np.float64]

    def slopes(self, output: int) -> NDArray[np.float64]:
        """Return the slope of one output at each step: central, or one-sided where one side is missing."""
        up, down = self.up[:, output], self.down[:, output]
        right, left = up / self.up_step, -down / self.down_step
        central = (right * self.down_step + left * self.up_step) / (self.up_step + self.down_step)
        one_sided = np.where(np.isfinite(up), right, left)
        return np.where(np.isfinite(central), central, one_sided)

    def sides(self, output: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Return the slopes of one output to the left and to the right of x0 at each step, NaN where missing."""
        left, right = -self.down[:, output] / self.down_step, self.up[:, output] / self.up_step
        return np.where(np.isfinite(left), left, np.nan), np.where(np.isfinite(right), right, np.nan)


@dataclass(frozen=True)
class Measurement:
    """Estimates of all entries, and what they say about each endpoint's claims.

    Parameters
    ----------
    code : ndarray of int8, shape (e, m, n)
        Code of each entry for each endpoint, as in :mod:`fdcheck.numerics.kernels`.
    entry : ndarray, shape (3, m, n)
        Value, error bar and step; NaN where an entry was not measured.
    columns : dict of int to Column
        The evidence of each column in which an entry is anything but plain, and of one that is plain.
    """

    code: NDArray[np.int8]
    entry: NDArray[np.float64]
    columns: dict[int, Column] = field(default_factory=dict)

    @property
    def estimate(self) -> NDArray[np.float64]:
        """Values, shape (m, n)."""
        row: NDArray[np.float64] = self.entry[kernels.ESTIMATE]
        return row

    @property
    def error(self) -> NDArray[np.float64]:
        """Error bars, shape (m, n)."""
        row: NDArray[np.float64] = self.entry[kernels.ERROR]
        return row

    @property
    def eps(self) -> NDArray[np.float64]:
        """Steps, shape (m, n)."""
        row: NDArray[np.float64] = self.entry[kernels.STEP]
        return row


@dataclass(frozen=True)
class Rules:
    """What is known of the outputs and the inputs, and how accurate an entry has to be.

    Parameters
    ----------
    noise, steps, accuracy : Noise, StepRange, Accuracy
        As they were measured and chosen.
    least_steps : int
        Steps before an entry may agree: 1 or 2.
    bounds : Bounds
        Where apply may be evaluated.
    """

    noise: Noise
    steps: StepRange
    accuracy: Accuracy
    least_steps: int
    bounds: Bounds


def unmeasured(endpoints: int, m: int, n: int) -> Measurement:
    """Return a measurement in which every entry is still to be looked at."""
    return Measurement(np.full((endpoints, m, n), kernels.SKIPPED, np.int8), np.full((3, m, n), np.nan))


def measured_columns(result: Measurement) -> int:
    """Return how many columns were measured."""
    return int(np.isfinite(result.eps).any(axis=0).sum())


def as_index(columns: NDArray[np.int64]) -> NDArray[np.int64] | slice:
    """Return an index of ascending columns: a slice where no column is left out, which copies nothing."""
    first, last = int(columns[0]), int(columns[-1])
    return slice(first, last + 1) if last - first + 1 == len(columns) else columns


def measure_columns(
    problem: Problem,
    claims: NDArray[np.float64] | None,
    columns: NDArray[np.int64],
    first: NDArray[np.float64],
    rules: Rules,
    result: Measurement,
) -> None:
    """Measure columns at as many steps as their pending entries need, and write them into a measurement.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    claims : ndarray, shape (e, m, n), or None
        What each endpoint claims; None to measure without a claim.
    columns : ndarray of int, shape (k,)
        Real input coordinates. Cost in applies: two for each step of each.
    first : ndarray, shape (2, n)
        First steps.
    rules : Rules
        What decides.
    result : Measurement
        Receives what is found of these columns.
    """
    m = problem.outputs.size
    goal, steps = rules.accuracy, rules.steps
    against = np.full(result.code.shape, np.nan) if claims is None else np.ascontiguousarray(claims)
    outputs = _outputs_table(problem, rules)
    inputs = np.array([steps.size, steps.scale, steps.low, steps.high, goal.rtol_in])
    width = max(1, _CHUNK // m)
    for start in range(0, len(columns), width):
        chunk = columns[start : start + width]
        table = tables.empty_table(len(chunk), m)
        found = tables.Found(result.code, result.entry, np.zeros((len(chunk), 3)))
        asked = first[: rules.least_steps, chunk].T
        slots, h = np.repeat(np.arange(len(chunk)), len(asked[0])), asked.ravel()
        while slots.size:
            _take_steps(problem, chunk, table, slots, h, rules.bounds)
            moved = np.unique(slots)
            decide_columns(
                chunk[moved], moved, table, outputs, inputs, against, goal.sharp, rules.least_steps,
                claims is None, found,
            )  # fmt: skip
            if problem.budget.is_told:
                problem.budget.failing = int(np.count_nonzero(result.code == kernels.DISAGREES))
            further = list(_granted(moved, found.wish, table))
            slots, h = np.array([s for s, _ in further], np.int64), np.array([step for _, step in further])
        _keep_evidence(result, chunk, table)


@dataclass(frozen=True)
class Slope:
    """The derivative of every output along one direction.

    Parameters
    ----------
    value, error : ndarray, shape (m,)
        Estimate and error bar, NaN and infinite where there is none.
    code : ndarray of int8, shape (e, m)
        What it says of the claims of each endpoint, as in :mod:`fdcheck.numerics.kernels`; of a slope measured without
        claims, ``AGREES`` where it is as accurate as it was asked to be, else why it is not, shape (1, m).
    """

    value: NDArray[np.float64]
    error: NDArray[np.float64]
    code: NDArray[np.int8]

    @property
    def is_plain(self) -> NDArray[np.bool_]:
        """Where slopes add up: no kink, no jump, nothing undecided."""
        plain: NDArray[np.bool_] = (self.code == kernels.AGREES).all(axis=0)
        return plain


@dataclass(frozen=True)
class Goal:
    """How accurate the slope of each output has to be.

    Parameters
    ----------
    size : ndarray, shape (m,)
        About how large it is; 0 where that is not known.
    allowed : ndarray, shape (m,)
        Error bar to reach; the first step is the narrowest whose noise it allows.
    rtol, atol : ndarray, shape (m,), or None
        By how much a claim may be off; None where none is decided.
    """

    size: NDArray[np.float64]
    allowed: NDArray[np.float64]
    rtol: NDArray[np.float64] | None = None
    atol: NDArray[np.float64] | None = None

    def outputs(self, problem: Problem, noise: Noise) -> NDArray[np.float64]:
        """Return what the kernels are told of each output."""
        value, nothing = problem.value.astype(np.float64), np.zeros_like(self.size)
        row = np.where(self.size > 0, self.size, np.abs(value))
        noise, relative = typical_noise(noise, row)
        share = 10 * np.maximum(relative, noise.unit) ** (2 / 3)  # what the best central step can resolve
        rtol, atol = nothing, self.allowed
        if self.rtol is not None and self.atol is not None:
            rtol, atol, share = self.rtol, self.atol, np.minimum(share, self.rtol)
        return np.array([value, noise.level, noise.unit, rtol, atol, share, row, np.full_like(row, np.inf)])


def measure_direction(
    problem: Problem,
    direction: NDArray[np.float64],
    goal: Goal,
    noise: Noise,
    bounds: Bounds,
    claims: NDArray[np.float64] | None = None,
) -> Slope:
    """Measure the derivative of every output along a direction.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    direction : ndarray, shape (n,)
        Scaled like x0, so that steps are parts of it.
    goal : Goal
        How accurate it has to be.
    noise : Noise
        Of the outputs.
    bounds : Bounds
        Where apply may be evaluated.
    claims : ndarray, shape (e, m), or None
        What endpoints claim it to be; None to decide nothing.

    Returns
    -------
    Slope
        Cost in applies: 4 as a rule.
    """
    m = problem.outputs.size
    against = np.full((1, m), np.nan) if claims is None else claims
    outputs = goal.outputs(problem, noise)
    low, high = _ALONG.get(problem.coarsest_dtype.itemsize, _ALONG[8])
    inputs = np.array([[1.0], [1.0], [low], [high], [0.0]])
    column, table = np.zeros(1, np.int64), tables.empty_table(1, m)
    code = np.full((len(against), m, 1), kernels.PENDING, np.int8)
    found = tables.Found(code, np.full((3, m, 1), np.nan), np.zeros((1, 3)))
    level = np.where(np.isfinite(noise.level), noise.level, 0.0)
    with np.errstate(divide="ignore"):
        needed = float(np.max(STEP_NOISES * level / goal.allowed, where=goal.allowed > 0, initial=low))
    narrow = 2.0 ** round(math.log2(min(needed, high / 8.0)))
    steps = [narrow, 8.0 * narrow]
    while steps:
        _take_along(problem, direction, steps, table, bounds)
        decide_columns(
            column, column, table, outputs, inputs, against[:, :, None].copy(), np.inf, 2, claims is None, found
        )
        steps = [step for _, step in _granted(column, found.wish, table)]
    return Slope(found.entry[kernels.ESTIMATE, :, 0], found.entry[kernels.ERROR, :, 0], found.code[:, :, 0])


def _take_along(
    problem: Problem, direction: NDArray[np.float64], steps: list[float], table: tables.Table, bounds: Bounds
) -> None:
    """Evaluate both sides of steps along a direction and append them to the table."""
    multiples = np.outer(steps, [1.0, -1.0]).ravel()
    new = slice(int(table.count[0]), int(table.count[0]) + len(steps))
    found = direction_differences(problem, direction, multiples, bounds)
    table.change[:, new, 0] = found.reshape(len(steps), 2, problem.outputs.size).swapaxes(0, 1)
    table.spacing[:, new, 0] = steps
    table.count[0] = new.stop


def _outputs_table(problem: Problem, rules: Rules) -> NDArray[np.float64]:
    """Return what the kernels are told of each output, one row for each name in :mod:`fdcheck.numerics.kernels`."""
    noise, goal = rules.noise, rules.accuracy
    value = problem.value.astype(np.float64)
    return np.array([value, noise.level, noise.unit, goal.rtol_out, goal.atol, goal.share, goal.row, goal.top])


def _take_steps(
    problem: Problem,
    columns: NDArray[np.int64],
    table: tables.Table,
    slots: NDArray[np.int64],
    h: NDArray[np.float64],
    bounds: Bounds,
) -> None:
    """Evaluate both sides of each step h asked for of a slot, ascending, and append them to the table."""
    steps = table.count[slots] + np.arange(len(slots)) - np.searchsorted(slots, slots)
    table.count[:] += np.bincount(slots, minlength=len(table.count))
    change, up_step, down_step = both_sides(problem, columns[slots], h, bounds)
    table.change[:, steps, slots], table.spacing[:, steps, slots] = change, (up_step, down_step)


def _granted(slots: NDArray[np.int64], wish: NDArray[np.float64], table: tables.Table) -> Iterator[tuple[int, float]]:
    """Return the steps wished for, rounded so that x + h is exact, and none that was taken before."""
    for s in slots[wish[slots].any(axis=1)]:
        taken = list(table.spacing[kernels.UP, : table.count[s], s])
        for h in wish[s]:
            if h > 0 and len(taken) < kernels.MAX_STEPS:
                step = _unused(2.0 ** np.round(np.log2(h)), taken)
                taken.append(step)
                yield int(s), step


def _unused(h: float, taken: list[float]) -> float:
    """Return h, or the nearest step of two significant bits that is not within a tenth of one taken, else a finer one.

    A step that was taken may be wished for again: where one side of it is not finite it said nothing of both sides.
    """
    finer = (0.5**k for k in itertools.count(3))
    for factor in itertools.chain((1.0, 1.5, 0.75, 2.0, 0.5, 3.0, 0.375, 4.0, 0.25), finer):
        if all(abs(h * factor - t) > 0.1 * t for t in taken):
            break
    return h * factor


def _keep_evidence(result: Measurement, columns: NDArray[np.int64], table: tables.Table) -> None:
    """Keep the steps of columns in which something other than plain agreement was found, and of one that is plain."""
    code = result.code[:, :, as_index(columns)]
    plain = _IS_PLAIN[code].all(axis=(0, 1))
    kept = [] if plain.all() else np.flatnonzero(~plain).tolist()
    if not result.columns and len(kept) < len(columns):  # one that is plain, to be looked at beside them
        kept.append(int(np.flatnonzero(plain)[0]) if kept else len(columns) // 2)
    for slot in kept:
        size = table.count[slot]
        order = np.argsort(table.spacing[kernels.UP, :size, slot])
        result.columns[int(columns[slot])] = Column(*table.spacing[:, order, slot], *table.change[:, order, slot])
