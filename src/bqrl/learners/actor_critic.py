"""What PPO and TRPO share: a softmax table per stage and state, a learned value table, generalized advantages.

    logits_h(s, a) = own_h(s, a) + sharing * ( state(s, a) + stage_h(a) ),   and the same for the values V_h(s):

any table per stage and state can be learned, and what one stage teaches about a state (or one state about a stage) serves
the others until they have evidence of their own. `sharing=0` leaves plain tables, which in the first thousands of episodes
see each pair too rarely to learn much.

After every `batch` episodes: fit V to the episodes' lambda-returns, take the advantages relative to it, scale them to mean 0
and variance 1, improve the policy. The policy plays by its probabilities; what is evaluated is its likeliest action (of
equal ones the lowest index).

Deviation: the critic is fitted before the advantages are taken, so that first visits do not reward whatever was played.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np

from bqrl.learners.actor_critic_loops import add_parts, advantages, fit_values, softmax_table
from bqrl.learners.common import available_by_stage, number, update_discount, whole
from bqrl.learners.protocol import Episode, Learner, Randomised, Task
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.policy import MarkovPolicy


class ActorCritic(Learner):
    """A learner that improves a randomised policy after each batch of episodes."""

    def __init__(
        self, task: Task, rng: np.random.Generator, batch: int, trace: float, value_rate: float, sharing: float,
        discount: float | None,
    ) -> None:  # fmt: skip
        super().__init__(task, rng)
        H, S, A = task.H, task.S, task.A
        self.batch = whole("batch", batch)
        self.trace = number("trace", trace, 0.0, 1.0, closed=True)
        self.value_rate = number("value_rate", value_rate, 0.0, 1.0)
        self.sharing = number("sharing", sharing, 0.0, closed=True)
        self.discount = update_discount(discount, task)
        self.available = available_by_stage(task.structure)
        self.parts = np.zeros(H * S * A + S * A + H * A)
        self.value_parts = np.zeros(H * S + S + H)
        self.V = np.zeros((H, S))
        self.states = np.zeros((self.batch, H + 1), np.int64)
        self.actions = np.zeros((self.batch, H), np.int64)
        self.rewards = np.zeros((self.batch, H))
        self.filled = 0
        self._renew()

    def _renew(self) -> None:
        logits = np.empty(self.available.shape)
        self.chances = np.empty(self.available.shape)
        add_parts(self.parts, self.sharing, logits)
        softmax_table(logits, self.available, self.chances)
        self._behaviour = Randomised(self.chances)
        self._policy = MarkovPolicy(self.chances.argmax(axis=2))

    @abstractmethod
    def improve(self, advantage: FloatArray) -> None:
        """Move the parts of the logits by the batch's advantages, shape (batch, H)."""

    def plan(self) -> Randomised:
        """The policy's probabilities."""
        return self._behaviour

    def evaluated(self) -> MarkovPolicy:
        """The likeliest actions."""
        return self._policy

    def observe(self, episode: Episode) -> None:
        """Keep the episode; a full batch improves the policy and is forgotten."""
        i = self.filled
        self.states[i], self.actions[i], self.rewards[i] = episode
        self.filled += 1
        if self.filled < self.batch:
            return
        self.filled = 0
        advantage, target = np.empty(self.rewards.shape), np.empty(self.rewards.shape)
        played = (self.states, self.actions, self.rewards)
        advantages(*played, self.V, self.discount, self.trace, advantage, target)
        fit_values(self.value_parts, self.sharing, self.value_rate, self.states, target, self.V)
        advantages(*played, self.V, self.discount, self.trace, advantage, target)
        spread = advantage.std()
        if spread > 0.0:
            self.improve((advantage - advantage.mean()) / spread)
            self._renew()

    def state(self) -> dict[str, Any]:
        """Parts of the policy and the values, and the batch so far."""
        kept = ("parts", "value_parts", "V", "states", "actions", "rewards")
        return {name: getattr(self, name).copy() for name in kept} | {"filled": self.filled}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        for name in ("parts", "value_parts", "V", "states", "actions", "rewards"):
            setattr(self, name, np.array(state[name]))
        self.filled = int(state["filled"])
        self._renew()
