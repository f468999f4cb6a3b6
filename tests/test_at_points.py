"""Checks at several points: what is drawn, what is found where, what it costs, what cannot be used."""

import dataclasses
import re

import numpy as np
import pytest

import fdcheck
from fdcheck import InvalidInput, Status
from fdcheck.checks.points import ATTEMPTS, drawn, is_finite
from fdcheck.problem.callables import Function, Problem
from fdcheck.problem.evaluate import bounds_from, limits_of, unbounded

DTYPES = pytest.mark.parametrize(
    "dtype", [np.float16, np.float32, np.float64, np.longdouble, np.complex64, np.complex128]
)


def leaky(x):
    return np.where(x > 0, x, 0.1 * x)


def leaky_vjp(x, ct):
    return ct * np.where(x > 0, 1.0, 0.1)


def wrong_on_the_left(x, ct):
    return ct * np.where(x > 0, 1.0, 0.2)


def wrong_when_large(x, ct):
    return ct * np.where(x > 1.5 * np.abs(np.arange(1.0, len(x) + 1)), 1.0 + 0.1 * (x > 0), leaky_vjp(x, 1.0))


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("wrong", [wrong_on_the_left, wrong_when_large])
def test_a_derivative_that_is_wrong_in_another_branch_is_found_by_four_points(wrong, seed):
    x0 = np.arange(1.0, 4.0)
    assert fdcheck.verify(leaky, x0, vjp=wrong, seed=seed).passed
    report = fdcheck.verify(leaky, x0, vjp=wrong, seed=seed, points=4)
    assert str(report.verdict) == "fail"
    assert {f.input_index for f in report.findings} == {(0,), (1,), (2,)}  # each element is moved across
    assert all(f.point > 0 for f in report.findings)
    assert str(report.points[0].verdict) == "pass"
    assert fdcheck.verify(leaky, x0, vjp=leaky_vjp, seed=seed, points=4).passed


def test_the_report_says_where_a_finding_was_made():
    report = fdcheck.verify(leaky, np.array([1.0, 2.0]), vjp=wrong_on_the_left, points=4)
    finding = report.findings[0]
    value = report.points[finding.point].values["x"][finding.input_index]
    assert value < 0
    assert (finding.claimed, round(finding.estimated, 4)) == (0.2, 0.1)
    text = " ".join(str(report).split())
    assert f"at point {finding.point}, x[{finding.input_index[0]}] = {value:.6g}" in text
    assert "points 5: x0, 4 drawn around it, seed 0; fail at" in text
    plain = report.to_dict()
    assert plain["findings"][0]["point"] == finding.point
    assert plain["points"][0] == {"origin": "x0", "verdict": "pass", "draw": -1, "values": {}}
    assert plain["points"][finding.point]["values"]["x"][finding.input_index[0]] == value


def test_a_check_of_x0_alone_says_nothing_of_points():
    report = fdcheck.verify(leaky, np.array([1.0]), vjp=leaky_vjp)
    assert [(p.origin, str(p.verdict)) for p in report.points] == [("x0", "pass")]
    assert "points" not in str(report)


def test_given_points_are_checked_in_order_beside_x0():
    points = [np.array([2.0, 3.0]), np.array([-1.0, 2.0]), np.array([5.0, -5.0])]
    before = [p.tobytes() for p in points]
    report = fdcheck.verify(leaky, np.array([1.0, 2.0]), vjp=wrong_on_the_left, points=points)
    assert {(f.point, f.input_index) for f in report.findings} == {(2, (0,)), (3, (1,))}
    assert [(p.origin, str(p.verdict)) for p in report.points] == [
        ("x0", "pass"), ("given", "pass"), ("given", "fail"), ("given", "fail"),
    ]  # fmt: skip
    assert [p.tobytes() for p in points] == before
    assert fdcheck.verify(leaky, np.array([1.0, 2.0]), vjp=wrong_on_the_left, points=np.array(points[:1])).passed


def test_messages_name_the_point_they_are_about():
    report = fdcheck.verify(np.abs, np.array([1.0]), vjp=lambda x, ct: ct * np.sign(x), points=[np.array([0.0])])
    assert report.passed
    assert report.findings[0].status is Status.KINK
    assert report.findings[0].message.startswith("point 1 lies at a kink")


def test_pairs_count_all_points_and_show_the_worst():
    x0 = np.array([1.0, 2.0])
    report = fdcheck.verify(leaky, x0, vjp=wrong_on_the_left, points=[np.array([2.0, 2.0]), np.array([-1.0, 1.0])])
    (pair,) = report.pairs
    assert (pair.entries, pair.failures, pair.point) == (12, 1, 2)
    assert (pair.claimed, round(pair.estimated, 4), pair.input_index) == (0.2, 0.1, (0,))
    assert (report.coverage.inputs, report.coverage.inputs_measured) == (2, 2)
    assert 1e-4 < pair.typical <= pair.sensitivity < 1e-2
    assert report.sensitivity == pair.sensitivity
    assert pair.typical <= report.typical <= report.sensitivity
    assert report.endpoint_calls["vjp"] - report.contract_calls["vjp"] == 6


