"""Steps recommended for every entry: an accurate estimate first, then what plain differences make of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from fdcheck.advice import EpsCurve
from fdcheck.checks.elementwise import Elementwise, Limits, measure
from fdcheck.checks.plan import Plan
from fdcheck.checks.sharing import Shared, add_columns, empty_grids, keep_narrowest, relative_size
from fdcheck.numerics import balance, kernels
from fdcheck.numerics.balance import Curve, Range
from fdcheck.numerics.ladder import CENTRAL, FORWARD, Ladder, climb, extended, first_rungs
from fdcheck.numerics.steps import accuracy
from fdcheck.problem.callables import Problem
from fdcheck.settings import Settings

_CHUNK = 2**17
"""Values of one rung held at once; a curve holds about ten arrays of twenty rungs, 200 MB at this size."""

_FINER = 6
"""Steps added to a column around the best of its rungs, half and twice as far apart; two applies each."""

_FURTHER = 6
"""Rungs added to a column above the widest while noise still rules there, or at x = 0 below the narrowest while
truncation does."""

_WORTH_IT = 4.0
"""Last digits of a slope within which it is as good as any wider step could make it."""

_NOISY = 8.0
"""Roundings of an output's value above which its noise is called noise: a few operations leave as much."""

_RULES = 10.0
"""Factor by which truncation exceeds noise where it alone leaves no safe step: no narrower one could be taken."""

_TINY = float(np.finfo(np.float64).tiny)

_UNSURE = (kernels.NOISE, kernels.CURVATURE, kernels.EDGE)
"""Codes of entries whose estimate is too poor to say how good a plain difference is."""

USUAL = {
    "1e-4": CENTRAL,
    "1e-6": CENTRAL,
    "scipy 2-point": FORWARD,
    "scipy 3-point": CENTRAL,
}
"""Steps that people take without looking, and the difference that they take them for."""

BELOW = ("", "rounding", "noise", "resolution")
ABOVE = ("", "curvature", "kink", "jump", "domain edge", "bounds", "range")
REASONS = ("", "noise", "curvature", "kink", "jump", "domain edge", "bounds", "nonfinite")
"""What ends a safe range below and above, and why there is none."""


@dataclass(frozen=True)
class Recommended:
    """What was found for every entry, arrays of shape (m, n), or (2, m, n) for central and forward differences.

    Parameters
    ----------
    found : Elementwise
        The accurate measurement.
    reference : ndarray
        Size that relative errors refer to: the derivative, or what of it matters beside the rest of its row.
    step, error, low, high : ndarray, shape (2, m, n)
        Best step, error expected there, and the ends of the safe range; NaN where there is none.
    below, above, reason : ndarray of int8
        Indices into BELOW, ABOVE and REASONS, for central differences.
    usual : ndarray, shape (4, m, n)
        Relative error expected at each of the USUAL steps.
    measured : ndarray of bool, shape (m, n)
        Entries that were looked at.
    depends : ndarray of bool, shape (m, n)
        Entries whose output was moved by the input at all; for the others every step will do.
    shared : dict of (int, int) to Shared
        One step for all entries of an output leaf and an input leaf.
    curves : dict of int to (float, EpsCurve)
        By input leaf, the entry with the narrowest safe range: the ratio of its ends, and its curve.
    """

    found: Elementwise
    reference: NDArray[np.float64]
    step: NDArray[np.float64]
    error: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    below: NDArray[np.int8]
    above: NDArray[np.int8]
    reason: NDArray[np.int8]
    usual: NDArray[np.float64]
    measured: NDArray[np.bool_]
    depends: NDArray[np.bool_]
    shared: dict[tuple[int, int], Shared]
    curves: dict[int, tuple[float, EpsCurve]] = field(default_factory=dict)


