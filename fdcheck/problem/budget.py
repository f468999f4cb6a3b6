"""What may still be evaluated, and who is told of what was."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from fdcheck.execution import Progress

MAX_APPLIES, TIME_LIMIT, BROKEN_OFF, INTERRUPTED = "max_applies", "time_limit", "broken off", "interrupted"

_SPENT = {
    MAX_APPLIES: "the budget of calls of apply was spent before {what}; raise max_applies.",
    TIME_LIMIT: "the time was up before {what}; raise time_limit.",
    BROKEN_OFF: "the evaluation of apply was broken off before {what}; see what is said of apply.",
    INTERRUPTED: "the check was interrupted before {what}; let it run to its end.",
}


class Budget:
    """Calls of apply and time, and the user's callback.

    Parameters
    ----------
    max_applies : int or None
        Points evaluated, at most.
    time_limit : float or None
        Seconds from now.
    progress : callable or None
        Given a :class:`fdcheck.Progress` after each point or chunk of points.
    done : int
        Points evaluated before.

    Attributes
    ----------
    expected, ahead : int
        Points expected from here on for one place x0, and how many such places there are.
    holds_interrupts : bool
        Whether an interrupt inside of apply spends the budget and is kept in ``interrupt``, for its owner to raise when
        the report is made.
    """

    def __init__(
        self,
        max_applies: int | None,
        time_limit: float | None,
        progress: Callable[[Progress], object] | None,
        done: int = 0,
    ) -> None:
        self.spent = ""
        self.expected, self.ahead, self._before = 0, 1, done
        self.holds_interrupts = False
        self.interrupt: BaseException | None = None
        self.failing = 0
        self.is_told = progress is not None
        self.is_ticking = self.is_told or time_limit is not None
        self._most = sys.maxsize if max_applies is None else max_applies
        self._progress = progress
        self._started = time.monotonic()
        self._deadline = None if time_limit is None else self._started + time_limit
        self._first: tuple[int, float] | None = None
        self._done = 0

    def granted(self, done: int, wanted: int) -> int:
        """Return how many points may be evaluated after ``done`` others; too few spend the budget."""
        if not self.spent and self.is_over():
            self.spent = TIME_LIMIT
        if not self.spent and done + wanted > self._most:
            self.spent = MAX_APPLIES
            return max(0, self._most - done)
        return 0 if self.spent else wanted

    def begin(self, done: int) -> None:
        """Take note that points are evaluated after ``done`` others."""
        self._done = done
        if self._first is None:
            self._first = done, time.monotonic()

    def tick(self, points: int) -> bool:
        """Take note of points that were evaluated, tell of it, and return whether there is time for more."""
        self._done += points
        if self._progress is not None and self._first is not None:
            now, (before, began) = time.monotonic(), self._first
            expected = max(self._done, self._before + self.ahead * self.expected)
            each = (now - began) / max(self._done - before, 1)
            self._progress(
                Progress(self._done, expected, now - self._started, each * (expected - self._done), self.failing)
            )
        return not self.is_over()

    def is_over(self) -> bool:
        """Return whether the time is up."""
        left = self.seconds_left()
        return left is not None and left <= 0

    def seconds_left(self) -> float | None:
        """Return the seconds left, None without a limit."""
        return None if self._deadline is None else self._deadline - time.monotonic()

    def hold(self, interrupt: BaseException) -> None:
        """Spend the budget for an interrupt, or raise it where nobody would do so later."""
        if not self.holds_interrupts:
            raise interrupt
        self.interrupt, self.spent = interrupt, INTERRUPTED

    def why(self, what: str) -> str:
        """Return why something was not done, as a sentence."""
        return _SPENT[self.spent].format(what=what)
