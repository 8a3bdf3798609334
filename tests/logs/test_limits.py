import numpy as np
import pytest
from oracles import random_mdp

import bqrl
from bqrl.logs import limits
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


def test_a_fine_grid_of_noisy_rewards_is_rounded_instead_of_taking_minutes(monkeypatch):
    rng = np.random.default_rng(1)
    rewards = np.round(rng.normal(0.0, 10.0, 400), 3)
    log = {"episode": np.repeat(range(200), 2), "state": ["s"] * 400, "action": ["a"] * 400, "reward": rewards}
    given = {"stationary": True, "reward_range": (-50, 50), "round_rewards": 0.1, "confidence": 0.5}
    exact = bqrl.fit(log, **given)
    assert exact.solve(0.5).exact
    monkeypatch.setattr(limits, "EXACT_WORK", 1e4)
    monkeypatch.setattr(limits, "ROUNDED_WORK", 1e4)
    coarse = bqrl.fit(log, **given)
    plan = coarse.solve(0.5)
    assert not plan.exact
    assert any("rounded down" in text for text in plan.remarks)
    assert exact.solve(0.5).value - 0.5 <= plan.value <= exact.solve(0.5).value
    assert coarse.promise_of("always:a", 0.5) <= exact.promise_of("always:a", 0.5)
    assert coarse.limits(0.5)


def test_a_grid_that_is_small_is_not_replaced_by_a_finer_one(monkeypatch):
    monkeypatch.setattr(limits, "EXACT_WORK", 0.0)
    assert limits.coarse_points(random_mdp(np.random.default_rng(0))) is None
