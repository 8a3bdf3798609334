"""Target planning before every episode: the sweep and the search of the planner, on arrays that are prepared once.

The search over widths starts where the last one ended, so planning for a slightly different kernel takes a few sweeps.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bqrl.laws.law import Margin, size_of
from bqrl.laws.objectives import LEVEL_SLACK
from bqrl.laws.rows import buffered_rows
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.find_grid import lattice, rounded_grid
from bqrl.mdp.grid import Lattice
from bqrl.mdp.model import MDP, per_structure
from bqrl.planners.follow import Follower
from bqrl.planners.sweep import Layout, best_column, rounding_error, sweep
from bqrl.planners.widths import LINE_TOL, WidthSearch, best_deterministic
from bqrl.policies.target import TargetPolicy

MAX_COLUMNS = 20_000  # a finer lattice is replaced by a rounded grid
ROUNDED_POINTS = 2_000  # size of that grid
PLAN_TOL = 2e-3  # the search over widths ends at a plan this close to its bound, relative to the range of returns


@per_structure
def planning_grid(model: MDP) -> Lattice:
    """Return the uniform grid on which learners plan: the lattice of the rewards, or returns rounded down."""
    found = lattice(model, MAX_COLUMNS)
    return rounded_grid(model, ROUNDED_POINTS) if found is None else found


def centred_window(tau: float, t: int, beta: float = 0.0) -> tuple[float, float]:
    """Return level and buffer of the window of episode t around the quantiles that the objective averages.

    An objective averages the quantiles over [tau - beta, tau]: beta = 0 is the quantile, beta = tau is CVaR, tau = beta = 1 is
    the mean. After t episodes a shortfall near the level u is known up to about b(u) = 4 sqrt(u (1 - u) / (t + 1)). An average
    over a width beta hardly reacts to errors of shortfalls below beta, so the window moves each end outwards by the rest,

        [tau - beta - (b(tau - beta) - beta)^+, tau + (b(tau) - beta)^+],  cut at 0 and 1,

    and the buffered quantile at the level and buffer returned averages the quantiles over it. For a quantile this is
    [tau - b, tau + b]: it avoids targets whose shortfall is barely below tau and accepts near-ties. For CVaR it is
    [0, tau + (b - tau)^+], which is CVaR itself after about 16 / tau episodes; for the mean it is always [0, 1]. A learner whose
    first window is [0, 1] starts risk-neutral and ends at its objective. No regret bound is claimed.
    """
    low = tau - beta
    b, below = (4.0 * math.sqrt(u * (1.0 - u) / (t + 1.0)) for u in (tau, low))
    level = min(1.0, tau + max(0.0, b - beta))
    return level, level - max(0.0, low - max(0.0, below - beta))


class NextPlan(NamedTuple):
    """A plan for the next episode."""

    policy: TargetPolicy
    bound: float  # upper bound over all policies and all kernels of the ball, with returns of the planning grid
    nominal: float  # value of the policy under the kernel itself
    sweeps: int
    margin: Margin | None = None  # margin of the best target, if the objective is the plain quantile


class Replanner:
    """A planner for kernels that share the outcomes of one model.

    On a problem without a lattice of moderate size, returns are rounded down to a grid of 2,000 points: the learner then
    plans for slightly smaller rewards than it collects.

    Value and bound are always valid: the value is that of the policy, and no policy exceeds the bound under any kernel of the
    ball. The search over widths ends when the bound is tight enough:

    - Without a ball, the bound exceeds that of `solve`, or the value of a policy found, by at most `tolerance`, relative to the
      range of the returns. With tolerance 0, value and bound are those of `solve`. On a rounded grid, a search of many
      sweeps accepts the error of the grid.
    - Over a ball, the bound is the lowest over all lattice widths.
    """

    def __init__(self, model: MDP, tolerance: float = PLAN_TOL) -> None:
        self.model, self.grid = model, planning_grid(model)
        self.layout = Layout(model, self.grid, met_only=True)
        self.follower = Follower(self.layout)
        self.points = self.layout.points
        self.as_solve = tolerance == 0.0
        self.tolerance = max(tolerance * float(np.ptp(self.points)), LINE_TOL * size_of(self.points))
        self.error, self.ball_error = rounding_error(model), rounding_error(model, ball=True)
        self.width: float | None = None  # the width at which the last search ended, in steps

    def score(self, policy: TargetPolicy, probability: FloatArray, tau: float, beta: float) -> float:
        """Return the buffered quantile of a policy of this planner under a kernel; the plain quantile if beta is tiny."""
        beta = beta if beta >= LEVEL_SLACK else 0.0
        return float(buffered_rows(self.points, self.follower.law(policy, probability)[None], tau, beta)[0])

    def point(self, probability: FloatArray, tau: float, half: FloatArray | None = None) -> NextPlan:
        """Return the (optimistic) plan for the plain quantile."""
        done = sweep(self.model, self.grid, half=half, probability=probability, layout=self.layout)
        shortfall = done.root[:-1]
        grown = np.maximum.accumulate(shortfall)
        column = int(best_column(shortfall, tau))
        after = float(grown[column + 1]) if column + 1 < grown.size else 1.0
        policy = done.policy(float(self.points[column]))
        margin = Margin(tau - float(shortfall[column]), after - tau)
        nominal = self.score(policy, probability, tau, 0.0)
        error = self.error * grown if half is None else self.ball_error
        highest = int(np.count_nonzero(grown - error < tau)) - 1  # with ties, as in `GuaranteeCurve.upper`
        bound = float(self.points[max(column, highest)])
        return NextPlan(policy=policy, bound=bound, nominal=nominal, sweeps=1, margin=margin)

    def window(self, probability: FloatArray, tau: float, beta: float, half: FloatArray | None = None) -> NextPlan:
        """Return the (optimistic) plan for the buffered quantile, with the bound that the search certifies.

        If the buffer is below LEVEL_SLACK, as for levels near 0 and 1, rounding errors would decide; the plan is then `point`.
        """
        if beta < LEVEL_SLACK:
            return self.point(probability, tau, half)
        search = WidthSearch(
            mdp=self.model, grid=self.grid, tau=tau, beta=beta, half=half, probability=probability,
            layout=self.layout, follower=self.follower, begin=self.width, refine=False,
        )  # fmt: skip
        bound, column, width = search.upper(self.tolerance)
        if half is not None:
            found = search.policy(width, column)
            self.width = search.ended
            return NextPlan(policy=found.policy, bound=bound, nominal=found.value, sweeps=len(search.sweeps))
        policy, nominal = best_deterministic(search, column, width, bound - self.tolerance)
        if self.as_solve and nominal < bound - self.tolerance and self.width is not None:
            # No policy found attains the bound. The best policy found depends on the widths tried, so try those of `solve`.
            search = replace(search, begin=None, swept=search.sweeps | search.swept, sweeps={}, bounds={}, found={})
            bound, column, width = search.upper(self.tolerance)
            policy, nominal = best_deterministic(search, column, width, bound - self.tolerance)
        self.width = search.ended
        bound = max(bound, nominal)  # if the policy attains the bound, they differ by rounding
        return NextPlan(policy=policy, bound=bound, nominal=nominal, sweeps=len(search.swept | search.sweeps))
