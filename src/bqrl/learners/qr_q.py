"""Distributional Q-learning by quantile regression (Dabney, Rowland, Bellemare and Munos 2018), one table per stage.

    Z_h(s, a) = N quantiles of the return, at the levels (j + 1/2) / N;   Q_h(s, a) = their mean;
    the sample of an update is  r + discount * Z_{h+1}(s', a'),  a' the action with the largest Q_{h+1}(s', a'),

and each quantile moves along the slope of the pinball loss, as in `var_q.py`. The law of the return is learned, but actions are
greedy in its mean: the learner knows the risk and ignores it. Behaviour, epsilon, the evaluated policy and the optimistic start
are those of Q-learning.
"""

from __future__ import annotations

import numpy as np

from bqrl.checks import whole
from bqrl.learners.protocol import Episode, Task
from bqrl.learners.q_learning import QLearning
from bqrl.loops.target_q import distribution_episode
from bqrl.policies.markov import MarkovPolicy


class QRQLearning(QLearning):
    """Distributional Q-learning: quantiles of the return, greedy in their mean; `levels` is the number of quantiles."""

    name, label, colour = "qr-q", "QR Q-learning", "#6BBF3A"
    stored = (*QLearning.stored, "Z", "least", "most")

    def __init__(
        self, task: Task, rng: np.random.Generator, learning_rate: float = 0.002, optimistic_start: float = 0.0,
        epsilon: tuple[float, float] | None = None, discount: float | None = None, levels: int = 50,
    ) -> None:  # fmt: skip
        super().__init__(task, rng, learning_rate, optimistic_start, epsilon, discount)
        self.Z = np.repeat(np.where(self.available, self.Q, 0.0)[..., None], whole(levels, "levels", 1), axis=3)
        # returns still to come that were seen
        self.least, self.most = np.full(task.H, np.inf), np.full(task.H, -np.inf)

    def observe(self, episode: Episode) -> None:
        """Update the quantiles of every stage."""
        n = episode.actions.size
        left = np.cumsum(episode.rewards[::-1])[::-1]
        self.least[:n], self.most[:n] = np.minimum(self.least[:n], left), np.maximum(self.most[:n], left)
        update = self.learning_rate, self.discount
        spread = (self.most - self.least)[:n]
        if distribution_episode(self.Z, self.Q, self.visits, self.actions, update, spread, *episode[:3]):
            self._policy = MarkovPolicy(self.actions)
        self.t += 1
