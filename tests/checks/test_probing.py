"""Inputs outside of the sample: a wrong entry among thousands is found and named, a right claim is not accused."""

import numpy as np
import pytest

import fdcheck
from fdcheck import Status

N, M = 3000, 5
DRAW = np.random.default_rng(11)
WEIGHTS = DRAW.normal(size=(M, N)) / np.sqrt(N)
POINT = DRAW.normal(size=N)


def network(x):
    return np.tanh(WEIGHTS.astype(x.dtype) @ x)


def exact(x):
    return (1 - np.tanh(WEIGHTS @ x.astype(float)) ** 2)[:, None] * WEIGHTS


def endpoint(kind, matrix):
    """Return a matrix as one of the three endpoints."""
    forms = {
        "jacobian": lambda x: matrix,
        "jvp": lambda x, t: (matrix @ t).astype(x.dtype),
        "vjp": lambda x, ct: (matrix.T @ ct).astype(x.dtype),
    }
    return {kind: forms[kind]}


every_kind = pytest.mark.parametrize("kind", ["jacobian", "jvp", "vjp"])
every_dtype = pytest.mark.parametrize("dtype", [np.float64, np.float32])


@every_kind
@every_dtype
def test_a_right_claim_passes_and_the_report_says_how_the_rest_was_looked_at(kind, dtype):
    x = POINT.astype(dtype)
    report = fdcheck.verify(network, x, **endpoint(kind, exact(x)), max_evals=50)
    assert report.passed, str(report)
    assert any("2950 input coordinates" in note and "agree" in note for note in report.notes)
    assert report.applies <= 10 + 6 * 50 + 30


@every_kind
@every_dtype
@pytest.mark.parametrize("factor", [2.0, -1.0, 0.0])
def test_one_wrong_entry_outside_of_the_sample_is_found_and_named(kind, dtype, factor):
    x = POINT.astype(dtype)
    sample = fdcheck.verify(network, x, jacobian=lambda _: exact(x), max_evals=50)
    assert sample.passed
    wrong = exact(x)
    row, column = 3, 2345
    wrong[row, column] *= factor
    report = fdcheck.verify(network, x, **endpoint(kind, wrong), max_evals=50)
    assert report.verdict == "fail", str(report)
    failing = [f for f in report.findings if f.status is Status.DISAGREES]
    assert [(f.output_index, f.input_index) for f in failing] == [((row,), (column,))]
    assert report.applies <= 10 + 6 * 50 + 150


@every_kind
def test_a_nan_outside_of_the_sample_is_found(kind):
    wrong = exact(POINT)
    wrong[2, 1234] = np.nan
    report = fdcheck.verify(network, POINT, **endpoint(kind, wrong), max_evals=50)
    assert report.verdict == "fail"


@every_kind
def test_two_swapped_columns_are_found(kind):
    wrong = exact(POINT)
    wrong[:, [400, 2500]] = wrong[:, [2500, 400]]
    report = fdcheck.verify(network, POINT, **endpoint(kind, wrong), max_evals=50)
    assert report.verdict == "fail"
    assert {f.input_index for f in report.findings} <= {(400,), (2500,)}


@every_kind
def test_small_errors_that_keep_to_the_tolerance_are_no_failure(kind):
    for factor in (1.0004, 0.9995):
        report = fdcheck.verify(network, POINT, **endpoint(kind, factor * exact(POINT)), max_evals=50)
        assert report.passed, str(report)
    scattered = exact(POINT) * (1 + 5e-4 * np.random.default_rng(2).choice([-1, 1], (M, N)))
    assert fdcheck.verify(network, POINT, **endpoint(kind, scattered), max_evals=50).passed


