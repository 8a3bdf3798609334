"""UCBVI (Azar, Osband, Munos 2017): backward induction on the empirical kernel with an exploration bonus.

    Q_h(s, a) = min{ r + P_hat V_{h+1} + scale * b_h(s, a),  ceiling_h(s, a) },   V_h(s) = max_a Q_h(s, a);
    rows never visited stand at their ceiling, and rows that are known exactly get no bonus.

    Hoeffding:  b = 7 w L / sqrt(N),   L = log(5 S A T H / delta)
    Bernstein:  b = sqrt(8 L Var(V) / N) + 14 w L / (3 N) + w sqrt(8 sum_s' P_hat(s') min(1, 10^4 H S^2 A L^2 / N'(s')) / N)

with N the visits of the row, N'(s') those of the next state at the next stage, w the range of the row's possible values.
Counts are pooled over the stages where the known structure is the same at every stage, as in the source;
`stationary=False` counts per stage, which needs H times the data.

Deviation: the range w and the ceiling come from the known structure and rewards (the source has H for both).
Deviation: the bonus has a multiplier `scale`; 1 is the source's, whose constants explore for far longer than any run here.
Deviation: Q may rise again; `monotone=True` takes the minimum with the last episode's Q as in the source, which with a
small `scale` keeps an unlucky estimate for ever.
"""

from __future__ import annotations

import numpy as np

from bqrl.learners.common import number
from bqrl.learners.model_based import ModelBased
from bqrl.learners.model_based_loops import ucbvi_values
from bqrl.learners.protocol import Task
from bqrl.mdp.policy import MarkovPolicy

BONUSES = ("bernstein", "hoeffding")


class UCBVI(ModelBased):
    """Optimistic value iteration; it draws nothing."""

    name = "ucbvi"
    tuned = "scale"

    def __init__(
        self, task: Task, rng: np.random.Generator, scale: float = 5e-3, bonus: str = "bernstein",
        stationary: bool | None = None, monotone: bool = False,
    ) -> None:  # fmt: skip
        same = task.structure.available.shape[0] == 1
        super().__init__(task, rng, same if stationary is None else stationary)
        if bonus not in BONUSES:
            raise ValueError(f"bonus must be one of {', '.join(BONUSES)}, got {bonus!r}")
        self.scale, self.bonus = number("scale", scale, 0.0, closed=True), bonus
        self.monotone = bool(monotone)
        self.L = float(np.log(5.0 * task.S * task.A * task.episodes * task.H / task.delta))

    def plan(self) -> MarkovPolicy:
        """The greedy policy of the optimistic values."""
        counts = self.counts
        ucbvi_values(
            counts.row_start, counts.successor, counts.probability, counts.visits, self.model.reward, counts.known,
            self.floor, self.ceiling, self.task.discount, self.bonus == "bernstein", self.scale, self.L, self.monotone,
            self.Q, self.V, self.actions,
        )  # fmt: skip
        return self._planned()