def test_pairs_of_several_inputs_and_outputs_stay_apart():
    f = lambda x: {"u": x["a"] ** 2, "v": x["b"] * x["a"]}  # noqa: E731
    vjp = lambda x, ct: {"a": 2 * x["a"] * ct["u"] + x["b"] * ct["v"], "b": x["a"] * ct["v"]}  # noqa: E731
    report = fdcheck.verify(f, {"a": 2.0, "b": 3.0}, vjp=vjp, points=2)
    assert [(p.output, p.input, p.entries) for p in report.pairs] == [
        (output, source, 3) for output in "uv" for source in "ab"
    ]


def test_remarks_on_other_points_name_them():
    def f(x):
        if 1.9 < x < 2.1 and x != 2.0:
            raise ValueError("too close")
        return x**2

    report = fdcheck.verify(f, 1.0, vjp=lambda x, ct: 2 * x * ct, points=[1.5, 2.0])
    assert any(note.startswith("point 2: apply raised ValueError: too close") for note in report.notes) or any(
        finding.point == 2 for finding in report.findings
    )
    assert not any(note.startswith("point 1: ") for note in report.notes)


def test_a_diagnosis_is_told_once():
    halved = fdcheck.verify(lambda x: x**2, np.array([1.0, 2.0, 3.0]), vjp=lambda x, ct: ct * x, points=3)
    assert [d.kind for d in halved.diagnoses] == ["factor"]


def test_calls_are_counted_over_all_points():
    calls = []

    def f(x):
        calls.append(x)
        return np.sin(x)

    report = fdcheck.verify(f, np.array([0.3, 0.7]), vjp=lambda x, ct: ct * np.cos(x), points=3)
    assert report.applies == len(calls)
    assert report.applies == 4 * fdcheck.verify(np.sin, np.array([0.3, 0.7]), vjp=lambda x, ct: ct * np.cos(x)).applies


def test_max_applies_is_shared_and_kept():
    calls = []

    def f(x):
        calls.append(1)
        return np.sin(x)

    x0, vjp = np.linspace(0.1, 1.0, 9), lambda x, ct: ct * np.cos(x)
    report = fdcheck.verify(f, x0, vjp=vjp, points=3, max_applies=80)
    assert len(calls) == report.applies <= 80
    assert len(report.points) == 4
    with pytest.raises(InvalidInput, match="max_applies: expected 64 or larger for 4 points, got 50"):
        fdcheck.verify(f, x0, vjp=vjp, points=3, max_applies=50)


def test_progress_expects_all_points():
    told = []
    report = fdcheck.verify(np.sin, np.array([0.3, 0.7]), vjp=lambda x, ct: ct * np.cos(x), points=4,
                            progress=lambda now: told.append((now.done, now.expected)))  # fmt: skip
    assert [done for done, _ in told] == sorted({done for done, _ in told})
    known = [0.8 * report.applies <= expected <= 1.3 * report.applies for _, expected in told]
    assert sum(known) >= 0.9 * len(known)  # not yet at the first calls at a point, before its plan is made


# what is drawn


def problem_at(x0, **paths):
    return Problem(Function("apply", lambda x: np.float64(1.0)), x0, **paths)


@DTYPES
def test_drawn_points_look_like_x0(dtype):
    x0 = {"w": np.asfortranarray(np.full((2, 3), 2.0, dtype)), "s": dtype(3.0), "n": np.array([1, 2]), "t": ("a", None)}
    problem = problem_at(x0)
    points = [drawn(problem, unbounded(problem), 0, k * ATTEMPTS, 4) for k in range(4)]
    for x in points:
        assert x["w"].dtype == dtype
        assert x["w"].shape == (2, 3)
        assert type(x["s"]) is dtype
        assert np.array_equal(x["n"], [1, 2])
        assert x["t"] == ("a", None)
        assert not np.shares_memory(x["w"], x0["w"])
        assert np.abs(x["w"] - 2).max() <= 2 * 2 * np.sqrt(2)
    assert len({x["w"].tobytes() for x in points}) == 4


def test_the_same_seed_draws_the_same_points_and_another_seed_others():
    problem = problem_at(np.array([1.0, 2.0]))
    same = [drawn(problem, unbounded(problem), 3, 0, 4) for _ in range(2)]
    assert np.array_equal(*same)
    assert not np.array_equal(same[0], drawn(problem, unbounded(problem), 4, 0, 4))


