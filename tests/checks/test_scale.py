"""Large derivatives: checked whole with a number of calls that does not grow, and wrong entries named."""

import tracemalloc

import numpy as np
import pytest

import fdcheck
from fdcheck import Status
from fdcheck.checks import checking

N = 50_000
DRAW = np.random.default_rng(5)
POINT, WEIGHTS = DRAW.normal(size=N), DRAW.uniform(0.5, 1.5, N)


def total(x):
    return float(np.sum(np.sin(x) * WEIGHTS[: x.size] + x**2))


def gradient(x):
    return np.cos(x) * WEIGHTS[: x.size] + 2 * x


def diffusion(x):
    d = np.diff(x)
    return float(0.5 * np.sum((1 + 0.5 * np.sin(x[1:] * x[:-1])) * d * d) + np.sum(x**4) / 4)


def diffusion_gradient(x):
    d, k = np.diff(x), 1 + 0.5 * np.sin(x[1:] * x[:-1])
    turn = 0.25 * np.cos(x[1:] * x[:-1]) * d * d
    found = x**3
    found[1:] += k * d + turn * x[:-1]
    found[:-1] += -k * d + turn * x[1:]
    return found


def changed(exact, places, factor=1.5):
    def vjp(x, ct):
        found = ct * exact(x)
        found[places] *= factor
        return found

    return vjp


def wrong_places(report):
    return sorted({f.input_index[0] for f in report.findings if f.status is Status.DISAGREES})


both = pytest.mark.parametrize(("apply", "exact"), [(total, gradient), (diffusion, diffusion_gradient)])


@both
def test_a_right_gradient_passes_in_24_applies_and_one_call(apply, exact):
    report = fdcheck.verify(apply, POINT, vjp=changed(exact, []))
    assert report.passed, str(report)
    assert report.applies <= 24
    assert report.endpoint_calls["vjp"] <= 13
    assert report.coverage.together == N
    assert report.sensitivity < 0.5
    assert report.coverage.method.startswith("probe")


@both
@pytest.mark.parametrize("place", [0, 16_666, N - 1])
def test_one_wrong_entry_is_named_in_64_applies(apply, exact, place):
    report = fdcheck.verify(apply, POINT, vjp=changed(exact, [place]))
    assert report.verdict == "fail"
    assert wrong_places(report) == [place]
    assert report.applies <= 64


