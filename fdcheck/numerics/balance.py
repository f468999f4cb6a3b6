"""The error of plain differences as a function of the step: noise from below, truncation from above.

The error of a difference is truncation, which grows with the step h (as h**2 for a central difference, as h for a
forward one), plus noise, which falls as 1 / h; the best step balances the two (Gill, Murray, Saunders and Wright,
"Computing forward-difference intervals for numerical optimization", SIAM Journal on Scientific and Statistical
Computing 4(2), 310-321, 1983). Here neither is guessed from derivatives of higher order: the deviation of every rung
of a ladder from an accurate estimate shows both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from fdcheck.numerics.ladder import CENTRAL, FORWARD, ORDER, SPREAD, Ladder

Array = NDArray[np.float64]

_BAR = 3.0
"""Standard deviations in an error bar: a bar over this is its typical size."""

_MEDIAN = 1.0 / 3.0
"""Median error of an estimate over its doubt: truncation and three noises share the bar where it is smallest, so the
noise is a sixth of it, and two thirds of that are the median of a normal deviate."""

_LOUD = 4.0
"""Noises that a deviation has to exceed before it is taken for truncation: once in 16,000 normal deviates."""

_VOTES = 3
"""Rungs that it takes to tell a noise from: the mean square of three normal deviates is right within a factor 3."""

_ROUNDING = 0.4
"""Standard deviation of a correctly rounded value in units of its unit roundoff: uniform within half an ulp (29 % of
one), and an ulp is on average 72 % of two unit roundoffs."""

_LAST_DIGIT = 0.5
"""Least error of any slope in unit roundoffs of its own: the last digit of a quotient."""

_SMOOTH = 1.5
"""Factor on a truncation that was measured, or continued by its power law, before it is called safe."""

_NEAR = 3.0
"""Steps whose expected errors differ by no more than this are equally good as far as the model can tell, which
knows noise within such a factor; what was measured decides between them."""

STEEP = 2.0
"""Power of h beyond the law of the truncation above which a deviation grows as at a kink or a jump between two steps:
a smooth function crosses a tolerance where its law still holds nearly."""


@dataclass(frozen=True)
class Curve:
    """What is known of the error of a plain difference at each rung, arrays of shape (k, c, m).

    Parameters
    ----------
    kind : int
        CENTRAL or FORWARD.
    step : ndarray, shape (k, c)
        Steps, ascending; NaN after the last of a column.
    deviation : ndarray
        Distance of the slope from the estimate, NaN where there is no slope.
    noise, truncation, expected : ndarray
        Typical size of each part and of the whole; infinite where there is no slope.
    bound : ndarray
        What the error does not exceed: three noises, truncation with a margin, and the bar of the estimate.
    loud : ndarray of bool
        Where truncation stands out of the noise.
    doubt : ndarray, shape (c, m)
        Typical error of the estimate that the deviations are taken from.
    """

    kind: int
    step: Array
    deviation: Array
    noise: Array
    truncation: Array
    expected: Array
    bound: Array
    loud: NDArray[np.bool_]
    doubt: Array


def error_curve(
    ladder: Ladder, kind: int, estimate: Array, bar: Array, value: Array, level: Array, unit: Array
) -> Curve:
    """Return the error of the plain differences of a ladder.

    Parameters
    ----------
    ladder : Ladder
        Differences at k steps of c columns and m outputs.
    kind : int
        CENTRAL or FORWARD.
    estimate, bar : ndarray, shape (c, m)
        Accurate derivatives and their error bars.
    value, level, unit : ndarray, shape (m,)
        Outputs at x0, their noise and unit roundoff.
    """
    slopes = ladder.slopes(kind)
    deviation = np.abs(slopes - estimate)
    stands_still = np.where(np.isfinite(slopes), slopes, 0.0).any(axis=0) == 0  # not moved by any step: no error at all
    level, unit = np.where(stands_still, 0.0, level), np.where(stands_still, 0.0, unit)
    bar = np.where(stands_still & (estimate == 0), 0.0, bar)
    doubt = bar / _BAR
    per_value = SPREAD[kind] / ladder.step[:, :, None]
    valley = _valley(deviation)
    rounding = _ROUNDING * unit * ladder.largest(value, kind)
    seen = _noise_below(valley, deviation, doubt, per_value)
    typical = np.where(np.isfinite(seen), seen, level)
    noise = per_value * np.maximum(typical, rounding)
    below = np.arange(len(slopes))[:, None, None] < valley
    stands_out = deviation > _LOUD * (noise + doubt)
    noise = np.where(below & stands_out, np.maximum(noise, deviation), noise)
    loud = stands_out & ~below
    truncation = _truncation(ladder.step, deviation, loud, noise + doubt, ORDER[kind])
    least = _LAST_DIGIT * unit * np.abs(estimate)
    expected = np.maximum(np.hypot(noise, truncation), least)
    largest_noise = np.maximum(noise, per_value * np.maximum(level, rounding))
    bound = _BAR * largest_noise + _SMOOTH * truncation + bar
    missing = ~np.isfinite(deviation)
    return Curve(
        kind, ladder.step, deviation, np.where(missing, np.inf, noise), np.where(missing, np.inf, truncation),
        np.where(missing, np.inf, expected), np.where(missing, np.inf, bound), loud, doubt,
    )  # fmt: skip


def _valley(deviation: Array) -> NDArray[np.int64]:
    """Return the rung, shape (c, m), at which deviations stop falling: the first of the two that are smallest together.

    Of two neighbours the larger counts, since one alone may be small by luck.
    """
    filled = np.where(np.isfinite(deviation), deviation, np.inf)
    pairs = np.maximum(filled[:-1], filled[1:]) if len(filled) > 1 else filled
    return _last_smallest(pairs)


def _last_smallest(values: Array) -> NDArray[np.int64]:
    """Return where values, shape (k, c, m), are smallest; of equals the widest step, which noise touches least."""
    last: NDArray[np.int64] = len(values) - 1 - np.argmin(values[::-1], axis=0)
    return last


def _noise_below(valley: NDArray[np.int64], deviation: Array, doubt: Array, per_value: Array) -> Array:
    """Return the noise of a value, shape (c, m), that deviations below the valley show; NaN where too few do."""
    below = (np.arange(len(deviation))[:, None, None] < valley) & np.isfinite(deviation)
    of_value = np.maximum(deviation**2 - doubt**2, 0.0) / per_value / per_value
    count = below.sum(axis=0)
    square = np.where(below, of_value, 0.0).sum(axis=0) / np.maximum(count, 1)
    return np.where(count >= _VOTES, np.sqrt(square), np.nan)


def _truncation(step: Array, deviation: Array, loud: NDArray[np.bool_], hidden: Array, order: int) -> Array:
    """Return truncation errors: measured where they stand out, elsewhere continued from above by their power law.

    Where they do not stand out they are at most what noise hides, so a kink above leaves smaller steps alone. They
    do not fall as the step grows: a slope that comes back to the derivative at a wide step does so by chance.
    """
    result = np.zeros_like(deviation)
    known, at = np.zeros(deviation.shape[1:]), np.full(deviation.shape[1:], np.inf)
    for k in range(len(deviation) - 1, -1, -1):
        h = step[k][:, None]
        law = known * (h / at) ** order
        at_most = deviation[k] + 2.0 * hidden[k]
        result[k] = np.where(loud[k], deviation[k], np.minimum(law, at_most))
        known, at = np.where(loud[k], deviation[k], known), np.where(loud[k], h, at)
    measured = np.maximum.accumulate(np.where(loud, deviation, 0.0), axis=0)
    return np.maximum(result, measured)


@dataclass(frozen=True)
class Range:
    """Steps that are safe for each entry, arrays of shape (c, m); NaN where there is none.

    Parameters
    ----------
    low, high : ndarray
        Ends of the range.
    first, last : ndarray of int
        Its first and last rung; -1 where there is none.
    """

    low: Array
    high: Array
    first: NDArray[np.int64]
    last: NDArray[np.int64]


def safe_range(curve: Curve, tolerance: Array) -> Range:
    """Return the contiguous range of steps whose error stays within a tolerance, shape (c, m)."""
    safe = curve.bound <= tolerance
    anchor = np.argmin(np.where(np.isnan(curve.bound), np.inf, curve.bound), axis=0)
    rows = np.arange(len(safe))[:, None, None]
    exists = np.take_along_axis(safe, anchor[None], axis=0)[0]
    first = np.where(~safe & (rows < anchor), rows + 1, 0).max(axis=0)
    last = np.where(~safe & (rows > anchor), rows - 1, len(safe) - 1).min(axis=0)
    low, high = _at(curve.step, first), _at(curve.step, last)
    low = _crossing(curve, first - 1, first, tolerance, low)
    beyond = np.minimum(last + 1, len(safe) - 1)
    smooth = (beyond > last) & (growth(curve, last) <= ORDER[curve.kind] + STEEP)
    high = np.where(smooth, _crossing(curve, beyond, last, tolerance, high), high)
    return Range(
        np.where(exists, low, np.nan), np.where(exists, high, np.nan),
        np.where(exists, first, -1), np.where(exists, last, -1),
    )  # fmt: skip


def growth(curve: Curve, rung: NDArray[np.int64]) -> Array:
    """Return the power of h, shape (c, m), with which truncation grows from a rung to the next; NaN at the last."""
    beyond = np.minimum(rung + 1, len(curve.step) - 1)
    known = np.maximum(_entry(curve.truncation, rung), _entry(curve.noise, rung) + curve.doubt)
    with np.errstate(divide="ignore", invalid="ignore"):
        rise = np.log(_entry(curve.truncation, beyond) / known)
        return np.where(beyond > rung, rise / np.log(_at(curve.step, beyond) / _at(curve.step, rung)), np.nan)


def _crossing(
    curve: Curve, outer: NDArray[np.int64], inner: NDArray[np.int64], tolerance: Array, default: Array
) -> Array:
    """Return where the bound crosses the tolerance between two rungs, on a straight line in logarithms."""
    has_outer = outer != inner
    outer = np.clip(outer, 0, len(curve.step) - 1)
    far, near = _entry(curve.bound, outer), _entry(curve.bound, inner)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = np.log(tolerance / near) / np.log(far / near)
        found = _at(curve.step, inner) * (_at(curve.step, outer) / _at(curve.step, inner)) ** np.clip(share, 0.0, 1.0)
    usable = has_outer & np.isfinite(found) & np.isfinite(far)
    return np.where(usable, found, default)


def best_rung(curve: Curve, safe: Range, is_repeatable: bool) -> tuple[NDArray[np.int64], Array]:
    """Return the best rung of each entry, shape (c, m), -1 where there is none, and the error expected there.

    Of the steps that the model takes for equally good the one whose slope came closest to the estimate is
    chosen, and its error is known better than by the model: it was measured, up to the doubt in the estimate.
    Where apply does not repeat itself that would be worth nothing, and the model alone decides.
    """
    rows = np.arange(len(curve.step))[:, None, None]
    inside = (safe.first < 0) | ((rows >= safe.first) & (rows <= safe.last))
    expected = np.where(inside, curve.expected, np.inf)
    least = expected.min(axis=0)
    near = np.isfinite(expected) & (expected <= _NEAR * least)
    measured = np.maximum(curve.deviation, _MEDIAN * curve.doubt)
    rank = np.where(near, measured if is_repeatable else expected, np.inf)
    closest = rank.min(axis=0)
    tied = near & (rank <= closest)
    rung = _last_smallest(np.where(tied, expected, np.inf))
    error = _entry(curve.expected, rung)
    if is_repeatable:
        error = np.where(_MEDIAN * curve.doubt < error, np.minimum(_entry(measured, rung), _NEAR * error), error)
    exists = np.isfinite(least)
    return np.where(exists, rung, -1), np.where(exists, error, np.nan)


def expected_at(curve: Curve, step: Array) -> Array:
    """Return the expected error, shape (c, m), at any steps, one for each column, shape (c,).

    Between rungs on a straight line in logarithms; below the narrowest by the law of noise; above the widest by
    the law of truncation, or of noise where no truncation was seen.
    """
    count = np.isfinite(curve.step).sum(axis=0)
    upper = np.clip((curve.step <= step).sum(axis=0), 1, np.maximum(count - 1, 1))
    columns = np.arange(len(step))
    lower, upper = upper - 1, np.minimum(upper, len(curve.step) - 1)
    h0, h1 = curve.step[lower, columns], curve.step[upper, columns]
    e0, e1 = curve.expected[lower, columns], curve.expected[upper, columns]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        share = np.where(h1 > h0, np.log(step / h0) / np.log(h1 / h0), 0.0)[:, None]
        between = np.where((e0 > 0) & (e1 > 0), e0 * (e1 / e0) ** share, np.where(share > 0.5, e1, e0))
    narrow, wide = step[:, None] / h0[:, None], step[:, None] / h1[:, None]
    above = np.hypot(curve.truncation[upper, columns] * wide ** ORDER[curve.kind], curve.noise[upper, columns] / wide)
    below = np.hypot(curve.noise[lower, columns] / narrow, curve.truncation[lower, columns])
    found = np.where(share > 1, above, np.where(share < 0, below, between))
    return np.where(np.isnan(found), np.inf, found)


def variation(ladder: Ladder, scale: Array) -> Array:
    """Return the slope, shape (c, m), by which outputs vary over the widest step within the scale, shape (c,).

    It is a size to hold errors against where the derivative itself is zero, at a stationary point; 0 where no step
    gave both sides.
    """
    found = np.zeros(ladder.up.shape[1:])
    for k in range(len(ladder.step)):
        right, left = (ladder.up[k] / ladder.up_step[k][:, None], ladder.down[k] / ladder.down_step[k][:, None])
        size = np.maximum(np.abs(right), np.abs(left))
        found = np.where(np.isfinite(size) & (ladder.step[k] <= scale)[:, None], size, found)
    return found


_TRUSTED = 0.7
"""Part of the noise level known before that noise is not below, whatever a few rungs show: the level is at least the
unit roundoff, over twice the standard deviation of a rounding, and otherwise a deviation from nine points."""

_WINDOW = 4
"""Rungs in an extrapolation: a fifth adds noise and no accuracy in double precision."""


def sharper(ladder: Ladder, curve: Curve, estimate: Array, bar: Array, level: Array) -> tuple[Array, Array]:
    """Return estimates and bars, shape (c, m), extrapolated over the whole ladder where that is sharper.

    The scheme is that of :func:`fdcheck.numerics.kernels.best_window`, with the noise that the ladder showed or most of
    the noise ``level``, shape (m,), that was known before; a measurement that stops at a goal leaves room for it.
    Smaller steps contradict a window where they leave the parabola that it foretells by more than their noise. An
    estimate that contradicts the given one is not taken.
    """
    slopes = ladder.slopes(CENTRAL)
    sd = np.maximum(curve.noise, _TRUSTED * SPREAD[CENTRAL] / ladder.step[:, :, None] * level)
    gaps = ladder.slopes(FORWARD) + ladder.down / ladder.down_step[:, :, None]
    h = ladder.step[:, :, None]
    tableau, spread = slopes.copy(), sd.copy()
    found, least = estimate, bar
    for length in range(1, min(_WINDOW, len(h)) + 1):
        for a in range(len(h) - length + 1):
            b = a + length - 1
            if length > 1:
                q = (h[a] / h[b]) ** 2
                change = (tableau[a] - tableau[a + 1]) * q / (1.0 - q)
                tableau[a] += change
                spread[a] = (spread[a] + q * spread[a + 1]) / (1.0 - q)
            elif a + 1 < len(h):
                q = (h[a] / h[a + 1]) ** 2
                change = (slopes[a] - slopes[a + 1]) * q / (1.0 - q)
            else:
                change = slopes[a] - slopes[a - 1]
            truncation = np.abs(change)
            for k in range(a + 1, b + 1):
                leak = np.abs(gaps[k] * h[a] / h[k] - gaps[a]) - 2.0 * _BAR * sd[a]
                truncation = np.maximum(truncation, leak)
            for k in range(a):
                foretold = tableau[a] + (slopes[a] - tableau[a]) * (h[k] / h[a]) ** 2
                contradiction = np.abs(slopes[k] - foretold) - _BAR * sd[k]
                truncation = np.maximum(truncation, np.nan_to_num(contradiction, nan=0.0, neginf=0.0))
            total = truncation + _BAR * spread[a]
            taken = (total < least) & (np.abs(tableau[a] - estimate) <= bar + total)
            found, least = np.where(taken, tableau[a], found), np.where(taken, total, least)
    return found, least


def columns_of(curve: Curve, columns: NDArray[np.int64]) -> Curve:
    """Return the curve of some of its columns."""
    return Curve(
        curve.kind, curve.step[:, columns], curve.deviation[:, columns], curve.noise[:, columns],
        curve.truncation[:, columns], curve.expected[:, columns], curve.bound[:, columns], curve.loud[:, columns],
        curve.doubt[columns],
    )  # fmt: skip


def _entry(array: Array, rung: NDArray[np.int64]) -> Array:
    """Return what an array of shape (k, c, m) holds at a rung of each entry, shape (c, m)."""
    found: Array = np.take_along_axis(array, rung[None], axis=0)[0]
    return found


def _at(step: Array, rung: NDArray[np.int64]) -> Array:
    """Return the step, shape (c, m), of a rung of each entry."""
    return step[rung, np.arange(step.shape[1])[:, None]]


def step_of(curve: Curve, rung: NDArray[np.int64]) -> Array:
    """Return the step of a rung, shape (c, m), NaN where it is -1."""
    return np.where(rung >= 0, _at(curve.step, np.maximum(rung, 0)), np.nan)


def is_falling(curve: Curve) -> NDArray[np.bool_]:
    """Return which entries, shape (c, m), are still ruled by noise at their widest step."""
    count = np.isfinite(curve.step).sum(axis=0)
    top = np.broadcast_to((count - 1)[:, None], curve.doubt.shape)
    noise, truncation = _entry(curve.noise, top), _entry(curve.truncation, top)
    return np.isfinite(noise) & (curve.kind == CENTRAL) & (truncation < noise)
