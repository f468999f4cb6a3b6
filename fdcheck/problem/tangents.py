"""Inputs that move along given directions only: apply and its derivatives as functions of how far along each."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.problem import trees
from fdcheck.problem.callables import Breach
from fdcheck.problem.evaluate import limits_of
from fdcheck.problem.paths import matching, select
from fdcheck.problem.returned import checked_array
from fdcheck.problem.trees import Layout, Leaf
from fdcheck.problem.wording import described
from fdcheck.results import InvalidInput, Status

_Vector = NDArray[np.float64]

Directions = Any
"""A stack of directions or a callable that gives one, for a single array; else a dict of them by path."""


@dataclass(frozen=True)
class Along:
    """What stands in the place of an input that moves along given directions.

    Parameters
    ----------
    direction : ndarray, shape (k,)
        How far along each of them. x0 does not lie at 0, where numbers are dense, but where one ulp moves the input by
        about one of its own.
    """

    direction: NDArray[Any]


@dataclass(frozen=True)
class _Stack:
    """The directions of one leaf.

    Parameters
    ----------
    leaf : Leaf
        The leaf in the user's structure.
    value : ndarray
        Its value at x0.
    rows : ndarray, shape (k, *leaf.shape)
        The directions.
    origin : ndarray, shape (k,)
        How far along them x0 lies.
    """

    leaf: Leaf
    value: NDArray[Any]
    rows: NDArray[Any]
    origin: NDArray[Any]

    def moved(self, along: NDArray[Any]) -> Any:
        """Return the leaf at a place along the directions."""
        step = (along - self.origin).astype(np.result_type(along, np.float64))
        if not step.any():
            return self.leaf.boxed(self.value.copy("K"))
        wide = self.value + np.tensordot(step, self.rows, 1)
        return self.leaf.boxed(np.asarray(wide).astype(self.leaf.dtype))

    def tangent(self, along: NDArray[Any]) -> Any:
        """Return the leaf's tangent that belongs to one of how far to go."""
        return self.leaf.boxed(np.asarray(np.tensordot(along, self.rows, 1)).astype(self.leaf.dtype))

    def products(self, gradient: NDArray[Any]) -> NDArray[Any]:
        """Return Re<gradient, d> for each direction d."""
        rows = self.rows.reshape(len(self.rows), -1)
        real: NDArray[Any] = (rows @ gradient.ravel().conj()).real
        return real.astype(np.empty(0, gradient.dtype).real.dtype if gradient.dtype.kind in "fc" else np.float64)

    def columns(self, block: NDArray[Any]) -> NDArray[Any]:
        """Return J d for each direction d from a block of shape (..., size of the leaf)."""
        product: NDArray[Any] = block @ self.rows.reshape(len(self.rows), -1).T
        return product.astype(np.result_type(block.dtype, np.complex64) if product.dtype.kind == "c" else block.dtype)


