"""Models as Gymnasium environments, and models by the name of their environment."""

from __future__ import annotations

import operator
from typing import Any, SupportsFloat

import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import EnvSpec, load_env_creator, registry
from gymnasium.spaces import Discrete
from numpy.typing import NDArray

from bqrl.checks import bad_type, bad_value, nearest, one_line
from bqrl.errors import ArgumentError
from bqrl.loops.draws import draw
from bqrl.mdp import model

GYMNASIUM = "build it with bqrl.from_gymnasium if it has a transition table, else score the policy with bqrl.simulate"


class AvailableActions(Discrete):
    """The space Discrete(A); without a mask, sample() draws among the actions available in the current state.

    Seeding starts a new rollout: until the next reset, sample() draws among the actions of the first stage.
    """

    def __init__(self, first: NDArray[np.int8]) -> None:
        super().__init__(first.size)
        self.first = self.mask = first

    def seed(self, seed: int | None = None) -> Any:
        """Seed the draws."""
        self.mask = self.first
        return super().seed(seed)

    def sample(self, mask: Any = None, probability: Any = None) -> np.int64:
        """Return a random action; see Discrete.sample for `mask` and `probability`."""
        if probability is not None:
            return super().sample(mask, probability)
        return super().sample(self.mask if mask is None else mask)


class MDPEnv(gym.Env[np.int64, np.int64]):
    """An environment that plays `mdp`: observations are states, and an episode lasts exactly H steps.

    The last step returns terminated=True: the horizon is part of the problem, not a time limit. Rewards are those of the
    model, undiscounted: the return that planners optimise is the sum of discount**h times the reward of stage h. `info`
    holds the `stage`, the `action_mask` and, in models whose noise is shared and observed, the `event` that the step drew,
    as `fit` reads it from a log: its label in `mdp.noise.events`, None where no law drives the row. An action that does not
    exist raises ValueError. Every reset and every step draws one uniform number, whatever the policy does, so episodes with
    the same seed share their random numbers.
    """

    metadata = {"render_modes": ["ansi"], "render_fps": 4}  # noqa: RUF012  (the name is Gymnasium's)

    def __init__(self, mdp: model.MDP, render_mode: str | None = None) -> None:
        if not isinstance(mdp, model.MDP):
            raise bad_type("mdp", mdp, "be an MDP", type(mdp).__name__)
        if render_mode not in (None, "ansi"):
            raise bad_value("render_mode", render_mode, "be 'ansi' or None")
        self.mdp = mdp
        self.render_mode = render_mode
        self.observation_space = Discrete(mdp.S)
        firsts = mdp.stage(0).available[mdp.mu > 0]
        common = firsts.all(axis=0) if firsts.all(axis=0).any() else firsts.any(axis=0)
        self.action_space = self._actions = AvailableActions(np.array(common, dtype=np.int8))
        # Gymnasium's checker rebuilds an environment from its spec; gym.make replaces this one.
        self.spec = EnvSpec("bqrl/MDP-v0", entry_point="bqrl.mdp.as_env:MDPEnv", kwargs={"mdp": mdp})
        self._state, self._stage, self._played = -1, mdp.H, "not started"

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Return the first state, drawn from the model's start, and the info."""
        super().reset(seed=seed)
        self._state, self._stage = draw(self.mdp.mu.tolist(), 0, self.mdp.S, self.np_random.random()), 0
        self._played = "started"
        return np.int64(self._state), self._info()

    def step(self, action: np.int64) -> tuple[np.int64, SupportsFloat, bool, bool, dict[str, Any]]:
        """Return the next state, the reward, whether this was the last stage, False, and the info."""
        mdp, h, s = self.mdp, self._stage, self._state
        if h >= mdp.H:
            message = "expected a running episode, got an action before reset or after the end; call reset first"
            raise ArgumentError(message, name="action", value=action)
        try:
            a = operator.index(action)
        except TypeError:
            raise bad_type("action", action, "be a whole number", type(action).__name__) from None
        if not 0 <= a < mdp.A:
            raise bad_value("action", a, f"be from 0 to {mdp.A - 1}")
        successors, probabilities, rewards = mdp.outcomes(h, s, a)
        if successors.size == 0:
            rule = f"be available in state {mdp.state_label(s)} at stage {h + 1}"
            raise bad_value("action", a, rule, mdp.action_label(a), remedy="see info['action_mask']")
        u, event, noise = self.np_random.random(), -1, mdp.noise
        if noise is not None and noise.known:
            event, i = noise.draw(noise.row(h, s, a), probabilities, u)
        else:
            i = draw(probabilities.tolist(), 0, probabilities.size, u)
        self._state, self._stage = int(successors[i]), h + 1
        reward = float(rewards[i])
        self._played = f"{mdp.action_label(a)} in {mdp.state_label(s)} paid {reward:g}"
        info = self._info()
        if noise is not None and noise.known and noise.events_observed:
            law = noise.row_law.reshape(-1)[noise.row(h, s, a)]
            info["event"] = None if event < 0 else noise.events[law][event]
        return np.int64(self._state), reward, self._stage == mdp.H, False, info

    def render(self) -> str | None:
        """Return one line about the progress of the episode in the mode `ansi`; None without a mode."""
        if self.render_mode is None:
            return None
        if self._state < 0:
            return self._played
        return (
            f"{self._stage} of {self.mdp.H} stages played, state {self.mdp.state_label(self._state)} ({self._played})"
        )

    def _info(self) -> dict[str, Any]:
        mask = self._mask(self._stage, self._state)
        self._actions.mask = mask
        return {"stage": self._stage, "action_mask": mask.copy()}

    def _mask(self, h: int, s: int) -> NDArray[np.int8]:
        if h == self.mdp.H:
            return np.zeros(self.mdp.A, np.int8)
        return self.mdp.available[0 if self.mdp.stationary else h, s].astype(np.int8)


def named_model(given: str, name: str) -> model.MDP:
    """Return the model of the registered environment "bqrl/GIVEN-v0"; `name` is the argument that holds the name."""
    problems = {key.removeprefix("bqrl/").removesuffix("-v0"): spec for key, spec in registry.items() if "bqrl/" in key}
    short = given.removeprefix("bqrl/").removesuffix("-v0")
    spec = problems.get(short)
    if spec is None:
        remedy = "read a file with bqrl.load" if "." in given else ""
        remedy = GYMNASIUM if given in registry else remedy
        got = one_line(given) + ("" if remedy else nearest(short, problems))
        raise bad_value(name, given, "be an MDP or the name of a problem", got, remedy=remedy)
    env: Any = load_env_creator(str(spec.entry_point))(**spec.kwargs)
    return env.mdp
