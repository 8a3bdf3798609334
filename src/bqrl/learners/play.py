"""Where episodes are played: in a problem with a known kernel, or in any Gymnasium environment with discrete spaces."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from bqrl.kernels.episode import first_state, play_chances, play_table, step
from bqrl.learners.protocol import Episode, Randomised
from bqrl.learners.scoring import NeedTracker
from bqrl.mdp.find_grid import grid
from bqrl.mdp.forms import IntArray
from bqrl.mdp.grid import Lattice
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import MarkovPolicy, Policy, TargetPolicy


class World(Protocol):
    """Plays one episode of the given behaviour; `chance` is the learner's own stream, for behaviour that draws."""

    def play(self, behaviour: Policy | Randomised, chance: np.random.Generator) -> Episode:
        """One episode."""

    def memory(self) -> dict[str, Any]:
        """State of the world's own random stream."""

    def recall(self, memory: dict[str, Any]) -> None:
        """Continue the stream."""


class ModelWorld:
    """Episodes of an MDP. Each takes H + 1 uniforms from the world's stream, whatever the learner does."""

    def __init__(self, mdp: MDP, rng: np.random.Generator) -> None:
        self.mdp, self.rng = mdp, rng
        columns = grid(mdp)
        self._tracker = NeedTracker(mdp, columns) if isinstance(columns, Lattice) else None
        self._tables = (mdp.row_start, mdp.successor, mdp.probability, mdp.reward, mdp.mu, mdp.S, mdp.A)

    def play(self, behaviour: Policy | Randomised, chance: np.random.Generator) -> Episode:
        """One episode by inverse CDF."""
        mdp = self.mdp
        u = self.rng.random(mdp.H + 1)
        episode = Episode(np.empty(mdp.H + 1, np.int64), np.empty(mdp.H, np.int64), np.empty(mdp.H))
        if isinstance(behaviour, Randomised):
            play_chances(*self._tables, behaviour.probabilities, u, chance.random(mdp.H), *episode)
        elif isinstance(behaviour, MarkovPolicy):
            play_table(*self._tables, behaviour.actions, u, *episode)
        elif isinstance(behaviour, TargetPolicy) and self._tracker is not None and self._tracker.fits(behaviour):
            self._tracker.play(behaviour, u, episode)
        else:
            self._follow(behaviour, u, episode, chance)
        return episode

    def _follow(self, policy: Policy, u: np.ndarray, episode: Episode, chance: np.random.Generator) -> None:
        mdp = self.mdp
        s = int(first_state(mdp.mu, u[0]))
        memory = policy.start(float(chance.random()) if policy.kind == "mixture" else None)
        episode.states[0] = s
        for h in range(mdp.H):
            a = policy.act(h, s, memory)
            step(*self._tables[:4], mdp.S, mdp.A, h, a, u, *episode)
            after = int(episode.states[h + 1])
            memory = policy.next(memory, h, s, a, float(episode.rewards[h]), after)
            s = after

    def memory(self) -> dict[str, Any]:
        """State of the stream."""
        return dict(self.rng.bit_generator.state)

    def recall(self, memory: dict[str, Any]) -> None:
        """Continue the stream."""
        self.rng.bit_generator.state = memory


class GymWorld:
    """Episodes of a Gymnasium environment with discrete observations and actions, cut or filled up to H stages.

    `ends[s]` is the state in which an episode that ended in observation s stays, with reward 0, for the stages that are
    left, so that every learner sees H stages. Each reset is seeded from the world's stream: an episode's chance
    depends on its number alone, not on what was played before it.
    """

    def __init__(self, env: Any, H: int, rng: np.random.Generator, ends: IntArray) -> None:
        self.env, self.H, self.rng, self.ends = env, H, rng, ends
        self._first_state, self._first_action = int(env.observation_space.start), int(env.action_space.start)

    def play(self, behaviour: Policy | Randomised, chance: np.random.Generator) -> Episode:
        """One episode by stepping the environment."""
        found, _ = self.env.reset(seed=int(self.rng.integers(2**31)))
        s = int(found) - self._first_state
        episode = Episode(np.empty(self.H + 1, np.int64), np.empty(self.H, np.int64), np.zeros(self.H))
        episode.states[0] = s
        over = False
        memory = None
        if isinstance(behaviour, Policy):
            memory = behaviour.start(float(chance.random()) if behaviour.kind == "mixture" else None)
        for h in range(self.H):
            if isinstance(behaviour, Randomised):
                a = int(first_state(behaviour.probabilities[h, s], chance.random()))
            else:
                a = behaviour.act(h, s, memory)
            r, after = 0.0, s
            if not over:
                found, reward, terminated, truncated, _ = self.env.step(a + self._first_action)
                r, after, over = float(reward), int(found) - self._first_state, bool(terminated or truncated)
                # What the time limit cuts off after the last stage has not ended.
                if over and (terminated or h + 1 < self.H):
                    after = int(self.ends[after])
            if isinstance(behaviour, Policy):
                memory = behaviour.next(memory, h, s, a, r, after)
            episode.actions[h], episode.rewards[h], episode.states[h + 1] = a, r, after
            s = after
        return episode

    def memory(self) -> dict[str, Any]:
        """State of the stream; the environment itself starts afresh with each episode."""
        return dict(self.rng.bit_generator.state)

    def recall(self, memory: dict[str, Any]) -> None:
        """Continue the stream."""
        self.rng.bit_generator.state = memory
