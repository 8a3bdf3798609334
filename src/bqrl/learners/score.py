"""Laws of the return that score the policies of a learner: exact if possible, else bracketed, else simulated.

Laws are exact if an exact grid of returns fits. On a rounded grid each reward is rounded down, so quantiles and means of a law
lie at most `error` below the true ones; the record then calls its scores a bracket. Policies whose memory is not a remaining
need cannot be bracketed. If no exact grid fits such a policy, or if a custom policy draws its own actions, its law is that of
simulated episodes; the record then calls its scores simulated.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from bqrl.checks import number
from bqrl.errors import GridError, PolicyError, SizeError
from bqrl.laws.law import Law, check_level, size_of
from bqrl.laws.objectives import Mean, Objective, Quantile
from bqrl.mdp.arrays import FloatArray, require
from bqrl.mdp.find_grid import returns_grid, rounded_grid
from bqrl.mdp.grid import NOISE, Grid, Lattice
from bqrl.mdp.model import MDP, per_model, per_structure
from bqrl.planners.evaluate import evaluate, simulate_model
from bqrl.planners.expected import best_mean
from bqrl.planners.follow import Follower
from bqrl.planners.plan import equal_values
from bqrl.planners.solve import solve
from bqrl.planners.sweep import Layout, best_column, sweep
from bqrl.policies.convert import average_actions
from bqrl.policies.forward import sums_grid
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.mixture import MixturePolicy
from bqrl.policies.protocol import THIS_MODEL, Policy, is_custom
from bqrl.policies.shares import uniform
from bqrl.policies.stochastic import StochasticPolicy
from bqrl.policies.target import TargetPolicy

ROUNDED_POINTS = 20_000
SIMULATED_EPISODES = 10_000  # for each policy whose law can be neither computed nor bracketed


@per_structure
def scoring_grid(mdp: MDP) -> Grid:
    """Return the grid on which laws of this problem are scored: its exact grid, or a rounded one."""
    found = returns_grid(mdp)
    return rounded_grid(mdp, ROUNDED_POINTS) if found is None else found


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Optimum:
    """The best achievable quantile of a problem at every level, the best mean, and the optima of further objectives."""

    points: FloatArray  # (m,)
    shortfall: FloatArray  # (m,) smallest probability of ending below each point
    best_mean: float
    error: float = 0.0  # the true best quantile lies in [quantile, quantile + error]
    # value and error by the text of an objective
    others: Mapping[str, tuple[float, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for array in (self.points, self.shortfall):
            array.flags.writeable = False

    def quantile(self, tau: float) -> float:
        """Return the best achievable tau-quantile."""
        return float(self.points[int(best_column(self.shortfall, check_level(tau)))])

    def has(self, objective: Objective) -> bool:
        """Return whether the optimum of this objective is known."""
        return isinstance(objective, Quantile | Mean) or objective.text in self.others

    def value(self, objective: Objective) -> float:
        """Return the proven value of the best policy for an objective."""
        if isinstance(objective, Quantile):
            return self.quantile(objective.tau)
        return self.best_mean if isinstance(objective, Mean) else self.others[objective.text][0]

    def error_of(self, objective: Objective) -> float:
        """Return how far the true optimum may lie above `value`; 0 if it is exact."""
        if isinstance(objective, Quantile):
            return self.error
        return 0.0 if isinstance(objective, Mean) else self.others[objective.text][1]

    def arrays(self) -> dict[str, Any]:
        """Return the optimum as plain arrays."""
        others = {"optimum_others": np.array(json.dumps(dict(self.others)))} if self.others else {}
        return others | {
            "optimum_points": self.points,
            "optimum_shortfall": self.shortfall,
            "best_mean": np.array(self.best_mean),
            "optimum_error": np.array(self.error),
        }

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Optimum:
        """Return the optimum that `arrays` describe; FileFormatError if they are damaged."""
        points, shortfall = (np.asarray(arrays[f"optimum_{name}"], np.float64) for name in ("points", "shortfall"))
        fits = points.ndim == 1 and points.size and shortfall.shape == points.shape
        require(bool(fits), "optimum_shortfall", "have one entry per point", f"{shortfall.shape} and {points.shape}")
        others = json.loads(str(arrays["optimum_others"])) if "optimum_others" in arrays else {}
        return cls(
            others={str(text): (float(value), float(error)) for text, (value, error) in others.items()},
            points=points,
            shortfall=shortfall,
            best_mean=number(arrays["best_mean"].item(), "best_mean"),
            error=number(arrays["optimum_error"].item(), "optimum_error", 0.0) if "optimum_error" in arrays else 0.0,
        )


def optimum(mdp: MDP, objective: Objective | None = None) -> Optimum:
    """Return the optimum of a problem, with that of an objective that is neither a quantile nor the mean; computed once."""
    found = _optimum(mdp)
    if objective is None or found.has(objective):
        return found
    return replace(found, others={objective.text: _best_value(mdp, objective)})


@per_model
def _best_value(mdp: MDP, objective: Objective) -> tuple[float, float]:
    """Return the proven value of the best policy for an objective, and how far the optimum may lie above it."""
    plan = solve(mdp, objective)
    gap = plan.gap or 0.0
    return plan.value, 0.0 if equal_values(plan.value, plan.value + gap, plan.law) else gap


@per_model
def _optimum(mdp: MDP) -> Optimum:
    """Return the best quantiles and the best mean of a problem."""
    columns = scoring_grid(mdp)
    points, shortfall = columns.points(0).copy(), sweep(mdp, columns, policy=False).root[:-1].copy()
    return Optimum(points=points, shortfall=shortfall, best_mean=best_mean(mdp)[0], error=columns.error)


@per_model
def random_play(mdp: MDP) -> Law:
    """Return the law of the return of uniformly random play, as `evaluate` computes it; computed once."""
    return evaluate(mdp, uniform(mdp))


class Scorer:
    """The laws of policies in one problem, as masses on the points of its grid.

    `error` bounds the distance of quantiles and means of the laws so far below the true ones, apart from sampling error.
    `simulated` is the number of episodes per simulated law, or 0 if no law was simulated; `sampled` tells whether the last law
    was. Every simulation starts from the same `seed`, so laws do not depend on the order of the policies.
    """

    def __init__(self, mdp: MDP, seed: int | np.random.SeedSequence = 0) -> None:
        self.mdp, self.grid, self.seed = mdp, scoring_grid(mdp), seed
        self.error, self.simulated, self.sampled = self.grid.error, 0, False
        self.points = self.grid.points(0).copy()
        self.points.flags.writeable = False
        self.follower = Follower(Layout(mdp, self.grid)) if isinstance(self.grid, Lattice) else None
        self._last: tuple[Any, FloatArray] | None = None

    def law(self, policy: Policy) -> FloatArray:
        """Return the mass of every point under the policy; the last law is reused if the policy has not changed."""
        key = policy.actions.tobytes() if isinstance(policy, MarkovPolicy) else policy
        if self._last is None or self._last[0] != key or is_custom(policy):  # a custom policy may have changed
            self._last = key, self._law(policy)
        return self._last[1]

    def _law(self, policy: Policy) -> FloatArray:
        """Return the mass of every point under the policy, and update `error` and `simulated`."""
        self.sampled = False
        if self.follower is not None and self.follower.fits(policy):
            return self.follower.law(policy)  # type: ignore[arg-type]
        placing = 0.0 if self.grid.exact else max(self.grid.error, self.grid.step)
        try:
            found, upper = evaluate(self.mdp, policy, bracket=True, rewards=THIS_MODEL)
            rounding = 0.0 if upper is found else self._bracket_width(policy)
        except (GridError, PolicyError, SizeError):  # PolicyError: a custom policy draws its actions
            self.simulated, self.sampled, rounding = SIMULATED_EPISODES, True, 0.0
            rng = np.random.default_rng(self.seed)
            returns = simulate_model(self.mdp, policy, SIMULATED_EPISODES, rng, rewards=THIS_MODEL)
            found = Law(returns, np.full(returns.size, 1.0 / returns.size))
        self.error = max(self.error, rounding + placing)
        mass = np.zeros(self.points.size)
        slack = NOISE * size_of(self.points)
        if self.grid.exact and rounding == 0.0:  # up to rounding, each value is a point
            place = np.searchsorted((self.points[1:] + self.points[:-1]) / 2.0, found.values)
        elif self.grid.exact:  # a value between two points is a return rounded down
            place = np.minimum(self.grid.column(0, found.values, 0), self.points.size - 1)
        else:
            place = np.maximum(np.searchsorted(self.points, found.values + slack, side="right") - 1, 0)
        np.add.at(mass, place, found.probabilities)
        return mass

    def _bracket_width(self, policy: Policy) -> float:
        """Return the width of the bracket of a policy's law: the error of the grid on which its sums were computed."""
        if isinstance(policy, MixturePolicy):
            return max(map(self._bracket_width, policy.policies))
        if isinstance(policy, StochasticPolicy):
            return rounded_grid(average_actions(self.mdp, policy.probabilities), ROUNDED_POINTS).error
        columns = sums_grid(self.mdp, policy) if isinstance(policy, TargetPolicy) else self.grid
        return 0.0 if columns is None else columns.error  # without a grid of sums the law is exact
