import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import random_mdp, small_mdps

import bqrl
from bqrl import MDP, evaluate
from bqrl.learners.score import Optimum, Scorer, optimum
from bqrl.planners.expected import best_mean


@settings(max_examples=30)
@given(small_mdps(), st.sampled_from([0.1, 0.3, 0.5, 0.75, 0.9]))
def test_the_optimum_is_exact_at_every_level(mdp, tau):
    found = optimum(mdp)
    assert found.quantile(tau) == bqrl.solve(mdp, tau).value
    assert found.best_mean == best_mean(mdp)[0]
    assert found.error == 0.0
    assert optimum(mdp) is found  # computed once


@pytest.mark.parametrize("tau", [1e-13, 1e-12, 1e-9, 0.3])
def test_the_optimum_and_the_guarantee_curve_agree_at_tiny_levels(tau):
    for seed in range(30):
        mdp = random_mdp(np.random.default_rng(seed))
        assert optimum(mdp).quantile(tau) == bqrl.guarantee_curve(mdp)(tau)


@given(small_mdps(), st.floats(0.05, 0.95))
def test_laws_of_target_policies_are_those_of_evaluate(mdp, tau):
    policy = bqrl.guarantee_curve(mdp).policy(tau)
    scorer = Scorer(mdp)
    assert bqrl.Law(scorer.points, scorer.law(policy)).equals(evaluate(mdp, policy))


@given(small_mdps(), st.integers(0, 10**6))
def test_laws_of_markov_policies_are_those_of_evaluate(mdp, seed):
    rng = np.random.default_rng(seed)
    actions = np.zeros((mdp.H, mdp.S), int)
    for h in range(mdp.H):
        for s in range(mdp.S):
            there = np.flatnonzero(mdp.stage(h).available[s])
            actions[h, s] = rng.choice(there) if there.size else 0
    policy = bqrl.MarkovPolicy(actions)
    scorer = Scorer(mdp)
    assert bqrl.Law(scorer.points, scorer.law(policy)).equals(evaluate(mdp, policy))


def test_an_unchanged_policy_is_scored_once():
    mdp = bqrl.envs.make("AssetSelling")
    policy, scorer = bqrl.guarantee_curve(mdp).policy(0.3), Scorer(mdp)
    assert scorer.law(policy) is scorer.law(policy)


def test_on_a_rounded_grid_quantiles_and_means_lie_within_the_stated_error():
    rng = np.random.default_rng(5)
    for _ in range(5):
        mdp = MDP(rng.dirichlet(np.ones(3), (3, 2)), rng.normal(size=(3, 2)), horizon=16, discount=0.9)
        scorer, policy = Scorer(mdp), bqrl.MarkovPolicy(rng.integers(0, 2, (16, 3)))
        assert not scorer.grid.exact
        low, high = evaluate(mdp, policy, bracket=True)
        found, error = bqrl.Law(scorer.points, scorer.law(policy)), optimum(mdp).error
        assert error > 0.0
        for tau in (0.1, 0.5, 0.9):
            assert low.quantile(tau) - error - 1e-9 <= found.quantile(tau) <= high.quantile(tau) + 1e-9
        assert low.mean() - error - 1e-9 <= found.mean() <= high.mean() + 1e-9
        best = bqrl.guarantee_curve(mdp)
        assert best(0.5) - error - 1e-9 <= optimum(mdp).quantile(0.5) <= best.upper(0.5) + 1e-9


def test_an_optimum_comes_back_from_its_arrays():
    one = optimum(bqrl.envs.make("AssetSelling"))
    other = Optimum.from_arrays(one.arrays())
    assert other.quantile(0.37) == one.quantile(0.37)
    assert (other.best_mean, other.error) == (one.best_mean, one.error)
    with pytest.raises(ValueError, match="read-only"):
        one.points[0] = 3.0
