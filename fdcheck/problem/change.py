"""apply beside x0: points, and f(x) - f(x0) at them, in this process or in the one that it is sent to."""

from __future__ import annotations

import copy
import dataclasses
import operator
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import optree
from numpy.typing import NDArray

from fdcheck.problem import trees
from fdcheck.problem.trees import Layout, Leaf
from fdcheck.problem.wording import describe, described

RAISED, CHANGED = "raised", "returned"
"""What may go wrong at a point: apply raises, or returns another structure, shape or dtype than at x0."""

_BLOCK = 2**14
"""Values of apply held before their differences are formed, all at once."""

_AT_ONCE = 2**12
"""Points whose places are held as Python objects, 200 bytes each."""

_WHOLE, _REAL, _IMAGINARY = range(3)
"""What is moved of an element: all of a real one, one part of a complex one."""

IMMUTABLE = (int, float, complex, str, bytes, type(None), np.generic)
"""Kinds of leaves that need no copy."""


@dataclass(frozen=True)
class Moved:
    """Points with one coordinate of x0 moved.

    Parameters
    ----------
    columns : ndarray of int, shape (k,)
        Real input coordinates.
    target, moved : ndarray, shape (k,)
        Where they come to lie, and how far that is.
    """

    columns: NDArray[np.int64]
    target: NDArray[np.floating]
    moved: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.columns)

    def at(self, which: NDArray[np.int64] | slice) -> Moved:
        """Return some of the points."""
        return Moved(self.columns[which], self.target[which], self.moved[which])

    def among(self, columns: NDArray[np.int64], size: int) -> Moved:
        """Return the points in more coordinates, ``size`` of them, of which these are ``columns``."""
        return Moved(columns[self.columns], self.target, self.moved)

    def leaves(self, change: Change) -> Iterator[list[Any]]:
        """Yield private leaves of the input at each point; scalars as 0-d arrays."""
        copies = change.copies
        for start in range(0, len(self), _AT_ONCE):
            some = self.at(slice(start, start + _AT_ONCE))
            for (position, part, index), value in zip(some._places(change.inputs), some.target.tolist(), strict=True):
                leaves = copies()
                array = leaves[position]
                if part:
                    array = array.real if part == _REAL else array.imag
                array[index] = value
                yield leaves
                del leaves, array  # before the next copy is made

    def _places(self, inputs: Layout) -> list[Any]:
        """Return position, part and index of the element that is moved at each point."""
        places: list[Any] = [None] * len(self)
        for leaf, own in self._by_leaf(inputs):
            element, second = np.divmod(self.columns[own] - leaf.start, leaf.parts)
            parts = second + _REAL if leaf.parts == 2 else second
            axes = [axis.tolist() for axis in np.unravel_index(element, leaf.shape)] if leaf.shape else []
            indices = zip(*axes, strict=True) if axes else [()] * len(own)
            for k, part, index in zip(own.tolist(), parts.tolist(), indices, strict=True):
                places[k] = leaf.position, part, index
        return places

    def stacks(self, change: Change) -> list[Any]:
        """Return the leaves of the input with all points stacked on a leading axis."""
        leaves = change.repeated(len(self))
        for leaf, own in self._by_leaf(change.inputs):
            flat = leaves[leaf.position].reshape(len(self), -1).view(leaf.real_dtype)
            flat[own, self.columns[own] - leaf.start] = self.target[own]
        return leaves

    def _by_leaf(self, inputs: Layout) -> Iterator[tuple[Leaf, NDArray[np.intp]]]:
        """Yield each leaf in which something is moved, and the points that move it."""
        if len(inputs.leaves) == 1:
            yield inputs.leaves[0], np.arange(len(self))
            return
        which = np.searchsorted([leaf.start for leaf in inputs.leaves], self.columns, side="right") - 1
        for k in np.unique(which):
            yield inputs.leaves[k], np.flatnonzero(which == k)

    def where(self, k: int, inputs: Layout) -> str:
        """Return which coordinate is moved at a point, and how far."""
        return f"{inputs.element(int(self.columns[k]))} {float(self.moved[k]):+.3g}"


