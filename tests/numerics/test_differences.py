"""Columns measured round by round: what is taken, what is kept, what it costs."""

import numpy as np
import pytest

from fdcheck.numerics import differences, kernels
from fdcheck.numerics.differences import Column, Rules, measure_columns, unmeasured
from fdcheck.numerics.noise import measure_noise
from fdcheck.numerics.steps import accuracy, first_steps, step_range
from fdcheck.problem.callables import Function, Problem
from fdcheck.problem.evaluate import Bounds, unbounded
from tests.problems import BY_NAME, SMOOTH


def measured(apply, x0, claims, least=2, limits=None, dtype=np.float64):
    """Return (measurement, problem, points that the columns took)."""
    seen = []

    def recorded(x):
        seen.append(x.copy())
        return apply(x)

    problem = Problem(Function("apply", recorded), np.asarray(x0, dtype))
    n = problem.inputs.size
    bounds = unbounded(problem) if limits is None else Bounds(*(np.full(n, float(v)) for v in limits))
    steps = step_range(problem, np.full(n, np.nan))
    known = np.zeros((0, problem.outputs.size, n)) if claims is None else np.asarray(claims, float)
    with np.errstate(all="ignore"):
        noise = measure_noise(problem, steps.scale, bounds, 0, np.ones(n, bool))
        goal, noise = accuracy(problem, known, noise, steps, None, 0.0, claims is None)
        first = first_steps(problem, known, noise, steps, goal, np.full(n, np.nan))
        before = len(seen)
        given = None if claims is None else known
        result = unmeasured(max(1, len(known)), problem.outputs.size, n)
        result.code[:] = kernels.PENDING
        rules = Rules(noise, steps, goal, least, bounds)
        measure_columns(problem, given, np.arange(n), first, rules, result)
    return result, problem, np.array(seen[before:])


# a column's slopes


def test_slopes_are_exact_on_a_quadratic_with_uneven_spacings():
    up_step, down_step = np.array([0.25, 0.5]), np.array([0.125, 0.75])

    def change(t):
        return 3 * t + 2 * t * t

    column = Column(up_step, down_step, change(up_step)[:, None], change(-down_step)[:, None])
    np.testing.assert_allclose(column.slopes(0), 3.0, rtol=1e-15)
    left, right = column.sides(0)
    np.testing.assert_allclose(left, 3 - 2 * down_step)
    np.testing.assert_allclose(right, 3 + 2 * up_step)


def test_a_side_that_is_missing_leaves_the_other():
    h = np.array([0.1, 0.2, 0.4])
    up = np.array([[0.2], [np.nan], [np.nan]])
    down = np.array([[-0.3], [-0.4], [np.inf]])
    column = Column(h, h, up, down)
    slopes = column.slopes(0)
    assert slopes[:2] == pytest.approx([2.5, 2.0])
    assert not np.isfinite(slopes[2])
    left, right = column.sides(0)
    assert np.isnan(right[1:]).all()
    assert np.isnan(left[2])


# measuring


@pytest.mark.parametrize("least", [1, 2])
@pytest.mark.parametrize("problem", SMOOTH, ids=lambda p: p.name)
def test_estimates_lie_within_their_bars_and_one_plain_column_keeps_its_steps(problem, least):
    right = problem.jacobian()
    result, _, points = measured(problem.apply, problem.x0, right[None], least)
    assert (result.code == kernels.AGREES).all()
    assert len(result.columns) == 1
    assert (np.abs(result.estimate - right) <= result.error + 1e-3 * np.abs(right)).all()
    assert (result.error <= 1e-3 * np.abs(right).max()).all()
    moved = points != problem.x0
    assert (moved.sum(axis=1) == 1).all()
    per_column = moved.sum(axis=0)
    assert (per_column % 2 == 0).all()
    assert per_column.min() >= 2 * least
    assert per_column.mean() <= 2 * least + 2


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("problem", SMOOTH, ids=lambda p: p.name)
def test_without_claims_the_bars_are_honest_and_small(problem, dtype):
    right = problem.jacobian(dtype)
    result, *_ = measured(problem.apply, problem.point(dtype), None, dtype=dtype)
    assert (np.abs(result.estimate - right) <= 2 * result.error).all()
    assert (result.error <= (1e-7 if dtype is np.float64 else 5e-3) * np.abs(right).max()).all()


