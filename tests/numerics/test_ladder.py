"""Ladders: which steps, what they measure, and how two become one."""

import numpy as np
import pytest

from fdcheck.numerics.ladder import CENTRAL, FORWARD, climb, extended, first_rungs
from fdcheck.numerics.steps import step_range
from fdcheck.problem.callables import Function, Problem
from fdcheck.problem.evaluate import bounds_from, unbounded


def problem_of(apply, x0):
    return Problem(Function("apply", apply), x0)


def rungs_of(problem):
    return first_rungs(problem, step_range(problem, np.full(problem.inputs.size, np.nan)))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.longdouble])
def test_rungs_are_ascending_powers_of_two_from_a_few_ulps_to_a_quarter(dtype):
    problem = problem_of(np.sin, np.array([1.5], dtype))
    rungs = rungs_of(problem)[:, 0]
    assert (np.diff(rungs) > 0).all()
    assert (np.frexp(rungs)[0] == 0.5).all()
    assert 1.5 / 8 <= rungs[-1] <= 1.5 / 2
    assert 4 * np.finfo(dtype).eps <= rungs[0] <= 2.0**14 * np.finfo(dtype).eps
    assert 5 <= len(rungs) <= 15


def test_each_leaf_has_rungs_of_its_own_dtype():
    problem = problem_of(lambda x: x["a"] * 1.0 + x["b"], {"a": np.float32(1), "b": 1e6})
    rungs = rungs_of(problem)
    assert np.isnan(rungs[-1, 0])
    assert np.isfinite(rungs[:, 1]).all()
    assert np.nanmax(rungs[:, 0]) == 0.25


def test_slopes_of_a_square():
    problem = problem_of(lambda x: x * x, np.array([3.0]))
    ladder = climb(problem, np.array([0]), np.array([[0.25], [0.5]]), unbounded(problem))
    assert ladder.slopes(CENTRAL)[:, 0, 0].tolist() == [6.0, 6.0]
    assert ladder.slopes(FORWARD)[:, 0, 0].tolist() == [6.25, 6.5]
    assert ladder.largest(problem.value, CENTRAL)[:, 0, 0].tolist() == [3.25**2, 3.5**2]


def test_a_step_out_of_bounds_or_lost_in_rounding_gives_nothing():
    problem = problem_of(lambda x: x * x, np.array([3.0]))
    bounds = bounds_from(problem, [(problem.inputs.leaves[0], 2.9, np.inf)])
    ladder = climb(problem, np.array([0]), np.array([[1e-20], [0.25]]), bounds)
    assert np.isnan(ladder.slopes(CENTRAL)).all()
    assert np.isnan(ladder.slopes(FORWARD)[0]).all()
    assert ladder.slopes(FORWARD)[1, 0, 0] == 6.25


def test_two_ladders_become_one_in_order_and_pads_stay_last():
    problem = problem_of(lambda x: x * x, np.array([3.0, 5.0]))
    both = np.array([0, 1])
    first = climb(problem, both, np.array([[0.125, 0.125], [0.5, 0.5]]), unbounded(problem))
    further = climb(problem, both, np.array([[0.25, np.nan]]), unbounded(problem))
    ladder = extended(first, further)
    assert ladder.step[:, 0].tolist() == [0.125, 0.25, 0.5]
    assert ladder.step[:2, 1].tolist() == [0.125, 0.5]
    assert np.isnan(ladder.step[2, 1])
    np.testing.assert_array_equal(ladder.slopes(FORWARD)[:, 0, 0], [6.125, 6.25, 6.5])
    np.testing.assert_array_equal(ladder.slopes(FORWARD)[:2, 1, 1], [10.125, 10.5])
