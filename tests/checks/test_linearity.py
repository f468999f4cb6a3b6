"""Linearity of a map whose products with unit vectors are known: right ones pass, and each lost term is named."""

import numpy as np
import pytest

from fdcheck.checks.linearity import linearity_finding
from fdcheck.checks.products import Asked, Known, linear_map
from fdcheck.problem.callables import Function, Problem
from fdcheck.results import BREACHES, Status

X0 = {"a": np.array([1.0, 2.0]), "b": np.array([0.5, -3.0])}
MATRIX = np.array([[1.0, 2.0, 0.0], [0.5, -3.0, 0.0], [2.0, 1e-9, 0.0], [-4.0, 5.0, 0.0]])
V, W = np.array([0.5, -1.25, 1.5, -0.75]), np.array([0.75, 0.75, -1.0, -1.0])


def found(answer, matrix=MATRIX, rtol=1e-3, units=None):
    """Return what is said of a jvp that answers so; the answers to unit vectors are rows of a matrix."""

    def jvp(x, t):
        return answer(np.concatenate([t["a"], t["b"]]))

    problem = Problem(Function("apply", lambda x: np.concatenate([x["a"], x["b"]]) @ matrix), X0)
    units = np.arange(4) if units is None else np.array(units)
    product = linear_map(Function("jvp", jvp), problem, rtol=rtol, known=Known(units, matrix[units]))
    v = np.zeros(4)
    v[units] = V[units]
    of_v, of_w = product.asked(v), product.asked(W)
    findings = linearity_finding(product, of_v, of_w, Asked(v + 2 * W, product(v + 2 * W), of_v.terms + 2 * of_w.terms))
    assert product.endpoint.calls <= 6
    return findings[0] if findings else None


def test_sums_of_the_answers_to_units_are_right_within_the_tolerance():
    assert found(lambda w: w @ MATRIX) is None
    assert found(lambda w: (w @ MATRIX) * (1 + 1e-4 * np.sin(w.sum()))) is None
    assert found(lambda w: w @ MATRIX + np.array([0, 0, 1e-12 * w.any()])) is None  # rounding where all terms are zero
    assert found(lambda w: w @ MATRIX, units=[0, 2]) is None


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (lambda w: w[2:] @ MATRIX[2:], "holds the term of b alone"),
        (lambda w: w[:2] @ MATRIX[:2], "holds the term of a alone"),
        (lambda w: np.sign(w) @ MATRIX, "depends on the signs"),
        (lambda w: np.abs(w) @ MATRIX, "loses the signs"),
        (lambda w: np.ones(4) @ MATRIX, "does not depend on the vector"),
        (lambda w: 1.1 * w @ MATRIX, "sum of its answers to unit vectors"),
        (lambda w: np.clip(w, -10, 10) @ MATRIX, "jvp of 64 v is not 64 times that of v"),
        (lambda w: np.where(np.abs(w) < 0.05, 0, w) @ MATRIX, "-0.015625 times that of v"),
        (lambda w: w @ MATRIX + np.array([0, 0, 1.0]), "at y[2]"),
        (lambda w: np.full(3, np.nan), "not finite"),
        (lambda w: w @ MATRIX + 1e-3 * (not w.any()), "jvp of zeros is not zero"),
    ],
)
def test_what_is_not_linear_is_found_and_described(answer, words):
    finding = found(answer)
    assert finding.status is Status.NONLINEAR
    assert Status.NONLINEAR in BREACHES
    assert words in finding.message
    assert found(answer, rtol=0.0) is not None


def test_the_tolerance_is_that_of_the_entries():
    def wavy(w):
        return (w @ MATRIX) * (1 + 3e-3 * np.sin(9 * w.sum()))

    assert found(wavy, rtol=1e-2) is None
    assert found(wavy, rtol=1e-4) is not None


def test_a_part_of_the_units_is_enough_for_what_the_dense_vectors_say():
    assert "v + 2 w" in found(lambda w: w @ MATRIX * (np.count_nonzero(w) < 4), units=[0, 2]).message
    assert "unit vectors" in found(lambda w: np.abs(w) @ MATRIX, units=[1, 3]).message


def test_what_is_not_finite_in_the_units_is_left_to_the_comparison_of_entries():
    matrix = MATRIX.copy()
    matrix[0, 1] = np.inf
    with np.errstate(all="ignore"):
        assert found(lambda w: np.nan_to_num(w @ MATRIX), matrix) is None
