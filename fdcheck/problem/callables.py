"""The user's callables, made safe: counted, given private copies, their results copied and checked."""

from __future__ import annotations

import copy
import operator
import pathlib
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import optree
from numpy.typing import NDArray

from fdcheck.problem import trees
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

    Attributes
    ----------
    expected, ahead : int
        Calls of apply that this point will take, and how many points like it there are from here on.
    holds_interrupts : bool
        Whether an interrupt inside of apply ends all further calls and is kept in ``interrupt``, for its owner to raise
        when the report is made.

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
        self.is_spent = False
        self.interrupt: BaseException | None = None
        self.holds_interrupts = False
        self.expected = 0
        self.ahead = 1
        self._before = apply.calls
        self._most = sys.maxsize if max_applies is None else max_applies
        self._progress = progress
        self._is_watched = max_applies is not None or progress is not None
        leaves, inputs = trees.structure(x0, "x")
        if not inputs.size:
            raise InvalidInput(
                "x0: expected at least one floating or complex number to differentiate, got "
                + _leaf_types(leaves, inputs)
            )
        self.inputs = trees.select(inputs, input_paths, "input_paths")
        _require_finite(trees.coordinates(leaves, self.inputs), self.inputs)
        self.leaves = [_private(leaf) for leaf in leaves]
        result = apply((self._boxed(self.leaves), self.inputs.spec))
        values, outputs = trees.structure(float(result) if type(result) is int else result, "y")
        if not outputs.leaves:
            raise InvalidInput(
                f"apply: expected a floating or complex output, got {_leaf_types(values, outputs)} at x0"
            )
        self.outputs = trees.select(outputs, output_paths, "output_paths")
        self.value = trees.coordinates(values, self.outputs)
        self.x = trees.coordinates(self.leaves, self.inputs)
        self.changed: Breach | None = None
        self.raised: Breach | None = None
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
        if self._is_watched and not self._has_budget():
            out[:] = np.nan
            return
        self.apply.calls += 1
        try:
            result = self.apply.function(self._rebuilt(moved))
        except (Exception, SystemExit) as error:
            if self.raised is None:
                self.raised = Breach("apply", Status.RAISED, f"apply raised {described(error)} at {where(what)}.")
            out[:] = np.nan
            return
        except BaseException as interrupt:
            if not self.holds_interrupts:
                raise
            self.interrupt, self.is_spent, self._is_watched = interrupt, True, True
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
        self.is_spent = self.is_spent or self.apply.calls >= self._most
        if not self.is_spent and self._progress is not None:
            done = self.apply.calls + 1
            self._progress(done, max(done, self._before + self.ahead * self.expected))
        return not self.is_spent

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
        if self.changed is None:
            expected = trees.shapes_text(self.outputs)
            message = f"apply returned {what} at {where}; at x0 it had returned {expected}."
            self.changed = Breach("apply", Status.SHAPE, message)


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


def describe(spec: Any, leaves: Sequence[Any]) -> str:
    """Return a returned structure in a few words."""
    if len(leaves) == 1 and leaves[0] is not None and spec.is_leaf():
        value = leaves[0]
        shape = getattr(value, "shape", None)
        return f"a {type(value).__name__}" + (f" of shape {shape}" if shape is not None else "")
    text = str(spec).removeprefix("PyTreeSpec(").removesuffix(")").removesuffix(", NoneIsLeaf")
    return f"the structure {text:.120}"


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
        return before.shape == after.shape and before.tobytes() == after.tobytes()
    return before is after or type(before) is type(after)


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
