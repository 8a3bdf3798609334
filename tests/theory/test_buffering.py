import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles import LEVELS, achievable_laws, exact_objective, exact_quantile, mixture_optimum, random_mdp, small_mdps

from bqrl import MDP, envs
from bqrl.errors import GridError, SizeError
from bqrl.planners.frontier import MAX_LAWS
from bqrl.theory import (
    buffer_horizon,
    buffering_gap,
    hard_instance,
    one_sided_gap,
    optimal_margin,
    plateau,
    plateau_bounds,
    regret_bound,
)

SHARES = (Fraction(1, 50), Fraction(1, 5), Fraction(1, 2), Fraction(1))


@settings(max_examples=40)
@given(small_mdps(), st.sampled_from(LEVELS))
def test_gaps_against_every_law_in_fractions(mdp, tau):
    laws = achievable_laws(mdp)
    assume(laws is not None)
    betas = [share * tau for share in SHARES]
    numbers = np.array([float(b) for b in betas])
    two = [float(max(exact_quantile(law, tau) - exact_objective(law, tau, b) for law in laws)) for b in betas]
    assert buffering_gap(mdp, float(tau), numbers) == pytest.approx(two, abs=1e-10)
    best = max(exact_quantile(law, tau) for law in laws)
    one = np.array([float(best - max(exact_objective(law, tau, b) for law in laws)) for b in betas])
    found = one_sided_gap(mdp, float(tau), numbers)
    assert np.all(found.lower(numbers) <= one + 1e-9)
    assert np.all(found.upper(numbers) >= one - 1e-9)


@settings(max_examples=40)
@given(small_mdps(), st.sampled_from(LEVELS), st.floats(0.01, 1.0))
def test_gaps_vanish_below_plateau_and_margin_and_never_fall(mdp, tau, share):
    tau = float(tau)
    rho, margin = plateau(mdp, tau), optimal_margin(mdp, tau)
    assert buffering_gap(mdp, tau, share * rho) == 0.0
    betas = np.linspace(0.02, 1.0, 25) * tau
    gaps, one = buffering_gap(mdp, tau, betas), one_sided_gap(mdp, tau)
    assert np.all(np.diff(gaps) >= -1e-9)
    for ends in (one.lower, one.upper):
        assert np.all(np.diff(ends(betas)) >= -1e-9)
        assert not ends(np.array([share * margin])).any()
    assert np.all(one.lower(betas) <= one.upper(betas) + 1e-9)
    assert np.all(one.upper(betas) <= gaps + 1e-9)  # the optimal policy is one of all


def test_one_sided_bracket_holds_the_randomized_optimum_between_its_ends():
    rng = np.random.default_rng(5)
    compared = 0
    for _ in range(15):
        mdp, tau = random_mdp(rng, horizon=3), 0.5
        laws = achievable_laws(mdp)
        if laws is None:
            continue
        compared += 1
        best = float(max(exact_quantile(law, Fraction(1, 2)) for law in laws))
        found = one_sided_gap(mdp, tau, [0.2, 0.5])
        for beta in (0.2, 0.3, 0.5):
            gap = best - mixture_optimum(laws, tau, beta)
            assert found.lower(np.array([beta]))[0] <= gap + 1e-7
    assert compared >= 10


def test_gaps_of_the_hard_instance_in_closed_form():
    # Q_tau is H - 1 under the best action; a buffer beta > rho averages in a share 1 - rho / beta of zeros.
    tau, rho, H = 0.5, 0.05, 4
    mdp, beta = hard_instance(tau, rho, 2, H), np.geomspace(0.01, tau, 33)
    expected = np.where(beta > rho, (H - 1) * (1 - rho / beta), 0.0)
    one = one_sided_gap(mdp, tau, beta)
    for gaps in (buffering_gap(mdp, tau, beta), one.lower(beta), one.upper(beta)):
        assert gaps == pytest.approx(expected, abs=1e-9)
    assert one.margin == pytest.approx(rho)


def test_gaps_beyond_the_frontier():
    mdp, beta = envs.make("AssetSelling"), np.array([0.01, 0.03, 0.1])
    found = one_sided_gap(mdp, 0.1, beta)
    low, high = found.lower(beta), found.upper(beta)
    assert low[0] == high[0] == 0.0
    assert np.all((low <= high) & (high - low <= 1e-6))
    assert buffer_horizon(0.1, found.margin) == 656
    assert buffer_horizon(0.1, plateau_bounds(mdp, 0.1).upper) == math.inf
    with pytest.raises(SizeError, match="one_sided_gap") as error:
        buffering_gap(mdp, 0.1, 0.05)
    assert (error.value.limit, error.value.name) == (MAX_LAWS, "max_laws")


def test_gaps_require_an_exact_grid():
    odd = MDP(np.full((2, 1, 2), 0.5), [[0.0], [np.pi**0.5]], horizon=30, discount=0.9)
    for call in (lambda: buffering_gap(odd, 0.5, 0.1), lambda: one_sided_gap(odd, 0.5)):
        with pytest.raises(GridError, match="exact grid"):
            call()


def test_arrays_of_a_gap_are_read_only():
    found = one_sided_gap(hard_instance(0.5, 0.05), 0.5, [0.1, 0.2])
    for array in (found.solved, found.bound):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0


@pytest.mark.parametrize("margin", [1e-10, 1e-11, 3e-12])
def test_a_margin_below_the_smallest_buffer_is_bracketed(margin):
    coin = MDP([(0, 0, 0, 0.5 - margin, 0.0), (0, 0, 0, 0.5 + margin, 1.0)], horizon=1)
    gap, betas = one_sided_gap(coin, 0.5), np.array([1e-9, 1e-3, 0.5])
    exact = 1.0 - margin / betas
    assert gap.solved.min() >= 1e-9
    assert np.all(gap.lower(betas) <= exact + 1e-6)
    assert np.all(exact <= gap.upper(betas) + 1e-6)
    assert regret_bound(coin, 0.5, T=100).buffering <= 100.0
