"""Tensors of torch and of packages made like it as NumPy arrays and back, sparse ones by their pattern."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import optree
from numpy.typing import NDArray

from fdcheck.results import DerivativeMismatch, InvalidInput

Array = NDArray[Any]


@dataclass(frozen=True)
class Framework:
    """What differs between packages that are made like torch.

    Parameters
    ----------
    module : module
        The package; ``autograd.grad``, ``from_numpy``, ``sparse_coo_tensor`` and the dtypes are taken from it.
    error : type
        What a failed check raises.
    jvp : callable
        ``jvp(f, primals, tangents)`` by forward differentiation: the tangents of f's outputs, None for zero.
    vmap : callable
        The package's vmap, as it works around ``jvp``.
    batched_grad : callable
        ``batched_grad(outputs, inputs, grad_outputs)`` where grad_outputs have one more leading axis.
    strided : callable
        ``strided(tensor, masked)`` makes a sparse tensor dense, by an operation that can be differentiated; ``masked``
        says whether the gradient that goes back has the pattern of the tensor, where the package has a choice.
    in_float32 : callable
        A context in which bfloat16 is computed in float32, as far as the package can do that.
    """

    module: Any
    error: type[DerivativeMismatch]
    jvp: Callable[[Callable[..., Any], Sequence[Any], Sequence[Any]], Sequence[Any]]
    vmap: Callable[..., Any]
    batched_grad: Callable[[Sequence[Any], Sequence[Any], Sequence[Any]], Sequence[Any]]
    strided: Callable[[Any, bool], Any]
    in_float32: Callable[[], contextlib.AbstractContextManager[Any]]

    @cached_property
    def undefined(self) -> Callable[[Any], Any]:
        """The identity, with a gradient that is None whatever it is given."""

        class Undefined(self.module.autograd.Function):  # type: ignore[misc, name-defined]
            @staticmethod
            def forward(ctx: Any, tensor: Any) -> Any:
                ctx.set_materialize_grads(False)
                return tensor.clone()

            @staticmethod
            def backward(ctx: Any, gradient: Any) -> None:
                return None

        apply: Callable[[Any], Any] = Undefined.apply
        return apply

    def is_tensor(self, value: Any) -> bool:
        """Return whether a value is a tensor of the package."""
        return isinstance(value, self.module.Tensor)

    def is_differentiable(self, value: Any) -> bool:
        """Return whether a value is a tensor of floating or complex numbers."""
        return self.is_tensor(value) and (value.is_floating_point() or value.is_complex())

    def is_moved(self, value: Any) -> bool:
        """Return whether a value is a tensor that requires a gradient."""
        return self.is_differentiable(value) and bool(value.requires_grad)

    def holds_moved(self, tree: Any) -> bool:
        """Return whether a value is, or holds in lists, tuples and dicts, a tensor that requires a gradient."""
        return any(self.is_moved(leaf) for leaf in optree.tree_leaves(tree, none_is_leaf=True))

    def is_sparse(self, tensor: Any) -> bool:
        """Return whether a tensor has another layout than strides."""
        return bool(tensor.layout != self.module.strided)

    def dense(self, tensor: Any, masked: bool = True) -> Any:
        """Return a tensor with strides, by an operation that can be differentiated."""
        return self.strided(tensor, masked) if self.is_sparse(tensor) else tensor

    def described(self, value: Any) -> str:
        """Return what a value is in a few words, for messages."""
        if not self.is_tensor(value):
            return type(value).__name__
        return f"{value.dtype} tensor{'' if value.requires_grad else ' without requires_grad'}"

    def array(self, tensor: Any) -> Array:
        """Return a tensor as an array; bfloat16, which NumPy does not have, as float32."""
        plain = self.dense(tensor.detach())
        if plain.dtype == self.module.bfloat16:
            plain = plain.to(self.module.float32)
        if plain.is_complex():
            plain = plain.resolve_conj()
        plain = plain.resolve_neg().cpu()
        try:
            result: Array = plain.numpy()
        except RuntimeError:  # torch's zeros without memory, in second derivatives
            result = np.zeros(tuple(plain.shape), self.module.ones(1, dtype=plain.dtype).numpy().dtype)
        return result

    def tensor(self, array: Any, like: Any) -> Any:
        """Return an array as a tensor of the dtype and device of another; it shares memory where that can be."""
        array = np.asarray(array)
        if any(stride < 0 for stride in array.strides):  # tensors have none
            array = array.copy()
        made = self.module.from_numpy(array)
        return made.to(device=like.device, dtype=like.dtype)


@dataclass(frozen=True)
class Slot:
    """One input that requires a gradient.

    Parameters
    ----------
    position : int
        Place among all leaves of the inputs.
    tensor : Tensor
        What the user passed; never changed.
    pattern : tuple of Tensor or None
        Indices of the elements that are looked at in a sparse tensor, one tensor for each sparse axis.
    framework : Framework
        Whose tensor it is.
    """

    position: int
    tensor: Any
    pattern: tuple[Any, ...] | None
    framework: Framework

    def array(self) -> Array:
        """Return the numbers to be moved: all of a dense tensor, those of the pattern of a sparse one."""
        dense = self.framework.array(self.tensor)
        if self.pattern is None:
            return dense.copy("K")
        return dense[tuple(self.framework.array(index) for index in self.pattern)]

    def leaf(self, values: Any, like: Any = None) -> Any:
        """Return a tensor as the user's, with other numbers."""
        values = self.framework.tensor(values, self.tensor if like is None else like)
        if self.pattern is None:
            return values
        package = self.framework.module
        if not _is_compressed(self.framework, self.tensor):
            made = package.sparse_coo_tensor(package.stack(self.pattern), values, tuple(self.tensor.shape))
            return made.coalesce()
        rows, columns = self.pattern  # sorted by rows
        counts = np.bincount(self.framework.array(rows), minlength=int(self.tensor.shape[0]))
        starts = package.from_numpy(np.concatenate([[0], np.cumsum(counts)]).astype(np.int64))
        return package.sparse_csr_tensor(starts, columns, values, tuple(self.tensor.shape))

    def part(self, gradient: Any) -> Any:
        """Return the elements of a gradient that belong to the numbers moved."""
        dense = self.framework.dense(gradient)
        return dense if self.pattern is None else dense[self.pattern]


