"""Every compiled kernel: noise of a difference table, first steps, extrapolation, the decision on an entry.

All kernels live in this one file because a cached kernel that calls a kernel of another file keeps serving
the old code after an edit. They see contiguous float64 only and compile at the first call.

Notation, for one entry (output i, input j) measured at half-widths h_0 < h_1 < ...::

    up, down      f(x + h) - f(x), f(x - h) - f(x)
    right, left   up / h, -down / h: the two one-sided slopes
    slope         (up - down) / 2h: the central slope, error O(h**2)
    gap           right - left: O(h) where f is smooth, constant at a kink
    noise         standard deviation of the rounding or jitter in one value of f
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit

_Kernel = TypeVar("_Kernel", bound=Callable[..., Any])


def _jit(function: _Kernel) -> _Kernel:
    """Compile ``function`` with the options of this file, cached where a cache can be written."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # neither the package's folder nor the home is writable
        return njit(**options)(function)  # type: ignore[no-any-return]


PENDING, AGREES, DISAGREES, KINK, JUMP, NOISE, CURVATURE, EDGE, NONFINITE = range(9)
# Codes of an entry; NOISE, CURVATURE and EDGE are the reasons why one is undecided.

SMOOTH, OPEN, BENT, BROKEN = range(4)
# What f looks like at x: no kink, not known yet, a kink, a jump.

FINER, COARSER, FILLING = range(3)
# Steps that an entry may ask for: below all there are, above them, between two of them.

H, POWER, SLOPE, SIGMA, GAP, RIGHT, LEFT, JITTER, SECANT, MIDDLE, SPREAD, ZERO, T, E = range(14)
ROWS = 14
# Rows of the work table of one entry: the step, the slopes and what they carry, and scratch.

MAX_STEPS = 16
# Steps that one column may take: nine reach full accuracy, the rest place a kink or a jump.

NOISE_BARS = 3.0
# Standard deviations of noise in an error bar: a normal deviate leaves it in 0.3 % of the cases.

STEP_NOISES = 30.0
# Noises that the tolerance of an entry holds at its first step: the bar (3 noises) is then a tenth of the
# tolerance, so a noise that was measured three times too small still decides nothing.

_STANDS_OUT = 8.0  # a gap above 8 noise / h is real: it is 3.3 of its standard deviations sqrt(6) noise / h
_DIFFERS = 6.0  # two gaps that differ by more than this many noise / h are not one: 2.4 standard deviations
_KINK_EXPONENT = 0.5  # halfway between 0 (kink) and 1 (smooth) in d log|gap| / d log h
_GROWTH_EXPONENT = -0.3  # one-sided slopes that grow faster than this as h falls have not converged
_JUMP_EXPONENT = -0.75  # halfway between -1/2 (cusp) and -1 (jump) in d log|one-sided slope| / d log h
_SLACK = 4.0  # a bar of four tolerances still lets an error of 1 % stand out at rtol 1e-3
_AT_X = 2.0**-48  # part of its scale within which a kink counts as lying at x: 16 ulp of an input of that size
_WIDE = 2.0**-4  # part of its widest step that an input has moved when an output that stands still is a constant
_SPAN = 2.0**-20  # part of its scale that an input has to move before what f varies by says anything of its size
_ONE_SIDED = 10.0  # two sides of pure noise, three degrees of freedom each, differ by this in 0.2 % of the cases
_CALMED = 0.02  # part of the roughness that is left of a kink when the points beyond it are taken out
_VOTES = 3  # no claim is rejected on two numbers that happen to be close
_WINDOW = 4  # steps in an extrapolation: a fifth adds noise and no accuracy in double precision


@_jit
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


@_jit
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


@_jit
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


@_jit
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


@_jit
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


