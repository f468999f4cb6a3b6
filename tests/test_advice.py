"""recommend_eps end to end: closed forms, kinks, edges, noise, structures, costs, and what it says where it cannot."""

import json
import math
import sys

import mpmath
import numpy as np
import pytest

import fdcheck
from fdcheck import InvalidInput

EPS = {np.float64: 2.0**-52, np.float32: 2.0**-23}


def central(apply, x, h):
    """Return the plain central difference of a scalar function in the dtype of x, by the spacing really taken."""
    up, down = x + type(x)(h), x - type(x)(h)
    return float((apply(up) - apply(down)) / (up - down))


def forward(apply, x, h):
    up = x + type(x)(h)
    return float((apply(up) - apply(x)) / (up - x))


def best_typical(apply, x, exact, difference=central):
    """Return the smallest error over a fine sweep, each error the mean square of its neighbours within a factor 2."""
    bits = -math.log2(EPS[type(x)]) - 2
    steps = abs(float(x)) * 2.0 ** np.arange(-bits, 0.01, 0.25)
    with np.errstate(all="ignore"):  # the widest steps leave the domain of some functions
        errors = np.array([difference(apply, x, h) - exact for h in steps])
    around = np.lib.stride_tricks.sliding_window_view(np.pad(errors**2, 4, mode="edge"), 9)
    return float(np.sqrt(np.nanmin(around.mean(axis=1))))


FUNCTIONS = [
    (np.sin, 1.0, mpmath.cos),
    (np.exp, 0.7, mpmath.exp),
    (np.tanh, 0.4, lambda x: mpmath.sech(x) ** 2),
    (np.log, 1e-3, lambda x: 1 / x),
    (np.sqrt, 3e5, lambda x: 1 / (2 * mpmath.sqrt(x))),
    (lambda x: np.sin(40 * x), 1.3, lambda x: 40 * mpmath.cos(40 * x)),
    (lambda x: x**3 - x, 1.7, lambda x: 3 * x**2 - 1),
    (lambda x: x * x, 1.3, lambda x: 2 * x),
    (lambda x: 1 / (x - 1), 1.01, lambda x: -1 / (x - 1) ** 2),
]


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize(("apply", "at", "derivative"), FUNCTIONS, ids=range(len(FUNCTIONS)))
def test_the_steps_are_good_and_the_errors_honest(apply, at, derivative, dtype):
    x = dtype(at)
    exact = float(derivative(mpmath.mpf(float(x))))
    last_digit = EPS[dtype] * abs(exact)
    block = fdcheck.recommend_eps(apply, x).blocks[0]
    for difference, eps, error, low, high in (
        (central, block.eps, block.error, block.low, block.high),
        (forward, block.forward_eps, block.forward_error, block.forward_low, block.forward_high),
    ):
        real = abs(difference(apply, x, float(eps)) - exact)
        assert real <= 10 * max(best_typical(apply, x, exact, difference), last_digit)
        assert real <= 10 * max(float(error), last_digit)
        assert math.frexp(eps)[0] == 0.5  # a power of two, so that x + h is exact
        if difference is forward and dtype is np.float32 and math.isnan(low):
            continue  # 1e-3 is more than a forward difference reaches with seven digits
        assert low <= eps <= high
        for h in np.geomspace(low, high, 23):
            assert abs(difference(apply, x, h) - exact) <= 1e-3 * abs(exact)


def test_the_step_for_the_sine_is_the_one_of_the_textbook():
    advice = fdcheck.recommend_eps(np.sin, 1.0)
    textbook = (3 * EPS[np.float64]) ** (1 / 3)
    assert textbook / 8 <= advice.eps_for["x"] <= 8 * textbook
    assert advice["y", "x"].forward_eps == pytest.approx(math.sqrt(EPS[np.float64]), rel=8)
    assert (advice.paths[0].below, advice.paths[0].above) == ("rounding", "curvature")


