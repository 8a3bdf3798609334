"""Scores of finished runs: gaps and regrets per episode, what they are measured against, and orderings of learners."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bqrl.laws.law import Law
from bqrl.learners.record import Record
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.derived import per_model
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import MarkovPolicy
from bqrl.planners.buffered import plan_buffered
from bqrl.planners.confidence import log_buffer
from bqrl.planners.expected import best_mean
from bqrl.planners.frontier import plan_capped
from bqrl.planners.solve import guarantee_curve
from bqrl.study.spec import Spec
from bqrl.study.tune import Score

MEASURES = ("capped", "exact", "expected")
Key = tuple[str, str, float]  # variant or "", learner, level


@dataclass(frozen=True, slots=True)
class Reference:
    """What runs on a problem are measured against at one level."""

    tau: float
    capped: float  # the paper's numerical reference
    exact: float  # the true optimum of the quantile
    best_mean: float
    margin: float  # tau - P(G < exact) under the optimal policy: how far the level is from the next lower quantile


@per_model
def reference(mdp: MDP, tau: float) -> Reference:
    """References of a model at one level."""
    curve = guarantee_curve(mdp)
    exact = float(curve(tau))
    shortfall = np.maximum.accumulate(curve.shortfall)[int(np.searchsorted(curve.points, exact))]
    return Reference(
        tau=tau,
        capped=plan_capped(mdp, tau).value,
        exact=exact,
        best_mean=best_mean(mdp)[0],
        margin=tau - float(shortfall),
    )


@per_model
def _best_buffered(mdp: MDP, tau: float, beta: float) -> float:
    """Proven upper bound on the best buffered quantile."""
    upper = plan_buffered(mdp, tau, beta).upper
    assert upper is not None
    return float(upper)


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


@dataclass(slots=True)
class Scores:
    """Numbers of the final runs by (variant, learner, level)."""

    spec: Spec
    curves: dict[Key, dict[str, list[FloatArray]]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(list))
    )
    ends: dict[Key, dict[str, dict[int, float]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(dict)))
    laws: dict[Key, dict[int, tuple[FloatArray, FloatArray]]] = field(default_factory=lambda: defaultdict(dict))
    policies: dict[float, dict[int, IntArray]] = field(default_factory=lambda: defaultdict(dict))  # (H, S) actions
    errors: dict[float, dict[int, tuple[float, float]]] = field(default_factory=lambda: defaultdict(dict))

    def add(self, variant: str, key: str, tau: float, seed: int, record: Record, mdp: MDP) -> None:
        """Score one run at one level."""
        place, against = (variant, key, tau), reference(mdp, tau)
        for measure in MEASURES:
            curve = np.cumsum(by_episode(record, measure, against))
            self.ends[place][measure][seed] = float(curve[-1])
            if seed in self.spec.shown_seeds(variant):
                self.curves[place][measure].append(curve)
        mass = record.pmf[record.law_of[-1]]
        self.laws[place][seed] = (record.points, mass)
        law = Law(record.points, mass)
        chosen, policy = self.spec.final_policy, record.final_policy
        if not variant and chosen is not None and key == chosen.learner and isinstance(policy, MarkovPolicy):
            beta = log_buffer(tau)(self.spec.episodes - 1)
            self.policies[tau][seed] = policy.actions.astype(np.int64)
            self.errors[tau][seed] = (
                max(against.capped - law.quantile(tau), 0.0),
                _best_buffered(mdp, tau, beta) - law.buffered_quantile(tau, beta),
            )

    def final(self, variant: str, key: str, tau: float, measure: str, seeds: tuple[int, ...]) -> FloatArray:
        """Last cumulative values on some seeds."""
        return np.array([self.ends[variant, key, tau][measure][seed] for seed in seeds])

    def mean_curve(self, variant: str, key: str, tau: float, measure: str) -> tuple[FloatArray, FloatArray]:
        """Mean and sample standard deviation over the shown seeds, by episode; equal curves deviate by exactly zero."""
        curves = np.array(self.curves[variant, key, tau][measure])
        apart = curves - curves[0]
        return curves[0] + apart.mean(axis=0), apart.std(axis=0, ddof=1)

    def picked(self, tau: float) -> int | None:
        """The held-out seed whose final policy is shown: least quantile error, then buffered error, then seed."""
        found = {seed: error for seed, error in self.errors[tau].items() if seed in self.spec.study.seeds}
        return min(found, key=lambda seed: (*np.round(found[seed], 12), seed)) if found else None

    def ordering(self, variant: str, tau: float, measure: str) -> list[dict[str, Any]]:
        """Learners from the smallest mean on, each with its distance to the next, seed by seed."""
        seeds = self.spec.ranking_seeds(variant)
        ends = {entry.key: self.final(variant, entry.key, tau, measure, seeds) for entry in self.spec.entries}
        order = sorted(ends, key=lambda key: (round(float(ends[key].mean()), 9), key))
        rows: list[dict[str, Any]] = []
        for i, key in enumerate(order):
            row: dict[str, Any] = {"learner": key, "mean": float(ends[key].mean())}
            row |= {"to_next": None, "to_next_error": None, "clear": None}
            if i + 1 < len(order):
                distance = ends[order[i + 1]] - ends[key]
                error = float(distance.std(ddof=1) / np.sqrt(distance.size))
                row |= {"to_next": float(distance.mean()), "to_next_error": error}
                row["clear"] = bool(distance.mean() > 2.0 * error)
            rows.append(row)
        return rows

    def reference(self, tau: float, variant: str = "") -> Reference:
        """What gaps on a variant are measured against."""
        return reference(self.problem(variant), tau)

    def problem(self, variant: str = "") -> MDP:
        """The model of a variant."""
        return next(problem for name, problem, _ in self.spec.problems() if name == variant).build()
