"""Recommendations for every entry against exact derivatives, on functions whose errors are known; one step for many."""

import numpy as np
import pytest

import fdcheck
from fdcheck.checks.elementwise import limits_from
from fdcheck.checks.plan import whole
from fdcheck.checks.recommending import USUAL, recommend, usual_steps
from fdcheck.checks.sharing import Shared, relative_size
from fdcheck.numerics.ladder import CENTRAL
from fdcheck.problem.callables import Function, Problem
from fdcheck.settings import settings_from
from tests.problems import SMOOTH


def recommended(apply, x0, **options):
    problem = Problem(Function("apply", apply), x0)
    settings = settings_from("strict", **options)
    with np.errstate(all="ignore"):
        return problem, recommend(problem, settings, limits_from(problem, settings), whole(problem))


def central(apply, x0, j, h):
    up, down = x0.copy(), x0.copy()
    up.flat[j] += x0.dtype.type(h)
    down.flat[j] -= x0.dtype.type(h)
    difference = np.asarray(apply(up) - apply(down)).ravel()
    return difference.astype(float) / float(up.flat[j] - down.flat[j])


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_expected_errors_are_real_ones_on_smooth_problems(dtype):
    honest, no_worse, count = 0, 0, 0
    for case in SMOOTH:
        x0 = case.point(dtype)
        _, result = recommended(case.apply, x0)
        exact = case.jacobian(dtype)
        for i, j in zip(*np.nonzero(exact), strict=True):
            real = abs(central(case.apply, x0, j, result.step[CENTRAL][i, j])[i] - exact[i, j])
            last_digit = np.finfo(dtype).eps * abs(exact[i, j])  # errors below it are luck
            real, said = max(real, last_digit), max(result.error[CENTRAL][i, j], last_digit)
            honest += max(said, real) <= 10 * min(said, real)
            no_worse += real <= 10 * said
            count += 1
    assert count > 20
    assert no_worse >= 0.97 * count
    assert honest >= 0.92 * count


def test_every_step_lies_in_its_safe_range():
    rng = np.random.default_rng(3)
    a = rng.normal(size=(6, 5))
    _, result = recommended(lambda x: np.tanh(a @ x) + x.sum() ** 2, rng.normal(size=5))
    exists = np.isfinite(result.low)
    assert exists.all()
    assert ((result.low <= result.step) & (result.step <= result.high)).all()


def test_usual_steps_are_scipys_by_size_and_dtype():
    problem = Problem(
        Function("apply", lambda x: x["a"].sum() + x["b"]), {"a": np.array([1e-3, 50.0]), "b": np.float32(4)}
    )
    steps = dict(zip(USUAL, usual_steps(problem, np.arange(3)), strict=True))
    assert steps["1e-4"].tolist() == [1e-4] * 3
    np.testing.assert_allclose(steps["scipy 2-point"], [2.0**-26, 50 * 2.0**-26, 4 * 2.0**-11.5])
    np.testing.assert_allclose(steps["scipy 3-point"], np.cbrt([2.0**-52, 2.0**-52, 2.0**-23]) * [1, 50, 4])


def test_a_usual_step_lost_in_the_rounding_of_the_input_costs_everything():
    _, result = recommended(lambda x: 2 * x, np.array([1e12]))
    assert result.usual[list(USUAL).index("1e-6"), 0, 0] == pytest.approx(1)


def test_columns_in_chunks_are_as_columns_at_once(monkeypatch):
    from fdcheck.checks import recommending

    rng = np.random.default_rng(3)
    a = rng.normal(size=(3, 7))
    x0 = rng.normal(size=7)
    _, whole = recommended(lambda x: np.tanh(a @ x), x0)
    monkeypatch.setattr(recommending, "_CHUNK", 6)
    _, parts = recommended(lambda x: np.tanh(a @ x), x0)
    np.testing.assert_array_equal(whole.step, parts.step)
    np.testing.assert_array_equal(whole.shared[0, 0].worst, parts.shared[0, 0].worst)


def test_the_fewest_outside_come_before_the_smallest_error():
    grid = np.array([1.0, 2.0, 4.0])
    shared = Shared(grid, np.array([1e-3, 1e-2, 1e-9]), np.full(3, np.nan), np.array([1, 1, 2]))
    assert shared.choice() == (1.0, 1e-3, 1)
    further = Shared(grid, np.array([1e-1, np.nan, np.nan]), np.full(3, np.nan), np.array([0, 0, 0]))
    assert (shared + further).choice() == (2.0, 1e-2, 1)


def test_entries_without_a_range_have_a_say_only_where_no_other_has():
    grid, nothing, none = np.array([1.0, 2.0]), np.full(2, np.nan), np.zeros(2, np.int64)
    assert Shared(grid, nothing, np.array([3.0, 2.0]), none).choice() == (2.0, 2.0, 0)
    assert Shared(grid, np.array([1.0, 5.0]), np.array([3.0, 2.0]), none).choice() == (1.0, 1.0, 0)
    assert np.isnan(Shared(grid, nothing, nothing, none).choice()[0])


def test_an_error_relative_to_nothing_is_infinite_unless_it_is_nothing_too():
    assert relative_size(np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.0, 2.0])).tolist() == [0.0, np.inf, 0.5]


def test_a_large_input_is_sampled_and_the_rest_is_left_open():
    advice = fdcheck.recommend_eps(lambda x: np.array([np.sin(x["a"]).sum(), x["b"] ** 2]), WIDE, max_evals=20)
    block = advice["y", "a"]
    looked_at = np.isfinite(block.eps).any(axis=0)
    assert looked_at.sum() == 19
    assert np.isfinite(advice["y", "b"].eps).any()
    assert advice.applies <= 20 + 60 * 20
    assert any("19 of 300 of a" in note for note in advice.notes)
    assert 1e-6 < advice.eps_for["a"] < 1e-3
    same = fdcheck.recommend_eps(lambda x: np.array([np.sin(x["a"]).sum(), x["b"] ** 2]), WIDE, max_evals=20)
    assert same.eps_for == advice.eps_for


WIDE = {"a": np.linspace(0.5, 2, 300), "b": 3.0}
