"""A bar on stderr while a check runs: calls of apply done and left, time left, entries that disagree so far."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator
from typing import TextIO

from fdcheck.execution import Progress, Progressive
from fdcheck.results import InvalidInput

Told = Callable[[Progress], object] | None


def told(progress: Progressive) -> contextlib.AbstractContextManager[Told]:
    """Return a context with who is told of progress: the user's callback, a bar, or nobody.

    Parameters
    ----------
    progress : bool, callable or None
        What the user gave.

    Raises
    ------
    InvalidInput
        If it is something else.
    """
    if progress is True:
        return bar()
    if progress is None or progress is False:
        return contextlib.nullcontext()
    if not callable(progress):
        raise InvalidInput(f"progress: expected True, False or a callable, got {progress!r:.60}")
    return contextlib.nullcontext(progress)


@contextlib.contextmanager
def bar(wanted: bool | None = None) -> Iterator[Told]:
    """Yield what shows progress as a bar on stderr, None where there is to be none.

    Parameters
    ----------
    wanted : bool or None
        Whether there is to be one; None for where stderr is a terminal.
    """
    if not (sys.stderr.isatty() if wanted is None else wanted):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    columns = (TextColumn("calls of apply"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with _own_stderr() as stream:
        console = Console(file=stream, force_terminal=wanted)
        with Progress(*columns, console=console, transient=True) as shown:
            task = shown.add_task("")
            yield lambda now: shown.update(
                task, completed=now.done, total=now.expected, description=_left_and_worst(now)
            )


def _left_and_worst(now: Progress) -> str:
    """Return the time left and what disagrees."""
    minutes, seconds = divmod(round(now.remaining), 60)
    hours, minutes = divmod(minutes, 60)
    left = f"{hours}:{minutes:02}:{seconds:02} left" if hours else f"{minutes}:{seconds:02} left"
    entries = "entry disagrees" if now.failing == 1 else "entries disagree"
    return f"{left}, {now.failing} {entries}" if now.failing else left


@contextlib.contextmanager
def _own_stderr() -> Iterator[TextIO]:
    """Yield a stream to where stderr goes now: user's code may send the descriptor elsewhere while it runs."""
    try:
        descriptor = os.dup(sys.stderr.fileno())
    except OSError:  # a stream without a descriptor, as in tests
        yield sys.stderr
        return
    with open(descriptor, "w", encoding=sys.stderr.encoding, errors="backslashreplace") as stream:
        yield stream
