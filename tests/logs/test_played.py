import gymnasium as gym
import numpy as np
import pytest

import bqrl
from bqrl.errors import ArgumentError
from bqrl.logs.played import is_environment, play_log


def test_the_estimate_of_a_played_environment_contains_its_table():
    """The true rows lie in the balls of the estimate; with confidence 0.95 this seed is no exception."""
    env = gym.make("FrozenLake-v1", desc=["SF", "FG"])
    estimate = bqrl.fit(env, episodes=300, horizon=6, seed=1, stationary=True)
    table, mdp = bqrl.from_gymnasium(env, horizon=6), estimate.mdp
    assert estimate.episodes == 300
    names = list(mdp.state_names)
    for s in range(3):
        for a in range(4):
            truth, found = np.zeros(mdp.S), np.zeros(mdp.S)
            after, p, _ = table.outcomes(0, s, a)
            for s_next, q in zip(after, p, strict=True):
                truth[names.index("(end)") if s_next == 3 else names.index(str(s_next))] += q
            row = mdp.outcomes(0, names.index(str(s)), list(mdp.action_names).index(str(a)))
            np.add.at(found, row[0], row[1])
            assert np.abs(truth - found).sum() < 0.5
    plan = estimate.solve(tau=0.9)
    sample = bqrl.simulate(env, plan.policy, 300, seed=2, states=mdp)
    assert plan.value <= sample.interval(0.9)[1]


def test_the_same_seed_plays_the_same_log():
    one, other = (play_log("Blackjack-v1", 50, None, 20, 3, None) for _ in range(2))
    assert one == other
    log, H = one
    assert H == 20
    assert set(log["end"]) == {"", "terminal"}
    assert set(log["action"]) == {"0", "1"}
    sticks, _ = play_log("Blackjack-v1", 50, lambda hand: 0, 20, 3, None)
    assert set(sticks["action"]) == {"0"}
    assert len(sticks["state"]) == 50


def test_a_time_limit_cuts_episodes_off():
    log, _ = play_log(gym.make("FrozenLake-v1", max_episode_steps=3, is_slippery=False), 5, lambda s: 0, 6, 1, None)
    assert log["end"] == ["", "", "truncated"] * 5
    log, _ = play_log("FrozenLake-v1", 4, lambda s: 0, 3, 1, None)
    assert log["end"] == ["", "", "truncated"] * 4
    assert play_log("CartPole-v1", 2, None, 4, 1, [[0.0]] * 4)[0]["state"][0].count(",") == 3


def test_the_range_of_the_rewards_is_an_assumption():
    estimate = bqrl.fit("Blackjack-v1", horizon=20, episodes=50, seed=1)
    assert "rewards lie between -1 and 1" in estimate.assumptions
    wide = bqrl.fit("Blackjack-v1", horizon=20, episodes=50, seed=1, reward_range=(-5, 5))
    assert "rewards lie between -5 and 5" in wide.assumptions


def test_only_environments_are_played():
    assert is_environment("Blackjack-v1")
    assert not is_environment("log.csv")
    log = {"episode": [0, 1], "state": [0, 0], "action": [0, 0], "reward": [1.0, 1.0]}
    with pytest.raises(
        ArgumentError, match="episodes must be left out unless episodes of an environment are played, got 9"
    ):
        bqrl.fit(log, reward_range=(0, 1), episodes=9)
    with pytest.raises(
        ArgumentError, match=r"horizon must be given for BlackjackEnv, .* limit, got None; pass e\.g\. horizon=100"
    ):
        bqrl.fit("Blackjack-v1", episodes=9)