@dataclass(frozen=True)
class Along:
    """Points along a direction.

    Parameters
    ----------
    direction : ndarray, shape (n,)
        In real input coordinates.
    multiples : ndarray, shape (k,)
        How many times it is added to x0.
    """

    direction: NDArray[np.float64]
    multiples: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.multiples)

    def at(self, which: NDArray[np.int64] | slice) -> Along:
        """Return some of the points."""
        return Along(self.direction, self.multiples[which])

    def among(self, columns: NDArray[np.int64], size: int) -> Along:
        """Return the points in more coordinates, ``size`` of them, of which these are ``columns``."""
        direction = np.zeros(size)
        direction[columns] = self.direction
        return Along(direction, self.multiples)

    def leaves(self, change: Change) -> Iterator[list[Any]]:
        """Yield private leaves of the input at each point; scalars as 0-d arrays."""
        for multiple in self.multiples.tolist():
            leaves = change.copies(change.replaced)
            for leaf in change.inputs.leaves:
                own = slice(leaf.start, leaf.stop)
                moved = _moved(change.x[own], self.direction[own], multiple)
                if leaf.position in change.replaced:
                    leaves[leaf.position] = moved.astype(leaf.dtype, copy=False).reshape(leaf.shape)
                else:
                    leaves[leaf.position][...] = leaf.filled(moved)
                del moved
            yield leaves
            del leaves  # before the next copy is made

    def stacks(self, change: Change) -> list[Any]:
        """Return the leaves of the input with all points stacked on a leading axis."""
        stacks = change.repeated(len(self))
        for k, leaves in enumerate(self.leaves(change)):
            for leaf in change.inputs.leaves:
                stacks[leaf.position][k] = leaves[leaf.position]
        return stacks

    def where(self, k: int, inputs: Layout) -> str:
        """Return how far along the direction a point lies."""
        return f"{self.multiples[k] * np.linalg.norm(self.direction):+.2g} along a random direction"


Points = Moved | Along


class Trouble(NamedTuple):
    """What went wrong at the k-th point, RAISED or CHANGED, and what apply raised or returned."""

    k: int
    kind: str
    text: str


class Evaluated(NamedTuple):
    """What was found at the first points of those given.

    Differences, shape (k, m), NaN in the rows of points with troubles; the troubles in order; points evaluated in all,
    and in how many calls; why those after the first k were not evaluated, empty where it is plain; and the interrupt
    that came in the last call, which is no Exception.
    """

    differences: NDArray[np.float64]
    troubles: list[Trouble]
    evaluated: int
    calls: int
    broken_off: str = ""
    interrupt: BaseException | None = None


Tick = Callable[[int], bool]
"""Told how many points were evaluated just now; answers whether to go on."""


