"""Passes over rules: the predicted change of one action is the exact one, and products give what loops give."""

import numpy as np
import pytest
from oracles import random_mdp

import bqrl
from bqrl.mdp.find_grid import returns_grid
from bqrl.planners.rule_passes import RulePasses


def test_the_cost_of_one_changed_action_is_exact():
    rng = np.random.default_rng(2)
    for _ in range(20):
        mdp = random_mdp(rng)
        passes = RulePasses(mdp, returns_grid(mdp), None)
        rule = np.argmax(rng.random(passes.allowed.shape) * passes.allowed, axis=2)
        cost, masses, predicted = rng.random(passes.values.size), passes.masses(rule), {}

        def look(h, costs, means, met, after, rule=rule, predicted=predicted):
            predicted[h] = costs[0] - costs[0][np.arange(len(met)), rule[h]][:, None]
            return rule[h]

        assert np.array_equal(passes.improve(rule, masses, cost, look), rule)
        before = masses[-1].sum(axis=0) @ cost
        for h, s, a in np.argwhere(passes.allowed & mdp.reachable[:-1, :, None]):
            changed = rule.copy()
            changed[h, s] = a
            exact = passes.masses(changed)[-1].sum(axis=0) @ cost - before
            assert predicted[h][s, a] == pytest.approx(exact, abs=1e-12)


def test_dense_rows_give_the_same_rule_as_loops(monkeypatch):
    rng = np.random.default_rng(3)
    mdp = bqrl.MDP(rng.dirichlet(np.ones(30), (30, 3)), rng.integers(0, 4, (30, 3)).astype(float), horizon=5)
    fast = bqrl.solve(mdp, tau=0.2, rule="stage-state")
    monkeypatch.setattr("bqrl.planners.rule_passes.by_products", lambda *_: False)
    assert bqrl.solve(mdp, tau=0.2, rule="stage-state").value == fast.value
