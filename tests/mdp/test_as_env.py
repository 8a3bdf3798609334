"""Models as Gymnasium environments."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st
from mdp_strategies import models

import bqrl
from bqrl import MDP
from bqrl.mdp.as_env import MDPEnv

MASKED = MDP([(0, 0, 1, 0.5, 1.0), (0, 0, 0, 0.5, 2.0), (1, 2, 0, 1.0, -3.0)], horizon=4)


def rollout(env, seed, episodes=3):
    """Everything that an environment tells in some episodes of actions that its space draws."""
    env.action_space.seed(seed)
    seen = []
    for episode in range(episodes):
        obs, info = env.reset(seed=seed if episode == 0 else None)
        seen.append((obs, info["stage"], info["action_mask"].tolist()))
        ended = False
        while not ended:
            action = env.action_space.sample(info["action_mask"])
            obs, reward, ended, truncated, info = env.step(action)
            seen.append((action, obs, reward, ended, truncated, info["stage"], info["action_mask"].tolist()))
    return seen


@settings(max_examples=30)
@given(models())
def test_any_model_passes_gymnasiums_own_checker(mdp):
    check_env(mdp.as_env())


def test_masked_and_rendered_models_pass_the_checker_too():
    check_env(MASKED.as_env())
    check_env(MASKED.as_env(render_mode="ansi"))


@given(models(), st.integers(0, 2**32 - 1))
def test_two_seeded_rollouts_are_identical(mdp, seed):
    assert rollout(mdp.as_env(), seed) == rollout(mdp.as_env(), seed)


@given(models())
def test_an_episode_lasts_exactly_h_steps_of_possible_outcomes(mdp):
    env = mdp.as_env()
    state, info = env.reset(seed=1)
    assert mdp.mu[state] > 0
    for h in range(mdp.H):
        assert info["stage"] == h
        assert info["action_mask"].dtype == np.int8
        assert info["action_mask"].tolist() == mdp.stage(h).available[state].tolist()
        action = env.action_space.sample()
        successors, probabilities, rewards = mdp.outcomes(h, state, int(action))
        after, reward, terminated, truncated, info = env.step(action)
        assert (after, reward) in set(
            zip(successors[probabilities > 0].tolist(), rewards[probabilities > 0].tolist(), strict=True)
        )
        assert terminated == (h == mdp.H - 1)
        assert not truncated
        state = int(after)
    assert info["stage"] == mdp.H
    assert not info["action_mask"].any()


def test_the_stream_of_chance_does_not_depend_on_the_policy():
    kernel = np.full((2, 2, 2), 0.5)
    kernel[0, 0] = [1.0, 0.0]  # a sure outcome draws its number, too
    env = MDP(kernel, np.zeros((2, 2)), horizon=20).as_env()
    states = []
    for action in (0, 1):
        env.reset(seed=3)
        states.append([int(env.step(action)[0]) for _ in range(20)])
        states[-1].append(env.np_random.random())
    assert states[0][-1] == states[1][-1]
    rng = np.random.default_rng(3)
    rng.random()  # the first state's
    assert states[1][:20] == [int(u >= 0.5) for u in rng.random(20)]


def test_outcomes_of_probability_zero_never_happen():
    kernel = np.array([[[0.0, 1.0, 0.0]]] * 3)
    env = MDP(kernel, np.zeros((3, 1)), horizon=50, support=np.ones((3, 1, 3), bool)).as_env()
    env.reset(seed=0)
    assert {int(env.step(0)[0]) for _ in range(50)} == {1}


def test_frequencies_match_the_law():
    mdp = MDP([(0, 0, 0, 0.2, 5.0), (0, 0, 0, 0.3, 1.0), (0, 0, 1, 0.5, 0.0), (1, 0, 0, 1.0, 0.0)], horizon=1, start=0)
    env = mdp.as_env()
    env.reset(seed=0)
    rewards = []
    for _ in range(4000):
        env.reset()
        rewards.append(env.step(0)[1])
    for reward, p in ((5.0, 0.2), (1.0, 0.3), (0.0, 0.5)):
        assert abs(rewards.count(reward) / 4000 - p) < 0.04  # five standard errors: a fair draw fails below 1e-5


def test_rewards_are_not_discounted():
    env = MDP(np.ones((1, 1, 1)), [[2.0]], horizon=3, discount=0.5).as_env()
    env.reset(seed=0)
    assert [env.step(0)[1] for _ in range(3)] == [2.0, 2.0, 2.0]


def test_render_tells_how_many_stages_were_played():
    mdp = MDP(
        [[[0.0, 1.0]], [[0.0, 1.0]]], [[0.5], [0.0]], horizon=2, state_names=["owned", "sold"], action_names=["sell"]
    )
    env = mdp.as_env(render_mode="ansi")
    assert env.render() == "not started"
    env.reset(seed=0)
    env.step(0)
    assert env.render() == "1 of 2 stages played, state sold (sell in owned paid 0.5)"
    assert mdp.as_env().render() is None


def test_vectorised_environments_play_it():
    envs = gym.vector.SyncVectorEnv([MASKED.as_env] * 3)
    envs.reset(seed=0)
    _, rewards, *_ = envs.step(np.zeros(3, np.int64))
    assert rewards.shape == (3,)


def test_a_model_behind_an_environment_can_be_read_back():
    assert MDPEnv(MASKED).unwrapped.mdp is MASKED


def test_a_log_of_an_environment_with_events_is_read_by_fit():
    """`info["event"]` is the event as the model names it, not its index in the law."""
    law = {"rain": 0.3, "dry": 0.7}
    mdp = bqrl.from_step(
        lambda s, a, e: (min(s + 1, 2), float(a) if e == "rain" else 2.0), [0, 1], law, horizon=4, start=0
    )
    env = mdp.as_env()
    log = {name: [] for name in ("episode", "state", "action", "reward", "next_state", "event")}
    for episode in range(30):
        s, _ = env.reset(seed=episode)
        for h in range(mdp.H):
            after, reward, _, _, info = env.step((episode + h) % 2)
            step = episode, mdp.state_label(s), mdp.action_label((episode + h) % 2), reward, mdp.state_label(after)
            for column, value in zip(log.values(), (*step, info["event"]), strict=True):
                column.append(value)
            s = after
    assert set(log["event"]) == {"rain", "dry"}
    _, probability, reward = bqrl.fit(log, model=mdp).mdp.outcomes(0, 0, 0)
    assert probability[reward == 0.0] == pytest.approx(log["event"].count("rain") / 120)


def test_a_step_without_a_law_has_no_event():
    mdp = bqrl.from_step(lambda s, a, e: (1, float(e) if s == 0 else 0.0), [0], {5: 0.5, 7: 0.5}, horizon=2, start=0)
    env = mdp.as_env()
    env.reset(seed=1)
    first, second = env.step(0)[4], env.step(0)[4]
    assert first["event"] in (5, 7)
    assert second["event"] is None
