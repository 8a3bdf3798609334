"""The best mean of a function of the return, by one sweep from the largest return down.

max over policies of E u(G):    terminal cost -u(z - n) with the target z = the largest return.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bqrl.checks import bad_type, bad_value, flag
from bqrl.laws.law import Law
from bqrl.laws.objectives import Objective
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.model import MDP
from bqrl.planners.plan import Plan
from bqrl.planners.registry import MaxBytes, Points, Tick
from bqrl.planners.room import MAX_BYTES
from bqrl.planners.terminal import Cost, plan_by_cost


@dataclass(frozen=True, slots=True)
class Utility(Objective):
    """The mean of a function of the return.

    Parameters
    ----------
    f : callable
        A function of one number, the return.
    increasing : bool
        Whether more is never worse. Then the value can be bracketed where returns lie on no lattice.

    Examples
    --------
    >>> import bqrl
    >>> goal = bqrl.Utility(lambda x: min(x, 12.0), increasing=True)
    >>> round(bqrl.solve(bqrl.envs.make("SafeOrRisky"), goal).value, 3)
    11.759
    """

    f: Callable[[float], float]
    increasing: bool = False

    def __post_init__(self) -> None:
        if not callable(self.f):
            raise bad_type("f", self.f, "be a function of one number")
        flag(self.increasing, "increasing")

    def __call__(self, law: Law) -> float:
        """Return E f(G)."""
        return law.expect(self.f)

    @property
    def label(self) -> str:
        """The name in tables and titles."""
        name = getattr(self.f, "__name__", "")
        return "mean utility" if name in ("", "<lambda>") else f"mean {name}"


def plan_utility(
    mdp: MDP, objective: Utility, *, points: Points = None, max_bytes: MaxBytes = MAX_BYTES, tick: Tick = None,
) -> Plan:  # fmt: skip
    """Return the policy with the best mean of a function of the return."""

    def cost(returns: FloatArray) -> Cost:
        worth = np.array([float(objective.f(x)) for x in returns.tolist()])
        if not np.isfinite(worth).all():
            x, y = next((x, y) for x, y in zip(returns.tolist(), worth.tolist(), strict=True) if not np.isfinite(y))
            raise bad_value("f", objective.f, "be finite on every possible return", f"f({x:g}) = {y:g}")
        top = float(worth.max())
        gain = np.full(returns.size, -np.inf)  # only the largest return is a target
        gain[-1] = top
        return Cost(needs=top - worth[::-1], weight=0.0, gain=gain)

    return plan_by_cost(
        mdp, objective, cost, points=points, max_bytes=max_bytes, tick=tick, monotone=objective.increasing
    )
