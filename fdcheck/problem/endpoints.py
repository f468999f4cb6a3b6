"""The user's derivatives as one real matrix of claims, whatever form they come in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.problem import trees
from fdcheck.problem.callables import Breach, Function, Problem, checked_array, describe, described, returned, tangent
from fdcheck.problem.trees import Layout, Leaf
from fdcheck.results import Status

Claims = NDArray[np.float64]


def claimed_matrix(endpoint: Function, problem: Problem, notes: list[str]) -> Claims:
    """Return what an endpoint claims the real Jacobian to be.

    Parameters
    ----------
    endpoint : Function
        Named ``jacobian``, ``jvp`` or ``vjp``.
    problem : Problem
        apply and x0.
    notes : list of str
        Receives remarks on harmless oddities, such as a wider dtype.

    Returns
    -------
    ndarray, shape (m, n)
        One row per real output coordinate, one column per real input coordinate. Cost in endpoint calls: one
        for a jacobian, n for a jvp, m for a vjp.

    Raises
    ------
    Breach
        If the endpoint raises, or returns another structure, shape or dtype than its convention asks for.
    """
    readers: dict[str, Callable[[Function, Problem, list[str]], Claims]] = {
        "jacobian": _from_jacobian,
        "jvp": _from_jvp,
        "vjp": _from_vjp,
    }
    found: list[str] = []
    matrix = readers[endpoint.name](endpoint, problem, found)
    if endpoint.mutated:
        raise Breach(endpoint.name, Status.MUTATION, f"{endpoint.name} changed its arguments in place.")
    notes.extend(dict.fromkeys(found))
    return matrix


def _from_jvp(jvp: Function, problem: Problem, notes: list[str]) -> Claims:
    """Return the claims of a jvp, one column for each one-hot tangent."""
    claims = np.empty((problem.outputs.size, problem.inputs.size))
    for j in range(problem.inputs.size):
        one_hot = np.zeros(problem.inputs.size)
        one_hot[j] = 1.0
        result = jvp(problem.arguments(), tangent(problem.inputs, one_hot), where=f"x0 and tangent {j}")
        claims[:, j], remarks = returned("jvp", result, problem.outputs, "apply's output")
        notes.extend(remarks)
    return claims


def _from_vjp(vjp: Function, problem: Problem, notes: list[str]) -> Claims:
    """Return the claims of a vjp, one row for each one-hot cotangent.

    The gradient g of cotangent c satisfies Re<g, t> = Re<c, J t>, so its real and imaginary parts are the
    entries for the real and the imaginary part of the input.
    """
    claims = np.empty((problem.outputs.size, problem.inputs.size))
    for i in range(problem.outputs.size):
        one_hot = np.zeros(problem.outputs.size)
        one_hot[i] = 1.0
        result = vjp(problem.arguments(), tangent(problem.outputs, one_hot), where=f"x0 and cotangent {i}")
        claims[i], remarks = returned("vjp", result, problem.inputs, "x0")
        notes.extend(remarks)
    return claims


def _from_jacobian(jacobian: Function, problem: Problem, notes: list[str]) -> Claims:
    """Return the claims of a jacobian: dense, nested, sparse or a LinearOperator."""
    result = jacobian(problem.arguments())
    m, n = problem.outputs.whole_size, problem.inputs.whole_size
    matrix = _as_matrix(result)
    if matrix is not None:
        _require_real_leaves(problem)
        if matrix.shape != (m, n):
            raise Breach(
                "jacobian",
                Status.SHAPE,
                f"jacobian returned a {type(result).__name__} of shape {matrix.shape}; expected {(m, n)}, "
                "outputs by inputs.",
            )
        real = _narrowest((*problem.outputs.leaves, *problem.inputs.leaves))
        whole = checked_array("jacobian", matrix, (m, n), real, "the matrix", "outputs by inputs", notes)
        return whole[np.ix_(problem.outputs.among_all(), problem.inputs.among_all())].astype(np.float64)
    claims = np.zeros((problem.outputs.size, problem.inputs.size))
    for output, part in zip(problem.outputs.leaves, _parts(result, problem.outputs, "apply's output"), strict=True):
        blocks = _parts(part, problem.inputs, f"x0 (in the part of {output.path})")
        for source, block in zip(problem.inputs.leaves, blocks, strict=True):
            if block is not None:
                claims[output.start : output.stop, source.start : source.stop] = _real_block(
                    block, output, source, notes
                )
    return claims


def _as_matrix(result: Any) -> NDArray[Any] | None:
    """Return a SciPy sparse matrix or LinearOperator multiplied out, None for anything else.

    Raises
    ------
    Breach
        If it cannot be multiplied out.
    """
    try:
        if hasattr(result, "toarray"):
            return np.asarray(result.toarray())
        if hasattr(result, "matvec") and hasattr(result, "shape"):
            return np.asarray(result @ np.eye(result.shape[1], dtype=np.float64))
    except Exception as error:
        message = f"jacobian returned a {type(result).__name__} that cannot be multiplied out: {described(error)}."
        raise Breach("jacobian", Status.RAISED, message) from error
    return None


def _require_real_leaves(problem: Problem) -> None:
    if any(leaf.parts == 2 for leaf in (*problem.outputs.leaves, *problem.inputs.leaves)):
        raise Breach(
            "jacobian",
            Status.STRUCTURE,
            "jacobian returned one matrix, but x0 or apply's output is complex; return a complex array of shape "
            "(*y.shape, *x.shape), the holomorphic derivative.",
        )


def _narrowest(leaves: Sequence[Leaf]) -> np.dtype[Any]:
    """Return the dtype that a derivative between these leaves has to have at least."""
    return min((leaf.real_dtype for leaf in leaves), key=lambda dtype: dtype.itemsize)


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
    real = _narrowest((output, source))
    dtype = np.result_type(real, np.complex64) if is_complex else real
    array = checked_array("jacobian", block, shape, dtype, place, "the derivative", notes).reshape(flat_shape)
    if not is_complex:
        return array.astype(np.float64)
    columns = [array, 1j * array] if source.parts == 2 else [array]  # the input moves along 1, then along 1j
    spread = np.stack(columns, axis=-1).reshape(flat_shape[0], -1)
    rows = [spread.real, spread.imag] if output.parts == 2 else [spread.real]
    return np.stack(rows, axis=1).reshape(output.size, source.size).astype(np.float64)
