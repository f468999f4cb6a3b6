"""The compiled kernels decide what the interpreted ones decide."""

import numpy as np
import pytest

import fdcheck
from fdcheck.numerics import compiled

WEIGHTS = np.random.default_rng(3).normal(size=(6, 5))


def network(x):
    return np.tanh(WEIGHTS.astype(x.dtype) @ x)


def exact(x):
    x = x.astype(float)
    return (1 - np.tanh(WEIGHTS @ x) ** 2)[:, None] * WEIGHTS


@pytest.fixture
def entries(monkeypatch):
    """Count anew, so that the test says itself when the compiler is due."""
    monkeypatch.setattr(compiled, "_kernel", compiled._Kernel())
    return monkeypatch


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("factor", [1.0, 1.1])
def test_both_give_the_same_report(entries, dtype, factor):
    x0 = np.linspace(-1, 1, 5).astype(dtype)
    reports = []
    for limit in (10**9, 0):
        entries.setattr(compiled, "_INTERPRETED", limit)
        reports.append(fdcheck.verify(network, x0, jacobian=lambda x: factor * exact(x)))
    interpreted, fast = reports
    assert interpreted.verdict == fast.verdict
    assert (fast.verdict == "fail") == (factor != 1)
    assert interpreted.applies == fast.applies
    for a, b in zip(interpreted.pairs, fast.pairs, strict=True):
        assert a.counts == b.counts
        np.testing.assert_allclose([a.estimated, a.error, a.eps], [b.estimated, b.error, b.eps], rtol=1e-9, atol=1e-18)


def test_a_small_check_does_not_wake_the_compiler(entries):
    assert fdcheck.verify(np.sin, np.array([0.1, 0.2]), vjp=lambda x, ct: ct * np.cos(x))
    assert compiled._kernel.decide is None


def test_many_small_checks_do(entries):
    entries.setattr(compiled, "_INTERPRETED", 20)
    for _ in range(3):
        assert fdcheck.verify(np.sin, np.array([0.1, 0.2, 0.3]), vjp=lambda x, ct: ct * np.cos(x))
    assert compiled._kernel.decide is not None
