"""Law: construction, arithmetic, order and distance; quantiles, buffered quantiles and CVaR against exact fractions,
integrals and other closed forms; and every bad argument.
"""

import copy
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
from law_oracle import (
    exact_buffered,
    exact_law,
    exact_laws,
    exact_quantile,
    exact_upper_quantile,
    levels,
    levels_and_buffers,
)
from scipy.stats import wasserstein_distance

from bqrl.errors import ArgumentError, ArgumentTypeError
from bqrl.laws.law import MASS_TOL, Bound, Law, reaches
from bqrl.loops.draws import draw

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


def test_law_is_frozen_and_hashes_by_identity():
    law = Law([0, 1], [0.5, 0.5])
    with pytest.raises(AttributeError):
        law.values = np.zeros(2)
    for array in (law.values, law.probabilities, law.running):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 3.0
    assert len({law, law, Law([0, 1], [0.5, 0.5])}) == 2


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


@given(st.integers(0, 10**6), st.integers(1, 300))
def test_samples_follow_the_rule_of_every_other_draw(seed, m):
    rng = np.random.default_rng(seed)
    law = Law(np.arange(m), rng.dirichlet(np.ones(m)))
    expected = [draw(law.probabilities.tolist(), 0, m, u) for u in np.random.default_rng(seed).random(200)]
    assert law.values[expected].tolist() == law.sample(200, np.random.default_rng(seed)).tolist()


def test_repr_shows_a_few_atoms_the_count_and_the_mean():
    assert repr(Law([0, 0.5], [0.25, 0.75])) == "Law(0: 0.25, 0.5: 0.75; 2 atoms, mean 0.375)"
    long = Law(np.arange(100), np.full(100, 0.01))
    assert repr(long) == "Law(0: 0.01, 1: 0.01, 2: 0.01, ..., 98: 0.01, 99: 0.01; 100 atoms, mean 49.5)"
    assert long.__rich__().row_count == 24


def test_a_law_needs_neither_numba_nor_scipy():
    code = "import sys; from bqrl.laws.law import Law; Law([0, 1], [.5, .5]).cvar(.7); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numba", "scipy", "rich"} & set(loaded)


TEN = Law(range(10), [0.1] * 10)


def test_eight_weights_of_a_tenth_reach_the_level_of_eight_tenths():
    assert np.cumsum([0.1] * 8)[-1] == 0.7999999999999999  # the trap
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


# -- bad arguments -------------------------------------------------------------------------------------------------------

LAW = Law([0, 1], [0.5, 0.5])
nan, inf = float("nan"), float("inf")

BAD_VALUES = {  # call, argument, key phrase
    "one probability too few": (lambda: Law([1, 2], [0.5]), "probabilities", "have one entry per value (2), got 1"),
    "sum below one": (lambda: Law([0, 1], [0.5, 0.48]), "probabilities", "sum to 1 (tolerance 1e-09), got 0.98"),
    "sum just off": (lambda: Law([0, 1], [0.5, 0.500000002]), "probabilities", "got 1.000000002"),
    "no mass": (lambda: Law([0, 1], [0, 0]), "probabilities", "got 0"),
    "negative": (lambda: Law([0, 1], [1.1, -0.1]), "probabilities", "probabilities[1] = -0.1"),
    "barely negative": (lambda: Law([0, 1], [1, -2e-12]), "probabilities", "not be negative"),
    "nan mass": (lambda: Law([0, 1], [nan, 0.5]), "probabilities", "probabilities[0] = nan"),
    "infinite mass": (lambda: Law([0, 1], [0.5, inf]), "probabilities", "probabilities[1] = inf"),
    "nan value": (lambda: Law([0, nan], [0.5, 0.5]), "values", "values[1] = nan"),
    "nothing": (lambda: Law([None], [1.0]), "values", "must be finite"),
    "infinite value": (lambda: Law([-inf, 0], [0.5, 0.5]), "values", "values[0] = -inf"),
    "lengths": (lambda: Law([0, 1, 2], [0.5, 0.5]), "probabilities", "one entry per value (3), got 2"),
    "empty": (lambda: Law([], []), "values", "at least one entry"),
    "matrix": (lambda: Law([[0, 1]], [[0.5, 0.5]]), "values", "shape (1, 2)"),
    "number": (lambda: Law(3.0, [1.0]), "values", "one-dimensional"),
    "point at nan": (lambda: Law.point(nan), "values", "must be finite"),
    "tau above one": (lambda: LAW.quantile(1.5), "tau", "in [0, 1], got 1.5"),
    "tau below zero": (lambda: LAW.upper_quantile(-0.1), "tau", "got -0.1"),
    "tau nan": (lambda: LAW.cvar(nan), "tau", "got nan"),
    "tau of the margin": (lambda: LAW.margin(2), "tau", "got 2"),
    "beta negative": (lambda: LAW.buffered_quantile(0.5, -0.1), "beta", "in [0, 1], got -0.1"),
    "beta above one": (lambda: LAW.buffered_quantile(0.5, 1.01), "beta", "got 1.01"),
    "cdf at nan": (lambda: LAW.cdf(nan), "x", "got nan"),
    "shortfall at nan": (lambda: LAW.shortfall(np.array([0, nan])), "x", "got nan"),
    "shift by nan": (lambda: LAW + nan, "shift", "got nan"),
    "scale by infinity": (lambda: LAW.scale(inf), "scale", "got inf"),
    "scale overflows": (lambda: LAW.scale(1e200).scale(1e200), "values", "values[1] = inf"),
    "mixture weights": (lambda: Law.mixture([LAW, LAW], [0.5, 0.4]), "weights", "sum to 1"),
    "mixture lengths": (lambda: Law.mixture([LAW], [0.5, 0.5]), "weights", "one entry per law (1), got 2"),
    "undefined f": (lambda: LAW.expect(lambda x: nan), "f", "f(0) = nan"),
    "larger than any float": (lambda: Law([10**400], [1]), "values", "within 1.8e+308, the largest float, got [1000"),
    "negative tolerance": (lambda: LAW.equals(LAW, tol=-1), "tol", "at least 0, got -1"),
    "fewer than no draws": (lambda: LAW.sample(-1, np.random.default_rng(0)), "n", "at least 0, got -1"),
    "unknown keys": (lambda: Law.from_dict({"values": [0]}), "data", "'probabilities'"),
}

