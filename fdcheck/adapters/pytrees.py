"""Functions of jax pytrees as functions of NumPy structures, with derivatives in fdcheck's conventions."""

from __future__ import annotations

import collections
import keyword
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fdcheck.adapters.points import require_usable
from fdcheck.problem import trees
from fdcheck.results import InvalidInput

_module: Any = jax
_FLOAT0 = _module.dtypes.float0


class Form:
    """How a pytree maps to a structure of NumPy arrays that fdcheck knows, with the paths that jax gives its leaves."""

    def __init__(self, name: str, tree: Any) -> None:
        self.name = name
        found, self.definition = _module.tree_util.tree_flatten_with_path(tree)
        self.leaves = [leaf if is_opaque(leaf) else jnp.asarray(leaf) for _, leaf in found]
        self.moves = [not is_opaque(leaf) and bool(jnp.issubdtype(leaf.dtype, jnp.inexact)) for leaf in self.leaves]
        self._spec = trees.flatten(_nested([path for path, _ in found], range(len(found))))[1]

    def structure(self, leaves: Sequence[Any]) -> Any:
        """Return leaves as fdcheck sees them; None where there is no derivative."""
        if len(leaves) != len(self.leaves):
            raise ValueError(f"expected {len(self.leaves)} leaves like {self.definition}, got {len(leaves)}")
        pairs = zip(leaves, self.moves, strict=True)
        arrays = [as_array(leaf) if moves and leaf is not None else None for leaf, moves in pairs]
        return {self.name: self._spec.unflatten(arrays)}

    def flat(self, structure: Any) -> list[Any]:
        """Return the leaves of what fdcheck gives."""
        return trees.flatten(structure[self.name])[0]

    def like(self, structure: Any, wide: bool = False) -> list[Any]:
        """Return leaves as jax arrays of the dtypes of this form; those that do not move as they are.

        ``wide`` makes float32 of bfloat16, which is too coarse for differences.
        """
        return [
            jnp.asarray(value, jnp.float32 if wide and leaf.dtype == jnp.bfloat16 else leaf.dtype) if moves else leaf
            for value, leaf, moves in zip(self.flat(structure), self.leaves, self.moves, strict=True)
        ]

    def tangents(self, structure: Any) -> list[Any]:
        """Return leaves of a tangent or cotangent as jax wants them: float0 where nothing moves."""
        return [
            jnp.asarray(value, leaf.dtype) if moves else np.zeros(np.shape(leaf), _FLOAT0)
            for value, leaf, moves in zip(self.flat(structure), self.leaves, self.moves, strict=True)
        ]

    def tree(self, leaves: Sequence[Any]) -> Any:
        """Return leaves as a pytree of the user's."""
        return _module.tree_util.tree_unflatten(self.definition, leaves)

    def moving(self, leaves: Sequence[Any]) -> list[Any]:
        """Return those of all leaves that move."""
        return [leaf for leaf, moves in zip(leaves, self.moves, strict=True) if moves]

    def filled(self, leaves: Sequence[Any]) -> list[Any]:
        """Return all leaves of a tangent or cotangent from those that move."""
        rest = iter(leaves)
        return [
            next(rest) if moves else np.zeros(np.shape(leaf), _FLOAT0)
            for leaf, moves in zip(self.leaves, self.moves, strict=True)
        ]

    def spread(self, leaves: Sequence[Any]) -> list[Any]:
        """Return leaves that move in their places, None elsewhere."""
        rest = iter(leaves)
        return [next(rest) if moves else None for moves in self.moves]


def _nested(paths: Sequence[tuple[Any, ...]], values: Sequence[Any]) -> Any:
    """Return values nested so that fdcheck's paths to them read as jax's do."""
    if len(paths) == 1 and not paths[0]:
        return values[0]
    groups: dict[Any, list[int]] = {}
    for k, path in enumerate(paths):
        groups.setdefault(path[0], []).append(k)
    children = collections.OrderedDict(
        (_key(entry), _nested([paths[k][1:] for k in own], [values[k] for k in own])) for entry, own in groups.items()
    )
    if all(isinstance(entry, _module.tree_util.GetAttrKey) and _is_field(entry.name) for entry in groups):
        return collections.namedtuple("Node", children)(**children)
    return children


