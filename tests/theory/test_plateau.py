import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import LEVELS, achievable_laws, exact_quantile, random_mdp, small_mdps

from bqrl import MDP, envs, evaluate, guarantee_curve
from bqrl.errors import SizeError
from bqrl.planners.frontier import frontier
from bqrl.theory import optimal_margin, plateau, plateau_bounds
from bqrl.theory.plateau import attainable_shortfalls, common_denominator

FLIP = MDP([[[0.5, 0.5], [0.9, 0.1]], [[0.5, 0.5], [0.2, 0.8]]], [[0.0, 1.0], [2.0, 0.0]], horizon=3)


def exact_plateau(law, tau):
    x = exact_quantile(law, tau)
    return tau - sum((p for z, p in law if z < x), Fraction(0))


@given(small_mdps(), st.sampled_from(LEVELS))
def test_plateau_is_the_least_over_all_policies(mdp, tau):
    laws = achievable_laws(mdp)
    assume(laws is not None)
    least = float(min(exact_plateau(law, tau) for law in laws))
    found = plateau(mdp, float(tau))
    assert found == pytest.approx(least, abs=1e-12)
    margin = optimal_margin(mdp, float(tau))
    assert margin >= found - 1e-12
    bounds = plateau_bounds(mdp, float(tau), keep=3)
    assert bounds.lower - 1e-12 <= least <= bounds.upper + 1e-12
    assert bounds.lower > 0.0
    assert bounds.upper <= margin + 1e-12


@given(small_mdps(), st.sampled_from(LEVELS))
def test_margin_is_the_optimal_policys_own_plateau(mdp, tau):
    laws = achievable_laws(mdp)
    assume(laws is not None)
    best = max(exact_quantile(law, tau) for law in laws)
    safest = max(exact_plateau(law, tau) for law in laws if exact_quantile(law, tau) == best)
    assert optimal_margin(mdp, float(tau)) == pytest.approx(float(safest), abs=1e-12)
    policy = guarantee_curve(mdp).policy(float(tau))
    assert plateau(mdp, float(tau), policy) == pytest.approx(float(safest), abs=1e-12)


def test_numbers_and_whole_laws_give_the_same_plateau():
    rng = np.random.default_rng(3)
    for _ in range(40):
        mdp, tau = random_mdp(rng), float(rng.choice([0.1, 0.25, 0.5, 0.9]))
        laws = frontier(mdp)
        assert plateau(mdp, tau) == pytest.approx(
            min(laws.law(i).margin(tau).below for i in range(len(laws))), abs=1e-12
        )


def test_common_denominator_divides_every_probability():
    assert common_denominator(FLIP) == 10**3
    for law in achievable_laws(FLIP):
        assert all((p * 10**3).denominator == 1 for _, p in law)


@pytest.mark.parametrize(("tau", "episodes"), [(0.1, 658), (0.5, 6.3e7), (0.9, 77)])
def test_asset_selling_needs_this_long_for_the_logarithmic_buffer(tau, episodes):
    assert math.exp(tau / optimal_margin(envs.make("AssetSelling"), tau)) == pytest.approx(episodes, rel=0.01)


def test_large_problems_are_bracketed_with_a_reason():
    mdp = envs.make("AssetSelling")
    with pytest.raises(SizeError, match=r"plateau_bounds\(mdp, tau\)") as error:
        plateau(mdp, 0.1)
    assert error.value.needed > error.value.limit
    assert error.value.name == "max_values"
    bounds = plateau_bounds(mdp, 0.1)
    assert 0.0 < bounds.lower < 1e-13
    assert bounds.upper < 1e-4 < optimal_margin(mdp, 0.1)  # what the paper waits for is not what matters
    assert "multiple of" in bounds.reason
    huge = plateau_bounds(envs.make("AssetSelling", offers=200, horizon=40), 0.1)
    assert "attained by the optimal policy" in huge.reason
    assert huge.upper == optimal_margin(envs.make("AssetSelling", offers=200, horizon=40), 0.1)


def test_bounds_meet_where_no_target_is_torn():
    walk = MDP(np.array([[[0.3, 0.7]], [[0.6, 0.4]]]), [[0.0], [1.0]], horizon=12)  # one policy only
    bounds = plateau_bounds(walk, 0.2, keep=2)
    assert bounds.lower == bounds.upper == pytest.approx(plateau(walk, 0.2))
    law = evaluate(walk, guarantee_curve(walk).policy(0.2))
    assert bounds.upper == pytest.approx(law.margin(0.2).below)


@given(small_mdps(states=2, horizon=3))
def test_attainable_shortfalls_are_those_of_the_laws(mdp):
    laws = achievable_laws(mdp)
    assume(laws is not None)
    found = attainable_shortfalls(mdp)
    assert found.complete
    for x, values in zip(found.targets, found.by_target, strict=True):
        listed = {float(sum((p for z, p in law if z < Fraction(x) - Fraction(1, 10**6)), Fraction(0))) for law in laws}
        distinct = sorted(listed)
        merged = [v for v, before in zip(distinct, [-1.0, *distinct], strict=False) if v - before > 1e-13]
        assert values == pytest.approx(merged, abs=1e-12)


@given(small_mdps(states=2, horizon=3))
def test_a_sample_contains_both_extremes_and_nothing_else(mdp):
    every, some = attainable_shortfalls(mdp), attainable_shortfalls(mdp, keep=2)
    assert some.targets.tolist() == every.targets.tolist()
    for few, many in zip(some.by_target, every.by_target, strict=True):
        assert few.size <= 2
        assert (few[0], few[-1]) == pytest.approx((many[0], many[-1]), abs=1e-12)
    if some.complete:
        assert [v.size for v in some.by_target] == [v.size for v in every.by_target]


def test_the_budget_is_checked():
    with pytest.raises(SizeError) as error:
        attainable_shortfalls(FLIP, max_values=5)
    assert error.value.limit == 5 < error.value.needed
    assert attainable_shortfalls(FLIP, max_values=1000).complete
