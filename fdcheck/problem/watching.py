"""Whether a callable changed its arguments: copies of them before, a comparison after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.problem import trees
from fdcheck.problem.change import private_copy

_BLOCK = 2**16
"""Numbers compared at once, so that nothing of the size of an array is made."""


def watched_there(function: Callable[..., Any], structures: Sequence[Any], is_watched: bool) -> tuple[Any, int | None]:
    """Return what a function returns, and which argument it changed, None if it changed none; in a worker."""
    kept = kept_copies(structures) if is_watched else []
    result = function(*structures)
    return result, changed_one(kept, structures)


def kept_copies(structures: Sequence[Any]) -> list[tuple[list[Any], Any]]:
    """Return copies of structures as leaves and spec."""
    given = [trees.flatten(structure) for structure in structures]
    return [([private_copy(leaf) for leaf in leaves], spec) for leaves, spec in given]


def changed_one(kept: Sequence[tuple[list[Any], Any]], structures: Sequence[Any]) -> int | None:
    """Return which structure is not as it was, None if all are."""
    pairs = zip(kept, structures, strict=False)
    return next((k for k, pair in enumerate(pairs) if not _unchanged(*pair)), None)


def _unchanged(given: tuple[list[Any], Any], structure: Any) -> bool:
    """Return whether a structure still has the leaves that were given."""
    leaves, spec = trees.flatten(structure)
    return spec == given[1] and all(_same(before, after) for before, after in zip(given[0], leaves, strict=True))


def _same(before: Any, after: Any) -> bool:
    """Return whether a leaf is as it was, NaN and all; objects that are no arrays are taken to be."""
    if isinstance(before, np.ndarray) and isinstance(after, np.ndarray):
        return before.shape == after.shape and _same_bits(before, after)
    return before is after or type(before) is type(after)


def _same_bits(before: NDArray[Any], after: NDArray[Any]) -> bool:
    """Return whether two arrays of one shape have the same bits; eight bytes at a time where that is cheap."""
    plain = before.dtype == after.dtype and before.itemsize == 8 and before.dtype.kind in "fiu"
    if plain and before.flags.c_contiguous and after.flags.c_contiguous:
        one, other = before.view(np.int64).reshape(-1), after.view(np.int64).reshape(-1)
        parts = (slice(start, start + _BLOCK) for start in range(0, one.size, _BLOCK))
        return all(bool((one[part] == other[part]).all()) for part in parts)
    return before.tobytes() == after.tobytes()
