"""VaR Q-learning (Hau, Delage, Derman, Ghavamzadeh and Petrik 2025): quantile levels as states.

    Q_h(s, u, a) = the u-quantile of  r + max over a' of Q_{h+1}(s', U, a'),   U uniform on [0, 1] and independent of s'.

The quantile of a mixture over successors chooses the level of each of them, so the level u is part of the state. Q is learned
by quantile regression: for each transition and every level u of a grid of N levels, the sample is r + max over a' of
Q_{h+1}(s', v, a') for all levels v of the grid, and Q_h(s, u, a) moves along the slope of the pinball loss, by at most

    max(learning_rate, (H + 1) / (H + n)) * (range of the sums of rewards from stage h on that were seen)

at the n-th visit. At the start the level is tau. The policy carries the value that it tries to reach: at each stage it acts for
the lowest level whose value covers the remaining need, which is the level that the decomposition assigns to the successor.

Deviation: the loss is the pinball loss itself, without the smoothing that the source's proof of convergence uses, and a step
never passes the quantile of its sample, so that atoms are met exactly.
Deviation: values and needs are rounded to the nearest point of the grid of returns when the policy is made.
Exploration, the grid, pooled stages, states at the end and actions that were not played are treated as in `target_q.py`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.checks import whole
from bqrl.laws.objectives import Quantile
from bqrl.learners.protocol import Episode, Task
from bqrl.learners.replan import MAX_COLUMNS
from bqrl.learners.target_q import TargetQ
from bqrl.loops.target_q import level_episode, level_tables
from bqrl.mdp.arrays import FloatArray


class VaRQ(TargetQ):
    """Q-learning with quantile levels as states.

    Parameters
    ----------
    task, rng
        See `Learner`.
    learning_rate
        Least rate of an update.
    epsilon
        First and last share of random actions; by default (1, 0.05).
    levels
        Number N of levels, (j + 1/2) / N for j = 0 .. N - 1.
    needs
        Largest number of needs on the grid of the policy; by default the grid on which other learners plan.

    Examples
    --------
    >>> import bqrl
    >>> record = bqrl.learn("SafeOrRisky", "var-q", tau=0.1, episodes=20, seed=1)
    """

    name, label, colour = "var-q", "VaR Q-learning", "#A3264B"
    objectives = (Quantile,)
    stored = (*TargetQ.stored, "least", "most")
    columns = "levels"

    def __init__(
        self, task: Task, rng: np.random.Generator, learning_rate: float = 0.002,
        epsilon: tuple[float, float] | None = None, levels: int = 50, needs: int = MAX_COLUMNS,
    ) -> None:  # fmt: skip
        self.levels = whole(levels, "levels", 2)
        self.least, self.most = np.full(task.H, np.inf), np.full(task.H, -np.inf)  # sums of rewards that were seen
        super().__init__(task, rng, learning_rate, epsilon, needs)

    def _table(self, width: int) -> FloatArray:
        return self._zeros(self.levels)

    def _learn(self, episode: Episode) -> None:
        weights = self.task.discount ** np.arange(self.task.H)
        left = np.zeros(self.task.H)  # sums of rewards from each stage on
        left[: episode.rewards.size] = np.cumsum((episode.rewards * weights[: episode.rewards.size])[::-1])[::-1]
        self.least, self.most = np.minimum(self.least, left), np.maximum(self.most, left)
        rule, worth = (self.learning_rate, self._pooled), np.outer(weights, episode.rewards)
        level_episode(self.J, self.visits, rule, self._ends, self.most - self.least, worth, *episode[:2])

    def _best_actions(self) -> Any:
        level_tables(self.J, self.visits, self.table, self._places)
        return super()._best_actions()

    def _target(self) -> float:
        """Return the value at level tau, rounded to the grid; the lowest return before the first episode."""
        z = self.grid.points(0)
        if self.made == 0:
            return float(z[0])
        met, weight = self._first_states()
        values = np.where(self.visits[0, met][:, :, None] > 0, self.J[0, met], -np.inf).max(axis=1)
        order = np.argsort(values, axis=None)
        mass = np.repeat(weight / self.levels, self.levels)[order]
        level = np.cumsum(mass) - mass / 2.0
        best = values.ravel()[order][max(0, int(np.count_nonzero(level <= self.task.tau)) - 1)]
        return float(z[np.abs(z - best).argmin()])
