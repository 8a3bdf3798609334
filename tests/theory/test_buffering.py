import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import LEVELS, achievable_laws, exact_objective, exact_quantile, mixture_optimum, random_mdp, small_mdps

from bqrl import envs
from bqrl.planners.confidence import constant_buffer, log_buffer, power_buffer
from bqrl.theory import (
    buffer_horizon,
    buffering_gap,
    buffering_sum,
    gap_profile,
    hard_instance,
    one_sided_gap,
    optimal_margin,
    plateau,
)

SHARES = (Fraction(1, 50), Fraction(1, 5), Fraction(1, 2), Fraction(1))


@settings(max_examples=40)
@given(small_mdps(), st.sampled_from(LEVELS))
def test_gaps_against_every_law_in_fractions(mdp, tau):
    laws = achievable_laws(mdp)
    if laws is None:
        return
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
    for _ in range(15):
        mdp, tau = random_mdp(rng, horizon=3), 0.5
        laws = achievable_laws(mdp)
        if laws is None:
            continue
        best = float(max(exact_quantile(law, Fraction(1, 2)) for law in laws))
        found = one_sided_gap(mdp, tau, [0.2, 0.5])
        for beta in (0.2, 0.3, 0.5):
            gap = best - mixture_optimum(laws, tau, beta)
            assert found.lower(np.array([beta]))[0] <= gap + 1e-7


@pytest.mark.parametrize("schedule", [None, log_buffer(0.3), power_buffer(0.3, 0.25), power_buffer(0.3, 1.0)])
@pytest.mark.parametrize("rho", [0.3, 0.2, 0.0999, 0.03])
def test_horizon_is_the_first_episode_below(schedule, rho):
    beta = log_buffer(0.3) if schedule is None else schedule
    K = buffer_horizon(0.3, rho, schedule)
    assert isinstance(K, int)
    assert beta(K) <= rho + 1e-12
    assert K == 0 or beta(K - 1) > rho


def test_horizon_in_closed_form():
    assert buffer_horizon(0.5, 0.1) == math.ceil(math.exp(5) - math.e)
    assert buffer_horizon(0.5, 0.02) == math.ceil(math.exp(25) - math.e)
    assert buffer_horizon(0.5, 0.1, power_buffer(0.5, 0.5)) == 24
    assert buffer_horizon(0.5, 0.25, lambda t: 0.5 / (1 + t)) == 1
    assert buffer_horizon(0.5, 0.25, [0.5, 0.3, 0.3, 0.25, 0.1]) == 3
    assert buffer_horizon(0.5, 0.01, [0.5, 0.3]) == math.inf
    assert buffer_horizon(0.5, 0.3, constant_buffer(0.3)) == 0
    assert buffer_horizon(0.5, 0.2, constant_buffer(0.3)) == math.inf
    assert buffer_horizon(0.5, 0.2, 0.3) == math.inf
    assert buffer_horizon(0.9, 1e-4) == math.inf  # exp(9000) episodes
    assert buffer_horizon(0.1, 0.015409356153421871) == 656


def test_sum_is_exact_for_few_episodes_and_never_too_small_for_many():
    def gap(beta):
        return np.maximum(beta - 0.05, 0.0)

    t = np.arange(300_000.0)
    for schedule in (None, power_buffer(0.5, 0.1)):
        beta = log_buffer(0.5)(t) if schedule is None else schedule(t)
        for T in (1, 17, 4096):
            assert buffering_sum(gap, 0.5, T, schedule) == pytest.approx(gap(beta[:T]).sum())
        for T in (4097, 300_000):
            true = gap(beta[:T]).sum()
            assert true - 1e-6 <= buffering_sum(gap, 0.5, T, schedule) <= 1.005 * true
            assert buffering_sum(gap, 0.5, T, schedule, rho=0.05) <= 1.005 * true
    assert buffering_sum(gap, 0.5, 3, [0.5, 0.4, 0.3]) == pytest.approx(1.05)
    assert buffering_sum(gap, 0.5, 10**80, rho=0.05) == pytest.approx(
        buffering_sum(gap, 0.5, 22024, rho=0.05), rel=0.01
    )
    assert buffering_sum(gap, 0.5, 5, constant_buffer(0.05), rho=0.05) == 0.0


def test_profile_of_the_hard_instance():
    # Q_tau is H - 1 under the best action; a buffer beta > rho averages in a share 1 - rho / beta of zeros.
    tau, rho, H = 0.5, 0.05, 4
    profile = gap_profile(hard_instance(tau, rho, 2, H), tau)
    expected = np.where(profile.beta > rho, (H - 1) * (1 - rho / profile.beta), 0.0)
    assert profile.two_sided == pytest.approx(expected, abs=1e-9)
    for ends in profile.one_sided:
        assert ends == pytest.approx(expected, abs=1e-9)
    assert profile.margin == pytest.approx(rho)
    assert profile.plateau.lower == profile.plateau.upper == pytest.approx(rho)
    assert profile.clears["log"] == (22024, 22024)
    assert profile.clears["power 1/2"] == (99, 99)


def test_profile_beyond_the_frontier():
    profile = gap_profile(envs.make("AssetSelling"), 0.1, [0.01, 0.03, 0.1])
    assert profile.two_sided is None
    low, high = profile.one_sided
    assert low[0] == high[0] == 0.0
    assert np.all((low <= high) & (high - low <= 1e-6))
    assert profile.clears["log"][1] == 656
    assert profile.clears["log"][0] == math.inf
    with pytest.raises(ValueError, match=r"plateau_bounds\(mdp, tau\) brackets where it vanishes"):
        buffering_gap(envs.make("AssetSelling"), 0.1, 0.05)
