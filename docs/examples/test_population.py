import numpy as np
import population
import pytest


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_adjoint(fdcheck, dtype):
    fdcheck.verify(population.apply, population.shore(dtype=dtype), vjp=population.vjp)


def test_adjoint_elsewhere(fdcheck):
    draw = np.random.default_rng(0)
    x0 = {"start": draw.uniform(0.1, 1.4, 8), "spread": draw.uniform(0.1, 1.0), "growth": draw.uniform(-1, 2, 8)}
    fdcheck.verify(population.apply, x0, vjp=population.vjp)


def test_adjoint_of_a_long_shore(fdcheck):
    fdcheck.verify(population.apply, population.shore(2000), vjp=population.vjp)
