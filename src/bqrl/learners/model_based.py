"""The common part of UCBVI and Thompson sampling: counts, known rewards, and one table of values per stage."""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.learners.protocol import Episode, Learner, Task
from bqrl.learners.shared_counts import counts_of
from bqrl.loops.model_based import Model, value_bounds
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.target import action_dtype


class ModelBased(Learner):
    """A learner that counts transitions and plans by backward induction with known rewards.

    `floor` and `ceiling` (H, S, A) bound the optimal value of each row over all kernels that the known structure allows. `Q`,
    `V` and `actions` belong to the current plan.
    """

    needs_rewards = True
    stored = ("Q", "V", "actions")

    def __init__(self, task: Task, rng: np.random.Generator, stationary: bool | None = None) -> None:
        super().__init__(task, rng)
        model = task.require_model(self.name)
        H, S, A = task.H, task.S, task.A
        self.counts = counts_of(task, stationary)
        self.model = model.staged() if self.counts.M > 1 else model
        self.floor, self.ceiling = np.zeros((H, S, A)), np.zeros((H, S, A))
        self._reward = np.array(self.model.reward)
        value_bounds(self._arrays(), self.floor, self.ceiling)
        self.Q = self.ceiling.copy()
        self.V = np.zeros((H + 1, S))
        self.actions = np.zeros((H, S), action_dtype(A))
        self._policy = MarkovPolicy(self.actions)
        self._group()

    def _group(self) -> None:
        """Update the arrays for the compiled loops and the policy of the current plan."""
        self.arrays = self._arrays()
        self._current_policy()

    def _arrays(self) -> Model:
        """Return the empirical model for the compiled loops."""
        counts = self.counts
        return Model(
            row_start=counts.row_start, successor=counts.successor, probability=counts.probability, reward=self._reward,
            known=counts.known, discount=self.task.discount,
        )  # fmt: skip

    def observe(self, episode: Episode) -> None:
        """Count the episode."""
        self.counts.observe(episode)

    def evaluated(self) -> MarkovPolicy:
        """Return the planned policy, which explores without random actions."""
        return self._policy

    def notes(self) -> dict[str, float]:
        """Return the value that the current plan predicts."""
        return {"planned_value": float(self.task.structure.mu.dot(self.V[0]))}

    def _current_policy(self) -> MarkovPolicy:
        """Return the policy of the current plan; it is the same object as before if no action changed."""
        if self.actions.tobytes() != self._policy.actions.tobytes():
            self._policy = MarkovPolicy(self.actions)
        return self._policy

    def state(self) -> dict[str, Any]:
        """Return the counts and the current plan."""
        return self.counts.state() | super().state()

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        self.counts.restore(state)
        super().restore(state)
        self._group()
