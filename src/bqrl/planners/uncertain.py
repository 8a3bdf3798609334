"""Planning when each row of the kernel is known only up to an l1 ball within its known support.

Optimistic plans replace each expectation of the sweep by its minimum over ||p - P||_1 <= eps. The minimising kernel may
depend on the remaining need, which only enlarges the set. The value is therefore at least the joint optimum over policies and
kernels in the ball (the paper's Equation confset and Algorithm 2). Coordinate ascent over the rows, stage by stage, finds one
kernel in the ball, which gives a lower bound on the joint optimum.

Robust plans use the maximum. W_rob(x) < tau proves Q_tau >= x under every kernel of the ball. For the buffered quantile the
mirrored formula is not a guarantee, because it uses a different policy for each width. Instead, fixed policies are evaluated
robustly, with a separate worst kernel for every target z and width:

    L(pi) = max_z min_{y <= z} { tau z - (tau - beta) y - max_p E_pi[clip(z - G, 0, z - y)] } / beta.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import pairwise
from typing import Annotated, Any

import numpy as np

from bqrl.checks import bad_value, numbers
from bqrl.errors import GridError, SizeError
from bqrl.laws.law import size_of
from bqrl.laws.objectives import Quantile, quantile_objective
from bqrl.loops.ball import follow, improve_rows, push_needs
from bqrl.loops.layout import Rows
from bqrl.mdp.arrays import FloatArray, read_only
from bqrl.mdp.find_grid import cut_to_possible, lattice, rounded_grid
from bqrl.mdp.grid import Grid, Lattice, Rounded
from bqrl.mdp.model import MDP
from bqrl.planners.buffered import plan_buffered
from bqrl.planners.evaluate import BRACKET_POINTS, evaluate, law_bracket
from bqrl.planners.expected import is_settled
from bqrl.planners.facts import Fact, Guaranteed, RoundedReturns, Tied
from bqrl.planners.options import MaxBytes, Points, one_of
from bqrl.planners.plan import GAP_TOL, Plan
from bqrl.planners.room import MAX_BYTES, Room, check_memory, exact_grid
from bqrl.planners.sweep import OPTIMISTIC, ROBUST, SHORTFALL, best_column, rounding_error, sweep
from bqrl.planners.target import curve_over, plan_target
from bqrl.planners.widths import WidthSearch, best_deterministic, clipped_cost
from bqrl.planners.worst_case import FixedPolicy, fixed_policy, robust_work
from bqrl.policies.forward import sums_on
from bqrl.policies.protocol import Policy
from bqrl.policies.target import TargetPolicy

ASCENT_ROUNDS = 8
ASCENT_WORK = 5_000_000  # stored outcomes of the stage-wise kernel above which the ascent is skipped
ROBUST_WORK = 20_000_000_000  # elementary steps of the robust evaluation of one target
ROBUST_POINTS = 1000  # size of a rounded grid for robust plans with a buffer
OPTIMISTIC_POINTS = 5000  # the same for optimistic plans, which need no robust evaluation
LATTICE_WORK = 200_000  # up to this many elementary steps per target and width, robust plans use a larger lattice
FIRST_WIDTHS = 16  # approximate number of widths evaluated per target


def check_radius(mdp: MDP, radius: Any) -> FloatArray:
    """Return the radius as an array; ArgumentError if a radius is negative or the shape is invalid."""
    eps = numbers(radius, "radius", 0.0)
    if eps.shape not in ((), (mdp.S, mdp.A), (mdp.H, mdp.S, mdp.A)):
        rule = f"be a number or have shape {(mdp.H, mdp.S, mdp.A)} or {(mdp.S, mdp.A)}"
        raise bad_value("radius", radius, rule, f"shape {eps.shape}")
    return eps


def per_row(value: Any, name: str, mdp: MDP) -> None:
    """Check numbers of at least 0 with one entry per stage, state and action."""
    given = numbers(value, name, 0.0).shape
    if given != (mdp.H, mdp.S, mdp.A):
        raise bad_value(name, value, f"have shape {(mdp.H, mdp.S, mdp.A)}", given)


def half_radius(mdp: MDP, radius: Any) -> FloatArray:
    """Return half the l1 radius of every row, shape (H, S*A), from a number or an array; known rows have radius 0."""
    eps = check_radius(mdp, radius)
    full = np.where(mdp.known, 0.0, np.broadcast_to(eps, (mdp.H, mdp.S, mdp.A)))
    return np.minimum(full, 2.0).reshape(mdp.H, mdp.S * mdp.A) / 2.0


def plan_uncertain(
    mdp: MDP, tau: float, beta: float, radius: Any, attitude: Annotated[str, one_of("robust", "optimistic")], *,
    missing: Annotated[FloatArray | None, per_row] = None, points: Points = None, max_bytes: MaxBytes = MAX_BYTES,
) -> Plan:  # fmt: skip
    """Return the optimistic or robust plan; with radius 0, the nominal plan.

    `missing` (H, S, A) applies to robust plans. If it is positive, the last outcome of the row is not part of the ball and
    may have at most this mass; this last outcome must be the worst of the row.
    """
    half = half_radius(mdp, radius)
    if not half.any():
        if beta == 0.0:
            given = plan_target(mdp, tau, points=points, max_bytes=max_bytes)
        else:
            given = plan_buffered(mdp, tau, beta, points=points, max_bytes=max_bytes)
        alone = {"joint_lower": given.value, "joint_kernel": mdp.staged().probability}  # the only kernel of the ball
        # Ties can be decided in exact fractions only for plans without a ball, so that remedy is left out.
        facts = tuple(Tied() if isinstance(note, Tied) else note for note in given.facts)
        details = given.details | (alone if attitude == "optimistic" else {})
        return replace(given, attitude=attitude, facts=facts, details=details)
    if missing is not None:
        if attitude != "robust":
            raise bad_value(
                "missing", missing, "be None unless attitude is 'robust'", "an array", remedy="leave it out"
            )
        missing = np.where(half > 0.0, np.reshape(missing, (mdp.H, -1)), 0.0)
    if beta == 0.0:
        return _plan_quantile(mdp, tau, half, missing, attitude, points, max_bytes)
    if attitude == "robust":
        columns = _robust_grid(mdp, points, max_bytes)
        return _plan_robust_buffered(mdp, tau, beta, half, missing, columns, points or ROBUST_POINTS)
    return _plan_optimistic_buffered(mdp, tau, beta, half, _optimistic_grid(mdp, points, max_bytes))


def _plan_quantile(
    mdp: MDP, tau: float, half: FloatArray, missing: FloatArray | None, attitude: str, points: int | None, max_bytes: float,
) -> Plan:  # fmt: skip
    """Return the plan for the plain quantile, from one sweep."""
    optimistic = attitude == "optimistic"
    columns = exact_grid(mdp, max_bytes) if points is None else None
    if columns is None:
        columns = rounded_grid(mdp, points or BRACKET_POINTS, up=optimistic)
        check_memory(mdp, columns, max_bytes)
    if optimistic:
        done = sweep(mdp, columns, half=half, sense=OPTIMISTIC)
    else:
        done = sweep(mdp, columns, half=half, sense=ROBUST, missing=missing)
    best, highest, certain = _best_target(done.root[:-1], tau, rounding_error(mdp, ball=True))
    target, upper = columns.points(0)[[best, highest]].tolist()
    policy = done.policy(target)
    law, law_upper = law_bracket(mdp, policy)
    nominal, details = law.quantile(tau), {"shortfall": read_only(done.root[:-1])}
    certain = certain and is_settled(law, tau, 0.0, rounding_error(mdp))
    notes: list[Fact] = [] if certain else [Tied()]
    if optimistic:
        value, upper = nominal, max(upper, nominal)
        if columns.exact:
            details |= ascend(mdp, half, tau, 0.0, policy, SHORTFALL, nominal)
    else:
        # With a ball of radius 0 the compiled sweep is reused; a sweep without a ball would be compiled only for this bound.
        curve = curve_over(mdp, points=points, room=Room(max_bytes=max_bytes), half=np.zeros_like(half))
        value = float(cut_to_possible(mdp, target))
        upper = max(value, curve.upper(tau))
        notes.insert(0, Guaranteed(value=value, objective=Quantile(tau)))
    notes += rounding_notes(columns)
    return Plan(
        objective=Quantile(tau), planner="target", policy=policy, law=law, law_upper=law_upper, value=value, upper=upper,
        nominal=nominal, certain=certain, exact=columns.exact, attitude=attitude, facts=tuple(notes), details=details,
    )  # fmt: skip


def rounding_notes(columns: Grid) -> tuple[Fact, ...]:
    """Return the fact that a grid is rounded; an exact grid has none."""
    if not isinstance(columns, Rounded):
        return ()
    return (RoundedReturns(points=int(columns.size[0]), error=columns.error, up=columns.up),)


def _best_target(shortfall: FloatArray, tau: float, error: float) -> tuple[int, int, bool]:
    """Return the columns of the highest target reached and of the highest target that may be reached, and certainty.

    `error` bounds the rounding error of the shortfalls. The result is certain if the two columns are equal and rounding cannot
    have changed the answer.
    """
    grown = np.maximum.accumulate(shortfall)
    i = int(best_column(grown, tau))
    highest = max(i, int(np.flatnonzero(grown - error < tau)[-1]))
    return i, highest, highest == i and (grown[i] == 0.0 or bool(grown[i] + error < tau))


def _optimistic_grid(mdp: MDP, points: int | None, max_bytes: float) -> Lattice:
    """Return the lattice of the returns or, if there is none, a grid of returns rounded up."""
    columns = lattice(mdp) if points is None else None
    if columns is None:
        columns = rounded_grid(mdp, points or OPTIMISTIC_POINTS, up=True)
    check_memory(mdp, columns, max_bytes, sweeps=2)
    return columns


def _plan_optimistic_buffered(mdp: MDP, tau: float, beta: float, half: FloatArray, columns: Lattice) -> Plan:
    """Return the plan of the optimistic kernel, whose policy need not be the best one in the nominal model."""
    search = WidthSearch(mdp=mdp, grid=columns, tau=tau, beta=beta, half=half, sense=OPTIMISTIC)
    upper, column, width = search.upper()
    policy = search.policy(width, column).policy
    law, law_upper = law_bracket(mdp, policy)
    nominal = law.buffered_quantile(tau, beta)
    details = {"sweeps": len(search.sweeps), "target": float(search.targets[column]), "width": width}
    if columns.exact:
        details |= ascend(mdp, half, tau, beta, policy, clipped_cost(max(width, 1.0)), nominal)
    error = _ball_error(mdp, columns, beta)
    search.bound(1.0)  # computes the shortfalls; the buffered quantile is at most the quantile
    _, highest, _ = _best_target(search.sweeps[1.0].root[: search.targets.size], tau, rounding_error(mdp, ball=True))
    upper = max(min(upper + error, float(search.targets[highest])), nominal)
    return Plan(
        objective=quantile_objective(tau, beta),
        planner="target", policy=policy, law=law, law_upper=law_upper, value=nominal, upper=upper,
        nominal=nominal, certain=error <= GAP_TOL * size_of(search.targets), exact=columns.exact, attitude="optimistic",
        facts=rounding_notes(columns), details=details,
    )  # fmt: skip


def _robust_grid(mdp: MDP, points: int | None, max_bytes: float) -> Lattice:
    """Return the lattice of the returns; a grid of returns rounded down if there is none or evaluation would take long."""
    columns = lattice(mdp) if points is None else None
    if columns is not None and (
        columns.size[0] <= ROBUST_POINTS or robust_work(mdp, sums_on(mdp, columns)) <= LATTICE_WORK
    ):
        check_memory(mdp, columns, max_bytes, sweeps=2)
        return columns
    columns = rounded_grid(mdp, points or ROBUST_POINTS)
    check_memory(mdp, columns, max_bytes, sweeps=2)
    return columns


def _plan_robust_buffered(
    mdp: MDP, tau: float, beta: float, half: FloatArray, missing: FloatArray | None, columns: Lattice, points: int
) -> Plan:
    """Return the plan of the best of several policies by robust evaluation; `points` is the size of a rounded grid."""
    targets = columns.points(0)
    plain, upper = _nominal_policy(mdp, tau, beta, columns, points)
    done = sweep(mdp, columns, half=half, sense=ROBUST, missing=missing)
    short = np.maximum.accumulate(done.root[:-1])
    picked = {_best_target(short, level, 0.0)[0] for level in np.linspace(tau - beta, tau, 4)[1:]}
    # If a target is missed with probability below tau - beta, every averaged quantile is at least this target.
    safe = int(np.flatnonzero((short == 0.0) | (short + rounding_error(mdp, ball=True) < tau - beta))[-1])
    error = _ball_error(mdp, columns, beta)
    policy, value = done.policy(float(targets[safe])), float(targets[safe])
    if value < targets[max(picked)]:  # no policy guarantees more than the highest picked target
        candidates = [policy, *(done.policy(float(targets[i])) for i in sorted(picked - {safe}))]
        if isinstance(plain, TargetPolicy):
            candidates.append(plain)
        search = WidthSearch(mdp=mdp, grid=columns, tau=tau, beta=beta, half=half, sense=ROBUST)
        _, column, width = search.upper()
        candidates.append(best_deterministic(search, column, width)[0])
        for candidate in candidates:
            score = robust_value(mdp, candidate, tau, beta, half, missing, above=value + error) - error
            if score > value:
                policy, value = candidate, score
    law, law_upper = law_bracket(mdp, policy)
    own = law.buffered_quantile(tau, beta)
    value = float(cut_to_possible(mdp, min(value, own)))  # the nominal kernel is in the ball
    notes = (Guaranteed(value=value, objective=quantile_objective(tau, beta)), *rounding_notes(columns))
    return Plan(
        objective=quantile_objective(tau, beta),
        planner="target", policy=policy, law=law, law_upper=law_upper, value=value,
        upper=max(value, upper), nominal=own, certain=error <= GAP_TOL * size_of(targets), exact=columns.exact,
        attitude="robust", facts=notes,
    )  # fmt: skip


def _nominal_policy(mdp: MDP, tau: float, beta: float, columns: Lattice, points: int) -> tuple[Policy, float]:
    """Return a policy for the nominal kernel and an upper bound on the optimum; `points` is the size of a rounded grid."""
    if columns.exact:
        plan = plan_buffered(mdp, tau, beta)
        return plan.policy, plan.value if plan.upper is None else plan.upper
    above = rounded_grid(mdp, points, up=True)
    bound = WidthSearch(mdp=mdp, grid=above, tau=tau, beta=beta).upper()[0]
    search = WidthSearch(mdp=mdp, grid=columns, tau=tau, beta=beta)
    _, column, width = search.upper()
    return best_deterministic(search, column, width)[0], bound + _ball_error(mdp, above, beta)


def _ball_error(mdp: MDP, columns: Grid, beta: float) -> float:
    """Return a bound on the rounding error of a buffered quantile over a ball; costs are at most the range of returns."""
    return rounding_error(mdp, ball=True) * float(np.ptp(columns.points(0))) / beta


def robust_value(
    mdp: MDP, policy: Policy, tau: float, beta: float, half: FloatArray, missing: FloatArray | None = None,
    above: float = -np.inf,
) -> float:  # fmt: skip
    """Return L(pi), a lower bound on the buffered quantile of a fixed policy under every kernel in the ball.

    The bound is concave in the target z. For one kernel it equals z up to the (tau - beta)-quantile of the return; beyond, its
    slope (tau - P(G <= z)) / beta is at most 1 and never rises. The bound is the minimum of these functions over the kernels.
    The bounds at two neighbouring targets therefore show on which side the maximum lies, and the line through them is an
    upper bound on all others. The result is proven if it exceeds `above`; targets that cannot exceed `above` are not tried.
    """
    # Plans without a ball may use a set of returns.
    own = getattr(policy, "grid", None)
    columns = own if isinstance(own, Lattice) else lattice(mdp)
    if columns is None:
        text = "robust evaluation of a buffered quantile requires returns on a lattice, got a problem without one; use beta=0"
        raise GridError(text, name="beta")
    targets = columns.points(0)
    fixed = fixed_policy(mdp, policy, columns)
    work = fixed.work * FIRST_WIDTHS
    if work > ROBUST_WORK:
        raise SizeError(
            f"robust evaluation must stay within {ROBUST_WORK:.0e} steps per target, got {work:.1e}; use beta=0, which needs "
            "one sweep, or coarser rewards", needed=work, limit=ROBUST_WORK, name="beta",
        )  # fmt: skip

    def bound(z: int, above: float = -np.inf) -> float:
        return _lowest_over_widths(fixed, tau, beta, half, missing, float(targets[z]), z, columns.step, above)

    best = max(above, float(targets[0]))  # the bound at the lowest target is that target
    low, high = int(np.searchsorted(targets, best, side="right")), targets.size - 1  # the bound is at most the target
    z, stride = int(columns.column(0, getattr(policy, "target", float(targets[-1])))), 1
    while low < high:
        z = min(max(z, low), high - 1)
        here, there = bound(z), bound(z + 1)
        best, slope = max(best, here, there), there - here
        if slope > 0.0:  # skip the targets that the line through both bounds excludes
            low = z + 2 + int(min((best - there) / slope, targets.size))
            z = min(z + stride, (low + high) // 2)
        elif slope < 0.0:
            high = z - 1 - int(min((here - best) / slope, targets.size))
            z = max(z - stride, (low + high) // 2)
        else:
            break
        stride *= 4
    if low == high:
        best = max(best, bound(low, best))
    return best if best > above else float(targets[0])


def _lowest_over_widths(
    fixed: FixedPolicy, tau: float, beta: float, half: FloatArray, missing: FloatArray | None, target: float, longest: int,
    step: float, above: float,
) -> float:  # fmt: skip
    """Return the smallest F(z, d) over the widths d = 0, 1, ..., `longest` steps, or some F(z, d) that is at most `above`.

    Let E(d) be the largest expected cost over the ball. E(d) never falls with d and E(d) / d never rises, because both hold
    for each kernel. Hence E(d) <= min(E(j), E(i) d / i) between widths i < j, which excludes most widths without an
    evaluation.
    """
    slope, worst = (tau - beta) * step, {0: 0.0}
    wanted = sorted({2**k for k in range(longest.bit_length())} | {longest} - {0})
    while True:
        if wanted:
            widths = step * np.array(wanted)
            costs = fixed.worst_costs(half, partial(_clipped, target, widths), missing)
            worst |= zip(wanted, costs.tolist(), strict=True)
        lowest = min(slope * d - cost for d, cost in worst.items())
        bound = target + lowest / beta
        if bound <= above:
            return bound
        wanted = []
        for i, j in pairwise(sorted(worst)):
            turn = j if worst[i] == 0.0 else min(float(j), i * worst[j] / worst[i])  # where the two bounds on E(d) meet
            if j - i > 1 and min(slope * i - worst[i], slope * turn - worst[j]) < lowest:
                wanted += sorted({min(max(round(turn), i + 1), j - 1), (i + j) // 2})
        if not wanted:
            return bound


def _clipped(target: float, widths: FloatArray, returns: FloatArray) -> FloatArray:
    """Return clip(target - return, 0, width) for every return and width."""
    return np.clip((target - returns)[..., None], 0.0, widths)


def ascend(
    mdp: MDP, half: FloatArray, tau: float, beta: float, policy: TargetPolicy, cost: FloatArray, nominal: float
) -> dict[str, Any]:
    """Return a lower bound on the joint optimum over kernels and policies, and the kernel in the ball that attains it.

    In each round, the rows that the policy plays are moved within their balls, stage by stage, to lower its expected cost.
    Then a policy is planned for the new kernel. No round raises the cost. The kernel may differ between stages.
    """
    if mdp.successor.size * (mdp.H if mdp.stationary else 1) > ASCENT_WORK:
        return {"joint_lower": nominal}
    centre = kernel = mdp.staged()
    best, best_kernel, previous = nominal, centre.probability, np.inf
    for _ in range(ASCENT_ROUNDS):
        kernel = _move_rows(centre, kernel, half, policy, cost)
        done = sweep(kernel, policy.grid, cost, extra=policy.extra, half=np.zeros_like(half))  # as in _plan_quantile
        policy = done.policy(policy.target)
        reached = quantile_objective(tau, beta)(evaluate(kernel, policy))
        if reached > best:
            best, best_kernel = reached, kernel.probability
        now = float(done.root[policy.first_column])
        if now >= previous - 1e-13:
            break
        previous = now
    return {"joint_lower": best, "joint_kernel": best_kernel}


def _move_rows(centre: MDP, kernel: MDP, half: FloatArray, policy: TargetPolicy, cost: FloatArray) -> MDP:
    """Return the kernel after one pass over its stages, last to first; every row stays in the ball around `centre`."""
    columns, H = policy.grid, centre.H
    moves = [columns.moves(centre, h) for h in range(H)]
    mass = np.zeros((centre.S, int(columns.size[0]) + policy.extra))
    mass[:, policy.first_column] = centre.mu
    masses = [mass]
    for h in range(H - 1):
        stage, out = kernel.stage(h), np.zeros((centre.S, int(columns.size[h + 1]) + policy.extra))
        rows = Rows(stage.row_start, stage.successor, stage.probability)
        push_needs(rows, moves[h], policy.actions[h], masses[h], out)
        masses.append(out)
    moved = kernel.probability.copy()
    bounds = centre.row_start[:: centre.S * centre.A]
    value = np.broadcast_to(cost, (centre.S, cost.size)).copy()
    for h in range(H - 1, -1, -1):
        stage, fresh = centre.stage(h), moved[bounds[h] : bounds[h + 1]]
        rows = Rows(stage.row_start, stage.successor, stage.probability)
        improve_rows(rows, half[h], moves[h], policy.actions[h], masses[h], value, fresh)
        out = np.empty(masses[h].shape)
        follow(rows._replace(probability=read_only(fresh)), moves[h], policy.actions[h], value, out)
        value = out
    return centre.with_probability(moved)
