"""The member that a sum of errors comes from is found with few sums; many wrong members are told as such."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fdcheck.checks.locating import located, tilt


def sums(errors, bar=0.0):
    """Return partial sums of errors known to within a bar, and the list of those asked for."""
    asked = []

    def sum_of(first, last, tilted):
        asked.append((first, last, tilted))
        part = errors[first:last]
        return float(part @ tilt(last - first) if tilted else part.sum()), bar

    return sum_of, asked


@settings(max_examples=60, deadline=None, database=None)
@given(st.integers(1, 10**6), st.data())
def test_a_single_wrong_member_is_found_with_a_handful_of_sums(size, data):
    errors = np.zeros(size)
    place = data.draw(st.integers(0, size - 1))
    errors[place] = data.draw(st.sampled_from([1.0, -3e-7, 2e5]))
    sum_of, asked = sums(errors, bar=1e-6 * abs(errors[place]))
    assert located(sum_of, size, *sum_of(0, size, False)) == (place, False)
    assert len(asked) <= 1 + 6


@settings(max_examples=60, deadline=None, database=None)
@given(st.lists(st.integers(0, 10**5 - 1), min_size=2, max_size=3, unique=True))
def test_one_of_a_few_wrong_members_is_found(places):
    errors = np.zeros(10**5)
    errors[places] = np.random.default_rng(sum(places)).uniform(0.5, 1.5, len(places))
    sum_of, asked = sums(errors, bar=1e-7)
    place, _ = located(sum_of, 10**5, *sum_of(0, 10**5, False))
    assert place in places
    assert len(asked) <= 40


def test_where_all_are_wrong_one_is_found_and_it_is_said_to_be_one_of_many():
    errors = np.random.default_rng(1).normal(size=10**5)
    sum_of, asked = sums(errors, bar=1e-9)
    place, is_one_of_many = located(sum_of, 10**5, *sum_of(0, 10**5, False))
    assert place is not None
    assert abs(errors[place]) > 0
    assert is_one_of_many
    assert len(asked) <= 30


def test_an_infinite_error_is_found():
    errors = np.zeros(5000)
    errors[1234] = np.inf
    sum_of, _ = sums(errors)
    assert located(sum_of, 5000, np.inf, 0.0)[0] == 1234


@pytest.mark.parametrize("value", [0.0, 1e-9, np.nan])
def test_a_sum_within_its_bar_leads_nowhere(value):
    sum_of, asked = sums(np.zeros(100))
    assert located(sum_of, 100, value, 1e-8)[0] is None
    assert not asked
