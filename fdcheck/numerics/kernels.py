"""The kernels of a check: extrapolation, and the decision on an entry.

They are plain functions here and are compiled by :mod:`fdcheck.numerics.compiled` when that pays. They live in one
file because a cached kernel that calls a kernel of another file keeps serving the old code after an edit. They see
contiguous float64 only.

Notation, for one entry (output i, input j) measured at half-widths h_0 < h_1 < ...::

    up, down      f(x + h) - f(x), f(x - h) - f(x)
    right, left   up / h, -down / h: the two one-sided slopes
    slope         (up - down) / 2h: the central slope, error O(h**2)
    gap           right - left: O(h) where f is smooth, constant at a kink
    noise         standard deviation of the rounding or jitter in one value of f
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

PENDING, AGREES, DISAGREES, KINK, JUMP, NOISE, CURVATURE, EDGE, NONFINITE, SKIPPED = range(10)
# Codes of an entry; NOISE, CURVATURE and EDGE are the reasons why one is undecided, SKIPPED is not looked at.

SMOOTH, OPEN, BENT, BROKEN = range(4)  # what f looks like at x: no kink, not known yet, a kink, a jump
FINER, COARSER, FILLING = range(3)  # steps asked for: below all there are, above them, between two of them
MAX_STEPS = 16  # steps that one column may take: nine reach full accuracy, the rest place a kink or a jump
H, POWER, SLOPE, SIGMA, GAP, RIGHT, LEFT, JITTER, TABLEAU, SPREAD, ASK, SHOWN = range(SERIES := 12)
# Rows of the steps of one entry: half-width, its power in the error, the slopes and what they carry, and scratch;
# then the steps that are asked for, and the estimate and error bar that are shown of it.

VALUE, LEVEL, UNIT, RTOL_OUT, ATOL, SHARE, ROW, TOP = range(8)  # of an output: noise and accuracy of its entries
SIZE, SCALE, LOW, HIGH, RTOL_IN = range(5)  # of an input: magnitude, narrowest and widest step, tolerance
UP, DOWN = range(2)  # sides of a difference
ESTIMATE, ERROR, STEP = range(3)  # what is found of an entry


class _Entry(NamedTuple):
    """What the decision on one entry needs beside its steps."""

    value: float
    unit: float
    rtol: float
    atol: float
    sharp: float
    base: float  # floor of the tolerance
    size: float  # magnitude of the input
    scale: float
    low: float
    high: float
    least: int
    power: int  # power of h in the error of a slope: 2 central, 1 one-sided
    points: int
    constant: bool  # the output never moved
    closing: bool  # no further step will be taken


INLINED = ("_gather", "_fit", "best_window", "_floor", "_decide", "_shape_at_x", "_growth")
# What every entry goes through. Inlined, it takes two thirds of the time (50 ns an entry in place of 78) and compiles
# in 5.5 s in place of 5.2 s. Named here because a change of another file leaves the cache as it is.

NOISE_BARS = 3.0  # standard deviations of noise in an error bar: a normal deviate leaves it in 0.3 % of the cases
_STANDS_OUT = 8.0  # a gap above 8 noise / h is real: it is 3.3 of its standard deviations sqrt(6) noise / h
_DIFFERS = 6.0  # two gaps that differ by more than this many noise / h are not one: 2.4 standard deviations
_KINK_EXPONENT = 0.5  # halfway between 0 (kink) and 1 (smooth) in d log|gap| / d log h
_GROWTH_EXPONENT = -0.3  # one-sided slopes that grow faster than this as h falls have not converged
_JUMP_EXPONENT = -0.75  # halfway between -1/2 (cusp) and -1 (jump) in d log|one-sided slope| / d log h
_SLACK = 4.0  # a bar of four tolerances still lets an error of 1 % stand out at rtol 1e-3
_AT_X = 2.0**-48  # part of its scale within which a kink counts as lying at x: 16 ulp of an input of that size
_WIDE = 2.0**-4  # part of its widest step that an input has moved when an output that stands still is a constant
_SPAN = 2.0**-20  # part of its scale that an input has to move before what f varies by says anything of its size
_VOTES = 3  # no claim is rejected on two numbers that happen to be close
_REACH = 8.0  # last changes that a slope may be away: half of a kink's gap is 7 of them where d is a quarter of h
_ENOUGH = 6  # steps after which a rejected claim is not measured more accurately for the sake of the report
_WINDOW = 4  # steps in an extrapolation: a fifth adds noise and no accuracy in double precision


def best_window(w: Any, count: int) -> Any:
    """Extrapolate slopes to h = 0 over windows of 1 to 4 steps and choose the most reliable one.

    Neville's scheme in the power of h that the error has (Richardson 1911; Ridders 1982 chose windows so): h**2 for
    central slopes, h for one-sided ones. The truncation of a window is its change when the largest step is left
    out, plus the part of the gaps that does not scale as h (a kink inside the window shows there), and is raised
    where a smaller step contradicts the window beyond its own noise. Returns (estimate, truncation, noise, first
    step, last step).
    """
    best, found, truncation, sd, first, last = np.inf, w[SLOPE, 0], np.inf, w[SIGMA, 0], 0, 0
    for length in range(1, min(_WINDOW, count) + 1):
        for a in range(count - length + 1):
            b = a + length - 1
            if length == 1:
                w[TABLEAU, a], w[SPREAD, a] = w[SLOPE, a], w[SIGMA, a]
                if count == 1:
                    change = abs(w[GAP, 0])
                elif a == count - 1:
                    change = abs(w[SLOPE, a] - w[SLOPE, a - 1])
                else:
                    q = w[POWER, a] / w[POWER, a + 1]
                    change = abs(w[SLOPE, a] - w[SLOPE, a + 1]) * q / (1.0 - q)
            else:
                q = w[POWER, a] / w[POWER, b]
                step = (w[TABLEAU, a] - w[TABLEAU, a + 1]) * q / (1.0 - q)
                w[TABLEAU, a] += step
                w[SPREAD, a] = (w[SPREAD, a] + q * w[SPREAD, a + 1]) / (1.0 - q)
                change = abs(step)
                for k in range(a + 1, b + 1):
                    leak = abs(w[GAP, k] * w[H, a] / w[H, k] - w[GAP, a]) - 2.0 * NOISE_BARS * w[SIGMA, a]
                    change = max(change, leak)
            for k in range(a):
                change = max(change, abs(w[SLOPE, k] - w[TABLEAU, a]) - NOISE_BARS * w[SIGMA, k])
            total = change + NOISE_BARS * w[SPREAD, a]
            if total < best:
                best, found, truncation, sd, first, last = total, w[TABLEAU, a], change, w[SPREAD, a], a, b
    return found, truncation, sd, first, last


def _exponent(small: float, large: float, h_small: float, h_large: float) -> float:
    """D log(size) / d log(h) between two steps."""
    return math.log(max(large, 1e-300) / max(small, 1e-300)) / math.log(h_large / h_small)


def _votes(claim: float, estimate: float, entry: Any, w: Any) -> int:
    """Count steps, from the smallest up, whose slopes side with the estimate against the claim.

    A vote holds against the rounding of products with x too, which a line of points may miss: u |J x| in f.
    """
    votes = 0
    half = 0.5 * abs(claim - estimate)
    product = entry.unit * max(abs(claim), abs(estimate)) * entry.size
    for k in range(entry.points - 1, -1, -1):
        off = abs(w[SLOPE, k] - estimate)
        noise = NOISE_BARS * max(w[SIGMA, k], 0.7072 * product / w[H, k])
        if off + noise <= half:
            votes += 1
        elif off - noise > half:
            votes = 0  # a smaller step tells another story than the larger ones
    return votes


def _heads_for(claim: float, points: int, w: Any) -> bool:
    """Tell whether slopes move towards a claim, and faster the smaller the step: a kink lies below the smallest step.

    Beyond a kink at distance d they go as 1 - d / h; those of a smooth function settle instead.
    """
    if points < 3:
        return False
    last, before = w[SLOPE, 0] - w[SLOPE, 1], w[SLOPE, 1] - w[SLOPE, 2]
    noise = NOISE_BARS * math.sqrt(w[SIGMA, 0] ** 2 + w[SIGMA, 1] ** 2)
    left = claim - w[SLOPE, 0]
    grows = last * before > 0.0 and abs(last) > max(abs(before), noise)
    return bool(grows and left * last > 0.0 and abs(left) <= _REACH * abs(last))


def _widest_hole(w: Any, count: int) -> float:
    """Geometric middle of the widest hole between two steps, or 0 where no hole is wider than a factor 3."""
    widest, middle = 3.0, 0.0
    for k in range(count - 1):
        if w[H, k + 1] / w[H, k] > widest:
            widest, middle = w[H, k + 1] / w[H, k], math.sqrt(w[H, k] * w[H, k + 1])
    return middle


def _gather(i: int, slot: int, order: Any, outputs: Any, table: Any, w: Any) -> Any:
    """Fill the rows of ``w`` with one entry's steps, smallest first: (power of h in the error, points, constant).

    Central slopes where both sides are finite at one step at least, else the slopes of the finite side.
    """
    value, noise, unit = outputs[VALUE, i], outputs[LEVEL, i], outputs[UNIT, i]
    steps = table.count[slot]
    points = rights = lefts = 0
    constant = True
    for s in range(steps):
        k = order[s]
        u, d = table.change[UP, k, slot, i], table.change[DOWN, k, slot, i]
        constant = constant and u == 0.0 and d == 0.0
        rights += math.isfinite(u)
        lefts += math.isfinite(d)
        if math.isfinite(u) and math.isfinite(d):
            hu, hd = table.spacing[UP, k, slot], table.spacing[DOWN, k, slot]
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
        d = table.change[UP, k, slot, i] if rights >= lefts else -table.change[DOWN, k, slot, i]
        if math.isfinite(d):
            h = table.spacing[UP if rights >= lefts else DOWN, k, slot]
            slope = d / h
            w[H, points] = w[POWER, points] = h
            w[RIGHT, points] = w[LEFT, points] = w[SLOPE, points] = slope
            w[GAP, points] = 0.0
            w[JITTER, points] = max(noise, unit * (abs(value) + abs(d)))
            w[SIGMA, points] = 1.4143 * w[JITTER, points] / h
            points += 1
    return 1, points, False


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


def _first_seen(points: int, w: Any) -> int:
    """Return the smallest step at which a one-sided difference stands out of the noise, ``points`` if none does."""
    k = 0
    while k < points and max(abs(w[RIGHT, k]), abs(w[LEFT, k])) * w[H, k] <= _STANDS_OUT * w[JITTER, k]:
        k += 1
    return k


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
    if k + 2 < points and large <= 1.1 * max(abs(w[RIGHT, k + 2]), abs(w[LEFT, k + 2])):
        return 0.0  # only the smallest step stands out, as noise that was measured too low does
    return _exponent(small, large, w[H, k], w[H, k + 1])


def _shape_at_x(goal: float, entry: Any, w: Any) -> Any:
    """Tell what f looks like at x: SMOOTH, OPEN (with the step that would tell), BENT or BROKEN.

    Only the smallest steps at which the gap stands out of the noise may say so: at steps near a period a sine
    looks like a kink. While a smaller step would still show the gap, the question is open.
    """
    points = entry.points
    growth = _growth(points, w)
    if growth < _GROWTH_EXPONENT:
        smaller = max(w[H, 0] / 64.0, entry.low)
        if smaller < 0.7 * w[H, 0] and not entry.closing:
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
    finest = max(2.0 * _STANDS_OUT * w[JITTER, k] / abs(gap), max(entry.low, _AT_X * entry.scale))
    can_tell = k == 0 and finest < 0.7 * w[H, 0]
    if k + 1 == points:
        if entry.closing:
            return SMOOTH, 0.0
        return OPEN, finest if can_tell else 8.0 * w[H, k]
    if _exponent(abs(gap), abs(w[GAP, k + 1]), w[H, k], w[H, k + 1]) > _KINK_EXPONENT:
        return SMOOTH, 0.0
    if can_tell and not entry.closing:
        return OPEN, max(finest, w[H, 0] / 512.0)
    steady = gap * w[GAP, k + 1] > 0.0 and 0.5 < gap / w[GAP, k + 1] < 2.0
    return BENT if steady else SMOOTH, 0.0


def _standing_still(points: int, w: Any) -> int:
    """How many of the smallest steps leave the output unchanged to the last bit."""
    k = 0
    while k < points and w[RIGHT, k] == 0.0 and w[LEFT, k] == 0.0:
        k += 1
    return k


def _side(points: int, own: Any, broken: bool, w: Any, side: Any) -> Any:
    """Slope of one side and its bar, from its slopes ``own``.

    At a jump the value at x0 belongs to one side; the slope of the other lies between its own points.
    """
    beyond_jump = broken and abs(own[0]) * w[H, 0] > _STANDS_OUT * w[JITTER, 0]
    count = points - 1 if beyond_jump else points
    for k in range(count):
        side[H, k], side[SLOPE, k], side[SIGMA, k], side[GAP, k] = w[H, k], own[k], 2.0 * w[SIGMA, k], 0.0
        if beyond_jump:
            width = w[H, k + 1] - w[H, k]
            side[H, k] = 0.5 * (w[H, k] + w[H, k + 1])
            side[SLOPE, k] = (own[k + 1] * w[H, k + 1] - own[k] * w[H, k]) / width
            side[SIGMA, k] = 1.4143 * w[JITTER, k + 1] / width
        side[POWER, k] = side[H, k]
    found, truncation, sd, _, _ = best_window(side, count)
    return found, truncation + NOISE_BARS * sd


def _ask_coarser(step: float, largest: float, high: float, w: Any) -> bool:
    """Ask for a step above the largest that an entry has, unless that would leave the range."""
    step = min(step, high)
    if step < 1.4 * largest:
        return False
    w[ASK, COARSER] = max(w[ASK, COARSER], step)
    return True


def _third_step(entry: Any, w: Any) -> bool:
    """Ask for one more step at a kink or jump, between the others or above them."""
    middle = _widest_hole(w, entry.points)
    if middle > 0.0:
        w[ASK, FILLING] = middle
        return True
    return _ask_coarser(4.0 * w[H, entry.points - 1], w[H, entry.points - 1], entry.high, w)


def _more_steps(miss: float, entry: Any, w: Any) -> None:
    """Ask for one more step as good as those there are; ``miss`` is the error that it has to show."""
    if NOISE_BARS * w[SIGMA, 0] * 8.0 <= 0.25 * miss and w[H, 0] / 8.0 >= entry.low:
        w[ASK, FINER] = min(w[ASK, FINER], w[H, 0] / 8.0)
        return
    if _ask_coarser(4.0 * w[H, entry.points - 1], w[H, entry.points - 1], entry.high, w):
        return
    middle = _widest_hole(w, entry.points)
    if middle > 0.0:
        w[ASK, FILLING] = middle


def _better_steps(fit: Any, goal: float, entry: Any, w: Any) -> None:
    """Ask for the step that shrinks the larger part of the error bar: finer, coarser or between."""
    _, truncation, sd, first, _ = fit
    points, h = entry.points, w[H, first]
    noise_bar = NOISE_BARS * sd
    if points == 1 and _ask_coarser(8.0 * h, h, entry.high, w):
        return
    if truncation > noise_bar:
        smaller = max(entry.low, h * min(max(math.sqrt(0.3 * goal / truncation), 1.0 / 64.0), 0.25))
        if first == 0:
            noise_then = NOISE_BARS * w[SIGMA, 0] * h / smaller
            if noise_then <= max(goal, 0.5 * truncation) and smaller < 0.7 * h:
                w[ASK, FINER] = min(w[ASK, FINER], smaller)
                return
        elif h / w[H, first - 1] > 3.0:
            w[ASK, FILLING] = math.sqrt(h * w[H, first - 1])
            return
        if first + 1 < points and w[H, first + 1] / h > 3.0:
            w[ASK, FILLING] = math.sqrt(h * w[H, first + 1])
        return
    k = first
    while k + 1 < points and w[H, k + 1] / w[H, k] <= 2.5:
        k += 1
    wider = max(h * min(max(2.0 * noise_bar / goal, 2.0), 4096.0), 2.0 * w[H, k])
    if k + 1 == points:
        _ask_coarser(wider, w[H, k], entry.high, w)
    else:
        w[ASK, FILLING] = min(wider, math.sqrt(w[H, k] * w[H, k + 1]))


def _decide_infinite(claim: float, entry: Any, w: Any) -> int:
    """Decide a NaN or infinite claim: an infinite one agrees where the slope diverges with its sign."""
    if math.isnan(claim):
        return DISAGREES
    if entry.points < 4 and not entry.closing:
        if w[H, 0] / 64.0 >= entry.low:
            w[ASK, FINER] = min(w[ASK, FINER], w[H, 0] / 64.0)
            return PENDING
        if _ask_coarser(64.0 * w[H, entry.points - 1], w[H, entry.points - 1], entry.high, w):
            return PENDING
    sign = 1.0 if claim > 0.0 else -1.0
    rises = w[RIGHT, 0] * sign > 0.0 or w[LEFT, 0] * sign > 0.0
    return AGREES if _growth(entry.points, w) < _GROWTH_EXPONENT and rises else DISAGREES


def _decide_jump(claim: float, measure_only: bool, right: Any, left: Any, entry: Any, w: Any) -> int:
    """Decide a claim where f jumps at x: it has to be the slope of one of the sides."""
    is_right = abs(claim - right[0]) - right[1] <= abs(claim - left[0]) - left[1]
    found, bar = right if is_right else left
    w[SHOWN, 0], w[SHOWN, 1] = found, bar
    reference = max(abs(claim), abs(found))
    is_side = abs(claim - found) <= entry.atol + entry.rtol * reference + bar
    known = bar <= max(_SLACK * entry.rtol * reference, entry.base)
    further = is_side and not known and not entry.closing
    if further and _ask_coarser(entry.high / 16.0, w[H, entry.points - 1], entry.high, w):
        return PENDING
    if measure_only or (is_side and known):
        return JUMP
    return NOISE if is_side else DISAGREES


def _decide_kink(
    claim: float, measure_only: bool, tolerance: float, right_side: Any, left_side: Any, entry: Any, w: Any
) -> int:
    """Decide a claim where f has a kink or a cusp at x: it has to lie between the slopes of the sides."""
    (right, right_bar), (left, left_bar) = right_side, left_side
    if _growth(entry.points, w) < _GROWTH_EXPONENT:
        # a cusp: the slopes have no limit, but they are beyond what the smallest step shows
        k = _first_seen(entry.points, w)
        right, left = w[RIGHT, k], w[LEFT, k]
        right_bar = left_bar = NOISE_BARS * w[SIGMA, k]
    lowest = min(right - right_bar, left - left_bar) - tolerance
    highest = max(right + right_bar, left + left_bar) + tolerance
    return KINK if lowest <= claim <= highest or measure_only else DISAGREES


def _decide_last(claim: float, measure_only: bool, fit: Any, goal: float, entry: Any, w: Any) -> int:
    """Decide an entry that no further step will make more accurate: what may be excused, and why it may not."""
    found, truncation, sd, _, _ = fit
    bar = truncation + NOISE_BARS * sd
    last = entry.points - 1
    off = abs(claim - found)
    tolerance = entry.atol + entry.rtol * max(abs(claim), abs(found))
    widest = max(abs(w[RIGHT, last]), abs(w[LEFT, last]))
    if off <= tolerance + bar and bar <= max(_SLACK * goal, entry.rtol * widest):
        return AGREES
    if measure_only and bar <= max(entry.rtol * abs(found), entry.base):
        return AGREES
    if off <= tolerance + 2.0 * bar and 2.0 * bar <= entry.base:
        return AGREES  # both are below what any step resolves beside the other entries of the row
    rounding = 2.0 * entry.unit * abs(entry.value)
    if abs(found) <= bar and abs(claim) * w[H, last] <= rounding and w[JITTER, 0] <= 2.0 * rounding:
        return AGREES  # over the whole range the claim moves f by no more than a rounding, and f moves by none
    if off <= tolerance + bar and _standing_still(entry.points, w) >= _VOTES:
        return AGREES  # zero up to the nearest kink, and nothing beyond it can tell
    if entry.power == 1:
        return EDGE
    return CURVATURE if truncation > NOISE_BARS * sd else NOISE


def _decide(claim: float, measure_only: bool, fit: Any, entry: Any, w: Any, side: Any) -> int:
    """Decide one entry from its steps, or ask for the step that would decide it.

    ``fit`` is what best_window found. The row SHOWN receives estimate and error bar of the side that a claim at a jump
    is nearer to.
    """
    found, truncation, sd, _, _ = fit
    points = entry.points
    bar = truncation + NOISE_BARS * sd
    if measure_only:
        claim = found
    if not math.isfinite(claim):
        return _decide_infinite(claim, entry, w)
    reference = max(abs(claim), abs(found))
    goal = max(min(entry.rtol, entry.sharp) * reference, entry.base) + entry.atol
    tolerance = entry.atol + entry.rtol * reference
    miss = abs(claim - found)
    close = miss <= tolerance + bar
    if entry.constant and close and w[H, points - 1] >= _WIDE * entry.high:
        return AGREES  # an output that does not move at all over a wide step has derivative zero
    shape, telling = _shape_at_x(max(entry.rtol * reference, entry.base) + entry.atol, entry, w)
    if shape == OPEN:
        if points == 1:  # one gap says nothing yet: how it changes with the step tells a bend from a kink
            telling = 8.0 * w[H, 0]
        if telling < w[H, 0]:
            w[ASK, FINER] = min(w[ASK, FINER], telling)
            return PENDING
        if _ask_coarser(telling, w[H, points - 1], entry.high, w):
            return PENDING
        shape = SMOOTH  # no step in range would tell, and what there is does not say kink
    if shape != SMOOTH and not (close and entry.power == 1):  # slopes of one side that cross zero look like a cusp
        if points < _VOTES and not entry.closing and _third_step(entry, w):
            return PENDING
        right = _side(points, w[RIGHT], shape == BROKEN, w, side)
        left = _side(points, w[LEFT], shape == BROKEN, w, side)
        if shape == BROKEN:
            return _decide_jump(claim, measure_only, right, left, entry, w)
        return _decide_kink(claim, measure_only, tolerance, right, left, entry, w)
    precise = bar <= goal
    if precise and close and points >= entry.least and (entry.power == 2 or points >= _VOTES):
        return AGREES
    votes = 0 if close or _heads_for(claim, points, w) else _votes(claim, found, entry, w)
    settled = bar <= max(entry.rtol * abs(found), entry.base) or points >= _ENOUGH or entry.closing
    if votes >= _VOTES and settled:
        return DISAGREES
    if not entry.closing:
        if precise or (not close and bar < 0.25 * miss and votes < _VOTES):
            _more_steps(max(goal, miss), entry, w)
        else:
            _better_steps(fit, goal, entry, w)
        return PENDING  # where nothing was asked, a step that another entry of the column asks for may help
    return _decide_last(claim, measure_only, fit, goal, entry, w)


def _sorted_steps(slot: int, table: Any, order: Any) -> None:
    """Fill ``order`` with the steps of a column, narrowest first."""
    for k in range(table.count[slot]):
        s = k - 1
        while s >= 0 and table.spacing[UP, order[s], slot] > table.spacing[UP, k, slot]:
            order[s + 1] = order[s]
            s -= 1
        order[s + 1] = k


def _fit(closing: bool, constant: bool, points: int, w: Any) -> Any:
    """Return the best window of an entry; a constant has slope zero within the noise of its widest step."""
    if constant:
        return 0.0, 0.0, w[SIGMA, points - 1], points - 1, points - 1
    fit = best_window(w, points)
    if closing and _raised_noise(points, w):
        fit = best_window(w, points)
    return fit


def _floor(
    i: int, j: int, outputs: Any, inputs: Any, constant: bool, least: int, rtol: float, first: int, last: int, w: Any
) -> Any:
    """Return the floor of an entry's tolerance: a share of its row, or of what the output varies by."""
    typical = min(outputs[ROW, i] / inputs[SCALE, j], outputs[TOP, i])
    if constant and least == 1:
        return max(outputs[SHARE, i], rtol) * typical
    variation = min(max(abs(w[RIGHT, first]), abs(w[LEFT, first])), max(abs(w[RIGHT, last]), abs(w[LEFT, last])))
    return outputs[SHARE, i] * max(typical, variation if w[H, last] >= _SPAN * inputs[SCALE, j] else 0.0)


