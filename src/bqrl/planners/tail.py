"""The tail of a quantile plan: a quantile does not see how bad the runs below it are.

A plan gets the fact `LowTail` if its CVaR is far below that of the risk-neutral policy. Let gain be how much more the plan
guarantees, and loss how much less its worst share tau of runs brings on average. "Far" means that the loss

    exceeds the gain,    and exceeds FAR (a quarter) of mean - CVaR of the risk-neutral policy.

The second condition ignores losses that are small beside the depth of the tail that the problem has anyway.

The law of the risk-neutral policy takes a quarter of the time of a small plan, and often it is not needed. No policy has a CVaR
above b, the mean of the best quantiles of the levels up to tau, and the best mean is at least that of the plan. If the loss is
not far for the CVaR b and the plan's own mean, it is not far for those of the risk-neutral policy either.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from bqrl.laws.law import Law
from bqrl.laws.objectives import Quantile
from bqrl.planners.facts import LowTail
from bqrl.planners.plan import GAP_TOL, Plan
from bqrl.planners.target import GuaranteeCurve

FAR = 0.25


def with_tail(plan: Plan, neutral: Law) -> Plan:
    """Return the plan with the fact `LowTail` if it is proven; `neutral` is the (lower) law of the risk-neutral policy."""
    if not isinstance(plan.objective, Quantile) or plan.attitude != "nominal":
        return plan
    tau, most = plan.tau, plan.law if plan.law_upper is None else plan.law_upper
    own, other = most.cvar(tau), neutral.cvar(tau)
    loss, gain, depth = other - own, most.quantile(tau) - neutral.quantile(tau), neutral.exact_mean - other
    noise = GAP_TOL * max(abs(own), abs(other))
    if loss <= max(gain, FAR * depth) + noise or any(isinstance(note, LowTail) for note in plan.notes):
        return plan
    return replace(plan, notes=(*plan.notes, LowTail(tau=tau, cvar=own, neutral=other)))


def tail_is_safe(plan: Plan) -> bool:
    """Return whether the curve behind a plan proves that the plan has no low tail."""
    curve, tau = plan.details.get("curve"), plan.tau
    if not isinstance(curve, GuaranteeCurve) or not curve.exact or plan.law_upper is not None:
        return False
    levels, values = curve.steps
    if levels[0] != 0.0:
        return False
    most = float(np.diff(np.minimum(np.r_[levels, 1.0], tau)) @ values) / tau
    return most - plan.law.cvar(tau) <= max(0.0, FAR * (plan.law.exact_mean - most))