class Restricted:
    """apply and its derivatives where some inputs move along given directions only.

    Parameters
    ----------
    apply : callable
        The user's.
    endpoints : dict of str to callable
        The user's derivatives.
    x0 : object
        The point.
    directions : array_like, callable or dict of str to them
        For each leaf a stack of directions of shape ``(k, *leaf.shape)``, or a callable that returns one for the leaf's
        value.

    Raises
    ------
    InvalidInput
        If directions cannot be used.
    """

    def __init__(
        self, apply: Callable[..., Any], endpoints: Mapping[str, Callable[..., Any]], x0: Any, directions: Directions
    ) -> None:
        leaves, self._layout = trees.structure(x0, "x")
        self._stacks = {
            leaf.position: _stack(leaf, np.asarray(leaves[leaf.position]), rows)
            for leaf, rows in _by_leaf(self._layout, directions)
        }
        self._functions = {"apply": apply, **endpoints}
        self.changed: set[str] = set()
        self._outputs: Layout | None = None
        derivatives: dict[str, Callable[..., Any]] = {"jacobian": self._jacobian, "jvp": self._jvp, "vjp": self._vjp}
        self.endpoints = {name: derivatives[name] for name in endpoints}
        parts = [
            Along(self._stacks[k].origin.copy()) if k in self._stacks else x for k, x in enumerate(trees.flatten(x0)[0])
        ]
        self.x0 = self._layout.spec.unflatten(parts)

    def apply(self, x: Any) -> Any:
        """Return apply at a place along the directions."""
        result = self._call("apply", [self.point(x)])
        if self._outputs is None:
            self._outputs = trees.structure(result, "y")[1]
        return result

    def point(self, x: Any) -> Any:
        """Return the user's structure for one in which directions stand."""
        return self._replaced(x, lambda stack, part: stack.moved(part.direction))

    def bounds(self, bounds: Any, input_paths: Sequence[str] | None) -> Any:
        """Return bounds of selected inputs as bounds of how far to go along directions, each a part of the room."""
        if bounds is None:
            return None
        selected = select(trees.structure(self.x0, "x")[1], input_paths, "input_paths").leaves
        path_of = {leaf.position: leaf.path for leaf in selected}
        found = {}
        for leaf, low, high in limits_of(self._layout, bounds):
            if leaf.position in path_of:
                stack = self._stacks.get(leaf.position)
                pair = low.reshape(leaf.real_shape), high.reshape(leaf.real_shape)
                found[path_of[leaf.position]] = pair if stack is None else _room(stack, low, high)
        return found

    def _jvp(self, x: Any, tangent: Any) -> Any:
        moved = self._replaced(tangent, lambda stack, part: stack.tangent(part.direction))
        return self._call("jvp", [self.point(x), moved])

    def _vjp(self, x: Any, cotangent: Any) -> Any:
        gradient = self._call("vjp", [self.point(x)], cotangent)
        return self._reduced(gradient, "vjp", lambda stack, value: stack.products(value), ())

    def _jacobian(self, x: Any) -> Any:
        result = self._call("jacobian", [self.point(x)])
        if hasattr(result, "toarray") or (hasattr(result, "matvec") and hasattr(result, "shape")):
            return self._matrix(result)
        outputs = self._outputs
        parts = None if outputs is None else trees.matched_leaves(result, outputs)
        if outputs is None or parts is None:
            return result  # the check tells of the structure
        for leaf in outputs.leaves:
            if parts[leaf.position] is not None:
                parts[leaf.position] = self._reduced(
                    parts[leaf.position], "jacobian", lambda stack, block: stack.columns(block), leaf.shape
                )
        return outputs.spec.unflatten(parts)

    def _matrix(self, matrix: Any) -> Any:
        """Return a sparse matrix or LinearOperator, outputs by inputs, with directions for its columns."""
        import scipy.sparse  # type: ignore[import-untyped]

        if matrix.shape[-1] != self._layout.size:
            shape = f"(outputs, {self._layout.size})"
            text = f"jacobian returned a {type(matrix).__name__} of shape {matrix.shape}; expected {shape}."
            raise Breach("jacobian", Status.SHAPE, text)
        blocks = [
            self._stacks[leaf.position].rows.reshape(-1, leaf.size).T
            if leaf.position in self._stacks
            else scipy.sparse.eye_array(leaf.size)
            for leaf in self._layout.leaves
        ]
        columns = scipy.sparse.csr_array(scipy.sparse.block_diag(blocks))
        product = matrix @ (columns if hasattr(matrix, "toarray") else columns.toarray())
        return scipy.sparse.csr_array(product).astype(matrix.dtype)

    def _reduced(self, tree: Any, endpoint: str, product: Callable[..., Any], leading: tuple[int, ...]) -> Any:
        """Return a structure like x0 with products in the place of the inputs that move along directions."""
        if tree is None:
            return None
        leaves = trees.matched_leaves(tree, self._layout)
        if leaves is None:
            return tree
        for position, stack in self._stacks.items():
            if leaves[position] is not None:
                shape, dtype = (*leading, *stack.leaf.shape), stack.leaf.dtype
                value = checked_array(endpoint, leaves[position], shape, dtype, stack.leaf.path, "x0", [])
                leaves[position] = Along(product(stack, value.reshape((*leading, -1))))
        return self._layout.spec.unflatten(leaves)

    def _replaced(self, x: Any, value: Callable[[_Stack, Any], Any]) -> Any:
        """Return the user's structure for one in which directions stand."""
        parts = list(self._layout.spec.flatten_up_to(x))
        for position, stack in self._stacks.items():
            parts[position] = value(stack, parts[position])
        return self._layout.spec.unflatten(parts)

    def _call(self, name: str, like_x: Sequence[Any], *others: Any) -> Any:
        """Call with structures like x0, and see whether the inputs that move along directions are left as they are."""
        given = [[(k, _copied(a[k])) for k in self._stacks] for a in map(self._layout.spec.flatten_up_to, like_x)]
        result = self._functions[name](*like_x, *others)
        try:
            now = [self._layout.spec.flatten_up_to(a) for a in like_x]
        except ValueError:  # a part was added or taken away
            self.changed.add(name)
        else:
            pairs = [(before, after[k]) for own, after in zip(given, now, strict=True) for k, before in own]
            if not all(np.array_equal(before, after, equal_nan=True) for before, after in pairs):
                self.changed.add(name)
        if name in self.changed and name != "apply":
            raise Breach(name, Status.MUTATION, f"{name} changed its arguments in place.")
        return result


