"""Risk-neutral planning by backward induction: the simplest planner, read first.

    V_H(s) = 0,    V_h(s) = max_a E[ r + gamma V_{h+1}(s') | s, a ],    a_h(s) = the maximising action.

It maximises the mean and ignores tau; the quantile of its policy is read off the return law of that policy. Every other
planner is compared with it. It needs no grid of returns, so it works for any problem.

A quantile does not see how bad the runs below it are. A quantile plan gets the fact `LowTail` if its CVaR is far below that of
the risk-neutral policy. Let gain be how much more the plan guarantees, and loss how much less its worst share tau of runs brings
on average. "Far" means that the loss

    exceeds the gain,    and exceeds FAR (a quarter) of mean - CVaR of the risk-neutral policy.

The second condition ignores losses that are small beside the depth of the tail that the problem has anyway. The fact is computed
when the notes of a plan are read. Often the law of the risk-neutral policy is not needed: no policy has a CVaR above b, the mean
of the best quantiles of the levels up to tau, and the best mean is at least that of the plan. If the loss is not far for the
CVaR b and the plan's own mean, it is not far for those of the risk-neutral policy either.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bqrl.laws.law import Law, size_of
from bqrl.laws.objectives import Mean, Quantile, check_levels, quantile_objective
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.find_grid import distinct_rewards
from bqrl.mdp.grid import is_dense
from bqrl.mdp.model import MDP, per_model
from bqrl.mdp.stage import Stage
from bqrl.planners.cluster import Cluster
from bqrl.planners.evaluate import BRACKET_POINTS, Limits, law_bracket
from bqrl.planners.facts import LowTail, RoundedLaw
from bqrl.planners.plan import GAP_TOL, Plan, is_steady
from bqrl.planners.sweep import rounding_error
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.protocol import Policy

LAW_MASSES = 20_000_000  # numbers per stage of the law beside a mean
MIN_POINTS = 500  # of its rounded grid
DENSE_OUTCOMES = 50_000  # of a stage, from which a matrix product is worth its matrix
FAR = 0.25  # of the depth of a tail
TIE_TOL = 1e-12  # means this close, relative to the best or to the largest reward, tie; the lower action is chosen


def best_mean(mdp: MDP, gain: FloatArray | None = None) -> tuple[float, MarkovPolicy]:
    """Return the largest mean return and a policy that attains it; ties go to the lower action.

    With `gain` the largest mean of the sum of these expected amounts, shape (H, S*A), in place of the return.
    """

    def means(h: int, value: FloatArray) -> FloatArray:
        stage = mdp.stage(h)
        reward = stage.row_reward
        if reward is not None and stage.successor.size >= DENSE_OUTCOMES and is_dense(mdp, stage):
            paid = (reward.reshape(-1), mdp.discount) if gain is None else (gain[h], 1.0)
            return np.where(stage.available.reshape(-1), paid[0] + paid[1] * (mdp.dense(h) @ value), -np.inf)
        if gain is None:
            return _row_sums(stage, stage.probability * (stage.reward + mdp.discount * value[stage.successor]))
        return np.asarray(gain[h] + _row_sums(stage, stage.probability * value[stage.successor]))

    value, policy = best_values(mdp, means, size_of(distinct_rewards(mdp) if gain is None else gain))
    return float(mdp.mu @ value), policy


def best_values(
    mdp: MDP, worths: Callable[[int, FloatArray], FloatArray], size: float
) -> tuple[FloatArray, MarkovPolicy]:
    """Return V_0 and the policy of V_h(s) = max_a of the row (s, a) of worths(h, V_{h+1}), -inf where there is no action.

    Differences up to TIE_TOL, relative to the best or to `size`, tie; ties go to the lower action.
    """
    value, actions = np.zeros(mdp.S), np.zeros((mdp.H, mdp.S), np.int64)
    for h in range(mdp.H - 1, -1, -1):
        table = worths(h, value).reshape(mdp.S, mdp.A)
        value = table.max(axis=1)
        value[np.isneginf(value)] = 0.0  # a state without actions, which is never reached
        actions[h] = np.argmax(table >= (value - TIE_TOL * np.maximum(size, np.abs(value)))[:, None], axis=1)
    return value, MarkovPolicy(actions)


def _row_sums(stage: Stage, per_outcome: FloatArray) -> FloatArray:
    """Return the sum over the outcomes of every row; -inf for a row without outcomes."""
    rows = np.flatnonzero(np.diff(stage.row_start))
    sums = np.full(stage.row_start.size - 1, -np.inf)
    if rows.size:
        sums[rows] = np.add.reduceat(per_outcome, stage.row_start[rows])
    return sums


def plan_mean(mdp: MDP, objective: Mean) -> Plan:
    """The policy with the largest mean return, which is exact with any rewards and any discount.

    The mean needs no grid of returns, so the law of the return is bracketed if its exact grid is large.
    """
    mean, policy = best_mean(mdp)
    points = min(BRACKET_POINTS, max(MIN_POINTS, LAW_MASSES // mdp.S))
    law, law_upper = law_bracket(mdp, policy, Limits(points=points, max_masses=LAW_MASSES))
    notes = () if law_upper is None else (RoundedLaw(error=law_upper.mean() - law.mean()),)
    return Plan(
        objective=objective, planner="expected", policy=policy, law=law, law_upper=law_upper, value=mean, upper=mean,
        nominal=mean, certain=True, exact=True, facts=notes,
    )  # fmt: skip


def plan_expected(mdp: MDP, tau: float, beta: float = 0.0) -> Plan:
    """Return the policy with the largest mean return, and its (buffered) tau-quantile; no upper bound is proven."""
    tau, beta = check_levels(tau, beta)
    mean, policy = best_mean(mdp)
    return plan_of(mdp, policy, tau, beta, "expected", details={"mean": mean})


def plan_of(
    mdp: MDP, policy: Policy, tau: float, beta: float, planner: str, *, details: dict[str, Any] | None = None
) -> Plan:
    """Return the plan of a given policy: its law and objective value in `mdp`, without an upper bound."""
    law, law_upper = law_bracket(mdp, policy)
    value = quantile_objective(tau, beta)(law)
    return Plan(
        objective=quantile_objective(tau, beta),
        planner=planner, policy=policy, law=law, law_upper=law_upper, value=value, upper=None,
        nominal=value, certain=is_settled(law, tau, beta, rounding_error(mdp)), exact=law_upper is None,
        details=details or {},
    )  # fmt: skip


def is_settled(law: Law, tau: float, beta: float, gamma: float) -> bool:
    """Return whether the objective value of a law is certain if its masses have a relative error of `gamma`.

    A quantile x is certain if the errors neither raise P(G < x) to tau nor lower P(G <= x) below tau. A buffered quantile is
    certain if all its levels lie in that atom. Otherwise it is smooth in the masses, and it is certain if its error is below
    GAP_TOL times its size.
    """
    below, above = law.margin(tau)
    short, reached = tau - below, tau + above
    if reached * (1.0 - gamma) >= tau and short * (1.0 + gamma) < (tau if beta == 0.0 else tau - beta):
        return True
    return beta > 0.0 and is_steady(law, tau, beta, gamma)


# -- the risk-neutral policy beside a plan -------------------------------------------------------------------------------------


def risk_neutral(mdp: MDP, points: int, cluster: Cluster | None = None) -> tuple[MarkovPolicy, Law, Law | None]:
    """Return the policy with the best mean, and its law or a bracket on at least `points` points; cached per problem."""
    points = max(points, BRACKET_POINTS)
    return _risk_neutral(mdp, points) if cluster is None else _neutral_with(mdp, points, cluster)


@per_model
def _risk_neutral(mdp: MDP, points: int) -> tuple[MarkovPolicy, Law, Law | None]:
    return _neutral_with(mdp, points, None)


def _neutral_with(mdp: MDP, points: int, cluster: Cluster | None) -> tuple[MarkovPolicy, Law, Law | None]:
    policy = best_mean(mdp)[1]
    return policy, *law_bracket(mdp, policy, Limits(points=points), cluster)


def low_tail(plan: Plan) -> tuple[LowTail, ...]:
    """Return the fact that the worst runs of a plan of `solve` are far below those of the risk-neutral policy, or nothing."""
    if plan.mdp is None or tail_is_safe(plan):
        return ()
    return tail_beside(plan, risk_neutral(plan.mdp, 0, getattr(plan.details.get("curve"), "cluster", None))[1])


def with_tail(plan: Plan, neutral: Law) -> Plan:
    """Return the plan with the fact `LowTail` if it is proven; `neutral` is the (lower) law of the risk-neutral policy."""
    found = tail_beside(plan, neutral)
    known = not found or any(isinstance(note, LowTail) for note in plan.notes)
    return plan if known else replace(plan, facts=(*plan.facts, *found))


def tail_beside(plan: Plan, neutral: Law) -> tuple[LowTail, ...]:
    """Return the fact `LowTail` if it is proven for a plan beside this (lower) law of the risk-neutral policy, or nothing."""
    if not isinstance(plan.objective, Quantile) or plan.attitude != "nominal":
        return ()
    tau, most = plan.tau, plan.law if plan.law_upper is None else plan.law_upper
    own, other = most.cvar(tau), neutral.cvar(tau)
    loss, gain, depth = other - own, most.quantile(tau) - neutral.quantile(tau), neutral.exact_mean - other
    noise = GAP_TOL * max(abs(own), abs(other))
    return (LowTail(tau=tau, cvar=own, neutral=other),) if loss > max(gain, FAR * depth) + noise else ()


def tail_is_safe(plan: Plan) -> bool:
    """Return whether the curve behind a plan proves that the plan has no low tail."""
    curve, tau = plan.details.get("curve"), plan.tau  # a GuaranteeCurve
    if curve is None or not curve.exact or curve.precision != "float64" or plan.law_upper is not None:
        return False  # on a grid or in 32 bits, its values are lower bounds
    levels, values = curve.steps
    if levels[0] != 0.0:
        return False
    most = float(np.diff(np.minimum(np.r_[levels, 1.0], tau)) @ values) / tau
    return most - plan.law.cvar(tau) <= max(0.0, FAR * (plan.law.exact_mean - most))