def test_every_element_is_once_in_each_part_of_its_range():
    x0 = np.array([1.0, -2.0, 1e6, 1e-6])
    problem = problem_at(x0)
    points = np.array([drawn(problem, unbounded(problem), 0, k * ATTEMPTS, 4) for k in range(4)])
    share = (points - (x0 - 2 * np.abs(x0))) / (4 * np.abs(x0))
    assert (np.sort((4 * share).astype(int), axis=0) == np.arange(4)[:, None]).all()


def test_later_attempts_come_closer_to_x0():
    x0 = np.array([1.0, 2.0])
    problem = problem_at(x0)
    far = [np.abs(drawn(problem, unbounded(problem), 0, a, 1) / x0 - 1).max() for a in range(ATTEMPTS)]
    assert all(distance <= 2 * 0.5**a for a, distance in enumerate(far))


def test_zeros_are_moved_by_the_size_of_their_neighbours():
    problem = problem_at({"a": np.array([0.0, 100.0]), "b": np.zeros(2)})
    points = [drawn(problem, unbounded(problem), 0, k * ATTEMPTS, 4) for k in range(4)]
    assert 20 < max(abs(x["a"][0]) for x in points) <= 200
    assert all((x["b"] != 0).all() for x in points)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_drawn_points_keep_to_the_bounds(dtype):
    x0 = np.array([0.0, 0.1, 1.0], dtype)
    problem = problem_at(x0)
    bounds = bounds_from(problem, limits_of(problem.inputs, (0.0, 1.0)))
    for draw in range(12):
        x = drawn(problem, bounds, 0, draw, 2)
        assert (x >= 0).all()
        assert (x <= 1).all()


def test_drawn_points_stay_in_the_range_of_float16():
    problem = problem_at(np.array([6e4, -6e4], np.float16))
    assert all(np.isfinite(drawn(problem, unbounded(problem), 0, k, 4)).all() for k in range(4 * ATTEMPTS))


def test_inputs_that_are_not_selected_stay_where_they_are():
    seen = []

    def f(x):
        seen.append(float(x["b"]))
        return x["a"] * x["b"]

    fdcheck.verify(f, {"a": 1.0, "b": 2.0}, vjp=lambda x, ct: {"a": ct * x["b"], "b": None}, input_paths="a", points=3)
    assert set(seen) == {2.0}


@pytest.mark.parametrize("bad", ["raises", "nan", "inf"])
def test_points_where_apply_is_not_finite_are_drawn_again_closer(bad):
    def f(x):
        if (x <= 0).any():
            if bad == "raises":
                raise ValueError("x > 0 is needed")
            return np.full_like(x, np.nan if bad == "nan" else np.inf)
        return np.log(x)

    report = fdcheck.verify(f, np.array([1.0, 2.0, 3.0]), vjp=lambda x, ct: ct / x, points=4)
    assert report.passed, report
    assert [p.origin for p in report.points] == ["x0"] + ["drawn"] * 4
    assert any(p.draw % ATTEMPTS for p in report.points)
    assert re.search(r"\d of \d+ points drawn around x0 were not used", report.notes[0])
    assert str(fdcheck.verify(f, np.array([1.0, 2.0, 3.0]), vjp=lambda x, ct: 1.1 * ct / x, points=4).verdict) == "fail"


def test_where_no_point_is_finite_the_report_says_so():
    x0 = np.array([1.0, 2.0])

    def f(x):
        if np.abs(x - x0).max() > 0.01:
            raise ValueError("too far")
        return np.sin(x)

    report = fdcheck.verify(f, x0, vjp=lambda x, ct: ct * np.cos(x), points=2)
    assert report.passed
    assert len(report.points) == 1
    assert "0 of 2 points around x0 were checked; at no more was apply found finite" in report.notes


def test_an_output_that_is_nan_everywhere_does_not_keep_points_from_being_drawn():
    f = lambda x: {"a": np.sin(x), "b": np.full(2, np.nan)}  # noqa: E731
    vjp = lambda x, ct: ct["a"] * np.cos(x)  # noqa: E731
    report = fdcheck.verify(f, np.array([0.3, 0.7]), vjp=vjp, output_paths="a", points=2)
    assert report.passed
    assert len(report.points) == 3
    problem = Problem(Function("apply", f), np.array([0.3, 0.7]))
    assert is_finite(problem, problem)


def test_a_given_point_where_apply_is_not_finite_is_no_pass():
    log = lambda x: np.log(np.where(x > 0, x, np.nan))  # noqa: E731
    report = fdcheck.verify(log, np.array([1.0]), vjp=lambda x, ct: ct / x, points=[np.array([-1.0]), np.array([2.0])])
    assert str(report.verdict) == "inconclusive"
    assert [str(p.verdict) for p in report.points] == ["pass", "inconclusive", "pass"]
    assert {f.point for f in report.findings} == {1}


