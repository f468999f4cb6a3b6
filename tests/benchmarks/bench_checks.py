"""Seconds of whole checks, with pytest-benchmark: ``pytest tests/benchmarks/bench_checks.py``.

Checks of one group are to be compared with each other; SciPy's differences come without a verdict.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import pytest
from scipy.optimize._numdiff import approx_derivative

import fdcheck
from tests.benchmarks.cases import Array, cases

PROFILES = ("quick", "default", "strict")
CASES = {case.name: case for case in cases(1000)}

DRAW = np.random.default_rng(4)
INPUTS, OUTPUTS = 2000, 50
FIRST, SECOND = DRAW.permutation(INPUTS)[: 2 * OUTPUTS].reshape(2, OUTPUTS)
MATRIX = DRAW.normal(size=(OUTPUTS, INPUTS))
POINT = DRAW.normal(size=INPUTS)


@numba.njit
def few(x: Array) -> Array:
    """Each output hangs on two inputs; a call costs less than half a microsecond."""
    y = np.empty(OUTPUTS)
    for i in range(OUTPUTS):
        y[i] = x[FIRST[i]] * x[SECOND[i]] + x[FIRST[i]]
    return y


@numba.njit
def all_of_them(x: Array) -> Array:
    """Each output hangs on each input."""
    return MATRIX @ x


def jacobian_of_few(x: Array) -> Array:
    """Return the Jacobian of ``few``."""
    matrix = np.zeros((OUTPUTS, INPUTS))
    rows = np.arange(OUTPUTS)
    matrix[rows, FIRST] = x[SECOND] + 1
    matrix[rows, SECOND] = x[FIRST]
    return matrix


COMPILED: dict[str, tuple[Any, Any]] = {"few": (few, jacobian_of_few), "all": (all_of_them, lambda _: MATRIX)}


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", CASES)
def test_a_right_vjp(benchmark: Any, name: str, profile: str) -> None:
    case = CASES[name]
    benchmark.group = name
    assert benchmark(fdcheck.verify, case.apply, case.x0, vjp=case.right, profile=profile)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", CASES)
def test_a_wrong_vjp(benchmark: Any, name: str, profile: str) -> None:
    case = CASES[name]
    benchmark.group = f"{name}, wrong"
    assert not benchmark(fdcheck.verify, case.apply, case.x0, vjp=case.wrong, profile=profile)


@pytest.mark.parametrize("profile", PROFILES)
@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_function(benchmark: Any, name: str, profile: str) -> None:
    apply, jacobian = COMPILED[name]
    benchmark.group = f"@njit, {name}"
    assert benchmark(fdcheck.verify, apply, POINT, jacobian=jacobian, profile=profile)


@pytest.mark.parametrize("name", COMPILED)
def test_scipy_with_a_compiled_function(benchmark: Any, name: str) -> None:
    apply, jacobian = COMPILED[name]
    benchmark.group = f"@njit, {name}"
    found = benchmark(approx_derivative, apply, POINT, method="3-point")
    np.testing.assert_allclose(found, jacobian(POINT), atol=1e-6)


@pytest.mark.parametrize("profile", PROFILES)
def test_a_trivial_function(benchmark: Any, profile: str) -> None:
    x0, outputs = np.linspace(0.5, 1.5, 1000), slice(None, 10)
    matrix = np.eye(10, 1000)
    benchmark.group = "the first 10 of 1,000 inputs"
    assert benchmark(fdcheck.verify, lambda x: x[outputs].copy(), x0, jacobian=lambda _: matrix, profile=profile)


@pytest.mark.parametrize("name", ["differentiate", "recommend_eps"])
def test_measuring_without_a_claim(benchmark: Any, name: str) -> None:
    case = CASES["tanh network, 50 to 20, float64"]
    benchmark.group = name
    benchmark(getattr(fdcheck, name), case.apply, case.x0)