def test_the_error_of_a_wide_step_on_a_cube_is_its_square():
    scipy = fdcheck.recommend_eps(lambda x: x**3, 1.0).paths[0].usual
    assert scipy["1e-4"] == pytest.approx(1e-8 / 3, rel=1.0)
    assert scipy["scipy 2-point"] == pytest.approx(2.0**-26, rel=2.0)  # h f'' / 2 = 3 h, relative to 3


def test_wide_steps_are_best_where_there_is_no_truncation():
    path = fdcheck.recommend_eps(lambda x: 0.1 * x * x + x, 1.0).paths[0]
    assert path.eps >= 2.0**-4
    assert path.error < 1e-15
    assert path.above == "range"


def test_a_constant_output_takes_any_step():
    advice = fdcheck.recommend_eps(lambda x: np.array([3.0, 0.0]) + 0 * x.sum(), np.array([1.0, 2.0]))
    assert advice.paths[0].error == 0
    assert advice.paths[0].is_safe
    assert (advice.blocks[0].error == 0).all()


def test_a_stationary_point_has_a_safe_range():
    for apply in (np.cos, lambda x: x * x):
        path = fdcheck.recommend_eps(apply, 0.0).paths[0]
        assert path.is_safe
        assert math.isfinite(path.eps)


def test_at_a_kink_there_is_no_step():
    advice = fdcheck.recommend_eps(np.abs, 0.0)
    block, path = advice.blocks[0], advice.paths[0]
    assert str(block.reason) == "kink"
    assert math.isnan(block.eps)
    assert math.isnan(block.low)
    assert advice.eps_for == {}
    assert not path.is_safe
    assert "none" in str(advice)


def test_steps_end_before_a_kink_nearby():
    block = fdcheck.recommend_eps(lambda x: np.abs(x - 1), 1.01).blocks[0]
    assert block.high <= 0.01 + 1e-12
    assert block.high > 0.01 / 9
    assert str(block.above) == "kink"


def test_steps_end_before_a_jump_nearby():
    block = fdcheck.recommend_eps(lambda x: np.sin(x) + np.where(x > 1.001, 1.0, 0.0), 1.0).blocks[0]
    assert 0.001 / 9 < block.high <= 0.001
    assert str(block.above) == "jump"


def test_steps_end_before_the_edge_of_the_domain():
    def apply(x):
        return np.where(x < 0.9, np.nan, x)

    block = fdcheck.recommend_eps(apply, 1.0).blocks[0]
    assert block.high <= 0.1
    assert str(block.above) == "domain edge"


def test_at_an_edge_only_a_forward_difference_is_left():
    block = fdcheck.recommend_eps(lambda x: np.where(x < 1.0, np.nan, np.exp(x)), 1.0).blocks[0]
    assert math.isnan(block.eps)
    assert str(block.reason) == "domain edge"
    assert 1e-9 < block.forward_eps < 1e-7


def test_bounds_are_kept_and_named():
    seen = []

    def apply(x):
        seen.append(float(x))
        return 2 * x

    block = fdcheck.recommend_eps(apply, 1.0, bounds=(0.99, 1.02)).blocks[0]
    assert min(seen) >= 0.99
    assert max(seen) <= 1.02
    assert str(block.above) == "bounds"
    closed = fdcheck.recommend_eps(apply, 1.0, bounds=(1.0, 1.02)).blocks[0]
    assert str(closed.reason) == "bounds"
    assert math.isfinite(closed.forward_eps)


def test_noise_without_a_safe_step_is_called_noise():
    def apply(x):
        jitter = np.modf(np.sin(1e7 * x) * 43758.5453)[0]  # deterministic, as large as the signal
        return np.sin(x) + jitter

    advice = fdcheck.recommend_eps(apply, np.array([0.3]))
    path = advice.paths[0]
    assert path.without == path.entries == 1
    assert path.reasons == {"noise": 1} or path.reasons == {"jump": 1}
    assert math.isnan(path.low)


