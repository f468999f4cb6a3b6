"""Linearity of an endpoint's answers: right ones pass, and each way to lose a term is named."""

import numpy as np
import pytest

from fdcheck.checks.linearity import linearity_finding
from fdcheck.results import BREACHES, Status

ANSWERS = np.array([[1.0, 2.0, 0.0], [0.5, -3.0, 0.0], [2.0, 1e-9, 0.0], [-4.0, 5.0, 0.0]])
GROUPS = [("a", slice(0, 2)), ("b", slice(2, 4))]


def found(ask, answers=ANSWERS, groups=GROUPS):
    return linearity_finding("jvp", answers, ask, groups, "y[{}]".format, 1e-3, 0)


def test_sums_of_the_answers_to_units_are_right_within_the_tolerance():
    assert found(lambda w: w @ ANSWERS) is None
    assert found(lambda w: (w @ ANSWERS) * (1 + 1e-4)) is None
    assert found(lambda w: w @ ANSWERS + np.array([0, 0, 1e-12])) is None  # rounding where all terms are zero


@pytest.mark.parametrize(
    ("ask", "words"),
    [
        (lambda w: w[2:] @ ANSWERS[2:], "holds the term of b alone"),
        (lambda w: w[:2] @ ANSWERS[:2], "holds the term of a alone"),
        (lambda w: np.sign(w) @ ANSWERS, "depends on the signs"),
        (lambda w: np.abs(w) @ ANSWERS, "loses the signs"),
        (lambda w: 1.1 * w @ ANSWERS, "add up to"),
        (lambda w: np.clip(w, -10, 10) @ ANSWERS, "add up to"),
        (lambda w: w @ ANSWERS + np.array([0, 0, 1.0]), "for y[2]"),
        (lambda w: np.full(3, np.nan), "nan"),
    ],
)
def test_what_is_not_linear_is_found_and_described(ask, words):
    finding = found(ask)
    assert finding.status is Status.NONLINEAR
    assert Status.NONLINEAR in BREACHES
    assert words in finding.message
    assert "over a, b" in finding.message


def test_a_missing_term_of_several_is_named():
    answers = np.vstack([ANSWERS, [[7.0, 1.0, 0.0]]])
    finding = found(lambda w: w[:4] @ answers[:4], answers, [*GROUPS, ("c", slice(4, 5))])
    assert "the term of c is missing" in finding.message


def test_what_is_not_finite_in_the_units_is_left_to_the_comparison_of_entries():
    answers = ANSWERS.copy()
    answers[0, 1] = np.inf
    assert found(lambda w: np.nan_to_num(w @ answers), answers) is None


def test_two_calls_and_no_more():
    calls = []
    found(lambda w: calls.append(w) or w @ ANSWERS)
    assert len(calls) == 2
    assert np.abs(calls[1]).min() > 100 * np.abs(calls[0]).max()
