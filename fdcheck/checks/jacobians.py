"""Whether a jacobian is the same when it is asked again, and a LinearOperator has the transpose of its own product."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fdcheck.checks.hidden_state import Same, asked_again
from fdcheck.numerics.noise import SAME
from fdcheck.problem.callables import Breach, Function, Problem
from fdcheck.problem.jacobians import Matrix, matrix_of
from fdcheck.problem.wording import described
from fdcheck.results import Finding, Status

Array = NDArray[np.float64]


_ENTRIES = 2**22
"""Entries of a Jacobian that are compared one by one; of a larger one, a sparse one and an operator, products are."""


def jacobian_findings(
    endpoint: Function,
    matrix: Matrix,
    tolerances: tuple[float, float],
    same: Same,
    far: Array | None,
    notes: list[str],
) -> list[Finding]:
    """Return whether a jacobian is not the same any more when it is asked again, or has a wrong transpose.

    Parameters
    ----------
    endpoint : Function
        The jacobian.
    matrix : Matrix
        What it returned before.
    tolerances : (float, float)
        ``rtol`` and ``atol`` of the entries.
    same : Same
        By how much two equal calls may differ.
    far : ndarray, shape (n,), or None
        The far point; None to ask at x0 only.
    notes : list of str
        Receives remarks that change no verdict.

    Returns
    -------
    list of Finding
        Cost: 1 to 3 calls.
    """
    problem = matrix.problem
    by_entry = isinstance(matrix.values, np.ndarray) and matrix.values.size <= _ENTRIES
    vector = np.random.default_rng(0x6A6163).uniform(0.5, 1.5, 0 if by_entry else problem.inputs.size)

    def read(result: Any) -> Array:
        return seen(matrix_of(result, problem, [], endpoint.skip))

    def seen(returned: Matrix) -> Array:
        found: Array = returned.values if by_entry else returned @ vector
        return found

    def off(got: Array) -> str:
        if by_entry:
            return _matrices_differ(problem, got, matrix.values, tolerances[1], same)
        return _products_differ(problem, got, first, matrix.sizes(vector), tolerances[1], same)

    try:
        first = seen(matrix)
        second = asked_again(endpoint, problem, far, partial(endpoint.on, where="x0"), read, first, off, {})
    except Breach as breach:
        return [breach.finding]
    notes += [second.note] if second.note else []
    found = [second.finding] if second.finding is not None else []
    if matrix.is_operator and Status.ADJOINT not in endpoint.skip:
        found += _transposed(matrix.values, problem, tolerances[0])
    return found


def _matrices_differ(problem: Problem, got: Array, expected: Array, atol: float, same: Same) -> str:
    """Return where two Jacobians differ by more than is allowed, and by how much; empty if they do not."""
    if (got == expected).all() or np.array_equal(got, expected, equal_nan=True):
        return ""
    size = np.where(np.isfinite(expected), np.abs(expected), 0.0)
    usual = np.minimum(size.max(axis=1, keepdims=True), size.max(axis=0, keepdims=True))
    excess = _excess(problem, got, expected, size, usual, atol, same)
    if not excess.max() > 0:
        return ""
    i, j = np.unravel_index(int(np.argmax(excess)), excess.shape)
    place = f"d {problem.outputs.element(int(i))} / d {problem.inputs.element(int(j))}"
    return f"by {abs(got[i, j] - expected[i, j]):.3g} in {place}: {got[i, j]:.6g} in place of {expected[i, j]:.6g}"


def _products_differ(
    problem: Problem, got: Array, expected: Array, sizes: Array | None, atol: float, same: Same
) -> str:
    """Return where the products of two Jacobians with one vector differ by more than is allowed."""
    size = np.where(np.isfinite(expected), np.abs(expected), 0.0)
    terms = np.full_like(size, size.max(initial=0.0)) if sizes is None else sizes
    excess = _excess(problem, got, expected, terms, terms.max(initial=0.0), atol * problem.inputs.size, same)
    if not excess.max(initial=-1.0) > 0:
        return ""
    i = int(np.argmax(excess))
    return f"by {abs(got[i] - expected[i]):.3g} in a product, at {problem.outputs.element(i)}"


def _excess(problem: Problem, got: Array, expected: Array, size: Array, usual: Any, atol: float, same: Same) -> Array:
    """Return by how much numbers are off beyond what is allowed, negative where they are not."""
    roundoff = SAME * float(np.finfo(problem.coarsest_dtype).eps)
    allowed = 2 * same.rtol * size + roundoff * usual + atol
    if same.nondet_tol is not None:
        allowed = np.full_like(size, same.nondet_tol)
    known = np.isfinite(expected)
    excess = np.where(known & (got != expected), np.abs(got - expected) - allowed, -1.0)
    excess[known & ~np.isfinite(got)] = np.inf
    return excess


def _transposed(result: Any, problem: Problem, rtol: float) -> Iterator[Finding]:
    """Yield whether the rmatvec of a LinearOperator is not the transpose of its matvec."""
    if not hasattr(result, "rmatvec"):
        return
    draw = np.random.default_rng(0x6F7065)
    m, n = result.shape
    v, w = (draw.integers(8, 25, k) / 16 * draw.choice([-1.0, 1.0], k) for k in (n, m))
    try:
        forward, back = np.ravel(result.matvec(v)), np.ravel(result.rmatvec(w))
    except NotImplementedError:  # it has none
        return
    except Exception as error:
        text = f"rmatvec of the LinearOperator raised {described(error)}."
        yield Finding("jacobian", Status.ADJOINT, text, vectors={"w": w})
        return
    roundoff = 8 * np.sqrt(float(np.finfo(problem.coarsest_dtype).eps))
    size = float(np.abs(w) @ np.abs(forward) + np.abs(v) @ np.abs(back))
    one, other = float(w @ forward), float(v @ back)
    if abs(one - other) > (rtol + roundoff) * size:
        text = f"<w, matvec(v)> = {one:.8g} and <rmatvec(w), v> = {other:.8g} of the LinearOperator are to be equal."
        yield Finding("jacobian", Status.ADJOINT, text, vectors={"v": v, "w": w})
