"""Noise of points along a line: a known sigma is found, kinks and curvature are not taken for noise."""

import numpy as np
import pytest

from fdcheck.numerics import lines


def irregular(seed, count=4, reach=1000):
    draw = np.random.default_rng(seed)
    sides = [np.sort(draw.choice(np.arange(1, reach), count, replace=False)) for _ in range(2)]
    return np.concatenate([-sides[0][::-1], sides[1]]).astype(float)


def line_noise(multiple, delta):
    """Call line_noise: (noise, slope, slope error, bends), each of shape (m,)."""
    points = np.asarray(multiple, float), np.asarray(delta, float).reshape(len(multiple), -1)
    return (*lines.line_noise(*points), lines.is_bent(*points))


@pytest.mark.parametrize("slope", [0.0, 1e-3, -40.0])
@pytest.mark.parametrize("sigma", [1e-9, 3.0])
def test_line_noise_finds_a_known_sigma_within_a_factor_of_three(sigma, slope):
    multiple, draws = irregular(3), 200
    at_x0 = np.random.default_rng(1).normal(0, sigma, draws)
    values = slope * multiple[:, None] + np.random.default_rng(2).normal(0, sigma, (8, draws))
    noise, seen, *_ = line_noise(multiple, values - at_x0)
    inside = (noise > sigma / 3) & (noise < 3 * sigma)
    assert inside.mean() > 0.9
    assert sigma / 1.5 < np.sqrt(np.mean(noise**2)) < 1.5 * sigma
    assert np.median(np.abs(seen - slope)) < 6 * sigma / 500


@pytest.mark.parametrize(("left", "right"), [(0.0, 1.0), (-1.0, 1.0), (2.0, 2.0), (0.0, 0.0), (-3.0, 0.5)])
def test_a_kink_at_x0_in_exact_arithmetic_has_no_noise(left, right):
    multiple = irregular(5)
    delta = np.where(multiple < 0, left * multiple, right * multiple)
    noise, slope, error, _ = line_noise(multiple, delta)
    assert noise[0] <= 1e-12
    assert slope[0] == pytest.approx(0.5 * (left + right), abs=1e-12)
    assert error[0] == pytest.approx(abs(right - left), abs=1e-12)


@pytest.mark.parametrize("at", [150.0, -300.0])
@pytest.mark.parametrize("kind", ["kink", "jump"])
def test_one_kink_or_jump_beside_x0_is_no_noise(kind, at):
    multiple = irregular(7)
    beyond = np.maximum(multiple - at, 0) if at > 0 else np.minimum(multiple - at, 0)
    delta = 0.25 * multiple + (beyond if kind == "kink" else 500 * (beyond != 0))
    assert line_noise(multiple, delta)[0][0] < 0.05 * np.abs(delta).max()


@pytest.mark.parametrize("seed", range(6))
def test_curvature_is_no_noise(seed):
    multiple, sigma = irregular(seed), 1e-3
    bend = 1e-5 * multiple**2  # up to 10, ten thousand sigmas
    jitter = np.random.default_rng(seed).normal(0, sigma, (8, 50))
    noise, slope, *_ = line_noise(multiple, 0.1 * multiple[:, None] + bend[:, None] + jitter)
    assert np.median(noise) < 10 * sigma
    assert np.median(slope) == pytest.approx(0.1, abs=1e-3)
    exact = line_noise(multiple, 0.1 * multiple + bend)
    assert exact[0][0] < 1e-7 * np.abs(bend).max()
    assert exact[3][0]


def test_bends_tells_a_curve_from_noise():
    multiple = irregular(11)
    curves = [1 / (1500 - multiple) - 1 / 1500, np.sqrt(1500 + multiple) - np.sqrt(1500), np.exp(multiple / 300) - 1]
    assert all(line_noise(multiple, curve)[3][0] for curve in curves)
    noisy = np.random.default_rng(0).standard_normal((8, 200))
    assert line_noise(multiple, noisy)[3].mean() < 0.25


def test_a_side_that_is_not_finite_leaves_the_other_side_to_tell():
    multiple = irregular(13)
    clean = np.where(multiple < 0, np.nan, 2 * multiple)
    noise, slope, *_ = line_noise(multiple, clean)
    assert noise[0] < 1e-12
    assert np.isnan(slope[0])
    rough = clean + np.random.default_rng(4).normal(0, 1, 8)
    assert 0.1 < line_noise(multiple, rough)[0][0] < 10


@pytest.mark.parametrize("size", [1e-300, 1e-160, 1e160, 1e300])
def test_squares_of_differences_neither_vanish_nor_overflow(size):
    multiple = irregular(3)
    jitter = np.random.default_rng(5).normal(0, 1e-3, (8, 1)) + 2 * multiple[:, None]
    usual = line_noise(multiple, jitter)
    noise, slope, *_ = line_noise(multiple, np.hstack([size * jitter, jitter]))
    assert noise == pytest.approx([size * usual[0][0], usual[0][0]], rel=1e-9)
    assert slope == pytest.approx([size * usual[1][0], usual[1][0]], rel=1e-9)


# first steps
