"""The user's callables, made safe: counted, given private copies, their results copied and checked."""

from __future__ import annotations

import copy
import operator
import pathlib
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import optree
from numpy.typing import NDArray

from fdcheck.problem import paths, trees
from fdcheck.problem.magnitudes import typical_magnitudes
from fdcheck.problem.naming import describe
from fdcheck.problem.trees import Layout
from fdcheck.results import Finding, InvalidInput, Status

_PACKAGE = str(pathlib.Path(__file__).parents[1])
"""Where fdcheck's own frames lie: they are no help to somebody whose callable raised."""

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
    """

    def __init__(self, name: str, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise InvalidInput(f"{name}: expected a callable, got {type(function).__name__} {function!r:.60}")
        self.name = name
        self.calls = 0
        self.mutated = False
        self.function = function

    def __call__(self, *arguments: tuple[list[Any], Any], where: str = "x0") -> Any:
        """Call with private copies of structures, each given as (leaves, spec).

        Raises
        ------
        Breach
            If the callable raises; the message holds the type, the text, the file and the line.
        """
        structures = [optree.tree_unflatten(spec, [_private(leaf) for leaf in leaves]) for leaves, spec in arguments]
        self.calls += 1
        try:
            result = self.function(*structures)
        except Breach:  # a front end that knows better what went wrong
            raise
        except (Exception, SystemExit) as error:  # sys.exit() in a callable must not look like a verdict
            raise Breach(self.name, Status.RAISED, f"{self.name} raised {described(error)} at {where}.") from error
        if self.calls <= _WATCHED_CALLS and not self.mutated:
            self.mutated = not all(
                _unchanged(given, structure) for given, structure in zip(arguments, structures, strict=True)
            )
        return result


@dataclass
class _Course:
    """What happened so far in a check: whether the budget is spent, what is expected, and the first faults of apply.

    ``expected`` are the calls that this point will take, after ``before`` others, and ``ahead`` are the points like it
    from here on. Where ``holds_interrupts``, an interrupt inside of apply ends all further calls and is kept in
    ``interrupt``, for its owner to raise when the report is made.
    """

    is_spent: bool = False
    expected: int = 0
    before: int = 0
    ahead: int = 1
    holds_interrupts: bool = False
    interrupt: BaseException | None = None
    changed: Breach | None = None
    raised: Breach | None = None


class Problem:
    """apply at x0 as a map between vectors of real coordinates.

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
        Called with the calls of apply so far and those expected, before each.

    Raises
    ------
    InvalidInput
        If x0 has no floating or complex leaf, or apply returns none.
    Breach
        If apply raises at x0.
    """

    def __init__(
        self,
        apply: Function,
        x0: Any,
        input_paths: Sequence[str] | None = None,
        output_paths: Sequence[str] | None = None,
        max_applies: int | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> None:
        self.apply = apply
        self.course = _Course(before=apply.calls)
        self._most = sys.maxsize if max_applies is None else max_applies
        self._progress = progress
        self._is_watched = max_applies is not None or progress is not None
        leaves, inputs = trees.structure(x0, "x")
        if not inputs.size:
            raise InvalidInput(
                "x0: expected at least one floating or complex number to differentiate, got "
                + _leaf_types(leaves, inputs)
            )
        self.inputs = paths.select(inputs, input_paths, "input_paths")
        _require_finite(trees.coordinates(leaves, self.inputs), self.inputs)
        self.leaves = [_private(leaf) for leaf in leaves]
        result = apply((self._boxed(self.leaves), self.inputs.spec))
        values, outputs = trees.structure(float(result) if type(result) is int else result, "y")
        if not outputs.leaves:
            raise InvalidInput(
                f"apply: expected a floating or complex output, got {_leaf_types(values, outputs)} at x0"
            )
        self.outputs = paths.select(outputs, output_paths, "output_paths")
        self.value = trees.coordinates(values, self.outputs)
        self.x = _point(self.leaves, self.inputs)
        self._among: NDArray[np.int64] | None = None
        numeric = [isinstance(leaf, np.ndarray) and not leaf.dtype.hasobject for leaf in self.leaves]
        self._arrays = [k for k, is_array in enumerate(numeric) if is_array]
        self._objects = [k for k, leaf in enumerate(self.leaves) if not numeric[k] and not isinstance(leaf, _IMMUTABLE)]
        self._scalars = [leaf for leaf in (*self.inputs.leaves, *self.inputs.resting) if leaf.box is not np.ndarray]
        self._rebuilt = operator.itemgetter(0) if self.inputs.spec.is_leaf() else self.inputs.spec.unflatten
        self._is_array = self.outputs.spec.is_leaf()
        whole = len(self.outputs.leaves) == 1
        self._expected = [
            (leaf, leaf.position, leaf.shape, leaf.dtype, leaf.parts == 1, None if whole else own, self.value[own])
            for leaf in self.outputs.leaves
            for own in [slice(leaf.start, leaf.stop)]
        ]

    def narrowed(self, coordinates: NDArray[np.int64]) -> Problem:
        """Return the same problem in some of its real input coordinates, ascending; the calls of apply are shared."""
        if len(coordinates) == self.inputs.size:
            return self
        assert self.typical  # cached for both: what is typical of an input does not hang on what is looked at
        other = copy.copy(self)
        other.inputs = self.inputs.narrowed(coordinates)
        other.x = self.x[coordinates]
        other._among = self.columns[coordinates] if self._among is not None else coordinates
        return other

    @property
    def columns(self) -> NDArray[np.int64]:
        """Which real input coordinates of the problem as it was posed these are, shape (n,)."""
        return np.arange(self.inputs.size) if self._among is None else self._among

    @property
    def is_spent(self) -> bool:
        """Whether a call of apply was refused for want of budget."""
        return self.course.is_spent

    @cached_property
    def typical(self) -> tuple[Mapping[int, float], float]:
        """Upper median of the nonzero magnitudes in each input array by position, and in all; 1 where there is none."""
        return typical_magnitudes(self.leaves, self.inputs)

    @property
    def coarsest_dtype(self) -> np.dtype[Any]:
        """The shortest floating dtype among the selected inputs and outputs."""
        leaves = (*self.inputs.leaves, *self.outputs.leaves)
        return min((leaf.real_dtype for leaf in leaves), key=lambda dtype: dtype.itemsize)

    def difference(self, moved: list[Any], out: NDArray[np.float64], where: Callable[[Any], str], what: Any) -> None:
        """Write f(moved) - f(x0) into ``out``, NaN where apply raises or returns another structure.

        Parameters
        ----------
        moved : list
            Private leaves of the input, which apply may keep and change.
        out : ndarray, shape (m,)
            The differences, formed in the dtype of the values and then widened to float64.
        where, what : callable and its argument
            Say what was moved, for messages.
        """
        for leaf in self._scalars:
            moved[leaf.position] = leaf.boxed(moved[leaf.position])
        if (self._is_watched or self.course.is_spent) and not self._has_budget():
            out[:] = np.nan
            return
        self.apply.calls += 1
        try:
            result = self.apply.function(self._rebuilt(moved))
        except (Exception, SystemExit) as error:
            if self.course.raised is None:
                self.course.raised = Breach(
                    "apply", Status.RAISED, f"apply raised {described(error)} at {where(what)}."
                )
            out[:] = np.nan
            return
        except BaseException as interrupt:
            if not self.course.holds_interrupts:
                raise
            self.course.interrupt, self.course.is_spent = interrupt, True
            out[:] = np.nan
            return
        leaves = [result]
        if not self._is_array or type(result) is not np.ndarray:  # a bare array needs no flattening
            leaves, spec = trees.flatten(result)
            if spec != self.outputs.spec:
                self._note_change(describe(spec, leaves), where(what), out)
                return
        for leaf, position, shape, dtype, is_real, own, value in self._expected:
            array = leaves[position]
            if type(array) is not np.ndarray:
                array = np.asarray(array, dtype if type(array) is int else None)  # max(0, x) may be an int
            if array.shape != shape or (array.dtype is not dtype and array.dtype != dtype):
                self._note_change(f"{leaf.path} of shape {array.shape} and dtype {array.dtype}", where(what), out)
                return
            np.subtract(array.ravel() if is_real else trees.real_view(array), value, out if own is None else out[own])

    def _has_budget(self) -> bool:
        """Return whether apply may be called once more, and tell the user's callback of that call."""
        course = self.course
        course.is_spent = course.is_spent or self.apply.calls >= self._most
        if not course.is_spent and self._progress is not None:
            done = self.apply.calls + 1
            self._progress(done, max(done, course.before + course.ahead * course.expected))
        return not course.is_spent

    def copies(self) -> list[Any]:
        """Return private copies of the input leaves; scalars as 0-d arrays, to be moved in place."""
        leaves = self.leaves.copy()
        for k in self._arrays:
            leaves[k] = leaves[k].copy("K")
        for k in self._objects:
            leaves[k] = _private(leaves[k])
        return leaves

    def arguments(self) -> tuple[list[Any], Any]:
        """Return the leaves and the structure of x0, as a Function takes them."""
        return self._boxed(self.leaves), self.inputs.spec

    def boxed(self, leaves: list[Any]) -> Any:
        """Return the user's structure with other leaves, scalars as what they were."""
        return self.inputs.spec.unflatten(self._boxed(leaves))

    def _boxed(self, leaves: list[Any]) -> list[Any]:
        boxed = list(leaves)
        for leaf in (*self.inputs.leaves, *self.inputs.resting):
            boxed[leaf.position] = leaf.boxed(leaves[leaf.position])
        return boxed

    def _note_change(self, what: str, where: str, out: NDArray[np.float64]) -> None:
        """Keep the first change of apply's output in mind; the point counts as not measured."""
        out[:] = np.nan
        if self.course.changed is None:
            expected = trees.shapes_text(self.outputs)
            message = f"apply returned {what} at {where}; at x0 it had returned {expected}."
            self.course.changed = Breach("apply", Status.SHAPE, message)


