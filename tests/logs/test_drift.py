"""The test for actions that change along the log: its level, its power, and what follows from it."""

import numpy as np
import pytest
from logged_problems import coin, simulated

import bqrl
from bqrl.logs.fit import fit
from bqrl.planners.facts import Drift


def drift_of(kind, episodes, seed):
    mdp, log = simulated("machine", episodes, kind, seed)
    return fit(log, stationary=True, reward_range=(float(mdp.reward.min()), float(mdp.reward.max()))).drift


def test_a_log_of_one_policy_rarely_raises_an_alarm():
    assert sum(drift_of("fixed", 60, seed) is not None for seed in range(100)) <= 4  # 1 expected; above 4 has p < 0.004


def test_an_undeclared_adaptive_log_gives_no_promise_for_the_old_policy():
    """The old policy of an adaptive log had a promise unless the log was declared adaptive."""
    mdp, log = simulated("machine", 1000, "adaptive")
    bounds = {"stationary": True, "reward_range": (float(mdp.reward.min()), float(mdp.reward.max()))}
    found, declared, trusted = (fit(log, **bounds, adaptive=given) for given in (None, True, False))
    assert found.drift <= 0.01
    assert found.adaptive
    assert found.old_promise(0.1) == declared.old_promise(0.1) == -np.inf
    assert trusted.old_promise(0.1) > -np.inf
    assert found.balls.delta == trusted.balls.delta == declared.balls.delta / 2.0  # seeing the data earns nothing
    plan = found.solve(0.1)
    assert [note.p_value for note in plan.notes if isinstance(note, Drift)] == [found.drift]
    assert any("declare adaptive=False" in text for text in plan.remarks)
    assert not any(isinstance(note, Drift) for one in (declared, trusted) for note in one.solve(0.1).notes)


def test_the_p_value_is_exact_for_a_log_sorted_by_action():
    """Of the permutations of eight episodes only those that swap whole halves reach the statistic: 2 of 70."""
    log = coin(8, 4) | {"action": ["a"] * 4 + ["b"] * 4}
    assert fit(log, reward_range=(0, 1)).drift is None  # 2 / 70 is above the level
    longer = coin(40, 20) | {"action": ["a"] * 20 + ["b"] * 20}
    assert fit(longer, reward_range=(0, 1)).drift == pytest.approx(1 / 200)


def test_drift_is_saved_with_the_estimate(tmp_path):
    estimate = fit(coin(40, 20) | {"action": ["a"] * 20 + ["b"] * 20}, reward_range=(0, 1))
    bqrl.save(estimate, tmp_path / "estimate.npz")
    assert bqrl.load(tmp_path / "estimate.npz").drift == estimate.drift


def test_one_action_per_state_cannot_drift():
    assert fit(coin(100, 50), reward_range=(0, 1)).drift is None
