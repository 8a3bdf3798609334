"""Planning for the buffered quantile, with a proven upper bound on the optimum.

For a return G, with z a target and d a width:

    beta * Q^beta_tau(G) = max_z min_{d >= 0} { beta z + (tau - beta) d - E[clip(z - G, 0, d)] }.

For each width d, one sweep with terminal cost clip(n, 0, d) gives J_d(z) = min over policies of E[clip(z - G, 0, d)] for
all targets z, so F(z, d) = beta z + (tau - beta) d - J_d(z) bounds the term in braces for every policy, and

    U = max_z min_d F(z, d) / beta

is an upper bound on the optimum for any set of widths; widths.py searches for the decisive ones. If d runs over all real
widths, U is exactly the optimum over randomized policies (minimax theorem). It is attained by one random draw at the start,
between at most two target policies with the same z.

The lower bound is the exact buffered quantile of the best deterministic policy found in the search. At width 0 the sweep is
identically zero. For widths up to one step J_d = d W, so the policy of W is used there. If the buffer is at most the margin
tau - W_0(x*), the optimum is the quantile itself.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any

import numpy as np

from bqrl.checks import bad_value
from bqrl.errors import GridError
from bqrl.laws.law import MASS_TOL, size_of
from bqrl.laws.objectives import check_levels, quantile_objective
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.find_grid import lattice, rounded_grid
from bqrl.mdp.model import MDP
from bqrl.planners.branch import MAX_NODES
from bqrl.planners.cluster import Cluster, as_cluster
from bqrl.planners.cvar import cvar_curve, cvar_on_pairs
from bqrl.planners.deterministic import prove_deterministic
from bqrl.planners.evaluate import BRACKET_POINTS, evaluate, law_bracket
from bqrl.planners.expected import risk_neutral
from bqrl.planners.facts import Bracketed, BufferBelowMargin, Fact, NeutralWins, NoFinerGrid, Tied
from bqrl.planners.options import Gap, MaxBytes, Pairs, Points, Tick, count, switch
from bqrl.planners.plan import GAP_TOL, Plan, is_steady
from bqrl.planners.room import MAX_BYTES, Room, check_memory, fits
from bqrl.planners.sweep import best_column, rounding_error
from bqrl.planners.target import choose_pairs, curve_over, finer_size
from bqrl.planners.widths import LINE_TOL, WidthSearch, best_deterministic, best_mix
from bqrl.policies.protocol import Policy


def plan_buffered(
    mdp: MDP, tau: float, beta: float, *, randomized: Annotated[bool | None, switch] = None, points: Points = None,
    gap: Gap = None, pairs: Pairs = None, max_nodes: Annotated[int, count(1)] = MAX_NODES, max_bytes: MaxBytes = MAX_BYTES,
    cluster: Any = None, tick: Tick = None,
) -> Plan:  # fmt: skip
    """Return the best policy for the buffered quantile, with a proven upper bound.

    With `randomized=True` the plan is the mixture of at most two policies that attains the upper bound. With
    `randomized=False` the policy is proven to be the best deterministic one, up to `gap` if given. If the policy found is
    below the bound, the randomness of the problem replaces the random draw of the mixture. If that is not enough, a search
    over histories follows, with at most `max_nodes` nodes. Without a lattice the plan is a bracket, on `points` points or of
    width `gap`; CVaR is exact where the pairs of a state and an amount earned are few (`pairs`, as for a quantile). The workers
    of a `cluster` share every sweep.
    """
    tau, beta = check_levels(tau, beta)
    shared = as_cluster(cluster)
    columns, or_rounded = lattice(mdp), randomized is None and (points is not None or gap is not None)
    if pairs and beta < tau:
        raise bad_value("pairs", pairs, "be omitted with a buffer below tau", remedy="only CVaR is planned on pairs")
    room = Room(max_bytes=max_bytes, cluster=shared)
    if beta == tau and (met := choose_pairs(mdp, pairs, points, room, averaged=True)) is not None:
        return cvar_on_pairs(met, tau).plan(tau)
    if columns is not None and not fits(
        mdp, columns, max_bytes, or_rounded=or_rounded, sweeps=2, shared=shared is not None
    ):
        columns = None  # two sweeps, because wide buffers double the columns
    if columns is None or points is not None:
        if randomized is not None:
            got = f"points={points}, which rounds them; omit points"
            if columns is None:
                got = "a problem without one of a suitable size; omit randomized"
            raise GridError(f"randomized={randomized} requires returns on a lattice, got {got}", name="randomized")
        return _narrow_bracket(mdp, tau, beta, points or BRACKET_POINTS, gap, max_bytes, columns is not None, shared)
    if beta == tau:
        return cvar_curve(mdp, points=None, room=room, tick=tick).plan(tau)
    curve = curve_over(mdp, points=None, room=room, tick=tick)
    if curve.exact and beta <= curve.margin(tau).below - MASS_TOL and curve.certain(tau):
        policy = curve.policy(tau)
        value = evaluate(mdp, policy).buffered_quantile(tau, beta)
        notes = (BufferBelowMargin(margin=curve.margin(tau).below),)
        return _plan(mdp, tau, beta, policy, value, curve(tau), {"sweeps": 1}, notes=notes, certain=True)

    search = WidthSearch(mdp=mdp, grid=columns, tau=tau, beta=beta, max_bytes=int(max_bytes // 2), cluster=shared)
    bound, column, width = search.upper()
    enough = bound - LINE_TOL * size_of(search.targets)
    found: tuple[Policy, float] = best_deterministic(search, column, width, enough)
    upper = max(min(bound, curve.upper(tau)) if curve.exact else bound, found[1])
    details: dict[str, Any] = {"sweeps": len(search.sweeps), "target": float(search.targets[column]), "width": width}
    tol, slack = GAP_TOL * size_of(search.targets), _slack(mdp, search.targets, tau, beta)
    if randomized is None or found[1] >= upper - tol:
        return _plan(mdp, tau, beta, *found, upper, details, slack=slack)
    if randomized:
        mix, mixed = best_mix(search, column)
        return _plan(mdp, tau, beta, mix, mixed, max(upper, mixed), details, slack=slack)
    accepted = tol if gap is None else gap
    best, value, note = prove_deterministic(search, column, width, *found, upper, accepted, max_nodes)
    if gap is None:
        details["randomized"] = upper  # attained by randomized policies only
    plan = _plan(mdp, tau, beta, best, value, max(upper, value), details, notes=(note,), slack=slack)
    return plan if plan.certain else replace(plan, facts=(note, Tied(averaged=True)))


def _plan(
    mdp: MDP, tau: float, beta: float, policy: Policy, value: float, upper: float, details: dict[str, Any], *,
    notes: tuple[Fact, ...] = (), certain: bool | None = None, slack: float = 0.0,
) -> Plan:  # fmt: skip
    """Return the plan of a policy on a lattice; `slack` is added to the upper bound of a plan that is not certain."""
    law = evaluate(mdp, policy)
    if abs(upper - value) <= LINE_TOL * size_of(law.values):
        upper = value  # they differ only by rounding
    certain = is_steady(law, tau, beta, rounding_error(mdp)) if certain is None else certain
    return Plan(
        objective=quantile_objective(tau, beta), planner="target", policy=policy, law=law, value=value,
        upper=upper if certain else upper + slack, nominal=law.buffered_quantile(tau, beta), exact=True,
        certain=certain, facts=notes, details=details,
    )  # fmt: skip


def _slack(mdp: MDP, targets: FloatArray, tau: float, beta: float) -> float:
    """Return the rounding error of a bound if it exceeds GAP_TOL, else 0: costs up to tau * range are divided by beta."""
    error = rounding_error(mdp) * float(np.ptp(targets)) * tau / beta
    return error if error > GAP_TOL * size_of(targets) else 0.0


def _narrow_bracket(
    mdp: MDP, tau: float, beta: float, points: int, gap: float | None, max_bytes: float, by_choice: bool,
    cluster: Cluster | None,
) -> Plan:  # fmt: skip
    """Return a bracket on `points` points, refined until its gap is at most `gap` or stops shrinking."""
    plan = _bracket(mdp, tau, beta, points, max_bytes, by_choice, cluster)
    while gap is not None and (width := plan.gap or 0.0) > gap:
        following = finer_size(points, width / gap)
        points, growth = following, following / points
        finer_plan = _bracket(mdp, tau, beta, points, max_bytes, by_choice, cluster)
        upper = min(bound for one in (plan, finer_plan) if (bound := one.upper) is not None)
        plan = replace(max(finer_plan, plan, key=lambda one: one.value), upper=upper)
        left = plan.gap or 0.0  # rounding shrinks with the grid; the gap to randomized policies remains
        if left > max(gap, 0.8 * width) and growth * left - width > (growth - 1.0) * gap:
            return replace(plan, facts=(*plan.facts, NoFinerGrid(gap=gap)))
    return plan


def _bracket(
    mdp: MDP, tau: float, beta: float, points: int, max_bytes: float, by_choice: bool, cluster: Cluster | None
) -> Plan:
    """Return a proven bracket: the bound is computed on returns rounded up, the policy on returns rounded down."""
    if beta == tau:
        return cvar_curve(mdp, points=points, room=Room(max_bytes=max_bytes, cluster=cluster)).plan(tau)
    low, high = rounded_grid(mdp, points), rounded_grid(mdp, points, up=True)
    check_memory(mdp, low, max_bytes, sweeps=2, shared=cluster is not None)
    over = WidthSearch(mdp=mdp, grid=high, tau=tau, beta=beta, max_bytes=int(max_bytes // 4), cluster=cluster)
    upper, _, _ = over.upper()
    under = WidthSearch(mdp=mdp, grid=low, tau=tau, beta=beta, max_bytes=int(max_bytes // 4), cluster=cluster)
    _, column, width = under.upper()
    for d in sorted(under.sweeps, key=lambda d: abs(d - width))[:3]:  # the policies of a mixture have adjacent widths
        under.policy(d, column)
    under.bound(1.0)
    short = under.sweeps[1.0].root[: under.targets.size]
    for level in (tau, tau - beta / 2, tau - beta):  # some of the averaged quantiles
        under.policy(1.0, int(best_column(short, level)))
    policy: Policy
    policy, value = best_deterministic(under, column, width, scored=mdp)
    law, law_upper = law_bracket(mdp, policy)
    notes: list[Fact] = [Bracketed(points=int(low.size[0]), by_choice=by_choice, lattice=True)]
    neutral, mean_law, mean_upper = risk_neutral(mdp, int(low.size[0]))
    if (of_mean := mean_law.buffered_quantile(tau, beta)) > value:
        policy, law, law_upper, value = neutral, mean_law, mean_upper, of_mean
        notes.append(NeutralWins())
    certain = is_steady(law, tau, beta, rounding_error(mdp))
    return Plan(
        objective=quantile_objective(tau, beta), planner="target", policy=policy, law=law, law_upper=law_upper, value=value,
        upper=max(upper if certain else upper + _slack(mdp, high.points(0), tau, beta), value), nominal=value,
        certain=certain, exact=False,
        facts=tuple(notes), details={"sweeps": len(over.sweeps) + len(under.sweeps)},
    )  # fmt: skip
