"""The user's derivatives as one real matrix of claims, whatever form they come in."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.problem import trees
from fdcheck.problem.callables import Breach, Function, Problem
from fdcheck.problem.returned import checked_array, returned, tangent
from fdcheck.problem.trees import Layout, Leaf
from fdcheck.problem.wording import describe, described
from fdcheck.results import Finding, Status
from fdcheck.settings import Contract

Claims = NDArray[np.float64]


@dataclass(frozen=True)
class Claimed:
    """What the endpoints claim, side by side.

    Parameters
    ----------
    names : tuple of str, length e
        The endpoints that keep their contract.
    matrix : ndarray, shape (e, m, n)
        Their claims, NaN where an endpoint was not called.
    rows : ndarray of bool, shape (e, m)
        Outputs that each was asked for.
    masked : ndarray of bool, shape (e, m, n)
        Entries off the pattern of a sparse jacobian whose owner does not want them looked at.
    """

    names: tuple[str, ...]
    matrix: NDArray[np.float64]
    rows: NDArray[np.bool_]
    masked: NDArray[np.bool_]


def claims_of(
    given: Mapping[str, Function],
    problem: Problem,
    columns: NDArray[np.int64],
    rows: NDArray[np.int64],
    notes: list[str],
    contract: Contract,
) -> tuple[Claimed, list[Finding]]:
    """Return what the endpoints that keep their contract claim, and the breaches of the others.

    Parameters
    ----------
    given : dict of str to Function
        The endpoints by name.
    problem, columns, rows, notes
        As for :func:`claimed_matrix`.
    contract : Contract
        ``exact_dtype`` and ``masked`` are read.
    """
    names: list[str] = []
    matrices: list[NDArray[np.float64]] = []
    masks: list[NDArray[np.bool_]] = []
    breaches: list[Finding] = []
    asked = np.zeros(problem.outputs.size, np.bool_)
    asked[rows] = True
    for name, endpoint in given.items():
        remarks: list[str] = []
        try:
            matrix, off_pattern = claimed_matrix(endpoint, problem, columns, rows, remarks)
            if contract.exact_dtype and remarks:
                raise Breach(name, Status.DTYPE, f"exact_dtype: {remarks[0]}")
        except Breach as breach:
            breaches.append(breach.finding)
            continue
        notes.extend(remarks)
        names.append(name)
        matrices.append(matrix)
        masks.append(off_pattern if contract.masked else np.zeros_like(off_pattern))
    wanted = np.array([asked if name == "vjp" else np.ones_like(asked) for name in names], np.bool_)
    return Claimed(tuple(names), np.array(matrices), wanted, np.array(masks)), breaches


def claimed_matrix(
    endpoint: Function, problem: Problem, columns: NDArray[np.int64], rows: NDArray[np.int64], notes: list[str]
) -> tuple[Claims, NDArray[np.bool_]]:
    """Return what an endpoint claims the real Jacobian to be.

    Parameters
    ----------
    endpoint : Function
        Named ``jacobian``, ``jvp`` or ``vjp``.
    problem : Problem
        apply and x0.
    columns : ndarray of int
        Real input coordinates for which a jvp is called.
    rows : ndarray of int
        Real output coordinates for which a vjp is called.
    notes : list of str
        Receives remarks on harmless oddities, such as a wider dtype.

    Returns
    -------
    claims : ndarray, shape (m, n)
        One row per real output coordinate, one column per real input coordinate; NaN where a jvp or vjp was
        not called. Cost in endpoint calls: one for a jacobian, one for each column for a jvp, one for each row
        for a vjp.
    off_pattern : ndarray of bool, shape (m, n)
        Entries that a sparse jacobian does not hold.

    Raises
    ------
    Breach
        If the endpoint raises, or returns another structure, shape or dtype than its convention asks for.
    """
    found: list[str] = []
    off_pattern = np.zeros((problem.outputs.size, problem.inputs.size), np.bool_)
    if endpoint.name == "jacobian":
        result = endpoint(problem.arguments())
        matrix = _from_jacobian(result, problem, found)
        if hasattr(result, "tocoo"):
            off_pattern = _off_pattern(result, problem)
    else:
        matrix = np.full((problem.outputs.size, problem.inputs.size), np.nan)
        if endpoint.name == "jvp":
            for j in columns:
                matrix[:, j] = claimed_column(endpoint, problem, one_hot(problem.inputs, j), f"tangent {j}", found)
        else:
            for i in rows:
                matrix[i] = _claimed_row(endpoint, problem, i, found)
    if endpoint.mutated:
        raise Breach(endpoint.name, Status.MUTATION, f"{endpoint.name} changed its arguments in place.")
    notes.extend(dict.fromkeys(found))
    return matrix, off_pattern


def claimed_column(
    jvp: Function, problem: Problem, direction: NDArray[np.float64], which: str, notes: list[str]
) -> NDArray[np.float64]:
    """Return what a jvp claims along a direction, shape (m,).

    Parameters
    ----------
    jvp : Function
        The endpoint.
    problem : Problem
        apply and x0.
    direction : ndarray, shape (n,)
        Tangent, in real input coordinates.
    which : str
        What to call the tangent in messages.
    notes : list of str
        Receives remarks on harmless oddities.

    Raises
    ------
    Breach
        As for :func:`claimed_matrix`.
    """
    result = jvp(problem.arguments(), tangent(problem.inputs, direction), where=f"x0 and {which}")
    column, remarks = returned("jvp", result, problem.outputs, "apply's output")
    notes.extend(remarks)
    return column


def _claimed_row(vjp: Function, problem: Problem, row: int, notes: list[str]) -> NDArray[np.float64]:
    """Return what a vjp claims for a one-hot cotangent, shape (n,).

    The gradient g of cotangent c satisfies Re<g, t> = Re<c, J t>, so its real and imaginary parts are the
    entries for the real and the imaginary part of the input.
    """
    cotangent = tangent(problem.outputs, one_hot(problem.outputs, row))
    gradient, remarks = returned(
        "vjp", vjp(problem.arguments(), cotangent, where=f"x0 and cotangent {row}"), problem.inputs, "x0"
    )
    notes.extend(remarks)
    return gradient


def one_hot(layout: Layout, coordinate: int) -> NDArray[np.float64]:
    """Return the vector of a layout that is 1 at one real coordinate."""
    vector = np.zeros(layout.size)
    vector[coordinate] = 1.0
    return vector


def _off_pattern(matrix: Any, problem: Problem) -> NDArray[np.bool_]:
    """Return the entries that a sparse matrix does not hold, of the inputs and outputs that are selected."""
    entries = matrix.tocoo()
    off = np.ones(entries.shape, np.bool_)
    off[entries.row, entries.col] = False
    selected: NDArray[np.bool_] = off[np.ix_(problem.outputs.among_all(), problem.inputs.among_all())]
    return selected


def _from_jacobian(result: Any, problem: Problem, notes: list[str]) -> Claims:
    """Return the claims of what a jacobian returned: dense, nested, sparse or a LinearOperator."""
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
