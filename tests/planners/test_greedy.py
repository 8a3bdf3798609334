from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import LEVELS, exact_mean, exact_objective, exact_outcomes, fraction, random_mdp, small_mdps

import bqrl
from bqrl import MDP, evaluate
from bqrl.errors import GridError
from bqrl.mdp.find_grid import lattice, return_set, returns_grid, rounded_grid
from bqrl.planners import greedy
from bqrl.planners.greedy import CandidateChoice, greedy_policies, optimistic_greedy, plan_greedy

levels = st.sampled_from(LEVELS)
shares = st.sampled_from([Fraction(0), Fraction(1, 7), Fraction(1, 2), Fraction(1)])


def mixed(parts):
    """Law of the sum over parts (law, weight, shift), in fractions."""
    mass = {}
    for law, weight, shift in parts:
        for x, p in law:
            mass[x + shift] = mass.get(x + shift, 0) + weight * p
    return tuple(sorted(mass.items()))


def slow_greedy(mdp, tau, beta):
    """Algorithm 3's recursion word for word: actions by (h, s), values by (h, s), and the root value."""
    actions, values = {}, {}
    retained = [((Fraction(0), Fraction(1)),)] * mdp.S
    for h in range(mdp.H - 1, -1, -1):
        laws = [None] * mdp.S
        for s in np.flatnonzero(mdp.reachable[h]):
            ranked = []
            for a in np.flatnonzero(mdp.stage(h).available[s]):
                law = mixed((retained[t], p, r) for t, p, r in exact_outcomes(mdp, h, int(s), int(a)))
                ranked.append((exact_objective(law, tau, beta), exact_mean(law), -int(a), law))
            value, _, a, law = max(ranked)
            actions[h, int(s)], values[h, int(s)], laws[s] = -a, value, law
        retained = laws
    root = mixed((retained[s], fraction(mdp.mu[s]), 0) for s in np.flatnonzero(mdp.mu))
    return actions, values, exact_objective(root, tau, beta)


def assert_as_slow(mdp, tau, beta, found, k=0):
    actions, values, root = slow_greedy(mdp, tau, beta)
    assert {key: int(found.actions[k][key]) for key in actions} == actions
    assert [found.retained[k][key] for key in values] == pytest.approx([float(v) for v in values.values()], abs=1e-9)
    assert found.values[k] == pytest.approx(float(root), abs=1e-9)


@given(small_mdps(actions=3), levels, shares)
def test_greedy_is_the_recursion_of_the_paper(mdp, tau, share):
    found = greedy_policies(mdp, mdp.probability[None], float(tau), float(share * tau))
    assert_as_slow(mdp, tau, share * tau, found)


@pytest.mark.parametrize("way", ["matrix", "outcomes", "set"])
def test_every_way_through_the_loops_gives_the_same(way, monkeypatch):
    monkeypatch.setattr(greedy, "MULTIPLY_FROM", 0.0 if way == "matrix" else 2.0)
    rng = np.random.default_rng(5)
    for _ in range(400):
        mdp = random_mdp(rng, states=4, actions=3)
        tau = LEVELS[int(rng.integers(len(LEVELS)))]
        beta = tau * Fraction(int(rng.integers(0, 4)), 3)
        if way == "set" and rng.integers(2):
            mdp = mdp.replace(discount=0.5)
        columns = return_set(mdp) if way == "set" else lattice(mdp)
        found = greedy_policies(mdp, mdp.probability[None], float(tau), float(beta), columns)
        assert_as_slow(mdp, tau, beta, found)


@given(small_mdps(), levels, shares)
def test_plan_is_the_true_value_of_its_markov_policy(mdp, tau, share):
    plan = plan_greedy(mdp, float(tau), float(share * tau))
    assert plan.upper is None
    assert plan.value == evaluate(mdp, plan.policy).buffered_quantile(float(tau), float(share * tau))
    _, _, root = slow_greedy(mdp, tau, share * tau)
    assert plan.value == pytest.approx(float(root), abs=1e-9), "the retained law is the policy's own"


@given(small_mdps(), st.integers(0, 10**6), levels)
def test_many_kernels_at_once_are_the_kernels_one_by_one(mdp, seed, tau):
    rng = np.random.default_rng(seed)
    rows = np.repeat(np.arange(mdp.row_start.size - 1), np.diff(mdp.row_start))
    weights = rng.random((5, mdp.probability.size)) + 1e-3
    kernels = np.stack([w / np.bincount(rows, w)[rows] for w in weights])
    together = greedy_policies(mdp, kernels, float(tau), float(tau) / 2)
    for k in range(5):
        alone = greedy_policies(mdp, kernels[k : k + 1], float(tau), float(tau) / 2)
        twin = greedy_policies(mdp.with_probability(kernels[k]), kernels[k : k + 1], float(tau), float(tau) / 2)
        for one in (alone, twin):
            assert np.array_equal(one.actions[0], together.actions[k])
            assert np.array_equal(one.retained[0], together.retained[k])
            assert one.values[0] == together.values[k]


