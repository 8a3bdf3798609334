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
    with pytest.raises(ArgumentError, match="drawn requires a mixture, got a target policy; leave it out"):
        plan.outlook(mdp, stage=1, state=0, drawn=1)
    mixed = bqrl.MixturePolicy([plan.policy, bqrl.MarkovPolicy(np.zeros((10, 1), int))], [0.5, 0.5])
    with pytest.raises(ArgumentError, match="drawn must be a whole number from 1 to 2, got 3"):
        bqrl.outlook(mdp, mixed, 0.1, stage=1, state=0, drawn=3)
    with pytest.raises(PolicyError, match="requires a policy whose memory follows from what was earned, got a label"):
        bqrl.outlook(mdp, solve(mdp, 0.1, planner="capped-frontier").policy, 0.1, stage=1, state=0)
    with pytest.raises(TypeError, match=r"wrap them in bqrl\.StochasticPolicy"):
        bqrl.outlook(mdp, np.full((10, 1, 2), 0.5), 0.1, stage=1, state=0)


def histories(mdp, policy, h):
    """Every history of a policy up to stage h as (probability, state, memory, earned)."""
    found = [(float(mdp.mu[s]), int(s), policy.start(), 0.0) for s in np.flatnonzero(mdp.mu)]
    for k in range(h):
        later = []
        for mass, s, memory, earned in found:
            a = policy.act(k, s, memory)
            for t, p, r in zip(*mdp.outcomes(k, s, a), strict=True):
                if p > 0:
                    memory_next = policy.next(memory, k, s, a, float(r), int(t))
                    later.append((mass * p, int(t), memory_next, earned + mdp.discount**k * r))
        found = later
    return found


@given(small_mdps(horizon=3), LEVELS, LEVELS, st.integers(0, 10**6))
@settings(max_examples=60)
def test_a_mixture_is_weighed_by_the_chance_that_each_policy_leads_here(mdp, tau, other, seed):
    rng = np.random.default_rng(seed)
    parts = [solve(mdp, tau).policy, solve(mdp, other, planner="expected").policy, solve(mdp, other, pairs=True).policy]
    mixed, h = bqrl.MixturePolicy(parts, [0.5, 0.25, 0.25]), int(rng.integers(mdp.H))
    every = [histories(mdp, part, h) for part in parts]
    _, s, _, earned = every[0][int(rng.integers(len(every[0])))]
    now = bqrl.outlook(mdp, mixed, tau, stage=h + 1, state=s, earned=earned)
    target = mixed_law(mdp, parts, [0.5, 0.25, 0.25]).quantile(tau)
    assert now.target == pytest.approx(target)
    mass, reached, played = 0.0, 0.0, {}
    for weight, part, some in zip(mixed.weights, parts, every, strict=True):
        here = [one for one in some if one[1] == s and abs(one[3] - earned) < 1e-9]
        for p, _, memory, _ in here:
            a = mdp.action_label(part.act(h, s, memory))
            played[a] = played.get(a, 0.0) + weight * p
            mass += weight * p
            reached += weight * p * (1.0 - own_shortfall(mdp, part, h, s, memory, (target - earned) / mdp.discount**h))
    assert now.chance == pytest.approx(reached / mass, abs=1e-9)
    assert now.actions == pytest.approx({name: p / mass for name, p in played.items()})
    assert now.chance <= now.best_chance + 1e-9
    drawn = bqrl.outlook(mdp, mixed, tau, stage=h + 1, state=s, earned=earned, drawn=2)
    assert list(drawn.actions) == [mdp.action_label(parts[1].act(h, s, None))]


def mixed_law(mdp, parts, weights):
    return bqrl.Law.mixture([bqrl.evaluate(mdp, part) for part in parts], weights)


def test_random_play_and_stochastic_policies_have_the_chance_of_their_draws():
    mdp = MDP(
        [(0, 0, 0, 1.0, 1.0), (0, 1, 0, 0.5, 0.0), (0, 1, 0, 0.5, 3.0)], horizon=2, action_names=["safe", "risky"]
    )
    policy = bqrl.StochasticPolicy([[[0.25, 0.75]]] * 2)
    now = bqrl.outlook(mdp, policy, 0.7, stage=2, state=0, earned=1.0)
    assert (now.target, now.actions) == (4.0, {"safe": 0.25, "risky": 0.75})
    assert (now.chance, now.best_chance) == pytest.approx((0.375, 0.5))
    assert now.action == "risky 75 %, safe 25 %"
    drawn = bqrl.outlook(mdp, "random", 0.7, stage=1, state=0)
    assert drawn.chance == pytest.approx(1.0 - bqrl.evaluate(mdp, "random").shortfall(drawn.target))
    assert "risky 50 %" in bqrl.outlook(mdp, "random", 0.7, stage=1, state=0)._repr_html_()


def test_a_situation_to_which_no_policy_of_a_mixture_leads_keeps_the_weights():
    mdp = MDP([(0, 0, 0, 1.0, 1.0), (0, 1, 0, 1.0, 2.0)], horizon=2, action_names=["one", "two"])
    mixed = bqrl.MixturePolicy([bqrl.MarkovPolicy([[0], [0]]), bqrl.MarkovPolicy([[1], [1]])], [0.25, 0.75])
    assert bqrl.outlook(mdp, mixed, 0.5, stage=2, state=0, earned=7.0).actions == {"one": 0.25, "two": 0.75}
    assert bqrl.outlook(mdp, mixed, 0.5, stage=2, state=0, earned=1.0).actions == {"one": 1.0}


def test_the_outlook_speaks_in_the_words_of_the_model():
    """Once a number alone stood where the action is, and a week was called a stage."""
    rows = [(0, 0, 0, 1.0, 1.0), (0, 1, 0, 0.5, 3.0), (0, 1, 0, 0.5, 0.0)]
    words = {"stage": "week", "run": "quarter", "action": "order", "state": "stock"}
    mdp = bqrl.MDP(rows, horizon=3, units="EUR", words=words)
    said = str(solve(mdp, 0.1).outlook(mdp, stage=2, state=0, earned=1.0))
    assert said.startswith("Week 2, stock 0, earned 1 EUR: order 0. The target 3 EUR is reached")
    assert said.endswith("From here 3 EUR can still be guaranteed in 9 of 10 quarters.")
