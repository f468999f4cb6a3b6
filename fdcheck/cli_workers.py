"""Workers for the command line: processes of this machine, or those of a Dask scheduler."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any

from fdcheck.loading import CannotRun

_DASK_SECONDS = 10
"""Seconds within which a scheduler has to answer."""


@contextlib.contextmanager
def execution(
    workers: int | None, dask: str | None, timeout: float | None, time_limit: float | None
) -> Iterator[dict[str, Any]]:
    """Yield the option ``execution`` of a check, nothing where its default will do.

    Parameters
    ----------
    workers : int or None
        Processes to start.
    dask : str or None
        Address of a scheduler.
    timeout, time_limit : float or None
        As for :class:`fdcheck.Execution`.

    Raises
    ------
    CannotRun
        If both kinds of workers are asked for, Dask is missing or its scheduler does not answer.
    """
    if workers is not None and dask is not None:
        raise CannotRun("give one of --workers and --dask; a scheduler has workers of its own")
    if workers is None and dask is None and timeout is None and time_limit is None:
        yield {}
        return
    from fdcheck.execution import Execution
    from fdcheck.results import InvalidInput

    own = contextlib.nullcontext() if workers is None else _processes(workers)
    with own if dask is None else _dask(dask) as executor:
        try:
            chosen = Execution(executor=executor, timeout=timeout, time_limit=time_limit)
        except InvalidInput as error:
            raise CannotRun(str(error)) from error
        yield {"execution": chosen}


@contextlib.contextmanager
def _processes(workers: int) -> Iterator[Any]:
    """Yield an executor with new processes; none of them outlives it, not even one that hangs."""
    import multiprocessing
    from concurrent.futures import ProcessPoolExecutor

    context = multiprocessing.get_context("spawn")  # a fork would copy the locks that threads of a library hold
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(workers, mp_context=context, initializer=_prepare_worker)
    try:
        yield pool
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in set(multiprocessing.active_children()) - before:
            process.kill()


def _prepare_worker() -> None:
    """Leave Ctrl-C to the parent, and standard output to its report."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.dup2(2, 1)
    sys.stdout = sys.stderr


@contextlib.contextmanager
def _dask(address: str) -> Iterator[Any]:
    """Yield the executor of a Dask scheduler."""
    try:
        from distributed import Client
    except ImportError as error:
        raise CannotRun("--dask needs the package distributed: pip install 'fdcheck[dask]'") from error
    try:
        client = Client(address, timeout=_DASK_SECONDS)
    except (OSError, ValueError) as error:
        raise CannotRun(f"--dask: no scheduler answers at {address}: {error}") from error
    with client:
        yield client.get_executor()