@pytest.mark.parametrize("beta", [0.0, 1e-9])
@pytest.mark.parametrize(("tau", "offer", "limit"), [(0.1, 13, 13), (0.5, 22, 21), (0.9, 24, 23)])
def test_asset_selling(tau, offer, limit, beta):
    mdp = bqrl.envs.make("AssetSelling")
    plan = plan_greedy(mdp, tau, beta)
    assert plan.value * 24 == pytest.approx(offer, abs=1e-9)
    assert plan.certain
    continues = plan.policy.actions[:, :25] == 1
    assert continues[0].sum() - 1 == limit, "the first stage continues up to this offer"
    assert np.all(np.diff(continues.astype(int), axis=1) <= 0), "a threshold at every stage"
    assert plan.value <= bqrl.solve(mdp, tau).value + 1e-12


@pytest.mark.parametrize("tau", [Fraction(1, 10), Fraction(1, 2)])
def test_asset_selling_with_a_buffer_is_the_slow_recursion(tau):
    mdp = bqrl.envs.make("AssetSelling", offers=7, horizon=4, start=2)
    for stored in (mdp, mdp.staged()):
        for share in (Fraction(0), Fraction(1, 3), Fraction(1)):
            found = greedy_policies(stored, stored.probability[None], float(tau), float(share * tau))
            assert_as_slow(stored, tau, share * tau, found)


def test_mean_breaks_ties_and_then_the_lower_action():
    """Median 0 for all three; the mean prefers action 1, and its copy, action 2, comes later."""
    lottery = [(0.5, 0.0), (0.5, 3.0)]
    listed = [(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.5, 1.0)] + [(0, a, 0, p, r) for a in (1, 2) for p, r in lottery]
    plan = plan_greedy(MDP(listed, horizon=1), 0.5)
    assert plan.policy.actions.tolist() == [[1]]


@pytest.mark.parametrize(("loss", "chosen"), [(5e-11, 1), (5e-9, 0)])
def test_objective_values_within_the_tolerance_tie(loss, chosen):
    """CVaR 1 for sure against CVaR 1 - 2 loss with a larger mean: 1e-10 is a tie, 1e-8 is not."""
    mdp = MDP([(0, 0, 0, 1.0, 1.0), *((0, 1, 0, 1 / 3, r) for r in (0.0, 1.0, 3.0))], horizon=1)
    found = greedy_policies(mdp, np.array([[1.0, loss, 0.6 - loss, 0.4]]), 0.5, 0.5)
    assert found.actions.tolist() == [[[chosen]]]


def test_a_rounded_grid_is_refused_with_the_remedy():
    mdp = MDP([[[0.5, 0.5]], [[0.5, 0.5]]], [[0.0], [np.pi]], horizon=60, discount=0.97)
    assert returns_grid(mdp) is None
    with pytest.raises(GridError, match="use planner='target', which brackets"):
        plan_greedy(mdp, 0.5)
    with pytest.raises(ValueError, match="requires an exact grid"):
        greedy_policies(mdp, mdp.probability[None], 0.5, 0.0, rounded_grid(mdp, 100))


def test_shapes_are_checked():
    mdp = bqrl.envs.make("AssetSelling")
    with pytest.raises(ValueError, match=r"probabilities must have shape \(n, 652\).*got \(652,\)"):
        greedy_policies(mdp, mdp.probability, 0.5)


def test_candidates_tie_towards_the_empirical_kernel():
    mdp = bqrl.envs.make("AssetSelling").staged()
    rows = mdp.row_start.size - 1
    uniforms = np.random.default_rng(0).random((4, rows, 2))
    choice = optimistic_greedy(mdp, mdp.probability, np.zeros(rows), 0.5, 0.1, uniforms)
    assert isinstance(choice, CandidateChoice)
    assert choice.kernel == 0
    assert len(set(choice.values)) == 1
    assert choice.value == greedy_policies(mdp, mdp.probability[None], 0.5, 0.1).values[0]


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
def test_optimism_helps_and_is_the_best_candidate(tau):
    mdp = bqrl.envs.make("AssetSelling").staged()
    rows = mdp.row_start.size - 1
    uniforms = np.random.default_rng(1).random((4, rows, 2))
    columns = returns_grid(mdp)
    choice = optimistic_greedy(mdp, mdp.probability, np.full(rows, 0.05), tau, tau / 3, uniforms, columns)
    again = optimistic_greedy(mdp, mdp.probability, np.full(rows, 0.05), tau, tau / 3, uniforms, columns)
    assert np.array_equal(choice.actions, again.actions)
    assert choice.values.size == 6
    assert choice.kernel == 1, "mass moved to the best offers helps most"
    assert choice.value == choice.values.max() > choice.values[0]
