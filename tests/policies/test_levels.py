"""The level as memory."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import LEVELS, random_mdp, small_mdps

from bqrl import MDP, Law, envs
from bqrl.planners.curve import guarantee_curve


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
def test_the_level_of_a_target_policy_is_a_martingale_from_tau(mdp, tau):
    tau = float(tau)
    curve = guarantee_curve(mdp, keep=True)
    margin, W, grid = curve.margin(tau).below, curve.sweep.values, curve.sweep.grid
    _, stages = law_of(mdp, curve.policy(tau))
    for h, mass in enumerate(stages):
        levels = [(p, W[h][s, grid.column(h, need)] + margin) for (s, need, _), p in mass.items()]
        assert sum(p * q for p, q in levels) == pytest.approx(tau, abs=1e-10)
        assert sum(p * min(q, 1.0) for p, q in levels) <= tau + 1e-10  # clipped: a supermartingale


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
    level, (one, two) = curve.margin(tau).below, (curve.sweep.grid.column(1, need) for need in (1.0, 2.0))
    assert curve.sweep.values[1][1, one] == curve.sweep.values[1][1, two] == 0.0
    assert by_need.act(1, 1, 1.0) == 0
    assert curve.level_policy(tau).act(1, 1, level) == 1
