"""Gymnasium: our models as environments, and toy-text environments as our models."""

import gymnasium as gym
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st
from mdp_strategies import models

from bqrl import MDP, from_gymnasium
from bqrl.mdp.gymnasium import MDPEnv

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


# -- a model as an environment -------------------------------------------------------------------------------------------


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


def test_render_tells_the_stage_in_words():
    mdp = MDP(
        [[[0.0, 1.0]], [[0.0, 1.0]]], [[0.5], [0.0]], horizon=2, state_names=["owned", "sold"], action_names=["sell"]
    )
    env = mdp.as_env(render_mode="ansi")
    env.reset(seed=0)
    env.step(0)
    assert env.render() == "stage 1 of 2, state sold (sell in owned paid 0.5)"
    assert mdp.as_env().render() is None


def test_vectorised_environments_play_it():
    envs = gym.vector.SyncVectorEnv([MASKED.as_env] * 3)
    envs.reset(seed=0)
    _, rewards, *_ = envs.step(np.zeros(3, np.int64))
    assert rewards.shape == (3,)


# -- a toy-text environment as a model -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "options", "states", "extra"),
    [
        ("FrozenLake-v1", {}, 16, 0),
        ("FrozenLake-v1", {"map_name": "8x8", "is_slippery": False}, 64, 0),
        ("CliffWalking-v1", {}, 48, 1),
        ("CliffWalking-v1", {"is_slippery": True}, 48, 1),
        ("Taxi-v4", {}, 500, 1),
        ("Taxi-v4", {"is_rainy": True}, 500, 1),
    ],
)
def test_toy_text_tables_become_models(name, options, states, extra):
    env = gym.make(name, **options)
    mdp = from_gymnasium(env, horizon=30)
    assert (mdp.H, mdp.S, mdp.A, mdp.stationary) == (30, states + extra, env.action_space.n, True)
    assert np.allclose(mdp.mu[:states], env.unwrapped.initial_state_distrib, rtol=0, atol=1e-15)
    assert mdp.available.all()
    if extra:
        assert mdp.state_names[-1] == "done"
        assert all(mdp.outcomes(0, states, a)[0].tolist() == [states] for a in range(mdp.A))
        assert not mdp.reward[0, -mdp.A :].any()
    for s, rows in env.unwrapped.P.items():  # the law of (reward, next state, ended) is that of the table
        for a, outcomes in rows.items():
            expected, got = {}, {}
            for p, s_next, r, ended in outcomes:
                where = states if ended and extra else s_next
                expected[where, float(r)] = expected.get((where, float(r)), 0.0) + p
            for s_next, p, r in zip(*mdp.outcomes(0, s, a), strict=True):
                got[int(s_next), float(r)] = got.get((int(s_next), float(r)), 0.0) + p
            assert got == pytest.approx({key: p for key, p in expected.items() if p > 0})


def test_an_episode_that_ended_never_pays_again():
    """CliffWalking's goal would pay -1 for every step after the end, and Taxi's last state 20 for dropping off twice."""
    cliff = from_gymnasium("CliffWalking-v1", horizon=20)
    path = [0] + [1] * 11 + [2] + [1] * 7
    state, total = cliff.start, 0.0
    for h, action in enumerate(path):
        (state,), _, (reward,) = cliff.outcomes(h, int(state), action)
        total += reward
    assert total == -13.0
    assert cliff.state_label(int(state)) == "done"
    taxi = from_gymnasium("Taxi-v4", horizon=2)
    paid = np.flatnonzero(taxi.reward[0] == 20)
    assert paid.size > 0
    assert (taxi.successor[paid] == 500).all()


def test_start_and_discount_may_be_given():
    mdp = from_gymnasium("FrozenLake-v1", horizon=5, start=3, discount=0.9)
    assert (mdp.start, mdp.discount) == (3, 0.9)
    spread = from_gymnasium("CliffWalking-v1", horizon=5, start=np.full(48, 1 / 48))
    assert spread.mu.shape == (49,)


def test_any_object_with_a_table_will_do():
    class Coin:
        P = {0: {0: [(0.5, 0, 1.0, False), (0.5, 1, 0.0, True)]}, 1: {0: []}}  # noqa: RUF012

    mdp = from_gymnasium(Coin(), horizon=3, start=0)
    assert mdp.S == 3  # state 1 has no row of its own, so its end is the extra state
    assert mdp.outcomes(0, 0, 0)[0].tolist() == [0, 2]
    with pytest.raises(ValueError, match=r"^Coin does not expose its first state; give start=$"):
        from_gymnasium(Coin(), horizon=3)


def test_a_model_behind_an_environment_can_be_read_back():
    assert MDPEnv(MASKED).unwrapped.mdp is MASKED
