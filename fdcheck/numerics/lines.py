"""Noise and slope of each output from points on both sides of x0 along one direction."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

_FEWEST = 3
"""Points that leave a straight line a degree of freedom."""

_PARABOLA = 5
"""Points from which a parabola is tried: it leaves two degrees of freedom."""

_ONE_SIDED = 10.0
"""Two sides of pure noise, three degrees of freedom each, differ by this in 0.2 % of the cases."""

_FIT_ROUNDING = 2.0**-48
"""Part of the largest difference that the rounding of the fit itself leaves over, sixteen roundoffs: no kink."""

_CALMED = 0.02
"""Part of the roughness that is left of a kink when the points beyond it are taken out."""

_PARTS = ((1, 0), (2, 0), (0, 1), (0, 2))
"""Points to leave out, at x0 and at the far end, to see whether a side calms down."""

_SQUARED = 1e-140, 1e140
"""Differences between which squares neither vanish nor overflow."""

_STRAIGHT = 1e-6
"""Relative change of the secants that counts as none: what rounding leaves of a straight line beyond a kink."""


def line_noise(
    multiple: NDArray[np.float64], delta: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Measure noise and directional slope of each output from points along a line.

    Each side of x0 is fitted on its own: the points are so close that nothing else than noise is left over, and a
    kink at x0 bends neither side. The multiples have to be irregular, because rounding errors at equally spaced
    points follow a line too (they did in one of five functions). A side that is many times rougher than the other,
    or any side beside one that stands still near x0, holds a kink or a jump if it calms down without its first
    points or without its last ones.

    Parameters
    ----------
    multiple : ndarray, shape (k,)
        Where the points lie, ascending, in units of the direction; x0 itself is not among them.
    delta : ndarray, shape (k, m)
        f(x0 + multiple p) - f(x0), NaN where apply gave nothing finite.

    Returns
    -------
    noise : ndarray, shape (m,)
        Standard deviation of what a smooth curve leaves over.
    slope, slope_error : ndarray, shape (m,)
        Slope along the direction, and the difference of the two sides; NaN where a side could not be fitted.
    """
    size = np.fmax.reduce(np.abs(delta), axis=0, initial=0.0)
    is_odd = ((size < _SQUARED[0]) & (size > 0)) | ((size > _SQUARED[1]) & (size < np.inf))
    if is_odd.any():
        unit = np.where(is_odd, size, 1.0)
        noise, slope, slope_error = line_noise(multiple, delta / unit)
        return noise * unit, slope * unit, slope_error * unit
    m = delta.shape[1]
    rough, rise = np.zeros((2, m)), np.full((2, m), np.nan)
    sides = [_side(multiple, delta, sign) for sign in (1.0, -1.0)]
    for s, (x, y) in enumerate(sides):
        rough[s], rise[s] = _fitted(x, y, 0, 0)
    before, fitted = rough.copy(), np.isfinite(rise)
    for s, (x, y) in enumerate(sides):
        calm = before[1 - s]
        still = (y[:_FEWEST] == 0).all(axis=0) & (rough[s] > 0)
        is_rough = rough[s] > _FIT_ROUNDING * np.fmax.reduce(np.abs(y), axis=0)
        own = np.flatnonzero(is_rough & ((rough[s] > _ONE_SIDED * calm) & fitted[1 - s] | still))
        if own.size:
            rough[s, own], rise[s, own] = _calmed(x, y[:, own], rough[s, own], rise[s, own], calm[own])
    noise = np.sqrt(0.5 * (rough[0] ** 2 + rough[1] ** 2))
    one_side = (rough == 0).any(axis=0)  # the other could not be fitted, or stands still
    noise = np.where(one_side, rough.max(axis=0), noise)
    return noise, 0.5 * (rise[0] + rise[1]), np.abs(rise[0] - rise[1])


