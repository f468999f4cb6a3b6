"""Functions with noise, states and tolerances of their own: never a false failure, and what is said of each."""

import numpy as np
import pytest
from scipy.integrate import solve_ivp

import fdcheck
from fdcheck import Status, Verdict

X = np.array([0.7, 1.3])


def of_apply(report):
    return {str(f.status) for f in report.findings if f.endpoint == "apply"}


def wave_vjp(x, c):
    return c * np.cos(x)


# ------------------------------------------------------------------------------------------------ random numbers


def expectation_jacobian(x):
    return np.exp(x[1] + x[0] ** 2 / 2) * np.array([[x[0], 1.0]])


def monte_carlo(samples, seed):
    draw = np.random.default_rng(seed)
    return lambda x: np.array([np.mean(np.exp(x[0] * draw.standard_normal(samples) + x[1]))])


@pytest.mark.parametrize("samples", [10, 500, 20000])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_monte_carlo_function_without_a_seed(samples, seed):
    x0 = np.array([0.3, -0.1])
    report = fdcheck.verify(monte_carlo(samples, seed), x0, jacobian=expectation_jacobian)
    assert report.verdict is Verdict.INCONCLUSIVE
    assert of_apply(report) == {"nondeterministic"}
    finding = next(f for f in report.findings if f.endpoint == "apply")
    assert "four calls at x0 scatter by" in finding.message
    told = float(finding.message.split("scatter by ")[1].split()[0])
    scatter = np.std([monte_carlo(samples, k)(x0) for k in range(40)])
    assert 0.05 * scatter < told < 4 * scatter
    assert not fdcheck.verify(monte_carlo(samples, seed), x0, jacobian=lambda x: 1e4 * expectation_jacobian(x)).passed


def test_a_grossly_wrong_derivative_of_a_random_function_fails():
    x0 = np.array([0.3, -0.1])
    report = fdcheck.verify(monte_carlo(20000, 0), x0, jacobian=lambda x: 1e4 * expectation_jacobian(x))
    assert report.verdict is Verdict.FAIL
    seeded = fdcheck.verify(lambda x: monte_carlo(500, 0)(x), x0, jacobian=lambda x: 1e4 * expectation_jacobian(x))
    assert of_apply(seeded) == set()


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_sums_in_another_order_are_rounding_and_no_scatter(dtype):
    draw, weights = np.random.default_rng(0), (1 / np.arange(1.0, 400.0)).astype(dtype)

    def shuffled(x):
        total = dtype(0)
        for term in draw.permutation(weights * x[0] ** 2):
            total += term
        return np.array([total])

    report = fdcheck.verify(shuffled, X[:1].astype(dtype), jacobian=lambda x: np.array([[2.0 * x[0] * weights.sum()]]))
    assert report.passed
    assert of_apply(report) == set()
    wrong = fdcheck.verify(shuffled, X[:1].astype(dtype), jacobian=lambda x: np.array([[2.1 * x[0] * weights.sum()]]))
    assert wrong.verdict is Verdict.FAIL


# ------------------------------------------------------------------------------------------------ state


class Counts:
    """Drifts by one part in a million each time."""

    calls = 0

    def __call__(self, x):
        self.calls += 1
        return np.sin(x) * (1 + 1e-6 * self.calls)


class Keeps:
    """Keeps results by a key of their points: right if it holds all values."""

    def __init__(self, key):
        self.key, self.known = key, {}

    def __call__(self, x):
        return self.known.setdefault(self.key(x), np.sin(x))


class Lags:
    """Gives the value of the last point, where that was another one by far."""

    last = None

    def __call__(self, x):
        before, self.last = self.last, x
        return np.sin(x if before is None or np.allclose(x, before, rtol=1e-2) else before)


class Follows:
    """Gives half of what the last point gave."""

    last = None

    def __call__(self, x):
        before, self.last = self.last, np.sin(x)
        return self.last if before is None else self.last + 1e-3 * before


class Iterates:
    """Solves y = 0.5 cos y + 0.3 x to a tolerance, from its last solution if it starts warm."""

    def __init__(self, tol, is_warm):
        self.tol, self.is_warm, self.y = tol, is_warm, None

    def __call__(self, x):
        y = np.zeros_like(x) if self.y is None or not self.is_warm else self.y
        for _ in range(400):
            last, y = y, 0.5 * np.cos(y) + 0.3 * x
            if np.abs(y - last).max() < self.tol:
                break
        self.y = y
        return y.copy()


def fixed_point_vjp(x, c):
    y = Iterates(1e-15, False)(x)
    return c * 0.3 / (1 + 0.5 * np.sin(y))


@pytest.mark.parametrize(
    ("apply", "statuses"),
    [(Counts, {"hidden_state"}), (Lags, {"hidden_state"}), (lambda: Keeps(np.ndarray.tobytes), set())],
    ids=["counter", "lag", "cache"],
)
def test_state_between_calls(apply, statuses):
    report = fdcheck.verify(apply(), X, vjp=wave_vjp)
    assert of_apply(report) == statuses
    assert report.verdict is (Verdict.INCONCLUSIVE if statuses else Verdict.PASS)
    if statuses:
        (finding,) = [f for f in report.findings if f.endpoint == "apply"]
        assert "it keeps something between calls" in finding.message
        skipped = fdcheck.verify(apply(), X, vjp=wave_vjp, skip="hidden_state")
        assert Status.HIDDEN_STATE not in of_apply(skipped)