def _copied(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value


def _by_leaf(layout: Layout, directions: Directions) -> list[tuple[Leaf, Any]]:
    """Return the directions of each leaf that has some."""
    if isinstance(directions, Mapping):
        pairs = [
            (leaf, rows) for path, rows in directions.items() for leaf in matching(layout, str(path), "directions")
        ]
        return list({leaf.position: (leaf, rows) for leaf, rows in pairs}.values())
    if not layout.spec.is_leaf():
        raise InvalidInput(
            f"directions: expected a dict of paths to stacks of directions, since x0 has several parts, got a "
            f"{type(directions).__name__}; there are: {', '.join(leaf.path for leaf in layout.leaves)}"
        )
    return [(leaf, directions) for leaf in layout.leaves]


def _stack(leaf: Leaf, value: NDArray[Any], rows: Any) -> _Stack:
    """Return the directions of a leaf, checked."""
    expected = f"directions: expected a stack of shape (k, {', '.join(map(str, leaf.shape))}) for {leaf.path}"
    if callable(rows):
        try:
            rows = rows(leaf.boxed(value.copy("K")))
        except Exception as error:
            raise InvalidInput(f"directions: the callable for {leaf.path} raised {described(error)}") from error
    try:
        array = np.asarray(rows)
    except ValueError as error:  # ragged lists
        raise InvalidInput(f"{expected}: {error}") from None
    if array.dtype.kind not in ("biufc" if leaf.parts == 2 else "biuf"):
        raise InvalidInput(f"{expected} of numbers like it, got {array.dtype}")
    if array.ndim != len(leaf.shape) + 1 or array.shape[1:] != leaf.shape or not len(array):
        raise InvalidInput(f"{expected}, got shape {array.shape}")
    array = array.astype(np.result_type(array.dtype, leaf.real_dtype, np.float64))
    lengths = np.abs(array).reshape(len(array), -1).max(axis=1, initial=0.0)
    for wrong, what in ((~np.isfinite(lengths), "finite numbers"), (lengths == 0, "directions other than zero")):
        if wrong.any():
            raise InvalidInput(f"directions: expected {what} for {leaf.path}, see direction {int(np.argmax(wrong))}")
    return _Stack(leaf, value, array, _origin(leaf, value, array))


def _origin(leaf: Leaf, value: NDArray[Any], rows: NDArray[Any]) -> NDArray[Any]:
    """Return how far along each direction x0 is taken to lie: the first of its elements would be zero after as much.

    Elements that are zero have no say. Powers of two, so that the way from there is exact.
    """
    x, along = np.abs(trees.real_view(np.asarray(value))).astype(np.float64), _real_rows(leaf, rows)
    typical = float(np.median(x[x > 0])) if (x > 0).any() else 1.0
    with np.errstate(divide="ignore", invalid="ignore"):
        ways = np.where((along != 0) & (x > 0), x / np.abs(along), np.inf).min(axis=1, initial=np.inf)
    ways = np.where(np.isfinite(ways), ways, typical / np.abs(along).max(axis=1))
    info = np.finfo(leaf.real_dtype)
    origin = np.exp2(np.floor(np.log2(np.clip(ways, float(info.tiny) / info.eps, float(info.max) * info.eps))))
    return np.asarray(origin.astype(leaf.real_dtype))


def _real_rows(leaf: Leaf, rows: NDArray[Any]) -> NDArray[np.float64]:
    """Return directions over the real coordinates of a leaf, shape (k, size)."""
    kind = np.result_type(rows.dtype, np.complex64) if leaf.parts == 2 else rows.dtype
    return trees.real_view(np.ascontiguousarray(rows, kind)).reshape(len(rows), -1).astype(np.float64)


def _room(stack: _Stack, low: _Vector, high: _Vector) -> tuple[_Vector, _Vector]:
    """Return how far along each direction the limits allow, whichever of the others move too.

    Raises
    ------
    InvalidInput
        If one cannot move at all.
    """
    x = trees.real_view(np.asarray(stack.value)).astype(np.float64)
    along = _real_rows(stack.leaf, stack.rows)
    with np.errstate(divide="ignore", invalid="ignore"):
        to_high, to_low = (high - x) / along, (low - x) / along
    upward = np.where(along == 0, np.inf, np.maximum(to_high, to_low)).min(axis=1)
    downward = np.where(along == 0, np.inf, np.maximum(-to_high, -to_low)).min(axis=1)
    shares = len(along) * (1 + 1e-6)  # 1e-6: what rounding may add to a move to the very limit
    lower, upper = stack.origin - downward / shares, stack.origin + upward / shares
    stuck = np.flatnonzero(~(lower < upper))
    if stuck.size:
        k, path = int(stuck[0]), stack.leaf.path
        raise InvalidInput(
            f"bounds: direction {k} of {path} has no room on either side, since {path} lies at its limits"
        )
    return lower, upper