@both
def test_three_wrong_entries_are_named_in_200_applies(apply, exact):
    places = [N // 7, N // 2 + 11, N - 5]
    report = fdcheck.verify(apply, POINT, vjp=changed(exact, places))
    assert wrong_places(report) == places
    assert report.applies <= 200


def test_few_arrays_of_the_size_of_the_input_are_held():
    fdcheck.verify(total, POINT, vjp=changed(gradient, []))
    tracemalloc.start()
    fdcheck.verify(total, POINT, vjp=changed(gradient, [7]))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 12 * POINT.nbytes


@pytest.mark.parametrize("claim", [lambda g: 1.01 * g, lambda g: -g, lambda g: 0 * g, lambda g: np.roll(g, 1)])
def test_a_gradient_that_is_wrong_everywhere_fails_without_a_search_for_every_entry(claim):
    report = fdcheck.verify(total, POINT, vjp=lambda x, ct: ct * claim(gradient(x)))
    assert report.verdict == "fail"
    assert report.applies <= 500


def test_a_factor_that_is_the_same_everywhere_is_named():
    report = fdcheck.verify(total, POINT, vjp=lambda x, ct: ct * 1.01 * gradient(x))
    (diagnosis,) = report.diagnoses
    assert diagnosis.kind == "factor"
    assert "claimed / measured = 1.01: 1.01 times too large" in diagnosis.message
    assert diagnosis.repair == "divide the claim by 1.01"
    turned = fdcheck.verify(total, POINT, vjp=lambda x, ct: -ct * gradient(x))
    assert turned.diagnoses[0].repair == "change the sign of the claim"
    shifted = fdcheck.verify(total, POINT, vjp=lambda x, ct: ct * np.roll(gradient(x), 1))
    assert not shifted.diagnoses


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_claim_that_is_not_finite_is_found(bad):
    def vjp(x, ct):
        found = ct * gradient(x)
        found[777] = bad
        return found

    report = fdcheck.verify(total, POINT[:5000], vjp=vjp)
    assert report.verdict == "fail"
    assert wrong_places(report) == [777]


def test_errors_within_the_tolerance_are_no_failure_and_blunt_the_check():
    noisy = 1 + 4e-4 * np.random.default_rng(0).choice([-1, 1], N)
    report = fdcheck.verify(total, POINT, vjp=lambda x, ct: ct * gradient(x) * noisy)
    assert report.passed, str(report)
    assert any("no more than tolerances add up to" in note for note in report.notes)
    exact = fdcheck.verify(total, POINT, vjp=changed(gradient, []))
    assert report.sensitivity > 3 * exact.sensitivity


SIDE = 1100
MATRIX = DRAW.normal(size=(SIDE, SIDE)) / np.sqrt(SIDE)
CORNER = DRAW.normal(size=SIDE)


def layer(x):
    return np.tanh(MATRIX @ x) + 0.1 * x**2


def exact_matrix(x):
    return (1 - np.tanh(MATRIX @ x) ** 2)[:, None] * MATRIX + np.diag(0.2 * x)


def forms(matrix):
    return {
        "jvp": lambda x, t: matrix @ t, "vjp": lambda x, ct: matrix.T @ ct, "jacobian": lambda x: matrix,
    }  # fmt: skip


@pytest.mark.parametrize("kinds", [("jvp", "vjp"), ("jvp",), ("vjp",), ("jacobian",)], ids="+".join)
def test_one_wrong_entry_of_a_dense_jacobian_is_named_with_both_indices(kinds):
    matrix = exact_matrix(CORNER)
    given = forms(matrix)
    right = fdcheck.verify(layer, CORNER, **{kind: given[kind] for kind in kinds})
    assert right.passed, str(right)
    assert right.applies <= 24
    matrix[1034, 567] *= 1.5
    report = fdcheck.verify(layer, CORNER, **{kind: given[kind] for kind in kinds})
    assert report.verdict == "fail"
    failing = {(f.endpoint, f.output_index, f.input_index) for f in report.findings if f.status is Status.DISAGREES}
    assert failing == {(kind, (1034,), (567,)) for kind in kinds}
    assert report.applies <= 48
    assert max(report.endpoint_calls.values()) <= 40


def test_a_vjp_with_many_outputs_and_few_inputs_is_checked_in_every_output():
    tall = DRAW.normal(size=(5000, 6))
    x0 = 0.1 * DRAW.normal(size=6)

    def apply(x):
        return np.tanh(tall @ x)

    def vjp(x, ct, extra=0.0):
        found = tall.T @ (ct * (1 - np.tanh(tall @ x) ** 2))
        found[3] += extra * ct[4321]
        return found

    assert fdcheck.verify(apply, x0, vjp=vjp).passed
    report = fdcheck.verify(apply, x0, vjp=lambda x, ct: vjp(x, ct, 0.5))
    assert [(f.output_index, f.input_index) for f in report.findings] == [((4321,), (3,))]
    assert report.endpoint_calls["vjp"] <= 60


def test_methods_can_be_forced_and_the_report_says_which_it_was():
    x0 = POINT[:50]
    probed = fdcheck.verify(total, x0, vjp=changed(gradient, []), method="probe")
    assert probed.passed
    assert probed.applies <= 24
    assert probed.coverage.method.startswith("probe")
    alone = fdcheck.verify(total, POINT[:1200], vjp=changed(gradient, []), method="elementwise", max_evals=30)
    assert alone.coverage.inputs_measured == 30
    assert alone.coverage.together == 1170
    with pytest.raises(fdcheck.InvalidInput, match="method: expected one of auto, elementwise, probe, got 'guess'"):
        fdcheck.verify(total, x0, vjp=changed(gradient, []), method="guess")


def test_a_jacobian_measured_in_turns_costs_no_more_and_loses_nothing(monkeypatch):
    x0 = np.linspace(0.1, 1, 60)
    wrong = np.diag(np.cos(x0))
    wrong[50, 50] *= 1.1
    at_once = fdcheck.verify(np.sin, x0, jacobian=lambda x: np.diag(np.cos(x)))
    monkeypatch.setattr(checking, "_AT_ONCE", 20 * 60)
    in_turns = fdcheck.verify(np.sin, x0, jacobian=lambda x: np.diag(np.cos(x)))
    assert in_turns.passed
    assert in_turns.pairs[0].entries == 60 * 60
    assert in_turns.applies <= at_once.applies
    report = fdcheck.verify(np.sin, x0, jacobian=lambda x: wrong)
    assert [(f.output_index, f.input_index) for f in report.findings] == [((50,), (50,))]


def test_float32_sums_that_hide_single_entries_are_looked_at_one_by_one():
    x0 = POINT[:20_000].astype(np.float32)
    weights = WEIGHTS[:20_000].astype(np.float32)

    def apply(x):
        return np.float32(np.sum(np.sin(x) * weights + x**2))

    def vjp(x, ct):
        return ct * (np.cos(x) * weights + 2 * x)

    report = fdcheck.verify(apply, x0, vjp=vjp)
    assert report.verdict != "fail"
    assert report.coverage.inputs_measured > 0
    assert fdcheck.verify(apply, x0, vjp=lambda x, ct: np.float32(1.1) * vjp(x, ct)).verdict == "fail"


def test_structures_of_different_scales_and_complex_inputs():
    tree = {"a": DRAW.normal(size=1500), "b": 1e6 * DRAW.normal(size=(30, 20)), "z": DRAW.normal(size=5) + 1j, "k": 3}

    def apply(t):
        return np.array([np.sum(t["a"] ** 2) + np.sum(np.sin(t["b"] / 1e6)), np.sum(np.abs(t["z"]) ** 2)])

    def vjp(t, ct, factor=1.0):
        b = ct[0] * np.cos(t["b"] / 1e6) / 1e6
        b[3, 4] *= factor
        return {"a": 2 * t["a"] * ct[0], "b": b, "z": 2 * t["z"] * ct[1], "k": None}

    assert fdcheck.verify(apply, tree, vjp=vjp).passed
    report = fdcheck.verify(apply, tree, vjp=lambda t, ct: vjp(t, ct, 1.5))
    assert [(f.input, f.input_index) for f in report.findings] == [("b", (3, 4))]


@pytest.mark.parametrize("kind", ["jvp", "vjp"])
def test_a_leaf_whose_derivatives_are_small_beside_another_is_looked_at_by_itself(kind):
    x0 = {"large": DRAW.normal(size=3000), "small": DRAW.normal(size=40)}

    def apply(x):
        return float(1e3 * np.sum(x["large"] ** 2) + 1e-5 * np.sum(np.sin(x["small"])))

    def vjp(x, ct, factor=1.0):
        small = 1e-5 * np.cos(x["small"])
        small[11] *= factor
        return {"large": ct * 2e3 * x["large"], "small": ct * small}

    def given(factor):
        if kind == "vjp":
            return {"vjp": lambda x, ct: vjp(x, ct, factor)}

        def jvp(x, t):
            gradient = vjp(x, 1.0, factor)
            return float(gradient["large"] @ t["large"] + gradient["small"] @ t["small"])

        return {"jvp": jvp}

    assert fdcheck.verify(apply, x0, **given(1.0)).verdict != "fail"
    report = fdcheck.verify(apply, x0, **given(3.0))
    assert [(f.input, f.input_index) for f in report.findings if f.status is Status.DISAGREES] == [("small", (11,))]
