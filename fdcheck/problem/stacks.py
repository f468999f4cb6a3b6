"""Stacks of points: apply takes many on a leading axis in one call, as many as memory allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.problem import trees
from fdcheck.problem.change import RAISED, Along, Change, Evaluated, Points, Tick, Trouble, without
from fdcheck.problem.trees import Layout, shapes_text
from fdcheck.problem.wording import describe, described

_ROUNDING = 1e-3
"""Part of the largest value by which one in a stack may differ from the one alone: sums may be added up otherwise."""

_TERMS = 64.0
"""Roundoffs that a sum of many terms leaves, also where they cancel; terms are taken to be as large as the inputs."""

_COUPLED, _UNSTEADY = 0.2, 10.0
"""Part of what two points differ by that the one may take over from the other: with a mean over the stack it is half.
And how many times what two calls of the same differ by it has to be, or the function is not deterministic."""

_TELLING = 30.0
"""Roundings by which values have to move before it shows that they depend on another point."""


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
        calls = stop = 0
        for start in range(0, len(points), self._most):
            part = points.at(slice(start, start + self._most))
            try:
                calls += self._evaluate_stack(part, start, found[start : start + len(part)], troubles)
            except _Misfit as misfits:
                why = f"execution: batched: {misfits}; nothing was evaluated after it."
                return Evaluated(without(troubles, found[:stop]), troubles, stop, calls + 1, why)
            stop = start + len(part)
            if tick is not None and not tick(len(part)):
                break
        return Evaluated(without(troubles, found[:stop]), troubles, stop, calls)

    def _evaluate_stack(self, points: Points, start: int, out: NDArray[np.float64], troubles: list[Trouble]) -> int:
        """Write what is found at the points of one stack, and return in how many calls.

        A stack in which apply raises is halved until the points are found at which it does.

        Raises
        ------
        _Misfit
            If what apply returns is not a stack of results.
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
        self._subtract(self._arrays_of(result, len(points)), out)
        return 1

    def _arrays_of(self, result: Any, points: int) -> list[NDArray[Any]]:
        """Return the stacked leaves of a result."""
        wanted = f"for a stack of {points} points, where {shapes_text(self.outputs, (points,))} was expected"
        leaves, spec = trees.flatten(result)
        if spec != self.outputs.spec:
            raise _Misfit(f"apply returned {describe(spec, leaves)} {wanted}")
        arrays = [np.asarray(leaves[leaf.position]) for leaf in self.outputs.leaves]
        for leaf, array in zip(self.outputs.leaves, arrays, strict=True):
            if array.shape != (points, *leaf.shape) or array.dtype != leaf.dtype:
                raise _Misfit(f"apply returned {leaf.path} of shape {array.shape} and dtype {array.dtype} {wanted}")
        return arrays


class _Misfit(Exception):
    """How a result is no stack of results."""


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
        return f"apply raised {found.troubles[0].text} for a stack of 2 points"
    off = np.where(np.isfinite(change.value), found.differences, 0.0)
    rounding = _TERMS * _coarsest_eps(change) * _largest(change.x)
    if not np.abs(off).max() <= _ROUNDING * _largest(change.value) + rounding:
        return (
            f"a stack of x0 and x0 gives values that differ by {np.abs(off).max():.2g} from those that x0 alone gives"
        )
    change.value = change.value + off[0].astype(change.value.dtype)
    return ""


def coupling(
    change: StackedChange, evaluate: Callable[[Points], Evaluated], points: Points, differences: NDArray[np.float64]
) -> str | None:
    """Return how one point of a stack changes what another gives, empty if none does, None where that cannot be told.

    Parameters
    ----------
    change : StackedChange
        apply beside x0.
    evaluate : callable
        Evaluates points with it. Five are asked for, in four stacks, unless values hardly move from point to point.
    points : Moved or Along
        Two points at least.
    differences : ndarray, shape (k, m)
        What was found there.
    """
    rounding = _TERMS * _coarsest_eps(change) * _largest(change.value)
    known = np.where(np.isfinite(differences), differences, 0.0)
    one = int(np.argmax(np.abs(known).max(axis=1)))
    other = int(np.argmax(np.abs(known - known[one]).max(axis=1)))
    if other == one:  # all are the same, which may come of just what is looked for
        other = 0 if one else len(known) - 1
    if _largest(known[one]) <= _TELLING * rounding:
        return None
    found = [evaluate(points.at(np.array(which))) for which in ([one], [one], [other], [one, other])]
    if found[-1].troubles or not all(len(part.differences) for part in found):
        return ""  # that tells of itself
    alone, again, far, pair = (part.differences for part in found)
    with np.errstate(invalid="ignore"):
        apart = np.abs(far[0] - alone[0])
        taken = np.abs(pair - np.concatenate([alone, far])) - _COUPLED * apart
    if _largest(apart) <= _TELLING * rounding:
        return None
    if _largest(np.maximum(taken, 0.0)) <= rounding + _UNSTEADY * _largest(again - alone):
        return ""
    return f"a point gives values that differ by {_largest(taken):.2g} or more when another point is in the stack"


def _coarsest_eps(change: Change) -> float:
    return max(float(np.finfo(leaf.dtype).eps) for leaf in change.outputs.leaves)


def _largest(values: NDArray[Any]) -> float:
    """Return the largest magnitude among finite values, 0 where there is none."""
    return float(np.max(np.abs(values[np.isfinite(values)]), initial=0.0))
