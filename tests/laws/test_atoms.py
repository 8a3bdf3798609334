"""Values and probabilities as they are given, and what a law makes of them."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bqrl.laws.law import Law, running_mass, size_of


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=60))
def test_running_sums_are_within_two_ulps_of_the_exact_ones(terms):
    found = running_mass(np.array(terms))
    for i, total in enumerate(found):
        exact = math.fsum(terms[: i + 1])
        assert abs(total - exact) <= 2.0 * math.ulp(exact)


def test_the_size_of_values_is_the_largest_magnitude_and_never_zero():
    assert size_of(np.array([-3.0, 2.0])) == 3.0
    assert size_of(np.zeros(2)) == 1.0


def test_support_is_sorted_and_merged_and_zero_atoms_are_dropped():
    law = Law([2, 0.3, 5, 0.1 + 0.2, 0], [0.25, 0.25, 0, 0.25, 0.25])
    assert law.values.tolist() == [0.0, 0.3, 2.0]
    assert law.probabilities.tolist() == [0.25, 0.5, 0.25]
    assert law.running.tolist() == [0.25, 0.75, 1.0]


def test_values_further_apart_than_the_tolerance_stay_apart():
    assert len(Law([1.0, 1.0 + 4e-13], [0.5, 0.5])) == 2
    assert len(Law([1e6, 1e6 + 4e-8], [0.5, 0.5])) == 1
    assert len(Law([0.0, 5e-14, 1.0], [0.25, 0.25, 0.5])) == 2
    assert len(Law([0.0, 5e-14], [0.5, 0.5])) == 2  # the tolerance is relative to the values of a small law


def test_a_chain_of_close_values_is_not_one_value():
    law = Law(1e13 + np.arange(1000.0), np.full(1000, 1e-3))
    assert law.mean() == pytest.approx(1e13 + 499.5, abs=2.0)
    assert abs(law.quantile(0.5) - (1e13 + 499.0)) <= 1.0


def test_exact_probabilities_stay_untouched_and_others_are_rescaled():
    given_p = [0.1] * 10
    assert Law(range(10), given_p).probabilities.tolist() == given_p
    rescaled = Law([0, 1], [0.5, 0.5 + 5e-10])
    assert math.fsum(rescaled.probabilities) == pytest.approx(1.0, abs=1e-16)
    assert rescaled.probabilities[0] < 0.5


def test_noise_below_zero_is_clipped():
    assert Law([0, 1], [-1e-13, 1.0]).values.tolist() == [1.0]


def test_given_arrays_are_neither_kept_nor_changed():
    x, p = np.array([1.0, 0.0]), np.array([0.5, 0.5])
    law = Law(x, p)
    x[0] = 7.0
    assert law.values.tolist() == [0.0, 1.0]