def test_two_claims_are_judged_on_the_same_points():
    problem = BY_NAME["arm"]
    right = problem.jacobian()
    result, *_ = measured(problem.apply, problem.x0, [right, 1.05 * right])
    assert (result.code[0] == kernels.AGREES).all()
    assert (result.code[1] == kernels.DISAGREES).all()


def test_a_rejected_claim_rests_on_three_steps_at_least_sorted_and_all_different():
    problem = BY_NAME["cubic"]
    for wrong in problem.wrong_twins():
        result, *_ = measured(problem.apply, problem.x0, wrong.matrix[None])
        rejected = {(int(i), int(j)) for _, i, j in np.argwhere(result.code == kernels.DISAGREES)}
        assert rejected == wrong.entries
        plain = set(result.columns) - {j for _, j in rejected}
        assert len(plain) <= 1
        assert len(result.columns) - len(plain) == len({j for _, j in rejected})
        for i, j in rejected:
            evidence = result.columns[j]
            assert 3 <= len(evidence.up_step) <= kernels.MAX_STEPS
            assert (np.diff(evidence.up_step) > 0).all()
            right = problem.jacobian()[i, j]
            half = 0.5 * abs(wrong.matrix[i, j] - right)
            assert (np.abs(evidence.slopes(i) - right) < half).sum() >= 3


def test_steps_are_exact_in_the_dtype_of_the_input():
    x = np.array([0.7, -3.3, 1e-4], np.float32)
    right = np.diag(np.cos(x.astype(float)))
    _, _, points = measured(np.sin, x, [1.1 * right], dtype=np.float32)
    assert points.dtype == np.float32
    moved = (points.astype(float) - x.astype(float))[points != x]
    mantissa = np.frexp(np.abs(moved))[0]
    assert np.isin(mantissa, [0.5, 0.75]).mean() > 0.8  # powers of two, or 1.5 times one, unless x + h was rounded


def test_bounds_turn_a_column_one_sided():
    x = np.array([1.0, 2.0])
    right = np.diag(np.exp(x))
    result, _, points = measured(np.exp, x, right[None], limits=(1.0, 5.0))
    assert (result.code == kernels.AGREES).all()
    assert points.min() >= 1.0
    rejected, *_ = measured(np.exp, x, [1.05 * right], limits=(1.0, 5.0))
    assert (np.diag(rejected.code[0]) == kernels.DISAGREES).all()


def test_chunks_of_columns_give_what_one_piece_gives(monkeypatch):
    problem = BY_NAME["determinant"]
    wrong = [w.matrix for w in problem.wrong_twins()]
    whole, *_ = measured(problem.apply, problem.x0, wrong)
    monkeypatch.setattr(differences, "_CHUNK", 2)
    parts, *_ = measured(problem.apply, problem.x0, wrong)
    for name in ("code", "estimate", "error", "eps"):
        np.testing.assert_array_equal(getattr(whole, name), getattr(parts, name))
    assert set(whole.columns) == set(parts.columns)


def test_nothing_finite_is_said_to_be_so_and_ends():
    result, problem, _ = measured(lambda x: np.stack([np.nan * x[0], x[0]]), np.array([1.0]), [[[1.0], [1.0]]])
    assert result.code[0, :, 0].tolist() == [kernels.NONFINITE, kernels.AGREES]
    assert np.isnan(result.estimate[0, 0])
    assert problem.apply.calls < 60


def test_no_column_takes_more_steps_than_there_is_room_for():
    draw = np.random.default_rng(3)
    _, _, points = measured(lambda x: x + draw.standard_normal(1), np.array([1.0]), [[[1.0]]])
    assert len(points) <= 2 * kernels.MAX_STEPS


def test_a_step_that_is_wished_for_again_becomes_one_that_was_not_taken():
    taken = [1.0]
    for _ in range(30):
        taken.append(differences._unused(1.0, taken))
    apart = np.abs(np.subtract.outer(taken, taken)) / taken
    assert (apart[~np.eye(len(taken), dtype=bool)] > 0.1).all()
    assert all(np.frexp(step)[0] in (0.5, 0.75) for step in taken)  # so that x + h is exact
