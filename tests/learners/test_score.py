from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import random_mdp, small_mdps

import bqrl
from bqrl import MDP, evaluate
from bqrl.errors import FileFormatError
from bqrl.learners import score
from bqrl.learners.replan import Replanner
from bqrl.learners.score import SIMULATED_EPISODES, Optimum, Scorer, optimum
from bqrl.mdp.find_grid import returns_grid, rounded_grid
from bqrl.planners.expected import best_mean
from bqrl.planners.sweep import sweep
from bqrl.policies import pairs as unrolled


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


def discounted(rng, S, A, H, rewards=None, discount=0.97):
    """A problem whose target policies are planned on a rounded grid."""
    rewards = rng.normal(size=(S, A)) if rewards is None else rng.permutation(np.resize(rewards, S * A)).reshape(S, A)
    return MDP(rng.dirichlet(np.ones(S), (S, A)), rewards, horizon=H, discount=discount)


def assert_within_the_error(scorer, mdp, policy):
    """The scores lie below the exact ones by at most the stated error; returns the largest difference."""
    found = bqrl.Law(scorer.points, scorer.law(policy))
    exact, upper = evaluate(mdp, policy, bracket=True, max_atoms=10**6, max_points=0, max_set=0, rewards="this model")
    assert upper is exact
    off = [exact.quantile(tau) - found.quantile(tau) for tau in (0.05, 0.3, 0.6, 0.95)] + [exact.mean() - found.mean()]
    assert -1e-9 <= min(off)
    assert max(off) <= scorer.error + 1e-9
    return max(off)


@pytest.mark.parametrize("seed", range(4))
def test_the_error_covers_the_rounding_of_target_policies(seed):
    mdp = discounted(np.random.default_rng(seed), 3, 2, 11)
    scorer, planner = Scorer(mdp), Replanner(mdp)
    policies = [planner.point(np.array(mdp.probability), tau).policy for tau in (0.1, 0.5)]
    off = max(assert_within_the_error(scorer, mdp, policy) for policy in policies)
    assert off > optimum(mdp).error  # the grid of the policies is coarser than that of the scores
    mixture = bqrl.MixturePolicy(policies, [0.5, 0.5])
    mixed = Scorer(mdp)
    mixed.law(mixture)
    assert mixed.error == scorer.error


@pytest.mark.parametrize("seed", [2, 3])  # these policies have too many returns to enumerate
def test_scores_of_a_rounded_policy_are_not_exact_where_an_exact_grid_fits(seed):
    mdp = discounted(np.random.default_rng(seed), 12, 2, 9, rewards=[0.0, 1.0, 2.0], discount=0.9)
    scorer, policy = Scorer(mdp), Replanner(mdp).point(np.array(mdp.probability), 0.4).policy
    assert scorer.grid.exact
    assert scorer.error == 0.0
    assert_within_the_error(scorer, mdp, policy)
    assert scorer.error == policy.grid.error > 0.0


def sparse(rng, rewards, discount):
    """A problem with these rewards (H, S, A, S) in which some successors are impossible."""
    H, S, A, _ = rewards.shape
    P = np.where(rng.random((S, A, S)) < 0.4, 0.0, rng.dirichlet(np.ones(S), (S, A)))
    P[..., 0] += P.sum(axis=2) == 0.0
    return MDP(P / P.sum(axis=2, keepdims=True), rewards, horizon=H, discount=discount, start=int(rng.integers(S)))


@pytest.mark.parametrize("up", [False, True])
@pytest.mark.parametrize("exact", [False, True])  # whether scores have an exact grid
def test_the_error_covers_the_rounding_of_policies_planned_for_another_problem(up, exact, monkeypatch):
    monkeypatch.setattr(score, "evaluate", partial(evaluate, max_points=0, max_set=0, max_atoms=0))
    monkeypatch.setattr(score, "scoring_grid", lambda mdp: returns_grid(mdp) if exact else rounded_grid(mdp, 20))
    for seed in range(60):
        rng = np.random.default_rng(seed)
        discount, R = float(rng.choice([1.0, 0.9, 0.5])), rng.integers(-3, 4, (3, 3, 2, 3)) * 0.7
        mdp = sparse(rng, R, discount)
        columns = rounded_grid(mdp, int(rng.integers(2, 12)), up=up)
        policy = sweep(mdp, columns).policy(float(rng.choice(columns.points(0))))
        other = sparse(rng, R * rng.choice([1.0, 3.0, 0.3]) + rng.choice([0.0, 1.7]), discount)
        assert_within_the_error(Scorer(other), other, policy)


def test_a_policy_planned_on_the_staged_form_is_scored():
    mdp = discounted(np.random.default_rng(2), 3, 2, 11)
    staged = mdp.staged()
    here, there = (Replanner(model).point(np.array(model.probability), 0.3).policy for model in (mdp, staged))
    np.testing.assert_allclose(Scorer(mdp).law(there), Scorer(mdp).law(here), atol=1e-12)


class Parity(bqrl.Policy):
    """Plays the parity of the sum of the states seen: no remaining need, so its law cannot be bracketed."""

    kind = "parity"

    def __init__(self, H, S):
        self.H, self.S = H, S

    def start(self, u=None):
        return 0

    def act(self, h, s, memory):
        return memory % 2

    def next(self, memory, h, s, action, reward, s_next):
        return memory + s_next

    def arrays(self):
        return {}


