"""The policy with the best mean among all policies that attain the best quantile.

    maximise E[G]  subject to  P(G < x*) <= tau - margin.

For a multiplier m >= 0, one sweep minimises m P(G < x*) - E[G]. Its value gives an upper bound on the constrained
optimum (by Lagrangian duality, also over randomized policies), and its policy is a candidate. The multiplier moves
along the convex hull of the pairs (shortfall, mean) until no new policy appears; the gap between the bound and the best
candidate is reported.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import numpy as np

from bqrl.checks import bad_value, number
from bqrl.errors import GridError
from bqrl.laws.law import Law, reaches, size_of
from bqrl.loops.tolerance import MASS_TOL
from bqrl.mdp.model import MDP
from bqrl.planners.evaluate import evaluate
from bqrl.planners.facts import BestMean
from bqrl.planners.greedy import MEAN_TIE
from bqrl.planners.plan import Plan
from bqrl.planners.registry import Gap, MaxBytes, Points, Tick, one_of
from bqrl.planners.sweep import sweep
from bqrl.planners.target import MAX_BYTES, plan_target
from bqrl.policies.target import TargetPolicy

MAX_SWEEPS = 40


def plan_best_mean(
    mdp: MDP, tau: float, *, secondary: Annotated[str, one_of("mean")] = "mean", margin: float = 0.0, points: Points = None,
    gap: Gap = None, max_bytes: MaxBytes = MAX_BYTES, tick: Tick = None,
) -> Plan:  # fmt: skip
    """Return the plan with the best mean found among the optimal plans for the tau-quantile.

    `details` holds an upper bound on the mean of all optimal plans ("mean_bound"), its distance from the mean of this plan
    ("mean_gap"), and the best mean of any policy, optimal or not ("best_mean").
    """
    margin = number(margin, "margin", 0.0, tau, "[)")
    base = plan_target(mdp, tau, points=points, gap=gap, max_bytes=max_bytes, tick=tick)
    if not base.exact or not isinstance(base.policy, TargetPolicy):
        got = "a problem without one of a suitable size; omit secondary"
        if points is not None:
            got = f"points={points}, which rounds them; omit points"
        raise GridError(f"secondary='mean' requires an exact grid of returns, got {got}", name="secondary")
    columns, target = base.policy.grid, base.policy.target
    column = int(columns.column(0, target))
    allowed = tau - margin + MASS_TOL

    def fits(law: Law) -> bool:
        return reaches(law.shortfall(target), tau) and law.shortfall(target) <= allowed

    def solve(multiplier: float) -> tuple[TargetPolicy, Law, float]:
        done = sweep(mdp, columns, np.array([0.0, multiplier]), weight=1.0)
        policy = done.policy(target)
        return policy, evaluate(mdp, policy), float(done.root[column])

    safe, safe_law = base.policy, base.law
    if not fits(safe_law):
        rule = f"be at most tau minus the smallest shortfall {safe_law.shortfall(target):.6g}"
        raise bad_value("margin", margin, rule, f"{margin:g}")
    free, free_law, value = solve(0.0)
    bound = best = -value
    sweeps = 1
    while not fits(free_law) and sweeps < MAX_SWEEPS:
        cost, gain = free_law.shortfall(target) - safe_law.shortfall(target), free_law.mean() - safe_law.mean()
        multiplier = max(gain, 0.0) / cost
        policy, law, value = solve(multiplier)
        sweeps += 1
        bound = min(bound, multiplier * allowed - value)
        settled = max(law_score(safe_law, target, multiplier), law_score(free_law, target, multiplier))
        if law_score(law, target, multiplier) <= settled + MEAN_TIE * size_of(law.values):
            break
        if fits(law):
            safe, safe_law = policy, law
        else:
            free, free_law = policy, law
    if fits(free_law):
        safe, safe_law, bound = free, free_law, free_law.mean()
    left = max(0.0, bound - safe_law.mean())
    return replace(
        base, policy=safe, law=safe_law, value=safe_law.quantile(tau), nominal=safe_law.quantile(tau),
        notes=(*base.notes, BestMean(mean=safe_law.mean(), gap=left, best=best)),
        details=base.details | {"mean_bound": bound, "mean_gap": left, "best_mean": best, "sweeps": sweeps},
    )  # fmt: skip


def law_score(law: Law, target: float, multiplier: float) -> float:
    """Return E[G] - multiplier * P(G < target)."""
    return law.mean() - multiplier * law.shortfall(target)
