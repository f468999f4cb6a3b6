"""Claims that are the slope of somewhere else: beyond a kink, or a difference with a step of its own."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.elementwise import Elementwise
from fdcheck.checks.patterns import Pattern, Table, lines_of
from fdcheck.numerics.differences import Column

_LIKE = 0.05
"""Part of the distance from measurement to claim within which a slope counts as the one or the other, and of a
step within which two steps are one: two numbers between 0 and 1 are that close once in ten times."""

_RESOLVED = 0.02  # part of a miss that its error bar may be, so that a step computed from it is good to 1 %

_ENTRIES = 200  # failing entries looked at for a common step: they tell what 10,000 would

_WIDEST = 2.0  # times the widest step measured that a step may be: further out the fitted curve is a guess


# the other side of a kink


def other_side(table: Table, found: Elementwise) -> Pattern | None:
    """Return whether failing claims are the slope beyond a kink near x0."""
    explained = np.zeros(table.failing.shape, np.bool_)
    text = ""
    for i, j in np.argwhere(table.failing)[:_ENTRIES]:
        column = found.measurement.columns.get(int(table.columns[j]))
        if column is None:
            continue
        row, noise = int(table.rows[i]), float(found.noise.level[table.rows[i]])
        for sign in (1, -1):
            near = _beyond(column, row, sign, float(table.claims[i, j]), float(table.estimate[i, j]), noise)
            if near is None:
                continue
            explained[i, j] = True
            if not text:
                where = "right" if sign > 0 else "left"
                entry = (
                    f"{lines_of(_at(table, i, j).T, table.outputs)[0]} by {lines_of(_at(table, i, j), table.inputs)[0]}"
                )
                text = (
                    f"beyond a kink between {near.low:.2g} and {near.high:.2g} to the {where} of x0 the slope of {entry} "
                    f"is {near.slope:.4g}, as claimed ({table.claims[i, j]:.4g}); up to it {table.estimate[i, j]:.4g}: "
                    "the claim is the slope of the other side."
                )
            break
    if not explained.any():
        return None
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
    outer = len(slopes) - int(np.argmin(np.append(claimed[::-1], False)))  # claimed from here on
    if len(slopes) - outer < 2 or not clear[outer:].all():
        return None
    inner = outer - 1 if outer and not measured[outer - 1] else outer  # at most one secant spans the kink
    if inner < 1 or not (measured | ~clear)[:inner].all() or not (measured & clear)[:inner].any():
        return None
    return _Beyond(float(at[inner]), float(at[outer]) if outer > inner else float(at[outer + 1]), float(slopes[-1]))


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


_SIDES = ((1, "forward"), (-1, "backward"), (0, "central"))


def other_step(table: Table, found: Elementwise, x: NDArray[np.float64]) -> Pattern | None:
    """Return whether all failing claims are difference quotients with one step.

    Parameters
    ----------
    table : Table
        The claims.
    found : Elementwise
        What was measured, with the slopes at each step.
    x : ndarray, shape (n,)
        The point, for steps relative to it.
    """
    entries = np.argwhere(table.failing)[:_ENTRIES]
    if len(entries) < 2:
        return None
    curves = [_curve(table, found, int(i), int(j)) for i, j in entries]
    if any(curve is None for curve in curves):
        return None
    known = [curve for curve in curves if curve is not None]
    size = np.abs(x[table.columns[entries[:, 1]]])
    for sign, word in _SIDES:
        steps = np.array([curve.step(sign) for curve in known])
        for unit, scale in (("", np.ones(len(size))), (" times |x|", size)):
            if not (scale > 0).all():
                continue
            relative = steps / scale
            middle = float(np.median(relative))
            if not (np.abs(relative - middle) <= 0.5 * _LIKE * middle).all() or not _differ(known, table, entries):
                continue
            if _contradicted(table, found, sign, middle, x if unit else None):
                continue
            text = f"all {{n}} failing claims{{in}} are what a {word} difference with step {middle:.2g}{unit} gives: "
            text += f"its step from each entry alone is {relative.min():.3g} to {relative.max():.3g}."
            return Pattern("step", text, table.failing)
    return None


def _curve(table: Table, found: Elementwise, i: int, j: int) -> _Curve | None:
    """Return how one entry's difference quotients depend on the step, None where its miss is not resolved."""
    miss = float(table.claims[i, j] - table.estimate[i, j])
    column = found.measurement.columns.get(int(table.columns[j]))
    if column is None or not np.isfinite(miss) or table.bar[i, j] > _RESOLVED * abs(miss):
        return None
    row = int(table.rows[i])
    noise = float(found.noise.level[row])
    left, right = column.sides(row)
    good = np.isfinite(left) & np.isfinite(right)
    h = (0.5 * (column.up_step + column.down_step))[good]
    if len(h) < 2:
        return None
    odd = 0.5 * (right - left)[good] / h
    even = (0.5 * (right + left)[good] - table.estimate[i, j]) / h**2
    return _Curve(
        miss, _fitted(h, odd, noise / h**2), _fitted(h, even, (noise / h + float(table.bar[i, j])) / h**2), float(h[-1])
    )


def _fitted(h: NDArray[np.float64], values: NDArray[np.float64], blur: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a + b h**2 fitted to values; zeros where they do not stand out of their blur."""
    if not (np.abs(values) > 8 * blur).any():
        return np.zeros(2)
    best = int(np.argmin(blur / np.maximum(np.abs(values), 1e-300) + (h / h[-1]) ** 2 * 1e-3))
    further = 1e-3 * abs(values[best]) * (0.1 + (h / h[-1]) ** 2)  # what the terms left out may add, far from x0
    weight = 1 / (blur + further)
    system = np.stack([np.ones_like(h), (h / h[-1]) ** 2], axis=1) * weight[:, None]
    a, b = np.linalg.lstsq(system, values * weight, rcond=None)[0]
    return np.array([a, b / h[-1] ** 2])


def _differ(curves: list[_Curve], table: Table, entries: NDArray[np.int64]) -> bool:
    """Return whether the misses are not one and the same number or factor: then one step says nothing."""
    misses = np.array([curve.miss for curve in curves])
    factors = misses / np.maximum(np.abs(table.estimate[entries[:, 0], entries[:, 1]]), 1e-300)
    return all(float(np.ptp(v)) > 2 * _LIKE * float(np.abs(v).max()) for v in (misses, factors))


def _contradicted(table: Table, found: Elementwise, sign: int, step: float, x: NDArray[np.float64] | None) -> bool:
    """Return whether an entry that agrees would have to be off, were it a quotient with that step."""
    for i, j, curve in _agreeing(table, found):
        own = step * abs(float(x[table.columns[j]])) if x is not None else step
        if abs(curve.off(sign, own) - curve.miss) > 2 * table.allowed(table.claims)[i, j] + _LIKE * abs(curve.miss):
            return True
    return False


def _agreeing(table: Table, found: Elementwise) -> Iterator[tuple[int, int, _Curve]]:
    """Yield entries that agree in columns with evidence, with their curves."""
    for i, j in np.argwhere(table.measured & ~table.failing & table.failing.any(axis=0))[:_ENTRIES]:
        loose = _curve(table.only(np.ones_like(table.failing)), found, int(i), int(j))
        if loose is not None:
            yield int(i), int(j), loose
