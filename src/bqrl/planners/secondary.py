"""Among all policies that attain the best quantile, the one with the best mean.

    maximise E[G]  subject to  P(G < x*) <= tau - margin.

For a multiplier m >= 0 one sweep minimises m P(G < x*) - E[G]; its value bounds the constrained optimum from above
(over randomized policies, too), and its policy is a candidate. The multiplier moves along the hull of the pairs
(shortfall, mean) until no new policy appears; what is left between bound and best candidate is reported.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np

from bqrl.kernels.tolerance import MASS_TOL
from bqrl.laws.functionals import reaches
from bqrl.laws.law import Law
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import TargetPolicy
from bqrl.planners.evaluate import evaluate
from bqrl.planners.plan import Plan
from bqrl.planners.sweep import sweep
from bqrl.planners.target import plan_target

MAX_SWEEPS = 40


def plan_best_mean(mdp: MDP, tau: float, *, margin: float = 0.0, **options: Any) -> Plan:
    """The plan for the tau-quantile whose mean is the best found; `details` holds the bound on that mean and the gap."""
    begun = time.perf_counter()
    if not 0.0 <= margin < tau:
        raise ValueError(f"margin must lie in [0, tau) = [0, {tau:g}), got {margin:g}")
    base = plan_target(mdp, tau, **options)
    if not isinstance(base.law, Law):
        raise ValueError("secondary='mean' needs an exact grid of returns; this problem has none of a fitting size")
    assert isinstance(base.policy, TargetPolicy)
    columns, target = base.policy.grid, base.policy.target
    column = int(columns.column(0, target))
    allowed = tau - margin + MASS_TOL

    def fits(law: Law) -> bool:
        return reaches(law.shortfall(target), tau) and law.shortfall(target) <= allowed

    def solve(multiplier: float) -> tuple[TargetPolicy, Law, float]:
        done = sweep(mdp, columns, np.array([0.0, multiplier]), weight=1.0)
        assert done.actions is not None
        policy = TargetPolicy(columns, done.actions, target)
        return policy, evaluate(mdp, policy), float(done.root[column])  # type: ignore[return-value]

    safe, safe_law = base.policy, base.law
    if not fits(safe_law):
        raise ValueError(
            f"margin={margin:g} leaves no policy: the smallest shortfall is {safe_law.shortfall(target):.6g}"
        )
    free, free_law, value = solve(0.0)
    bound = -value
    sweeps = 1
    while not fits(free_law) and sweeps < MAX_SWEEPS:
        cost, gain = free_law.shortfall(target) - safe_law.shortfall(target), free_law.mean() - safe_law.mean()
        multiplier = max(gain, 0.0) / cost
        policy, law, value = solve(multiplier)
        sweeps += 1
        bound = min(bound, multiplier * allowed - value)
        settled = max(law_score(safe_law, target, multiplier), law_score(free_law, target, multiplier))
        if law_score(law, target, multiplier) <= settled + 1e-12 * max(1.0, abs(bound)):
            break
        if fits(law):
            safe, safe_law = policy, law
        else:
            free, free_law = policy, law
    if fits(free_law):
        safe, safe_law, bound = free, free_law, free_law.mean()
    gap = max(0.0, bound - safe_law.mean())
    note = f"best mean among {tau:g}-optimal policies: {safe_law.mean():.6g}, at most {gap:.3g} below the best possible"
    return replace(
        base, policy=safe, law=safe_law, value=safe_law.quantile(tau), nominal=safe_law.quantile(tau),
        seconds=time.perf_counter() - begun, notes=(*base.notes, note),
        details=base.details | {"mean_bound": bound, "mean_gap": gap, "sweeps": sweeps},
    )  # fmt: skip


def law_score(law: Law, target: float, multiplier: float) -> float:
    """E[G] - multiplier * P(G < target)."""
    return law.mean() - multiplier * law.shortfall(target)
