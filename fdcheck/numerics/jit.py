"""How kernels are compiled: one place for the options."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

_Kernel = TypeVar("_Kernel", bound=Callable[..., Any])


def jit(function: _Kernel) -> _Kernel:
    """Compile ``function`` at its first call, cached where a cache can be written."""
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy"}
    try:
        return njit(cache=True, **options)(function)  # type: ignore[no-any-return]
    except RuntimeError:  # neither the package's folder nor the home is writable
        return njit(**options)(function)  # type: ignore[no-any-return]