def _key(entry: Any) -> Any:
    return next((getattr(entry, word) for word in ("idx", "key", "name") if hasattr(entry, word)), str(entry))


def _is_field(name: str) -> bool:
    return name.isidentifier() and not name.startswith("_") and not keyword.iskeyword(name)


class JaxProblem:
    """A function of pytrees as apply, jvp and vjp on structures of arrays.

    Parameters
    ----------
    f : callable
        The user's.
    args : tuple
        Where.
    f_jvp, f_vjp : callable, optional
        Derivatives as jax.jvp and jax.vjp return them.
    """

    def __init__(
        self,
        f: Callable[..., Any],
        args: tuple[Any, ...],
        f_jvp: Callable[..., Any] | None = None,
        f_vjp: Callable[..., Any] | None = None,
    ) -> None:
        self.f, self.f_jvp, self.f_vjp = f, f_jvp, f_vjp
        self.into, self.count = Form("args", list(args)), len(args)
        if not any(self.into.moves):
            raise InvalidInput("args: expected at least one floating or complex leaf, got none")
        self.x0 = self.into.structure(self.into.leaves)
        require_usable("args", self.x0)
        self.out = Form("out", f(*self.into.tree(self.into.leaves)))
        if not any(self.out.moves):
            kinds = ", ".join(str(getattr(leaf, "dtype", type(leaf).__name__)) for leaf in self.out.leaves)
            raise InvalidInput(f"f: expected a floating or complex leaf in its result, got {kinds or 'none'}")
        self.primals: dict[str, Any] = {}
        self._pullback: tuple[list[bytes], Any] | None = None

    @property
    def bfloat16_eps(self) -> float:
        """Eps of bfloat16 if a leaf is, else 0: NumPy has the other dtypes, and fdcheck their tolerances."""
        leaves = (*self.into.leaves, *self.out.leaves)
        return 2.0**-7 if any(getattr(leaf, "dtype", None) == jnp.bfloat16 for leaf in leaves) else 0.0

    def apply(self, x: Any) -> Any:
        """Return f at x, in float32 where the arguments are bfloat16."""
        return self._result(self.f(*self.into.tree(self.into.like(x, wide=True))))

    def jvp(self, x: Any, tangent: Any) -> Any:
        """Return the change of f at x along a tangent."""
        primals = tuple(self.into.tree(self.into.like(x)))
        tangents = tuple(self.into.tree(self.into.tangents(tangent)))
        value, change = self.f_jvp(primals, tangents)  # type: ignore[misc]
        self.primals.setdefault("jvp", value)
        return self._result(change)

    def vjp(self, x: Any, cotangent: Any) -> Any:
        """Return the gradient at x; jax's is the conjugate of fdcheck's, for the conjugate cotangent."""
        key = [np.asarray(leaf).tobytes() for leaf in self.into.moving(self.into.flat(x))]
        if self._pullback is None or self._pullback[0] != key:
            value, pullback = self.f_vjp(*self.into.tree(self.into.like(x)))  # type: ignore[misc]
            self.primals.setdefault("vjp", value)
            self._pullback = key, compiled(pullback)
        return self._gradient(self._pullback[1], [conjugate(leaf) for leaf in self.out.tangents(cotangent)])

    def _gradient(self, pullback: Any, cotangents: list[Any]) -> Any:
        """Return what a pullback gives for each leaf of the arguments; None stands for zero."""
        result, count = pullback(self.out.tree(cotangents)), self.count
        if not isinstance(result, tuple | list) or len(result) != count:
            got = f"{len(result)} of them" if isinstance(result, tuple | list) else type(result).__name__
            raise TypeError(f"f_vjp's function: expected a tuple of gradients, one for each of {count} args, got {got}")
        return self.into.structure([None if g is None or is_opaque(g) else conjugate(g) for g in self._spread(result)])

    def _spread(self, gradients: Any) -> list[Any]:
        """Return the gradients of all leaves, None where None stands in the place of a leaf or of a whole argument."""
        found: list[Any] = []
        for argument, gradient in zip(self.into.tree(self.into.leaves), gradients, strict=True):
            mine = _module.tree_util.tree_leaves(argument)
            if gradient is None:
                found += [None] * len(mine)
                continue
            theirs = _module.tree_util.tree_leaves(gradient, is_leaf=lambda node: node is None)
            if len(theirs) != len(mine):  # None is no leaf where the argument has one too
                theirs = [leaf for leaf in theirs if leaf is not None]
            found += theirs
        return found

    def _result(self, value: Any) -> Any:
        """Return f's value, or a change of it, as fdcheck sees it."""
        leaves = _module.tree_util.tree_leaves(value)
        return self.out.structure([None if is_opaque(leaf) else leaf for leaf in leaves])

    def stacked_jvp(self, tangents: Sequence[Any]) -> list[Any]:
        """Return the changes along several tangents from one call through vmap."""
        primals = tuple(self.into.tree(self.into.leaves))
        rows = [self.into.moving(self.into.tangents(tangent)) for tangent in tangents]

        def along(leaves: Any) -> Any:
            change = self.f_jvp(primals, tuple(self.into.tree(self.into.filled(leaves))))[1]  # type: ignore[misc]
            return self.out.moving(_module.tree_util.tree_leaves(change))

        found = _module.vmap(along)([jnp.stack(column) for column in zip(*rows, strict=True)])
        return [self.out.structure(self.out.spread([a[k] for a in found])) for k in range(len(rows))]

    def stacked_vjp(self, cotangents: Sequence[Any]) -> list[Any]:
        """Return the gradients for several cotangents from one call through vmap."""
        pullback = self.f_vjp(*self.into.tree(self.into.leaves))[1]  # type: ignore[misc]
        rows = [[conjugate(leaf) for leaf in self.out.moving(self.out.tangents(cotangent))] for cotangent in cotangents]

        def back(leaves: Any) -> Any:
            gradients = pullback(self.out.tree(self.out.filled(leaves)))
            return self.into.moving(_module.tree_util.tree_leaves(tuple(gradients)))

        found = _module.vmap(back)([jnp.stack(column) for column in zip(*rows, strict=True)])
        return [self.into.structure(self.into.spread([conjugate(a[k]) for a in found])) for k in range(len(rows))]