def test_what_follows_the_last_point_is_no_function():
    report = fdcheck.verify(Follows(), X, vjp=wave_vjp)
    assert report.verdict is not Verdict.PASS
    assert of_apply(report) & {"hidden_state", "nondeterministic"}


# ------------------------------------------------------------------------------------------------ tolerances


@pytest.mark.parametrize("tol", [1e-3, 1e-4, 1e-6, 1e-8, 1e-10, 1e-12])
@pytest.mark.parametrize("is_warm", [False, True], ids=["cold", "warm"])
@pytest.mark.parametrize("x0", [X, np.array([-2.1, 0.05, 30.0])], ids=["two", "three"])
def test_iterative_solvers_are_never_failed(tol, is_warm, x0):
    report = fdcheck.verify(Iterates(tol, is_warm), x0, vjp=fixed_point_vjp)
    assert report.verdict is not Verdict.FAIL, str(report)
    if is_warm and tol < 1e-3:
        assert of_apply(report) <= {"hidden_state", "nondeterministic"}
    wrong = fdcheck.verify(Iterates(tol, is_warm), x0, vjp=lambda x, c: 2 * fixed_point_vjp(x, c))
    assert wrong.verdict is not Verdict.PASS
    if tol <= 1e-6:
        assert wrong.verdict is Verdict.FAIL


def pendulum(tol, method="RK45"):
    def apply(x):
        def field(_, y):
            return [y[1], -x[0] * np.sin(y[0]) - x[1] * y[1]]

        return solve_ivp(field, (0, 2), [1.0, 0.0], rtol=tol, atol=tol, method=method).y[:, -1]

    return apply


def test_adaptive_steps_of_an_ode():
    exact, h = pendulum(1e-12, "DOP853"), 1e-4
    claim = np.stack([(exact(X + h * e) - exact(X - h * e)) / (2 * h) for e in np.eye(2)], axis=1)
    for tol in (1e-5, 1e-8):
        assert fdcheck.verify(pendulum(tol), X, jacobian=lambda x: claim).verdict is not Verdict.FAIL
        assert fdcheck.verify(pendulum(tol), X, jacobian=lambda x: 1.1 * claim).verdict is Verdict.FAIL


@pytest.mark.parametrize("digits", [1, 2, 3, 4, 6, 8])
def test_rounded_output(digits):
    report = fdcheck.verify(lambda x: np.round(np.sin(x), digits), X, vjp=wave_vjp)
    assert report.verdict is not Verdict.FAIL, str(report)
    if report.verdict is Verdict.INCONCLUSIVE:
        messages = [f.message for f in report.findings if f.status is Status.UNDECIDED]
        assert all("return more digits" in m or "more digits of output" in m for m in messages)
    wrong = fdcheck.verify(lambda x: np.round(np.sin(x), digits), X, vjp=lambda x, c: 3 * wave_vjp(x, c))
    assert wrong.verdict is not Verdict.PASS


# ------------------------------------------------------------------------------------------------ what is said


def test_noise_is_said_with_its_level_the_bar_and_what_would_do():
    def hashed(x):  # equal points give equal values, others an error of 1e-5
        return np.sin(x) + 1e-5 * np.random.default_rng(np.abs(x).view(np.uint64)).normal(size=x.shape)

    report = fdcheck.verify(hashed, X, vjp=wave_vjp, rtol=1e-6)
    assert report.verdict is Verdict.INCONCLUSIVE
    finding = next(f for f in report.findings if f.status is Status.UNDECIDED and f.claimed != 0)
    assert "apply's output carries" in finding.message
    level = float(finding.message.split("carries ")[1].split()[0])
    assert 2e-6 < level < 5e-5
    wanted = float(finding.message.split("reduce the noise to ")[1].split()[0])
    assert wanted < level / 3
    for word in ("the slope is uncertain by", "tighter solver tolerance", "float64", "more digits of output",
                 "widen rtol", "a larger step"):  # fmt: skip
        assert word in finding.message

    def calmer(x):
        return np.sin(x) + wanted * np.random.default_rng(np.abs(x).view(np.uint64)).normal(size=x.shape)

    entry = {"output": finding.output_index, "input": finding.input_index}
    again = fdcheck.verify(calmer, X, vjp=wave_vjp, rtol=1e-6)
    open_ = [
        f for f in again.findings if f.claimed != 0 and {"output": f.output_index, "input": f.input_index} == entry
    ]
    assert not open_ or open_[0].error < 0.2 * finding.error


def test_restless_functions_are_told_to_fix_their_seed():
    report = fdcheck.verify(monte_carlo(50, 3), np.array([0.3, -0.1]), jacobian=expectation_jacobian)
    undecided = [f.message for f in report.findings if f.status is Status.UNDECIDED]
    assert undecided
    assert all(
        "apply gives another value each time" in message and "fix its random seed" in message for message in undecided
    )
