"""Columns measured and decided, round by round, until every entry is decided."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fdcheck.numerics import kernels, tables
from fdcheck.numerics.compiled import decide_columns
from fdcheck.numerics.noise import Noise
from fdcheck.numerics.steps import Accuracy, StepRange
from fdcheck.problem.callables import Problem
from fdcheck.problem.evaluate import Bounds, column_differences, targets

_CHUNK = 2**19
"""Values (columns times outputs) of one step held at once: 4 MB a side."""


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
    estimate, error, eps : ndarray, shape (m, n)
        Value, error bar and step.
    columns : dict of int to Column
        The evidence of each column in which an entry is anything but plain.
    """

    code: NDArray[np.int8]
    estimate: NDArray[np.float64]
    error: NDArray[np.float64]
    eps: NDArray[np.float64]
    columns: dict[int, Column] = field(default_factory=dict)


def measure_columns(
    problem: Problem,
    claims: NDArray[np.float64] | None,
    noise: Noise,
    steps: StepRange,
    goal: Accuracy,
    first: NDArray[np.float64],
    least: int,
    bounds: Bounds,
) -> Measurement:
    """Measure every column at as many steps as its entries need.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    claims : ndarray, shape (e, m, n), or None
        What each endpoint claims; None to measure without a claim.
    noise, steps, goal : Noise, StepRange, Accuracy
        What is known of the outputs, the inputs and the accuracy to reach.
    first : ndarray, shape (2, n)
        First steps.
    least : int
        Steps before an entry may agree: 1 or 2.
    bounds : Bounds
        Where apply may be evaluated.

    Returns
    -------
    Measurement
        Cost in applies: two for each step of each column.
    """
    m, n = problem.outputs.size, problem.inputs.size
    against = np.full((1, m, n), np.nan) if claims is None else np.ascontiguousarray(claims)
    code = np.zeros((len(against), m, n), np.int8)
    entry = np.empty((3, m, n))
    result = Measurement(code, entry[kernels.ESTIMATE], entry[kernels.ERROR], entry[kernels.STEP])
    value = problem.value.astype(np.float64)
    outputs = np.array([value, noise.level, noise.unit, goal.rtol_out, goal.share, goal.row, goal.top])
    inputs = np.array([steps.size, steps.scale, steps.low, steps.high, goal.rtol_in])
    width = max(1, min(n, _CHUNK // m))
    for start in range(0, n, width):
        columns = np.arange(start, min(n, start + width))
        table = tables.empty_table(len(columns), m)
        wish = np.zeros((len(columns), 3))
        requests = [(s, float(first[k, columns[s]])) for s in range(len(columns)) for k in range(least)]
        while requests:
            _take_steps(problem, columns, table, requests, bounds)
            slots = np.unique(np.array([s for s, _ in requests], np.int64))
            decide_columns(
                columns[slots], slots, table, outputs, inputs, against, goal.atol, goal.sharp, least,
                claims is None, tables.Found(code, entry, wish),
            )  # fmt: skip
            requests = list(_granted(slots, wish, table))
        _keep_evidence(result, columns, table)
    return result


def _take_steps(
    problem: Problem,
    columns: NDArray[np.int64],
    table: tables.Table,
    requests: list[tuple[int, float]],
    bounds: Bounds,
) -> None:
    """Evaluate both sides of each requested (slot, step) and append them to the table."""
    slots = np.array([s for s, _ in requests], np.int64)
    h = np.array([v for _, v in requests])
    moving = columns[slots]
    above, up_step = targets(problem, moving, h, bounds)
    below, down_step = targets(problem, moving, -h, bounds)
    above[up_step == 0], below[down_step == 0] = np.nan, np.nan  # a step below half an ulp measures nothing
    count = table.count.tolist()
    at = []
    for slot in slots.tolist():
        at.append((count[slot], slot))
        count[slot] += 1
    table.count[:] = count
    steps, own = np.array(at).T
    table.spacing[:, steps, own] = up_step, -down_step
    rows_up, rows_down = ([side[k] for k in at] for side in table.change)
    column_differences(problem, moving, above, up_step, rows_up)
    column_differences(problem, moving, below, down_step, rows_down)


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
    """Return h, or the nearest step of two significant bits that is not within a tenth of one taken."""
    for factor in (1.0, 1.5, 0.75, 2.0, 0.5, 3.0, 0.375, 4.0, 0.25):
        if all(abs(h * factor - t) > 0.1 * t for t in taken):
            return h * factor
    return h / 8


def _keep_evidence(result: Measurement, columns: NDArray[np.int64], table: tables.Table) -> None:
    """Keep the steps of columns in which something other than plain agreement was found."""
    plain = np.all(result.code[:, :, columns] == kernels.AGREES, axis=(0, 1))
    for slot in np.flatnonzero(~plain):
        size = table.count[slot]
        order = np.argsort(table.spacing[kernels.UP, :size, slot])
        result.columns[int(columns[slot])] = Column(*table.spacing[:, order, slot], *table.change[:, order, slot])