def compiled(f: Callable[..., Any]) -> Callable[..., Any]:
    """Return f under jax.jit, and as it is from the first call on that cannot be traced.

    A derivative is asked for at one point many times, and jax traces it each time otherwise: milliseconds a call.
    """
    fast, can_trace = _module.jit(f), True

    def call(*arguments: Any) -> Any:
        nonlocal can_trace
        if can_trace:
            try:
                return fast(*arguments)
            except Exception:  # values that steer Python, or float0; what is wrong with f itself f says again
                can_trace = False
        return f(*arguments)

    return call


def is_opaque(leaf: Any) -> bool:
    """Return whether a leaf is no number: of dtype float0, a key, or no array at all."""
    dtype = getattr(leaf, "dtype", None)
    if dtype is None:
        return not isinstance(leaf, bool | int | float | complex)
    return bool(dtype == _FLOAT0) or not (jnp.issubdtype(dtype, jnp.number) or jnp.issubdtype(dtype, jnp.bool_))


def as_array(leaf: Any) -> Any:
    """Return a leaf as an array; bfloat16, which NumPy does not have, as float32."""
    if is_opaque(leaf):
        return leaf
    array = np.asarray(leaf)
    return array.astype(np.float32) if array.dtype == jnp.bfloat16 else array


def conjugate(leaf: Any) -> Any:
    """Return a leaf's conjugate, anything that has none as it is."""
    return leaf if is_opaque(leaf) else jnp.conj(leaf)
