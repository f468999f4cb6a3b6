"""What a check costs: calls of apply are asserted, times are only printed as ratios measured in one run.

``py -m pytest tests/benchmarks -s`` shows the ratios.
"""

import time

import numpy as np
import pytest
from scipy.optimize._numdiff import approx_derivative

import fdcheck
from tests.problems import SMOOTH

BESIDE = 12
"""Applies that do not grow with the input: x0, its noise, and a few to spare."""


def applies_an_input(profile, dtype, wrong=False):
    """Return the calls of apply beyond the fixed ones, per input element, of every smooth problem."""
    counts = []
    for problem in SMOOTH:
        matrix = problem.jacobian(dtype)
        report = fdcheck.verify(problem.apply, problem.point(dtype), jacobian=lambda _, m=matrix: m, profile=profile)
        assert report.passed
        counts.append((report.applies - BESIDE) / len(problem.x0))
    return counts


@pytest.mark.parametrize(
    ("profile", "dtype", "limit"),
    [
        ("default", np.float64, 4.5),
        ("default", np.float32, 5.5),
        ("quick", np.float64, 2.5),
        ("quick", np.float32, 4.5),
    ],
)
def test_right_smooth_claims_cost_few_applies(profile, dtype, limit):
    counts = applies_an_input(profile, dtype)
    mean, most = np.mean(counts), max(counts)
    print(f"\n{profile} {np.dtype(dtype)}: {mean:.2f} applies an input beside {BESIDE}, at most {most:.2f}")
    assert mean <= limit


def test_quick_costs_no_more_than_default_on_any_problem():
    for dtype in (np.float32, np.float64):
        quick, default = (applies_an_input(profile, dtype) for profile in ("quick", "default"))
        assert all(a <= b for a, b in zip(quick, default, strict=True))
        assert sum(quick) < sum(default)


def test_a_network_beside_scipy():
    draw = np.random.default_rng(0)
    n, m = 50, 200
    w1, w2 = draw.normal(0, n**-0.5, (n, n)), draw.normal(0, n**-0.5, (m, n))
    x = draw.normal(0, 1, n)

    def network(x):
        return w2 @ np.tanh(w1 @ x)

    hidden = np.tanh(w1 @ x)
    matrix = (w2 * (1 - hidden**2)) @ w1

    def timed(call):
        call()  # compile, load
        best = np.inf
        for _ in range(3):
            start = time.perf_counter()
            result = call()
            best = min(best, time.perf_counter() - start)
        return best, result

    scipy_time, scipy_matrix = timed(lambda: approx_derivative(network, x, method="3-point"))
    np.testing.assert_allclose(scipy_matrix, matrix, atol=1e-6)
    for profile, limit in (("quick", 3.5), ("default", 4.5)):
        own_time, report = timed(
            lambda profile=profile: fdcheck.verify(network, x, jacobian=lambda _: matrix, profile=profile)
        )
        assert report.passed
        assert report.applies <= limit * n + BESIDE
        print(
            f"\n{profile}: {own_time / scipy_time:.2f} times as long as SciPy's 3-point differences, "
            f"{report.applies / (2 * n):.2f} times as many applies"
        )
