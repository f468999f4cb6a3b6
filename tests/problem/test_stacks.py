"""Stacks of points in one call: the same answers as one by one, and no answer where apply takes no stacks."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import fdcheck
from fdcheck import Execution, Status, Verdict
from tests.problems import SMOOTH

X0 = np.array([0.1, 0.2, 0.3, 0.4])
CHECK = 7
"""Points that it takes to see whether apply takes stacks."""


def vjp(x, ct):
    return ct * np.cos(x)


def row_by_row(apply):
    """Return a function of stacks that gives bit by bit what apply gives."""
    return lambda stack: np.stack([apply(x) for x in stack])


def plain(report):
    """Return a report without what stacks change in it."""
    found = report.to_dict()
    found.pop("applies")
    found["notes"] = [note for note in found["notes"] if "points were evaluated in" not in note]
    return found


@pytest.mark.parametrize("problem", SMOOTH, ids=lambda problem: problem.name)
def test_right_and_wrong_claims_get_the_same_report(problem):
    wrong = next(problem.wrong_twins())
    for claim, verdict in ((problem.exact, Verdict.PASS), (lambda x: wrong.matrix, Verdict.FAIL)):
        alone = fdcheck.verify(problem.apply, problem.point(), jacobian=claim)
        execution = Execution(batched=row_by_row(problem.apply))
        stacked = fdcheck.verify(problem.apply, problem.point(), jacobian=claim, execution=execution)
        assert stacked.verdict is verdict
        assert plain(stacked) == plain(alone)
        assert stacked.applies == alone.applies + CHECK


def test_few_calls_evaluate_many_points_and_both_are_told():
    calls = []

    def apply(x):
        calls.append(x.shape)
        return np.sin(x)

    x0 = np.linspace(0.1, 0.9, 100)
    report = fdcheck.verify(apply, x0, vjp=vjp, execution=Execution(batched=True))
    assert report.passed
    assert len(calls) < 12
    assert calls[0] == (100,)  # x0 alone, which the endpoints see too
    assert report.applies == 1 + sum(shape[0] for shape in calls[1:])
    assert f"{report.applies} points were evaluated in {len(calls)} calls of apply (batched)" in report.notes


@pytest.mark.parametrize("points", [1, 3, 50])
def test_memory_limits_the_stacks(points):
    sizes = []

    def stacks(x):
        sizes.append(len(x))
        return np.sin(x)

    each = 3 * X0.nbytes  # x, f(x) and the difference
    execution = Execution(batched=stacks, max_memory=points * each + 1)
    assert fdcheck.verify(np.sin, X0, vjp=vjp, execution=execution)
    assert max(sizes) == min(points, 16)  # four inputs, two steps, two sides


def test_every_kind_of_leaf_is_stacked_or_carried_along():
    seen = []

    def apply(x):
        return {"o": x["a"] * x["s"] ** 2, "t": np.sin(x["s"]) * x["n"] * np.sum(x["r"])}

    def stacks(x):
        seen.append(x)
        s = x["s"]
        return {"o": x["a"] * s[:, None] ** 2, "t": np.sin(s) * x["n"] * np.sum(x["r"], axis=-1)}

    def jvp(x, t):
        return {
            "o": t["a"] * x["s"] ** 2 + x["a"] * 2 * x["s"] * t["s"],
            "t": np.cos(x["s"]) * t["s"] * x["n"] * np.sum(x["r"]),
        }

    x0 = {
        "a": np.asfortranarray([1 + 2j, 2.0], np.complex64), "n": 4, "r": np.array([0.5, 1.0]), "s": np.float32(3.0),
        "word": "carried", "k": np.arange(3),
    }  # fmt: skip
    report = fdcheck.verify(apply, x0, jvp=jvp, input_paths=["a", "s"], execution=Execution(batched=stacks))
    assert report.passed
    assert not fdcheck.verify(
        apply, x0, jvp=lambda x, t: jvp(x, {**t, "s": 2 * t["s"]}), input_paths=["a", "s"],
        execution=Execution(batched=stacks),
    )  # fmt: skip
    k = len(seen[-1]["a"])
    assert seen[-1]["a"].shape == (k, 2)
    assert seen[-1]["a"].dtype == np.complex64
    assert (seen[-1]["s"].shape, seen[-1]["s"].dtype) == ((k,), np.float32)
    assert seen[-1]["r"].shape == (k, 2)  # not selected, but a float all the same
    assert (seen[-1]["n"], seen[-1]["word"], seen[-1]["k"].shape) == (4, "carried", (3,))


# functions that take no stacks


NOT_ROW_BY_ROW = {
    "first three of the stack": lambda x: x[:3],
    "sum over everything": lambda x: np.sum(x**2),
    "norm of everything": lambda x: x / np.linalg.norm(x),
    "reversed along the stack": lambda x: x + x[::-1],
    "running sum through the stack": lambda x: np.cumsum(x).reshape(x.shape),
    "softmax over the stack": lambda x: np.exp(x) / np.exp(x).sum(axis=0),
    "matrix product": lambda x: np.eye(4) @ x,
    "float32 for stacks": lambda x: np.sin(x).astype(np.float32 if x.ndim > 1 else np.float64),
    "a list for stacks": lambda x: list(np.sin(x)) if x.ndim > 1 else np.sin(x),
    "the first row alone": lambda x: np.sin(x[0]) if x.ndim > 1 else np.sin(x),
}


@pytest.mark.parametrize("name", NOT_ROW_BY_ROW)
def test_a_function_that_takes_no_stacks_is_refused_with_a_finding(name):
    apply = NOT_ROW_BY_ROW[name]
    exact = fdcheck.differentiate(apply, X0).value
    alone = fdcheck.verify(apply, X0, jacobian=lambda x: exact)
    assert alone.passed
    report = fdcheck.verify(apply, X0, jacobian=lambda x: exact, execution=Execution(batched=True))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert report.findings[0].endpoint == "apply"
    assert report.findings[0].message.startswith("execution: batched: ")
    assert "stack" in report.findings[0].message


COUPLED = {
    "mean taken off": lambda x: np.sin(x) - np.sin(x).mean(axis=0) + np.sin(x[0]),
    "largest of the stack": lambda x: np.broadcast_to(np.sin(x).max(axis=0), x.shape).copy(),
    "next row": lambda x: np.sin(np.roll(x, 1, axis=0)),
    "last row for all": lambda x: np.sin(np.broadcast_to(x[-1], x.shape)),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", COUPLED)
def test_points_that_change_each_other_are_noticed_though_equal_ones_do_not(name, dtype):
    execution = Execution(batched=COUPLED[name])
    for factor in (1, -1):
        report = fdcheck.verify(
            np.sin, X0.astype(dtype), vjp=lambda x, ct, f=factor: dtype(f) * vjp(x, ct), execution=execution
        )
        assert report.verdict is Verdict.INCONCLUSIVE
        assert (report.findings[0].endpoint, report.findings[0].status) == ("apply", Status.UNDECIDED)
        assert "another point is in the stack" in report.findings[0].message


def test_noise_is_not_taken_for_points_that_change_each_other():
    draw = np.random.default_rng(0)

    def noisy(x):
        return np.sin(x) + 1e-9 * draw.standard_normal(x.shape)

    report = fdcheck.verify(noisy, X0, vjp=vjp, execution=Execution(batched=True))
    assert [finding.status for finding in report.findings if finding.endpoint == "apply"] == [Status.NONDETERMINISTIC]


def test_sums_in_another_order_are_no_reason_to_refuse():
    weights = np.random.default_rng(0).standard_normal((300, 4)).astype(np.float32)

    def apply(x):
        return np.tanh(x @ weights.T) @ weights

    x0 = X0.astype(np.float32)
    exact = fdcheck.differentiate(lambda x: apply(x.astype(np.float64)), x0).value
    report = fdcheck.verify(apply, x0, jacobian=lambda x: exact, execution=Execution(batched=True))
    assert report.passed


# exceptions and results


def test_a_point_at_which_apply_raises_is_found_in_its_stack():
    def apply(x):
        if (x[..., 3] > 0.4 + 1e-8).any():
            raise ValueError("too far")
        return np.sin(x)

    alone = fdcheck.verify(apply, X0, vjp=vjp)
    stacked = fdcheck.verify(apply, X0, vjp=vjp, execution=Execution(batched=True))
    assert alone.passed
    assert stacked.passed
    notes = [note for note in alone.notes if "too far" in note]
    assert notes
    assert notes == [note for note in stacked.notes if "too far" in note]
    assert not fdcheck.verify(apply, X0, vjp=lambda x, ct: -vjp(x, ct), execution=Execution(batched=True))


def test_an_apply_that_raises_for_stacks_is_told_of():
    def single(x):
        if x.ndim > 1:
            raise TypeError("one at a time")
        return np.sin(x)

    report = fdcheck.verify(single, X0, vjp=vjp, execution=Execution(batched=True))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "TypeError: one at a time" in report.findings[0].message


@pytest.mark.parametrize("answer", [lambda y: y[:-1], lambda y: y[0], lambda y: {"y": y}, lambda y: y.tolist()])
def test_a_stack_of_another_shape_later_on_is_never_a_pass(answer):
    def stacks(x):
        y = np.sin(x)
        return answer(y) if len(x) > 8 else y

    report = fdcheck.verify(np.sin, X0, vjp=vjp, execution=Execution(batched=stacks))
    assert report.verdict is Verdict.INCONCLUSIVE
    assert "for a stack of 16 points" in report.findings[0].message


def test_outputs_that_are_not_finite_hinder_no_others():
    def apply(x):
        return np.stack([np.sin(x[..., 0]), np.full(x.shape[:-1], np.nan), np.full(x.shape[:-1], np.inf)], axis=-1)

    def jacobian(x):
        return np.array([[np.cos(x[0]), 0, 0, 0]] + [[np.nan] * 4] * 2)

    alone = fdcheck.verify(apply, X0, jacobian=jacobian)
    stacked = fdcheck.verify(apply, X0, jacobian=jacobian, execution=Execution(batched=True))
    assert plain(stacked) == plain(alone)


# together with workers and limits


def test_workers_take_stacks_too():
    sizes = []

    def stacks(x):
        sizes.append(len(x))
        return np.sin(x)

    with ThreadPoolExecutor(2) as pool:
        execution = Execution(executor=pool, batched=stacks)
        report = fdcheck.verify(np.sin, X0, vjp=vjp, execution=execution)
        wrong = fdcheck.verify(np.sin, X0, vjp=lambda x, ct: 1.01 * vjp(x, ct), execution=execution)
    assert report.passed
    assert wrong.verdict is Verdict.FAIL
    assert max(sizes) > 2


@pytest.mark.parametrize("most", [16, 17, 20, 23, 24, 25, 28, 31, 32, 39])
@pytest.mark.parametrize("name", ["mean taken off", "last row for all"])
def test_no_budget_is_too_small_to_notice_points_that_change_each_other(name, most):
    for dtype in (np.float64, np.float32):
        execution = Execution(batched=COUPLED[name])
        report = fdcheck.verify(np.sin, X0.astype(dtype), vjp=vjp, execution=execution, max_applies=most)
        assert report.verdict is Verdict.INCONCLUSIVE
        assert report.applies <= most


def test_a_budget_cuts_a_stack_short():
    sizes = []

    def stacks(x):
        sizes.append(len(x))
        return np.sin(x)

    report = fdcheck.verify(np.sin, X0, vjp=vjp, execution=Execution(batched=stacks), max_applies=25)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert report.applies == 25
    assert sum(sizes) == 24


def test_time_may_be_up_between_two_stacks(monkeypatch):
    now = [0.0]
    monkeypatch.setattr("fdcheck.problem.budget.time.monotonic", lambda: now[0])

    def stacks(x):
        now[0] += len(x)
        return np.sin(x)

    execution = Execution(batched=stacks, time_limit=21.5, max_memory=4 * 3 * X0.nbytes + 1)
    report = fdcheck.verify(np.sin, X0, vjp=vjp, execution=execution)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert any("time_limit" in note for note in report.notes)
    assert 0 < report.pairs[0].counts["agrees"] < 16


@pytest.mark.parametrize("seed", range(5))
def test_a_matrix_product_of_a_stack_that_is_rounded_otherwise_remembers_nothing(seed):
    """A library multiplies a matrix with one vector in another order than with two; last bits are no hidden state."""
    draw = np.random.default_rng(seed)
    x, weights = draw.normal(size=300), draw.normal(size=(30, 300))
    report = fdcheck.verify(
        lambda x: weights @ np.sin(x),
        x,
        vjp=lambda x, ct: (weights * np.cos(x)).T @ ct,
        execution=Execution(batched=lambda stack: np.sin(stack) @ weights.T),
        max_evals=3,
    )
    assert report.passed, str(report)
