import numpy as np
import population
import pytest


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_adjoint(fdcheck, dtype):
    fdcheck.verify(population.apply, population.shore(dtype=dtype), vjp=population.vjp)


def test_adjoint_elsewhere(fdcheck):
    bounds = {"start": (0.0, 1.5), "spread": (0.1, 1.0)}
    fdcheck.verify(population.apply, population.shore(), vjp=population.vjp, points=3, bounds=bounds)


def test_adjoint_of_a_long_shore(fdcheck):
    fdcheck.verify(population.apply, population.shore(2000), vjp=population.vjp)
