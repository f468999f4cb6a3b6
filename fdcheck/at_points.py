"""One check at x0 and at further points: those that the user gives, or random ones around x0."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fdcheck.checks.elementwise import limits_from
from fdcheck.checks.findings import by_severity
from fdcheck.checks.interrupts import keep_report, kept_report
from fdcheck.checks.points import ATTEMPTS, drawn, is_finite, kept_values, together
from fdcheck.checks.summary import changes_its_argument, unmeasured_report
from fdcheck.execution import Execution, Progress
from fdcheck.problem import trees
from fdcheck.problem.callables import Breach, Function, Problem
from fdcheck.problem.tangents import Directions, Restricted
from fdcheck.results import InvalidInput, Point, Report, Status
from fdcheck.settings import Settings, settings_as_data

_AT_ONCE = 1e-9
"""Seconds that are left where the time is up: a limit has to be positive."""

Check = Callable[[Problem, Mapping[str, Function], Settings], Report]


@dataclass(frozen=True)
class Asked:
    """What is asked at every point.

    Parameters
    ----------
    apply, endpoints : callable, dict of str to callable
        The user's.
    settings : Settings
        Their ``points`` says how many are drawn.
    directions : object
        Directions along which inputs move, None where all elements do.
    progress : callable or None
        Told of calls of apply.
    execution : Execution or None
        How points are evaluated.
    """

    apply: Callable[..., Any]
    endpoints: Mapping[str, Callable[..., Any]]
    settings: Settings
    directions: Directions = None
    progress: Callable[[Progress], object] | None = None
    execution: Execution | None = None


class Place:
    """The user's callables at one point.

    Parameters
    ----------
    asked : Asked
        What is asked.
    x : object
        The point.
    calls : dict of str to int
        Calls of each callable before.
    share : int or None
        Calls of apply that this point may take.
    began : float or None
        When the whole check began, if that was before.

    Attributes
    ----------
    apply, given : Function, dict of str to Function
        The callables, counted.
    settings : Settings
        With bounds of what moves, and the share.
    """

    def __init__(
        self, asked: Asked, x: Any, calls: Mapping[str, int], share: int | None = None, began: float | None = None
    ) -> None:
        if asked.directions is not None and asked.execution is not None and asked.execution.batched:
            raise InvalidInput("execution: batched: expected False with directions, along which points are not stacked")
        self._view = None if asked.directions is None else Restricted(asked.apply, asked.endpoints, x, asked.directions)
        apply, endpoints, self._start = asked.apply, asked.endpoints, x
        if self._view is not None:
            apply, endpoints, self._start = self._view.apply, self._view.endpoints, self._view.x0
        self._progress = asked.progress
        self._execution = _left_of(asked.execution, began)
        self.apply = Function("apply", apply, asked.settings.skip)
        self.given = {name: Function(name, f, asked.settings.skip) for name, f in endpoints.items()}
        for name, function in {"apply": self.apply, **self.given}.items():
            function.calls = calls.get(name, 0)
        own = asked.settings
        bounds = own.bounds if self._view is None else self._view.bounds(own.bounds, own.input_paths)
        self.settings = dataclasses.replace(own, bounds=bounds, max_applies=share)

    @property
    def calls(self) -> dict[str, int]:
        """Calls of each callable by now."""
        return {name: function.calls for name, function in {"apply": self.apply, **self.given}.items()}

    def problem(self, ahead: int = 1) -> Problem:
        """Return apply at the point, with so many points ahead.

        Raises
        ------
        Breach
            If apply raises there.
        """
        own = self.settings
        most = None if own.max_applies is None else self.apply.calls + own.max_applies
        paths = own.input_paths, own.output_paths
        problem = Problem(self.apply, self._start, *paths, most, self._progress, self._execution)
        problem.budget.ahead = ahead
        return problem

    def around(self, problem: Problem, draw: int) -> Any:
        """Return a random point around this one, in the user's structure."""
        bounds = limits_from(problem, self.settings).bounds
        point = drawn(problem, bounds, self.settings.seed, draw, self.settings.points)
        return point if self._view is None else self._view.point(point)

    def remarks(self, report: Report) -> Report:
        """Return a report that tells if apply changed what stands in the place of an input."""
        told = {(finding.endpoint, finding.status) for finding in report.findings}
        if self._view is None or "apply" not in self._view.changed or ("apply", Status.MUTATION) in told:
            return report
        return dataclasses.replace(report, findings=tuple(by_severity([*report.findings, changes_its_argument()])))


def _left_of(execution: Execution | None, began: float | None) -> Execution | None:
    """Return the execution with the time that is left of it."""
    if execution is None or execution.time_limit is None or began is None:
        return execution
    left = execution.time_limit - (time.monotonic() - began)
    return dataclasses.replace(execution, time_limit=max(left, _AT_ONCE))


