"""The algebra of laws: construction, shift, scale, mixture, order and distance."""

import copy
import doctest
import json
import math
import pickle
import subprocess
import sys
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from law_oracle import exact_laws
from scipy.stats import wasserstein_distance

import bqrl.laws.law
from bqrl.laws.law import MASS_TOL, Law

masses = st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=8)
decimals = st.integers(-100_000, 100_000).map(lambda k: k / 1000)
LEVELS = np.linspace(0.0, 1.0, 41)


def to_law(exact):
    return Law([float(x) for x, _ in exact], [float(p) for _, p in exact])


@st.composite
def laws(draw):
    """Laws with decimal values and masses that are no round numbers."""
    p = np.array(draw(masses))
    x = draw(st.lists(decimals, min_size=p.size, max_size=p.size))
    return Law(x, p / p.sum())


def test_support_is_sorted_and_merged_and_zero_atoms_are_dropped():
    law = Law([2, 0.3, 5, 0.1 + 0.2, 0], [0.25, 0.25, 0, 0.25, 0.25])
    assert law.values.tolist() == [0.0, 0.3, 2.0]
    assert law.probabilities.tolist() == [0.25, 0.5, 0.25]
    assert law.running.tolist() == [0.25, 0.75, 1.0]


def test_values_further_apart_than_the_tolerance_stay_apart():
    assert len(Law([1.0, 1.0 + 4e-12], [0.5, 0.5])) == 2
    assert len(Law([1e6, 1e6 + 4e-7], [0.5, 0.5])) == 1
    assert len(Law([0.0, 5e-13], [0.5, 0.5])) == 1


def test_exact_probabilities_stay_untouched_and_others_are_rescaled():
    given_p = [0.1] * 10
    assert Law(range(10), given_p).probabilities.tolist() == given_p
    rescaled = Law([0, 1], [0.5, 0.5 + 5e-10])
    assert math.fsum(rescaled.probabilities) == pytest.approx(1.0, abs=1e-16)
    assert rescaled.probabilities[0] < 0.5


def test_noise_below_zero_is_clipped():
    assert Law([0, 1], [-1e-13, 1.0]).values.tolist() == [1.0]


def test_law_is_frozen_and_hashes_by_identity():
    law = Law([0, 1], [0.5, 0.5])
    with pytest.raises(AttributeError):
        law.values = np.zeros(2)
    for array in (law.values, law.probabilities, law.running):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 3.0
    assert len({law, law, Law([0, 1], [0.5, 0.5])}) == 2


def test_given_arrays_are_neither_kept_nor_changed():
    x, p = np.array([1.0, 0.0]), np.array([0.5, 0.5])
    law = Law(x, p)
    x[0] = 7.0
    assert law.values.tolist() == [0.0, 1.0]


@given(laws())
def test_law_survives_json_pickle_and_copy_bit_by_bit(law):
    for again in (
        Law.from_dict(json.loads(json.dumps(law.to_dict()))),
        pickle.loads(pickle.dumps(law)),
        copy.deepcopy(law),
    ):
        assert again.values.tolist() == law.values.tolist()
        assert again.probabilities.tolist() == law.probabilities.tolist()
        assert not again.values.flags.writeable


@given(laws())
def test_running_mass_never_falls_and_ends_at_one(law):
    assert (np.diff(law.running) >= 0).all()
    assert law.running[-1] == 1.0
    exact = np.array([float(sum(map(Fraction, law.probabilities[: j + 1]))) for j in range(len(law))])
    np.testing.assert_allclose(law.running, exact, rtol=0, atol=1e-15)


