"""A compiled apply driven by a compiled loop over points, instead of one call from Python for each.

The loop takes apply as a first-class function: it is compiled once for a type of input and output, not once for each
apply, and is kept in the cache. It holds no lock of the interpreter.
"""

from __future__ import annotations

import contextlib
import functools
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.numerics.compiled import compiled
from fdcheck.problem.change import Change, Evaluated, Moved, Points, Tick, Trouble, without

_WORTHWHILE = 10_000
"""Points that a process evaluates in Python before it loads the loop. A point costs 3 or 4 microseconds less in it;
loading it from the cache takes 40 ms, compiling it 0.8 s once on a machine for each type of input and output."""

_OPTIONS: dict[str, Any] = {"nogil": True, "no_cfunc_wrapper": True}


_GLANCE = 0.05
"""Seconds that points may take which are evaluated at once: nobody is told meanwhile, and nobody can interrupt it."""


class _Seen:
    """How many points this process was asked to evaluate of functions that can be swept."""

    points = 0


_seen = _Seen()


class SweptChange(Change):
    """As :class:`Change`, for a compiled function of one real array: points with one element moved are swept.

    A point at which the function raises or returns another shape is evaluated once more from Python, which tells of it.
    Several threads may evaluate points at once.
    """

    _at_once = 1

    def evaluate(self, points: Points, tick: Tick | None = None) -> Evaluated:
        """Return what is found at points, in chunks, until ``tick`` says that it is enough."""
        _seen.points += len(points)
        loop = self._loop if isinstance(points, Moved) and _seen.points > _WORTHWHILE else None
        if loop is None or not isinstance(points, Moved):
            return super().evaluate(points, tick)
        found = np.empty((len(points), self.outputs.size))
        troubles: list[Trouble] = []
        moved, reached = self._x.copy("K"), np.zeros(1, np.int64)
        places = self._places[points.columns - self.inputs.leaves[0].start]
        fixed = self._x.ravel("K"), self.value.reshape(self.outputs.leaves[0].shape), moved, moved.ravel("K"), reached
        done = 0
        while done < len(points):
            start, chunk = time.perf_counter(), slice(done, done + self._at_once)
            reached[0] = 0
            with contextlib.suppress(Exception, SystemExit):
                loop(self.function, places[chunk], points.target[chunk], found[chunk], *fixed)
            stop = done + int(reached[0])
            if stop < min(chunk.stop, len(points)):
                again = super().evaluate(points.at(slice(stop, stop + 1)))
                found[stop] = again.differences[0]
                troubles += [Trouble(stop, kind, text) for _, kind, text in again.troubles]
                stop += 1
            self._at_once = max(1, int(_GLANCE / (time.perf_counter() - start) * (stop - done)))
            done, before = stop, done
            if tick is not None and not tick(done - before):
                break
        return Evaluated(without(troubles, found[:done]), troubles, done, done)

    @functools.cached_property
    def _x(self) -> NDArray[Any]:
        """The point as the function gets it."""
        x: NDArray[Any] = self.x0[self.inputs.leaves[0].position]
        return x

    @functools.cached_property
    def _places(self) -> NDArray[np.int64]:
        """Where in memory each element of x lies, in C order of the elements."""
        places = np.empty_like(self._x, np.int64)
        places.ravel("K")[:] = np.arange(places.size)
        return places.ravel()

    @functools.cached_property
    def _loop(self) -> Any:
        """The compiled loop for such a function, None where its type does not fit."""
        import numba as annotated

        numba: Any = annotated
        function: Any = self.function  # annotations know of no dispatcher's overloads
        x, value = self._x, self.value.reshape(self.outputs.leaves[0].shape)
        own = numba.typeof(x)
        takes = next((given for given in (own, own.copy(layout="A")) if (given,) in function.overloads), None)
        if takes is None:
            return None
        gives = function.overloads[takes,].signature.return_type
        if getattr(gives, "dtype", gives) != numba.from_dtype(self.outputs.leaves[0].dtype):
            return None
        line, whole = x.ravel("K"), np.zeros(1, np.int64)
        arrays = whole, np.zeros(1), np.zeros((1, 1)), line, value, x, line, whole
        return _loop_for(numba.types.FunctionType(gives(takes)), *(numba.typeof(array) for array in arrays))


def swept(change: Change) -> Change:
    """Return a change that sweeps points where its function is compiled and takes and gives one real array.

    Else the change itself, also where it evaluates stacks of points. A ``cfunc`` is not swept, since it cannot raise.
    """
    sides = change.inputs, change.outputs
    is_array_to_array = change.inputs.leaves[0].box is np.ndarray and all(
        side.spec.is_leaf() and len(side.leaves) == 1 and side.leaves[0].dtype.kind == "f" for side in sides
    )
    if type(change) is not Change or not hasattr(change.function, "py_func") or not is_array_to_array:
        return change
    from numba.core.registry import CPUDispatcher

    if not isinstance(change.function, CPUDispatcher):
        return change
    return SweptChange(change.function, change.x0, *sides, change.value)


@functools.cache
def _loop_for(*signature: Any) -> Any:
    """Return the loop compiled for arguments of numba's types."""
    return compiled(sweep, signature, _OPTIONS).compile(signature)


def sweep(
    apply: Any, places: Any, target: Any, out: Any, x: Any, value: Any, moved: Any, line: Any, reached: Any
) -> None:
    """Write f - f(x) for x with one element moved, for several one after the other; this is what is compiled.

    Parameters
    ----------
    apply : callable
        It may write into its argument, and may return it.
    places : ndarray of int, shape (c,)
        Where in memory the elements lie that are moved.
    target : ndarray, shape (c,)
        Where they come to lie.
    out : ndarray, shape (c, m)
        Receives the differences.
    x : ndarray, shape (n,)
        The point, in the order of memory.
    value : ndarray, shape of apply's output
        f(x).
    moved, line : ndarray
        The argument of apply, and the same memory in one line.
    reached : ndarray, shape (1,)
        Tells how many points are done when apply raises or returns another shape.
    """
    first = value.ravel()
    for p in range(places.shape[0]):
        reached[0] = p
        for i in range(x.shape[0]):  # many times faster than a copy of whole arrays, which Numba looks at for overlaps
            line[i] = x[i]
        line[places[p]] = target[p]
        y = np.asarray(apply(moved))
        if y.shape != value.shape:
            return
        for k, v in enumerate(y.flat):
            out[p, k] = v - first[k]
    reached[0] = places.shape[0]
