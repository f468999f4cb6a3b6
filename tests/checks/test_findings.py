"""What was measured, told in words: pairs, entries, messages, the order of severity."""

import numpy as np
import pytest

import fdcheck
from fdcheck import Finding, Status
from fdcheck.checks import findings as module
from fdcheck.checks.elementwise import limits_from, measure
from fdcheck.checks.findings import STATUS_OF_CODE, by_severity, compared, entry_findings
from fdcheck.checks.pairs import pairs_of
from fdcheck.checks.plan import whole
from fdcheck.numerics import kernels
from fdcheck.problem.callables import Function, Problem
from fdcheck.problem.endpoints import Claimed
from fdcheck.settings import settings_from
from tests.problems import BY_NAME

ARM = BY_NAME["arm"]


def comparisons(apply, x0, claims, **options):
    """Return (problem, one comparison per endpoint)."""
    settings = settings_from(**options)
    problem = Problem(Function("apply", apply), x0)
    with np.errstate(all="ignore"):
        matrix = np.array(claims, float)
        names = tuple(f"e{k}" for k in range(len(claims)))
        claimed = Claimed(names, matrix, np.ones(matrix.shape[:2], bool), np.zeros(matrix.shape, bool))
        found = measure(problem, claimed, settings, limits_from(problem, settings), whole(problem))
    return problem, compared(claimed, found)


def only(report, status):
    found = [f for f in report.findings if f.status is status]
    assert len(found) == 1, str(report)
    return found[0]


def jacobian(matrix):
    return lambda _: np.asarray(matrix, float)


def test_every_code_has_a_status():
    codes = {kernels.AGREES, kernels.DISAGREES, kernels.KINK, kernels.JUMP, kernels.NOISE, kernels.CURVATURE}
    codes |= {kernels.EDGE, kernels.NONFINITE}
    assert set(STATUS_OF_CODE) == codes
    undecided = {code for code, status in STATUS_OF_CODE.items() if status is Status.UNDECIDED}
    assert undecided == {kernels.NOISE, kernels.CURVATURE, kernels.EDGE}


def test_excess_and_sensitivity():
    right = ARM.jacobian()
    _, (same, off, odd) = comparisons(ARM.apply, ARM.x0, [right, 1.1 * right, np.full((2, 2), np.nan)])
    assert (same.excess < 0.1).all()
    np.testing.assert_allclose(off.excess, 0.1 / (1e-3 * 1.1), rtol=0.15)  # 10 % of an entry over 0.1 % of the larger
    assert np.isinf(odd.excess).all()
    assert (np.abs(same.sensitivity - 1e-3) < 4e-4).all()


def test_sensitivity_is_an_error_that_is_noticed_indeed():
    right = ARM.jacobian()
    matrix = [right]
    report = fdcheck.verify(ARM.apply, ARM.x0, jacobian=lambda _: matrix[0])
    for factor in (1 + 1.5 * report.sensitivity, 1 - 1.5 * report.sensitivity):
        matrix[0] = factor * right
        assert not fdcheck.verify(ARM.apply, ARM.x0, jacobian=lambda _: matrix[0])


def test_pairs_count_every_entry_and_show_the_worst():
    x0 = {"a": np.array([0.5, 1.5]), "b": 2.0}

    def apply(x):
        return {"s": x["a"] * x["b"], "t": np.sin(x["b"])}

    right = np.zeros((1, 3, 3))
    right[0, 0, 0] = right[0, 1, 1] = 2.0
    right[0, :, 2] = [0.5, 1.5, np.cos(2.0)]
    right[0, 1, 2] = 1.8
    problem, (comparison,) = comparisons(apply, x0, right)
    pairs = {(pair.output, pair.input): pair for pair in pairs_of(problem, comparison)}
    assert {key: pair.entries for key, pair in pairs.items()} == {
        ("s", "a"): 4,
        ("s", "b"): 2,
        ("t", "a"): 2,
        ("t", "b"): 1,
    }
    worst = pairs["s", "b"]
    assert worst.counts == {"agrees": 1, "disagrees": 1}
    assert (worst.failures, worst.output_index, worst.claimed) == (1, (1,), 1.8)
    assert worst.estimated == pytest.approx(1.5, abs=1e-6)
    assert all(pair.failures == 0 for key, pair in pairs.items() if key != ("s", "b"))
    assert np.isnan(pairs["t", "a"].sensitivity)  # all of it is zero