@_jit
def first_steps(
    claims: Any,
    noise: Any,
    rtol_out: Any,
    rtol_in: Any,
    share: Any,
    row: Any,
    top: Any,
    scale: Any,
    low: Any,
    high: Any,
    steps: Any,
) -> None:
    """Choose the two half-widths at which each column is measured first.

    The first is the smallest whose noise the tolerance of every nonzero claim allows; the second is eight
    times wider, or as wide as it takes to see an error of the size of the floor in a zero claim.
    """
    endpoints, m, n = claims.shape
    for j in range(n):
        narrow = wide = 0.0
        for i in range(m):
            floor = share[i] * min(row[i] / scale[j], top[i])
            for e in range(endpoints):
                size = abs(claims[e, i, j])
                if size > 0.0 and math.isfinite(size):
                    asked = max(max(rtol_out[i], rtol_in[j]) * size, floor)
                    narrow = max(narrow, STEP_NOISES * noise[i] / asked)
                elif floor > 0.0:
                    wide = max(wide, STEP_NOISES * noise[i] / floor)
        narrow = narrow if narrow > 0.0 else wide
        narrow = min(max(narrow, low[j]), high[j])
        steps[0, j] = 2.0 ** round(math.log2(narrow))
        steps[1, j] = max(8.0 * steps[0, j], 2.0 ** round(math.log2(min(max(wide, low[j]), high[j]))))


@_jit
def best_window(w: Any, h: int, x: int, slope: int, sigma: int, gap: int, count: int) -> Any:
    """Extrapolate slopes to h = 0 over windows of 1 to 4 steps and choose the most reliable one.

    Neville's scheme in x, the power of h in the error (Richardson 1911; Ridders 1982 chose windows so): h**2 for
    central slopes, h for one-sided ones. The truncation of a window is its change when the largest step is left
    out, plus the part of the gaps that does not scale as h (a kink inside the window shows there), and is raised
    where a smaller step contradicts the window beyond its own noise. ``h`` to ``gap`` name rows of ``w``: slices
    of it would cost more than the arithmetic. Returns (estimate, truncation, noise, first step, last step).
    """
    best, found, truncation, sd, first, last = np.inf, w[slope, 0], np.inf, w[sigma, 0], 0, 0
    for length in range(1, min(_WINDOW, count) + 1):
        for a in range(count - length + 1):
            b = a + length - 1
            if length == 1:
                w[T, a], w[E, a] = w[slope, a], w[sigma, a]
                if count == 1:
                    change = abs(w[gap, 0])
                elif a == count - 1:
                    change = abs(w[slope, a] - w[slope, a - 1])
                else:
                    q = w[x, a] / w[x, a + 1]
                    change = abs(w[slope, a] - w[slope, a + 1]) * q / (1.0 - q)
            else:
                q = w[x, a] / w[x, b]
                step = (w[T, a] - w[T, a + 1]) * q / (1.0 - q)
                w[T, a] += step
                w[E, a] = (w[E, a] + q * w[E, a + 1]) / (1.0 - q)
                change = abs(step)
                for k in range(a + 1, b + 1):
                    leak = abs(w[gap, k] * w[h, a] / w[h, k] - w[gap, a]) - 2.0 * NOISE_BARS * w[sigma, a]
                    change = max(change, leak)
            for k in range(a):
                change = max(change, abs(w[slope, k] - w[T, a]) - NOISE_BARS * w[sigma, k])
            total = change + NOISE_BARS * w[E, a]
            if total < best:
                best, found, truncation, sd, first, last = total, w[T, a], change, w[E, a], a, b
    return found, truncation, sd, first, last


@_jit
def _exponent(small: float, large: float, h_small: float, h_large: float) -> float:
    """D log(size) / d log(h) between two steps."""
    return math.log(max(large, 1e-300) / max(small, 1e-300)) / math.log(h_large / h_small)


@_jit
def _votes(w: Any, count: int, estimate: float, claim: float) -> int:
    """Count steps, from the smallest up, whose slopes side with the estimate against the claim."""
    votes = 0
    half = 0.5 * abs(claim - estimate)
    for k in range(count - 1, -1, -1):
        off = abs(w[SLOPE, k] - estimate)
        if off + NOISE_BARS * w[SIGMA, k] <= half:
            votes += 1
        elif off - NOISE_BARS * w[SIGMA, k] > half:
            votes = 0  # a smaller step tells another story than the larger ones
    return votes


@_jit
def _widest_hole(w: Any, count: int) -> float:
    """Geometric middle of the widest hole between two steps, or 0 where no hole is wider than a factor 3."""
    widest, middle = 3.0, 0.0
    for k in range(count - 1):
        if w[H, k + 1] / w[H, k] > widest:
            widest, middle = w[H, k + 1] / w[H, k], math.sqrt(w[H, k] * w[H, k + 1])
    return middle


