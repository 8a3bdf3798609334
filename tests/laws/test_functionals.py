"""Quantiles, buffered quantiles and CVaR against exact fractions, integrals and other closed forms."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from law_oracle import (
    exact_buffered,
    exact_law,
    exact_laws,
    exact_quantile,
    exact_upper_quantile,
    levels,
    levels_and_buffers,
)

from bqrl.laws.law import MASS_TOL, Law, reaches

TEN = Law(range(10), [0.1] * 10)


def to_law(exact):
    return Law([float(x) for x, _ in exact], [float(p) for _, p in exact])


def test_eight_weights_of_a_tenth_reach_the_level_of_eight_tenths():
    assert sum([0.1] * 8) == 0.7999999999999999  # the trap
    assert [TEN.quantile(k / 10) for k in range(1, 11)] == list(range(10))
    assert [TEN.upper_quantile(k / 10) for k in range(10)] == list(range(10))
    assert [TEN.buffered_quantile(k / 10, 1e-9) for k in range(1, 11)] == list(range(10))
    assert [TEN.buffered_quantile(k / 10, 0.1) for k in range(1, 11)] == list(range(10))


@pytest.mark.parametrize("n", [3, 7, 49, 101, 1000])
def test_quantiles_of_equal_weights_hit_every_level_exactly(n):
    law = Law(range(n), np.full(n, 1 / n))
    assert [law.quantile(k / n) for k in range(1, n + 1)] == list(range(n))
    assert [law.upper_quantile(k / n) for k in range(n)] == list(range(n))


def test_levels_just_beside_a_running_mass():
    law = Law([0, 1], [0.5, 0.5])
    assert law.quantile(0.5 + 0.5 * MASS_TOL) == 0.0
    assert law.quantile(0.5 + 3 * MASS_TOL) == 1.0
    assert law.upper_quantile(0.5 - 0.5 * MASS_TOL) == 1.0
    assert law.upper_quantile(0.5 - 3 * MASS_TOL) == 0.0


def test_endpoints():
    law = Law([-2, 1, 4], [0.25, 0.5, 0.25])
    assert law.quantile(0) == law.upper_quantile(0) == law.buffered_quantile(0, 0.3) == law.cvar(0) == -2.0
    assert law.quantile(1) == law.upper_quantile(1) == law.buffered_quantile(1, 0.1) == 4.0
    assert law.cvar(1) == law.mean() == 1.0
    assert law.buffered_quantile(1, 0.5) == 2.5


@given(exact_laws(), levels(first=0))
def test_quantiles_in_exact_fractions(exact, tau):
    law = to_law(exact)
    assert law.quantile(float(tau)) == exact_quantile(exact, tau)
    assert law.upper_quantile(float(tau)) == exact_upper_quantile(exact, tau)


@given(exact_laws(), levels())
def test_margin_says_how_far_the_level_lies_inside_its_atom(exact, tau):
    law, x = to_law(exact), exact_quantile(exact, tau)
    below, above = law.margin(float(tau))
    assert below == pytest.approx(float(tau - sum(p for y, p in exact if y < x)), abs=1e-15)
    assert above == pytest.approx(float(sum(p for y, p in exact if y <= x) - tau), abs=1e-15)
    assert below > MASS_TOL
    assert above >= -MASS_TOL


@given(exact_laws(), levels())
def test_reaches_is_the_quantile_seen_from_the_shortfall(exact, tau):
    law, t = to_law(exact), float(tau)
    assert reaches(law.shortfall(law.values), t).tolist() == (law.quantile(t) >= law.values).tolist()
    assert all(reaches(law.shortfall(x), t) == (law.quantile(t) >= x) for x in law.values)


def test_equality_of_shortfall_and_level_does_not_reach():
    assert not reaches(0.1, 0.1)
    assert not reaches(sum([0.1] * 8), 0.8)
    assert not reaches(0.5 - MASS_TOL, 0.5)
    assert reaches(0.8 - 1e-9, 0.8)


def test_cdf_counts_equal_values_up_to_rounding_and_takes_arrays():
    law = Law([0.1 + 0.2, 1.0], [0.5, 0.5])
    assert law.cdf(0.3) == 0.5
    assert law.shortfall(0.3) == law.shortfall(0.1 + 0.2) == 0.0
    assert law.cdf(0.29) == 0.0
    assert law.cdf(np.array([[-np.inf, 0.3], [1.0, np.inf]])).tolist() == [[0.0, 0.5], [1.0, 1.0]]
    assert law.shortfall(np.array([-np.inf, 0.5, 1.0, np.inf])).tolist() == [0.0, 0.5, 0.5, 1.0]
    assert isinstance(law.cdf(1), float)


@given(exact_laws(), levels_and_buffers())
def test_buffered_quantile_in_exact_fractions(exact, case):
    tau, beta = case
    law = to_law(exact)
    assert law.buffered_quantile(float(tau), float(beta)) == pytest.approx(
        float(exact_buffered(exact, tau, beta)), abs=1e-13
    )
    assert law.buffered_quantile(float(tau), float(beta)) <= law.quantile(float(tau))


@given(exact_laws(), levels(first=0), st.floats(0, 1))
def test_buffered_quantile_is_the_numerical_integral_of_the_quantile(exact, tau, beta):
    law, t = to_law(exact), float(tau)
    width, n = min(beta, t), 500
    # A midpoint rule errs by at most one cell per jump: the range of the values over n.
    u = t - width + width * (np.arange(n) + 0.5) / n
    average = np.mean([law.quantile(level) for level in u])
    reach = law.values[-1] - law.values[0]
    if width > 1e-9:  # below it MASS_TOL decides more than one cell
        assert law.buffered_quantile(t, beta) == pytest.approx(average, abs=reach / n + 1e-12)


@given(exact_laws(), levels_and_buffers())
def test_buffered_quantile_is_a_distortion_of_the_cdf(exact, case):
    tau, beta = map(float, case)
    law = to_law(exact)
    clipped = np.clip((law.running[:-1] - (tau - beta)) / beta, 0.0, 1.0)
    assert law.buffered_quantile(tau, beta) == pytest.approx(law.values[-1] - clipped @ np.diff(law.values), abs=1e-13)


@given(exact_laws(max_atoms=4), levels_and_buffers())
def test_buffered_quantile_is_a_max_min_of_clipped_shortfalls(exact, case):
    tau, beta = case
    values = [x for x, _ in exact]

    def score(z, y):
        return tau * z - (tau - beta) * y - sum(p * min(max(z - g, 0), z - y) for g, p in exact)

    best = max(min(score(z, y) for y in values if y <= z) for z in values)
    assert to_law(exact).buffered_quantile(float(tau), float(beta)) == pytest.approx(float(best / beta), abs=1e-13)


@given(exact_laws(), levels())
def test_cvar_is_the_buffered_quantile_at_beta_tau_and_the_rockafellar_uryasev_maximum(exact, tau):
    law, t = to_law(exact), float(tau)
    form = max(z - sum(p * max(z - g, 0) for g, p in exact) / tau for z, _ in exact)
    assert law.cvar(t) == law.buffered_quantile(t, t)
    assert law.cvar(t) == law.buffered_quantile(t, 1.0)  # a longer buffer is cut at level 0
    assert law.cvar(t) == pytest.approx(float(form), abs=1e-13)
    assert law.cvar(t) <= law.quantile(t)


@given(exact_laws(), exact_laws(), levels_and_buffers())
def test_buffered_quantile_is_lipschitz_in_wasserstein(first, second, case):
    tau, beta = map(float, case)
    X, Y = to_law(first), to_law(second)
    gap = abs(X.buffered_quantile(tau, beta) - Y.buffered_quantile(tau, beta))
    assert gap <= X.wasserstein(Y) / beta + 1e-12


@given(exact_laws(), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_buffered_quantile_rises_in_tau_and_falls_in_beta(exact, one, two, beta):
    law, (low, high) = to_law(exact), sorted((one, two))
    assert law.quantile(low) <= law.quantile(high)
    assert law.upper_quantile(low) <= law.upper_quantile(high)
    assert law.quantile(low) <= law.upper_quantile(low)
    b = max(beta, 1e-3)  # the noise of a running mass is divided by it
    assert law.buffered_quantile(low, b) <= law.buffered_quantile(high, b) + 1e-8
    b_small, b_large = sorted((max(one, 1e-3), b))
    assert law.buffered_quantile(two, b_large) <= law.buffered_quantile(two, b_small) + 1e-8


@given(exact_laws(), levels(), st.sampled_from([1e-15, 1e-13, 1e-12, 1e-9, 1e-6, 1e-3]))
def test_a_buffer_inside_the_margin_gives_exactly_the_quantile(exact, tau, beta):
    law = to_law(exact)
    assert law.buffered_quantile(float(tau), beta) == law.quantile(float(tau))


@given(exact_laws(), levels())
def test_a_buffer_of_the_whole_margin_gives_exactly_the_quantile(exact, tau):
    law, t = to_law(exact), float(tau)
    assert law.buffered_quantile(t, law.margin(t).below) == law.quantile(t) or law.margin(t).below == t
    assert law.buffered_quantile(t, 0.0) == law.quantile(t)


@given(exact_laws(), st.floats(0, 1), st.floats(0, 1))
def test_buffered_quantile_stays_between_the_values(exact, tau, beta):
    law = to_law(exact)
    assert law.values[0] <= law.buffered_quantile(tau, beta) <= law.quantile(tau)


def test_rare_ruin_counts_in_cvar_and_mean():
    law = Law([-1e15, 0, 1, 1e15], [1e-13, 0.5, 0.5 - 2e-13, 1e-13])
    assert law.cvar(0.5) == pytest.approx(-200.0)
    assert law.cvar(1.0) == pytest.approx(law.mean())
    assert Law([0, 1e15], [1 - 1e-13, 1e-13]).cvar(1.0) == pytest.approx(100.0)


def test_tiny_buffer_across_an_atom_keeps_its_digits():
    law = exact_law(range(10), [1] * 10)
    # The plain cumulative sum is off by 1e-16, which a buffer of 1e-8 would turn into 1e-8.
    tau = Fraction(8, 10) + Fraction(1, 4 * 10**8)
    close = to_law(law).buffered_quantile(float(tau), 1e-8)
    noise = 2 * math.ulp(0.8) / 1e-8
    assert close == pytest.approx(float(exact_buffered(law, tau, Fraction(1, 10**8))), abs=noise)
