import numpy as np
import pytest
from oracles import random_mdp

import bqrl
from bqrl.logs.limits import next_target, shares
from bqrl.mdp.find_grid import returns_grid
from bqrl.planners.sweep import ROBUST, sweep
from bqrl.planners.uncertain import half_radius


@pytest.mark.parametrize("seed", range(12))
def test_the_costs_of_all_rows_add_up_to_the_loss_through_the_balls(seed):
    rng = np.random.default_rng(seed)
    mdp = random_mdp(rng)
    radius = rng.random((mdp.H, mdp.S, mdp.A)) * 0.5
    columns = returns_grid(mdp)
    done = sweep(mdp, columns, half=half_radius(mdp, radius), sense=ROBUST)
    for column, target in enumerate(columns.points(0).tolist()):
        costs, met = shares(mdp, radius, target)
        assert met.max() <= 1 + 1e-12
        policy = bqrl.TargetPolicy(columns, done.actions, target)
        empirical = bqrl.evaluate(mdp, policy).shortfall(target)
        assert costs.sum() == pytest.approx(done.root[column] - empirical, abs=1e-12)
        assert costs.min() >= -1e-12
        assert not costs[np.broadcast_to(mdp.known, costs.shape)].any()


def test_the_next_target_is_the_lowest_one_that_is_not_promised():
    mdp = bqrl.MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=3)
    radius = np.full((3, 2, 1), 0.2)
    for tau in (0.1, 0.4, 0.7):  # at 0.7 the highest return is promised
        promised = bqrl.solve(mdp, tau, radius=radius, attitude="robust").value
        assert next_target(mdp, radius, tau) == min(promised + 1.0, 2.0)