@_jit
def _gather(
    i: int,
    slot: int,
    value: float,
    noise: float,
    unit: float,
    steps: int,
    order: Any,
    up_step: Any,
    down_step: Any,
    up: Any,
    down: Any,
    w: Any,
) -> Any:
    """Fill the rows of ``w`` with one entry's steps, smallest first: (power of h in the error, points, constant).

    Central slopes where both sides are finite at one step at least, else the slopes of the finite side.
    """
    points = rights = lefts = 0
    constant = True
    for s in range(steps):
        k = order[s]
        u, d = up[k, slot, i], down[k, slot, i]
        constant = constant and u == 0.0 and d == 0.0
        rights += math.isfinite(u)
        lefts += math.isfinite(d)
        if math.isfinite(u) and math.isfinite(d):
            hu, hd = up_step[k, slot], down_step[k, slot]
            peak = max(abs(value), max(abs(value + u), abs(value + d)))
            right, left, h = u / hu, -d / hd, 0.5 * (hu + hd)
            w[H, points], w[POWER, points] = h, h * h
            w[RIGHT, points], w[LEFT, points], w[GAP, points] = right, left, right - left
            # weighted so that a quadratic is exact: rounding x + h and x - h may leave two different spacings
            w[SLOPE, points] = (right * hd + left * hu) / (hu + hd)
            w[JITTER, points] = max(noise, unit * peak)
            w[SIGMA, points] = 0.7072 * w[JITTER, points] / h
            points += 1
    if points > 0:
        return 2, points, constant
    for s in range(steps):
        k = order[s]
        d = up[k, slot, i] if rights >= lefts else -down[k, slot, i]
        if math.isfinite(d):
            h = up_step[k, slot] if rights >= lefts else down_step[k, slot]
            slope = d / h
            w[H, points] = w[POWER, points] = h
            w[RIGHT, points] = w[LEFT, points] = w[SLOPE, points] = slope
            w[GAP, points] = 0.0
            w[JITTER, points] = max(noise, unit * (abs(value) + abs(d)))
            w[SIGMA, points] = 1.4143 * w[JITTER, points] / h
            points += 1
    return 1, points, False


@_jit
def _raised_noise(points: int, w: Any) -> bool:
    """Raise the noise of an entry to what its smallest steps show, and say whether that changed it.

    Noise n makes neighbouring slopes differ by n / h at every small step; a real change of the slope does so at
    some step and not at the others. The smallest of three such products is noise that was measured too low.
    """
    if points < 5:
        return False
    seen = np.inf
    for k in range(3):
        seen = min(seen, abs(w[SLOPE, k + 1] - w[SLOPE, k]) * w[H, k])
    if seen <= w[JITTER, 0]:
        return False
    for k in range(points):
        w[JITTER, k] = max(w[JITTER, k], seen)
        w[SIGMA, k] = max(w[SIGMA, k], 0.7072 * seen / w[H, k])
    return True


@_jit
def _first_seen(points: int, w: Any) -> int:
    """Return the smallest step at which a one-sided difference stands out of the noise, ``points`` if none does."""
    k = 0
    while k < points and max(abs(w[RIGHT, k]), abs(w[LEFT, k])) * w[H, k] <= _STANDS_OUT * w[JITTER, k]:
        k += 1
    return k


@_jit
def _growth(points: int, w: Any) -> float:
    """Return d log|one-sided slope| / d log h over the two smallest steps at which noise does not hide it, else 0."""
    k = _first_seen(points, w)
    if k + 1 >= points:
        return 0.0
    small = max(abs(w[RIGHT, k]), abs(w[LEFT, k]))
    large = max(abs(w[RIGHT, k + 1]), abs(w[LEFT, k + 1]))
    if small <= 1.1 * large:  # steps are a factor 1.5 apart at least
        return 0.0
    for s in range(k):
        if max(abs(w[RIGHT, s]), abs(w[LEFT, s])) + _STANDS_OUT * w[JITTER, s] / w[H, s] < small:
            return 0.0  # a smaller step has a smaller slope
    return _exponent(small, large, w[H, k], w[H, k + 1])


