"""Claims that are the slope of somewhere else: beyond a kink, or a difference with a step of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.elementwise import Elementwise
from fdcheck.checks.patterns import Pattern, Table, hits, lines_of
from fdcheck.numerics.differences import Column
from fdcheck.problem.callables import Problem
from fdcheck.problem.evaluate import both_sides

_LIKE = 0.05
"""Part of the distance from measurement to claim within which a slope counts as the one or the other, and of a
step within which two steps are one: two numbers between 0 and 1 are that close once in ten times."""

_BEYOND = 2  # slopes beyond a kink that have to be the claimed one: a smooth bend passes a value once

_RESOLVED = 0.02  # part of a miss that its error bar may be, so that a step computed from it is good to 1 %

_ENTRIES = 200  # failing entries looked at for a common step: they tell what 10,000 would

_WIDEST = 2.0  # times the widest step measured that a step may be: further out the fitted curve is a guess


_COLUMNS = 4  # columns looked at further out: a step or a kink is that of two entries as well as of all

_WIDE = tuple(2.0**-k for k in range(11, -1, -1))
"""Steps relative to the widest one allowed. Claims are decided at steps so small that neither curvature nor a kink
near x0 shows; a diagnosis looks for just these."""


def wide_columns(problem: Problem, found: Elementwise, table: Table) -> dict[int, Column]:
    """Measure a few failing columns at wide steps and return them with the evidence that there is.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    found : Elementwise
        What was measured.
    table : Table
        The claims that fail.

    Returns
    -------
    dict of int to Column
        Cost in applies: 24 a column, of four columns at the most; others than failing ones only to fill up.
    """
    order = np.argsort(~hits(table.failing, 0), kind="stable")
    wanted = table.columns[order[hits(table.measured, 0)[order]] if table.failing.sum() > 1 else order[:1]]
    free = wanted[np.isnan(found.forced[wanted])]  # a step that the user forces is all that may be taken
    kept = problem.course.raised, problem.course.changed
    result = {int(j): _widened(problem, found, int(j)) for j in free[:_COLUMNS]}
    problem.course.raised, problem.course.changed = kept  # what apply does out there is no part of the check
    return result


def _widened(problem: Problem, found: Elementwise, j: int) -> Column:
    """Return the evidence of a column with wide steps added."""
    h = 2.0 ** np.floor(np.log2(found.rules.steps.high[j])) * np.array(_WIDE)
    seen = found.measurement.columns.get(j)
    if seen is not None:
        h = h[~np.isin(h, seen.up_step)]
    change, up_step, down_step = both_sides(problem, np.full(len(h), j, np.int64), h, found.rules.bounds)
    wide = Column(up_step, down_step, *change)
    return wide if seen is None else _merged(seen, wide)


def _merged(a: Column, b: Column) -> Column:
    """Return the steps of both, smallest first."""
    up_step, down_step = np.append(a.up_step, b.up_step), np.append(a.down_step, b.down_step)
    order = np.unique(up_step, return_index=True)[1]
    up, down = np.concatenate([a.up, b.up]), np.concatenate([a.down, b.down])
    return Column(up_step[order], down_step[order], up[order], down[order])


# the other side of a kink


def other_side(table: Table, found: Elementwise, columns: Mapping[int, Column]) -> Pattern | None:
    """Return whether failing claims are the slope beyond a kink near x0."""
    explained = np.zeros(table.failing.shape, np.bool_)
    text = ""
    for i, j in np.argwhere(table.failing)[:_ENTRIES]:
        column = columns.get(int(table.columns[j]))
        if column is None:
            continue
        row, noise = int(table.rows[i]), float(found.rules.noise.level[table.rows[i]])
        for sign in (1, -1):
            claim, estimate = float(table.claims[i, j]), float(table.estimate[i, j])
            near = _beyond(column, row, sign, claim, estimate, noise)
            if near is None or _beyond(column, row, -sign, claim, estimate, noise) is not None:
                continue  # the same slope on both sides is a ripple, not a kink
            explained[i, j] = True
            if not text:
                where = "right" if sign > 0 else "left"
                own = _at(table, i, j)
                entry = f"{lines_of(own.T, table.outputs)[0]} by {lines_of(own, table.inputs)[0]}"
                text = (
                    f"beyond a kink between {near.low:.2g} and {near.high:.2g} to the {where} of x0 the slope of "
                    f"{entry} is {near.slope:.4g}, as claimed ({table.claims[i, j]:.4g}), up to it "
                    f"{table.estimate[i, j]:.4g}: "
                    "the claim is the slope of the other side."
                )
            break
    if not explained.any():
        return None
    looked_at = table.failing & np.isin(table.columns, list(columns))
    if (explained == looked_at).all():
        explained = table.failing.copy()  # columns that were not looked at fail in the same way
    several = "" if explained.sum() == 1 else " The same holds in {n} entries."
    return Pattern("other side", text + several, explained)


def _at(table: Table, i: int, j: int) -> NDArray[np.bool_]:
    mask = np.zeros(table.failing.shape, np.bool_)
    mask[i, j] = True
    return mask


@dataclass(frozen=True)
class _Beyond:
    """A kink between two distances, and the slope beyond it."""

    low: float
    high: float
    slope: float


def _beyond(column: Column, row: int, sign: int, claim: float, estimate: float, noise: float) -> _Beyond | None:
    """Return where, on one side, the slope between neighbouring points turns from the estimate to the claim."""
    steps, change = (column.up_step, column.up) if sign > 0 else (column.down_step, column.down)
    good = np.isfinite(change[:, row]) & (steps > 0)
    at, rise = np.append(0.0, steps[good]), np.append(0.0, sign * change[good, row])
    if len(at) < 4:
        return None
    with np.errstate(divide="ignore", invalid="ignore"):
        slopes, blur = np.diff(rise) / np.diff(at), 3 * noise / np.diff(at)
    close = _LIKE * abs(claim - estimate)
    clear = blur < close
    claimed, measured = np.abs(slopes - claim) < close, np.abs(slopes - estimate) < close
    inner = int(np.argmin(np.append(measured | ~clear, False)))  # secants that lie before the kink
    outer = inner if inner < len(slopes) and claimed[inner] else inner + 1  # at most one spans it
    beyond = slice(outer, outer + _BEYOND)
    if not (measured & clear)[:inner].any() or (claimed & clear)[beyond].sum() < _BEYOND:
        return None
    low, high = (inner, outer) if outer > inner else (inner - 1, inner + 1)
    return _Beyond(float(at[low]), float(at[high]), float(slopes[outer + 1]))


# a difference with another step


@dataclass(frozen=True)
class _Curve:
    """How the difference quotients of one entry move away from the slope as the step h grows.

    ``odd[0] h + odd[1] h**3`` is half the gap of the two sides, ``even[0] h**2 + even[1] h**4`` what the central
    quotient is off by.
    """

    miss: float
    odd: NDArray[np.float64]
    even: NDArray[np.float64]
    widest: float

    def off(self, sign: int, h: float) -> float:
        """Return how far a quotient is off: forward 1, backward -1, central 0."""
        a, b = self.odd, self.even
        return float(sign * (a[0] * h + a[1] * h**3) + b[0] * h**2 + b[1] * h**4)

    def step(self, sign: int) -> float:
        """Return the smallest step at which a quotient equals the claim, NaN if there is none."""
        a, b = self.odd, self.even
        roots = np.roots([b[1], sign * a[1], b[0], sign * a[0], -self.miss])
        real = roots.real[(np.abs(roots.imag) < 1e-6 * np.abs(roots)) & (roots.real > 0)]
        real = real[real < _WIDEST * self.widest]
        return float(real.min()) if len(real) else float("nan")


_ROUND = 0.02  # relative distance from a number of one digit within which a step counts as chosen by a person

_SIDES = ((1, "forward"), (-1, "backward"), (0, "central"))


def other_step(
    table: Table, found: Elementwise, columns: Mapping[int, Column], x: NDArray[np.float64]
) -> Pattern | None:
    """Return whether failing claims are difference quotients with one step, in all columns that are looked at.

    Parameters
    ----------
    table : Table
        The claims.
    found : Elementwise
        What was measured.
    columns : dict of int to Column
        Columns that are looked at, with wide steps.
    x : ndarray, shape (n,)
        The point, for steps relative to it.
    """
    seen = np.isin(table.columns, list(columns))
    entries = np.argwhere(table.failing & seen)[:_ENTRIES]
    if len(entries) < 2:
        return None
    curves = [_curve(table, found, columns, int(i), int(j)) for i, j in entries]
    if any(curve is None for curve in curves):
        return None
    known = [curve for curve in curves if curve is not None]
    size = np.abs(x[table.columns[entries[:, 1]]])
    readings: list[tuple[bool, str, str]] = []
    for sign, word in _SIDES:
        steps = np.array([curve.step(sign) for curve in known])
        for unit, scale in (("", np.ones(len(size))), (" times |x|", size)):
            if not (scale > 0).all():
                continue
            relative = steps / scale
            middle = float(np.median(relative))
            if not (np.abs(relative - middle) <= 0.5 * _LIKE * middle).all() or not _differ(known, table, entries):
                continue
            if _contradicted(table, found, columns, sign, middle, x if unit else None):
                continue
            crooked = abs(float(f"{middle:.0e}") / middle - 1) > _ROUND  # people choose steps like 1e-2
            each = f"each entry alone gives {relative.min():.3g} to {relative.max():.3g}"
            if unit and any(name.startswith(f"a {word} ") for _, name, _ in readings):
                continue
            readings.append((crooked, f"a {word} difference with step {middle:.2g}{unit}", each))
    if not readings:
        return None
    readings.sort(key=lambda reading: reading[0])
    some = "" if len(entries) == table.failing.sum() else " that were looked at"
    others = "".join(f", or {name}" for _, name, _ in readings[1:])
    text = f"all {{n}} failing claims{{in}}{some} are {readings[0][1]} ({readings[0][2]}){others}."
    explained = np.zeros(table.failing.shape, np.bool_)
    explained[entries[:, 0], entries[:, 1]] = True
    return Pattern("step", text, explained)


def _curve(
    table: Table, found: Elementwise, columns: Mapping[int, Column], i: int, j: int, resolved: float = _RESOLVED
) -> _Curve | None:
    """Return how one entry's difference quotients depend on the step, None where its miss is not resolved."""
    miss = float(table.claims[i, j] - table.estimate[i, j])
    column = columns.get(int(table.columns[j]))
    if column is None or not np.isfinite(miss) or table.bar[i, j] > resolved * abs(miss):
        return None
    row = int(table.rows[i])
    noise = float(found.rules.noise.level[row])
    left, right = column.sides(row)
    good = np.isfinite(left) & np.isfinite(right)
    h = (0.5 * (column.up_step + column.down_step))[good]
    if len(h) < 2:
        return None
    odd = 0.5 * (right - left)[good] / h
    even = (0.5 * (right + left)[good] - table.estimate[i, j]) / h**2
    least = 1.5 * _RESOLVED * abs(miss)  # half as much again as the bar may be
    bent, odd_widest = _fitted(h, odd, noise / h**2, least / h)
    curved, even_widest = _fitted(h, even, (noise / h + float(table.bar[i, j])) / h**2, least / h**2)
    return _Curve(miss, bent, curved, min(odd_widest, even_widest))