@given(exact_laws(), st.integers(-20, 20), st.sampled_from(LEVELS), st.sampled_from(LEVELS))
def test_shift_moves_every_location(exact, quarter, tau, beta):
    law, c = to_law(exact), quarter / 4
    for moved in (law.shift(c), law + c, c + law, np.float64(c) + law, law - (-c)):
        assert moved.quantile(tau) == law.quantile(tau) + c
        assert moved.upper_quantile(tau) == law.upper_quantile(tau) + c
        assert moved.buffered_quantile(tau, beta) == pytest.approx(law.buffered_quantile(tau, beta) + c, abs=1e-12)
        assert moved.mean() == pytest.approx(law.mean() + c, abs=1e-12)
        assert moved.std() == pytest.approx(law.std(), abs=1e-12)
        assert moved.wasserstein(law) == pytest.approx(abs(c), abs=1e-12)


@given(exact_laws(), st.integers(-12, 12), st.integers(0, 24), st.sampled_from(LEVELS))
def test_scale_stretches_and_a_negative_one_swaps_the_quantiles(exact, c, k, beta):
    law, tau = to_law(exact), k / 24
    scaled = law.scale(c)
    assert scaled.mean() == pytest.approx(c * law.mean(), abs=1e-11)
    assert scaled.std() == pytest.approx(abs(c) * law.std(), abs=1e-11)
    if c >= 0:
        assert scaled.quantile(tau) == c * law.quantile(tau)
        assert scaled.buffered_quantile(tau, beta) == pytest.approx(c * law.buffered_quantile(tau, beta), abs=1e-11)
    elif 0 < k < 24:
        assert scaled.quantile(tau) == c * law.upper_quantile(1 - tau)
    if c == 0:
        assert scaled.values.tolist() == [0.0]


@given(laws(), laws(), st.integers(0, 10), decimals)
def test_mixture_mixes_every_expectation(first, second, tenths, x):
    w = [tenths / 10, 1 - tenths / 10]
    mixed = Law.mixture([first, second], w)
    assert mixed.mean() == pytest.approx(w[0] * first.mean() + w[1] * second.mean(), abs=1e-10)
    for read in (Law.cdf, Law.shortfall):
        assert read(mixed, x) == pytest.approx(w[0] * read(first, x) + w[1] * read(second, x), abs=1e-14)
    assert mixed.wasserstein(second) == pytest.approx(w[0] * first.wasserstein(second), abs=1e-10)


def test_point_law_is_its_value_under_every_functional():
    law = Law.point(2.5)
    assert {law.mean(), law.quantile(0.3), law.upper_quantile(0.3), law.cvar(0.2), law.quantile(0)} == {2.5}
    assert law.std() == 0.0


def test_expectation_of_any_function():
    law = Law([-1, 0, 3], [0.25, 0.25, 0.5])
    assert law.expect(lambda x: max(x, 0.0)) == 1.5
    assert law.expect(np.square) == 4.75
    assert law.expect(lambda x: x) == law.mean()
    assert math.sqrt(law.expect(lambda x: (x - law.mean()) ** 2)) == pytest.approx(law.std())


@st.composite
def ordered_laws(draw):
    """Two laws of which the first dominates: its value is never below that of the second on a common space."""
    n = draw(st.integers(1, 6))
    low = draw(st.lists(st.integers(0, 6), min_size=n, max_size=n))
    gain = draw(st.lists(st.integers(0, 3), min_size=n, max_size=n))
    return Law(np.add(low, gain), np.full(n, 1 / n)), Law(low, np.full(n, 1 / n)), n


@given(ordered_laws())
def test_dominance_orders_every_quantile(case):
    high, low, n = case
    assert high.dominates(low)
    for k in range(n + 1):
        assert high.quantile(k / n) >= low.quantile(k / n)
        assert high.buffered_quantile(k / n, 0.3) >= low.buffered_quantile(k / n, 0.3) - 1e-12


@given(ordered_laws(), st.lists(st.integers(0, 2), min_size=6, max_size=6))
def test_dominance_is_transitive(case, more):
    high, low, n = case
    atoms = np.repeat(high.values, np.rint(high.probabilities * n).astype(int))
    highest = Law(atoms + more[:n], np.full(n, 1 / n))
    assert highest.dominates(high)
    assert highest.dominates(low)


