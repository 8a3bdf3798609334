"""Logs that are played: episodes of a Gymnasium environment as columns that `fit` reads."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import registry

from bqrl.checks import random_seed, whole
from bqrl.mdp.from_gymnasium import chosen_horizon
from bqrl.mdp.observations import Observations
from bqrl.mdp.stepping import Stepper, make_environment
from bqrl.policies.in_env import RANDOM, play_steps, player_of

EPISODES = 10_000


def is_environment(log: Any) -> bool:
    """Return whether a log is to be played: an environment, or the id of one."""
    return log in registry if isinstance(log, str) else isinstance(log, gym.Env)


def play_log(
    env: Any, episodes: int | None, policy: Any, horizon: int | None, seed: int | None, bins: Any
) -> tuple[dict[str, Any], int]:
    """Return the steps of episodes as columns, and the number of stages; `fit` explains the arguments.

    >>> log, H = play_log("FrozenLake-v1", 5, None, 20, 1, None)
    >>> sorted(log), log["state"][0], H
    (['action', 'end', 'episode', 'next_state', 'reward', 'state'], '0', 20)
    """
    env = make_environment(env, "log")
    core = type(env.unwrapped).__name__
    H, observations = chosen_horizon(env, horizon, core), Observations(env.observation_space, bins, core)
    steps = Stepper(env)
    player = player_of(env, RANDOM if policy is None else policy)
    number, T = random_seed(seed), EPISODES if episodes is None else whole(episodes, "episodes", 2)
    log: dict[str, list[Any]] = {name: [] for name in ("episode", "state", "action", "reward", "next_state", "end")}

    def label(observation: Any, at: int) -> str:
        digits = observations.digits(observation)
        if digits is None:
            raise steps.error(at, observations.rule, observation)
        return observations.name(digits)

    for episode in range(T):
        for h, step in enumerate(play_steps(steps, player, number, episode, H)):
            last = "terminal" if step.ended else "truncated" if step.cut else ""
            action = int(step.action) if np.ndim(step.action) == 0 else tuple(np.ravel(step.action).tolist())
            row = episode, label(step.observation, h), str(action), step.reward, label(step.after, h + 1), last
            for column, cell in zip(log.values(), row, strict=True):
                column.append(cell)
    return log, H
