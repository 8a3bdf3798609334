"""UCBVI (Azar, Osband, Munos 2017): backward induction on the empirical kernel with an exploration bonus.

    Q_h(s, a) = min{ r + P_hat V_{h+1} + scale * b_h(s, a),  ceiling_h(s, a) },   V_h(s) = max_a Q_h(s, a);
    the value of a row that was never visited is its ceiling, and rows that are known exactly have no bonus.

    Hoeffding:  b = 7 w L / sqrt(N),   L = log(5 S A T H / delta)
    Bernstein:  b = sqrt(8 L Var(V) / N) + 14 w L / (3 N) + w sqrt(8 sum_s' P_hat(s') min(1, 10^4 H S^2 A L^2 / N'(s')) / N)

where N counts the visits of the row, N'(s') the visits of the next state at the next stage, and w is the range of the possible
values of the row. Counts are pooled over the stages if the problem stores one kernel for all of them, as in the source;
`stationary=False` counts per stage, which needs H times the data.

Deviation: the range w and the ceiling come from the known structure and rewards (the source uses H for both).
Deviation: the bonus has a multiplier `scale`; 1 gives the constants of the source, with which exploration lasts far longer than
any run here.
Deviation: Q may rise again. `monotone=True` takes the minimum with the Q of the last episode, as in the source; with a small
`scale`, an estimate that was too low is then never corrected.
"""

from __future__ import annotations

import numpy as np

from bqrl.checks import choice, flag, number
from bqrl.learners.model_based import ModelBased
from bqrl.learners.protocol import Task
from bqrl.learners.shared_counts import SharedCounts
from bqrl.loops.model_based import Bonus, ucbvi_values
from bqrl.policies.markov import MarkovPolicy

BONUSES = ("bernstein", "hoeffding")


class UCBVI(ModelBased):
    """Optimistic value iteration; it draws no random numbers."""

    name, label, colour = "ucbvi", "UCBVI", "#D55E00"
    tuned = "scale"

    def __init__(
        self, task: Task, rng: np.random.Generator, scale: float = 5e-3, bonus: str = "bernstein",
        stationary: bool | None = None, monotone: bool = False,
    ) -> None:  # fmt: skip
        super().__init__(task, rng, stationary)
        self.scale, self.bonus = number(scale, "scale", 0.0), choice(bonus, "bonus", BONUSES)
        self.monotone = flag(monotone, "monotone")
        self.L = float(np.log(5.0 * task.S * task.A * task.episodes * task.H / task.delta))
        self._bonus = Bonus(
            bernstein=self.bonus == "bernstein", scale=self.scale, log_term=self.L, monotone=self.monotone
        )

    def plan(self) -> MarkovPolicy:
        """Return the greedy policy of the optimistic values."""
        visits = self.counts.visits
        if isinstance(self.counts, SharedCounts):  # a row may turn to the counts of a law with as many visits
            self._planned.fill(-1)
        known = tuple(self.arrays), visits, self._planned, self.floor, self.ceiling
        ucbvi_values(*known, self._bonus, self.Q, self.V, self.actions)
        np.copyto(self._planned, visits)
        return self._current_policy()

    def _group(self) -> None:
        """Update the arrays as for every model, and plan all rows next time."""
        super()._group()
        self._planned = np.full(self.counts.visits.shape, -1)  # visits of each row at the last plan
