"""Scales, ranges and first steps: what is exact, what is allowed, and what the tolerance asks for."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdcheck.numerics.noise import measure_noise
from fdcheck.numerics.steps import accuracy, default_rtol, first_steps, step_range
from fdcheck.problem.callables import Function, Problem
from fdcheck.problem.evaluate import unbounded
from tests.problems import BY_NAME, SMOOTH


def problem_of(x0, apply=None):
    return Problem(Function("apply", apply or (lambda x: x)), x0)


def ranges(x0, forced=np.nan):
    problem = problem_of(x0)
    return step_range(problem, np.full(problem.inputs.size, forced))


def planned(problem, claims, rtol=None, atol=0.0, full=False, forced=np.nan):
    """Return (first steps, accuracy, noise, range) as a check has them."""
    steps_forced = np.full(problem.inputs.size, forced)
    steps = step_range(problem, steps_forced)
    noise = measure_noise(problem, steps.scale, unbounded(problem), 0, np.ones(problem.inputs.size, bool))
    goal, noise = accuracy(problem, claims, noise, steps, rtol, atol, full)
    return first_steps(problem, claims, noise, steps, goal, steps_forced), goal, noise, steps


# scales


def test_the_scale_is_the_magnitude_and_that_of_the_leaf_at_zero():
    assert ranges(np.array([2.0, -3e-7, 0.0, 1e5])).scale.tolist() == [2.0, 3e-7, 2.0, 1e5]
    assert ranges(np.zeros(3)).scale.tolist() == [1.0, 1.0, 1.0]
    assert ranges(0.0).scale.tolist() == [1.0]
    both = ranges({"a": np.zeros(2), "b": np.array([50.0, 60.0, 70.0])})
    assert both.scale.tolist() == [60.0, 60.0, 50.0, 60.0, 70.0]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_narrowest_step_is_sixteen_ulps_and_the_widest_a_part_of_the_scale(dtype):
    x = np.array([1.0, 3.0, 100.0], dtype)
    found = ranges(x)
    np.testing.assert_allclose(found.low, 16 * np.spacing(x).astype(float))
    assert (found.low < found.first_high).all()
    assert (found.first_high <= found.high).all()
    assert (found.first_high <= 0.25 * np.maximum(x.astype(float), 3.0)).all()
    assert (found.high <= 0.5 * 100).all()


def test_a_forced_step_may_be_quartered_and_doubled_twice():
    found = ranges(np.array([1.0, 0.0]), 0.01)
    np.testing.assert_allclose((found.low, found.first_high, found.high), np.outer([0.0025, 0.01, 0.04], [1, 1]))


# tolerance


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [(np.float64, 1e-3), (np.float32, 1e-3), (np.float16, 0.0788), (np.longdouble, 1e-3)],
)
def test_the_default_tolerance_follows_the_dtype(dtype, expected):
    out, of = default_rtol(problem_of(np.ones(2, dtype)), None)
    np.testing.assert_allclose(out, expected, rtol=0.01)
    np.testing.assert_allclose(of, expected, rtol=0.01)
    asked = default_rtol(problem_of(np.ones(2, dtype)), 1e-5)
    assert asked[0].tolist() == asked[1].tolist() == [1e-5, 1e-5]


def test_each_leaf_has_the_tolerance_of_its_dtype():
    x0 = {"a": np.ones(1, np.float16), "b": np.ones(2)}
    out, of = default_rtol(problem_of(x0, lambda x: x["b"]), None)
    assert out.tolist() == [1e-3, 1e-3]
    assert of[0] > 0.07
    assert of[1:].tolist() == [1e-3, 1e-3]


def test_sharp_is_asked_for_full_accuracy_only():
    problem = problem_of(np.array([0.7, 1.2]), np.sin)
    claims = np.diag(np.cos([0.7, 1.2]))[None]
    assert planned(problem, claims)[1].sharp == np.inf
    assert planned(problem, claims, full=True)[1].sharp == pytest.approx(10 * (2.0**-52) ** (2 / 3))
    single = problem_of(np.array([0.7, 1.2], np.float32), np.sin)
    assert 1e-5 < planned(single, claims, full=True)[1].sharp < 1e-3


def test_one_level_that_stands_out_as_too_low_is_raised_to_what_is_typical():
    problem = problem_of(np.array([0.7]), lambda x: np.sin(x[0]) + np.array([0.0, 0.1, 0.2, 0.3, 0.4]))
    claims = np.full((1, 5, 1), np.cos(0.7))
    steps = step_range(problem, np.full(1, np.nan))
    noise = measure_noise(problem, steps.scale, unbounded(problem), 0, np.ones(problem.inputs.size, bool))
    low = dataclasses.replace(noise, level=np.array([1e-19, 1e-12, 1e-12, 1e-12, 1e-12]))
    raised = accuracy(problem, claims, low, steps, None, 0.0, False)[1]
    assert raised.level[0] > 1e-17
    np.testing.assert_array_equal(raised.level[1:], low.level[1:])


# first steps


@settings(max_examples=40, deadline=None)
@given(st.floats(1e-8, 1e8), st.booleans(), st.floats(1e-5, 1e-1))
def test_first_steps_are_powers_of_two_within_the_range_and_hold_the_noise(x0, single, rtol):
    dtype = np.float32 if single else np.float64
    problem = problem_of(np.array([x0], dtype), np.log)
    first, _, noise, steps = planned(problem, np.array([[[1 / x0]]]), rtol=rtol)
    assert np.frexp(first[0, 0])[0] == 0.5
    assert steps.low[0] / 1.5 <= first[0, 0] <= 1.5 * steps.first_high[0]
    assert first[1, 0] >= 7.9 * first[0, 0]
    wanted = 30 * noise.level[0] * x0 / rtol
    if steps.low[0] < wanted < steps.first_high[0]:
        assert wanted / 1.5 <= first[0, 0] <= 1.5 * wanted


def test_a_nan_claim_and_a_zero_claim_still_give_a_step():
    problem = problem_of(np.array([0.7, 1.2]), np.sin)
    for claims in (np.full((1, 2, 2), np.nan), np.zeros((1, 2, 2)), np.full((1, 2, 2), np.inf)):
        first, *_, steps = planned(problem, claims)
        assert (first > 0).all()
        assert (first[0] <= 1.5 * steps.first_high).all()


def test_a_forced_step_is_taken_as_it_is():
    problem = problem_of(np.array([0.7, 1.2]), np.sin)
    first, *_ = planned(problem, np.diag(np.cos([0.7, 1.2]))[None], forced=3e-5)
    np.testing.assert_array_equal(first, [[3e-5, 3e-5], [6e-5, 6e-5]])


@pytest.mark.parametrize(("dtype", "expected"), [(np.float32, (2.0**-5, 2.0**-3)), (np.float64, (2.0**-11, 2.0**-9))])
def test_a_measurement_without_claims_starts_where_the_dtype_has_its_best_balance(dtype, expected):
    problem = problem_of(np.array([1.0, 2.0, 8.0], dtype), np.sin)
    first, *_ = planned(problem, np.zeros((0, 3, 3)), full=True)
    np.testing.assert_array_equal(first, np.outer(expected, [1, 2, 8]))


def test_a_noisier_problem_takes_wider_steps():
    problem = BY_NAME["layer"]
    claims = problem.jacobian()[None]
    wide = planned(problem_of(problem.point(np.float32), problem.apply), claims)[0]
    narrow = planned(problem_of(problem.point(), problem.apply), claims)[0]
    assert (wide[0] > 1e3 * narrow[0]).all()


@pytest.mark.parametrize("problem", SMOOTH, ids=lambda p: p.name)
def test_the_floor_of_an_entry_is_far_below_the_entries_of_its_row(problem):
    claims = problem.jacobian()[None]
    _, goal, _, steps = planned(problem_of(problem.point(), problem.apply), claims)
    assert (goal.share <= 1e-3).all()
    assert (goal.share >= 0.999 * 10 * (2.0**-53) ** (2 / 3)).all()
    largest = (np.abs(claims[0]) * steps.scale).max(axis=1)
    assert (goal.row <= largest * (1 + 1e-12)).all()
    np.testing.assert_allclose(goal.top, np.abs(claims[0]).max(axis=1))
