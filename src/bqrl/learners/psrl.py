"""Posterior sampling for quantiles: draw a kernel, plan for a window of quantiles around tau, play the plan.

Before every episode each row that is not known is drawn from a Dirichlet law,

    P_h(. | s, a) ~ Dirichlet( prior / k + w N_h(s, a, .) ),    w = 1 + 9 n / (n + 20),    n = N_h(s, a),

over the k outcomes of its known support. Where rows share noise, the laws of events are drawn in place of the rows. The prior
has a fixed total weight: weights that grow with k keep rows uncertain for too long if rows are many and visits few. The factor w
leaves rows uncertain after one visit and settles rows that were visited often; laws of events, which every transition informs,
have w = 1. The plan maximises the mean of the quantiles over the window [tau - b_t, tau + b_t] of `replan.centred_window`, which
is [0, 1] at first and narrows to tau: the learner starts risk-neutral and ends at the quantile.

In every other episode rows are drawn together: each row is drawn RANKS times, its draws are ranked by the mean of an optimistic
value of the successor, and one rank, drawn uniformly, is taken in every row. Each row alone still has its posterior law, but good
draws now coincide, so plans that need several untried rows at once are tried. In the other episodes rows are drawn
independently, so that one untried alternative can look better than the others.

With one draw per episode the learner explores without a constant to tune. No regret bound is claimed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.checks import choice, number
from bqrl.errors import ArgumentError
from bqrl.learners.model_based_loops import Bounds, Model, value_bounds
from bqrl.learners.protocol import Episode, Learner, Task
from bqrl.learners.replan import Replanner, centred_window
from bqrl.learners.shared_counts import counts_of
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.policy import TargetPolicy
from bqrl.planners.confidence import log_buffer

WINDOWS = ("centred", "lower")
RANKS = 4  # draws per row, of which one rank is taken
SETTLED, HALFWAY = 9.0, 20.0  # counts weigh up to 1 + SETTLED times, half of it after HALFWAY visits


class PSRL(Learner):
    """Posterior sampling for the tau-quantile.

    Parameters
    ----------
    task, rng
        See `Learner`.
    prior
        Total weight of the prior of a row, in visits.
    window
        "centred": [tau - b_t, tau + b_t] with b_t = 4 sqrt(tau (1 - tau) / (t + 1)), cut at 0 and 1; "lower": [tau - beta_t, tau]
        with beta_t = tau / log(e + t).
    stationary
        Pool the counts of all stages and draw one kernel for them; by default if the problem stores one kernel.

    Examples
    --------
    >>> import bqrl
    >>> record = bqrl.learn("AssetSelling", "psrl", tau=0.1, episodes=20, seed=1)
    """

    name = "psrl"
    needs_rewards = True
    tuned = "prior"

    def __init__(
        self, task: Task, rng: np.random.Generator, prior: float = 1.0, window: str = "centred",
        stationary: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(task, rng)
        if task.model is None:
            raise ArgumentError("psrl needs the rewards, and task.model is None; learn on an MDP", name="task")
        self.prior, self.window = number(prior, "prior", 0.0, ends="()"), choice(window, "window", WINDOWS)
        self.counts = counts_of(task, stationary)
        self.replanner = Replanner(task.model if self.counts.M == 1 else task.model.staged())
        self.t = 0
        self._units = self.counts.units()
        self._sizes, self._starts = self._units.sizes, self._units.starts
        self._worth = self._optimistic_worth(task)
        self._notes: dict[str, float] = {}

    def _optimistic_worth(self, task: Task) -> FloatArray:
        """Return reward plus the largest possible value of the successor for every drawn outcome, averaged over stages."""
        counts, model = self.counts, self.replanner.model
        shape = (task.H, task.S, task.A)
        bounds = Bounds(np.zeros(shape), np.zeros(shape))
        reward = np.array(model.reward)
        arrays = Model(counts.row_start, counts.successor, counts.probability, reward, counts.known, task.discount)
        value_bounds(arrays, bounds)
        best = np.maximum(bounds.ceiling.max(axis=2), -1e300)
        after = np.vstack([best[1:], np.zeros((1, task.S))])  # the value after each stage
        if counts.M == 1:
            worth = np.mean(reward + task.discount * after[:, counts.successor], axis=0)
        else:
            stage = np.repeat(np.arange(task.H), np.diff(counts.row_start[:: task.S * task.A]))
            paid = reward[stage if len(reward) > 1 else 0, np.arange(counts.successor.size)]
            worth = paid + task.discount * after[stage, counts.successor]
        return self._units.collect(np.asarray(worth))

    def plan(self) -> TargetPolicy:
        """Return the plan on a kernel drawn from the posterior."""
        tau = self.task.tau
        level, buffer = centred_window(tau, self.t) if self.window == "centred" else (tau, log_buffer(tau)(self.t))
        found = self.replanner.window(self.draw(), level, buffer)
        self._notes = {"level": level, "beta": buffer, "planned_value": found.nominal, "sweeps": float(found.sweeps)}
        return found.policy

    def draw(self) -> FloatArray:
        """Return a kernel drawn from the posterior; a row whose draws all underflow keeps its posterior mean."""
        kernel = self.counts.probability.copy()
        if self._sizes.size == 0:
            return kernel
        n = self._units.visits()
        weight = 1.0 + SETTLED * n / (n + HALFWAY)
        weight[: self._units.laws] = 1.0
        shapes = np.repeat(self.prior / self._sizes, self._sizes) + np.repeat(weight, self._sizes) * self._units.seen()
        together = self.t % 2 == 0
        drawn = self.rng.standard_gamma(shapes, (RANKS if together else 1, shapes.size))
        total = np.add.reduceat(drawn, self._starts, axis=1)
        lost = np.repeat(total <= 0.0, self._sizes, axis=1)
        if lost.any():
            drawn = np.where(lost, shapes, drawn)
            total = np.add.reduceat(drawn, self._starts, axis=1)
        drawn /= np.repeat(total, self._sizes, axis=1)
        if together:
            order = np.argsort(np.add.reduceat(drawn * self._worth, self._starts, axis=1), axis=0)
            taken = np.repeat(order[int(self.rng.integers(RANKS))], self._sizes)
            return self._units.spread(drawn[taken, np.arange(shapes.size)], kernel)
        return self._units.spread(drawn[0], kernel)

    def observe(self, episode: Episode) -> None:
        """Count the episode."""
        self.counts.observe(episode)
        self.t += 1

    def notes(self) -> dict[str, float]:
        """Return the window, the value of the plan on the drawn kernel, and the sweeps it took."""
        return self._notes

    def state(self) -> dict[str, Any]:
        """Return the counts, the number of episodes, and where the last search ended."""
        width = self.replanner.width
        return self.counts.state() | {"t": self.t, "width": np.nan if width is None else width}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        self.counts.restore(state)
        self.t, width = int(state["t"]), float(state["width"])
        self.replanner.width = None if np.isnan(width) else width