@_jit
def _shape_at_x(points: int, goal: float, low: float, scale: float, full: bool, w: Any) -> Any:
    """Tell what f looks like at x: SMOOTH, OPEN (with the step that would tell), BENT or BROKEN.

    Only the smallest steps at which the gap stands out of the noise may say so: at steps near a period a
    sine looks like a kink. While a smaller step would still show the gap, the question is open.
    """
    growth = _growth(points, w)
    if growth < _GROWTH_EXPONENT:
        smaller = max(w[H, 0] / 64.0, low)
        if smaller < 0.7 * w[H, 0] and not full:
            return OPEN, smaller
        return (BROKEN if growth < _JUMP_EXPONENT else BENT), 0.0
    k = 0
    while k < points and (abs(w[GAP, k]) <= goal or abs(w[GAP, k]) <= _STANDS_OUT * w[JITTER, k] / w[H, k]):
        k += 1
    if k == points:
        return SMOOTH, 0.0
    gap = w[GAP, k]
    for s in range(k):
        if abs(gap) - abs(w[GAP, s]) > _DIFFERS * w[JITTER, s] / w[H, s]:
            return SMOOTH, 0.0  # a smaller step would have shown this gap and does not
    finest = max(2.0 * _STANDS_OUT * w[JITTER, k] / abs(gap), max(low, _AT_X * scale))
    if k + 1 == points:
        if full:
            return SMOOTH, 0.0
        return OPEN, finest if k == 0 and finest < 0.7 * w[H, 0] else 8.0 * w[H, k]
    if _exponent(abs(gap), abs(w[GAP, k + 1]), w[H, k], w[H, k + 1]) > _KINK_EXPONENT:
        return SMOOTH, 0.0
    if k == 0 and finest < 0.7 * w[H, 0] and not full:
        return OPEN, max(finest, w[H, 0] / 512.0)
    steady = gap * w[GAP, k + 1] > 0.0 and 0.5 < gap / w[GAP, k + 1] < 2.0
    return BENT if steady else SMOOTH, 0.0


@_jit
def _standing_still(points: int, w: Any) -> int:
    """How many of the smallest steps leave the output unchanged to the last bit."""
    k = 0
    while k < points and w[RIGHT, k] == 0.0 and w[LEFT, k] == 0.0:
        k += 1
    return k


@_jit
def _sides(points: int, broken: bool, w: Any) -> Any:
    """Slopes of the two sides with their bars: (right, its bar, left, its bar).

    At a jump the value at x0 belongs to one side; the slope of the other lies between its own points.
    """
    slopes, bars = np.empty(2), np.empty(2)
    for side in range(2):
        own = RIGHT if side == 0 else LEFT
        if broken and abs(w[own, 0]) * w[H, 0] > _STANDS_OUT * w[JITTER, 0]:
            for k in range(points - 1):
                width = w[H, k + 1] - w[H, k]
                w[SECANT, k] = (w[own, k + 1] * w[H, k + 1] - w[own, k] * w[H, k]) / width
                w[MIDDLE, k] = 0.5 * (w[H, k] + w[H, k + 1])
                w[SPREAD, k] = 1.4143 * w[JITTER, k + 1] / width
            found = best_window(w, MIDDLE, MIDDLE, SECANT, SPREAD, ZERO, points - 1)
        else:
            for k in range(points):
                w[SPREAD, k] = 2.0 * w[SIGMA, k]
            found = best_window(w, H, H, own, SPREAD, ZERO, points)
        slopes[side], bars[side] = found[0], found[1] + NOISE_BARS * found[2]
    return slopes[0], bars[0], slopes[1], bars[1]


@_jit
def _ask_coarser(step: float, largest: float, high: float, ask: Any) -> bool:
    """Ask for a step above the largest that an entry has, unless that would leave the range."""
    step = min(step, high)
    if step < 1.4 * largest:
        return False
    ask[COARSER] = max(ask[COARSER], step)
    return True