def test_a_given_point_where_apply_raises_is_no_pass():
    def f(x):
        if x < 0:
            raise ValueError("negative")
        return x**2

    report = fdcheck.verify(f, 1.0, vjp=lambda x, ct: 2 * x * ct, points=[-1.0, 2.0])
    assert str(report.verdict) == "inconclusive"
    assert [(f.point, f.status) for f in report.findings] == [(1, Status.RAISED)]
    assert "at point 1" in report.findings[0].message
    assert [str(p.verdict) for p in report.points] == ["pass", "inconclusive", "pass"]


def test_where_x0_cannot_be_evaluated_given_points_still_are():
    def f(x):
        if x < 0:
            raise ValueError("negative")
        return x**2

    report = fdcheck.verify(f, -1.0, vjp=lambda x, ct: 3 * x * ct, points=[2.0])
    assert str(report.verdict) == "fail"
    assert {(f.point, f.status) for f in report.findings} == {(0, Status.RAISED), (1, Status.DISAGREES)}
    alone = fdcheck.verify(f, -1.0, vjp=lambda x, ct: 3 * x * ct, points=3)
    assert str(alone.verdict) == "inconclusive"
    assert len(alone.points) == 1


def test_points_keep_to_the_directions():
    sums = []

    def f(p):
        sums.append(p.sum())
        if (p < 0).any():
            raise ValueError("negative")
        return np.sum(p**2)

    options = {"directions": [[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]], "points": 4}
    report = fdcheck.verify(f, np.array([0.2, 0.3, 0.5]), vjp=lambda p, ct: 2 * p * ct, **options)
    assert report.passed
    assert len(report.points) == 5
    assert np.allclose(sums, 1, rtol=0, atol=1e-12)
    wrong = lambda p, ct: ct * np.where(p < 0.15, 1.0, 2 * p)  # noqa: E731
    report = fdcheck.verify(f, np.array([0.2, 0.3, 0.5]), vjp=wrong, **options)
    assert str(report.verdict) == "fail"
    assert all(report.points[f.point].values["x"].min() < 0.15 for f in report.findings)


def test_large_points_are_not_kept():
    report = fdcheck.verify(np.sin, np.full(1001, 0.5), vjp=lambda x, ct: ct * np.cos(x), points=1, max_evals=3)
    assert report.points[1].values == {}


def test_a_sample_is_the_same_at_every_point():
    report = fdcheck.verify(np.sin, np.linspace(0.1, 1, 50), jvp=lambda x, t: t * np.cos(x), points=2, max_evals=5)
    assert report.passed
    assert report.coverage.elements == {"x": (5, 50)}
    assert sum(note.startswith("sample of input elements") for note in report.notes) == 1


# what cannot be used


@dataclasses.dataclass
class Pair:
    a: float
    b: np.ndarray


@pytest.mark.parametrize(
    ("points", "words"),
    [
        (-1, "points: expected a whole number, 0 or larger, got -1"),
        (1.5, "points: expected a whole number or a list of points like x0, got 1.5"),
        ("3", "points: expected a whole number or a list of points like x0, got '3'"),
        (True, "points: expected a whole number"),
        ({"a": 1.0}, "points: expected a whole number or a list"),
        ([Pair(1.0, np.ones(2)), 3.0], "points[1]: expected the structure of x0, a (), b (2,), got another"),
        ([Pair(1, np.ones(2))], "points[0]: expected float64 at a, as in x0, got int"),
        ([Pair(1.0, np.ones(2, np.float32))], "points[0]: expected float64 at b, as in x0, got float32"),
        ([Pair(1.0, np.ones(2)), Pair(np.nan, np.ones(2))], "points[1]: x0: expected finite numbers, got nan at a"),
        ([Pair(9.0, np.ones(2))], "points[0]: bounds: x0 lies outside at a: 9 is not in [-5, 5]"),
    ],
)
def test_points_that_cannot_be_used_are_named(points, words):
    f = lambda x: x.a * x.b  # noqa: E731
    vjp = lambda x, ct: Pair(float(ct @ x.b), ct * x.a)  # noqa: E731
    with pytest.raises(InvalidInput) as error:
        fdcheck.verify(f, Pair(1.0, np.ones(2)), vjp=vjp, points=points, bounds=(-5.0, 5.0))
    assert words in str(error.value)


def test_the_environment_may_set_how_many_points(monkeypatch):
    monkeypatch.setenv("FDCHECK_POINTS", "2")
    assert len(fdcheck.verify(leaky, np.array([1.0]), vjp=leaky_vjp).points) == 3
    assert len(fdcheck.verify(leaky, np.array([1.0]), vjp=leaky_vjp, points=0).points) == 1
    assert len(fdcheck.verify(leaky, np.array([1.0]), vjp=leaky_vjp, points=[np.array([3.0])]).points) == 2