def split_points(points: Any, x0: Any) -> tuple[int | None, list[Any]]:
    """Return how many points to draw (None to leave that to the settings), and those that are given.

    Raises
    ------
    InvalidInput
        If ``points`` is neither a number nor a sequence of structures like x0.
    """
    if points is None:
        return None, []
    if hasattr(points, "__index__") and not np.ndim(points):
        return points, []
    if isinstance(points, str | bytes | Mapping) or not hasattr(points, "__iter__"):
        raise InvalidInput(f"points: expected a whole number or a list of points like x0, got {points!r:.60}")
    given = list(points)
    _, layout = trees.structure(x0, "x")
    for k, point in enumerate(given):
        own, other = trees.structure(point, "x")
        if other.spec != layout.spec:
            raise InvalidInput(f"points[{k}]: expected the structure of x0, {trees.shapes_text(layout)}, got another")
        moving = {leaf.position: leaf.dtype for leaf in other.leaves}
        for leaf in layout.leaves:
            if leaf.position not in moving or moving[leaf.position] != leaf.dtype:
                got = getattr(own[leaf.position], "dtype", type(own[leaf.position]).__name__)
                raise InvalidInput(f"points[{k}]: expected {leaf.dtype} at {leaf.path}, as in x0, got {got}")
    return 0, given


def check_at_points(check: Check, asked: Asked, x0: Any, points: Sequence[Any]) -> Report:
    """Return the report of a check at x0, at given points, and at as many drawn ones as the settings want.

    Parameters
    ----------
    check : callable
        Returns the report of one point.
    asked : Asked
        What is asked.
    x0 : object
        The first point.
    points : sequence
        Further ones.

    Raises
    ------
    InvalidInput
        If something cannot be used at a point.
    """
    walk = _Walk(check, asked, 1 + len(points) + asked.settings.points)
    try:
        at_x0 = walk.visit(x0, "x0")
        for k, point in enumerate(points):
            try:
                walk.visit(point, "given")
            except InvalidInput as error:
                raise InvalidInput(f"points[{k}]: {error}") from error
        if at_x0 is not None:
            for number in range(asked.settings.points):
                walk.visit_around(at_x0, number)
    except BaseException as interrupt:
        if not isinstance(interrupt, Exception):
            walk.keep(interrupt)
        raise
    return walk.report()


class _Walk:
    """The points that a check has been at, with their reports and the calls so far."""

    def __init__(self, check: Check, asked: Asked, count: int) -> None:
        self._check, self._asked, self._count = check, asked, count
        self._calls: dict[str, int] = {}
        self._began = time.monotonic()
        self._reports: list[Report] = []
        self._points: list[Point] = []
        self._tried = self._used = 0
        self._is_done = False
        most = asked.settings.max_applies
        self._share = most if count == 1 or most is None else most // count
        if self._share is not None and self._share < 16:
            raise InvalidInput(f"max_applies: expected {16 * count} or larger for {count} points, got {most}")

    def visit(self, x: Any, origin: str) -> tuple[Place, Problem] | None:
        """Check at a point; return what was asked there, None where apply raised."""
        place = Place(self._asked, x, self._calls, self._share, self._began)
        try:
            problem = self._problem(place)
        except Breach as breach:
            self._add(place, unmeasured_report([breach.finding], place.calls, place.settings), x, origin)
            return None
        self._look(place, problem, x, origin)
        return place, problem

    def visit_around(self, at_x0: tuple[Place, Problem], number: int) -> None:
        """Check at a random point around x0 at which apply is finite, if one is found."""
        start, center = at_x0
        for draw in range(number * ATTEMPTS, (number + 1) * ATTEMPTS):
            x = start.around(center, draw)
            place = Place(self._asked, x, self._calls, self._share, self._began)
            self._tried += 1
            try:
                problem = self._problem(place)
            except Breach:
                continue
            if is_finite(problem, center):
                self._used += 1
                self._look(place, problem, x, "drawn", draw)
                return

    def report(self) -> Report:
        """Return what was found at all points."""
        self._is_done = True
        return self._so_far()

    def _so_far(self) -> Report:
        data = settings_as_data(self._asked.settings)
        report = together(self._reports, self._notes()) if self._count > 1 else self._reports[0]
        return dataclasses.replace(report, points=tuple(self._points), settings=data)

    def keep(self, interrupt: BaseException) -> None:
        """Keep the report of all points on an exception that has broken the walk off."""
        last = kept_report(interrupt)
        if last is None:
            last = unmeasured_report([], self._calls, self._asked.settings)
        self._reports.append(last)
        self._points.append(Point("x0" if not self._points else "interrupted", last.verdict))
        keep_report(interrupt, self._so_far())

    def _problem(self, place: Place) -> Problem:
        """Return apply at a place, its calls counted in any case."""
        try:
            return place.problem(self._count - len(self._points))
        finally:
            self._calls = place.calls

    def _look(self, place: Place, problem: Problem, x: Any, origin: str, draw: int = -1) -> None:
        """Check at a place."""
        try:
            report = self._check(problem, place.given, place.settings)
        finally:
            self._calls = place.calls
        self._add(place, report, x, origin, draw)

    def _add(self, place: Place, report: Report, x: Any, origin: str, draw: int = -1) -> None:
        self._reports.append(place.remarks(report))
        self._points.append(Point(origin, report.verdict, draw, {} if origin == "x0" else kept_values(x)))

    def _notes(self) -> list[str]:
        """Return what became of the points that were to be drawn."""
        wanted, notes = self._asked.settings.points, []
        if self._used < self._tried:
            notes.append(
                f"{self._tried - self._used} of {self._tried} points drawn around x0 were not used, since apply raised "
                "or was not finite there; others were drawn closer to it"
            )
        if self._used < wanted and self._is_done:
            notes.append(f"{self._used} of {wanted} points around x0 were checked; at no more was apply found finite")
        return notes
