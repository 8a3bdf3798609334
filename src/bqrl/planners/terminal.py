"""Objectives that one sweep with a terminal cost on the need solves: the mean of a utility, and the mean with CVaR.

The terminal cost is a function of the need at the end, n = z - G for a target z. It is positive far above the highest return, so
the sweep has columns up to the whole range of returns (`extra`). Without a lattice the sweep runs on returns rounded down, whose
policy is proven to attain its value, and on returns rounded up, which bounds the optimum.

    (1 - w) E G + w CVaR_tau(G)  =  max_z { (1 - w) E G + w (z - E (z - G)^+ / tau) }:

terminal cost (w / tau) n^+ and weight 1 - w on the mean. Targets on the lattice lose nothing, because the expression is concave
and piecewise linear in z between possible returns. A deterministic target policy attains the optimum over all policies.

    max over policies of E u(G):    terminal cost -u(z - n) with the target z = the largest return.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from bqrl.checks import bad_type, bad_value, flag, number
from bqrl.errors import GridError
from bqrl.laws.law import Law
from bqrl.laws.objectives import Objective
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.find_grid import lattice, rounded_grid
from bqrl.mdp.grid import Lattice
from bqrl.mdp.model import MDP
from bqrl.planners.evaluate import BRACKET_POINTS, law_bracket
from bqrl.planners.facts import Bracketed, Fact
from bqrl.planners.options import MaxBytes, Points, Tick
from bqrl.planners.plan import Plan
from bqrl.planners.room import MAX_BYTES, check_memory
from bqrl.planners.sweep import Sweep, rounding_error, sweep
from bqrl.policies.target import TargetPolicy


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
        if self.weight in (0.0, 1.0):
            return f"CVaR at {self.tau:g}" if self.weight else "mean"
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What a sweep minimises on a grid: the cost of needs of 0, 1, ... steps, minus `weight` times the mean."""

    needs: FloatArray  # (steps of the whole range + 1,)
    weight: float
    gain: FloatArray  # (targets,) added to minus the value of each target: the objective value that it proves


def plan_by_cost(
    mdp: MDP, objective: Objective, cost: Callable[[FloatArray], Cost], *, points: int | None, max_bytes: float,
    tick: Callable[[int], None] | None, monotone: bool,
) -> Plan:  # fmt: skip
    """Return the best plan; `cost` is called with the returns of a grid. Without a lattice `monotone` must hold."""
    exact = lattice(mdp) if points is None else None
    if exact is None and not monotone:
        got = (
            f"points={points}, which rounds them" if points is not None else "a problem without one of a suitable size"
        )
        raise GridError(f"{objective.label} requires returns on a lattice, got {got}; state that it is increasing")
    columns = rounded_grid(mdp, points or BRACKET_POINTS) if exact is None else exact
    check_memory(mdp, columns, max_bytes, sweeps=2)
    best, target, policy = best_target(mdp, columns, cost, tick)
    law, law_upper = law_bracket(mdp, policy)
    value, notes = objective(law), tuple[Fact, ...]()
    if exact is not None:
        scale = rounding_error(mdp) * float(np.abs(cost(columns.points(0)).needs).max(initial=0.0))
        bound = value if best - value <= max(scale, 1e-9 * max(abs(value), abs(best))) else best
    else:
        bound, _, _ = best_target(mdp, rounded_grid(mdp, points or BRACKET_POINTS, up=True), cost, None)
        notes = (Bracketed(points=int(columns.size[0]), by_choice=lattice(mdp) is not None),)
    return Plan(
        objective=objective, planner="target", policy=policy, law=law, law_upper=law_upper, value=value,
        upper=max(value, bound), nominal=value, certain=True, exact=exact is not None, facts=notes, details={"target": target},
    )  # fmt: skip


def best_target(
    mdp: MDP, columns: Lattice, cost: Callable[[FloatArray], Cost], tick: Callable[[int], None] | None
) -> tuple[float, float, TargetPolicy]:
    """Return the best value that a target proves on a grid, that target, and its policy."""
    returns = columns.points(0)
    rule = cost(returns)
    done = cost_sweep(mdp, columns, rule.needs, weight=rule.weight, tick=tick)
    proven = rule.gain - done.root[: returns.size]
    i = int(proven.argmax())
    return float(proven[i]), float(returns[i]), done.policy(float(returns[i]))


def cost_sweep(mdp: MDP, columns: Lattice, needs: FloatArray, **options: Any) -> Sweep:
    """Return the sweep with a cost of needs of 0, 1, ... steps; a larger need costs as much as the last one."""
    needs = needs if needs.size > 1 else np.repeat(needs, 2)  # a sweep has at least one column above
    return sweep(mdp, columns, needs, extra=needs.size - 1, **options)