class Change:
    """The map from points x beside x0 to f(x) - f(x0), with all that it takes to evaluate it elsewhere.

    Parameters
    ----------
    function : callable
        The user's apply.
    leaves : list
        Leaves of x0, which nobody else changes; scalars as 0-d arrays.
    inputs, outputs : Layout
        Of x0 and of apply's output.
    value : ndarray, shape (m,)
        f(x0).
    """

    options: tuple[Any, ...] = ()
    """Further arguments that it was made with."""

    def __init__(
        self, function: Callable[..., Any], leaves: list[Any], inputs: Layout, outputs: Layout, value: NDArray[Any]
    ) -> None:
        self.function, self.inputs, self.outputs, self.value = function, inputs, outputs, value
        self.x0 = leaves
        numeric = [isinstance(leaf, np.ndarray) and not leaf.dtype.hasobject for leaf in leaves]
        self._arrays = [k for k, is_array in enumerate(numeric) if is_array]
        self._objects = [k for k, leaf in enumerate(leaves) if not numeric[k] and not isinstance(leaf, IMMUTABLE)]
        self._scalars = [leaf for leaf in (*inputs.leaves, *inputs.resting) if leaf.box is not np.ndarray]
        self.rebuilt = operator.itemgetter(0) if inputs.spec.is_leaf() else inputs.spec.unflatten
        self._is_array = outputs.spec.is_leaf()
        self._expected = [(leaf.position, leaf.shape, leaf.dtype) for leaf in outputs.leaves]

    @cached_property
    def x(self) -> NDArray[Any]:
        """Real coordinates of x0, shape (n,), which nobody writes to: a single array is not copied."""
        if len(self.inputs.leaves) != 1:
            return trees.coordinates(self.x0, self.inputs)
        only = self.inputs.leaves[0]
        return only.taken(self.x0[only.position]).astype(self.inputs.dtype, copy=False)

    @cached_property
    def nbytes(self) -> int:
        """Bytes of one point and of what is found there."""
        point = sum(leaf.nbytes for leaf in self.x0 if isinstance(leaf, np.ndarray))
        return point + self.value.nbytes + 8 * self.outputs.size

    @cached_property
    def replaced(self) -> frozenset[int]:
        """Positions of real arrays in C order, which need no copy where every element is moved."""
        plain = (leaf for leaf in self.inputs.leaves if leaf.parts == 1 and leaf.chosen is None)
        return frozenset(leaf.position for leaf in plain if self.x0[leaf.position].flags.c_contiguous)

    def copies(self, without: Collection[int] = ()) -> list[Any]:
        """Return private copies of the leaves of x0; scalars as 0-d arrays, to be moved in place.

        Those at some positions are left as they are, to be replaced.
        """
        leaves = self.x0.copy()
        for k in self._arrays:
            if k not in without:
                leaves[k] = leaves[k].copy("K")
        for k in self._objects:
            leaves[k] = private_copy(leaves[k])
        return leaves

    def repeated(self, times: int) -> list[Any]:
        """Return private leaves of x0, the floating and complex ones repeated on a leading axis."""
        leaves = self.copies()
        for leaf in (*self.inputs.leaves, *self.inputs.resting):
            stack = np.empty((times, *leaf.shape), leaf.dtype)
            stack[...] = leaves[leaf.position]
            leaves[leaf.position] = stack
        return leaves

    def evaluate(self, points: Points, tick: Tick | None = None) -> Evaluated:
        """Return what is found at points, one after the other, until ``tick`` says that it is enough."""
        found = np.empty((len(points), self.outputs.size))
        troubles: list[Trouble] = []
        block = min(max(1, _BLOCK // max(self.outputs.size, 1)), len(points))
        values = [np.empty((block, *shape), dtype) for _, shape, dtype in self._expected]
        moved, is_enough = points.leaves(self), False
        for start in range(0, len(points), block):
            rows = range(min(block, len(points) - start))
            for row in rows:
                try:
                    trouble = self._write(next(moved), values, row)
                except BaseException as interrupt:
                    if isinstance(interrupt, Exception):
                        raise
                    stop = start + row
                    if row:
                        self._subtract(values, found[start:stop])
                    return Evaluated(without(troubles, found[:stop]), troubles, stop + 1, stop + 1, "", interrupt)
                if trouble is not None:
                    troubles.append(Trouble(start + row, *trouble))
                if tick is not None and not tick(1):
                    is_enough = True
                    break
            stop = start + row + 1
            self._subtract(values, found[start:stop])
            if is_enough:
                break
        return Evaluated(without(troubles, found[:stop]), troubles, stop, stop)

    def _write(self, leaves: list[Any], values: list[NDArray[Any]], row: int) -> tuple[str, str] | None:
        """Write f at leaves into a row of each array of values, or return what went wrong."""
        for leaf in self._scalars:
            leaves[leaf.position] = leaf.boxed(leaves[leaf.position])
        try:
            result = self.function(self.rebuilt(leaves))
        except (Exception, SystemExit) as error:
            return RAISED, described(error)
        given = [result]
        if not self._is_array or type(result) is not np.ndarray:  # a bare array needs no flattening
            given, spec = trees.flatten(result)
            if spec != self.outputs.spec:
                return CHANGED, describe(spec, given)
        for k, (position, shape, dtype) in enumerate(self._expected):
            array = given[position]
            if type(array) is not np.ndarray:
                array = np.asarray(array, dtype if type(array) is int else None)  # max(0, x) may be an int
            if array.shape != shape or (array.dtype is not dtype and array.dtype != dtype):
                return CHANGED, f"{self.outputs.leaves[k].path} of shape {array.shape} and dtype {array.dtype}"
            values[k][row] = array
        return None

    def _subtract(self, values: Sequence[NDArray[Any]], out: NDArray[np.float64]) -> None:
        """Write values, one array of shape (rows, *shape) for each leaf, minus f(x0) into ``out``, shape (rows, m).

        The differences are formed in the dtype of the values and then widened.
        """
        for leaf, array in zip(self.outputs.leaves, values, strict=True):
            own = slice(leaf.start, leaf.stop)
            flat = array[: len(out)].reshape(len(out), -1)
            if leaf.parts == 2:
                flat = np.ascontiguousarray(flat).view(leaf.real_dtype)
            np.subtract(flat, self.value[own], out[:, own])

    def __reduce__(self) -> tuple[Any, ...]:
        layouts = _sendable(self.inputs, self.outputs)
        return _received, (type(self), self.function, self.x0, *layouts, self.value, *self.options)


def _moved(x: NDArray[Any], direction: NDArray[np.float64], multiple: float) -> NDArray[Any]:
    """Return x + multiple * direction with one array held beside them."""
    point: NDArray[Any] = multiple * direction
    moved: NDArray[Any] = np.add(point, x, out=point if x.dtype == point.dtype else None)
    return moved


def without(troubles: Sequence[Trouble], found: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return differences with NaN at the points that had troubles."""
    found[[trouble.k for trouble in troubles]] = np.nan
    return found


def private_copy(leaf: Any) -> Any:
    """Return a copy that nobody else holds, in the same memory layout; what cannot be copied is shared."""
    if isinstance(leaf, np.ndarray) and not leaf.dtype.hasobject:
        return leaf.copy("K")
    if isinstance(leaf, IMMUTABLE):
        return leaf
    try:
        return copy.deepcopy(leaf)
    except Exception:
        return leaf


def _sendable(*layouts: Layout) -> tuple[tuple[Any, Layout], ...]:
    """Return layouts that can be pickled: optree's structure of a dataclass cannot, one with None for leaves can."""
    return tuple(
        (optree.tree_unflatten(layout.spec, [None] * len(layout.paths)), dataclasses.replace(layout, spec=None))
        for layout in layouts
    )


def _received(
    kind: type[Change],
    function: Callable[..., Any],
    leaves: list[Any],
    inputs: tuple[Any, Layout],
    outputs: tuple[Any, Layout],
    value: NDArray[Any],
    *options: Any,
) -> Change:
    """Return what was sent."""
    both = [dataclasses.replace(layout, spec=trees.flatten(hollow)[1]) for hollow, layout in (inputs, outputs)]
    return kind(function, leaves, both[0], both[1], value, *options)
