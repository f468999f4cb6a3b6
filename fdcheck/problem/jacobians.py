"""What a jacobian returned as one real matrix: dense, sparse, or known by its products alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.problem import trees
from fdcheck.problem.callables import Breach, Problem
from fdcheck.problem.returned import checked_array
from fdcheck.problem.trees import Layout, Leaf
from fdcheck.problem.wording import describe, described
from fdcheck.results import InvalidInput, Status

_CHUNK = 2**22
"""Elements of a block of products with one-hot vectors: 32 MB."""


@dataclass(frozen=True)
class Matrix:
    """A Jacobian between the selected real coordinates, as it was returned.

    Parameters
    ----------
    values : ndarray, shape (m, n), SciPy sparse array or LinearOperator
        Of an operator, between all differentiable coordinates.
    problem : Problem
        apply and x0.
    notes : list of str
        Receives remarks on harmless oddities.
    """

    values: Any
    problem: Problem
    notes: list[str]

    @property
    def is_sparse(self) -> bool:
        """Whether it holds some entries only; the others are zero."""
        return hasattr(self.values, "tocsc")

    @property
    def is_operator(self) -> bool:
        """Whether only its products are known."""
        return not self.is_sparse and not isinstance(self.values, np.ndarray)

    def columns(self, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return some columns, shape (m, k)."""
        if self.is_operator:
            return self._products(chosen)
        part = self.values[:, chosen]
        dense: NDArray[np.float64] = part.toarray() if self.is_sparse else part
        return dense

    def off_pattern(self, chosen: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return which entries of some columns a sparse matrix does not hold, shape (m, k)."""
        off = np.full((self.problem.outputs.size, len(chosen)), self.is_sparse)
        if self.is_sparse:
            held = self.values[:, chosen].tocoo()
            off[held.coords[0] if hasattr(held, "coords") else held.row, held.col] = False
        return off

    def __matmul__(self, direction: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the product with a vector of the selected coordinates; what it does not move does not count."""
        if self.is_operator:
            return self._product(direction[:, None])[:, 0]
        product: NDArray[np.float64] = self.values @ direction
        if not np.isfinite(product).all():  # a NaN times the zero of a coordinate at rest
            moved = np.flatnonzero(direction)
            product = self.values[:, moved] @ direction[moved]
        return product

    def sizes(self, direction: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Return the root of the sum of squares of the terms of each product, shape (m,); None of an operator."""
        if self.is_operator:
            return None
        if self.is_sparse:
            squares = self.values.multiply(self.values) @ direction**2
        else:
            squares = np.einsum("ij,ij,j->i", self.values, self.values, direction**2)
        sizes: NDArray[np.float64] = np.sqrt(np.where(np.isfinite(squares), squares, 0.0))
        return sizes

    def _products(self, chosen: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the columns of an operator, some at a time."""
        n = self.problem.inputs.size
        width = max(1, _CHUNK // n)
        found = np.empty((self.problem.outputs.size, len(chosen)))
        for first in range(0, len(chosen), width):
            part = chosen[first : first + width]
            vectors = np.zeros((n, len(part)))
            vectors[part, np.arange(len(part))] = 1.0
            found[:, first : first + width] = self._product(vectors)
        return found

    def _product(self, vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return an operator's products with vectors, shape (n, k), as an array of shape (m, k)."""
        inputs, outputs = self.problem.inputs, self.problem.outputs
        spread = np.zeros((inputs.whole_size, vectors.shape[1]))
        spread[inputs.among_all()] = vectors
        try:
            product = np.asarray(self.values @ spread)
        except Exception as error:
            raise _cannot_multiply(self.values, error) from error
        shape = (outputs.whole_size, vectors.shape[1])
        whole = checked_array(
            "jacobian", product, shape, _narrowest(self.problem), "the matrix", "outputs by inputs", self.notes
        )
        part: NDArray[np.float64] = whole[outputs.among_all()].astype(np.float64)
        return part


def matrix_of(result: Any, problem: Problem, notes: list[str]) -> Matrix:
    """Return what a jacobian returned as a matrix.

    Parameters
    ----------
    result : object
        A matrix of shape ``(y.size, x.size)`` from SciPy, or arrays of shape ``(*y.shape, *x.shape)`` in the structure
        of x0 within that of y.
    problem : Problem
        apply and x0.
    notes : list of str
        Receives remarks on harmless oddities, such as a wider dtype.

    Raises
    ------
    Breach
        If the structure, a shape or a dtype is another.
    """
    m, n = problem.outputs.whole_size, problem.inputs.whole_size
    is_sparse = hasattr(result, "tocsc") and hasattr(result, "toarray")
    if not is_sparse and not (hasattr(result, "matvec") and hasattr(result, "shape")):
        return Matrix(_from_blocks(result, problem, notes), problem, notes)
    _require_real_leaves(problem)
    if result.shape != (m, n):
        raise Breach(
            "jacobian",
            Status.SHAPE,
            f"jacobian returned a {type(result).__name__} of shape {result.shape}; expected {(m, n)}, "
            "outputs by inputs.",
        )
    if not is_sparse:
        return Matrix(result, problem, notes)
    try:
        columns = result.tocsc(copy=True)
        columns.sum_duplicates()
    except Exception as error:
        raise _cannot_multiply(result, error) from error
    held, dtype = columns.data, _narrowest(problem)
    checked_array("jacobian", held, held.shape, dtype, "the matrix", "outputs by inputs", notes)
    selected = columns.astype(np.float64)
    if problem.inputs.resting or problem.outputs.resting:
        selected = selected[problem.outputs.among_all()][:, problem.inputs.among_all()]
    return Matrix(selected, problem, notes)


def pattern_of(sparsity: Any, problem: Problem) -> Any:
    """Return which entries between the selected coordinates may differ from zero, as a sparse array.

    Raises
    ------
    InvalidInput
        If it is no matrix of outputs by inputs.
    """
    from scipy import sparse  # type: ignore[import-untyped]

    m, n = problem.outputs.whole_size, problem.inputs.whole_size
    try:
        pattern = sparse.csc_array(sparsity != 0 if sparse.issparse(sparsity) else np.asarray(sparsity) != 0)
    except Exception as error:
        raise InvalidInput(f"sparsity: expected a sparse or dense matrix, got {type(sparsity).__name__}") from error
    if pattern.shape != (m, n):
        raise InvalidInput(f"sparsity: expected shape {(m, n)}, outputs by inputs, got {pattern.shape}")
    if problem.inputs.resting or problem.outputs.resting:
        pattern = sparse.csc_array(pattern[problem.outputs.among_all()][:, problem.inputs.among_all()])
    return pattern


def _cannot_multiply(result: Any, error: Exception) -> Breach:
    message = f"jacobian returned a {type(result).__name__} that cannot be multiplied out: {described(error)}."
    return Breach("jacobian", Status.RAISED, message)


def _require_real_leaves(problem: Problem) -> None:
    if any(leaf.parts == 2 for leaf in (*problem.outputs.leaves, *problem.inputs.leaves)):
        raise Breach(
            "jacobian",
            Status.STRUCTURE,
            "jacobian returned one matrix, but x0 or apply's output is complex; return a complex array of shape "
            "(*y.shape, *x.shape), the holomorphic derivative.",
        )


def _narrowest(problem: Problem) -> np.dtype[Any]:
    """Return the dtype that a derivative between the selected leaves has to have at least."""
    return _shortest((*problem.outputs.leaves, *problem.inputs.leaves))


def _shortest(leaves: Sequence[Leaf]) -> np.dtype[Any]:
    return min((leaf.real_dtype for leaf in leaves), key=lambda dtype: dtype.itemsize)


def _from_blocks(result: Any, problem: Problem, notes: list[str]) -> NDArray[np.float64]:
    """Return the matrix of a Jacobian given as arrays, one for each output and input leaf; None is zero."""
    claims = np.zeros((problem.outputs.size, problem.inputs.size))
    for output, part in zip(problem.outputs.leaves, _parts(result, problem.outputs, "apply's output"), strict=True):
        blocks = _parts(part, problem.inputs, f"x0 (in the part of {output.path})")
        for source, block in zip(problem.inputs.leaves, blocks, strict=True):
            if block is not None:
                claims[output.start : output.stop, source.start : source.stop] = _real_block(
                    block, output, source, notes
                )
    return claims


def _parts(tree: Any, layout: Layout, like: str) -> list[Any]:
    """Return what stands in a part of a nested Jacobian where ``layout`` has its differentiable leaves."""
    parts = trees.matched_leaves(tree, layout)
    if parts is None:
        leaves, spec = trees.flatten(tree)
        raise Breach(
            "jacobian",
            Status.STRUCTURE,
            f"jacobian returned {describe(spec, leaves)}; expected the structure of {like}: "
            f"{trees.shapes_text(layout)}.",
        )
    return [parts[leaf.position] for leaf in layout.leaves]


def _real_block(block: Any, output: Leaf, source: Leaf, notes: list[str]) -> NDArray[np.float64]:
    """Return one block of a Jacobian over real coordinates; a complex block is a holomorphic derivative."""
    shape = (*output.shape, *source.shape)
    place = f"{output.path} by {source.path}"
    flat_shape = (output.size // output.parts, source.size // source.parts)
    if getattr(block, "shape", shape) == flat_shape:
        shape = flat_shape
    is_complex = output.parts == 2 or source.parts == 2
    real = _shortest((output, source))
    dtype = np.result_type(real, np.complex64) if is_complex else real
    array = checked_array("jacobian", block, shape, dtype, place, "the derivative", notes).reshape(flat_shape)
    if not is_complex:
        return array.astype(np.float64, copy=False)
    columns = [array, 1j * array] if source.parts == 2 else [array]  # the input moves along 1, then along 1j
    spread = np.stack(columns, axis=-1).reshape(flat_shape[0], -1)
    rows = [spread.real, spread.imag] if output.parts == 2 else [spread.real]
    return np.stack(rows, axis=1).reshape(output.size, source.size).astype(np.float64)
