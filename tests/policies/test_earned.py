"""Policies that act on the amount earned so far: lookups, files and tables."""

import numpy as np
import pytest

import bqrl
from bqrl.policies.earned import Earned, EarnedPolicy


def test_an_amount_that_is_not_listed_is_treated_as_the_next_lower_one():
    stage = Earned(np.array([0, 2, 2]), np.array([1.0, 3.0]), np.array([1, 2]))
    policy = EarnedPolicy([stage], np.array([[0, 5]]), target=3.0, discount=1.0, slack=1e-9)
    assert [policy.act(0, 0, earned) for earned in (1.0, 2.9, 3.0 - 1e-10, 3.0, 9.0)] == [1, 1, 2, 2, 2]
    assert policy.act(0, 1, 1.0) == 5  # a state without listed amounts plays the fallback


def test_the_memory_is_what_was_earned_discounted_to_the_first_stage():
    rng = np.random.default_rng(0)
    mdp = bqrl.MDP(rng.dirichlet(np.ones(3), (3, 2)), rng.random((3, 2)), horizon=4, discount=0.5)
    policy = bqrl.solve(mdp, 0.2, pairs=True).policy
    assert policy.start() == 0.0
    assert policy.next(1.0, 2, 0, 0, reward=4.0, s_next=1) == 2.0


def test_a_policy_by_earned_amounts_acts_everywhere(tmp_path):
    mdp = bqrl.envs.make("SafeOrRisky")
    policy = bqrl.solve(mdp, 0.1, pairs=True).policy
    policy.save(tmp_path / "policy.npz")
    again = bqrl.load(tmp_path / "policy.npz")
    assert bqrl.evaluate(mdp, again).wasserstein(bqrl.evaluate(mdp, policy)) == 0.0
    for earned in (-1e9, -0.5, 0.25, 3.0, 1e9):
        assert 0 <= again.act(1, 0, earned) < mdp.A
    stage = policy.stages[2]
    amounts, s = stage.total, np.repeat(np.arange(mdp.S), np.diff(stage.start))
    assert np.array_equal(policy.act_many(2, s, amounts), stage.action)


def test_the_table_of_earned_amounts_can_be_followed():
    rng = np.random.default_rng(3)
    mdp = bqrl.MDP(rng.dirichlet(np.ones(3), (3, 2)), rng.random((3, 2)), horizon=4, discount=0.9)
    policy = bqrl.solve(mdp, 0.2).policy
    rows = policy.table(mdp)
    assert sum(row["probability"] for row in rows) == pytest.approx(mdp.H)
    for row in rows:
        assert row["need_from"] <= row["need_to"]
        s = int(row["state"])
        for earned in (row["earned_from"], row["earned_to"]):
            assert mdp.action_label(policy.act(row["stage"] - 1, s, earned)) == row["action"]