def test_a_law_that_cannot_be_bracketed_is_simulated():
    mdp = discounted(np.random.default_rng(3), 3, 2, 16)
    markov = bqrl.MarkovPolicy(np.random.default_rng(3).integers(0, 2, (16, 3)))
    scorer = Scorer(mdp, 5)
    exact = bqrl.Law(scorer.points, scorer.law(markov))
    assert scorer.simulated == 0
    law = scorer.law(markov.to_labels(mdp))
    assert scorer.simulated == SIMULATED_EPISODES
    found = bqrl.Law(scorer.points, law)
    assert abs(found.mean() - exact.mean()) <= 4 * exact.std() / SIMULATED_EPISODES**0.5 + 2 * scorer.error
    for tau in (0.1, 0.5, 0.9):
        spread = 4 * np.sqrt(tau * (1 - tau) / SIMULATED_EPISODES)
        slack = 2 * scorer.error
        assert exact.quantile(tau - spread) - slack <= found.quantile(tau) <= exact.quantile(tau + spread) + slack
    again = Scorer(mdp, 5)
    again.law(Parity(16, 3))  # no policy changes the draws of another
    np.testing.assert_array_equal(again.law(markov.to_labels(mdp)), law)
    assert np.any(Scorer(mdp, 6).law(markov.to_labels(mdp)) != law)


def test_a_law_with_too_many_needs_is_simulated(monkeypatch):
    mdp = MDP([(0, 0, 0, 0.5, 1.0), (0, 0, 0, 0.5, 2.0), (0, 1, 0, 1.0, 1.0)], horizon=6)
    policy, scorer = bqrl.solve(mdp.replace(discount=0.9), 0.5).policy, Scorer(mdp)
    scorer.law(policy)
    assert scorer.simulated == 0
    monkeypatch.setattr(unrolled, "MAX_LABELS", 2)
    scorer = Scorer(mdp)
    scorer.law(policy)
    assert scorer.simulated == SIMULATED_EPISODES


def test_memory_of_other_kinds_is_scored_exactly_on_an_exact_grid():
    mdp = bqrl.envs.make("AssetSelling", offers=6, horizon=4, start=2)
    scorer, policy = Scorer(mdp), Parity(mdp.H, mdp.S)
    assert bqrl.Law(scorer.points, scorer.law(policy)).equals(evaluate(mdp, policy))
    assert (scorer.error, scorer.simulated) == (0.0, 0)


def test_an_optimum_comes_back_from_its_arrays():
    one = optimum(bqrl.envs.make("AssetSelling"))
    other = Optimum.from_arrays(one.arrays())
    assert other.quantile(0.37) == one.quantile(0.37)
    assert (other.best_mean, other.error) == (one.best_mean, one.error)
    with pytest.raises(ValueError, match="read-only"):
        one.points[0] = 3.0
    with pytest.raises(FileFormatError, match="must have one entry per point, got") as caught:
        Optimum.from_arrays(one.arrays() | {"optimum_shortfall": one.shortfall[1:]})
    assert caught.value.column == "optimum_shortfall"


@pytest.mark.parametrize("tiny", [1e-9, 1e-10, 1e-11, -1e-9])
@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_returns_that_nearly_coincide_are_scored_at_their_own_point(tiny, discount):
    rows = [(0, 0, 0, 0.5, -5.0), (0, 0, 0, 0.5, 0.0), (0, 1, 0, 0.5, tiny), (0, 1, 0, 0.5, -1.0)]
    mdp = MDP(rows, horizon=15 if discount == 1.0 else 9, discount=discount)
    record = bqrl.learn(mdp, "psrl", 0.5, 30, 1, progress=False)
    assert record.gap().min() >= -1e-6 - record.score_error
    for policy in (record.final_policy, best_mean(mdp)[1]):
        scorer, law = Scorer(mdp), evaluate(mdp, policy)
        scored = bqrl.Law(scorer.points, scorer.law(policy))
        for tau in (0.05, 0.3, 0.5, 0.9):
            assert scored.quantile(tau) == pytest.approx(law.quantile(tau), abs=1e-6 + scorer.error)
        assert scored.mean() == pytest.approx(law.mean(), abs=1e-6 + scorer.error)


def test_a_custom_policy_that_changes_in_place_is_scored_again():
    class Switch(bqrl.Policy):
        played = 0

        def act(self, h, s, memory=None):
            return self.played

    mdp = MDP([(0, 0, 0, 1.0, 0.0), (0, 1, 0, 1.0, 3.0)], horizon=1)
    policy, scorer = Switch(), Scorer(mdp)
    laws = []
    for policy.played in (0, 1):
        laws.append(bqrl.Law(scorer.points, scorer.law(policy)).quantile(0.5))
    assert laws == [0.0, 3.0]


def test_a_policy_that_draws_its_actions_is_scored_by_simulation():
    mdp, rng = MDP(np.full((2, 2, 2), 0.5), [[0.0, 1.0], [1.0, 2.0]], horizon=6), np.random.default_rng(1)

    class Draws(bqrl.Policy):
        def act(self, h, s, memory):
            return int(rng.integers(2))

    scorer = Scorer(mdp)
    law = bqrl.Law(scorer.points, scorer.law(Draws()))
    assert scorer.simulated == SIMULATED_EPISODES
    assert abs(law.mean() - 5.5) < 0.15


@pytest.mark.parametrize("seed", range(3))
def test_the_error_covers_stochastic_policies_alone_and_in_a_mixture(seed):
    rng = np.random.default_rng(seed)
    mdp = discounted(rng, 2, 2, 9)
    policy = bqrl.StochasticPolicy(rng.dirichlet(np.ones(2), (9, 2)))
    scorer = Scorer(mdp)
    assert not scorer.grid.exact
    assert_within_the_error(scorer, mdp, policy)
    assert_within_the_error(
        Scorer(mdp), mdp, bqrl.MixturePolicy([policy, bqrl.MarkovPolicy(np.zeros((9, 2), int))], [0.5, 0.5])
    )
    assert scorer.simulated == 0
