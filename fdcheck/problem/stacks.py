"""Stacks of points: apply takes many on a leading axis in one call, as many as memory allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.problem import trees
from fdcheck.problem.change import CHANGED, RAISED, Along, Change, Evaluated, Points, Tick, Trouble, without
from fdcheck.problem.trees import Layout, shapes_text
from fdcheck.problem.wording import describe, described

_ROUNDING = 1e-3
"""Part of the largest value by which one in a stack may differ from the one alone: sums may be added up otherwise."""

_COUPLED, _UNSTEADY = 0.2, 10.0
"""Part of what two points differ by that the one may take over from the other: with a mean over the stack it is half.
And how many times what two calls of the same differ by it has to be, or the function is not deterministic."""


class StackedChange(Change):
    """As :class:`Change`, for a function of stacks.

    Parameters
    ----------
    function, leaves, inputs, outputs, value
        As for :class:`Change`; every floating or complex leaf that the function takes or returns has one axis more.
    max_memory : int
        Bytes of a stack and of its results.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        leaves: list[Any],
        inputs: Layout,
        outputs: Layout,
        value: NDArray[Any],
        max_memory: int = 2**28,
    ) -> None:
        super().__init__(function, leaves, inputs, outputs, value)
        self.options = (max_memory,)
        self._most = max(1, max_memory // self.nbytes)

    def evaluate(self, points: Points, tick: Tick | None = None) -> Evaluated:
        """Return what is found at points, stack by stack, until ``tick`` says that it is enough."""
        found = np.empty((len(points), self.outputs.size))
        troubles: list[Trouble] = []
        calls = 0
        for start in range(0, len(points), self._most):
            stop = min(start + self._most, len(points))
            calls += self._evaluate_stack(points.at(slice(start, stop)), start, found[start:stop], troubles)
            if tick is not None and not tick(stop - start):
                break
        return Evaluated(without(troubles, found[:stop]), troubles, stop, calls)

    def _evaluate_stack(self, points: Points, start: int, out: NDArray[np.float64], troubles: list[Trouble]) -> int:
        """Write what is found at the points of one stack, and return in how many calls.

        A stack in which apply raises is halved until the points are found at which it does.
        """
        try:
            result = self.function(self.rebuilt(points.stacks(self)))
        except (Exception, SystemExit) as error:
            if len(points) == 1:
                troubles.append(Trouble(start, RAISED, described(error)))
                return 1
            half = len(points) // 2
            calls = self._evaluate_stack(points.at(slice(half)), start, out[:half], troubles)
            return 1 + calls + self._evaluate_stack(points.at(slice(half, None)), start + half, out[half:], troubles)
        leaves, spec = trees.flatten(result)
        text = "" if spec == self.outputs.spec else describe(spec, leaves)
        arrays = [] if text else [np.asarray(leaves[leaf.position]) for leaf in self.outputs.leaves]
        for leaf, array in zip(self.outputs.leaves, arrays, strict=False):
            if array.shape != (len(points), *leaf.shape) or array.dtype != leaf.dtype:
                text = text or f"{leaf.path} of shape {array.shape} and dtype {array.dtype}"
        if text:
            expected = shapes_text(self.outputs, (len(points),))
            whole = f"{text} for a stack of {len(points)} points, where {expected} was expected"
            troubles.extend(Trouble(start + k, CHANGED, whole) for k in range(len(points)))
        else:
            self._subtract(arrays, out)
        return 1


def misfit(change: StackedChange, evaluate: Callable[[Points], Evaluated]) -> str:
    """Return what speaks against a function taking stacks at x0, empty if nothing does; f(x0) becomes that of a stack.

    Parameters
    ----------
    change : StackedChange
        With f(x0) of x0 alone.
    evaluate : callable
        Evaluates points with it. Two are asked for, in one stack.
    """
    found = evaluate(Along(np.zeros(change.inputs.size), np.zeros(2)))
    if len(found.differences) < 2:
        return found.broken_off or "the time was up before a stack was tried"
    if found.troubles:
        kind, text = found.troubles[0][1:]
        return f"apply {kind} {text}" if kind == CHANGED else f"apply raised {text} for a stack of 2 points"
    size = np.max(np.abs(change.value), initial=0.0), np.finfo(change.value.dtype).eps * np.max(np.abs(change.x))
    off = np.abs(found.differences).max()
    if not (off <= _ROUNDING * size[0] + 64 * size[1] or not np.isfinite(change.value).all()):
        return f"a stack of x0 and x0 gives values that differ by {off:.2g} from those that x0 alone gives"
    with np.errstate(invalid="ignore"):
        change.value = change.value + found.differences[0].astype(change.value.dtype)
    return ""


def coupling(change: StackedChange, evaluate: Callable[[Points], Evaluated], points: Points) -> str:
    """Return how one point of a stack changes what another gives, empty if none does.

    Parameters
    ----------
    change : StackedChange
        apply beside x0.
    evaluate : callable
        Evaluates points with it. Four are asked for, in three stacks.
    points : Moved or Along
        Two points at least.
    """
    pair, alone, again = (evaluate(points.at(np.array(which))) for which in ([0, -1], [0], [0]))
    if len(pair.differences) < 2 or not len(again.differences) or pair.troubles or alone.troubles or again.troubles:
        return ""  # that tells of itself
    apart = np.abs(pair.differences).max(axis=0)
    off, unsteady = np.abs(pair.differences[0] - alone.differences[0]), np.abs(again.differences - alone.differences)
    rounding = 64 * np.finfo(change.value.dtype).eps * np.max(np.abs(change.value), initial=0.0)
    with np.errstate(invalid="ignore"):
        worst = float(np.fmax.reduce(off - _COUPLED * apart, initial=0.0))
    if worst <= rounding + _UNSTEADY * float(np.fmax.reduce(unsteady.ravel(), initial=0.0)):
        return ""
    return f"a point gives values that differ by {off.max():.2g} when another point is in the stack"