def recommend(problem: Problem, settings: Settings, limits: Limits, plan: Plan) -> Recommended:
    """Measure every entry, then every column at a ladder of plain steps, and choose.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    settings : Settings
        Relative tolerance and seed.
    limits : Limits
        Bounds; no steps are forced.
    plan : Plan
        Columns to look at.

    Returns
    -------
    Recommended
        Cost in applies: those of the measurement, then 24 rungs and 12 finer ones an input in float64.
    """
    found = measure(problem, None, settings, limits, plan)
    m, n = problem.outputs.size, problem.inputs.size
    estimate = np.where(np.isfinite(found.measurement.estimate), found.measurement.estimate, 0.0)
    goal, _ = accuracy(problem, estimate[None], found.rules.noise, found.rules.steps, settings.rtol, 0.0, True)
    rtol = np.maximum(goal.rtol_out[:, None], goal.rtol_in)
    seen = estimate.any(axis=1, keepdims=True)  # else the row has no size but that of the value, which says nothing
    floor = np.where(
        seen, goal.share[:, None] * np.minimum(goal.row[:, None] / found.rules.steps.scale, goal.top[:, None]), 0
    )
    tolerance = np.maximum(rtol * np.abs(estimate), floor)
    reference = np.divide(tolerance, rtol, out=np.zeros((m, n)), where=rtol > 0)
    step, error, low, high = (np.full((2, m, n), np.nan) for _ in range(4))
    below, above, reason = (np.zeros((m, n), np.int8) for _ in range(3))
    usual = np.full((len(USUAL), m, n), np.nan)
    depends = np.zeros((m, n), np.bool_)
    depends[:, plan.columns] = True
    shared = empty_grids(problem, found.rules.steps)
    measured = depends.copy()
    result = Recommended(
        found, reference, step, error, low, high, below, above, reason, usual, measured, depends, shared
    )
    rungs = first_rungs(problem, found.rules.steps)
    width = max(1, _CHUNK // m)
    for start in range(0, len(plan.columns), width):
        columns = plan.columns[start : start + width]
        ladder = _full_ladder(problem, found, columns, rungs[:, columns], limits)
        floor = goal.share * balance.variation(ladder, found.rules.steps.scale[columns])
        tolerance[:, columns] = np.maximum(tolerance[:, columns], floor.T)
        reference[:, columns] = np.maximum(reference[:, columns], floor.T / np.maximum(rtol[:, columns], _TINY))
        _fill_in(problem, result, columns, ladder, tolerance[:, columns].T, limits)
    return result


def _full_ladder(
    problem: Problem, found: Elementwise, columns: NDArray[np.int64], rungs: NDArray[np.float64], limits: Limits
) -> Ladder:
    """Return the differences of columns at their rungs, beyond them if the best may lie there, and around it."""
    ladder = climb(problem, columns, rungs, limits.bounds)
    for _ in range(_FURTHER):
        further = _further(problem, found, columns, ladder)
        if not np.isfinite(further).any():
            break
        ladder = extended(ladder, climb(problem, columns, further[None], limits.bounds))
    curve = _curve(problem, found, columns, ladder, CENTRAL)
    best = np.argmin(curve.expected, axis=0)
    finer = _finer(ladder.step, np.where(np.isfinite(curve.expected.min(axis=0)), best, -1))
    return extended(ladder, climb(problem, columns, finer, limits.bounds))


def _curve(problem: Problem, found: Elementwise, columns: NDArray[np.int64], ladder: Ladder, kind: int) -> Curve:
    """Return the error curve of columns."""
    value = problem.value.astype(np.float64)
    estimate, bar = found.measurement.estimate[:, columns].T, found.measurement.error[:, columns].T
    return balance.error_curve(ladder, kind, estimate, bar, value, found.rules.noise.level, found.rules.noise.unit)


def _further(problem: Problem, found: Elementwise, columns: NDArray[np.int64], ladder: Ladder) -> NDArray[np.float64]:
    """Return one more step, shape (c,), for columns whose best step may lie outside of their ladder; else NaN."""
    curve = _curve(problem, found, columns, ladder, CENTRAL)
    top = np.nanmax(ladder.step, axis=0)
    wider, narrower = 8.0 * top, ladder.step[0] / 8.0
    estimate = np.abs(found.measurement.estimate[:, columns].T)
    least = curve.expected.min(axis=0)
    poor = least > _WORTH_IT * found.rules.noise.unit * np.maximum(estimate, _TINY)
    still = ~_moved(ladder).any(axis=1)  # a wider step may move something yet
    falling = (still | (balance.is_falling(curve) & poor).any(axis=1)) & (wider <= found.rules.steps.high[columns])
    ruled = np.isfinite(least) & (curve.truncation[0] > curve.noise[0]) & (np.argmin(curve.expected, axis=0) == 0)
    shrinking = ruled.any(axis=1) & (problem.x[columns] == 0) & (narrower > 0)
    return np.where(falling, wider, np.where(shrinking, narrower, np.nan))


def _moved(ladder: Ladder) -> NDArray[np.bool_]:
    """Return which outputs, shape (c, m), any step of a column moved at all."""
    moved: NDArray[np.bool_] = np.any((np.nan_to_num(ladder.up) != 0) | (np.nan_to_num(ladder.down) != 0), axis=0)
    return moved


def _finer(step: NDArray[np.float64], best: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the steps, shape (k, c), around the best rungs of each column for which most outputs ask."""
    finer = np.full((_FINER, step.shape[1]), np.nan)
    for c, rungs in enumerate(best):
        around = np.concatenate([step[rungs[rungs >= 0], c] * factor for factor in (0.5, 2.0, 0.25, 4.0)])
        asked, votes = np.unique(around[~np.isin(around, step[:, c])], return_counts=True)
        chosen = asked[np.argsort(-votes, kind="stable")[:_FINER]]
        finer[: len(chosen), c] = chosen
    return finer


def _fill_in(
    problem: Problem,
    result: Recommended,
    columns: NDArray[np.int64],
    ladder: Ladder,
    tolerance: NDArray[np.float64],
    limits: Limits,
) -> None:
    """Write what the ladder of some columns says into the result."""
    found = result.found
    is_repeatable = found.rules.noise.scatter == 0
    code = found.measurement.code[0][:, columns].T
    derivative = ~np.isin(code, (kernels.KINK, kernels.JUMP, kernels.NONFINITE))
    _sharpen(problem, found, columns, ladder)
    curves = [_curve(problem, found, columns, ladder, kind) for kind in (CENTRAL, FORWARD)]
    for kind, curve in enumerate(curves):
        safe = balance.safe_range(curve, tolerance)
        rung, error = balance.best_rung(curve, safe, is_repeatable)
        error = np.where(np.isin(code, _UNSURE), np.maximum(error, curve.doubt), error)
        arrays = (balance.step_of(curve, rung), error, safe.low, safe.high)
        for target, array in zip((result.step, result.error, result.low, result.high), arrays, strict=True):
            target[kind][:, columns] = np.where(derivative, array, np.nan).T
        if kind == CENTRAL:
            outside = _outside(problem, columns, ladder, limits)
            reasons = _reasons(problem, found, columns, curve, safe, outside)
            for codes, words in zip((result.below, result.above, result.reason), reasons, strict=True):
                codes[:, columns] = words.T
    result.depends[:, columns] = _moved(ladder).T
    _usual(problem, result, columns, curves, derivative)
    ends = (result.low[CENTRAL][:, columns], result.high[CENTRAL][:, columns])
    moving = result.depends[:, columns] & np.isfinite(result.step[CENTRAL][:, columns])
    add_columns(problem, result.shared, columns, curves[CENTRAL], ends, result.reference[:, columns], moving)
    keep_narrowest(problem, result.curves, columns, curves[CENTRAL], ends, result.reference[:, columns], moving)


def _sharpen(problem: Problem, found: Elementwise, columns: NDArray[np.int64], ladder: Ladder) -> None:
    """Replace estimates by sharper ones that the ladder gives, where apply has a derivative."""
    measurement = found.measurement
    curve = _curve(problem, found, columns, ladder, CENTRAL)
    estimate, bar = measurement.estimate[:, columns].T, measurement.error[:, columns].T
    value, error = balance.sharper(ladder, curve, estimate, bar, found.rules.noise.level)
    plain = measurement.code[0][:, columns].T == kernels.AGREES
    measurement.estimate[:, columns] = np.where(plain, value, estimate).T
    measurement.error[:, columns] = np.where(plain, error, bar).T


def _outside(problem: Problem, columns: NDArray[np.int64], ladder: Ladder, limits: Limits) -> NDArray[np.bool_]:
    """Return which steps, shape (k, c), lead out of the bounds."""
    x, low, high = problem.x[columns], limits.bounds.lower[columns], limits.bounds.upper[columns]
    leaving: NDArray[np.bool_] = (x + ladder.step > high) | (x - ladder.step < low)
    return leaving


def _reasons(
    problem: Problem,
    found: Elementwise,
    columns: NDArray[np.int64],
    curve: Curve,
    safe: Range,
    outside: NDArray[np.bool_],
) -> tuple[NDArray[np.int8], NDArray[np.int8], NDArray[np.int8]]:
    """Return what ends the safe ranges below and above, and why there is none, as indices."""
    estimate = np.nan_to_num(found.measurement.estimate[:, columns].T)
    size = np.abs(problem.value.astype(np.float64)) + np.abs(estimate) * found.rules.steps.scale[columns][:, None]
    noisy = found.rules.noise.level > _NOISY * found.rules.noise.unit * size
    exists = safe.first >= 0
    below = np.where(safe.first == 0, BELOW.index("resolution"), np.where(noisy, 2, 1))
    k, c = np.arange(len(curve.step))[:, None], np.arange(len(columns))[:, None]
    count = np.isfinite(curve.step).sum(axis=0)[:, None]
    beyond = np.minimum(safe.last + 1, len(curve.step) - 1)
    missing = np.isinf(np.take_along_axis(curve.bound, beyond[None], axis=0)[0])
    over = np.minimum(beyond + 1, len(curve.step) - 1)
    drop = np.take_along_axis(curve.deviation, over[None], axis=0)[0]
    drop = drop / np.take_along_axis(curve.deviation, beyond[None], axis=0)[0]
    spread = curve.step[over, c] / curve.step[beyond, c]
    steep = balance.growth(curve, np.maximum(safe.last, 0)) > 2 + balance.STEEP
    broken = np.where((over > beyond) & (drop < spread**-0.5), ABOVE.index("jump"), ABOVE.index("kink"))
    left = np.where(outside[beyond, c], ABOVE.index("bounds"), ABOVE.index("domain edge"))
    above = np.where(safe.last >= count - 1, ABOVE.index("range"), np.where(missing, left, np.where(steep, broken, 1)))
    return (
        np.where(exists, below, 0).astype(np.int8),
        np.where(exists, above, 0).astype(np.int8),
        _why_none(found, columns, curve, exists, outside & (k < count.T), problem.value.astype(np.float64)),
    )


def _why_none(
    found: Elementwise,
    columns: NDArray[np.int64],
    curve: Curve,
    exists: NDArray[np.bool_],
    outside: NDArray[np.bool_],
    value: NDArray[np.float64],
) -> NDArray[np.int8]:
    """Return why entries have no safe range, 0 where they have one."""
    best = np.argmin(curve.bound, axis=0)[None]
    noise, truncation = (np.take_along_axis(a, best, axis=0)[0] for a in (curve.noise, curve.truncation))
    code = found.measurement.code[0][:, columns].T
    bent = (truncation > _RULES * noise) & (code != kernels.NOISE)  # at a balance of the two, noise is to blame
    reason = np.where(bent | (code == kernels.CURVATURE), REASONS.index("curvature"), REASONS.index("noise"))
    nowhere = ~np.isfinite(curve.deviation).any(axis=0)
    closed = np.all(outside | ~np.isfinite(curve.step), axis=0, keepdims=True).T
    reason = np.where(nowhere, np.where(closed, REASONS.index("bounds"), REASONS.index("domain edge")), reason)
    reason = np.where(exists, 0, reason)
    for status, word in ((kernels.KINK, "kink"), (kernels.JUMP, "jump")):
        reason = np.where((code == status) & ~nowhere, REASONS.index(word), reason)
    return np.where(np.isfinite(value), reason, REASONS.index("nonfinite")).astype(np.int8)


def usual_steps(problem: Problem, columns: NDArray[np.int64]) -> Iterator[NDArray[np.float64]]:
    """Yield each of the USUAL steps, shape (c,): two fixed ones, and SciPy's by the size and dtype of the input."""
    x = np.abs(problem.x[columns].astype(np.float64))
    eps = problem.inputs.per_coordinate(float(np.finfo(leaf.dtype).eps) for leaf in problem.inputs.leaves)[columns]
    yield np.full(len(columns), 1e-4)
    yield np.full(len(columns), 1e-6)
    yield eps ** (1 / 2) * np.maximum(1.0, x)
    yield eps ** (1 / 3) * np.maximum(1.0, x)


def _usual(
    problem: Problem,
    result: Recommended,
    columns: NDArray[np.int64],
    curves: list[Curve],
    derivative: NDArray[np.bool_],
) -> None:
    """Write the relative errors expected at the usual steps."""
    estimate = np.abs(result.found.measurement.estimate[:, columns].T)
    reference = result.reference[:, columns].T
    kinds = USUAL.values()
    for row, step, kind in zip(result.usual, usual_steps(problem, columns), kinds, strict=True):
        error = balance.expected_at(curves[kind], step)
        unmoved = np.array([_is_unmoved(problem, int(j), float(h)) for j, h in zip(columns, step, strict=True)])
        error = np.where(unmoved[:, None], estimate, error)  # the difference is zero, and so is the slope
        row[:, columns] = np.where(derivative, relative_size(error, reference), np.nan).T


def _is_unmoved(problem: Problem, column: int, step: float) -> bool:
    """Return whether a step is lost in the rounding of the input."""
    kind = problem.inputs.leaf_at(column).real_dtype.type
    x = kind(problem.x[column])
    return bool(kind(x + kind(step)) == x)
