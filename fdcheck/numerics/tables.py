"""What the kernels take and fill in: named tuples of arrays, which compiled code can read."""

from __future__ import annotations

from typing import Any, NamedTuple


class Outputs(NamedTuple):
    """Each output at x0: value, standard deviation of its noise, unit roundoff; shape (m,)."""

    value: Any
    noise: Any
    unit: Any


class Goal(NamedTuple):
    """How accurate entries have to be, as in :class:`fdcheck.numerics.steps.Accuracy`."""

    rtol_out: Any
    rtol_in: Any
    atol: float
    sharp: float
    share: Any
    row: Any
    top: Any


class Range(NamedTuple):
    """Magnitude and scale of each input, its narrowest and its widest step; shape (n,)."""

    size: Any
    scale: Any
    low: Any
    high: Any


class Table(NamedTuple):
    """Differences of the column in each slot, NaN where apply gave nothing finite.

    Number of steps, shape (slots,); spacings taken, (steps, slots); f(x + h) - f(x) and f(x - h) - f(x),
    (steps, slots, m).
    """

    count: Any
    up_step: Any
    down_step: Any
    up: Any
    down: Any


class Found(NamedTuple):
    """What is filled in: codes (e, m, n); estimates, error bars and steps (m, n); steps wished for (slots, 3)."""

    code: Any
    estimate: Any
    error: Any
    used: Any
    wish: Any