@given(exact_laws(max_atoms=3, denominator=4), exact_laws(max_atoms=3, denominator=4))
def test_dominance_is_exact_order_of_cdfs_and_antisymmetric(first, second):
    def F(law, x):
        return sum(p for y, p in law if y <= x)

    points = [x for x, _ in first + second]
    X, Y = to_law(first), to_law(second)
    assert X.dominates(Y) == all(F(first, x) <= F(second, x) for x in points)
    assert (X.dominates(Y) and Y.dominates(X)) == (first == second) == X.equals(Y)
    assert X.dominates(X)


def test_dominance_forgives_mass_tol_and_no_more():
    law = Law([0, 1], [0.5, 0.5])
    assert Law([0, 1], [0.5 + 0.5 * MASS_TOL, 0.5 - 0.5 * MASS_TOL]).dominates(law)
    assert not Law([0, 1], [0.5 + 3 * MASS_TOL, 0.5 - 3 * MASS_TOL]).dominates(law)


@given(laws(), laws(), laws())
def test_wasserstein_is_a_metric(X, Y, Z):
    assert X.wasserstein(X) == 0.0
    assert X.wasserstein(Y) == pytest.approx(Y.wasserstein(X), abs=1e-12)
    assert X.wasserstein(Z) <= X.wasserstein(Y) + Y.wasserstein(Z) + 1e-10
    assert X.wasserstein(Y) >= abs(X.mean() - Y.mean()) - 1e-10
    same = wasserstein_distance(X.values, Y.values, X.probabilities, Y.probabilities)
    assert X.wasserstein(Y) == pytest.approx(same, abs=1e-10)


def test_equals_sees_values_masses_and_forgives_dust():
    law = Law([0, 1], [0.5, 0.5])
    assert law.equals(Law([0, 1, 7], [0.5, 0.5 - 1e-11, 1e-11]))
    assert law.equals(law + 1e-10)
    assert not law.equals(law + 1e-3)
    assert not law.equals(Law([0, 1], [0.4, 0.6]))
    assert law.equals(Law([0, 1], [0.4, 0.6]), tol=0.2)


def test_sample_follows_the_law():
    # Dvoretzky-Kiefer-Wolfowitz: a right sampler fails with probability at most 2 exp(-2 n eps^2) = 1e-6 over seeds.
    law, n = Law([-1, 0.5, 2, 3], [0.1, 0.2, 0.3, 0.4]), 20_000
    eps = math.sqrt(math.log(2e6) / (2 * n))
    draws = law.sample(n, np.random.default_rng(7))
    empirical = (draws[:, None] <= law.values).mean(axis=0)
    assert np.abs(empirical - law.running).max() <= eps
    assert set(draws) == set(law.values)
    assert law.sample(n, np.random.default_rng(7)).tolist() == draws.tolist()
    assert law.sample(0, np.random.default_rng(7)).shape == (0,)


def test_repr_shows_a_few_atoms_the_count_and_the_mean():
    assert repr(Law([0, 0.5], [0.25, 0.75])) == "Law(0: 0.25, 0.5: 0.75; 2 atoms, mean 0.375)"
    long = Law(np.arange(100), np.full(100, 0.01))
    assert repr(long) == "Law(0: 0.01, 1: 0.01, 2: 0.01, ..., 98: 0.01, 99: 0.01; 100 atoms, mean 49.5)"
    assert long.__rich__().row_count == 24


def test_documentation_of_law_is_true():
    assert doctest.testmod(bqrl.laws.law).attempted > 0
    assert doctest.testmod(bqrl.laws.law).failed == 0


def test_a_law_needs_neither_numba_nor_scipy():
    code = "import sys; from bqrl.laws.law import Law; Law([0, 1], [.5, .5]).cvar(.7); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numba", "scipy", "rich"} & set(loaded)