@_jit
def _more_steps(points: int, miss: float, low: float, high: float, w: Any, ask: Any) -> bool:
    """Ask for one more step as good as those there are; ``miss`` is the error that it has to show."""
    if NOISE_BARS * w[SIGMA, 0] * 8.0 <= 0.25 * miss and w[H, 0] / 8.0 >= low:
        ask[FINER] = min(ask[FINER], w[H, 0] / 8.0)
        return True
    if _ask_coarser(4.0 * w[H, points - 1], w[H, points - 1], high, ask):
        return True
    middle = _widest_hole(w, points)
    if middle == 0.0:
        return False
    ask[FILLING] = middle
    return True


@_jit
def _better_steps(
    points: int, truncation: float, noise_bar: float, first: int, goal: float, low: float, high: float, w: Any, ask: Any
) -> bool:
    """Ask for the step that shrinks the larger part of the error bar: finer, coarser or between."""
    h = w[H, first]
    if points == 1 and _ask_coarser(8.0 * h, h, high, ask):
        return True
    room_above = w[H, first + 1] / h if first + 1 < points else np.inf
    if truncation > noise_bar:
        smaller = max(low, h * min(max(math.sqrt(0.3 * goal / truncation), 1.0 / 64.0), 0.25))
        if first == 0:
            noise_then = NOISE_BARS * w[SIGMA, 0] * h / smaller
            if noise_then <= max(goal, 0.5 * truncation) and smaller < 0.7 * h:
                ask[FINER] = min(ask[FINER], smaller)
                return True
        elif h / w[H, first - 1] > 3.0:
            ask[FILLING] = math.sqrt(h * w[H, first - 1])
            return True
        if room_above < np.inf and room_above > 3.0:
            ask[FILLING] = math.sqrt(h * w[H, first + 1])
            return True
        return False
    wider = h * min(max(2.0 * noise_bar / goal, 2.0), 4096.0)
    k = first
    while k + 1 < points and w[H, k + 1] / w[H, k] <= 2.5:
        k += 1
    if k + 1 == points:
        return _ask_coarser(max(wider, 2.0 * w[H, k]), w[H, k], high, ask)
    ask[FILLING] = min(max(wider, 2.0 * w[H, k]), math.sqrt(w[H, k] * w[H, k + 1]))
    return True


@_jit
def _decide_infinite(points: int, claim: float, full: bool, low: float, high: float, w: Any, ask: Any) -> int:
    """Decide a NaN or infinite claim: an infinite one agrees where the slope diverges with its sign."""
    if math.isnan(claim):
        return DISAGREES
    growth = _growth(points, w)
    if points < 4 and not full:
        if w[H, 0] / 64.0 >= low:
            ask[FINER] = min(ask[FINER], w[H, 0] / 64.0)
            return PENDING
        if _ask_coarser(64.0 * w[H, points - 1], w[H, points - 1], high, ask):
            return PENDING
    sign = 1.0 if claim > 0.0 else -1.0
    rises = w[RIGHT, 0] * sign > 0.0 or w[LEFT, 0] * sign > 0.0
    return AGREES if growth < _GROWTH_EXPONENT and rises else DISAGREES


