"""Difficult functions judged end to end: right claims pass, wrong twins fail, and what cannot be told stays open."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import fdcheck
from fdcheck import Status, Verdict
from tests.problems import jitter

PROFILES = ("default", "quick", "strict")


def verdict(apply, x0, claim, dtype=np.float64, profile="default", **options):
    """Return the word for one Jacobian, given as numbers."""
    matrix = np.atleast_2d(np.asarray(claim, float))
    point = np.atleast_1d(np.asarray(x0, dtype))
    return str(fdcheck.verify(apply, point, jacobian=lambda _: matrix, profile=profile, **options).verdict)


def wrong_entries(apply, x0, claim, dtype=np.float64, **options):
    matrix = np.asarray(claim, float)
    report = fdcheck.verify(apply, np.asarray(x0, dtype), jacobian=lambda _: matrix, **options)
    found = [f for f in report.findings if f.status is Status.DISAGREES]
    return {(f.output_index[0], f.input_index[0]) for f in found}


every_profile = pytest.mark.parametrize("profile", PROFILES)


# what needs no step in particular: stationary points, constants, zeros


@every_profile
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("apply", "x0", "claim"),
    [
        (lambda x: (x - 1) ** 2, 1.0, 0.0),
        (np.cos, 0.0, 0.0),
        (lambda x: (x - 2) ** 3, 2.0, 0.0),
        (lambda x: x**4, 0.0, 0.0),
        (lambda x: 0 * x + 5, 3.0, 0.0),
        (lambda x: 0 * x, 0.7, 0.0),
        (lambda x: np.maximum(x, 0), -2.0, 0.0),
        (np.sin, 0.0, 1.0),
        (lambda x: 3 * x, 0.0, 3.0),
        (lambda x: x * x.dtype.type(1e-30), 2.0, 1e-30),
    ],
)
def test_stationary_points_constants_and_zeros(apply, x0, claim, dtype, profile):
    assert verdict(apply, x0, claim, dtype, profile) == "pass"
    for wrong in (claim + 1, claim - 0.1, np.nan, np.inf):
        assert verdict(apply, x0, wrong, dtype, profile) == "fail"


@every_profile
def test_a_small_term_dropped_beside_a_large_one(profile):
    def sum_(x):
        return np.stack([1e6 * x[0] ** 2 + np.sin(x[1])])

    x = np.array([0.8, 0.5])
    right = np.array([[2e6 * 0.8, np.cos(0.5)]])
    assert wrong_entries(sum_, x, right, profile=profile) == set()
    for factor in (0.0, 0.9, -1.0, 2.0):
        assert wrong_entries(sum_, x, right * [[1, factor]], profile=profile) == {(0, 1)}


# scale


@every_profile
def test_small_inputs_beside_large_ones(profile):
    unit = np.array([4e-13, 3e-5, 2.0, 7e7])

    def mixed(x):
        u = x / unit
        return np.stack([np.sum(np.sin(u)), u[0] * u[3] + u[1] ** 2])

    x = unit * [0.7, 1.2, 0.4, 0.9]
    u = x / unit
    right = np.array([np.cos(u), [u[3], 2 * u[1], 0, u[0]]]) / unit
    assert verdict(mixed, x, right, profile=profile) == "pass"
    for entry in ((0, 0), (0, 3), (1, 1), (1, 3)):
        wrong = right.copy()
        wrong[entry] *= 0.95
        assert wrong_entries(mixed, x, wrong, profile=profile) == {entry}


def test_a_claim_of_rounding_size_for_a_zero_slope():
    def flat(x):
        return np.stack([7.0 * x[0], np.sin(1.1) + 0 * x[0]]) + 0 * x[1]

    assert verdict(flat, [30.0, 2.5], [[7.0, 3e-17], [1e-18, -2e-17]]) == "pass"
    assert wrong_entries(flat, [30.0, 2.5], [[7.0, 1e-3], [1e-4, 0]]) == {(0, 1), (1, 0)}


@every_profile
@pytest.mark.parametrize("off", [2e-3, 1e-2, 4e-2])
def test_small_errors_of_a_smooth_model_are_seen_where_they_are(off, profile):
    def model(x):
        return np.stack([np.cos(x[0]) * x[1] ** 2, np.exp(-x[1]) + x[0] * x[2]])

    a, b, c = x = np.array([1.1, -0.6, 1.9])
    right = np.array([[-np.sin(a) * b * b, 2 * b * np.cos(a), 0], [c, -np.exp(-b), a]])
    wrong = right.copy()
    wrong[0, 1] *= 1 + off
    wrong[1, 2] *= 1 - off
    assert verdict(model, x, right, profile=profile) == "pass"
    assert wrong_entries(model, x, wrong, profile=profile) == {(0, 1), (1, 2)}


# low precision


@every_profile
def test_float32_loss_under_an_offset(profile):
    weight = np.linspace(0.2, 0.9, 12, dtype=np.float32)

    def loss(x):
        return np.stack([np.float32(300) + (weight * np.sqrt(1 + x * x)).sum(dtype=np.float32)])

    x = np.linspace(0.5, 2, 12, dtype=np.float32)
    wide = x.astype(float)
    right = (weight * wide / np.sqrt(1 + wide**2))[None]
    assert verdict(loss, x, right, np.float32, profile) == "pass"
    wrong = right.copy()
    wrong[0, 7] *= 1.1
    assert wrong_entries(loss, x, wrong, np.float32, profile=profile) == {(0, 7)}


@every_profile
def test_float32_inside_float64(profile):
    def inside(x):
        s = x.astype(np.float32)
        return np.stack([float(np.log1p(s[0]) * s[1]), float(np.float32(2) * np.tanh(s[1]))])

    a, b = x = np.array([2.2, 0.45])
    right = np.array([[b / (1 + a), np.log1p(a)], [0, 2 / np.cosh(b) ** 2]])
    assert verdict(inside, x, right, profile=profile) == "pass"
    assert wrong_entries(inside, x, right * [[1.05, 1], [1, 0.95]], profile=profile) == {(0, 0), (1, 1)}


def test_float16():
    x = np.array([0.75, 1.5, -1.25], np.float16)
    right = np.diag(np.exp(x.astype(float)) / (1 + np.exp(x.astype(float))) ** 2)

    def sigmoid(x):
        return 1 / (1 + np.exp(-x))

    assert sigmoid(x).dtype == np.float16
    assert verdict(sigmoid, x, right, np.float16) == "pass"
    assert wrong_entries(sigmoid, x, right * np.diag([1, 1.6, 1]), np.float16) == {(1, 1)}


# edges of the domain


@every_profile
@pytest.mark.parametrize(
    ("apply", "x0", "exact"),
    [
        (np.log, 3e-8, lambda t: 1 / t),
        (lambda x: np.sqrt(x - 0.2499), 0.25, lambda t: 0.5 / np.sqrt(t - 0.2499)),
        (np.arctanh, 1 - 1e-7, lambda t: 1 / ((1 - t) * (1 + t))),
        (lambda x: np.exp(x) * 1e-300, 709.7, lambda t: np.exp(t) * 1e-300),
        (lambda x: np.where(x < 2, np.nan, x**3), 2.0, lambda t: 12.0),
        (lambda x: np.where(x > -1, np.nan, np.exp(x)), -1.0, np.exp),
        (lambda x: np.where(x < 0, np.inf, 1.5 * x + 1), 0.0, lambda t: 1.5),
    ],
)
def test_domain_edges_on_one_side(apply, x0, exact, profile):
    right = float(exact(np.float64(x0)))
    assert verdict(apply, x0, right, profile=profile) == "pass"
    for factor in (1.05, 0.5, -1.0, np.nan):
        assert verdict(apply, x0, factor * right, profile=profile) == "fail"


@every_profile
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("apply", "x0", "infinity"),
    [
        (np.sqrt, 0.0, 1),
        (lambda x: -np.sqrt(2 - x), 2.0, 1),
        (np.cbrt, 0.0, 1),
        (np.log, 0.0, None),
        (np.arccos, 1.0, -1),
    ],
)
def test_infinite_slopes(apply, x0, infinity, dtype, profile):
    if infinity is None:  # log is not finite at 0 itself: nothing can be measured
        assert verdict(apply, x0, np.inf, dtype, profile) == "inconclusive"
        return
    assert verdict(apply, x0, infinity * np.inf, dtype, profile) == "pass"
    assert verdict(apply, x0, -infinity * np.inf, dtype, profile) == "fail"
    assert verdict(apply, x0, np.nan, dtype, profile) == "fail"
    assert verdict(apply, 0.5, np.inf, dtype, profile) == "fail"


@every_profile
def test_a_nan_claim_of_a_smooth_function_fails(profile):
    def square(x):
        return np.stack([np.hypot(x[0], x[1]) ** 2])

    assert verdict(square, np.zeros(2), np.zeros((1, 2)), profile=profile) == "pass"
    assert wrong_entries(square, np.zeros(2), [[np.nan, 0.0]], profile=profile) == {(0, 0)}


# kinks and jumps


@every_profile
def test_a_cone_accepts_its_subgradients_and_nothing_else(profile):
    def cone(x):
        return np.stack([2 * np.sqrt((x * x).sum())])

    assert verdict(cone, np.zeros(3), [[0, 1.9, -2]], profile=profile) == "pass"
    assert wrong_entries(cone, np.zeros(3), [[0, 2.2, -2.5]], profile=profile) == {(0, 1), (0, 2)}


@every_profile
def test_a_clip_and_a_maximum_at_their_kinks(profile):
    def clipped(x):
        return np.stack([np.clip(x[0], -1, 1), np.maximum(x[1], 2 * x[1])])

    assert verdict(clipped, [1.0, 0.0], np.diag([0.4, 1.7]), profile=profile) == "pass"
    assert wrong_entries(clipped, [1.0, 0.0], np.diag([-0.2, 2.2]), profile=profile) == {(0, 0), (1, 1)}


def test_ties_that_are_near_but_not_there():
    x = np.array([0.5, 0.5 + 2e-7, 1.4, 1.4 - 3e-5, -0.7])
    order = np.argsort(x)
    right = np.eye(5)[order]
    assert verdict(np.sort, x, right) == "pass"
    swapped = right[[0, 2, 1, 3, 4]]
    assert wrong_entries(np.sort, x, swapped) == {(int(i), int(j)) for i, j in np.argwhere(swapped != right)}
    assert wrong_entries(np.sort, x, np.where(right == 1, 0.5, right)) == {(i, int(order[i])) for i in range(5)}


def test_a_threshold_at_x0_and_near_it():
    def gate(x):
        return np.where(x >= 3, np.exp(x), -x)

    x = np.array([3.0, 3 - 1e-7, 3 + 1e-4])
    slopes = np.array([np.exp(3), -1, np.exp(x[2])])
    for at in (slopes[0], -1.0):
        assert verdict(gate, x, np.diag([at, *slopes[1:]])) == "pass"
    assert wrong_entries(gate, x, np.diag([5.0, *slopes[1:]])) == {(0, 0)}
    assert wrong_entries(gate, x, np.diag([slopes[0], np.exp(3), -1.0])) == {(1, 1), (2, 2)}


# noise, solvers, aliasing


@every_profile
def test_noise_from_the_bits_of_x_neither_fails_the_right_nor_excuses_the_wrong(profile):
    def noisy(x):
        return np.stack([np.sin(x[0]) + x[1] ** 2 + jitter(x, 1e-9), x[0] * x[1] + jitter(x[::-1], 1e-10)])

    a, b = x = np.array([0.9, 1.6])
    right = np.array([[np.cos(a), 2 * b], [b, a]])
    assert verdict(noisy, x, right, profile=profile) == "pass"
    assert wrong_entries(noisy, x, right * [[1, 1.03], [0.97, 1]], profile=profile) == {(0, 1), (1, 0)}


def _kepler(x):
    """Solve E - e sin E = M from a start that hangs on the bits of x, until a step is below 1e-10."""
    anomaly = x[0] + 0.1 * np.tanh(jitter(x))
    for _ in range(200):
        new = x[0] + x[1] * np.sin(anomaly)
        if abs(new - anomaly) < 1e-10:
            break
        anomaly = new
    return np.stack([new])


def test_a_solver_with_a_scattered_start():
    x = np.array([1.3, 0.2])
    e = float(mpmath.findroot(lambda t: t - mpmath.mpf(x[1]) * mpmath.sin(t) - x[0], 1.4))
    right = np.array([[1.0, np.sin(e)]]) / (1 - x[1] * np.cos(e))
    assert verdict(_kepler, x, right) == "pass"
    assert wrong_entries(_kepler, x, right * [[1.0, 1.03]]) == {(0, 1)}


def test_fresh_draws_are_inconclusive_whatever_is_claimed_about_the_mean():
    draw = np.random.default_rng(11)
    report = fdcheck.verify(
        lambda x: np.stack([np.mean(x[0] ** 2 + x[1] * draw.standard_normal(200))]),
        np.array([0.5, 0.2]),
        vjp=lambda x, c: np.array([2 * x[0] * c[0], 0.0]),
    )
    assert report.verdict is Verdict.INCONCLUSIVE
    assert Status.NONDETERMINISTIC in {f.status for f in report.findings}


@every_profile
@pytest.mark.parametrize("period", [1e-2, 2e-3, 1e-4, 2.0**-12, 3e-5])
def test_a_ripple_left_out_of_the_claim_never_passes(period, profile):
    w = 2 * np.pi / period

    def rippled(x):
        return 2 * x + 0.1 * period * np.sin(w * x)

    for x0 in (0.5, 0.61):
        right = 2 + 0.2 * np.pi * np.cos(w * x0)
        assert verdict(rippled, x0, right, profile=profile) == "pass"
        assert verdict(rippled, x0, 2.0, profile=profile) == "fail"


# properties


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**31),
    st.booleans(),
    st.sampled_from(["tanh", "poly"]),
    st.sampled_from(PROFILES),
    st.integers(1, 4),
)
def test_right_claims_never_fail_and_claims_five_percent_off_never_pass(seed, single, kind, profile, n):
    dtype = np.float32 if single else np.float64
    draw = np.random.default_rng(seed)
    x = draw.uniform(0.3, 2, n).astype(dtype) * draw.choice([-1, 1], n).astype(dtype)
    w, v = draw.uniform(0.2, 1, (2, 3, n)).astype(dtype)
    if kind == "tanh":
        right = (1 - np.tanh(w.astype(float) @ x) ** 2)[:, None] * w

        def apply(x):
            return np.tanh(w @ x)
    else:
        right = 2 * w * x.astype(float) + 3 * v * x.astype(float) ** 2

        def apply(x):
            return w @ x**2 + v @ x**3

    plain = not single or kind == "poly"  # a saturated float32 layer may carry more noise than slope
    assert verdict(apply, x, right, dtype, profile) in (("pass",) if plain else ("pass", "inconclusive"))
    i, j = np.unravel_index(int(np.argmax(np.abs(right * x))), right.shape)
    for factor in (0.95, 1.05):
        wrong = right.copy()
        wrong[i, j] *= factor
        assert verdict(apply, x, wrong, dtype, profile) in (("fail",) if plain else ("fail", "inconclusive"))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 2**31), st.booleans())
def test_the_verdict_does_not_depend_on_the_memory_layout(seed, off):
    x = np.random.default_rng(seed).uniform(0.5, 2, (3, 2))
    wide = np.zeros((6, 4))
    wide[::2, ::-2] = x
    layouts = [x, np.asfortranarray(x), wide[::2, ::-2]]

    def vjp(x, c):
        slope = c * (1 + off * (x == x.max()) * 0.1)
        return slope * np.cos(x)

    texts = []
    for point in layouts:
        assert np.array_equal(point, x)
        report = fdcheck.verify(np.sin, point, vjp=vjp)
        assert report.passed is not off
        texts.append(report.to_json())
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.parametrize(
    ("x0", "amplitude", "decimals", "dtype"),
    [
        (1.5706788, 1.0, 3, np.float32),
        (np.pi / 2 - 0.003, 1.0, 2, np.float32),
        (np.pi / 2 + 6.50362e-6, 0.52322823688, 4, np.float64),
    ],
)
def test_rounded_output_at_its_maximum_where_both_sides_jump_alike(x0, amplitude, decimals, dtype):
    point = float(np.asarray(x0, dtype))
    slope = float(amplitude * mpmath.cos(point))

    def apply(x):
        return np.round(amplitude * np.sin(x), decimals).astype(x.dtype)

    assert verdict(apply, x0, slope, dtype) == "inconclusive"
    assert verdict(apply, x0, slope - 3, dtype) == "fail"


def test_a_kink_that_float32_can_only_see_from_afar_is_no_evidence_against_the_slope_at_x():
    draw = np.random.default_rng(0)
    words = []
    for _ in range(60):
        slope, distance = draw.uniform(0.005, 0.05), 10 ** draw.uniform(-2.5, -1.2)
        bend, x0, offset = slope * draw.uniform(0.005, 0.1), np.float32(draw.uniform(0.3, 1.5)), draw.uniform(0.5, 1.5)

        def apply(x, slope=slope, bend=bend, place=x0 + distance, offset=offset):
            beyond = np.maximum(x - x.dtype.type(place), x.dtype.type(0))
            return (x.dtype.type(offset) + x.dtype.type(slope) * x + x.dtype.type(bend) * beyond).astype(x.dtype)

        words.append(verdict(apply, x0, slope, np.float32))
        assert verdict(apply, x0, 1.3 * slope, np.float32) == "fail"
    assert "fail" not in words
    assert words.count("pass") > 45
