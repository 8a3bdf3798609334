"""Steps of a Gymnasium environment, each result checked: every fault is an EpisodeError that names the episode and the step."""

from __future__ import annotations

import math
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete

from bqrl.checks import bad_type, bad_value, one_line
from bqrl.errors import EpisodeError
from bqrl.mdp.arrays import BoolArray


class Stepper:
    """An environment whose results are checked; `episode` counts the episodes that were played, `info` is the last one returned.

    Examples
    --------
    >>> steps = Stepper(gym.make("FrozenLake-v1", is_slippery=False))
    >>> steps.reset(seed=1), steps.step(1, 1)[1:]
    (0, (0.0, False, False))
    """

    def __init__(self, env: Any) -> None:
        self.env, self.episode = env, 0
        self.info: Any = None
        self._total = 0.0

    def reset(self, seed: int) -> Any:
        """Return the first observation of an episode."""
        self._total = 0.0
        observation, self.info = self._parts(self.env.reset(seed=seed), "observation, info", 0)
        return observation

    def step(self, action: Any, number: int) -> tuple[Any, float, bool, bool]:
        """Return observation, reward, terminated and truncated of step `number`, counted from 1."""
        names = "observation, reward, terminated, truncated, info"
        observation, reward, terminated, truncated, self.info = self._parts(self.env.step(action), names, number)
        r = self._reward(reward, number)
        self._total += r
        if not math.isfinite(self._total):
            raise self.error(number, "rewards with a finite sum", reward)
        return observation, r, self._flag(terminated, number), self._flag(truncated, number)

    def mask(self, step_number: int) -> BoolArray | None:
        """Return which Discrete actions info["action_mask"] allows now; None if the environment does not restrict them."""
        space = self.env.action_space
        if not isinstance(self.info, dict) or "action_mask" not in self.info or not isinstance(space, Discrete):
            return None
        mask, A = np.asarray(self.info["action_mask"]), int(space.n)
        if mask.shape != (A,) or mask.dtype.kind not in "biu" or not mask.any():
            raise self.error(step_number, f"an action_mask that allows at least one of {A} actions", mask)
        return mask.astype(bool)

    def error(self, step_number: int, rule: str, got: Any, remedy: str = "") -> EpisodeError:
        """Return the error for an invalid result of the environment."""
        message = f"episode {self.episode}, step {step_number}: expected {rule}, got {one_line(got)}{remedy}"
        return EpisodeError(message, episode=self.episode, step=step_number, value=got)

    def _parts(self, returned: Any, names: str, step_number: int) -> tuple[Any, ...]:
        """Return the result of reset or step if it is a tuple of the right length; raise EpisodeError otherwise."""
        if not isinstance(returned, tuple) or len(returned) != len(names.split(",")):
            remedy = "; wrap environments of other interfaces"
            raise self.error(step_number, f"the tuple ({names}) as in Gymnasium", returned, remedy)
        return returned

    def _reward(self, reward: Any, step_number: int) -> float:
        """Return the reward as a float, or raise EpisodeError."""
        try:
            found = math.nan if isinstance(reward, (str, bytes)) else float(reward)
        except (TypeError, ValueError, OverflowError):
            found = math.nan
        if not math.isfinite(found):
            raise self.error(step_number, "a finite reward", reward)
        return found

    def _flag(self, value: Any, step_number: int) -> bool:
        """Return `terminated` or `truncated` as True or False, or raise EpisodeError."""
        try:
            return bool(value)
        except (TypeError, ValueError):  # an array with several entries
            raise self.error(step_number, "terminated and truncated as True or False", value) from None


def make_environment(env: Any, name: str, rule: str = "be a known environment", remedy: str = "") -> Any:
    """Return a Gymnasium environment, made from its id if `env` is a string; errors call the argument `name`."""
    if isinstance(env, str):
        try:
            return gym.make(env)
        except gym.error.Error as error:
            got = f"{one_line(env)} ({' '.join(str(error).split())})"
            raise bad_value(name, env, rule, got, remedy=remedy) from None
    if not isinstance(env, gym.Env):
        raise bad_type(name, env, "be an MDP or a Gymnasium environment", type(env).__name__)
    return env


def one_space(env: Any, name: str) -> gym.Space[Any]:
    """Return the space of this name, of a vector environment that of one copy."""
    return getattr(env, f"single_{name}" if isinstance(env, gym.vector.VectorEnv) else name)
