"""The compiled kernels against slow plain twins and closed forms."""

import fractions
import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdcheck.numerics import kernels, tables

BARS = 3.0  # standard deviations in an error bar


GRID = (1e-4, 8e-4)


def window(h, slope, sigma, gap=None, power=2):
    """Call best_window on plain sequences: (estimate, truncation, noise, first, last)."""
    w = np.zeros((kernels.SERIES, kernels.MAX_STEPS))
    count = len(h)
    w[kernels.H, :count] = h
    w[kernels.POWER, :count] = np.asarray(h, float) ** power
    w[kernels.SLOPE, :count] = slope
    w[kernels.SIGMA, :count] = sigma
    w[kernels.GAP, :count] = 0.0 if gap is None else gap
    return kernels.best_window(w, count)


def decide(function, x, steps, claim, noise=1e-16, least=2, low=1e-12, high=0.25, scale=1.0):
    """Decide one entry from the differences of a plain function at given steps: (code, estimate, error, wishes)."""
    table = tables.empty_table(1, 1)
    table.count[0] = len(steps)
    for k, h in enumerate(steps):
        table.spacing[:, k, 0] = h
        table.change[:, k, 0, 0] = function(x + h) - function(x), function(x - h) - function(x)
    outputs = np.array([[function(x)], [noise], [2.0**-53], [1e-3], [0.0], [1e-6], [1.0], [1.0]])
    inputs = np.array([[abs(x)], [scale], [low], [high], [1e-3]])
    found = tables.Found(np.zeros((1, 1, 1), np.int8), np.empty((3, 1, 1)), np.zeros((1, 3)))
    column = np.zeros(1, np.int64)
    kernels.decide_columns(
        column, column, table, outputs, inputs, np.array([[[claim]]], float), np.inf, least, False, found,
        tables.scratch(),
    )  # fmt: skip
    estimate, error, _ = found.entry[:, 0, 0]
    return int(found.code[0, 0, 0]), float(estimate), float(error), found.wish[0]


# extrapolation


def lagrange_at_zero(x):
    """Return the weights that extrapolate values at x to 0, computed without rounding."""
    exact = [fractions.Fraction(float(v)) for v in x]
    return [
        float(math.prod((-b / (a - b) for b in exact[:k] + exact[k + 1 :]), start=fractions.Fraction(1)))
        for k, a in enumerate(exact)
    ]


def plain_window(h, slope, sigma, gap, power):
    """Choose a window by the rules, with polynomials fitted anew for every window."""
    count, x = len(h), [v**power for v in h]

    def fitted(a, b):
        weights = lagrange_at_zero(x[a : b + 1])
        value = sum(c * s for c, s in zip(weights, slope[a : b + 1], strict=True))
        return value, sum(abs(c) * s for c, s in zip(weights, sigma[a : b + 1], strict=True))

    choices = []
    for length, a in itertools.product(range(1, min(4, count) + 1), range(count)):
        b = a + length - 1
        if b >= count:
            continue
        value, noise = fitted(a, b)
        if length > 1:
            change = abs(value - fitted(a, b - 1)[0])
            leaks = [abs(gap[k] * h[a] / h[k] - gap[a]) - 2 * BARS * sigma[a] for k in range(a + 1, b + 1)]
            change = max(change, *leaks)
        elif count == 1:
            change = abs(gap[0])
        else:
            change = abs(fitted(a, a + 1)[0] - value) if a < count - 1 else abs(slope[a] - slope[a - 1])
        change = max([change, *(abs(slope[k] - value) - BARS * sigma[k] for k in range(a))])
        choices.append((change + BARS * noise, value, change, noise, a, b))
    return min(choices, key=lambda choice: choice[0])[1:]


ladder = st.lists(st.floats(1.3, 40), min_size=0, max_size=6)


@settings(max_examples=80, deadline=None)
@given(ladder, st.integers(0, 10**6), st.sampled_from([1, 2]), st.floats(1e-9, 1e-2))
def test_best_window_chooses_what_plain_polynomials_choose(ratios, seed, power, noise):
    h = 1e-3 * np.cumprod([1.0, *ratios])
    draw = np.random.default_rng(seed)
    sigma = noise * 1e-3 / h
    slope = 0.7 + 0.2 * h**power - 0.1 * h ** (2 * power) + sigma * draw.standard_normal(len(h))
    gap = 0.5 * h + 2 * sigma * draw.standard_normal(len(h))
    found = window(h, slope, sigma, gap, power)
    plain = plain_window(h.tolist(), slope.tolist(), sigma.tolist(), gap.tolist(), power)
    assert found[3:] == plain[3:]
    np.testing.assert_allclose(found[:3], plain[:3], rtol=1e-6, atol=1e-12)


@pytest.mark.parametrize("power", [1, 2])
@pytest.mark.parametrize("steps", [(1e-3, 8e-3, 0.5), (2.0**-9, 2.0**-7, 2.0**-4), (1e-4, 3e-4, 1e-3, 1e-2, 0.1)])
def test_best_window_is_exact_on_a_pure_error_of_its_power(power, steps):
    h = np.array(steps)
    estimate, _, noise, first, last = window(h, 2.5 - 3.0 * h**power, 1e-15 + 0 * h, power=power)
    assert estimate == pytest.approx(2.5, abs=1e-14)
    assert last > first
    assert noise < 1e-14


@pytest.mark.parametrize("power", [1, 2])
def test_the_bar_of_two_steps_covers_the_error_of_the_smaller_one(power):
    h = np.array([1e-3, 8e-3])
    estimate, truncation, noise, *_ = window(h, 2.5 - 3.0 * h**power, 1e-15 + 0 * h, power=power)
    assert abs(estimate - 2.5) <= (1 + 1e-6) * (truncation + BARS * noise) < 1.01 * 3.0 * 1e-3**power


