"""Which entries of a Jacobian differ from zero, guessed from a few columns: bands and diagonal blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.numerics.steps import scales
from fdcheck.problem.callables import Problem
from fdcheck.problem.evaluate import Bounds, both_sides

_COLUMNS = 12
"""Columns looked at: a band or a block that differs somewhere else shows as entries off the pattern."""

_STEP = 2.0**-10
"""Step relative to the scale: an output that depends on an input at all moves by more than a rounding."""

_BAND = 64
"""Diagonals that a band may have: it takes as many groups, and four applies each."""


def detected_pattern(problem: Problem, bounds: Bounds, seed: int) -> Any | None:
    """Return a sparse pattern that a few columns point to, None if they point to none.

    Parameters
    ----------
    problem : Problem
        apply and x0.
    bounds : Bounds
        Where apply may be evaluated.
    seed : int
        Seed of the choice of columns.

    Returns
    -------
    SciPy sparse array, shape (m, n), or None
        A band with the diagonals that were seen, or square blocks along the diagonal. Cost: 24 applies.
    """
    n, m = problem.inputs.size, problem.outputs.size
    draw = np.random.default_rng([seed, 0x706174])
    columns = np.unique(np.append(draw.choice(n, min(_COLUMNS, n) - 2, replace=False), [0, n - 1]))
    change, _, _ = both_sides(problem, columns, _STEP * scales(problem)[columns], bounds)
    moved = (np.nan_to_num(change) != 0).any(axis=0)
    rows = [np.flatnonzero(own) for own in moved]
    if m != n or not all(own.size for own in rows):
        return None
    return _band(rows, columns, n) if _is_band(rows, columns) else _blocks(rows, columns, n)


def _offsets(rows: list[NDArray[np.intp]], columns: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how far below the diagonal the entries of columns lie."""
    return np.unique(np.concatenate([own - j for own, j in zip(rows, columns, strict=True)]))


def _is_band(rows: list[NDArray[np.intp]], columns: NDArray[np.int64]) -> bool:
    """Return whether columns away from the ends have entries in the same diagonals."""
    inner = [tuple((own - j).tolist()) for own, j in zip(rows[1:-1], columns[1:-1], strict=True)]
    most = max(inner, key=inner.count, default=())
    return len(_offsets(rows, columns)) <= _BAND and inner.count(most) >= len(inner) - 2


def _band(rows: list[NDArray[np.intp]], columns: NDArray[np.int64], n: int) -> Any:
    """Return the band with all diagonals that were seen."""
    from scipy import sparse  # type: ignore[import-untyped]

    offsets = (-_offsets(rows, columns)).tolist()
    return sparse.csc_array(sparse.diags_array([1.0] * len(offsets), offsets=offsets, shape=(n, n)))


def _blocks(rows: list[NDArray[np.intp]], columns: NDArray[np.int64], n: int) -> Any | None:
    """Return square blocks along the diagonal of one size, if the columns lie in such blocks."""
    from scipy import sparse

    size = int(rows[0][-1]) + 1
    block = columns // size
    first, last = (np.array([own[k] for own in rows]) for k in (0, -1))
    fits = (first // size == block).all() and (last // size == block).all()
    if n % size or size > min(_BAND, n // 2) or not fits:
        return None
    return sparse.csc_array(sparse.kron(sparse.eye_array(n // size), np.ones((size, size))))