BAD_TYPES = {
    "text values": (lambda: Law(["a", "b"], [0.5, 0.5]), "values", "got ['a', 'b']"),
    "text masses": (lambda: Law([0], ["1.0"]), "probabilities", "got ['1.0']"),
    "complex": (lambda: Law([1j], [1.0]), "values", "flat list of numbers"),
    "ragged": (lambda: Law([[0], [1, 2]], [0.5, 0.5]), "values", "got [[0], [1, 2]]"),
    "tau as text": (lambda: LAW.quantile("0.5"), "tau", "got '0.5'"),
    "tau as array": (lambda: LAW.quantile(np.array([0.5])), "tau", "got array([0.5])"),
    "tau as truth": (lambda: LAW.quantile(True), "tau", "got True"),
    "beta missing": (lambda: LAW.buffered_quantile(0.5, None), "beta", "got None"),
    "shift by text": (lambda: LAW + "a", "shift", "got 'a'"),
    "shift by an array": (lambda: np.ones(2) + LAW, "shift", "got array([1., 1.])"),
    "seed as rng": (lambda: LAW.sample(3, 0), "rng", "default_rng"),
    "distance to a number": (lambda: LAW.wasserstein(1.0), "other", "must be a Law, got float"),
    "cdf of text": (lambda: LAW.cdf("a"), "x", "a number or an array of numbers, got 'a'"),
    "cdf of a list of text": (lambda: LAW.shortfall([1, "b"]), "x", "got [1, 'b']"),
    "expectation of a number": (lambda: LAW.expect(3), "f", "a function of one number, got 3"),
    "expectation of text": (lambda: LAW.expect(lambda x: "a"), "f", "return a number for every value"),
    "expectation of arrays": (lambda: LAW.expect(lambda x: [x, x]), "f", "arrays of shape (2,)"),
    "tolerance as text": (lambda: LAW.equals(LAW, tol="a"), "tol", "got 'a'"),
    "mixture of a number": (lambda: Law.mixture(3, [1.0]), "laws", "be a list of laws, got 3"),
    "mixture of lists": (lambda: Law.mixture([[0, 1]], [1.0]), "laws", "must be a Law, got list"),
}


@pytest.mark.parametrize(
    ("call", "name", "phrase", "kind"),
    [(*row, ArgumentError) for row in BAD_VALUES.values()] + [(*row, ArgumentTypeError) for row in BAD_TYPES.values()],
    ids=[*BAD_VALUES, *BAD_TYPES],
)
def test_a_bad_argument_gets_one_line_that_names_it(call, name, phrase, kind):
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.name == name
    assert phrase in str(caught.value)
    assert "\n" not in str(caught.value)


def test_laws_cannot_be_added():
    with pytest.raises(TypeError, match="unsupported operand"):
        LAW + LAW


@given(exact_laws(), st.integers(1, 24))
def test_windows_that_end_at_level_one(exact, k):
    law, beta = to_law(exact), Fraction(k, 24)
    assert law.buffered_quantile(1.0, float(beta)) == pytest.approx(
        float(exact_buffered(exact, Fraction(1), beta)), abs=1e-13
    )
    assert law.buffered_quantile(1.0, 1.0) == pytest.approx(law.mean(), abs=1e-13)


def test_a_buffer_wider_than_the_level_is_cut_at_level_zero():
    law = Law([0, 1, 2], [0.25, 0.25, 0.5])
    assert law.buffered_quantile(0.5, 0.6) == law.cvar(0.5)


def test_a_bound_says_so_and_keeps_the_exact_mean():
    law = Law([0, 1], [0.5, 0.5], Bound("lower", 0.75))
    assert repr(law) == "Law(0: 0.5, 1: 0.5; 2 atoms, mean 0.5, lower bound; exact mean 0.75)"
    assert (law.mean(), law.exact_mean) == (0.5, 0.75)
    assert law.shift(2.0).bound == Bound("lower", 2.75)
    assert law.scale(2.0).bound == Bound("lower", 1.5)
    assert law.scale(-2.0).bound == Bound("upper", -1.5)
    assert law.scale(-1.0).scale(-1.0).bound == law.bound
    assert law.scale(0.0).bound is None
    assert Law.from_dict(law.to_dict()).bound == pickle.loads(pickle.dumps(law)).bound == law.bound
    assert Law.mixture([law, Law.point(1.0)], [0.5, 0.5]).bound == Bound("lower", 0.875)
    assert Law.point(3.0).bound is None
    with pytest.raises(ValueError, match="laws must not mix lower with upper bounds"):
        Law.mixture([law, law.scale(-1.0)], [0.5, 0.5])
    with pytest.raises(TypeError, match="bound must be None or a Bound with the side"):
        Law([0], [1], Bound("left", 0.0))
