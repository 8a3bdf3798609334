"""Bounds on the guarantee curve of a problem with continuous states, from the curves of its two finite models."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.display import Charted
from bqrl.mdp.grid_step import GridModel
from bqrl.planners.sweep import Sweep
from bqrl.policies.on_grid import GridPolicy
from bqrl.policies.protocol import Policy

LEVELS = (0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9)  # of the rows of a curve


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class GridCurve(Charted):
    """Bounds on the best tau-quantile for every tau of a problem with continuous states; made by `guarantee_curve`.

    Attributes
    ----------
    model : GridModel
        The problem.
    low, high : GuaranteeCurve
        The curves of its two finite models.

    Examples
    --------
    >>> import bqrl, numpy as np
    >>> def step(state, action, event):
    ...     return (state[0] + action * event,), action * event
    >>> grid = {"wealth": np.linspace(-2.0, 2.0, 41)}
    >>> model = bqrl.from_step(step, [0, 1], {-0.5: 0.1, 0.5: 0.9}, 3, (0.0,), grid=grid, monotone={"wealth": 1})
    >>> curve = bqrl.guarantee_curve(model)
    >>> curve(0.2), curve.upper(0.2)
    (1.0, 1.0)
    """

    model: GridModel
    low: Any  # a GuaranteeCurve; its module imports this one
    high: Any

    def __call__(self, tau: float) -> float:
        """Return the proven lower end at level tau, which the policy attains; -inf if too many runs leave the grid."""
        value, model = float(self.low(tau)), self.model
        return -math.inf if model.infinite[0] and value < model.ends[0] - _slack(model) else value - model.total_error

    def upper(self, tau: float) -> float:
        """Return the proven upper bound at level tau; inf if too many runs leave the grid."""
        value, model = float(self.high.upper(tau)), self.model
        return math.inf if model.infinite[1] and value > model.ends[1] + _slack(model) else value + model.total_error

    def chance(self, target: float) -> tuple[float, float, Policy]:
        """Return the bounds on the best probability of reaching `target`, and the policy that attains the lower one."""
        low, high = target + self.model.total_error, target - self.model.total_error
        low = max(low, self.model.ends[0]) if self.model.infinite[0] else low
        high = min(high, self.model.ends[1]) if self.model.infinite[1] else high
        assert isinstance(self.low.sweep, Sweep)
        short = float(self.low.sweep.root[int(self.low.sweep.grid.column(0, low))]) * (1.0 + self.low.error)
        points, shortfall = self.high.optimistic or (self.high.points, self.high.shortfall)
        place = int(np.searchsorted(points, high - 1e-12 * max(1.0, abs(high))))
        least = float(shortfall[place]) if place < points.size else 1.0
        return max(0.0, 1.0 - short), 1.0 - least * (1.0 - self.high.error), self.low.policy_for(low)

    def policy(self, tau: float) -> GridPolicy:
        """Return a policy that attains the lower end at this level."""
        return GridPolicy(self.low.policy(tau), self.model)

    def rows(self) -> list[dict[str, float]]:
        """Return one row per level: the proven lower and upper end."""
        return [{"level": tau, "value": self(tau), "upper": self.upper(tau)} for tau in LEVELS]

    def __repr__(self) -> str:
        return f"GridCurve({self.model!r})"


def _slack(model: GridModel) -> float:
    """Return a tolerance for returns at the ends of what a run on the grid can pay."""
    return 1e-9 * max(1.0, abs(model.ends[0]), abs(model.ends[1]))