def test_random_noise_is_measured_and_nothing_is_read_into_its_luck():
    draw = np.random.default_rng(5)
    advice = fdcheck.recommend_eps(lambda x: np.sin(x) + 1e-7 * draw.normal(size=x.shape), np.array([1.0]))
    block = advice.blocks[0]
    assert float(block.noise[0]) == pytest.approx(1e-7, rel=2)
    assert block.error[0, 0] > 1e-7  # sigma / h at h = 0.01
    assert 1e-3 < block.eps[0, 0] < 0.3
    assert str(block.below[0, 0]) == "noise"
    assert any("two calls of apply" in note for note in advice.notes)
    useless = fdcheck.recommend_eps(lambda x: np.sin(x) + 0.1 * draw.normal(size=x.shape), np.array([1.0]))
    assert useless.paths[0].reasons == {"noise": 1}


def test_float32_inside_float64_is_noticed():
    block = fdcheck.recommend_eps(lambda x: np.sin(x.astype(np.float32)).astype(np.float64), np.array([1.3])).blocks[0]
    assert block.eps[0, 0] > 1e-4
    assert block.low[0, 0] > 1e-5
    assert abs(central(lambda x: np.sin(np.float32(x)), np.float64(1.3), block.low[0, 0]) / math.cos(1.3) - 1) < 1e-2


def test_inputs_of_very_different_magnitude_get_steps_of_their_own():
    def apply(x):
        return {"u": np.sin(x["a"] * 1e4) + x["b"].sum() * 1e-6, "v": np.exp(x["b"] * 1e-6)}

    x0 = {"a": np.array([1e-4, 2e-4]), "b": np.array([1e6, 3e6, 2e5])}
    advice = fdcheck.recommend_eps(apply, x0)
    assert set(advice.eps_for) == {"x['a']", "x['b']"} or set(advice.eps_for) == {"a", "b"}
    small, large = advice.eps_for.values()
    assert 1e-11 < small < 1e-7
    assert 1e-1 < large < 1e3
    assert all(path.is_safe and path.low <= path.eps <= path.high for path in advice.paths)
    assert advice.paths[0].usual["1e-4"] > 0.1  # as large as the input itself
    block = advice["v", advice.paths[1].input]
    assert block.eps.shape == (3, 3)
    assert block.noise.shape == (3,)
    assert block.low.max() <= block.step <= block.high.min()
    jvp = lambda x, t: {"u": np.cos(x["a"] * 1e4) * 1e4 * t["a"] + t["b"].sum() * 1e-6, "v": block_v(x, t)}  # noqa: E731
    assert fdcheck.verify(apply, x0, jvp=jvp, eps_for=advice.eps_for)


def block_v(x, t):
    return np.exp(x["b"] * 1e-6) * t["b"] * 1e-6


def test_where_no_step_serves_all_the_fewest_are_left_outside():
    x0 = np.array([1e-6, 2.0, 3.0])
    advice = fdcheck.recommend_eps(np.log, x0)
    path, block = advice.paths[0], advice.blocks[0]
    low, high = np.diag(block.low), np.diag(block.high)
    assert path.outside == 0 or not ((low <= path.eps) & (path.eps <= high)).all()
    narrow = fdcheck.recommend_eps(lambda x: np.log(x) + 1e-6 * np.round(np.sin(1e12 * x)), x0).paths[0]
    assert narrow.outside + narrow.without > 0
    assert "entries" in str(fdcheck.recommend_eps(lambda x: np.log(x) + 1e-6 * np.round(np.sin(1e12 * x)), x0))


def test_complex_inputs_have_two_real_parts():
    block = fdcheck.recommend_eps(lambda z: np.exp(z), np.array([0.3 + 0.4j])).blocks[0]
    assert block.eps.shape == (1, 2, 1, 2)
    assert np.isfinite(block.eps).all()


@pytest.mark.parametrize("at", [1e300, 1e-200])
def test_inputs_near_the_ends_of_the_format(at):
    path = fdcheck.recommend_eps(lambda x: 2 * x, np.array([at])).paths[0]
    assert path.is_safe
    assert at / 8 <= path.eps <= 8 * max(at, 1)