def measurable_problem(
    apply: Function, x0: Any, input_paths: Sequence[str] | None, output_paths: Sequence[str] | None
) -> Problem:
    """Return a problem that can be measured without a claim to check.

    Parameters
    ----------
    apply, x0, input_paths, output_paths
        As for :class:`Problem`.

    Raises
    ------
    InvalidInput
        If apply raises at x0, or there is nothing to move or nothing that could change.
    """
    try:
        problem = Problem(apply, x0, input_paths, output_paths)
    except Breach as breach:
        raise InvalidInput(breach.finding.message) from breach
    if not problem.inputs.size or not problem.outputs.size:
        raise InvalidInput("x0, apply: expected at least one element on each side, got an array of size 0")
    return problem


def _require_finite(x: NDArray[Any], layout: Layout) -> None:
    """Raise InvalidInput where a coordinate is NaN or infinite: nothing can be moved there."""
    bad = np.flatnonzero(~np.isfinite(x))
    if bad.size:
        leaf = layout.leaf_at(int(bad[0]))
        place = f"{leaf.path}{list(leaf.index(int(bad[0]))) or ''}"
        raise InvalidInput(
            f"x0: expected finite numbers, got {float(x[bad[0]])} at {place} ({bad.size} such); select other inputs "
            "with input_paths, or move x0"
        )