def test_best_window_removes_two_error_terms_and_its_bar_covers_the_third():
    h = 2.0 ** np.array([-7.0, -5, -4])
    x = 0.8
    estimate, truncation, noise, *_ = window(h, np.sin(h) / h * np.cos(x), 1e-16 / h)
    assert abs(estimate - np.cos(x)) < 1e-9
    assert abs(estimate - np.cos(x)) <= truncation + BARS * noise


def test_a_kink_inside_the_window_shows_in_the_bar():
    h = 2.0 ** np.array([-12.0, -9, -6])
    gap = np.where(h > 2.0**-8, 0.4 * (1 - 2.0**-8 / h), 0.0)  # a kink of 0.4 at distance 2**-8
    slope = 1.0 + 0.5 * gap
    estimate, truncation, noise, _, last = window(h, slope, 1e-14 + 0 * h, gap)
    assert last < 2
    assert estimate == pytest.approx(1.0, abs=1e-12)
    assert truncation + BARS * noise < 1e-3


# noise


def irregular(seed, count=4, reach=1000):
    draw = np.random.default_rng(seed)
    sides = [np.sort(draw.choice(np.arange(1, reach), count, replace=False)) for _ in range(2)]
    return np.concatenate([-sides[0][::-1], sides[1]]).astype(float)


def test_a_right_claim_agrees_on_two_steps_and_on_one_if_that_is_enough():
    code, estimate, error, _ = decide(math.exp, 0.5, GRID, math.exp(0.5))
    assert code == kernels.AGREES
    assert abs(estimate - math.exp(0.5)) <= error < 1e-8
    assert decide(math.exp, 0.5, GRID[:1], math.exp(0.5), least=1)[0] == kernels.AGREES


@pytest.mark.parametrize("claim", [1.02, 0.0, -1.0, 5.0, math.nan, math.inf])
def test_no_claim_is_rejected_on_two_steps_unless_it_is_nan(claim):
    code, *_, wish = decide(math.exp, 0.0, GRID, claim)
    if math.isnan(claim):
        assert code == kernels.DISAGREES
        return
    assert code == kernels.PENDING
    assert wish.any()
    more = [*GRID, *(v for v in wish if v > 0)]
    while code == kernels.PENDING and len(more) < kernels.MAX_STEPS:
        code, *_, wish = decide(math.exp, 0.0, sorted(more), claim)
        more += [v for v in wish if v > 0]
    assert code == kernels.DISAGREES


def test_a_kink_a_jump_and_nothing_finite():
    fine = (1e-15, 1e-11, 1e-7, 1e-4)
    for claim, code in ((0.0, kernels.KINK), (0.99, kernels.KINK), (1.5, kernels.DISAGREES)):
        assert decide(abs, 0.0, fine, claim)[0] == code
    for claim, code in ((2.0, kernels.JUMP), (1.0, kernels.JUMP), (7.0, kernels.DISAGREES)):
        assert decide(lambda t: 2 * t + 3 if t >= 0 else t, 0.0, fine, claim)[0] == code
    assert decide(lambda t: math.nan, 0.0, fine, 1.0)[0] == kernels.NONFINITE


def test_an_infinite_claim_agrees_with_a_slope_that_diverges_with_its_sign():
    fine = (1e-15, 1e-11, 1e-7, 1e-4)
    for claim, code in ((math.inf, kernels.AGREES), (-math.inf, kernels.DISAGREES)):
        assert decide(lambda t: math.sqrt(t) if t >= 0 else math.nan, 0.0, fine, claim)[0] == code
        assert decide(lambda t: 2 * t, 0.0, fine, claim)[0] == kernels.DISAGREES


def test_noise_is_never_blamed_on_the_claim():
    draw = np.random.default_rng(8)

    def noisy(t):
        return 2 * t + 1e-3 * draw.standard_normal()

    steps = [2.0**-k for k in range(2, 2 + kernels.MAX_STEPS)]
    codes = [decide(noisy, 1.0, steps, claim, noise=1e-3)[0] for claim in (2.0, 2.0, 2.01, 1.99) for _ in range(20)]
    assert kernels.DISAGREES not in codes
    assert decide(noisy, 1.0, steps, 4.0, noise=1e-3)[0] == kernels.DISAGREES


def test_slopes_head_for_a_claim_that_is_near_enough_and_for_no_other():
    h = np.array([2.0, 4.0, 8.0])  # a kink at a distance of 1
    w = np.zeros((kernels.SERIES, kernels.MAX_STEPS))
    w[kernels.H, :3] = h
    w[kernels.SLOPE, :3] = 1 - 1 / h
    assert kernels._heads_for(0.0, 3, w)
    assert not kernels._heads_for(-3.0, 3, w)  # further than the slopes go
    assert not kernels._heads_for(0.9, 3, w)  # on the other side
    assert not kernels._heads_for(0.0, 2, w)


@pytest.mark.parametrize("size", [1e-6, 1.0, 1e6])
def test_the_slope_of_one_side_of_a_jump_is_accepted_whatever_its_size(size):
    fine = (1e-15, 1e-11, 1e-7, 1e-4)
    for claim, code in ((2.0, kernels.JUMP), (1.0, kernels.JUMP), (7.0, kernels.DISAGREES)):
        found = decide(lambda t: size * (2 * t + 3 if t >= 0 else t), 0.0, fine, size * claim, noise=1e-16 * size)
        assert found[0] == code
