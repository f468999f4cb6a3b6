"""Which elements a check looks at: budgets, shares of paths, and samples that narrowing does not change."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fdcheck
from fdcheck.checks.plan import planned, whole
from fdcheck.problem.callables import Function, Problem
from fdcheck.settings import settings_from


def problem_of(x0, apply=lambda x: 1.0, **paths):
    return Problem(Function("apply", apply), x0, **paths)


def plan_of(x0, paths=None, **options):
    return planned(problem_of(x0, input_paths=paths), settings_from(**options))


def moved_elements(apply, x0, **options):
    """Return the report and which elements of which leaf were ever moved alone."""
    seen = set()

    def recorded(x):
        changes = [(path, int(k)) for path in x0 for k in np.flatnonzero(x[path] != x0[path])]
        if len(changes) == 1:
            seen.update(changes)
        return apply(x)

    return fdcheck.verify(recorded, x0, **options), seen


def total(x):
    return np.array([np.sum(np.sin(part)) for part in x.values()])


def total_vjp(x, ct):
    return {path: c * np.cos(part) for c, (path, part) in zip(ct, x.items(), strict=True)}


def total_jvp(x, t):
    return np.array([np.sum(t[path] * np.cos(part)) for path, part in x.items()])


X = {"a": np.linspace(0.1, 1, 300), "b": np.linspace(1, 2, 60), "c": np.linspace(2, 3, 5)}


def test_a_small_input_is_measured_whole():
    plan = plan_of(X)
    assert plan.is_whole
    assert plan.columns.tolist() == list(range(365))
    assert plan.others.size == 0
    assert plan.elements == {"a": (300, 300), "b": (60, 60), "c": (5, 5)}


def test_every_path_gives_some_elements_and_the_rest_is_in_proportion():
    plan = plan_of(X, max_evals=100)
    assert not plan.is_whole
    taken = {path: k for path, (k, _) in plan.elements.items()}
    assert sum(taken.values()) == 100
    assert taken["c"] == 5
    assert taken["b"] >= 8
    assert 3.5 <= taken["a"] / taken["b"] <= 5.5
    assert sorted([*plan.columns, *plan.others]) == list(range(365))


@given(
    sizes=st.lists(st.integers(0, 50), min_size=1, max_size=12).filter(any),
    most=st.integers(1, 200),
    seed=st.integers(0, 5),
)
def test_a_sample_is_as_large_as_the_budget_and_repeats_nothing(sizes, most, seed):
    x0 = [np.ones(size) for size in sizes]
    plan = plan_of(x0, max_evals=most, seed=seed)
    assert len(plan.columns) == len(set(plan.columns.tolist())) == min(most, sum(sizes))
    assert (plan.columns >= 0).all()
    assert (plan.columns < sum(sizes)).all()
    for k, (taken, size) in enumerate(
        plan.elements[f"x[{k}]" if len(sizes) > 1 else "x[0]"] for k in range(len(sizes))
    ):
        assert size == sizes[k]
        assert taken <= size
        if most >= 8 * len(sizes):
            assert taken >= min(size, 8)


def test_a_complex_element_is_moved_along_both_axes():
    plan = plan_of(np.ones(50, complex), max_evals=7)
    assert plan.elements == {"x": (7, 50)}
    real, imaginary = plan.columns[::2], plan.columns[1::2]
    assert (real % 2 == 0).all()
    assert (imaginary == real + 1).all()


def test_a_budget_of_applies_is_kept_to_and_makes_the_sample_smaller():
    for most in (16, 30, 60, 100, 400):
        report, _ = moved_elements(total, X, vjp=total_vjp, max_applies=most)
        assert report.applies <= most
        assert report.verdict != "fail"
    assert 10 < report.coverage.inputs_measured < 365
    assert report.passed


@pytest.mark.parametrize("most", [16, 24, 40, 80])
def test_a_budget_never_turns_a_right_claim_into_a_failure_nor_a_wrong_one_into_a_pass(most):
    draw = np.random.default_rng(5)
    weights = draw.normal(size=(6, 6))
    x0 = draw.normal(size=6)
    matrix = (1 - np.tanh(weights @ x0) ** 2)[:, None] * weights
    for dtype in (np.float64, np.float32):
        x = x0.astype(dtype)

        def network(x, w=weights):
            return np.tanh(w.astype(x.dtype) @ x)

        right = fdcheck.verify(network, x, jacobian=lambda _: matrix, max_applies=most)
        wrong = fdcheck.verify(network, x, jacobian=lambda _: 1.5 * matrix, max_applies=most)
        assert max(right.applies, wrong.applies) <= most
        assert right.verdict != "fail"
        assert wrong.verdict != "pass"


def test_a_rough_solver_is_not_accused_when_the_budget_ends_before_its_jumps_are_found():
    def solved(x):
        root, before = 1.0, 0.0
        while abs(root - before) > 1e-4:
            root, before = 0.7 * root + 0.3 * float(x[0]) / root, root
        return np.array([root])

    x0 = np.array([2.7])
    for most in (20, 40, 60, 100):
        report = fdcheck.verify(solved, x0, jacobian=lambda x: np.array([[0.5 / np.sqrt(x[0])]]), max_applies=most)
        assert report.verdict != "fail", (most, str(report))


def test_the_same_seed_sees_the_same_elements_with_one_endpoint_or_one_path_fewer():
    options = {"max_evals": 40, "seed": 7}
    both, seen = moved_elements(total, X, vjp=total_vjp, jvp=total_jvp, **options)
    assert both.passed
    _, with_one_endpoint = moved_elements(total, X, vjp=total_vjp, **options)
    assert with_one_endpoint == seen
    _, with_one_path_fewer = moved_elements(total, X, vjp=total_vjp, input_paths=["a", "c"], **options)
    assert with_one_path_fewer == {(path, k) for path, k in seen if path != "b"}
    _, with_another_seed = moved_elements(total, X, vjp=total_vjp, max_evals=40, seed=8)
    assert with_another_seed != seen


def test_every_endpoint_is_asked_about_the_same_elements():
    tangents = []

    def jvp(x, t):
        tangents.append(np.concatenate(list(t.values())))
        return total_jvp(x, t)

    _, seen = moved_elements(total, X, vjp=total_vjp, jvp=jvp, max_evals=30)
    one_hot = [int(np.flatnonzero(t)[0]) for t in tangents if np.count_nonzero(t) == 1]
    starts = {"a": 0, "b": 300, "c": 360}
    assert sorted(one_hot) == sorted(starts[path] + k for path, k in seen)


def test_a_vjp_is_called_for_a_sample_of_outputs():
    calls = []

    def vjp(x, ct):
        calls.append(np.flatnonzero(ct))
        return ct * np.cos(x)

    x0 = np.linspace(0.1, 1, 40)
    report = fdcheck.verify(np.sin, x0, vjp=vjp, max_output_samples=6)
    assert report.passed
    assert report.endpoint_calls == {"vjp": 8}  # and two random sums of all outputs
    assert len({int(i[0]) for i in calls if len(i) == 1}) == 6
    assert report.coverage.outputs_measured == 40
    assert sum(pair.entries for pair in report.pairs) == 6 * 40
    assert any("6 of 40 output elements" in note for note in report.notes)


def test_the_jvp_still_sees_every_output_when_the_vjp_does_not():
    x0 = np.linspace(0.1, 1, 20)
    report = fdcheck.verify(
        np.sin, x0, vjp=lambda x, ct: ct * np.cos(x), jvp=lambda x, t: t * np.cos(x), max_output_samples=3
    )
    assert {pair.endpoint: pair.entries for pair in report.pairs} == {"vjp": 60, "jvp": 400}


def test_the_report_says_what_was_covered():
    report = fdcheck.verify(total, X, vjp=total_vjp, max_evals=40, seed=3)
    assert report.coverage.inputs_measured == 40
    assert report.coverage.inputs == 365
    assert sum(k for k, _ in report.coverage.elements.values()) == 40
    text = " ".join(str(report).split())
    assert "40 of 365 input elements moved" in text
    assert "seed 3" in text
    assert "max_evals" in text


def test_the_whole_plan_is_everything():
    plan = whole(problem_of({"a": np.ones(3), "b": np.ones(2, complex)}))
    assert plan.is_whole
    assert plan.size == 7
    assert plan.elements == {"a": (3, 3), "b": (2, 2)}


@pytest.mark.parametrize("most", [20, 24, 27, 31, 40])
def test_a_rounded_output_is_not_accused_when_the_budget_ends_early(most):
    for x0 in (0.6, 1.0, 1.4):
        report = fdcheck.verify(
            lambda x: np.round(np.sin(x), 3), np.array([x0]), jacobian=lambda x: np.diag(np.cos(x)), max_applies=most
        )
        assert report.verdict == "inconclusive", str(report)
        assert report.applies <= most


def test_what_a_spent_budget_left_open_is_said_to_be_so():
    report = fdcheck.verify(np.sin, np.linspace(0.1, 1, 3), vjp=lambda x, ct: ct * np.cos(x), max_applies=16)
    assert report.verdict == "inconclusive"
    assert all("max_applies" in finding.message for finding in report.findings)
    assert any("the budget of 16 calls of apply is spent" in note for note in report.notes)


def test_the_noise_of_outputs_that_the_sample_does_not_move_is_known():
    def jittery(x):  # a noise of 1e-6 that hangs on the bits of each input
        bits = x.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        return np.sin(x) + 1e-6 * ((bits >> np.uint64(40)).astype(float) / 2**24 - 0.5)

    x0 = np.linspace(0.1, 1, 12)
    for seed in range(5):
        report = fdcheck.verify(jittery, x0, vjp=lambda x, ct: ct * np.cos(x), max_evals=2, seed=seed)
        assert report.verdict != "fail", str(report)


@pytest.mark.parametrize("most", [28, 34, 40])
def test_a_budget_that_ends_while_a_wrong_entry_is_looked_for_makes_nothing_nonfinite(most):
    draw = np.random.default_rng(0)
    matrix = draw.normal(size=(20, 2000)) / 40
    x0 = draw.normal(size=2000)

    def wrong_vjp(x, ct):
        gradient = matrix.T @ (ct * (1 - np.tanh(matrix @ x) ** 2))
        gradient[777] = 0.0
        return gradient

    report = fdcheck.verify(lambda x: np.tanh(matrix @ x), x0, vjp=wrong_vjp, max_applies=most)
    assert report.verdict is fdcheck.Verdict.INCONCLUSIVE
    assert {str(finding.status) for finding in report.findings} == {"undecided"}
    assert all("max_applies" in finding.message for finding in report.findings)