@_jit
def _decide(
    claim: float,
    value: float,
    unit: float,
    measure_only: bool,
    power: int,
    points: int,
    constant: bool,
    fit: Any,
    rtol: float,
    atol: float,
    sharp: float,
    base: float,
    least: int,
    scale: float,
    low: float,
    high: float,
    full: bool,
    closing: bool,
    w: Any,
    ask: Any,
    shown: Any,
) -> int:
    """Decide one entry from its steps, or ask for the step that would decide it.

    ``fit`` is what best_window found, ``base`` the floor of the tolerance; ``closing`` says that no further step
    will be taken. ``shown`` receives estimate and error bar of the side that a claim at a jump is nearer to.
    """
    found, truncation, sd, first, _ = fit
    noise_bar = NOISE_BARS * sd
    bar = truncation + noise_bar
    if measure_only:
        claim = found
    if not math.isfinite(claim):
        return _decide_infinite(points, claim, full or closing, low, high, w, ask)
    reference = max(abs(claim), abs(found))
    goal = max(min(rtol, sharp) * reference, base) + atol
    tolerance = atol + rtol * reference
    close = abs(claim - found) <= tolerance + bar
    if constant and close and w[H, points - 1] >= _WIDE * high:
        return AGREES  # an output that does not move at all over a wide step has derivative zero
    shape, telling = _shape_at_x(points, max(rtol * reference, base) + atol, low, scale, full or closing, w)
    if shape == OPEN:
        if points == 1:  # one gap says nothing yet: how it changes with the step tells a bend from a kink
            telling = 8.0 * w[H, 0]
        if telling < w[H, 0]:
            ask[FINER] = min(ask[FINER], telling)
            return PENDING
        if _ask_coarser(telling, w[H, points - 1], high, ask):
            return PENDING
        shape = SMOOTH  # no step in range would tell, and what there is does not say kink
    if shape != SMOOTH:
        if points < 3 and not full and not closing:
            middle = _widest_hole(w, points)
            if middle > 0.0:
                ask[FILLING] = middle
                return PENDING
            if _ask_coarser(4.0 * w[H, points - 1], w[H, points - 1], high, ask):
                return PENDING
        right, right_bar, left, left_bar = _sides(points, shape == BROKEN, w)
        if shape == BENT and _growth(points, w) < _GROWTH_EXPONENT:
            # a cusp: the slopes have no limit, but they are beyond what the smallest step shows
            k = _first_seen(points, w)
            right, right_bar = w[RIGHT, k], NOISE_BARS * w[SIGMA, k]
            left, left_bar = w[LEFT, k], NOISE_BARS * w[SIGMA, k]
        if shape == BROKEN:
            is_right = abs(claim - right) - right_bar <= abs(claim - left) - left_bar
            found, bar = (right, right_bar) if is_right else (left, left_bar)
            shown[0], shown[1] = found, bar
            one_side = abs(claim - found) <= atol + rtol * max(abs(claim), abs(found)) + bar
            known = bar <= max(_SLACK * rtol * max(abs(claim), abs(found)), base)
            further = one_side and not known and not full and not closing
            if further and _ask_coarser(high / 16.0, w[H, points - 1], high, ask):
                return PENDING
            if measure_only or (one_side and known):
                return JUMP
            return NOISE if one_side else DISAGREES
        lowest = min(right - right_bar, left - left_bar) - tolerance
        highest = max(right + right_bar, left + left_bar) + tolerance
        return KINK if lowest <= claim <= highest or measure_only else DISAGREES
    precise = bar <= goal
    if precise and close and points >= least and (power == 2 or points >= 3):
        return AGREES
    votes = 0
    if not close:
        votes = _votes(w, points, found, claim)
        settled = bar <= max(rtol * abs(found), base) or points >= 6 or full or closing
        if votes >= _VOTES and settled:
            return DISAGREES
    if not full and not closing:
        miss = abs(claim - found)
        if precise or (not close and bar < 0.25 * miss and votes < _VOTES):
            asked = _more_steps(points, max(goal, miss), low, high, w, ask)
        else:
            asked = _better_steps(points, truncation, noise_bar, first, goal, low, high, w, ask)
        if asked:
            return PENDING
    if not closing:
        return PENDING  # another entry of the column may ask for a step that helps here
    widest = max(abs(w[RIGHT, points - 1]), abs(w[LEFT, points - 1]))
    if (close and bar <= max(_SLACK * goal, rtol * widest)) or (measure_only and bar <= max(rtol * abs(found), base)):
        return AGREES
    if abs(claim - found) <= tolerance + 2.0 * bar and 2.0 * bar <= base:
        return AGREES  # both are below what any step resolves beside the other entries of the row
    rounding = 2.0 * unit * abs(value)
    if abs(found) <= bar and abs(claim) * w[H, points - 1] <= rounding and w[JITTER, 0] <= 2.0 * rounding:
        return AGREES  # over the whole range the claim moves f by no more than a rounding, and f moves by none
    if close and _standing_still(points, w) >= _VOTES:
        return AGREES  # zero up to the nearest kink, and nothing beyond it can tell
    if power == 1:
        return EDGE
    return CURVATURE if truncation > noise_bar else NOISE


