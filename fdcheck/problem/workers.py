"""Points evaluated by the workers of an executor: sent in chunks, placed by position, waited for with patience."""

from __future__ import annotations

import math
import pickle
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from typing import Any, NamedTuple

import numpy as np

from fdcheck.execution import Execution
from fdcheck.problem.budget import Budget
from fdcheck.problem.change import Change, Evaluated, Points, Trouble, without
from fdcheck.problem.wording import described
from fdcheck.results import InvalidInput

_CHUNK, _PARTS = (0.02, 0.1), 64
"""Seconds of work in a chunk: a 64th of all that there is, but at least a hundred times what sending one to another
process costs (ten times for Dask), and no more than what workers may be idle for at the end."""

_LONGEST = 0.5
"""Seconds after which a worker gives back what it has of a chunk: the first calls of a function say little of the
next, since it may compile."""

_MOST = 1024
"""Chunks under way: more than there are workers."""

_START = 30.0
"""Seconds that a worker may take to start, on top of the user's timeout: a new process imports NumPy and the user's
modules."""


class Interrupted(Exception):
    """Why the evaluation of apply was broken off."""


class RaisedThere(Exception):
    """What the user's function raised in a worker, in one line."""


class _Part(NamedTuple):
    """What a worker found of a chunk, in how many seconds, and the longest call in it."""

    found: Evaluated
    seconds: float
    slowest: float


