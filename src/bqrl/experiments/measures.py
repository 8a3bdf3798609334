"""Numbers of finished runs: gaps and regrets by episode, and what they are measured against."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqrl.experiments.single import Problem
from bqrl.experiments.tune import Score
from bqrl.learners.record import Record
from bqrl.learners.score import optimum
from bqrl.mdp.forms import FloatArray


@dataclass(frozen=True, slots=True)
class Reference:
    """What runs on a problem are measured against at one level."""

    tau: float
    capped: float  # the paper's numerical reference
    exact: float  # the true optimum of the quantile
    best_mean: float
    margin: float  # tau - P(G < exact) of the policy that attains it: how far the level is from the next lower quantile


def reference(problem: Problem, tau: float) -> Reference:
    """References of a problem; the problem keeps them once they are computed."""
    mdp = problem.build()
    key = ("study reference", float(tau))
    if key not in mdp._cache:
        from bqrl.planners.frontier import plan_capped

        best = optimum(mdp)
        exact = best.quantile(tau)
        short = float(best.shortfall[int(np.searchsorted(best.points, exact))])
        mdp._cache[key] = Reference(tau, plan_capped(mdp, tau).value, exact, best.best_mean, tau - short)
    found: Reference = mdp._cache[key]
    return found


def by_episode(record: Record, measure: str, against: Reference) -> FloatArray:
    """A measure of every episode: "capped" and "exact" quantile gaps, or "expected" regret."""
    if measure == "expected":
        return against.best_mean - record.means()
    if measure == "exact":
        return against.exact - record.quantile(against.tau)
    return np.maximum(against.capped - record.quantile(against.tau), 0.0)


def criterion(record: Record, against: Reference, tail: float) -> Score:
    """What tuning ranks by: the cumulative gap, and the mean return of the last share `tail` of the episodes."""
    last = max(1, round(tail * record.returns.size))
    return Score(float(by_episode(record, "capped", against).sum()), float(record.returns[-last:].mean()))


def final_errors(record: Record, against: Reference, beta: float) -> tuple[float, float]:
    """Quantile error and buffered-quantile error of the last evaluated policy, by which one run is picked for show."""
    from bqrl.laws.law import Law
    from bqrl.planners.buffered import plan_buffered

    law = Law(record.points, record.pmf[record.law_of[-1]])
    mdp = record.mdp
    assert mdp is not None
    key = ("study buffered", against.tau, beta)
    if key not in mdp._cache:
        mdp._cache[key] = plan_buffered(mdp, against.tau, beta).upper
    quantile = max(against.capped - law.quantile(against.tau), 0.0)
    return quantile, float(mdp._cache[key]) - law.buffered_quantile(against.tau, beta)
