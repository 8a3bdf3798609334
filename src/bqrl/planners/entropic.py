"""The entropic risk measure: backward induction without a need or a grid.

    V_H(s) = 0,    V_h(s) = max_a -(1 / theta_h) log sum_{s'} P_h(s' | s, a) exp(-theta_h (r + gamma V_{h+1}(s'))),

with theta_h = theta gamma^h, because a reward of stage h counts gamma^h times. The optimum over all history-dependent policies
is attained by a Markov policy. As theta -> 0 the value tends to the mean.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bqrl.checks import bad_value, number
from bqrl.laws.law import Law, size_of
from bqrl.laws.objectives import Objective
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.find_grid import distinct_rewards
from bqrl.mdp.model import MDP
from bqrl.planners.evaluate import law_bracket
from bqrl.planners.expected import best_values
from bqrl.planners.plan import Plan


@dataclass(frozen=True, slots=True)
class Entropic(Objective):
    """The entropic risk measure -(1 / theta) log E exp(-theta G): the certainty equivalent of an exponential utility.

    Parameters
    ----------
    theta : float
        Aversion to risk, in units of 1 / reward; positive for a cautious policy, negative for one that seeks risk.

    Examples
    --------
    >>> import bqrl
    >>> round(Entropic(1.0)(bqrl.Law([0, 1], [0.5, 0.5])), 4)
    0.3799
    """

    theta: float
    name: ClassVar[str] = "entropic"

    def __post_init__(self) -> None:
        theta = number(self.theta, "theta")
        if theta == 0.0:
            raise bad_value("theta", theta, "not be 0", "0", remedy="use Mean() for the risk-neutral objective")
        object.__setattr__(self, "theta", theta)

    def __call__(self, law: Law) -> float:
        """Return the certainty equivalent of a law."""
        return float(certainty_equivalent(self.theta, law.values, law.probabilities, np.zeros(1, np.int64))[0])

    @property
    def label(self) -> str:
        """The name in tables and titles."""
        return f"entropic value at {self.theta:g}"


def certainty_equivalent(theta: float, values: FloatArray, probability: FloatArray, starts: IntArray) -> FloatArray:
    """Return -(1 / theta) log sum p exp(-theta x) of each group of outcomes; exponents are shifted, so none overflows."""
    exponents = np.where(probability > 0.0, -theta * values, -np.inf)
    sizes = np.diff(np.r_[starts, values.size])
    top = np.maximum.reduceat(exponents, starts)
    total = np.add.reduceat(probability * np.exp(exponents - np.repeat(top, sizes)), starts)
    return -(top + np.log(total)) / theta


def plan_entropic(mdp: MDP, objective: Entropic) -> Plan:
    """Return the policy with the best entropic value; it is exact with any rewards and any discount."""

    def worths(h: int, value: FloatArray) -> FloatArray:
        stage = mdp.stage(h)
        rows, worth = np.flatnonzero(np.diff(stage.row_start)), np.full(mdp.S * mdp.A, -np.inf)
        gain = stage.reward + mdp.discount * value[stage.successor]
        theta = objective.theta * mdp.discount**h
        worth[rows] = certainty_equivalent(theta, gain, stage.probability, stage.row_start[rows])
        return worth

    value, policy = best_values(mdp, worths, size_of(distinct_rewards(mdp)))
    first = np.flatnonzero(mdp.mu)
    optimum = float(certainty_equivalent(objective.theta, value[first], mdp.mu[first], np.zeros(1, np.int64))[0])
    law, law_upper = law_bracket(mdp, policy)
    return Plan(
        objective=objective, planner="backward", policy=policy, law=law, law_upper=law_upper, value=optimum, upper=optimum,
        nominal=optimum, certain=True, exact=True,
    )  # fmt: skip