def test_a_pair_without_failures_shows_its_largest_excess():
    problem, (comparison,) = comparisons(ARM.apply, ARM.x0, [ARM.jacobian()])
    comparison.excess[1, 0] = 0.9
    (pair,) = pairs_of(problem, comparison)
    assert pair.failures == 0
    assert (pair.output_index, pair.input_index, pair.excess) == ((1,), (0,), 0.9)


def test_a_pair_shows_a_failure_before_any_larger_excess():
    problem, (comparison,) = comparisons(ARM.apply, ARM.x0, [ARM.jacobian() * [[1, 1.02], [1, 1]]])
    comparison.excess[1, 1] = 1e9
    (pair,) = pairs_of(problem, comparison)
    assert pair.output_index + pair.input_index == (0, 1)


def test_entry_findings_are_the_odd_entries_worst_first():
    wrong = ARM.jacobian() * [[1.02, 1.5], [1.0, 1.1]]
    problem, (comparison,) = comparisons(ARM.apply, ARM.x0, [wrong])
    found = entry_findings(problem, comparison)
    assert [f.output_index + f.input_index for f in found] == [(0, 1), (1, 1), (0, 0)]
    for f in found:
        entry = f.output_index + f.input_index
        assert f.claimed == wrong[entry]
        assert abs(f.estimated - ARM.jacobian()[entry]) <= f.error
        np.testing.assert_array_equal(f.column_claimed, wrong[:, entry[1]])
        np.testing.assert_allclose(f.column_estimated, ARM.jacobian()[:, entry[1]], rtol=1e-4)
        assert len(f.steps) >= 3
        assert all(a.eps < b.eps for a, b in zip(f.steps, f.steps[1:], strict=False))
    assert entry_findings(problem, comparisons(ARM.apply, ARM.x0, [ARM.jacobian()])[1][0]) == []


def test_only_so_many_are_listed_and_all_are_counted(monkeypatch):
    monkeypatch.setattr(module, "_LISTED", 3)
    x = np.linspace(0.5, 1.5, 6)
    report = fdcheck.verify(np.sin, x, jacobian=jacobian(np.diag(1.5 * np.cos(x))))
    assert len(report.findings) == 3
    assert report.pairs[0].failures == 6


# messages


def test_the_message_of_a_failure_has_both_numbers_and_says_that_it_is_stable():
    report = fdcheck.verify(np.exp, np.array([1.0]), jacobian=jacobian([[2.5]]))
    message = only(report, Status.DISAGREES).message
    assert "claimed 2.5, measured 2.71828" in message
    assert "stable over" in message
    assert message.endswith("the derivative is wrong.")


def test_a_claim_that_is_not_finite():
    report = fdcheck.verify(np.exp, np.array([1.0]), jacobian=jacobian([[np.inf]]))
    assert "the measurement is finite, the claim is not" in only(report, Status.DISAGREES).message


def test_a_claim_outside_of_a_kink():
    report = fdcheck.verify(lambda x: np.maximum(2 * x, -x), np.array([0.0]), jacobian=jacobian([[3.0]]))
    message = only(report, Status.DISAGREES).message
    assert "kink: slope -1 on the left and 2 on the right" in message
    assert "not between them" in message


