"""What rounding costs a product of a jvp or vjp, seen by lengthening a vector a little."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from fdcheck.problem.trees import Layout

Vector = NDArray[np.float64]

GRAINS = 32.0
"""Largest of three differences seen that two products may differ by: sums of a few vectors, at most nine times as long
as the one that was lengthened. A product that is not linear differs by a hundred of them and more."""

_NUDGE = 2.0**-10
"""Steps in which a vector is lengthened: 0.3 % in all, so that a product that is smooth and not linear shows a
hundredth of that at most."""


def grain_of(product: Callable[[Vector], Vector], v: Vector, layout: Layout) -> Vector:
    """Return what rounding is seen to cost an element of each leaf of a product, shape (layout.size,).

    Where the terms of a product cancel, that is far more than a part of the product: the product with v (1 + d),
    divided by 1 + d, shows it.

    Parameters
    ----------
    product : callable
        Takes a vector and returns its product. Called four times.
    v : ndarray
        A random vector.
    layout : Layout
        Of a product.
    """
    factors = 1.0 + _NUDGE * np.arange(1, 4)
    with np.errstate(all="ignore"):
        of_v = product(v)
        apart = np.max([np.abs(product(factor * v) / factor - of_v) for factor in factors], axis=0)
    result = np.zeros(layout.size)
    for leaf in layout.leaves:
        own = slice(leaf.start, leaf.stop)
        result[own] = apart[own].max(initial=0.0, where=np.isfinite(apart[own]))
    return result