def _ask_where_not_finite(
    i: int, j: int, slot: int, order: Any, points: int, inputs: Any, table: Any, closing: bool, w: Any
) -> bool:
    """Ask for a step at which an output that is finite at x0 may be finite beside it."""
    narrowest = table.spacing[UP, order[0], slot]
    widest = table.spacing[UP, order[table.count[slot] - 1], slot]
    if closing:
        return False
    if narrowest / 16.0 >= inputs[LOW, j]:
        w[ASK, FINER] = min(w[ASK, FINER], narrowest / 16.0)
        return True
    return points > 0 and _ask_coarser(16.0 * widest, widest, inputs[HIGH, j], w)


def decide_columns(
    columns: Any,
    slots: Any,
    table: Any,
    outputs: Any,
    inputs: Any,
    claims: Any,
    sharp: float,
    least: int,
    measure_only: bool,
    result: Any,
    scratch: Any,
) -> None:
    """Decide every open entry of the given columns, or say which steps would decide it.

    ``result.wish[slot]`` receives a finer, a coarser and a filling step, 0 where not wanted. Where a column wants
    none, its open entries are closed.
    """
    endpoints, m = claims.shape[0], outputs.shape[1]
    order, w, side = scratch
    for index in range(columns.shape[0]):
        j, slot = columns[index], slots[index]
        _sorted_steps(slot, table, order)
        full = table.count[slot] >= MAX_STEPS
        w[ASK, FINER], w[ASK, COARSER], w[ASK, FILLING] = np.inf, 0.0, 0.0
        for last_round in (False, True):
            if last_round and (w[ASK, FINER] < np.inf or w[ASK, COARSER] > 0.0 or w[ASK, FILLING] > 0.0):
                break
            closing = full or last_round
            for i in range(m):
                pending = False
                for c in range(endpoints):
                    pending = pending or result.code[c, i, j] == PENDING
                if not pending:
                    continue
                power, points, constant = _gather(i, slot, order, outputs, table, w)
                is_finite = math.isfinite(outputs[VALUE, i])
                if not is_finite or (power == 1 and points < _VOTES):
                    if is_finite and _ask_where_not_finite(i, j, slot, order, points, inputs, table, closing, w):
                        continue
                    for c in range(endpoints):
                        result.code[c, i, j] = EDGE if points > 0 else NONFINITE
                    result.entry[ESTIMATE, i, j], result.entry[ERROR, i, j] = np.nan, np.inf
                    result.entry[STEP, i, j] = table.spacing[UP, order[0], slot]
                    continue
                fit = _fit(closing, constant, points, w)
                w[SHOWN, 0], w[SHOWN, 1] = fit[0], fit[1] + NOISE_BARS * fit[2]
                result.entry[STEP, i, j] = w[H, fit[3]]
                rtol = max(outputs[RTOL_OUT, i], inputs[RTOL_IN, j])
                base = _floor(i, j, outputs, inputs, constant, least, rtol, fit[3], points - 1, w)
                entry = _Entry(
                    outputs[VALUE, i], outputs[UNIT, i], rtol, outputs[ATOL, i], sharp, base,
                    inputs[SIZE, j], inputs[SCALE, j], inputs[LOW, j], inputs[HIGH, j],
                    least, power, points, constant, closing,
                )  # fmt: skip
                for c in range(endpoints):
                    if result.code[c, i, j] == PENDING:
                        result.code[c, i, j] = _decide(claims[c, i, j], measure_only, fit, entry, w, side)
                result.entry[ESTIMATE, i, j], result.entry[ERROR, i, j] = w[SHOWN, 0], w[SHOWN, 1]
        result.wish[slot, FINER] = w[ASK, FINER] if w[ASK, FINER] < np.inf else 0.0
        result.wish[slot, COARSER] = w[ASK, COARSER]
        result.wish[slot, FILLING] = w[ASK, FILLING]