def is_bent(multiple: NDArray[np.float64], delta: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which outputs are convex or concave on either side, as a smooth function is and noise is not.

    Parameters
    ----------
    multiple, delta : ndarray
        As for :func:`line_noise`.
    """
    return _is_bend(*_side(multiple, delta, 1.0)) & _is_bend(*_side(multiple, delta, -1.0))


def _side(
    multiple: NDArray[np.float64], delta: NDArray[np.float64], sign: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the points of one side, x0 first and outwards from it."""
    own = np.flatnonzero(multiple * sign > 0)
    own = own if sign > 0 else own[::-1]
    zero = np.zeros((1, delta.shape[1]))
    return np.concatenate([[0.0], multiple[own]]), np.concatenate([zero, delta[own]])


def _fitted(x: NDArray[np.float64], y: NDArray[np.float64], skip: int, drop: int) -> tuple[NDArray[np.float64], ...]:
    """Return (roughness, slope at 0) of each output without its first ``skip`` and its last ``drop`` finite points.

    Roughness 0 and slope NaN where fewer than three points are left.
    """
    rough, rise = np.zeros(y.shape[1]), np.full(y.shape[1], np.nan)
    for outputs, rows in _by_pattern(np.isfinite(y)):
        rows = rows[skip : len(rows) - drop]
        if len(rows) >= _FEWEST:
            rough[outputs], rise[outputs] = _smooth_curve(x[rows], y[np.ix_(rows, outputs)])
    return rough, rise


def _by_pattern(finite: NDArray[np.bool_]) -> Iterator[tuple[NDArray[np.intp], NDArray[np.intp]]]:
    """Yield groups of outputs that are finite at the same points: (outputs, points)."""
    if finite.all():
        yield np.arange(finite.shape[1]), np.arange(finite.shape[0])
        return
    patterns, group = np.unique(finite, axis=1, return_inverse=True)
    for g in range(patterns.shape[1]):
        yield np.flatnonzero(group.ravel() == g), np.flatnonzero(patterns[:, g])


def _smooth_curve(x: NDArray[np.float64], y: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the root mean square of what a smooth curve leaves of ``y``, and its slope at 0.

    A straight line unless a parabola leaves five times less: so little is no accident of the noise.
    """
    centred = x - x.mean()
    width = centred @ centred
    slope = centred @ y / width
    rest = y - y.mean(axis=0) - np.outer(centred, slope)
    line = np.einsum("ki,ki->i", rest, rest)
    rough = np.sqrt(line / (len(x) - 2))
    if len(x) < _PARABOLA:
        return rough, slope
    square = x * x
    tilt = centred @ square / width
    square = square - square.mean() - tilt * centred
    bend = square @ rest / (square @ square)
    curve = np.maximum(line - bend * bend * (square @ square), 0.0)
    is_curved = 25.0 * curve <= line
    return (
        np.where(is_curved, np.sqrt(curve / (len(x) - 3)), rough),
        np.where(is_curved, slope - tilt * bend, slope),
    )


def _calmed(
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    rough: NDArray[np.float64],
    rise: NDArray[np.float64],
    calm: NDArray[np.float64],
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return roughness and slope of each side without the points that make it rough, if few do."""
    calmest, slope, found = np.maximum(3.0 * calm, _CALMED * rough), rise, np.zeros(len(rough), np.bool_)
    for skip, drop in _PARTS:
        r, s = _fitted(x, y, skip, drop)
        better = (r <= calmest) & np.isfinite(s)
        calmest, found = np.where(better, r, calmest), found | better
        slope = np.where(better, s if skip == 0 else np.nan, slope)
    least = np.where(calm < rough, calm, 0.0)
    return np.where(found, np.maximum(least, calmest), rough), np.where(found, slope, rise)


def _is_bend(x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Return which outputs turn only one way along one side, up to its first point that is not finite."""
    secant = np.diff(y, axis=0) / np.diff(x)[:, None]
    turn = np.diff(secant, axis=0) * np.sign(x[-1])
    size = np.abs(secant[1:]) + np.abs(secant[:-1])
    counts = np.isfinite(turn) & (np.abs(turn) > _STRAIGHT * size)
    up, down = (counts & (turn > 0)).any(axis=0), (counts & (turn < 0)).any(axis=0)
    result: NDArray[np.bool_] = ~(up & down)
    return result