def _private(leaf: Any) -> Any:
    """Return a copy that nobody else holds, in the same memory layout; what cannot be copied is shared."""
    if isinstance(leaf, np.ndarray) and not leaf.dtype.hasobject:
        return leaf.copy("K")
    if isinstance(leaf, _IMMUTABLE):
        return leaf
    try:
        return copy.deepcopy(leaf)
    except Exception:
        return leaf


_IMMUTABLE = (int, float, complex, str, bytes, type(None), np.generic)


def _unchanged(given: tuple[list[Any], Any], structure: Any) -> bool:
    """Return whether a structure still has the leaves that were given."""
    leaves, spec = trees.flatten(structure)
    return spec == given[1] and all(_same(before, after) for before, after in zip(given[0], leaves, strict=True))


def _same(before: Any, after: Any) -> bool:
    """Return whether a leaf is as it was, NaN and all; objects that are no arrays are taken to be."""
    if isinstance(before, np.ndarray) and isinstance(after, np.ndarray):
        return before.shape == after.shape and _same_bits(before, after)
    return before is after or type(before) is type(after)


def _same_bits(before: NDArray[Any], after: NDArray[Any]) -> bool:
    """Return whether two arrays of one shape have the same bits; eight bytes at a time where that is cheap."""
    plain = before.dtype == after.dtype and before.itemsize == 8 and before.dtype.kind in "fiu"
    if plain and before.flags.c_contiguous and after.flags.c_contiguous:
        return bool((before.view(np.int64) == after.view(np.int64)).all())
    return before.tobytes() == after.tobytes()


def _point(leaves: Sequence[Any], layout: Layout) -> NDArray[Any]:
    """Return the real coordinates of private leaves, which nobody writes to: a single array is not copied."""
    if len(layout.leaves) != 1:
        return trees.coordinates(leaves, layout)
    only = layout.leaves[0]
    return only.taken(leaves[only.position]).astype(layout.dtype, copy=False)


def described(error: BaseException) -> str:
    """Return an exception in one line, with the file and line of the user's code that it came from."""
    try:
        text = " ".join(str(error).split())
    except Exception:
        text = "(its message cannot be printed)"
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith(_PACKAGE)]
    place = f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}{': ' if text else ''}{text:.300}{place}"


def _leaf_types(leaves: Sequence[Any], layout: Layout) -> str:
    """Return what the leaves are, for messages."""
    shown = [
        f"{path} ({value.dtype} array)" if isinstance(value, np.ndarray) else f"{path} ({type(value).__name__})"
        for path, value in zip(layout.paths, leaves, strict=True)
    ]
    return ", ".join(shown[:6]) or "an empty structure"
