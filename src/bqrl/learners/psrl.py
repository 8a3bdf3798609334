"""Posterior sampling for quantiles: draw a kernel, plan for a window of quantiles around tau, and weigh gain against cost.

The posterior of every row that is not known is

    P_h(. | s, a) ~ Dirichlet( prior / k + N_h(s, a, .) ),

over the k outcomes of its known support. The prior has a fixed total weight: if the weight grew with k, rows would
stay uncertain for too long in problems with many rows and few visits. If rows share a law of events, the posterior is that of
the law.

Before every episode a kernel P is drawn. A few early observations can make a good row look bad, and a row that is avoided is
not observed again. In draws, the counts of a row with n visits are therefore weighted by n / (n + DOUBT). The episode
determines which rows are drawn:

    together   In every third episode each row is drawn RANKS times, and its draws are ranked by the mean of an optimistic
               value of the successor. One rank, drawn uniformly, is used in every row. Each row on its own keeps its law,
               but good draws coincide, so plans that need several untried rows at once are tried.
    a few      In the other episodes each of the R rows is drawn with probability 1 / sqrt(R), and at least one row is drawn.
               The others take their posterior mean. If all were drawn, some row would always look better than it is.

The objective V is the mean of the quantiles over the window of `replan.centred_window`: for a quantile [tau - b_t, tau + b_t],
which is [0, 1] at first and narrows to tau; for CVaR [0, tau] after a while. Two plans are made for V: d on the draw P, and m
on the posterior mean M. The plan d is played if its gain under P is at least its cost under M,

    (V(d; P) - V(m; P)) (1 + (w / PATIENCE)^2)  >=  V(m; M) - V(d; M),

where w is the number of episodes since a plan with a positive cost was played; otherwise m is played. The accepted cost
grows until another plan is tried, even if that plan costs little. If cheap alternatives are tried often, w stays small, and an
expensive plan may never be tried in the whole run. To save time, m is recomputed only when it is older than an eighth of the
episodes so far; its values are always computed with the current kernels.

No regret bound is claimed.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.checks import choice, number
from bqrl.errors import FileFormatError
from bqrl.laws.objectives import Buffered, Mean, Quantile, averaged_levels
from bqrl.learners.protocol import Episode, Learner, Task, stored_array
from bqrl.learners.replan import NextPlan, Replanner, centred_window
from bqrl.learners.shared_counts import counts_of
from bqrl.loops.layout import Tables
from bqrl.loops.model_based import Model, value_bounds
from bqrl.mdp.arrays import FloatArray, read_only
from bqrl.planners.confidence import log_buffer
from bqrl.policies.target import TargetPolicy, action_dtype

WINDOWS = ("centred", "lower")
STALE = 8  # the plan on the mean is recomputed when it is older than t / STALE episodes
RANKS = 4  # draws per row if rows are drawn together
TOGETHER = 3  # rows are drawn together in one of TOGETHER episodes
DOUBT = 10.0  # number of visits at which the counts of a drawn row have half their weight
PATIENCE = 64  # number of episodes without exploration that doubles the accepted cost


class PSRL(Learner):
    """Posterior sampling for a quantile, a buffered quantile, CVaR or the mean.

    Parameters
    ----------
    task, rng
        See `Learner`.
    prior
        Total weight of the prior of each row, in visits.
    window
        "centred": [tau - b_t, tau + b_t] with b_t = 4 sqrt(tau (1 - tau) / (t + 1)), cut at 0 and 1; "lower": [tau - beta_t, tau]
        with beta_t = tau / log(e + t). If the objective itself averages [tau - beta, tau], "centred" moves both ends outwards
        (see `replan.centred_window`), and "lower" is never narrower than beta.
    stationary
        Whether to pool the counts of all stages and draw one kernel for them; by default if the problem stores one kernel.

    Examples
    --------
    >>> import bqrl
    >>> record = bqrl.learn("AssetSelling", "psrl", tau=0.1, episodes=20, seed=1)
    """

    name, label, colour = "psrl", "PSRL", "#7B5EA7"
    objectives = (Quantile, Buffered, Mean)
    needs_rewards = True
    tuned = "prior"

    def __init__(
        self, task: Task, rng: np.random.Generator, prior: float = 1.0, window: str = "centred",
        stationary: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(task, rng)
        model = task.require_model(self.name)
        self.prior, self.window = number(prior, "prior", 0.0, ends="()"), choice(window, "window", WINDOWS)
        self.level, self.beta = averaged_levels(task.objective)
        self.counts = counts_of(task, stationary)
        self.replanner = Replanner(model if self.counts.M == 1 else model.staged())
        self.t = 0
        # Rows of states that are never reached would cost time and take up draws.
        met = np.any(model.reachable, axis=0)[None, :, None]
        self._units = self.counts.units(self.counts.available & ~self.counts.known & met)
        self._sizes, self._starts = self._units.sizes, self._units.starts
        self._worth = self._optimistic_worth(task)
        self._widths: dict[str, float | None] = {"drawn": None, "mean": None}  # widths at which the last searches ended
        self._settled: TargetPolicy | None = None  # the last plan on the posterior mean
        self._made = 0  # the episode in which that plan was made
        self._explored = 0  # the last episode with a plan of positive cost
        self._notes: dict[str, float] = {}

    def _optimistic_worth(self, task: Task) -> FloatArray:
        """Return reward plus largest possible value of the successor for every outcome that is drawn, averaged over stages."""
        counts, model = self.counts, self.replanner.model
        floor, ceiling = np.zeros((2, task.H, task.S, task.A))
        reward = np.array(model.reward)
        arrays = Model(
            row_start=counts.row_start, successor=counts.successor, probability=counts.probability, reward=reward,
            known=counts.known, discount=task.discount,
        )  # fmt: skip
        value_bounds(arrays, floor, ceiling)
        best = np.maximum(ceiling.max(axis=2), -1e300)
        after = np.vstack([best[1:], np.zeros((1, task.S))])  # the value after each stage
        if counts.M == 1:
            worth = np.mean(reward + task.discount * after[:, counts.successor], axis=0)
        else:
            stage = np.repeat(np.arange(task.H), np.diff(counts.row_start[:: task.S * task.A]))
            paid = reward[stage if len(reward) > 1 else 0, np.arange(counts.successor.size)]
            worth = paid + task.discount * after[stage, counts.successor]
        return self._units.collect(np.asarray(worth))

    def plan(self) -> TargetPolicy:
        """Return the plan for a kernel drawn from the posterior, or for the posterior mean if that plan costs too much."""
        if self.window == "centred":
            level, buffer = centred_window(self.level, self.t, self.beta)
        else:
            level, buffer = self.level, max(log_buffer(self.level)(self.t), self.beta)
        drawn, mean = self.draw(), self.mean()
        found, sweeps = self._search("drawn", drawn, level, buffer), 0
        if self._settled is None or self.t > self._made + self.t // STALE:
            fresh = self._search("mean", mean, level, buffer)
            self._settled, self._made, sweeps = fresh.policy, self.t, fresh.sweeps
        value = self.replanner.score(self._settled, mean, level, buffer)
        gain = found.nominal - self.replanner.score(self._settled, drawn, level, buffer)
        cost = value - self.replanner.score(found.policy, mean, level, buffer)
        explores = gain * (1.0 + ((self.t - self._explored) / PATIENCE) ** 2) >= cost
        if explores and cost > 0.0:
            self._explored = self.t
        self._notes = {
            "level": level, "beta": buffer, "planned_value": found.nominal if explores else value,
            "explores": float(explores), "sweeps": float(found.sweeps + sweeps),
        }  # fmt: skip
        return found.policy if explores else self._settled

    def _search(self, name: str, kernel: FloatArray, level: float, buffer: float) -> NextPlan:
        """Return the plan for a kernel; the search starts at the width where the last search for this kind of kernel ended."""
        self.replanner.width = self._widths[name]
        found = self.replanner.window(kernel, level, buffer)
        self._widths[name] = self.replanner.width
        return found

    def mean(self) -> FloatArray:
        """Return the mean of the posterior."""
        return self._kernel(self._shapes(0.0)[None])

    def _shapes(self, doubt: float) -> FloatArray:
        """Return the Dirichlet parameters of all laws, one after the other, with counts weighted by n / (n + doubt)."""
        visits = self._units.visits()
        weight = visits / np.maximum(visits + doubt, 1.0)
        return np.repeat(self.prior / self._sizes, self._sizes) + np.repeat(weight, self._sizes) * self._units.seen()

    def _kernel(self, weights: FloatArray, rank: int = 0) -> FloatArray:
        """Return the kernel from weights (draws, entries), normalised to laws; with several draws, the draws of one rank."""
        kernel = self.counts.probability.copy()
        if self._sizes.size == 0:
            return kernel
        laws = weights / np.repeat(np.add.reduceat(weights, self._starts, axis=1), self._sizes, axis=1)
        if len(laws) == 1:
            return self._units.spread(laws[0], kernel)
        order = np.argsort(np.add.reduceat(laws * self._worth, self._starts, axis=1), axis=0)
        taken = np.repeat(order[rank], self._sizes)
        return self._units.spread(laws[taken, np.arange(taken.size)], kernel)

    def draw(self) -> FloatArray:
        """Return a kernel drawn from the posterior; a row whose variates all underflow takes its posterior mean."""
        shapes, rows = self._shapes(DOUBT), self._sizes.size
        draws = RANKS if self.t % TOGETHER == 0 else 1
        weights = self.rng.standard_gamma(shapes, (draws, shapes.size))
        if rows == 0:
            return self._kernel(weights)
        stays = np.add.reduceat(weights, self._starts, axis=1) <= 0.0
        if draws == 1:
            drawn = self.rng.random(rows) < rows**-0.5
            drawn[self.rng.integers(rows)] = True
            stays |= ~drawn
        weights = np.where(np.repeat(stays, self._sizes, axis=1), self._shapes(0.0), weights)
        return self._kernel(weights, int(self.rng.integers(draws)))

    def observe(self, episode: Episode) -> None:
        """Count the episode."""
        self.counts.observe(episode)
        self.t += 1

    def notes(self) -> dict[str, float]:
        """Return the window, the value of the plan under its kernel, whether the plan explores, and the number of sweeps."""
        return self._notes

    def state(self) -> dict[str, Any]:
        """Return the counts, the episodes played and last explored, the plan for the mean, and the last widths."""
        widths = {f"{name}_width": np.nan if width is None else width for name, width in self._widths.items()}
        found = self.counts.state() | {"t": self.t, "explored": self._explored} | widths
        if self._settled is None:
            return found | {
                "settled_actions": np.zeros(0, np.int16), "settled_target": 0.0, "settled_extra": 0, "made": -1
            }  # fmt: skip
        table, target, extra = self._settled.tables.flat, self._settled.target, self._settled.extra
        return found | {"settled_actions": table, "settled_target": target, "settled_extra": extra, "made": self._made}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        self.counts.restore(state)
        self.t, self._explored = int(state["t"]), int(state["explored"])
        for name in self._widths:
            width = float(state[f"{name}_width"])
            self._widths[name] = None if np.isnan(width) else width
        self._settled, self._made, extra = None, int(state["made"]), int(state["settled_extra"])
        target, starts = float(state["settled_target"]), self.replanner.layout.table_starts(max(extra, 0))
        size = int(starts[-1]) if self._made >= 0 else 0
        table = stored_array(state, "settled_actions", np.zeros(size, action_dtype(self.task.A)))
        if size:
            if not 0 <= table.min() <= table.max() < self.task.A:
                raise FileFormatError(
                    f"settled_actions must be from 0 to {self.task.A - 1}, got {table.min()} to {table.max()}",
                    column="settled_actions",
                )
            self._settled = TargetPolicy(self.replanner.grid, Tables(read_only(table), starts), target, extra)