@_jit
def decide_columns(
    columns: Any,
    slots: Any,
    count: Any,
    up_step: Any,
    down_step: Any,
    up: Any,
    down: Any,
    value: Any,
    noise: Any,
    unit: Any,
    claims: Any,
    rtol_out: Any,
    rtol_in: Any,
    atol: float,
    sharp: float,
    share: Any,
    row: Any,
    top: Any,
    scale: Any,
    low: Any,
    high: Any,
    least: int,
    measure_only: bool,
    code: Any,
    estimate: Any,
    error: Any,
    used: Any,
    wish: Any,
) -> None:
    """Decide every open entry of the given columns, or say which steps would decide it.

    ``up[k, slot, i]`` are the differences of output i at step k of the column in that slot, NaN where apply
    gave nothing finite. ``wish[slot]`` receives a finer, a coarser and a filling step, 0 where not wanted.
    """
    endpoints, m = claims.shape[0], value.shape[0]
    order, key = np.empty(MAX_STEPS, np.int64), np.empty(MAX_STEPS)
    w = np.zeros((ROWS, MAX_STEPS))
    ask, shown = np.empty(3), np.empty(2)
    for index in range(columns.shape[0]):
        j, slot = columns[index], slots[index]
        steps = count[slot]
        for k in range(steps):
            v = up_step[k, slot]
            s = k - 1
            while s >= 0 and key[s] > v:
                key[s + 1], order[s + 1] = key[s], order[s]
                s -= 1
            key[s + 1], order[s + 1] = v, k
        full = steps >= MAX_STEPS
        ask[FINER], ask[COARSER], ask[FILLING] = np.inf, 0.0, 0.0
        for closing in (False, True):
            if closing and (ask[FINER] < np.inf or ask[COARSER] > 0.0 or ask[FILLING] > 0.0):
                break
            for i in range(m):
                pending = False
                for c in range(endpoints):
                    pending = pending or code[c, i, j] == PENDING
                if not pending:
                    continue
                power, points, constant = _gather(
                    i, slot, value[i], noise[i], unit[i], steps, order, up_step, down_step, up, down, w
                )
                if not math.isfinite(value[i]) or (power == 1 and points < 3):
                    if math.isfinite(value[i]) and not full and not closing:
                        if key[0] / 16.0 >= low[j]:
                            ask[FINER] = min(ask[FINER], key[0] / 16.0)
                            continue
                        if points > 0 and _ask_coarser(16.0 * key[steps - 1], key[steps - 1], high[j], ask):
                            continue
                    for c in range(endpoints):
                        code[c, i, j] = EDGE if points > 0 else NONFINITE
                    estimate[i, j], error[i, j], used[i, j] = np.nan, np.inf, key[0]
                    continue
                if constant:
                    fit = (0.0, 0.0, w[SIGMA, points - 1], points - 1, points - 1)
                else:
                    fit = best_window(w, H, POWER, SLOPE, SIGMA, GAP, points)
                if closing and _raised_noise(points, w):
                    fit = best_window(w, H, POWER, SLOPE, SIGMA, GAP, points)
                found, truncation, sd, first, _ = fit
                shown[0], shown[1], used[i, j] = found, truncation + NOISE_BARS * sd, w[H, first]
                rtol = max(rtol_out[i], rtol_in[j])
                variation = max(abs(w[RIGHT, first]), abs(w[LEFT, first]))
                widest = max(abs(w[RIGHT, points - 1]), abs(w[LEFT, points - 1]))
                variation = min(variation, widest) if w[H, points - 1] >= _SPAN * scale[j] else 0.0
                typical = min(row[i] / scale[j], top[i])
                base = share[i] * max(typical, variation)
                if constant and least == 1:
                    base = max(base, rtol * typical)
                for c in range(endpoints):
                    if code[c, i, j] == PENDING:
                        code[c, i, j] = _decide(
                            claims[c, i, j], value[i], unit[i], measure_only, power, points, constant, fit, rtol, atol,
                            sharp, base, least, scale[j], low[j], high[j], full, closing, w, ask, shown,
                        )  # fmt: skip
                estimate[i, j], error[i, j] = shown[0], shown[1]
        wish[slot, FINER] = ask[FINER] if ask[FINER] < np.inf else 0.0
        wish[slot, COARSER] = ask[COARSER]
        wish[slot, FILLING] = ask[FILLING]
