"""Cost-effectiveness under the posterior: how probable it is that each strategy is worth its cost.

One unit of effect, such as a quality-adjusted life year, is worth a threshold w. In a model drawn from the posterior the net
benefit of a strategy is w E[effect] - E[cost]. Over many draws,

    acceptability = share of the draws in which the strategy has the highest net benefit (ties are shared),
    value of perfect information = mean of the highest net benefit - highest mean net benefit.

The strategy with the highest mean net benefit need not be the one that is most often the best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, number, random_seed, whole
from bqrl.display import Charted, format_number, short_percent
from bqrl.logs.observed import Observed
from bqrl.logs.posterior import Events, drawn_kernels, drawn_model
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.outcomes import REWARD, check_known
from bqrl.planners.outcomes import expected_outcomes
from bqrl.policies.convert import bind
from bqrl.policies.protocol import THIS_MODEL


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Acceptability(Charted):
    """Mean costs and effects of strategies under posterior draws; made by `estimate.acceptability`, which has an example.

    Attributes
    ----------
    names : tuple of str
        The strategies.
    thresholds : ndarray of shape (m,)
        What one unit of effect is worth.
    costs, effects : ndarray of shape (draws, strategies)
        Means in each drawn model.
    cost, effect : str
        Names of the outcomes.
    prior : float
        Total weight of the prior per row.
    seed : int
        Seed of the draws.
    """

    names: tuple[str, ...]
    thresholds: FloatArray
    costs: FloatArray
    effects: FloatArray
    cost: str
    effect: str
    prior: float
    seed: int

    @property
    def draws(self) -> int:
        """Number of draws."""
        return len(self.costs)

    @property
    def net_benefit(self) -> FloatArray:
        """Net benefit of each strategy in each draw, shape (m, draws, strategies)."""
        return self.thresholds[:, None, None] * self.effects - self.costs

    @property
    def probability(self) -> FloatArray:
        """Share of the draws in which each strategy has the highest net benefit, shape (m, strategies)."""
        found = self.net_benefit
        size = np.abs(found).max(axis=2, keepdims=True)
        highest = found >= found.max(axis=2, keepdims=True) - 1e-12 * size
        return np.asarray((highest / highest.sum(axis=2, keepdims=True)).mean(axis=1))

    @property
    def perfect_information(self) -> FloatArray:
        """Expected value of perfect information per episode at each threshold, shape (m,)."""
        found = self.net_benefit
        best = found.mean(axis=1).argmax(axis=1)
        regret = found.max(axis=2) - found[np.arange(best.size), :, best]  # without the rounding errors of two means
        return np.asarray(regret.mean(axis=1))

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per threshold and strategy.

        The keys are threshold, strategy, probability (of the highest net benefit), net_benefit (its mean), best (whether the
        mean is the highest one) and perfect_information (its value at this threshold).
        """
        means, information = self.net_benefit.mean(axis=1), self.perfect_information
        return [
            {
                "threshold": float(w), "strategy": name, "probability": float(self.probability[i, j]),
                "net_benefit": float(means[i, j]), "best": bool(j == means[i].argmax()),
                "perfect_information": float(information[i]),
            }
            for i, w in enumerate(self.thresholds)
            for j, name in enumerate(self.names)
        ]  # fmt: skip

    @property
    def sentence(self) -> str:
        """The result at the highest threshold in one sentence."""
        last = [row for row in self.rows() if row["threshold"] == self.thresholds[-1]]
        (best,) = (row for row in last if row["best"])
        worth = f"If one unit of {self.effect} is worth {format_number(best['threshold'])}"
        share = f"it is cost-effective in {short_percent(best['probability'])} of {self.draws:,} posterior draws"
        share += f" with a prior of weight {self.prior:g} per row"
        end = "this is a statement about the posterior, not the guarantee"
        return f"{worth}, {best['strategy']!r} has the highest mean net benefit, and {share}; {end}."

    def __str__(self) -> str:
        return self.sentence


def acceptability(
    estimate: Observed, events: Events, policies: Mapping[str, Any], cost: str, effect: str, thresholds: Sequence[float],
    draws: int, prior: float, seed: int | None, discounts: Mapping[str, float] | None,
) -> Acceptability:  # fmt: skip
    """Return the result of `Estimate.acceptability`, which describes the arguments."""
    if not isinstance(policies, Mapping) or len(policies) < 2:
        raise bad_type("policies", policies, "be a dict of at least two strategies by name")
    mdp, seed, prior = estimate.mdp, random_seed(seed), number(prior, "prior", 0.0, ends="(]")
    for what, name in (("cost", cost), ("effect", effect)):
        check_known((REWARD, *mdp.outcome_names), name, what)
    if cost == effect:
        raise bad_value("cost", cost, "differ from effect", repr(cost))
    worth = np.array([number(w, "thresholds", 0.0) for w in thresholds])
    if not worth.size or np.any(np.diff(worth) <= 0.0):
        raise bad_value("thresholds", thresholds, "increase and not be empty", list(thresholds))
    played = {}
    for name, policy in policies.items():
        problem, bound = bind(mdp, policy)
        played[name] = bound if problem is mdp else policy  # the plan of another model is followed by name
    found = np.empty((whole(draws, "draws", 1, most=10**6), 2, len(played)))
    for i, (p, mu) in enumerate(drawn_kernels(estimate, events, len(found), prior, np.random.default_rng(seed))):
        drawn = drawn_model(mdp, p, mu)
        for j, policy in enumerate(played.values()):
            means = expected_outcomes(drawn, policy, discounts, rewards=THIS_MODEL)
            found[i, :, j] = means[cost], means[effect]
    return Acceptability(
        names=tuple(map(str, policies)), thresholds=worth, costs=found[:, 0], effects=found[:, 1], cost=cost, effect=effect,
        prior=prior, seed=seed,
    )  # fmt: skip
