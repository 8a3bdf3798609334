from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import LEVELS, random_mdp, small_mdps

from bqrl import MDP, Law, envs, guarantee_curve, solve
from bqrl.theory import levels, martingale_drift


def law_of(mdp, policy):
    """The law of the return, by walking every (state, memory, return so far); and the mass of every memory met."""
    mass = {(int(s), policy.start(), 0.0): float(mdp.mu[s]) for s in np.flatnonzero(mdp.mu)}
    stages = []
    for h in range(mdp.H):
        stages.append(mass)
        after = defaultdict(float)
        for (s, memory, total), weight in mass.items():
            a = policy.act(h, s, memory)
            for t, p, r in zip(*(row.tolist() for row in mdp.outcomes(h, s, a)), strict=True):
                if p > 0.0:
                    after[t, policy.next(memory, h, s, a, r, t), round(total + mdp.discount**h * r, 9)] += weight * p
        mass = after
    return Law([total for _, _, total in mass], list(mass.values())), [*stages, mass]


@given(small_mdps(), st.sampled_from(LEVELS))
def test_level_starts_at_tau_and_is_a_martingale(mdp, tau):
    tau = float(tau)
    found = levels(guarantee_curve(mdp, keep=True), tau)
    drift = martingale_drift(found)
    assert drift.start <= 1e-12
    assert drift.unclipped <= 1e-12
    assert -1e-12 <= drift.clipped <= found.margin + 1e-12
    # Along the policy, too: the mean of the unclipped level is tau at every stage.
    _, stages = law_of(mdp, found.curve.policy(tau))
    W, grid = found.curve.sweep.values, found.curve.sweep.grid
    for h, mass in enumerate(stages):
        mean = sum(p * (W[h][s, grid.column(h, need)] + found.margin) for (s, need, _), p in mass.items())
        assert mean == pytest.approx(tau, abs=1e-10)
        assert sum(p * found(h, s, need) for (s, need, _), p in mass.items()) <= tau + 1e-10


@given(small_mdps(plain=True), st.sampled_from(LEVELS))
def test_policy_retargeted_from_its_level_attains_the_same_quantile(mdp, tau):
    tau = float(tau)
    curve = guarantee_curve(mdp, keep=True)
    law, _ = law_of(mdp, curve.level_policy(tau))
    assert law.quantile(tau) == pytest.approx(float(curve(tau)), abs=1e-8)
    short = law.shortfall(float(curve(tau)) - 1e-6)
    assert tau - curve.margin(tau).below - 1e-10 <= short < tau


def test_a_level_ends_at_one_and_with_it_a_small_chance():
    # A need whose level exceeds 1 is given up, though it may still have a chance: the shortfall grows, the quantile stays.
    found = 0
    for seed in range(300):
        mdp = random_mdp(np.random.default_rng(seed))
        curve = guarantee_curve(mdp, keep=True)
        for tau in (0.7, 5 / 6):
            policy, best = curve.level_policy(tau), tau - curve.margin(tau).below
            law, stages = law_of(mdp, policy)
            short = law.shortfall(float(curve(tau)) - 1e-6)
            if short > best + 1e-9:
                found += 1
                assert law.quantile(tau) == pytest.approx(float(curve(tau)), abs=1e-8)
                assert any(q == 1.0 for mass in stages for _, q, _ in mass)  # never without a level that was cut
    assert found > 0


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
def test_level_in_memory_keeps_its_mean_up_to_clipping(tau):
    mdp = envs.make("AssetSelling")
    curve = guarantee_curve(mdp, keep=True)
    policy = curve.level_policy(tau)
    _, stages = law_of(mdp, policy)
    means = [sum(p * q for (_, q, _), p in mass.items()) for mass in stages]
    assert means[0] == tau
    assert np.all(np.diff(means) <= 1e-12)  # a supermartingale
    assert means[1] >= tau - curve.margin(tau).below - 1e-12
    assert means[-1] == pytest.approx(
        curve.margin(tau).below
    )  # once lost it takes a new aim, and then all aims are met


def test_on_ties_the_level_alone_chooses_otherwise():
    # Needs 1 and 2 have the same level after the first coin: action 1 gives 2 for sure, so asking for 1 or 2 is equally
    # safe. The need 1 may be served by action 0, of the better mean (1 or 9); the level takes the need 2 and action 1.
    listed = [(0, 0, 0, t, p, 0.0) for t, p in ((1, 0.5), (2, 0.5))] + [(0, s, 0, s, 1.0, 0.0) for s in (1, 2)]
    listed += [(1, 1, 0, 1, 0.5, 1.0), (1, 1, 0, 1, 0.5, 9.0), (1, 1, 1, 1, 1.0, 2.0)]
    listed += [(1, 2, 0, 2, 1.0, 0.0), (1, 0, 0, 0, 1.0, 0.0)]
    mdp = MDP(listed, horizon=2)
    curve, tau = guarantee_curve(mdp, keep=True), 0.6
    assert curve(tau) == 2.0
    by_need = curve.policy_for(1.0)
    found = levels(curve, tau)
    assert found(1, 1, 1.0) == found(1, 1, 2.0) == pytest.approx(found.margin)
    assert by_need.act(1, 1, 1.0) == 0
    assert curve.level_policy(tau).act(1, 1, found(1, 1, 1.0)) == 1


def test_path_follows_one_episode():
    mdp = envs.make("AssetSelling")
    found = levels(guarantee_curve(mdp, keep=True), 0.1)
    sold = 25
    won = found.path([5, 20, *[sold] * 9], [0.0, 20 / 24, *[0.0] * 8])
    assert won[0] == pytest.approx(0.1)
    assert won[2:] == pytest.approx([found.margin] * 9)  # the target 19/24 is safe
    lost = found.path([5, *[sold] * 10], [5 / 24, *[0.0] * 9])
    assert lost[1:] == pytest.approx([1.0] * 10)


def test_levels_of_a_plan():
    mdp = envs.make("AssetSelling", offers=5, horizon=3, start=1)
    plan = solve(mdp, 0.5)
    with pytest.raises(ValueError, match=r"keep=True"):
        levels(plan)
    found = levels(guarantee_curve(mdp, keep=True), 0.5)
    assert found.target == plan.value
