"""What PPO and TRPO share: a softmax table per stage and state, a learned value table, generalized advantages.

    logits_h(s, a) = own_h(s, a) + sharing * ( state(s, a) + stage_h(a) ),   and the same for the values V_h(s):

any table per stage and state can be represented, and what one stage teaches about a state (or one state about a stage)
serves the others until they have data of their own. `sharing=0` leaves plain tables, which visit each pair too rarely in the
first thousands of episodes to learn much.

After every `batch` episodes, V is fitted to the lambda-returns of the episodes, the advantages relative to V are scaled to
mean 0 and variance 1, and the policy is improved. The policy plays by its probabilities. The evaluated policy plays the most
probable action (the lowest index if several are equal).

Deviation: the critic is fitted before the advantages are computed, so that a first visit does not reinforce the action
merely because it was played.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np

from bqrl.checks import number, whole
from bqrl.learners.actor_critic_loops import Batch, add_parts, advantages, fit_values, softmax_table
from bqrl.learners.protocol import Episode, Learner, Task
from bqrl.mdp.policy import MarkovPolicy, StochasticPolicy

MAX_BATCH = 1_000_000  # episodes of a batch; also epochs, steps of a minibatch and iterations


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
        self._update_policy()

    def _update_policy(self) -> None:
        logits = np.empty(self.available.shape)
        self.chances = np.empty(self.available.shape)
        add_parts(self.parts, self.sharing, logits)
        softmax_table(logits, self.available, self.chances)
        self._behaviour = StochasticPolicy.unchecked(self.chances)
        self._policy = MarkovPolicy(self.chances.argmax(axis=2))

    @abstractmethod
    def improve(self, batch: Batch) -> None:
        """Improve the parts of the logits with a batch of episodes."""

    def plan(self) -> StochasticPolicy:
        """Return the policy's probabilities."""
        return self._behaviour

    def evaluated(self) -> MarkovPolicy:
        """Return the most probable actions."""
        return self._policy

    def observe(self, episode: Episode) -> None:
        """Store the episode; a full batch improves the policy and is discarded."""
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
            self.improve(
                Batch(
                    states=self.states,
                    actions=self.actions,
                    advantage=scaled,
                    old=self.chances,
                    available=self.available,
                )
            )
            self._update_policy()

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        super().restore(state)
        self._update_policy()
