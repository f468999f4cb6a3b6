"""Kernels compiled when it pays: a small check runs them interpreted and does not wait for the compiler."""

from __future__ import annotations

import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.numerics import kernels, tables

_INTERPRETED = 400
"""Entries that a process decides with the kernels interpreted, at about 0.2 ms each. Compiling them takes about 10 s
once on a machine, loading them from the cache 0.3 s once in a process."""

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy"}


class _Spent:
    """How many entries this process has decided interpreted."""

    def __init__(self) -> None:
        self.entries = 0


_spent = _Spent()


def decide_columns(
    columns: NDArray[np.int64],
    slots: NDArray[np.int64],
    table: tables.Table,
    outputs: tables.Outputs,
    claims: NDArray[np.float64],
    goal: tables.Goal,
    steps: tables.Range,
    least: int,
    measure_only: bool,
    result: tables.Found,
) -> None:
    """Decide columns as :func:`fdcheck.numerics.kernels.decide_columns` does, interpreted at first, then compiled."""
    entries = len(columns) * len(outputs.value)
    decide = kernels.decide_columns
    if _spent.entries + entries > _INTERPRETED:
        decide = _compiled()
    else:
        _spent.entries += entries
    decide(columns, slots, table, outputs, claims, goal, steps, least, measure_only, result)


@functools.cache
def _compiled() -> Callable[..., None]:
    """Return the kernel compiled together with all that it calls, cached on disk where that is possible."""
    from numba import njit

    space = dict(vars(kernels))
    for name, function in vars(kernels).items():
        if isinstance(function, types.FunctionType) and function.__module__ == kernels.__name__:
            twin = types.FunctionType(function.__code__, space, name)
            twin.__module__ = kernels.__name__
            try:
                space[name] = njit(cache=True, **_OPTIONS)(twin)
            except RuntimeError:  # neither the package's folder nor the home is writable
                space[name] = njit(**_OPTIONS)(twin)
    compiled: Callable[..., None] = space["decide_columns"]
    return compiled
