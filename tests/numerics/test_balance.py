"""The error curve: noise and truncation told apart on made-up ladders whose errors are known."""

import numpy as np
import pytest

from fdcheck.numerics import balance
from fdcheck.numerics.ladder import CENTRAL, FORWARD, Ladder

STEP = 2.0 ** np.arange(-44.0, -1.0, 3.0)
UNIT = 2.0**-53


def ladder_of(right, left=None, step=STEP):
    """Return a ladder of one column and one output with given one-sided slopes."""
    right = np.broadcast_to(np.asarray(right, float), step.shape)
    left = right if left is None else np.broadcast_to(np.asarray(left, float), step.shape)
    h = step[:, None]
    return Ladder(h, h, h, (right * step)[:, None, None], (-left * step)[:, None, None])


def curve_of(ladder, estimate=1.0, bar=1e-15, level=1e-16, kind=CENTRAL, value=1.0):
    one = np.ones((1, 1))
    return balance.error_curve(
        ladder, kind, estimate * one, bar * one, np.array([value]), np.array([level]), np.array([UNIT])
    )


def noisy(truncation, level=1e-16, seed=0, step=STEP):
    """Return slopes near 1 with noise of a known level and a given truncation."""
    draw = np.random.default_rng(seed)
    return 1 + truncation(step) + level / np.sqrt(2) / step * draw.normal(size=step.shape)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("third", [1e-6, 1.0, 1e4])
def test_the_balance_is_that_of_the_formula(third, seed):
    level = 1e-16
    curve = curve_of(ladder_of(noisy(lambda h: third * h**2, level, seed)), level=level)
    best = STEP[np.argmin(curve.expected[:, 0, 0])]
    formula = (level / np.sqrt(2) / (2 * third)) ** (1 / 3)  # d/dh (level / (sqrt 2 h) + third h**2) = 0
    assert formula / 8 <= best <= 8 * min(formula, STEP[-1])
    for k in (0, 5, 9, 13):
        exact = np.hypot(level / np.sqrt(2) / STEP[k], third * STEP[k] ** 2)
        assert exact / 6 <= curve.expected[k, 0, 0] <= 6 * exact


def test_noise_is_raised_by_what_the_ladder_shows():
    curve = curve_of(ladder_of(noisy(lambda h: h**2, 1e-10)), level=1e-16)
    assert curve.noise[0, 0, 0] == pytest.approx(1e-10 / np.sqrt(2) / STEP[0], rel=0.7)
    assert not curve.loud[:5].any()


def test_a_forward_difference_is_worse_in_both_ways():
    slopes = noisy(lambda h: h, 2e-16)
    central, forward = (curve_of(ladder_of(slopes), kind=kind) for kind in (CENTRAL, FORWARD))
    assert forward.noise[-1, 0, 0] >= 1.4 * central.noise[-1, 0, 0]
    law = forward.truncation[:, 0, 0]
    assert law[7] / law[6] == pytest.approx(8, rel=0.5)


def test_a_wide_step_that_comes_back_by_chance_is_not_believed():
    slopes = noisy(lambda h: h**2)
    slopes[-1] = 1.0
    curve = curve_of(ladder_of(slopes))
    assert curve.expected[-1, 0, 0] >= STEP[-2] ** 2 * 0.9


def test_a_kink_leaves_smaller_steps_alone_and_ends_the_range_at_the_last_of_them():
    slopes = np.where(STEP > 2.0**-12, 1.5, 1.0)
    curve = curve_of(ladder_of(slopes))
    safe = balance.safe_range(curve, np.full((1, 1), 1e-3))
    below = STEP[STEP <= 2.0**-12][-1]
    assert safe.high[0, 0] == below
    assert curve.truncation[safe.last[0, 0], 0, 0] <= 1e-10


