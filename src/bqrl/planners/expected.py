"""Risk-neutral planning by backward induction: the simplest planner, read first.

    V_H(s) = 0,    V_h(s) = max_a E[ r + gamma V_{h+1}(s') | s, a ],    a_h(s) = the maximising action.

It maximises the mean and ignores tau; the quantile of its policy is read off the return law of that policy. Every other
planner is compared with it. It needs no grid of returns, so it works for any problem.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.laws.law import Law, size_of
from bqrl.laws.objectives import Mean, check_levels, quantile_objective
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.find_grid import distinct_rewards
from bqrl.mdp.grid import is_dense
from bqrl.mdp.model import MDP
from bqrl.mdp.stage import Stage
from bqrl.planners.evaluate import BRACKET_POINTS, Limits, law_bracket
from bqrl.planners.facts import RoundedLaw
from bqrl.planners.plan import Plan, is_steady
from bqrl.planners.sweep import rounding_error
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.protocol import Policy

LAW_MASSES = 20_000_000  # numbers per stage of the law beside a mean
MIN_POINTS = 500  # of its rounded grid
DENSE_OUTCOMES = 50_000  # of a stage, from which a matrix product is worth its matrix
TIE_TOL = 1e-12  # means this close, relative to the best or to the largest reward, tie; the lower action is chosen


def best_mean(mdp: MDP, gain: FloatArray | None = None) -> tuple[float, MarkovPolicy]:
    """Return the largest mean return and a policy that attains it; ties go to the lower action.

    With `gain` the largest mean of the sum of these expected amounts, shape (H, S*A), in place of the return.
    """
    value, size = np.zeros(mdp.S), size_of(distinct_rewards(mdp) if gain is None else gain)
    actions = np.zeros((mdp.H, mdp.S), np.int64)
    for h in range(mdp.H - 1, -1, -1):
        stage = mdp.stage(h)
        reward = stage.row_reward
        if reward is not None and stage.successor.size >= DENSE_OUTCOMES and is_dense(mdp, stage):
            paid = (reward.reshape(-1), mdp.discount) if gain is None else (gain[h], 1.0)
            means = np.where(stage.available.reshape(-1), paid[0] + paid[1] * (mdp.dense(h) @ value), -np.inf)
        elif gain is None:
            means = _row_sums(stage, stage.probability * (stage.reward + mdp.discount * value[stage.successor]))
        else:
            means = gain[h] + _row_sums(stage, stage.probability * value[stage.successor])
        means = means.reshape(mdp.S, mdp.A)
        best = means.max(axis=1)
        best[np.isneginf(best)] = 0.0  # a state without actions, which is never reached
        actions[h] = np.argmax(means >= (best - TIE_TOL * np.maximum(size, np.abs(best)))[:, None], axis=1)
        value = best
    return float(mdp.mu @ value), MarkovPolicy(actions)


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
        nominal=mean, certain=True, exact=True, notes=notes,
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