def test_an_output_that_is_not_finite_is_called_so():
    advice = fdcheck.recommend_eps(lambda x: np.array([np.inf, x[0]]), np.array([1.0]))
    assert advice.blocks[0].reason[:, 0].tolist() == ["nonfinite", ""]
    assert advice.paths[0].is_safe


def test_half_precision_is_looked_at_in_its_few_digits():
    block = fdcheck.recommend_eps(lambda x: x * x, np.array([1.5], np.float16)).blocks[0]
    assert block.eps[0, 0] >= 2.0**-4


def test_paths_select_and_unknown_ones_are_errors():
    advice = fdcheck.recommend_eps(lambda x: {"u": x["a"], "v": x["b"]}, {"a": 1.0, "b": 2.0}, input_paths=["a"])
    assert [path.input for path in advice.paths] == ["a"]
    assert any("not selected" in note for note in advice.notes)
    with pytest.raises(InvalidInput, match="input_paths"):
        fdcheck.recommend_eps(np.sin, 1.0, input_paths=["nowhere"])
    with pytest.raises(KeyError, match="no block"):
        advice["u", "b"]


def test_an_apply_that_raises_at_x0_is_an_error_and_one_beside_it_is_a_note():
    def fails(x):
        raise RuntimeError("no")

    with pytest.raises(InvalidInput, match="no"):
        fdcheck.recommend_eps(fails, 1.0)

    def fails_nearby(x):
        if x > 1.1:
            raise RuntimeError("too far")
        return x * x

    advice = fdcheck.recommend_eps(fails_nearby, 1.0)
    assert any("too far" in note for note in advice.notes)
    assert advice.blocks[0].high <= 0.1


def test_x0_is_left_alone_and_mutation_is_noted():
    def apply(x):
        x *= 2
        return x.copy()

    x0 = np.array([1.0, 2.0])
    advice = fdcheck.recommend_eps(apply, x0)
    assert x0.tolist() == [1.0, 2.0]
    assert any("in place" in note for note in advice.notes)


def test_rtol_moves_the_ends_of_the_range():
    loose, tight = (fdcheck.recommend_eps(np.sin, 1.0, rtol=rtol).paths[0] for rtol in (1e-2, 1e-6))
    assert loose.low < tight.low < tight.high < loose.high
    assert tight.high == pytest.approx(math.sqrt(6e-6 / 1.5), rel=0.2)  # 1.5 h**2 / 6 = rtol
    impossible = fdcheck.recommend_eps(np.sin, 1.0, rtol=1e-15).paths[0]
    assert impossible.reasons == {"noise": 1}
    assert math.isfinite(impossible.eps)


def test_applies_stay_within_what_is_documented():
    draw = np.random.default_rng(1)
    a = draw.normal(size=(7, 7))
    advice = fdcheck.recommend_eps(lambda x: np.tanh(a @ x), draw.normal(size=7))
    assert advice.applies <= 10 + 48 * 7
    assert fdcheck.recommend_eps(np.sin, 1.0).applies <= 58


def test_the_same_seed_gives_the_same_advice():
    first, second = (fdcheck.recommend_eps(np.exp, np.array([0.3, 2.0]), seed=3).to_json() for _ in range(2))
    assert first == second


def test_json_holds_everything_and_is_valid():
    advice = fdcheck.recommend_eps(np.abs, np.array([0.0, 1.0]))
    plain = json.loads(advice.to_json())
    assert plain["eps_for"] == advice.eps_for
    assert plain["applies"] == advice.applies
    assert plain["blocks"][0]["reason"][0][0] == "kink"
    assert plain["blocks"][0]["eps"][0][0] == "nan"
    assert plain["paths"][0]["usual"].keys() == {"1e-4", "1e-6", "scipy 2-point", "scipy 3-point"}


def test_advice_is_plain_data_without_numba():
    import subprocess

    code = "import sys, fdcheck; fdcheck.EpsAdvice; print('numba' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert out.stdout.strip() == "False"