def test_the_ends_of_a_smooth_range_lie_between_rungs():
    level = 1e-16
    curve = curve_of(ladder_of(noisy(lambda h: h**2, level)), level=level)
    safe = balance.safe_range(curve, np.full((1, 1), 1e-3))
    assert safe.high[0, 0] == pytest.approx(np.sqrt(1e-3 / 1.5), rel=0.1)
    assert 3 * level / np.sqrt(2) / 1e-3 <= safe.low[0, 0] <= 10 * level / 1e-3


def test_no_range_where_noise_exceeds_the_tolerance_everywhere():
    curve = curve_of(ladder_of(noisy(lambda h: h**2, 1e-2)), level=1e-2, bar=1e-2)
    safe = balance.safe_range(curve, np.full((1, 1), 1e-3))
    assert np.isnan(safe.low).all()
    assert (safe.first == -1).all()
    rung, error = balance.best_rung(curve, safe, True)
    assert rung[0, 0] >= 0
    assert error[0, 0] > 1e-3


def test_luck_counts_only_where_apply_repeats_itself():
    slopes = noisy(lambda h: h**2, 1e-10, step=2.0 ** np.arange(-20.0, -1.0))
    slopes[10] = 1.0  # h = 2**-10, next to the best step
    curve = curve_of(ladder_of(slopes, step=2.0 ** np.arange(-20.0, -1.0)), level=1e-10, bar=1e-13)
    safe = balance.safe_range(curve, np.full((1, 1), 1e-3))
    rung, error = balance.best_rung(curve, safe, True)
    assert rung[0, 0] == 10
    assert error[0, 0] < 1e-12
    assert balance.best_rung(curve, safe, False)[1][0, 0] > 1e-8


def test_expected_errors_between_and_beyond_rungs():
    level = 1e-16
    curve = curve_of(ladder_of(noisy(lambda h: h**2, level)), level=level)
    between, above, below = (balance.expected_at(curve, np.array([h]))[0, 0] for h in (2.0**-9.5, 4.0, STEP[0] / 16))
    assert between == pytest.approx(2.0**-19, rel=0.2)
    assert above == pytest.approx(16, rel=0.1)
    assert below == pytest.approx(16 * curve.noise[0, 0, 0], rel=0.1)


def test_an_output_that_stands_still_has_no_error():
    curve = curve_of(ladder_of(0.0), estimate=0.0, bar=1e-3, level=1e-3)
    assert (curve.expected == 0).all()
    assert balance.expected_at(curve, np.array([1e-5]))[0, 0] == 0


def test_the_ladder_sharpens_an_estimate_but_does_not_overthrow_it():
    slopes = noisy(lambda h: h**2, 1e-16)
    ladder = ladder_of(slopes + STEP, slopes - STEP)  # a gap of 2 h, as of a smooth function
    curve = curve_of(ladder, estimate=1 + 1e-9, bar=2e-9)
    value, bar = balance.sharper(ladder, curve, np.full((1, 1), 1 + 1e-9), np.full((1, 1), 2e-9), np.array([1e-16]))
    assert abs(value[0, 0] - 1) <= 2 * bar[0, 0] < 1e-11
    kept, same = balance.sharper(ladder, curve, np.full((1, 1), 1.5), np.full((1, 1), 2e-9), np.array([1e-16]))
    assert (kept[0, 0], same[0, 0]) == (1.5, 2e-9)


def test_the_bar_of_a_sharper_estimate_holds():
    misses = 0
    for seed in range(100):
        slopes = noisy(lambda h: h**2 + 0.3 * h**4, 1e-16, seed)
        ladder = ladder_of(slopes + STEP, slopes - STEP)
        curve = curve_of(ladder, estimate=1 + 1e-9, bar=2e-9)
        value, bar = balance.sharper(ladder, curve, np.full((1, 1), 1 + 1e-9), np.full((1, 1), 2e-9), np.array([1e-16]))
        misses += abs(value[0, 0] - 1) > bar[0, 0]
    assert misses <= 3
