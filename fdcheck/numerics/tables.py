"""What the kernels take and fill in: few arrays, since compiled code pays for each one that it hands on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from fdcheck.numerics.kernels import MAX_STEPS, SERIES


class Table(NamedTuple):
    """Differences of the column in each slot.

    Number of steps, shape (slots,); spacings taken to both sides, (2, steps, slots); f(x + h) - f(x) and
    f(x - h) - f(x), (2, steps, slots, m), NaN where apply gave nothing finite.
    """

    count: Any
    spacing: Any
    change: Any


class Found(NamedTuple):
    """What is filled in.

    Codes, shape (e, m, n); estimates, error bars and steps, (3, m, n); steps wished for, (slots, 3).
    """

    code: Any
    entry: Any
    wish: Any


class Scratch(NamedTuple):
    """Room to work in: order of the steps of a column, an entry, one side of it."""

    order: Any
    entry: Any
    side: Any


def empty_table(columns: int, m: int) -> Table:
    """Return a table without steps."""
    shape = (2, MAX_STEPS, columns)
    return Table(np.zeros(columns, np.int64), np.empty(shape), np.empty((*shape, m)))


def scratch() -> Scratch:
    """Return new room to work in."""
    entry, side = np.zeros((2, SERIES, MAX_STEPS))
    return Scratch(np.empty(MAX_STEPS, np.int64), entry, side)