def _fitted(
    h: NDArray[np.float64], values: NDArray[np.float64], blur: NDArray[np.float64], least: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Return a + b h**2 fitted to values up to the widest step where it fits, and that step.

    Zeros where values are all blur, or nothing fits and they are ``least`` or less: no part of a miss comes of them.
    """
    if not (np.abs(values) > 8 * blur).any():
        return np.zeros(2), float(h[-1])
    for last in range(len(h), 2, -1):
        own = slice(0, last)
        clear = blur[own] < _RESOLVED * np.abs(values[own])
        size = np.abs(values[own][clear]).max(initial=0.0) or abs(values[last - 1])  # the widest has the least blur
        unit = float(h[last - 1])
        weight = 1 / (blur[own] + 1e-3 * size * (0.1 + (h[own] / unit) ** 2))  # terms left out grow with the step
        system = np.stack([np.ones(last), (h[own] / unit) ** 2], axis=1)
        fit = np.linalg.lstsq(system * weight[:, None], values[own] * weight, rcond=None)[0]
        rest = np.abs(system @ fit - values[own])
        if clear.any() and (rest <= 3 * blur[own] + _RESOLVED * size)[clear].all():
            return np.array([fit[0], fit[1] / unit**2]), unit
    small = (np.abs(values) <= least)[blur <= least]
    steps = np.append(0.0, h[blur <= least])
    return np.zeros(2), float(steps[int(np.argmin(np.append(small, False)))])


def _differ(curves: list[_Curve], table: Table, entries: NDArray[np.int64]) -> bool:
    """Return whether the misses are not one and the same number or factor: then one step says nothing."""
    misses = np.array([curve.miss for curve in curves])
    factors = misses / np.maximum(np.abs(table.estimate[entries[:, 0], entries[:, 1]]), 1e-300)
    return all(float(np.ptp(v)) > 2 * _LIKE * float(np.abs(v).max()) for v in (misses, factors))


def _contradicted(
    table: Table,
    found: Elementwise,
    columns: Mapping[int, Column],
    sign: int,
    step: float,
    x: NDArray[np.float64] | None,
) -> bool:
    """Return whether an entry that agrees would have to be off, were it a quotient with that step."""
    for i, j, curve in _agreeing(table, found, columns):
        own = step * abs(float(x[table.columns[j]])) if x is not None else step
        if abs(curve.off(sign, own) - curve.miss) > 2 * table.allowed(table.claims)[i, j] + _LIKE * abs(curve.miss):
            return True
    return False


def _agreeing(table: Table, found: Elementwise, columns: Mapping[int, Column]) -> Iterator[tuple[int, int, _Curve]]:
    """Yield entries that agree in columns with evidence, with their curves."""
    seen = np.isin(table.columns, list(columns))
    for i, j in np.argwhere(table.measured & ~table.failing & seen)[:_ENTRIES]:
        loose = _curve(table, found, columns, int(i), int(j), np.inf)
        if loose is not None:
            yield int(i), int(j), loose