def test_kinks_outside_of_the_sample_are_no_failure():
    x0 = POINT.copy()
    x0[::3] = 0.0  # relu has a kink there

    def relu_sum(x):
        return np.array([np.maximum(x[: N // 2], 0).sum() - np.maximum(x[N // 2 :], 0).sum()])

    sign = np.where(np.arange(N) < N // 2, 1.0, -1.0)
    for subgradient in (0.0, 0.5, 1.0):
        claim = sign * np.where(x0 > 0, 1.0, np.where(x0 == 0, subgradient, 0.0))
        report = fdcheck.verify(relu_sum, x0, jacobian=lambda _, c=claim: c[None, :], max_evals=40)
        assert report.verdict != "fail", str(report)


def test_bounds_hold_for_the_direction_too():
    x0 = np.linspace(0, 1, N)
    seen = []

    def rooted(x):
        seen.append((float(x.min()), float(x.max())))
        return np.array([np.sqrt(x).sum(), (x**2).sum()])

    matrix = np.stack([0.5 / np.sqrt(np.maximum(x0, 1e-300)), 2 * x0])
    fdcheck.verify(rooted, x0, jacobian=lambda _: matrix, max_evals=30, bounds=(0.0, 1.0))
    assert min(low for low, _ in seen) >= 0.0
    assert max(high for _, high in seen) <= 1.0


def test_a_jvp_that_fails_on_a_dense_tangent_is_told():
    def picky(x, t):
        if np.count_nonzero(t) > 1:
            raise RuntimeError("one at a time")
        return exact(x) @ t

    report = fdcheck.verify(network, POINT, jvp=picky, max_evals=20)
    assert report.verdict == "fail"
    assert any(f.status is Status.RAISED and "one at a time" in f.message for f in report.findings)


def test_what_the_user_passed_is_not_changed():
    matrix, x0 = exact(POINT), POINT.copy()
    kept = matrix.copy()
    matrix[1, 777] *= 3
    kept[1, 777] *= 3
    fdcheck.verify(network, x0, jacobian=lambda _: matrix, max_evals=20)
    np.testing.assert_array_equal(matrix, kept)
    np.testing.assert_array_equal(x0, POINT)


AT_BOUND = np.arange(N) % 3 == 0
NOT_NEGATIVE = np.where(AT_BOUND, 0.0, np.abs(POINT) + 0.1)
SLOPES = DRAW.uniform(0.5, 1.5, N)


def smooth_sum(x):
    assert (x >= 0).all()
    return np.array([np.sum(SLOPES * np.sin(x) + x**2 / 3)])


def smooth_gradient(x):
    return (SLOPES * np.cos(x) + 2 * x / 3)[None]


@every_kind
def test_inputs_at_a_bound_are_moved_to_the_other_side(kind):
    exact_row = smooth_gradient(NOT_NEGATIVE)
    report = fdcheck.verify(smooth_sum, NOT_NEGATIVE, **endpoint(kind, exact_row), bounds=(0, 10))
    assert report.passed, str(report)
    assert sum(pair.entries for pair in report.pairs) == N
    assert any(note.startswith("1000 of all 3000 input coordinates, at a bound,") for note in report.notes)
    wrong = exact_row.copy()
    wrong[0, 1500] *= 1.5
    assert AT_BOUND[1500]
    report = fdcheck.verify(smooth_sum, NOT_NEGATIVE, **endpoint(kind, wrong), bounds=(0, 10))
    assert [f.input_index for f in report.findings] == [(1500,)], str(report)


@pytest.mark.parametrize("beside", [1e-12, 1e-4])
def test_inputs_just_beside_a_bound_are_looked_at(beside):
    x = NOT_NEGATIVE + 0.5
    lower = np.where(AT_BOUND, x - beside, 0.0)
    wrong = smooth_gradient(x)
    wrong[0, 1500] = 0.0
    assert fdcheck.verify(smooth_sum, x, jacobian=smooth_gradient, bounds=(lower, 20)).passed
    report = fdcheck.verify(smooth_sum, x, jacobian=lambda _: wrong, bounds=(lower, 20))
    assert [f.input_index for f in report.findings] == [(1500,)], str(report)


@every_kind
def test_a_nan_is_found_where_kinks_hide_the_slope_along_the_probe(kind):
    x = np.where(np.arange(N) % 7 == 0, 0.0, POINT)
    claim = np.sign(x)[None]
    claim[0, 78] = np.nan
    report = fdcheck.verify(lambda x: np.array([np.sum(np.abs(x))]), x, **endpoint(kind, claim), method="probe")
    assert report.verdict == "fail", str(report)
    assert report.applies < 100


def two_sums(x):
    return {"s": np.sum(np.sin(x["a"])), "t": np.sum(x["b"] ** 2)}


TWO = {"a": POINT, "b": DRAW.normal(size=1200)}


def two_sums_vjp(x, ct):
    return {"a": ct["s"] * np.cos(x["a"]), "b": ct["t"] * 2 * x["b"]}


def pairs_of(report):
    return {(pair.output, pair.input): pair for pair in report.pairs}


def test_pairs_that_agree_show_numbers_that_agree_beside_a_wrong_entry():
    def wrong(x, ct):
        gradient = two_sums_vjp(x, ct)
        gradient["a"][77] *= 1.5
        return gradient

    report = fdcheck.verify(two_sums, TWO, vjp=wrong)
    pairs = pairs_of(report)
    assert pairs["s", "a"].counts == {"disagrees": 1, "agrees": N - 1}
    for place in [("s", "b"), ("t", "a"), ("t", "b")]:
        assert set(pairs[place].counts) == {"agrees"}
        assert abs(pairs[place].claimed - pairs[place].estimated) <= pairs[place].error
    assert "Next: one entry is wrong" in str(report)


def test_what_is_left_of_a_disagreement_is_undecided_and_no_entry_is_called_the_only_one():
    def wrong(x, ct):
        gradient = two_sums_vjp(x, ct)
        gradient["a"][:50] = 0.0
        return gradient

    report = fdcheck.verify(two_sums, TWO, vjp=wrong)
    pairs = pairs_of(report)
    assert pairs["s", "a"].counts["undecided"] > 0
    assert set(pairs["t", "b"].counts) == {"agrees"}
    assert "one entry is wrong" not in str(report)
    assert "More entries may be wrong than these." in " ".join(str(report).split())


def test_an_input_that_is_wrong_in_several_outputs_is_named_in_each_of_a_vjp():
    wrong = exact(POINT)
    wrong[:, 77] *= 1.5
    report = fdcheck.verify(network, POINT, vjp=lambda x, ct: wrong.T @ ct)
    failing = sorted((f.output_index, f.input_index) for f in report.findings)
    assert failing == [((row,), (77,)) for row in range(M)]
    assert set(report.pairs[0].counts) == {"disagrees", "agrees"}
    assert any("the rest agrees" in note for note in report.notes)


@every_kind
def test_a_wrong_complex_entry_is_all_that_is_wrong(kind):
    weights = DRAW.normal(size=(5, 800)) + 1j * DRAW.normal(size=(5, 800))
    z = DRAW.normal(size=800) + 1j * DRAW.normal(size=800)
    wrong = weights * 2 * z
    wrong[2, 100] *= 1.5
    forms = {"jacobian": lambda z: wrong, "jvp": lambda z, t: wrong @ t, "vjp": lambda z, ct: wrong.conj().T @ ct}
    report = fdcheck.verify(lambda z: weights @ z**2, z, **{kind: forms[kind]})
    places = {(f.output_index, f.input_index) for f in report.findings}
    assert (report.verdict, places) == ("fail", {((2,), (100,))})
    assert any("traced to x[100], and the rest agrees" in note for note in report.notes), report.notes