def test_a_jump():
    report = fdcheck.verify(lambda x: np.where(x < 1, x, 3 * x), np.array([1.0]), jacobian=jacobian([[3.0]]))
    assert only(report, Status.JUMP).message.startswith("apply jumps at x0; the claim 3 ")
    other = fdcheck.verify(lambda x: np.where(x < 1, x, 3 * x), np.array([1.0]), jacobian=jacobian([[9.0]]))
    assert "jumps at x0" in only(other, Status.DISAGREES).message


def test_nothing_finite():
    report = fdcheck.verify(lambda x: x * np.nan, np.array([1.0]), jacobian=jacobian([[3.0]]))
    assert "nothing finite" in only(report, Status.NONFINITE).message


def test_a_rough_solver_is_named_and_a_gross_error_is_not_excused():
    x = np.array([0.7])
    report = fdcheck.verify(lambda x: np.round(np.exp(x), 4), x, jacobian=jacobian([[np.exp(0.7)]]))
    message = only(report, Status.UNDECIDED).message
    assert message.startswith("rough solver")
    assert "tighten the solver's tolerance" in message
    assert not fdcheck.verify(np.exp, x, jacobian=jacobian([[2 * np.exp(0.7)]]))


def test_a_forced_step_that_is_too_small_names_the_dtype_and_a_better_one():
    x = np.array([0.7], np.float32)
    report = fdcheck.verify(np.sin, x, jacobian=jacobian(np.cos([[0.7]])), eps=1e-7)
    message = only(report, Status.UNDECIDED).message
    assert message.startswith("step too small for float32: at the forced step 1e-07")
    better = float(message.split("try ")[1].rstrip("."))
    assert fdcheck.verify(np.sin, x, jacobian=jacobian(np.cos([[0.7]])), eps=better).verdict == "pass"


def test_a_forced_step_that_is_too_coarse_says_so():
    x = np.array([0.7])
    report = fdcheck.verify(lambda x: np.sin(30 * x), x, jacobian=jacobian([[30 * np.cos(21.0)]]), eps=0.05)
    assert "too coarse" in only(report, Status.UNDECIDED).message


def test_parts_of_complex_entries_are_named():
    z = np.array([0.3 + 0.8j])
    report = fdcheck.verify(np.exp, z, jvp=lambda z, t: np.exp(z) * t.real)
    assert {f.part for f in report.findings} == {"Re(y) by Im(x)", "Im(y) by Im(x)"}
    second = fdcheck.verify(np.exp, np.append(0.2j, z), jvp=lambda z, t: np.exp(z) * np.array([t[0], t[1].real]))
    assert {f.part for f in second.findings} == {"Re(y) by Im(x)", "Im(y) by Im(x)"}
    assert {f.input_index for f in second.findings} == {(1,)}
    real = fdcheck.verify(lambda z: z.real, z, jvp=lambda z, t: t.imag)
    assert {f.part for f in real.findings} == {"Re(x)", "Im(x)"}
    assert real.findings[0].column_claimed.shape == (1,)
    assert report.findings[0].column_claimed.shape == (1, 2)


# order


def test_breaches_come_first_and_what_apply_did_comes_last():
    def finding(endpoint, status):
        return Finding(endpoint, status, f"{endpoint} {status}")

    order = [
        ("jvp", Status.RAISED),
        ("jvp", Status.DISAGREES),
        ("vjp", Status.DISAGREES),
        ("apply", Status.NONDETERMINISTIC),  # why the rest is open
        ("jvp", Status.NONFINITE),
        ("jvp", Status.UNDECIDED),
        ("jvp", Status.JUMP),
        ("vjp", Status.KINK),
        ("apply", Status.RAISED),
    ]
    expected = [finding(*pair) for pair in order]
    mixed = [expected[k] for k in (8, 6, 1, 7, 4, 0, 2, 5, 3)]
    assert list(by_severity(mixed)) == expected


def test_every_status_has_a_place_in_the_order():
    every = [Finding("vjp", status, "") for status in Status]
    assert len(list(by_severity(every))) == len(Status)
