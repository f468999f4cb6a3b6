"""How apply is evaluated: where, how many points at once, and for how long; and what is told meanwhile."""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from fdcheck.results import InvalidInput

if TYPE_CHECKING:
    from concurrent.futures import Executor


@dataclass(frozen=True)
class Execution:
    """How apply is evaluated; given to :func:`fdcheck.verify` and its like. It changes no result but the time it takes.

    Parameters
    ----------
    executor : concurrent.futures.Executor, optional
        Calls apply in its workers instead of here: threads, processes, ``dask.distributed.Client(...).get_executor()``,
        ``mpi4py.futures.MPIPoolExecutor()``. Points are sent in chunks of about 20 ms; the report is the one that a
        check without executor gives. Processes need an apply that can be pickled: a function at the top level of a
        module. Threads need one that may run several times at once. Endpoints are called here. The executor is not
        shut down.
    batched : bool or callable
        True where apply also takes a stack of points: every floating or complex leaf with one more axis in front, and
        the same of the result. Or a function that does, such as ``jax.vmap(apply)``. Whether it does is checked with 7
        points; if not, the check is inconclusive and a finding says so.
    max_memory : int
        Bytes of points, with their results, that are on the way to workers or in one stack; 256 MB by default. A single
        point is evaluated in any case.
    timeout : float, optional
        Seconds that one call of apply may take, or that of a stack. A call that takes longer ends the check: what is
        still open is undecided, and a finding says so. Without an executor apply runs in a thread of its own, which is
        left behind if it hangs. A worker of an executor has half a minute more for its start, and one that hangs keeps
        its executor from shutting down.
    time_limit : float, optional
        Seconds that the check may take; what is open then is undecided, as when ``max_applies`` is spent. A call under
        way is waited for only where there is neither an executor nor a timeout; endpoints always are.

    Raises
    ------
    InvalidInput
        If a value cannot be used.

    Examples
    --------
    >>> from concurrent.futures import ThreadPoolExecutor
    >>> import numpy as np
    >>> import fdcheck
    >>> x0 = np.linspace(0.1, 0.9, 5)
    >>> with ThreadPoolExecutor(2) as pool:
    ...     execution = fdcheck.Execution(executor=pool)
    ...     report = fdcheck.verify(np.sin, x0, vjp=lambda x, ct: ct * np.cos(x), execution=execution)
    >>> report.passed
    True
    >>> in_stacks = fdcheck.Execution(batched=True)
    >>> fdcheck.verify(np.sin, x0, vjp=lambda x, ct: ct * np.cos(x), execution=in_stacks).passed
    True
    """

    executor: Executor | None = None
    batched: bool | Callable[[Any], Any] = False
    max_memory: int = 2**28
    timeout: float | None = None
    time_limit: float | None = None

    def __post_init__(self) -> None:
        if self.executor is not None:
            _require_executor(self.executor)
        if not isinstance(self.batched, bool) and not callable(self.batched):
            raise InvalidInput(
                f"execution: batched: expected True, False or a function of stacks, got {self.batched!r:.60}"
            )
        for name in ("max_memory", "timeout", "time_limit"):
            value = getattr(self, name)
            if not _is_positive(value) and (value is not None or name == "max_memory"):
                raise InvalidInput(f"execution: {name}: expected a positive number, got {value!r:.60}")


def checked_execution(value: Execution | None) -> Execution | None:
    """Return what was given as ``execution``.

    Raises
    ------
    InvalidInput
        If it is something else.
    """
    if value is None or isinstance(value, Execution):
        return value
    raise InvalidInput(f"execution: expected an fdcheck.Execution, got {type(value).__name__} {value!r:.60}")


def _require_executor(value: Any) -> None:
    """Raise InvalidInput where a value is no executor."""
    from concurrent.futures import Executor

    if not isinstance(value, Executor):
        hint = "; a dask Client gives one with get_executor()" if hasattr(value, "get_executor") else ""
        raise InvalidInput(
            f"execution: executor: expected a concurrent.futures.Executor, got {type(value).__name__} "
            f"{value!r:.60}{hint}"
        )


def _is_positive(value: Any) -> bool:
    return isinstance(value, numbers.Real) and not isinstance(value, bool) and 0 < float(value) < math.inf


@dataclass(frozen=True)
class Progress:
    """How far a check has come; what a ``progress`` callback is given.

    Parameters
    ----------
    done, expected : int
        Calls of apply so far, and those expected in all: a guess that grows where more is needed.
    elapsed, remaining : float
        Seconds since the start, and those left if calls of apply go on as they did.
    failing : int
        Entries that disagree as far as is known; a closer look may clear some.
    """

    done: int
    expected: int
    elapsed: float
    remaining: float
    failing: int


Progressive = bool | Callable[[Progress], object] | None
"""What ``progress`` may be: True for a bar on stderr where that is a terminal, a callback, or None."""
