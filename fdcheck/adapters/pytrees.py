"""Functions of jax pytrees as functions of NumPy structures, with derivatives in fdcheck's conventions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from fdcheck.problem import trees
from fdcheck.results import InvalidInput

_module: Any = jax
_FLOAT0 = _module.dtypes.float0


class Form:
    """How a pytree maps to a structure of NumPy arrays that fdcheck knows: nested as it is, or a list of leaves."""

    def __init__(self, name: str, tree: Any) -> None:
        self.name = name
        leaves, self.definition = _module.tree_util.tree_flatten(tree)
        self.leaves = [leaf if is_opaque(leaf) else jnp.asarray(leaf) for leaf in leaves]
        self.moves = [not is_opaque(leaf) and bool(jnp.issubdtype(leaf.dtype, jnp.inexact)) for leaf in self.leaves]
        numbers = list(range(len(self.leaves)))
        nested, _ = trees.flatten(_module.tree_util.tree_unflatten(self.definition, numbers))
        self.is_nested = nested == numbers

    def structure(self, leaves: Sequence[Any]) -> Any:
        """Return leaves as fdcheck sees them; None where there is no derivative."""
        arrays = [None if leaf is None else as_array(leaf) for leaf in leaves]
        tree = _module.tree_util.tree_unflatten(self.definition, arrays) if self.is_nested else arrays
        return {self.name: tree}

    def flat(self, structure: Any) -> list[Any]:
        """Return the leaves of what fdcheck gives."""
        part = structure[self.name]
        return trees.flatten(part)[0] if self.is_nested else list(part)

    def like(self, structure: Any) -> list[Any]:
        """Return leaves as jax arrays of the dtypes of this form; those that do not move as they are."""
        return [
            jnp.asarray(value, leaf.dtype) if moves else leaf
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
        self.into = Form("args", list(args))
        if not any(self.into.moves):
            raise InvalidInput("args: expected at least one floating or complex leaf, got none")
        self.value = f(*self.into.tree(self.into.leaves))
        self.out = Form("out", self.value)
        self.x0 = self.into.structure(self.into.leaves)
        self.primals: dict[str, Any] = {}
        self._pullback: tuple[list[bytes], Any] | None = None

    @property
    def bfloat16_eps(self) -> float:
        """Eps of bfloat16 if a leaf is, else 0: NumPy has the other dtypes, and fdcheck their tolerances."""
        leaves = (*self.into.leaves, *self.out.leaves)
        return 2.0**-7 if any(getattr(leaf, "dtype", None) == jnp.bfloat16 for leaf in leaves) else 0.0

    def apply(self, x: Any) -> Any:
        """Return f at x."""
        return self._result(self.f(*self.into.tree(self.into.like(x))))

    def jvp(self, x: Any, tangent: Any) -> Any:
        """Return the change of f at x along a tangent."""
        primals = tuple(self.into.tree(self.into.like(x)))
        tangents = tuple(self.into.tree(self.into.tangents(tangent)))
        value, change = self.f_jvp(primals, tangents)  # type: ignore[misc]
        self.primals.setdefault("jvp", value)
        return self._result(change)

    def vjp(self, x: Any, cotangent: Any) -> Any:
        """Return the gradient at x; jax's is the conjugate of fdcheck's, for the conjugate cotangent."""
        key = [np.asarray(leaf).tobytes() for leaf in self.into.flat(x)]
        if self._pullback is None or self._pullback[0] != key:
            value, pullback = self.f_vjp(*self.into.tree(self.into.like(x)))  # type: ignore[misc]
            self.primals.setdefault("vjp", value)
            self._pullback = key, compiled(pullback)
        return self._gradient(self._pullback[1], [conjugate(leaf) for leaf in self.out.tangents(cotangent)])

    def _gradient(self, pullback: Any, cotangents: list[Any]) -> Any:
        gradients = _module.tree_util.tree_leaves(tuple(pullback(self.out.tree(cotangents))))
        return self.into.structure([None if is_opaque(g) else conjugate(g) for g in gradients])

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
