"""The common part of PPO and TRPO: a softmax table per stage and state, a learned value table, generalized advantages.

    logits_h(s, a) = own_h(s, a) + sharing * ( state(s, a) + stage_h(a) ),   and the same for the values V_h(s).

These sums can represent any table per stage and state. Through the shared parts, data about a state at one stage (or about a
stage in one state) also inform the others until they have their own data. `sharing=0` gives plain tables: each pair is
visited too rarely in the first thousands of episodes for them to learn much.

After every `batch` episodes, V is fitted to the lambda-returns of the episodes, the advantages relative to V are scaled to
mean 0 and variance 1, and the policy is improved. Episodes are played with random actions from
the policy. The evaluated policy plays the most probable action (the lowest index in case of ties).

Deviation: the critic is fitted before the advantages are computed, so that a first visit does not reinforce the action
merely because it was played.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from bqrl.checks import number, whole
from bqrl.learners.protocol import Episode, Learner, Task
from bqrl.loops.actor_critic import EpisodeBatch, Listed, add_parts, advantages, fit_values, softmax_table
from bqrl.mdp.arrays import BoolArray, IntArray
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.stochastic import StochasticPolicy

MAX_BATCH = 1_000_000  # largest number of episodes in a batch, of epochs, of steps in a minibatch, of iterations


class ActorCritic(Learner):
    """A learner that improves a stochastic policy after each batch of episodes."""

    stored: ClassVar[tuple[str, ...]] = ("parts", "value_parts", "V", "states", "actions", "rewards", "filled")

    def __init__(
        self, task: Task, rng: np.random.Generator, batch: int, trace: float, value_rate: float, sharing: float,
        discount: float | None,
    ) -> None:  # fmt: skip
        super().__init__(task, rng)
        H, S, A = task.H, task.S, task.A
        self.batch = whole(batch, "batch", 1, most=MAX_BATCH)
        self.trace = number(trace, "trace", 0.0, 1.0)
        self.value_rate = number(value_rate, "value_rate", 0.0, 1.0, "(]")
        self.sharing = number(sharing, "sharing", 0.0)
        self.discount = task.update_discount(discount)
        self.available = task.available
        self.parts = np.zeros(H * S * A + S * A + H * A)
        self.value_parts = np.zeros(H * S + S + H)
        self.V = np.zeros((H, S))
        self.states = np.zeros((self.batch, H + 1), np.int64)
        self.actions = np.zeros((self.batch, H), np.int64)
        self.rewards = np.zeros((self.batch, H))
        self.filled = 0
        rows = np.flatnonzero(self.available.any(axis=2))
        self._everywhere = Listed(H=H, S=S, rows=rows, runs=np.zeros((0, 2), np.int64))
        self._exists = self.available.reshape(-1, A)[rows]
        self._update_policy()

    def _moving(self) -> BoolArray:
        """Return which parts move without being visited, as marks of the blocks of A parts that belong together."""
        return np.zeros(self.parts.size // self.task.A, bool)

    def _update_policy(self) -> None:
        """Compute the probabilities and both policies from the parts."""
        rows, shares = self._everywhere.rows, np.empty(self._exists.shape)
        add_parts(self.parts, self.sharing, self._everywhere, shares)
        softmax_table(shares, self._exists, shares)
        self.chances, actions = np.zeros(self.available.shape), np.zeros(self.V.shape, np.int64)
        self.chances.reshape(-1, self.task.A)[rows] = shares
        actions.reshape(-1)[rows] = shares.argmax(axis=1)
        self._behaviour = StochasticPolicy.unchecked(self.chances)
        self._policy = MarkovPolicy(actions)

    @abstractmethod
    def improve(self, batch: EpisodeBatch) -> None:
        """Improve the parts of the logits with a batch of episodes."""

    def plan(self) -> StochasticPolicy:
        """Return the stochastic policy."""
        return self._behaviour

    def evaluated(self) -> MarkovPolicy:
        """Return the policy that plays the most probable actions."""
        return self._policy

    def observe(self, episode: Episode) -> None:
        """Store the episode; when the batch is full, improve the policy and start a new batch."""
        i = self.filled
        self.states[i], self.actions[i], self.rewards[i] = episode.states, episode.actions, episode.rewards
        self.filled += 1
        if self.filled < self.batch:
            return
        self.filled = 0
        advantage, target = np.empty(self.rewards.shape), np.empty(self.rewards.shape)
        advantages(self.states, self.rewards, self.V, self.discount, self.trace, advantage, target)
        fit_values(self.value_parts, self.sharing, self.value_rate, self.states, target, self.V)
        advantages(self.states, self.rewards, self.V, self.discount, self.trace, advantage, target)
        spread = advantage.std()
        if spread > 0.0:
            scaled = (advantage - advantage.mean()) / spread
            H, S, A = self.available.shape
            visited, met = (np.arange(H) * S + self.states[:, :-1]).reshape(-1), np.zeros(H * S, bool)
            met[visited] = True
            rows, place = np.flatnonzero(met), np.cumsum(met)[visited] - 1
            self.improve(EpisodeBatch(
                listed=list_rows(rows, self._moving(), (H, S, A)), place=place, actions=self.actions.reshape(-1),
                advantage=scaled.reshape(-1), old=self.chances.reshape(-1, A)[rows],
                available=self.available.reshape(-1, A)[rows],
            ))  # fmt: skip
            self._update_policy()

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        super().restore(state)
        self._update_policy()


def list_rows(rows: IntArray, moving: BoolArray, shape: tuple[int, ...]) -> Listed:
    """Return the rows with the runs of their parts and of those marked in `moving`, where the marks of these rows are added."""
    H, S, A = shape
    moving[rows] = moving[H * S + rows % S] = moving[H * S + S + rows // S] = True
    marks = np.zeros(moving.size + 2, bool)
    marks[1:-1] = moving
    edges = np.flatnonzero(marks[1:] != marks[:-1])
    return Listed(H=H, S=S, rows=rows, runs=A * edges.reshape(-1, 2))
