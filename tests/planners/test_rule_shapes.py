"""Local searches among rules of one kind never increase the cost, and their rules are of this kind."""

import numpy as np
import pytest
from oracles import random_mdp

import bqrl
from bqrl.mdp.find_grid import returns_grid
from bqrl.planners.rule_passes import RulePasses
from bqrl.planners.rule_shapes import StageState, State, Threshold
from bqrl.policies.rule_table import read_order

RULES = ("stage-state", "state", "threshold")


def shape_of(rule, mdp):
    passes = RulePasses(mdp, returns_grid(mdp), None)
    states, actions, _ = read_order(mdp, None)
    return (
        {"stage-state": StageState, "state": State}[rule](passes)
        if rule != "threshold"
        else Threshold(passes, states, actions)
    )


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("polish", [False, True])
def test_a_search_never_increases_the_cost(rule, polish):
    rng = np.random.default_rng(7)
    for _ in range(25):
        mdp = random_mdp(rng)
        try:
            shape = shape_of(rule, mdp)
            start = shape.kick(np.zeros((mdp.H, mdp.S), np.int64), 1.0, rng)
        except ValueError:
            continue
        cost = rng.random(shape.passes.values.size)
        before = shape.passes.masses(start)[-1].sum(axis=0) @ cost
        found, masses = shape.descend(start, cost, polish=polish)
        law = bqrl.evaluate(mdp, found)
        assert masses[-1].sum(axis=0) @ cost <= before + 1e-12
        assert law.mean() == pytest.approx(shape.passes.mean(found, masses))
        np.testing.assert_allclose(law.cdf(shape.passes.values), np.cumsum(masses[-1].sum(axis=0)), atol=1e-12)
