"""Kernels compiled when it pays: a small check runs them interpreted and does not wait for the compiler."""

from __future__ import annotations

import gc
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.numerics import kernels, tables

_INTERPRETED = 400
"""Entries that a process decides with the kernels interpreted, at about 0.2 ms each. Compiling them takes about 5 s
once on a machine, loading them from the cache 0.3 s once in a process."""

_OPTIONS: dict[str, Any] = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
"""Kernels own no memory, so that they need no reference counting, which made them slower by a fifth."""

_ROOM = 40_000
"""Words on the frame that the compiler is called from. CPython (3.11 and later) keeps frames in chunks of 16 kB and
gives an empty one back to the system at once; the compiler's recursion crosses the edge of a chunk 150,000 times, which
took 3 s of 8 s. A frame that large lies in a chunk of 512 kB, with room for all that it calls."""


class _Kernel:
    """The compiled kernel of this process, once it is loaded, and how many entries it decided without."""

    def __init__(self) -> None:
        self.entries = 0
        self.decide: Callable[..., None] | None = None


_kernel = _Kernel()


def decide_columns(
    columns: NDArray[np.int64],
    slots: NDArray[np.int64],
    table: tables.Table,
    outputs: NDArray[np.float64],
    inputs: NDArray[np.float64],
    claims: NDArray[np.float64],
    sharp: float,
    least: int,
    measure_only: bool,
    result: tables.Found,
) -> None:
    """Decide columns as :func:`fdcheck.numerics.kernels.decide_columns` does, interpreted at first, then compiled."""
    arguments = (columns, slots, table, outputs, inputs, claims, sharp, least, measure_only, result)
    scratch = tables.scratch()
    _kernel.entries += len(columns) * outputs.shape[1]
    if _kernel.decide is None and _kernel.entries > _INTERPRETED:
        _kernel.decide = _load(*arguments, scratch)
    decide = _kernel.decide or kernels.decide_columns
    decide(*arguments, scratch)


def _with_room(function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose frame is large, see ``_ROOM``."""
    code = function.__code__
    return types.FunctionType(code.replace(co_stacksize=code.co_stacksize + _ROOM), function.__globals__)


def _load(*arguments: Any) -> Callable[..., None]:
    """Return the kernel compiled for such arguments together with all that it calls."""
    import numba as annotated

    numba: Any = annotated
    if numba.config.DISABLE_JIT:
        return kernels.decide_columns
    space = dict(vars(kernels))
    for name, function in vars(kernels).items():
        if isinstance(function, types.FunctionType) and function.__module__ == kernels.__name__:
            twin = types.FunctionType(function.__code__, space, name)
            twin.__module__ = kernels.__name__
            options = {"no_cpython_wrapper": True, "forceinline": name in kernels.INLINED, **_OPTIONS}
            space[name] = numba.njit(**options)(twin)
    signature = tuple(numba.typeof(argument) for argument in arguments)
    decide: Callable[..., None] = compiled(space["decide_columns"].py_func, signature, _OPTIONS)
    return decide


@_with_room
def compiled(function: Callable[..., Any], signature: tuple[Any, ...], options: Mapping[str, Any]) -> Any:
    """Return a numba dispatcher that is compiled for arguments of the given types, from the cache if that is there.

    The cache lies in a folder of the user. In the package's folder it would stay behind when the package is
    uninstalled, and Python would take what is left of that folder for the package.

    Parameters
    ----------
    function : callable
        Pure Python.
    signature : tuple of numba types
        Of its arguments.
    options : dict
        Of :func:`numba.njit`.
    """
    import numba as annotated
    import platformdirs

    numba: Any = annotated  # its annotations leave out some of these options
    folder = numba.config.CACHE_DIR
    try:
        numba.config.CACHE_DIR = folder or platformdirs.user_cache_dir("fdcheck")
        dispatcher = numba.njit(cache=True, **options)(function)
    except (RuntimeError, OSError):  # the folder cannot be written to
        dispatcher = numba.njit(**options)(function)
    finally:
        numba.config.CACHE_DIR = folder
    collects = gc.isenabled()
    gc.disable()  # the compiler keeps nearly all that it makes: looking for garbage in it takes a twentieth of the time
    try:
        dispatcher.compile(signature)
    finally:
        if collects:
            gc.enable()
    return dispatcher
