"""Planning for the buffered quantile, with a certificate.

For a law of returns G (design of the target planner; z is a target, d = z - y a width):

    beta * Q^beta_tau(G) = max_z min_{d >= 0} { beta z + (tau - beta) d - E[clip(z - G, 0, d)] }.

For one width d a sweep with terminal cost clip(n, 0, d) gives J_d(z) = min over policies of E[clip(z - G, 0, d)] for all
targets z at once, so F(z, d) = beta z + (tau - beta) d - J_d(z) bounds every policy, and

    U = max_z min_d F(z, d) / beta

is an upper bound on the optimum for any set of widths; widths.py searches for those that decide. With real widths U is
exactly the optimum over randomized policies (minimax), attained by one coin at the start between at most two target
policies with the same z.

L is the exact buffered quantile of the best deterministic policy met on the way. At width 0 the sweep is identically
zero, and up to one step J_d = d W: the policy of W serves there. A buffer no wider than the margin tau - W_0(x*) changes
nothing: the optimum is then the point quantile itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bqrl.kernels.tolerance import MASS_TOL
from bqrl.laws.functionals import reaches
from bqrl.mdp.find_grid import lattice, rounded
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import Policy
from bqrl.planners.branch import MAX_NODES
from bqrl.planners.deterministic import prove_deterministic
from bqrl.planners.evaluate import BRACKET_POINTS, evaluate
from bqrl.planners.plan import GAP_TOL, Plan, check_levels, level_error
from bqrl.planners.sweep import rounding_error
from bqrl.planners.target import (
    MAX_BYTES,
    NEUTRAL_WINS,
    as_law,
    check_memory,
    finer,
    guarantee_curve,
    plan_from_curve,
    risk_neutral,
    sweep_bytes,
    why_rounded,
)
from bqrl.planners.widths import LINE_TOL, WidthSearch, best_deterministic, best_mix


def plan_buffered(
    mdp: MDP,
    tau: float,
    beta: float,
    *,
    randomized: bool = False,
    exact: bool = False,
    points: int | None = None,
    gap: float | None = None,
    max_nodes: int = MAX_NODES,
    max_bytes: int = MAX_BYTES,
    tick: Callable[[int], None] | None = None,
) -> Plan:
    """The best policy for the buffered quantile, with a proven upper bound.

    `randomized` returns the two-policy mix whose value is the upper bound; `exact` proves the best deterministic policy
    (up to `gap`, where one is given): where the policy found falls short of the bound, first by a policy that lets chance
    within the problem play the coin, then by branching over histories, at most `max_nodes` times. Without a lattice the
    plan is a bracket, on `points` points or of width `gap`.
    """
    begun = time.perf_counter()
    tau, beta = check_levels(tau, beta)
    columns = lattice(mdp)
    if columns is not None and sweep_bytes(mdp, columns) > max_bytes // 2:  # wide buffers double the columns
        columns = None
    if columns is None or points is not None:
        if randomized or exact:
            asked = "randomized" if randomized else "exact"
            raise ValueError(f"{asked}=True needs returns on a lattice; this problem has none of a fitting size")
        size = points or BRACKET_POINTS
        by_choice = columns is not None
        plan = _bracket(mdp, tau, beta, size, max_bytes, by_choice)
        while gap is not None and (width := plan.gap or 0.0) > gap:
            following = finer(size, width / gap)
            size, growth = following, following / size
            finer_plan = _bracket(mdp, tau, beta, size, max_bytes, by_choice)
            upper = min(bound for one in (plan, finer_plan) if (bound := one.upper) is not None)
            plan = replace(max(finer_plan, plan, key=lambda one: one.value), upper=upper)
            left = plan.gap or 0.0  # a part that shrinks with the grid, and one that stays
            if left > max(gap, 0.8 * width) and growth * left - width > (growth - 1.0) * gap:
                note = f"finer grids do not bring it to {gap:g}: what is left lies between policies without a coin and with one"
                plan = replace(plan, notes=(*plan.notes, note))
                break
        return plan.with_time(time.perf_counter() - begun)
    curve = guarantee_curve(mdp, max_bytes=max_bytes, tick=tick)
    if curve.exact and beta <= curve.margin(tau).below - MASS_TOL and curve.certain(tau):
        point = plan_from_curve(curve, tau)
        value = as_law(point.law).buffered_quantile(tau, beta)
        note = f"the buffer lies within the margin {curve.margin(tau).below:.3g}: the optimum is the quantile itself"
        return _plan(mdp, tau, beta, point.policy, value, curve(tau), (note,), begun, {"sweeps": 1}, certain=True)

    search = WidthSearch(mdp=mdp, grid=columns, tau=tau, beta=beta, max_bytes=max_bytes // 2)
    bound, column, width = search.upper()
    policy, value = best_deterministic(search, column, width, bound - LINE_TOL * max(1.0, abs(bound)))
    upper = max(min(bound, curve.upper(tau)) if curve.exact else bound, value)
    details: dict[str, Any] = {"sweeps": len(search.sweeps), "target": float(search.targets[column]), "width": width}
    tol = GAP_TOL * max(1.0, abs(upper))
    if randomized and value < upper - tol:
        mix, mixed = best_mix(search, column)
        return _plan(mdp, tau, beta, mix, mixed, max(upper, mixed), (), begun, details)
    if exact and value < upper - tol:
        accepted = tol if gap is None else gap
        best, value, notes = prove_deterministic(search, column, width, policy, value, upper, accepted, max_nodes)
        found = {"randomized": upper} if gap is None else {}  # the best is proven: only a coin could reach this
        plan = _plan(mdp, tau, beta, best, value, max(upper, value), notes, begun, details | found)
        if not plan.certain:
            plan = replace(plan, notes=(*notes, "all that up to rounding: a probability ties with a level"))
        return plan
    return _plan(mdp, tau, beta, policy, value, upper, (), begun, details)


def _plan(
    mdp: MDP, tau: float, beta: float, policy: Any, value: float, upper: float, notes: tuple[str, ...], begun: float,
    details: dict[str, Any], *, certain: bool | None = None,
) -> Plan:  # fmt: skip
    law = evaluate(mdp, policy)
    if abs(upper - value) <= LINE_TOL * max(1.0, abs(value)):
        upper = value  # they differ by rounding alone
    if certain is None:
        certain = level_error(as_law(law), tau, beta, rounding_error(mdp)) <= GAP_TOL * max(1.0, abs(value))
    return Plan(
        tau, beta, "target", policy, law, value, upper, as_law(law).buffered_quantile(tau, beta), certain, True,
        seconds=time.perf_counter() - begun, notes=notes, details=details,
    )  # fmt: skip


def _bracket(mdp: MDP, tau: float, beta: float, points: int, max_bytes: int, by_choice: bool) -> Plan:
    """Proven bracket where no lattice fits: the bound from returns rounded up, the policy from returns rounded down."""
    low, high = rounded(mdp, points), rounded(mdp, points, up=True)
    check_memory(mdp, low, max_bytes // 2)
    over = WidthSearch(mdp=mdp, grid=high, tau=tau, beta=beta, max_bytes=max_bytes // 4)
    upper, _, _ = over.upper()
    under = WidthSearch(mdp=mdp, grid=low, tau=tau, beta=beta, max_bytes=max_bytes // 4)
    _, column, width = under.upper()
    for d in sorted(under.sweeps, key=lambda d: abs(d - width))[:3]:  # a mix's two policies belong to neighbours
        under.policy(d, column)
    under.bound(1.0)
    short = np.maximum.accumulate(under.sweeps[1.0].root[: under.targets.size])
    for level in (tau, tau - beta / 2, tau - beta):  # the quantiles that are averaged
        under.policy(1.0, int(np.flatnonzero(reaches(short, level))[-1]))
    policy: Policy
    policy, value = best_deterministic(under, column, width, scored=mdp)
    law = evaluate(mdp, policy)
    notes = [f"{why_rounded(by_choice)}: bracket on {low.size[0]} points"]
    neutral, mean_law = risk_neutral(mdp, int(low.size[0]))
    if (of_mean := as_law(mean_law).buffered_quantile(tau, beta)) > value:
        policy, law, value = neutral, mean_law, of_mean
        notes.append(NEUTRAL_WINS)
    certain = level_error(as_law(law), tau, beta, rounding_error(mdp)) <= GAP_TOL * max(1.0, abs(value))
    return Plan(
        tau, beta, "target", policy, law, value, max(upper, value), value, certain, False, notes=tuple(notes),
        details={"sweeps": len(over.sweeps) + len(under.sweeps)},
    )  # fmt: skip
