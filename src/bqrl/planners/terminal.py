"""Plans by one sweep with a terminal cost on the need: what the mean of a utility and the mean with CVaR have in common.

The terminal cost is a function of the need at the end, n = z - G for a target z. It is positive far above the highest return, so
the sweep has columns up to the whole range of returns (`extra`). Without a lattice the sweep runs on returns rounded down, whose
policy is proven to attain its value, and on returns rounded up, which bounds the optimum.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bqrl.errors import GridError
from bqrl.laws.objectives import Objective
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.find_grid import lattice, rounded_grid
from bqrl.mdp.grid import Lattice
from bqrl.mdp.model import MDP
from bqrl.planners.cluster import Cluster
from bqrl.planners.evaluate import BRACKET_POINTS, law_bracket
from bqrl.planners.facts import Bracketed
from bqrl.planners.plan import Plan
from bqrl.planners.room import check_memory
from bqrl.planners.sweep import Sweep, rounding_error, sweep
from bqrl.policies.target import TargetPolicy


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
    value = objective(law)
    if exact is not None:
        scale = rounding_error(mdp) * float(np.abs(cost(columns.points(0)).needs).max(initial=0.0))
        upper = value if best - value <= max(scale, 1e-9 * max(abs(value), abs(best))) else best
        return Plan(
            objective=objective, planner="target", policy=policy, law=law, value=value, upper=max(value, upper),
            nominal=value, certain=True, exact=True, details={"target": target},
        )  # fmt: skip
    bound, _, _ = best_target(mdp, rounded_grid(mdp, points or BRACKET_POINTS, up=True), cost, None)
    return Plan(
        objective=objective, planner="target", policy=policy, law=law, law_upper=law_upper, value=value,
        upper=max(value, bound), nominal=value, certain=True, exact=False,
        notes=(Bracketed(points=int(columns.size[0]), by_choice=lattice(mdp) is not None),), details={"target": target},
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


def cost_sweep(
    mdp: MDP, columns: Lattice, needs: FloatArray, *, weight: float = 0.0, tick: Callable[[int], None] | None = None,
    cluster: Cluster | None = None,
) -> Sweep:  # fmt: skip
    """Return the sweep with a cost of needs of 0, 1, ... steps, up to the whole range of the returns."""
    needs = needs if needs.size > 1 else np.repeat(needs, 2)  # a sweep has at least one column above
    return sweep(mdp, columns, needs, extra=needs.size - 1, weight=weight, tick=tick, cluster=cluster)
