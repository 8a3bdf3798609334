"""The outlook in the middle of an episode, against recursions over all histories from there."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from oracles import small_mdps

import bqrl
from bqrl import MDP, solve
from bqrl.errors import ArgumentError, PolicyError

LEVELS = st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9])


def least_shortfall(mdp, h, s, need):
    """The smallest probability, over all policies, of collecting less than `need` from stage h on."""
    if h == mdp.H:
        return float(need > 1e-9)
    rows = [mdp.outcomes(h, s, a) for a in np.flatnonzero(mdp.stage(h).available[s])]
    return min(
        sum(p * least_shortfall(mdp, h + 1, int(t), need - r) for t, p, r in zip(*row, strict=True) if p > 0)
        for row in rows
    )


def own_shortfall(mdp, policy, h, s, memory, need):
    """The same for one policy."""
    if h == mdp.H:
        return float(need > 1e-9)
    a = policy.act(h, s, memory)
    return sum(
        p * own_shortfall(mdp, policy, h + 1, int(t), policy.next(memory, h, s, a, float(r), int(t)), need - r)
        for t, p, r in zip(*mdp.outcomes(h, s, a), strict=True)
        if p > 0
    )


@given(small_mdps(horizon=3), LEVELS, st.integers(0, 10**6), st.booleans())
@settings(max_examples=60)
def test_chance_and_guarantee_are_those_of_a_recursion_over_histories(mdp, tau, seed, pairs):
    rng = np.random.default_rng(seed)
    plan = solve(mdp, tau, pairs=pairs)
    h = int(rng.integers(mdp.H))
    s = int(rng.choice(np.flatnonzero(mdp.reachable[h])))
    earned = float(rng.choice(np.unique(mdp.reward))) * h
    now = plan.outlook(mdp, stage=h + 1, state=s, earned=earned)
    memory = earned if plan.policy.kind == "earned" else plan.policy.target - earned
    need = plan.value - earned
    assert now.action == mdp.action_label(plan.policy.act(h, s, memory))
    assert now.chance == pytest.approx(1.0 - own_shortfall(mdp, plan.policy, h, s, memory, need), abs=1e-9)
    assert now.best_chance == pytest.approx(1.0 - least_shortfall(mdp, h, s, need), abs=1e-9)
    assert now.chance <= now.best_chance + 1e-9
    left = now.guarantee - earned
    assert least_shortfall(mdp, h, s, left) < tau
    higher = bqrl.guarantee_curve(mdp).sweep
    if hasattr(higher, "grid"):
        above = [x for x in higher.grid.points(h).tolist() if x > left + 1e-9]
        assert not above or least_shortfall(mdp, h, s, above[0]) >= tau - 1e-9


def test_before_the_first_stage_the_outlook_is_the_plan():
    mdp = bqrl.envs.make("Inventory")
    plan = solve(mdp, 0.1)
    now = plan.outlook(mdp, stage=1, state=int(mdp.start))
    assert now.guarantee == plan.value
    assert now.chance == pytest.approx(1.0 - plan.law.shortfall(plan.value))
    assert now.best_chance == pytest.approx(now.chance)
    assert now.law.mean() == pytest.approx(plan.mean)
    assert str(now).endswith("From here 69 can still be guaranteed in 9 of 10 runs.")
    markov = solve(mdp, bqrl.Mean()).outlook(mdp, stage=1, state=mdp.state_label(mdp.start))
    assert markov.guarantee is None


def test_a_discounted_problem_counts_what_was_earned_in_the_money_of_the_first_stage():
    mdp = MDP([(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.5, 1.0)], horizon=2, discount=0.5)
    now = solve(mdp, 0.6).outlook(mdp, stage=2, state=0, earned=1.0)
    assert (now.target, now.chance, now.guarantee) == (1.0, 1.0, 1.5)


def test_what_has_no_outlook_is_refused_in_one_line():
    mdp = bqrl.envs.make("SafeOrRisky")
    plan = solve(mdp, 0.1)
    with pytest.raises(ArgumentError, match="stage must be a whole number from 1 to 10, got 11"):
        plan.outlook(mdp, stage=11, state=0)
    with pytest.raises(ArgumentError, match="state must be the name or the number of a state, got 'Nowhere'"):
        plan.outlook(mdp, stage=1, state="Nowhere")
    mixed = solve(mdp, 0.1, margin=0.0, randomized=True)
    with pytest.raises(PolicyError, match="requires a policy whose memory follows from what was earned, got a mixture"):
        mixed.outlook(mdp, stage=1, state=0)
