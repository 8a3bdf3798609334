"""Q-learning (Watkins 1989) with epsilon-greedy behaviour, one table per stage.

    Q_h(s, a) += max(learning_rate, 1 / n) * ( r + discount * max_a' Q_{h+1}(s', a') - Q_h(s, a) ),   Q_H = 0,

with n the visits of (h, s, a): first the plain average of the targets, later an exponential average. Each stage occurs once
per episode, so updating after the episode in order of play equals updating online.

Epsilon falls linearly from 1 to 0.05 over the run. With an optimistic start it is 0.05 throughout, since then the table itself
explores. `epsilon=(first, last)` sets other ends. The evaluated policy is greedy and breaks ties by the lowest index, so in
asset selling a fresh table stops at once.

A table that starts at zero undervalues waiting until later stages have been learned, and in a few thousand episodes it settles
for early offers. The usual remedy is `optimistic_start=x`, with x the largest possible return.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.checks import number, wrong_type
from bqrl.learners.protocol import Episode, Learner, Task
from bqrl.learners.q_learning_loops import explore, td_episode
from bqrl.mdp.policy import MarkovPolicy, StochasticPolicy

FALLING, LOW = (1.0, 0.05), (0.05, 0.05)


class QLearning(Learner):
    """Tables of action values, learned from the greedy value of the next state."""

    name = "q-learning"
    tuned = "learning_rate"
    stored = ("Q", "visits", "actions", "t")
    on_policy = False

    def __init__(
        self, task: Task, rng: np.random.Generator, learning_rate: float = 0.1, optimistic_start: float = 0.0,
        epsilon: tuple[float, float] | None = None, discount: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(task, rng)
        self.learning_rate = number(learning_rate, "learning_rate", 0.0, 1.0, "(]")
        self.discount = task.update_discount(discount)
        begin = number(optimistic_start, "optimistic_start")
        self.first, self.last = self._line(epsilon, begin)
        self.available = task.available
        self.Q = np.where(self.available, begin, -np.inf)
        self.visits = np.zeros(self.Q.shape, np.int64)
        self.actions = self.available.argmax(axis=2)
        self.t = 0
        self._policy = MarkovPolicy(self.actions)

    @staticmethod
    def _line(epsilon: tuple[float, float] | None, begin: float) -> tuple[float, float]:
        if epsilon is None:
            return LOW if begin > 0.0 else FALLING
        if not isinstance(epsilon, (tuple, list)) or len(epsilon) != 2:
            raise wrong_type("epsilon", epsilon, "be a pair (first, last)")
        first, last = (number(x, "epsilon", 0.0, 1.0) for x in epsilon)
        return first, last

    @property
    def epsilon(self) -> float:
        """Share of random actions in the next episode."""
        return self.first + (self.last - self.first) * min(1.0, self.t / max(1, self.task.episodes - 1))

    def plan(self) -> StochasticPolicy:
        """Return the greedy actions, mixed with uniformly random ones at the rate epsilon."""
        chances = np.empty(self.Q.shape)
        explore(self.actions, self.available, self.epsilon, chances)
        return StochasticPolicy.unchecked(chances)

    def observe(self, episode: Episode) -> None:
        """Update the table of every stage."""
        update = self.learning_rate, self.discount, self.on_policy
        if td_episode(self.Q, self.visits, self.actions, update, *episode[:3]):
            self._policy = MarkovPolicy(self.actions)
        self.t += 1

    def evaluated(self) -> MarkovPolicy:
        """Return the greedy policy."""
        return self._policy

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        super().restore(state)
        self._policy = MarkovPolicy(self.actions)
