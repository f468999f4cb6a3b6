"""Where a sum of errors comes from: one wrong entry among a million is found with a few sums of parts."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

PartialSum = Callable[[int, int, bool], tuple[float, float]]
"""``sum_of(first, last, tilted)`` returns the sum of the errors of some members, and its error bar; tilted, each error
counts with a weight that grows evenly from 1/2 at the first member to 1 at the last."""

_GAIN = 4
"""How many times narrower an interval has to become for reading a place off to be worth two sums: so much as two
halvings."""

_MOST = 0.5
"""Part of a sum that has to come from an interval for the rest to be left alone."""

_ROUNDING = 0.25
"""Part of a place that is allowed for beside the error bars."""

_TRIES = 60
"""Sums at most: 3 for each of log2(10**6) halvings, where no place can be read off."""

_MISREAD = 3
"""Readings that may fail before halving goes on without: with a few wrong members, halves soon hold one alone; with
many they never do."""


def tilt(count: int) -> NDArray[np.float64]:
    """Return the weights of a tilted sum: from 1/2 at the first member to nearly 1 at the last."""
    return np.linspace(0.5, 1.0, count, endpoint=False)


def located(sum_of: PartialSum, size: int, value: float, bar: float) -> tuple[int | None, bool]:
    """Return the member that the sum of all comes from, or one of a few.

    With a single wrong member, the ratio of a tilted sum to the plain one is its weight, which tells its place as
    accurately as the sums are known; one more sum confirms the interval. Where that fails, as it does with several
    wrong members, halving goes on with the half that holds more, and one half tells of the other.

    Parameters
    ----------
    sum_of : callable
        Partial sums, see :data:`PartialSum`.
    size : int
        Number of members.
    value, bar : float
        The sum of all.

    Returns
    -------
    member : int or None
        None where the sums do not stand out of their error bars.
    is_one_of_many : bool
        Whether readings kept failing, as they do where much is wrong. Cost in sums: 2 for each reading, two of which
        lead from 10**6 members to one as a rule; 3 for each halving after a reading that fails, 1 after three did.
    """
    first, last, misread = 0, size, 0
    for _ in range(_TRIES):
        if not abs(value) > bar:  # also where a sum is not finite
            return None, misread >= _MISREAD
        if last - first == 1:
            return first, misread >= _MISREAD
        near = _read_off(sum_of, first, last, value, bar) if misread < _MISREAD else None
        if near is not None:
            inner, inner_bar = sum_of(*near, False)
            if abs(inner) > _MOST * abs(value) + inner_bar:
                (first, last), value, bar = near, inner, inner_bar
                continue
        misread += last - first > _GAIN
        middle = (first + last) // 2
        left, left_bar = sum_of(first, middle, False)
        if math.isinf(left) or abs(left) >= abs(value - left):  # infinite: a claim that is not finite
            last, value, bar = middle, left, left_bar
        else:
            first, value, bar = middle, value - left, bar + left_bar
    return None, True


def _read_off(sum_of: PartialSum, first: int, last: int, value: float, bar: float) -> tuple[int, int] | None:
    """Return the interval in which the ratio of a tilted sum to the plain one places a single wrong member."""
    width = last - first
    if width <= _GAIN:
        return None
    tilted, tilted_bar = sum_of(first, last, True)
    place = (2.0 * tilted / value - 1.0) * width
    spread = 2.0 * (tilted_bar + bar) / abs(value) * width + _ROUNDING
    if not (math.isfinite(place) and math.isfinite(spread) and -spread <= place <= width + spread):
        return None
    low, high = max(first, first + math.ceil(place - spread)), min(last, first + math.floor(place + spread) + 1)
    return (low, high) if 0 < (high - low) * _GAIN <= width else None