def _is_compressed(framework: Framework, tensor: Any) -> bool:
    return bool(tensor.layout == framework.module.sparse_csr)


def slots_of(framework: Framework, leaves: Sequence[Any], masked: bool) -> list[Slot]:
    """Return the inputs that require a gradient.

    Parameters
    ----------
    framework : Framework
        Whose tensors they are.
    leaves : sequence
        All inputs, those in lists, tuples and dicts one by one.
    masked : bool
        Whether only the specified elements of sparse tensors are looked at.

    Raises
    ------
    InvalidInput
        If there is none, or none that has an element.
    """
    found = [
        Slot(k, value, _pattern(framework, value, masked), framework)
        for k, value in enumerate(leaves)
        if framework.is_moved(value)
    ]
    if not found:
        raise InvalidInput(
            "inputs: expected at least one floating or complex tensor with requires_grad=True, got "
            + (", ".join(framework.described(value) for value in leaves) or "none")
        )
    return found


def _pattern(framework: Framework, tensor: Any, masked: bool) -> tuple[Any, ...] | None:
    """Return the indices of the elements of a sparse tensor that are looked at, by rows."""
    if not framework.is_sparse(tensor):
        return None
    package, plain = framework.module, tensor.detach()
    compressed = _is_compressed(framework, tensor)
    axes = 2 if compressed else int(tensor.sparse_dim())
    if not compressed and tensor.layout != package.sparse_coo:
        raise InvalidInput(f"inputs: expected sparse tensors in COO or CSR form, got layout {tensor.layout}")
    if compressed and tensor.ndim != 2:
        raise InvalidInput(f"inputs: expected CSR tensors of two axes, got shape {tuple(tensor.shape)}")
    if not masked:
        shape = tuple(int(length) for length in tensor.shape[:axes])
        return tuple(package.from_numpy(index.ravel().copy()) for index in np.indices(shape))
    if compressed:
        starts = framework.array(plain.crow_indices())
        rows = np.repeat(np.arange(len(starts) - 1), np.diff(starts))
        return package.from_numpy(rows.astype(np.int64)), plain.col_indices().to(package.int64)
    return tuple(plain.coalesce().indices())
