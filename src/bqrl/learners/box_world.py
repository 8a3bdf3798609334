"""Episodes of a Gymnasium environment whose observations are arrays of numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium.vector import VectorEnv

from bqrl.learners.play import GymWorld
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.stepping import Stepper, one_space
from bqrl.policies.protocol import Policy, action_index, as_decisions, is_vector
from bqrl.policies.shares import drawn_action

ENDED = -1  # in place of an action after the end of an episode


class BoxEpisode(NamedTuple):
    """One episode with rows of numbers as observations; after its end the last one is repeated with the action ENDED."""

    states: FloatArray  # (H + 1, features)
    actions: IntArray  # (H,)
    rewards: FloatArray  # (H,)
    masks: BoolArray  # (H + 1, A) allowed actions; empty if the environment does not restrict them


class BoxWorld(GymWorld):
    """Episodes of an environment with Box observations, Discrete actions and at most H steps.

    Episodes of a vector environment are played side by side, one per copy. An environment may restrict its actions by
    info["action_mask"]. Behaviour policies take observations in place of states, and the mask as an additional argument.
    """

    def __init__(self, env: Any, H: int, rng: np.random.Generator) -> None:
        actions: Any = one_space(env, "action_space")
        self.env, self.H, self.rng, self.A, self.table = env, H, rng, int(actions.n), None
        self.steps, self._first_action = Stepper(env), int(actions.start)

    def play_many(self, behaviour: Policy, n: int, chance: np.random.Generator) -> Any:
        """Play several episodes, as many at once as there are copies of the environment."""
        if not isinstance(self.env, VectorEnv):
            return super().play_many(behaviour, n, chance)
        actor: Any = behaviour
        found: list[BoxEpisode] = []
        while len(found) < n:
            found += self._play_copies(actor, min(n - len(found), self.env.num_envs))
        return found

    def _play_copies(self, actor: Any, n: int) -> list[BoxEpisode]:
        """Play one episode in each of the first n copies; what a copy does after its episode is ignored."""
        env, H = self.env, self.H
        observation, info = env.reset(seed=int(self.rng.integers(2**31)))
        seen = self._rows(observation, 0)
        states, actions = np.repeat(seen[:n, None], H + 1, axis=1), np.full((n, H), ENDED)
        rewards, masks, masked = np.zeros((n, H)), np.ones((n, H + 1, self.A), bool), "action_mask" in info
        memory, playing = actor.start_many(np.zeros(n)), np.ones(n, bool)
        for h in range(H):
            a = np.zeros(env.num_envs, np.int64)
            if masked:
                allowed = np.asarray(info["action_mask"], bool)
                masks[playing, h], a = allowed[:n][playing], allowed.argmax(axis=1)
            chosen = actor.act_many(h, seen[:n], memory, masks[:, h] if masked else None)
            a[:n][playing] = chosen[playing]
            observation, reward, ended, cut, info = env.step(a + self._first_action)
            reward, ended, cut = (np.asarray(part)[:n] for part in (reward, ended, cut))
            if np.any(playing & cut & ~ended.astype(bool)) and h + 1 < H:
                raise self._cut_error(h + 1)
            after = self._rows(observation, h + 1)
            if not np.all(np.isfinite(reward[playing])):
                raise self.steps.error(h + 1, "finite rewards", reward)
            actions[playing, h], rewards[playing, h] = a[:n][playing], reward[playing]
            states[playing, h + 1 :] = after[:n][playing][:, None]
            memory = actor.next_many(memory, h, seen[:n], a[:n], rewards[:, h], after[:n])
            playing &= ~ended.astype(bool)
            if not playing.any():
                break
            seen = after
        self.steps.episode += n
        masks = masks if masked else np.zeros((n, 0, 0), bool)
        return [BoxEpisode(*parts) for parts in zip(states, actions, rewards, masks, strict=True)]

    def _rows(self, observations: Any, step_number: int) -> FloatArray:
        """Return the observations of all copies as rows of finite numbers, or raise EpisodeError."""
        rows = np.asarray(observations, np.float64).reshape(self.env.num_envs, -1)
        if not np.all(np.isfinite(rows)):
            raise self.steps.error(step_number, "observations of finite numbers", observations)
        return rows

    def play(self, behaviour: Policy, chance: np.random.Generator) -> Any:
        """Play one episode by stepping the environment; return a BoxEpisode."""
        actor: Any = behaviour  # it acts on rows of numbers and takes a mask
        seen = self._observation(self.steps.reset(seed=int(self.rng.integers(2**31))), 0)
        mask = self.steps.mask(0)
        states, actions = np.empty((self.H + 1, seen.size)), np.full(self.H, ENDED)
        rewards, masks = np.zeros(self.H), np.ones((self.H + 1, self.A), bool)
        states[0], masked = seen, mask is not None
        memory, over, h = actor.start(), False, 0
        while h < self.H and not over:
            masks[h] = True if mask is None else mask
            answer = actor.act(h, seen, memory, mask)
            if is_vector(answer):
                answer = drawn_action(as_decisions([answer], h, [seen], self.A)[0], float(chance.random()), h, mask)
            a = action_index(answer, h, None)
            observation, reward, over, cut = self.steps.step(a + self._first_action, h + 1)
            if cut and not over and h + 1 < self.H:
                raise self._cut_error(h + 1)
            actions[h], rewards[h] = a, reward
            after, mask = self._observation(observation, h + 1), self.steps.mask(h + 1)
            memory = actor.next(memory, h, seen, a, reward, after)
            h, seen = h + 1, after
            states[h] = seen
        states[h:] = seen
        masks[h] = True if mask is None else mask
        self.steps.episode += 1
        return BoxEpisode(states, actions, rewards, masks if masked else np.zeros((0, 0), bool))

    def _observation(self, observation: Any, step_number: int) -> FloatArray:
        """Return the observation as a row of finite numbers, or raise EpisodeError."""
        found = np.asarray(observation)
        if found.shape != self.env.observation_space.shape or found.dtype.kind not in "fiub":
            raise self.steps.error(
                step_number, f"an observation of shape {self.env.observation_space.shape}", observation
            )
        row = found.reshape(-1).astype(np.float64)
        if not np.all(np.isfinite(row)):
            raise self.steps.error(step_number, "an observation of finite numbers", observation)
        return row
