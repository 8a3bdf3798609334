"""What UCBVI and Thompson sampling share: counts, known rewards, and a table of values per stage."""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.learners.counts import Counts
from bqrl.learners.model_based_loops import value_bounds
from bqrl.learners.protocol import Episode, Learner, Task
from bqrl.mdp.policy import MarkovPolicy


class ModelBased(Learner):
    """A learner that counts transitions and plans by backward induction with rewards that it knows.

    `floor` and `ceiling` (H, S, A) bound the value of each row under optimal play over every kernel that the known structure
    allows. `Q`, `V` and `actions` are those of the plan in force.
    """

    needs_rewards = True

    def __init__(self, task: Task, rng: np.random.Generator, stationary: bool = False) -> None:
        super().__init__(task, rng)
        if task.model is None:
            raise ValueError(f"{self.name} plans with the rewards, which this problem does not tell; learn on an MDP")
        H, S, A = task.H, task.S, task.A
        self.counts = Counts(task.structure, stationary, task.model.reward)
        self.model = task.model.staged() if self.counts.M > 1 else task.model
        self.floor, self.ceiling = np.zeros((H, S, A)), np.zeros((H, S, A))
        value_bounds(
            self.counts.row_start, self.counts.successor, self.counts.probability, self.model.reward,
            self.counts.known.reshape(-1), task.discount, H, S, A, self.floor, self.ceiling,
        )  # fmt: skip
        self.Q = self.ceiling.copy()
        self.V = np.zeros((H + 1, S))
        self.actions = np.zeros((H, S), np.int64)
        self._policy = MarkovPolicy(self.actions)

    def observe(self, episode: Episode) -> None:
        """Count the episode."""
        self.counts.observe(episode)

    def evaluated(self) -> MarkovPolicy:
        """The planned policy: it explores by what it believes, not by chance."""
        return self._policy

    def notes(self) -> dict[str, float]:
        """The value that the plan in force promises."""
        return {"planned_value": float(self.task.structure.mu @ self.V[0])}

    def _planned(self) -> MarkovPolicy:
        self._policy = MarkovPolicy(self.actions)
        return self._policy

    def state(self) -> dict[str, Any]:
        """Counts and the plan in force."""
        return {**self.counts.state(), "Q": self.Q.copy(), "V": self.V.copy(), "actions": self.actions.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        self.counts.restore(state)
        self.Q, self.V, self.actions = (np.array(state[name]) for name in ("Q", "V", "actions"))
        self._planned()
