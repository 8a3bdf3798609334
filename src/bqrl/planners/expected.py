"""Risk-neutral planning by backward induction: the simplest planner, read first.

    V_H(s) = 0,    V_h(s) = max_a E[ r + gamma V_{h+1}(s') | s, a ],    a_h(s) = the maximising action.

It maximises the mean and knows nothing of tau: what its policy is worth as a quantile is read off the policy's own return
law. Every other planner is compared with it. It needs no grid of returns, so it works for any problem.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from bqrl.laws.law import Law
from bqrl.mdp.forms import FloatArray
from bqrl.mdp.model import MDP, Stage
from bqrl.mdp.policy import MarkovPolicy, Policy
from bqrl.planners.evaluate import evaluate
from bqrl.planners.plan import GAP_TOL, Plan, check_levels, level_error, objective_value
from bqrl.planners.sweep import rounding_error

TIE_TOL = 1e-12  # means this close, relative to the best, tie; the lower action is kept


def best_mean(mdp: MDP) -> tuple[float, MarkovPolicy]:
    """The largest mean return and a policy that attains it; of equally good actions the one with the lower index."""
    value = np.zeros(mdp.S)
    actions = np.zeros((mdp.H, mdp.S), np.int64)
    for h in range(mdp.H - 1, -1, -1):
        stage = mdp.stage(h)
        gain = stage.reward + mdp.discount * value[stage.successor]
        means = _row_sums(stage, stage.probability * gain).reshape(mdp.S, mdp.A)
        best = means.max(axis=1)
        best[np.isneginf(best)] = 0.0  # a state without actions, which is never met
        actions[h] = np.argmax(means >= (best - TIE_TOL * np.maximum(1.0, np.abs(best)))[:, None], axis=1)
        value = best
    return float(mdp.mu @ value), MarkovPolicy(actions)


def _row_sums(stage: Stage, per_outcome: FloatArray) -> FloatArray:
    """Sum over the outcomes of every row; -inf for a row without outcomes."""
    rows = np.flatnonzero(np.diff(stage.row_start))
    sums = np.full(stage.row_start.size - 1, -np.inf)
    if rows.size:
        sums[rows] = np.add.reduceat(per_outcome, stage.row_start[rows])
    return sums


def plan_expected(mdp: MDP, tau: float, beta: float = 0.0) -> Plan:
    """The policy with the largest mean return, and its (buffered) tau-quantile; proves no upper bound."""
    begun = time.perf_counter()
    tau, beta = check_levels(tau, beta)
    mean, policy = best_mean(mdp)
    return plan_of(mdp, policy, tau, beta, "expected", details={"mean": mean}).with_time(time.perf_counter() - begun)


def plan_of(
    mdp: MDP, policy: Policy, tau: float, beta: float, planner: str, *, notes: tuple[str, ...] = (),
    details: dict[str, Any] | None = None,
) -> Plan:  # fmt: skip
    """A given policy as a plan: its own law and objective value in `mdp`, without an upper bound.

    Where the law is only bracketed the value is the proven lower one.
    """
    law = evaluate(mdp, policy)
    proven = law if isinstance(law, Law) else law.lower
    value = objective_value(proven, tau, beta)
    certain = settled(proven, tau, beta, rounding_error(mdp))
    exact = isinstance(law, Law)
    return Plan(tau, beta, planner, policy, law, value, None, value, certain, exact, notes=notes, details=details or {})


def settled(law: Law, tau: float, beta: float, gamma: float) -> bool:
    """Whether masses with a relative error of `gamma` settle the objective value of a law.

    A quantile x is settled when the errors move neither P(G < x) up to tau nor P(G <= x) below it; so is a buffered one
    when all its levels lie in that atom. Otherwise it is smooth in the masses, and only the size of the error counts.
    """
    below, above = law.margin(tau)
    short, reached = tau - below, tau + above
    if reached * (1.0 - gamma) >= tau and short * (1.0 + gamma) < (tau if beta == 0.0 else tau - beta):
        return True
    return beta > 0.0 and level_error(law, tau, beta, gamma) <= GAP_TOL
