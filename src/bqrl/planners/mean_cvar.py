"""A weighted sum of the mean and CVaR, as in stochastic programming, by one sweep for all targets.

    (1 - w) E G + w CVaR_tau(G)  =  max_z { (1 - w) E G + w (z - E (z - G)^+ / tau) }:

terminal cost (w / tau) n^+ and weight 1 - w on the mean. Targets on the lattice lose nothing, because the expression is concave
and piecewise linear in z between possible returns. A deterministic target policy attains the optimum over all policies.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import ClassVar

from bqrl.checks import number
from bqrl.laws.law import Law
from bqrl.laws.objectives import Objective
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.model import MDP
from bqrl.planners.plan import Plan
from bqrl.planners.registry import MaxBytes, Points, Tick
from bqrl.planners.room import MAX_BYTES
from bqrl.planners.terminal import Cost, plan_by_cost


@dataclass(frozen=True, slots=True)
class MeanCVaR(Objective):
    """The sum (1 - weight) mean + weight CVaR at level tau.

    Parameters
    ----------
    tau : float
        Level of CVaR, in (0, 1].
    weight : float
        Weight of CVaR, from 0 (the mean) to 1 (CVaR).

    Examples
    --------
    >>> import bqrl
    >>> law = bqrl.Law([0, 2], [0.5, 0.5])
    >>> MeanCVaR(0.5, weight=0.25)(law)
    0.75
    """

    tau: float
    weight: float
    name: ClassVar[str] = "mean-cvar"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", number(self.tau, "tau", 0.0, 1.0, "(]"))
        object.__setattr__(self, "weight", number(self.weight, "weight", 0.0, 1.0))

    def __call__(self, law: Law) -> float:
        """Return the weighted sum of the mean and CVaR of a law."""
        return (1.0 - self.weight) * law.exact_mean + self.weight * law.cvar(self.tau)

    @property
    def label(self) -> str:
        """The name in tables and titles."""
        return f"{1.0 - self.weight:g} mean + {self.weight:g} CVaR at {self.tau:g}"


def plan_mean_cvar(
    mdp: MDP, objective: MeanCVaR, *, points: Points = None, max_bytes: MaxBytes = MAX_BYTES, tick: Tick = None,
) -> Plan:  # fmt: skip
    """Return the policy with the best weighted sum of mean and CVaR."""
    return plan_by_cost(
        mdp, objective, partial(mean_cvar_cost, objective), points=points, max_bytes=max_bytes, tick=tick, monotone=True
    )


def mean_cvar_cost(objective: MeanCVaR, returns: FloatArray) -> Cost:
    """Return what a sweep on these returns minimises."""
    w, tau = objective.weight, objective.tau
    return Cost(needs=w / tau * (returns - returns[0]), weight=1.0 - w, gain=w * returns)
