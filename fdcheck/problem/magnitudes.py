"""The numbers in an input: that they are finite, and what size is typical of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.problem import trees
from fdcheck.problem.trees import Layout
from fdcheck.results import InvalidInput


def typical_magnitudes(leaves: Sequence[Any], layout: Layout) -> tuple[Mapping[int, float], float]:
    """Return the upper median of the nonzero magnitudes in each array by position, and in all; 1 where there is none.

    Parameters
    ----------
    leaves : sequence
        Leaves of the input, the differentiable ones as arrays.
    layout : Layout
        Its layout.
    """
    sizes = {leaf.position: _nonzero_sizes(leaves[leaf.position]) for leaf in layout.leaves}
    middle = _median(list(sizes.values()), 1.0)
    if len(sizes) == 1:
        return dict.fromkeys(sizes, middle), middle
    return {position: _median([own], middle) for position, own in sizes.items()}, middle


def _nonzero_sizes(array: NDArray[Any]) -> NDArray[np.float64]:
    """Return the nonzero finite magnitudes of the real numbers in an array."""
    size = np.abs(trees.real_view(array).astype(np.float64))
    return size[(size > 0) & np.isfinite(size)]


def _median(sizes: Sequence[NDArray[np.float64]], default: float) -> float:
    """Return the upper median of all of these numbers, or a default where there is none."""
    usable = sizes[0] if len(sizes) == 1 else np.concatenate(sizes)
    return float(np.partition(usable, len(usable) // 2)[len(usable) // 2]) if usable.size else default


def require_finite(x: NDArray[Any], layout: Layout) -> None:
    """Raise InvalidInput where a coordinate is NaN or infinite: nothing can be moved there."""
    bad = np.flatnonzero(~np.isfinite(x))
    if bad.size:
        leaf = layout.leaf_at(int(bad[0]))
        place = f"{leaf.path}{list(leaf.index(int(bad[0]))) or ''}"
        raise InvalidInput(
            f"x0: expected finite numbers, got {float(x[bad[0]])} at {place} ({bad.size} such); select other inputs "
            "with input_paths, or move x0"
        )
