"""The compiled kernels that measure noise from points along a line."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from fdcheck.numerics.jit import jit

_ONE_SIDED = 10.0  # two sides of pure noise, three degrees of freedom each, differ by this in 0.2 % of the cases
_CALMED = 0.02  # part of the roughness that is left of a kink when the points beyond it are taken out


@jit
def _straightened(x: Any, y: Any, count: int) -> float:
    """Subtract the least-squares line through (x, y) from ``y`` in place and return its slope."""
    sx = sy = sxx = sxy = 0.0
    for k in range(count):
        sx += x[k]
        sy += y[k]
        sxx += x[k] * x[k]
        sxy += x[k] * y[k]
    slope = (count * sxy - sx * sy) / (count * sxx - sx * sx)
    for k in range(count):
        y[k] -= sy / count + slope * (x[k] - sx / count)
    return slope


@jit
def _roughness(x: Any, y: Any, square: Any, count: int) -> Any:
    """Root mean square of what a smooth curve leaves of ``y``, and its slope at 0: (roughness, slope).

    A straight line unless a parabola leaves five times less: so little is no accident of the noise.
    """
    slope = _straightened(x, y, count)
    for k in range(count):
        square[k] = x[k] * x[k]
    tilt = _straightened(x, square, count)
    line = bend = cross = 0.0
    for k in range(count):
        line += y[k] * y[k]
        bend += square[k] * square[k]
        cross += y[k] * square[k]
    parabola = max(line - cross * cross / bend, 0.0)
    if count < 5 or 25.0 * parabola > line:
        return math.sqrt(line / (count - 2)), slope
    return math.sqrt(parabola / (count - 3)), slope - tilt * cross / bend


@jit
def _fitted_side(multiple: Any, delta: Any, i: int, sign: float, skip: int, drop: int, w: Any) -> Any:
    """Roughness and slope at 0 of one side of x0, without its first ``skip`` and its last ``drop`` points.

    x0 is the first point of either side. NaN as slope where fewer than three points are left.
    """
    points = multiple.shape[0]
    count = 0
    for k in range(-1, points):
        n = k if sign > 0.0 else points - 1 - k  # outwards from x0, multiples ascend
        if k >= 0 and (multiple[n] * sign <= 0.0 or not math.isfinite(delta[n, i])):
            continue
        w[0, count] = multiple[n] if k >= 0 else 0.0
        w[1, count] = delta[n, i] if k >= 0 else 0.0
        count += 1
    for k in range(skip, count):
        w[0, k - skip], w[1, k - skip] = w[0, k], w[1, k]
    count -= skip + drop
    if count < 3:
        return 0.0, np.nan
    return _roughness(w[0], w[1], w[2], count)


@jit
def _bends(multiple: Any, delta: Any, i: int) -> bool:
    """Whether both sides of x0 are convex or concave throughout, as a smooth function is and noise is not."""
    points = multiple.shape[0]
    for sign in (-1.0, 1.0):
        x0 = y0 = x1 = y1 = 0.0
        seen, turn = 1, 0.0
        for k in range(points):
            n = k if sign > 0.0 else points - 1 - k
            if multiple[n] * sign <= 0.0:
                continue
            if not math.isfinite(delta[n, i]):
                break
            x2, y2 = multiple[n], delta[n, i]
            if seen >= 2:
                after, before = (y2 - y1) / (x2 - x1), (y1 - y0) / (x1 - x0)
                bend = after - before
                if abs(bend) > 1e-6 * (abs(after) + abs(before)):  # else straight, as beyond a kink
                    if turn * bend < 0.0:
                        return False
                    turn = bend
            x0, y0, x1, y1 = x1, y1, x2, y2
            seen += 1
    return True


@jit
def line_noise(multiple: Any, delta: Any, noise: Any, slope: Any, slope_error: Any, bends: Any) -> None:
    """Noise and directional slope of each output from points on both sides of x0 along one direction.

    ``delta`` is f(x0 + multiple[k] p) - f(x0), shape (k, m), multiples ascending. Each side is fitted on its
    own: the points are so close that nothing else than noise is left over, and a kink at x0 bends neither side.
    The multiples are irregular, because rounding errors at equally spaced points follow a line too (they did in
    one of five functions). A side that is many times rougher than the other, or any side beside one that stands
    still near x0, holds a kink or a jump if it calms down without its first points or without its last ones.
    """
    m = delta.shape[1]
    w = np.empty((3, multiple.shape[0] + 1))
    rough, rise = np.zeros(2), np.empty(2)
    for i in range(m):
        for side in range(2):
            rough[side], rise[side] = _fitted_side(multiple, delta, i, 1.0 - 2.0 * side, 0, 0, w)
        before = rough.copy()
        for side in range(2):
            sign, calm = 1.0 - 2.0 * side, before[1 - side]
            still, _ = _fitted_side(multiple, delta, i, sign, 0, 2, w)
            if (rough[side] > _ONE_SIDED * calm and not math.isnan(rise[1 - side])) or still == 0.0 < rough[side]:
                calmest, slope_there = max(3.0 * calm, _CALMED * rough[side]), np.inf
                for skip, drop in ((1, 0), (2, 0), (0, 1), (0, 2)):
                    r, s = _fitted_side(multiple, delta, i, sign, skip, drop, w)
                    if r <= calmest and not math.isnan(s):
                        calmest, slope_there = r, s if skip == 0 else np.nan
                if not math.isinf(slope_there):
                    rough[side] = max(calm if calm < rough[side] else 0.0, calmest)
                    rise[side] = slope_there
        noise[i] = math.sqrt(0.5 * (rough[0] * rough[0] + rough[1] * rough[1]))
        if rough[0] == 0.0 or rough[1] == 0.0:
            noise[i] = max(rough[0], rough[1])  # one side could not be fitted, or stands still
        slope[i], slope_error[i] = 0.5 * (rise[0] + rise[1]), abs(rise[0] - rise[1])
        bends[i] = _bends(multiple, delta, i)
