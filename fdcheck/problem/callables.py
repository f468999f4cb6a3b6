"""The user's callables, made safe: counted, given private copies, their results copied and checked."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import optree
from numpy.typing import NDArray

from fdcheck.execution import Execution, Progress
from fdcheck.problem import paths, trees
from fdcheck.problem.budget import BROKEN_OFF, TIME_LIMIT, Budget
from fdcheck.problem.change import RAISED, Change, Evaluated, Points, private_copy
from fdcheck.problem.magnitudes import require_finite, typical_magnitudes
from fdcheck.problem.stacks import StackedChange, coupling, misfit
from fdcheck.problem.watching import changed_one, kept_copies, watched_there
from fdcheck.problem.wording import described, leaf_types
from fdcheck.problem.workers import Interrupted, RaisedThere, Workers
from fdcheck.results import Finding, InvalidInput, Status

_WATCHED_CALLS = 12
"""Calls of apply whose arguments are compared afterwards: comparing costs as much as a cheap apply, every
call gets copies of its own anyway, and a function that writes into its argument does so from the start."""


class Breach(Exception):
    """A part of its contract that a callable broke, on its way to becoming a finding.

    Parameters
    ----------
    finding : Finding
        What to report.
    """

    def __init__(self, endpoint: str, status: Status, message: str) -> None:
        super().__init__(message)
        self.finding = Finding(endpoint, status, message)


class Function:
    """One callable of the user, counted and guarded against what it does to its arguments.

    Parameters
    ----------
    name : str
        ``'apply'`` or the endpoint's name, for messages.
    function : callable
        The user's.
    skip : collection of str
        Statuses of breaches that nobody minds.
    """

    def __init__(self, name: str, function: Callable[..., Any], skip: Collection[str] = ()) -> None:
        if not callable(function):
            raise InvalidInput(f"{name}: expected a callable, got {type(function).__name__} {function!r:.60}")
        self.name = name
        self.skip = frozenset(skip)
        self.calls = 0
        self.watched_until = _WATCHED_CALLS
        self.mutated = ""
        self.function = function

    def __call__(
        self, *arguments: tuple[list[Any], Any], where: str = "x0", run: Callable[..., Any] | None = None
    ) -> Any:
        """Call with private copies of structures, each given as (leaves, spec), here or as ``run`` runs a function.

        Raises
        ------
        Breach
            If the callable raises; the message holds the type, the text, the file and the line.
        """
        structures = [
            optree.tree_unflatten(spec, [private_copy(leaf) for leaf in leaves]) for leaves, spec in arguments
        ]
        return self.on(*structures, where=where, run=run, before=arguments)

    def on(
        self,
        *structures: Any,
        where: str,
        run: Callable[..., Any] | None = None,
        before: Sequence[tuple[list[Any], Any]] = (),
    ) -> Any:
        """Call with structures as they are, which ``before`` holds as leaves and spec if it is at hand, as above.

        Raises
        ------
        Breach
            As for a call with private copies.
        """
        self.calls += 1
        is_watched = self.calls <= self.watched_until and not self.mutated
        try:
            if run is not None:
                result, changed = run(watched_there, self.function, structures, is_watched)
            else:
                kept = (before or kept_copies(structures)) if is_watched else ()
                result = self.function(*structures)
                changed = changed_one(kept, structures)
        except Breach:  # a front end that knows better what went wrong
            raise
        except Interrupted as error:
            raise Breach(self.name, Status.UNDECIDED, f"{error}") from error
        except RaisedThere as error:
            raise Breach(self.name, Status.RAISED, f"{self.name} raised {error} at {where}.") from error
        except (Exception, SystemExit) as error:  # sys.exit() in a callable must not look like a verdict
            if run is not None:
                raise  # about sending it: what the callable itself raises comes as RaisedThere
            raise Breach(self.name, Status.RAISED, f"{self.name} raised {described(error)} at {where}.") from error
        if changed is not None:
            self.mutated = ("x", "the tangent" if self.name == "jvp" else "the cotangent")[changed]
        return result

    def mutations(self) -> list[Finding]:
        """Return the finding that an argument was changed in place, if one was and that is not skipped."""
        if not self.mutated or Status.MUTATION in self.skip:
            return []
        text = f"{self.name} changed its arguments in place: {self.mutated} was another after the call."
        return [Finding(self.name, Status.MUTATION, text)]


@dataclass
class Course:
    """What happened so far in a check.

    Parameters
    ----------
    raised, changed : Breach or None
        The first exception of apply, and the first output of another structure than at x0.
    broken_off : Breach or None
        Why nothing more is evaluated although calls and time are left.
    stacks : int
        Calls of apply with stacks.
    is_coupling_open : bool
        Whether points of a stack might change each other's values.
    """

    raised: Breach | None = None
    changed: Breach | None = None
    broken_off: Breach | None = None
    stacks: int = 0
    is_coupling_open: bool = False

    def breaches(self) -> list[Breach]:
        """Return all that there are."""
        return [breach for breach in (self.raised, self.changed, self.broken_off) if breach is not None]


class Problem:
    """apply at x0 as a map between vectors of real coordinates.

    ``scatter``, shape (m,), is by how much calls at x0 were seen to differ beyond rounding, 0 until one was.

    Parameters
    ----------
    apply : Function
        The user's function.
    x0 : object
        The point; never changed, never handed out.
    input_paths, output_paths : sequence of str or None
        Paths or globs of the leaves to look at; None for all.
    max_applies : int or None
        Calls of apply at most; beyond them nothing is evaluated, and ``is_spent`` tells of it.
    progress : callable, optional
        Given a :class:`fdcheck.Progress` after calls of apply.
    execution : Execution, optional
        How points are evaluated; one after the other in this thread by default.

    Raises
    ------
    InvalidInput
        If x0 has no floating or complex leaf, apply returns none, or it cannot be sent to the workers.
    Breach
        If apply raises at x0, does not come back from there, or takes no stacks although it should.
    """

    def __init__(
        self,
        apply: Function,
        x0: Any,
        input_paths: Sequence[str] | None = None,
        output_paths: Sequence[str] | None = None,
        max_applies: int | None = None,
        progress: Callable[[Progress], object] | None = None,
        execution: Execution | None = None,
    ) -> None:
        execution = execution or Execution()
        self.apply = apply
        self.budget = Budget(max_applies, execution.time_limit, progress, apply.calls)
        self.course = Course()
        leaves, inputs = trees.structure(x0, "x")
        if not inputs.size:
            raise InvalidInput(
                "x0: expected at least one floating or complex number to differentiate, got "
                + leaf_types(leaves, inputs)
            )
        self.inputs = paths.select(inputs, input_paths, "input_paths")
        require_finite(trees.coordinates(leaves, self.inputs), self.inputs)
        self.leaves = [private_copy(leaf) for leaf in leaves]
        is_elsewhere = execution.executor is not None or execution.timeout is not None
        self._workers = Workers(execution) if is_elsewhere else None
        run = functools.partial(self._workers.call, self.budget) if self._workers else None
        result = apply((self._boxed(self.leaves), self.inputs.spec), run=run)
        values, outputs = trees.structure(float(result) if type(result) is int else result, "y")
        if not outputs.leaves:
            raise InvalidInput(f"apply: expected a floating or complex output, got {leaf_types(values, outputs)} at x0")
        self.outputs = paths.select(outputs, output_paths, "output_paths")
        parts = self.leaves, self.inputs, self.outputs, trees.coordinates(values, self.outputs)
        self._change: Change | StackedChange = Change(apply.function, *parts)
        self.course.is_coupling_open = bool(execution.batched) and self.inputs.size > 0 and self.outputs.size > 0
        if self.course.is_coupling_open:
            function = execution.batched if callable(execution.batched) else apply.function
            self._change = StackedChange(function, *parts, execution.max_memory)
            misfits = misfit(self._change, self._evaluated)
            if misfits:
                raise self.course.broken_off or Breach("apply", Status.SHAPE, f"execution: batched: {misfits}.")
        self.value, self.x = self._change.value, self._change.x
        self.scatter = np.zeros(self.outputs.size)
        self._posed: Problem | None = None
        self._within = np.empty(0, np.int64)
        self._among: NDArray[np.int64] | None = None

    def narrowed(self, coordinates: NDArray[np.int64]) -> Problem:
        """Return the same problem in some of its real input coordinates, ascending; this one evaluates its points."""
        if len(coordinates) == self.inputs.size:
            return self
        assert self.typical  # cached for both: what is typical of an input does not hang on what is looked at
        other = copy.copy(self)
        other._posed, other._within = self, coordinates
        other.inputs = self.inputs.narrowed(coordinates)
        other.x = self.x[coordinates]
        other._among = coordinates if self._among is None else self._among[coordinates]
        return other

    @property
    def columns(self) -> NDArray[np.int64]:
        """Which real input coordinates of the problem as it was posed these are, shape (n,)."""
        return np.arange(self.inputs.size) if self._among is None else self._among

    @cached_property
    def typical(self) -> tuple[Mapping[int, float], float]:
        """Upper median of the nonzero magnitudes in each input array by position, and in all; 1 where there is none."""
        return typical_magnitudes(self.leaves, self.inputs)

    @property
    def is_spent(self) -> bool:
        """Whether nothing more is evaluated: calls or time are used up, or the workers do not answer."""
        return bool(self.budget.spent)

    @property
    def coarsest_dtype(self) -> np.dtype[Any]:
        """The shortest floating dtype among the selected inputs and outputs."""
        leaves = (*self.inputs.leaves, *self.outputs.leaves)
        return min((leaf.real_dtype for leaf in leaves), key=lambda dtype: dtype.itemsize)

    def differences(self, points: Points) -> NDArray[np.float64]:
        """Return f(point) - f(x0) at points, shape (k, m).

        The differences are formed in the dtype of the values and then widened to float64. Rows are NaN where apply
        raises or returns another structure, and from where nothing more may be evaluated.
        """
        if self._posed is not None:
            return self._posed.differences(points.among(self._within, self._posed.inputs.size))
        nothing = (len(points), self.outputs.size), np.nan
        granted = self.budget.granted(self.apply.calls, len(points))
        if not granted:
            return np.full(*nothing)
        found = self._evaluated(points if granted == len(points) else points.at(slice(granted)))
        if (
            self.course.is_coupling_open
            and len(found.differences) > 1
            and self._may_be_coupled(points, found.differences)
        ):
            return np.full(*nothing)
        for k, kind, text in found.troubles:
            self._note(kind, text, points.where(k, self.inputs))
        if len(found.differences) == len(points):
            return found.differences
        out = np.full(*nothing)
        out[: len(found.differences)] = found.differences
        return out

    def quicken(self, quicker: Callable[[Change], Change]) -> None:
        """Have points evaluated by what a function makes of the way they are evaluated now."""
        if self._posed is not None:
            self._posed.quicken(quicker)
            return
        self._change = quicker(self._change)

    def _evaluated(self, points: Points) -> Evaluated:
        """Return what is found at points, counted."""
        self.budget.begin(self.apply.calls)
        if self._workers is not None:
            found = self._workers.evaluate(self._change, points, self.budget)
        else:
            found = self._change.evaluate(points, self.budget.tick if self.budget.is_ticking else None)
        self.apply.calls += found.evaluated
        self.course.stacks += found.calls if isinstance(self._change, StackedChange) else 0
        if found.interrupt is not None:
            self.budget.hold(found.interrupt)
        elif found.broken_off:
            self._break_off(found.broken_off)
        elif len(found.differences) < len(points):
            self.budget.spent = TIME_LIMIT
        return found

    def _break_off(self, why: str) -> None:
        self.budget.spent = BROKEN_OFF
        self.course.broken_off = Breach("apply", Status.UNDECIDED, why)

    def _may_be_coupled(self, points: Points, differences: NDArray[np.float64]) -> bool:
        """Return whether points of a stack change each other's values, or there is no budget left to see; break off."""
        assert isinstance(self._change, StackedChange), "nothing else couples points"
        coupled = coupling(self._change, self._evaluated_if_granted, points, differences)
        self.course.is_coupling_open = coupled is None
        if coupled:
            self._break_off(f"execution: batched: {coupled}; nothing was evaluated after it.")
        return self.is_spent

    def _evaluated_if_granted(self, points: Points) -> Evaluated:
        """Return what is found at points if the budget covers all of them, else nothing."""
        if self.budget.granted(self.apply.calls, len(points)) < len(points):
            return Evaluated(np.empty((0, self.outputs.size)), [], 0, 0)
        return self._evaluated(points)

    def arguments(self) -> tuple[list[Any], Any]:
        """Return the leaves and the structure of x0, as a Function takes them."""
        return self._boxed(self.leaves), self.inputs.spec

    def structure(self, point: NDArray[np.floating] | None = None) -> Any:
        """Return a private copy of x0, or of another point, shape (n,), as a callable takes it."""
        leaves = [private_copy(leaf) for leaf in self.leaves]
        if point is not None:
            for leaf in self.inputs.leaves:
                leaves[leaf.position][...] = leaf.filled(point[leaf.start : leaf.stop])
        return optree.tree_unflatten(self.inputs.spec, self._boxed(leaves))

    def boxed(self, leaves: list[Any]) -> Any:
        """Return the user's structure with other leaves, scalars as what they were."""
        return self.inputs.spec.unflatten(self._boxed(leaves))

    def _boxed(self, leaves: list[Any]) -> list[Any]:
        boxed = list(leaves)
        for leaf in (*self.inputs.leaves, *self.inputs.resting):
            boxed[leaf.position] = leaf.boxed(leaves[leaf.position])
        return boxed

    def _note(self, kind: str, text: str, where: str) -> None:
        """Keep the first exception and the first change of apply's output in mind."""
        course = self.course
        if kind == RAISED:
            course.raised = course.raised or Breach("apply", Status.RAISED, f"apply raised {text} at {where}.")
        elif course.changed is None:
            expected = trees.shapes_text(self.outputs)
            message = f"apply returned {text} at {where}; at x0 it had returned {expected}."
            course.changed = Breach("apply", Status.SHAPE, message)


def measurable_problem(
    apply: Function,
    x0: Any,
    input_paths: Sequence[str] | None,
    output_paths: Sequence[str] | None,
    execution: Execution | None = None,
) -> Problem:
    """Return a problem that can be measured without a claim to check.

    Parameters
    ----------
    apply, x0, input_paths, output_paths, execution
        As for :class:`Problem`.

    Raises
    ------
    InvalidInput
        If apply raises at x0, or there is nothing to move or nothing that could change.
    """
    try:
        problem = Problem(apply, x0, input_paths, output_paths, execution=execution)
    except Breach as breach:
        raise InvalidInput(breach.finding.message) from breach
    if not problem.inputs.size or not problem.outputs.size:
        raise InvalidInput("x0, apply: expected at least one element on each side, got an array of size 0")
    return problem