class Workers:
    """The workers of an executor.

    Parameters
    ----------
    execution : Execution
        ``executor``, ``timeout`` and ``max_memory`` are read; without an executor, apply runs in a thread of its own.
    """

    def __init__(self, execution: Execution) -> None:
        self._executor = execution.executor or _OwnThread()
        self._most = _MOST if execution.executor else 1
        self._timeout = execution.timeout
        self._start = _START if execution.executor else 0.0
        self._max_memory = execution.max_memory
        self._each = math.inf

    def call(self, budget: Budget, function: Callable[..., Any], *arguments: Any) -> Any:
        """Return what a function returns in a worker.

        Raises
        ------
        Interrupted
            If the worker is lost, or it takes longer than the timeout.
        RaisedThere
            If the function raises.
        InvalidInput
            If the function or its result cannot be sent.
        """
        arrived: queue.SimpleQueue[Future[Any]] = queue.SimpleQueue()
        future = self._submitted(_caught, function, arguments)
        future.add_done_callback(arrived.put)
        try:
            arrived.get(timeout=self._patience(budget))
            result, text, self._each = _result(future, (function, arguments))
        except queue.Empty:
            over = "the time was up before apply came back from x0; raise time_limit."
            raise Interrupted(over if budget.is_over() else self._too_long()) from None
        finally:
            future.cancel()
        if text:
            raise RaisedThere(text)
        return result

    def evaluate(self, change: Change, points: Points, budget: Budget) -> Evaluated:
        """Return what is found at points.

        What comes after the first point that is missing counts as not evaluated, where a worker is lost, a call takes
        longer than the timeout, or the time of the budget is up.

        Raises
        ------
        InvalidInput
            If apply cannot be sent.
        """
        length = self._chunk(len(points), change)
        most = min(max(self._max_memory // (length * change.nbytes), 1), self._most)
        waiting = deque((start, min(start + length, len(points))) for start in range(0, len(points), length))
        arrived: queue.SimpleQueue[Future[_Part]] = queue.SimpleQueue()
        flying: dict[Future[_Part], tuple[int, int]] = {}
        collected, broken_off = _Collected(len(points), change.outputs.size), ""
        interrupt: BaseException | None = None
        try:
            while waiting or flying:
                while waiting and len(flying) < most:
                    start, stop = waiting.popleft()
                    future = self._submitted(_evaluated, change, points.at(slice(start, stop)), self._timeout)
                    flying[future] = start, stop
                    future.add_done_callback(arrived.put)
                future = arrived.get(timeout=self._patience(budget))
                start, stop = flying.pop(future)
                part = _result(future, change)
                if self._timeout is not None and part.slowest > self._timeout:
                    raise Interrupted(self._too_long())
                done = collected.add(start, part)
                if part.found.interrupt is not None:
                    raise part.found.interrupt
                if done < stop:
                    waiting.appendleft((done, stop))
                if not budget.tick(done - start):
                    break
        except queue.Empty:
            broken_off = "" if budget.is_over() else self._too_long()
        except Interrupted as error:
            broken_off = str(error)
        except BaseException as error:  # in apply, or while waiting for the workers
            if isinstance(error, Exception):
                raise
            interrupt = error
        finally:
            for future in flying:
                future.cancel()
        self._each = collected.seconds_each(self._each)
        return collected.first_ones(broken_off)._replace(interrupt=interrupt)

    def _chunk(self, points: int, change: Change) -> int:
        """Return how many points to send at once, as many in each chunk."""
        seconds = min(max(points * self._each / _PARTS, _CHUNK[0]), _CHUNK[1])
        cheap = max(1.0, seconds / max(self._each, 1e-9))
        fitting = min(cheap, max(1, self._max_memory // change.nbytes), points)
        return math.ceil(points / math.ceil(points / fitting))

    def _submitted(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        try:
            return self._executor.submit(function, *arguments)
        except BrokenExecutor as error:
            raise Interrupted(_lost(error)) from error
        except Exception as error:  # one that was shut down, or sends at once what it is given
            _require_picklable(arguments)
            raise InvalidInput(f"execution: executor: it takes no work: {described(error)}") from error

    def _patience(self, budget: Budget) -> float | None:
        """Return how many seconds to wait for the next result, None for ever."""
        left = budget.seconds_left()
        limit = None if self._timeout is None else self._timeout + min(self._timeout, _LONGEST) + self._start
        seconds = [max(s, 0.0) for s in (left, limit) if s is not None]
        return min(seconds) if seconds else None

    def _too_long(self) -> str:
        return f"a call of apply took longer than the timeout of {self._timeout:g} s; nothing was evaluated after it."


class _Collected:
    """What has come back of points that were sent in chunks."""

    def __init__(self, points: int, outputs: int) -> None:
        self._differences = np.empty((points, outputs))
        self._missing = np.ones(points, np.bool_)
        self._troubles: list[Trouble] = []
        self._calls, self._seconds = 0, 0.0

    def add(self, start: int, part: _Part) -> int:
        """Put what was found of a chunk in its place, and return where it ends.

        Raises
        ------
        Interrupted
            If the worker broke off.
        """
        stop = start + len(part.found.differences)
        self._differences[start:stop], self._missing[start:stop] = part.found.differences, False
        self._troubles += [trouble._replace(k=start + trouble.k) for trouble in part.found.troubles]
        self._calls, self._seconds = self._calls + part.found.calls, self._seconds + part.seconds
        if part.found.broken_off:
            raise Interrupted(part.found.broken_off)
        return stop

    def seconds_each(self, before: float) -> float:
        """Return how many seconds of a worker a point took, ``before`` where none came back."""
        count = np.count_nonzero(~self._missing)
        return self._seconds / count if count else before

    def first_ones(self, broken_off: str) -> Evaluated:
        """Return what was found up to the first point that is missing."""
        first = int(np.argmax(np.append(self._missing, True)))
        kept = sorted(trouble for trouble in self._troubles if trouble.k < first)
        count = int(np.count_nonzero(~self._missing))
        return Evaluated(without(kept, self._differences[:first]), kept, count, self._calls, broken_off)


def _result(future: Future[Any], sent: Any) -> Any:
    """Return the result of a future.

    Raises
    ------
    Interrupted
        If there is none, since the worker was lost or the future cancelled.
    InvalidInput
        If what was sent, or its result, cannot be pickled.
    """
    try:
        return future.result()
    except CancelledError as error:
        raise Interrupted("a chunk of points was cancelled before a worker evaluated it.") from error
    except BrokenExecutor as error:
        raise Interrupted(_lost(error)) from error
    except Exception as error:
        if isinstance(error, pickle.PicklingError | AttributeError | TypeError):
            _require_picklable(sent)
            raise InvalidInput(
                f"execution: executor: what apply returns cannot be sent back by the worker ({described(error)}); use "
                "threads"
            ) from error
        raise Interrupted(f"a worker failed outside of apply: {described(error)}.") from error


def _lost(error: BaseException) -> str:
    return (
        f"a worker was lost ({type(error).__name__}: {error}). It may have crashed in apply, run out of memory or "
        "been killed; or it could not import apply, which has to stand in a module and not in an interactive session."
    )


def _require_picklable(sent: Any) -> None:
    """Raise InvalidInput where something cannot be sent to another process."""
    try:
        pickle.dumps(sent)
    except Exception as error:  # what pickle raises depends on what it meets
        raise InvalidInput(
            f"execution: executor: apply cannot be sent to its workers ({described(error)}); define it at the top "
            "level of a module, without lambda or closure, or use threads"
        ) from error


def _caught(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, str, float]:
    """Return what a function returns, or what it raises in one line, and how many seconds it took; in a worker."""
    began = time.perf_counter()
    with np.errstate(all="ignore"):
        try:
            result, text = function(*arguments), ""
        except (Exception, SystemExit) as error:
            result, text = None, described(error)
    return result, text, time.perf_counter() - began


def _evaluated(change: Change, points: Points, timeout: float | None) -> _Part:
    """Return what is found at the first of some points, as many as there is time for; in a worker."""
    longest = _LONGEST if timeout is None else min(_LONGEST, timeout)
    began = last = time.perf_counter()
    slowest = 0.0

    def tick(_: int) -> bool:
        nonlocal last, slowest
        before, last = last, time.perf_counter()
        slowest = max(slowest, last - before)
        return last - began < longest

    with np.errstate(all="ignore"):  # that of the caller holds in his thread only
        found = change.evaluate(points, tick)
    return _Part(found, time.perf_counter() - began, slowest)


class _OwnThread(Executor):
    """A thread for each call. One that hangs is left behind when Python ends; those of the standard pool are not."""

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        """Return the future of a call."""
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()

        def work() -> None:
            try:
                future.set_result(function(*arguments, **options))
            except BaseException as error:
                future.set_exception(error)

        threading.Thread(target=work, daemon=True, name="fdcheck").start()
        return future
