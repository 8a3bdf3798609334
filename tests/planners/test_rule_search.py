"""The search among rules: it keeps what it is given, prefers small shortfalls, then large means, and ends."""

import numpy as np

import bqrl


def test_a_rule_of_the_caller_is_never_made_worse():
    mdp = bqrl.envs.make("Inventory")
    today = bqrl.solve(mdp, tau=0.1, rule="stage-state").policy
    plan = bqrl.solve(mdp, tau=0.1, rule="stage-state", starts={"today": today, "none": "always:order 0"})
    assert plan.value >= bqrl.evaluate(mdp, today).quantile(0.1)
    assert bqrl.solve(mdp, tau=0.1, rule="state", starts=[[0] * mdp.S, bqrl.solve(mdp, bqrl.Mean())]).value >= 59


def test_tick_counts_down_and_passes_are_bounded():
    left = []
    bqrl.solve("Inventory", tau=0.1, rule="stage-state", tick=left.append)
    assert 15 < len(left) < 5_000
    assert left[-1] >= 0


def test_among_equal_quantiles_the_smaller_shortfall_then_the_larger_mean_wins():
    safe, risky = [(0, 0, 0, 0.95, 1.0), (0, 0, 0, 0.05, 0.0)], [(0, 1, 0, 0.92, 1.0), (0, 1, 0, 0.08, 0.0)]
    plan = bqrl.solve(bqrl.MDP([*risky, *safe], horizon=1), tau=0.1, rule="stage-state")
    assert (plan.value, plan.policy.actions.tolist()) == (1.0, [[0]])
    more = [(0, 2, 0, 0.95, 1.0), (0, 2, 0, 0.03, 0.0), (0, 2, 0, 0.02, 0.5)]
    plan = bqrl.solve(bqrl.MDP([*risky, *safe, *more], horizon=1), tau=0.1, rule="stage-state")
    assert plan.policy.actions.tolist() == [[2]]


def test_free_choices_do_not_change_between_stages():
    steps = [(0, a, 0, p, r) for a in (0, 1) for p, r in ((0.5, 0.0), (0.5, 1.0))]  # two equal actions
    plan = bqrl.solve(bqrl.MDP(steps, horizon=6), tau=0.3, rule="stage-state", starts=[np.arange(6)[:, None] % 2])
    assert len(np.unique(plan.policy.actions)) == 1
