"""Probabilistic sensitivity analysis: the value of one policy under kernels drawn from the posterior.

Each unknown row has a Dirichlet posterior: its counts plus a prior of total weight `prior`, spread evenly over the outcomes that
the estimate allows. Rows that share a law of events share its draw. Known rows stay as they are; an estimated law of the first
state is drawn, too. One draw gives one kernel; the policy's return law in it is computed by the forward pass.

The result is a statement about the posterior. It depends on the prior and is not the guarantee of the estimate.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.checks import bad_value, number, random_seed, whole
from bqrl.display import Charted, percent, short_percent
from bqrl.laws.law import Law
from bqrl.laws.objectives import CVaR, Objective, Quantile
from bqrl.logs.observed import Observed
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.find_grid import returns_grid
from bqrl.mdp.grid import Lattice
from bqrl.mdp.model import MDP
from bqrl.planners.evaluate import evaluate
from bqrl.planners.follow import Follower
from bqrl.planners.plan import Plan
from bqrl.planners.sweep import Layout
from bqrl.policies.convert import bind
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.protocol import THIS_MODEL
from bqrl.policies.target import TargetPolicy

Events = tuple[IntArray, ...]  # counts of the events of each shared law
INTERVAL = 0.95  # mass of the intervals of the table
LEVEL = 0.1  # of the quantile and the CVaR, where neither the caller nor the plan names one


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class PosteriorDraws(Charted):
    """Quantile, mean and CVaR of a policy's return under kernels drawn from the posterior; made by `estimate.psa`.

    Attributes
    ----------
    tau : float
        Level of the quantile and of the CVaR.
    quantile, mean, cvar : ndarray of shape (draws,)
        One entry per draw.
    promised : ndarray of shape (draws,) or None
        The objective of the plan, one entry per draw, if a plan of the estimate was given.
    objective : Objective or None
        The objective of that plan.
    promise : float or None
        The promise of that plan.
    prior : float
        Total weight of the prior per row, spread evenly over its outcomes.
    exact : bool
        Whether the return laws are exact; otherwise returns are rounded down.
    seed : int
        Seed of the draws.

    Examples
    --------
    >>> import bqrl
    >>> counts = {"state": [0, 0], "action": [0, 0], "next_state": [0, 0], "count": [30, 10], "reward": [1, 0]}
    >>> draws = bqrl.fit_counts(counts, horizon=1).psa("always:0", draws=100, tau=0.5)
    >>> draws.draws, draws.rows()[0]["median"]
    (100, 1.0)
    """

    tau: float
    quantile: FloatArray
    mean: FloatArray
    cvar: FloatArray
    promised: FloatArray | None
    objective: Objective | None = None
    promise: float | None
    prior: float
    exact: bool
    seed: int

    @property
    def draws(self) -> int:
        """Number of draws."""
        return self.quantile.size

    @property
    def share(self) -> float | None:
        """Share of the draws in which the policy keeps the promise; None without a promise."""
        if self.promise is None or self.promised is None:
            return None
        slack = 1e-9 * max(1.0, abs(self.promise)) if math.isfinite(self.promise) else 0.0
        return float(np.mean(self.promised >= self.promise - slack))

    @property
    def sentence(self) -> str:
        """The result in one sentence."""
        prior = f"with a prior of weight {self.prior:g} per row"
        if self.share is None:
            low, high = self._interval(self.quantile)
            what = f"the {Quantile(self.tau).label} lies between {low:g} and {high:g} in {percent(INTERVAL)}"
        else:
            what = f"the new plan's promise holds in {short_percent(self.share)}"
        end = "; this is a statement about the posterior, not the guarantee"
        return f"In {self.draws:,} posterior draws {prior}, {what} of the draws{end}."

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per measure: its mean, median and 95 % interval over the draws."""
        measures = {Quantile(self.tau).label: self.quantile, "mean": self.mean, CVaR(self.tau).label: self.cvar}
        if self.promised is not None and self.objective is not None:
            measures = {self.objective.label: self.promised} | measures
        found = []
        for name, values in measures.items():
            low, high = self._interval(values)
            middle = float(np.quantile(values, 0.5, method="inverted_cdf"))
            found.append({"measure": name, "mean": float(values.mean()), "median": middle, "lower": low, "upper": high})
        return found

    def __str__(self) -> str:
        return self.sentence

    def _interval(self, values: FloatArray) -> tuple[float, float]:
        """Return the ends of the central interval of the draws."""
        ends = (1.0 - INTERVAL) / 2.0, (1.0 + INTERVAL) / 2.0
        low, high = np.quantile(values, ends, method="inverted_cdf")
        return float(low), float(high)


def posterior_draws(
    estimate: Observed, events: Events, policy: Any, draws: int, tau: float | None, prior: float, seed: int | None,
    points: int,
) -> PosteriorDraws:  # fmt: skip
    """Return the draws of `Estimate.psa`, which describes the arguments."""
    promise, goal = None, None
    if isinstance(policy, Plan):
        if policy.details.get("estimate") is estimate:
            promise, goal = policy.value, policy.objective
        tau = getattr(policy.objective, "tau", None) if tau is None else tau
    tau, seed = number(LEVEL if tau is None else tau, "tau", 0.0, 1.0, "()"), random_seed(seed)
    found, exact = np.empty((whole(draws, "draws", 1, most=10**6), 4)), True
    prior = number(prior, "prior", 0.0, ends="(]")
    law_of = _evaluator(estimate, policy, whole(points, "points", 2))
    for i, (p, mu) in enumerate(drawn_kernels(estimate, events, len(found), prior, np.random.default_rng(seed))):
        law = law_of(p, mu)
        exact &= law.bound is None
        found[i] = law.quantile(tau), law.exact_mean, law.cvar(tau), 0.0 if goal is None else goal(law)
    quantile, mean, cvar, promised = found.T.copy()
    return PosteriorDraws(
        tau=tau, quantile=quantile, mean=mean, cvar=cvar, promised=promised if promise is not None else None,
        objective=goal, promise=promise, prior=prior, exact=exact, seed=seed,
    )  # fmt: skip


def _evaluator(estimate: Observed, policy: Any, points: int) -> Callable[[FloatArray, FloatArray | None], Law]:
    """Return the function from probabilities and the law of the first state to the policy's return law.

    Where returns lie on a uniform grid, one compiled loop runs all stages.
    """
    mdp = estimate.mdp
    evaluate(mdp, policy, points=points, rewards=THIS_MODEL)  # raises an error if the policy does not fit
    problem, played = bind(mdp, policy)  # by name, if it is the plan of another model
    grid = returns_grid(mdp) if problem is mdp and not estimate.start_atoms else None
    if isinstance(grid, Lattice):
        follower = Follower(Layout(mdp, grid))
        if isinstance(played, MarkovPolicy | TargetPolicy) and follower.fits(played):
            values = grid.points(0)
            return lambda p, mu: _positive_law(values, follower.law(played, p))

    def law(p: FloatArray, mu: FloatArray | None) -> Law:
        drawn = drawn_model(mdp, p, mu)
        return evaluate(drawn, played if problem is mdp else policy, points=points, rewards=THIS_MODEL)

    return law


def drawn_model(mdp: MDP, p: FloatArray, mu: FloatArray | None) -> MDP:
    """Return the model with drawn probabilities and, if it is drawn, the law of the first state."""
    return mdp.with_probability(p) if mu is None else mdp.with_probability(p).replace(start=mu)


def _positive_law(values: FloatArray, mass: FloatArray) -> Law:
    return Law(values[mass > 0.0], mass[mass > 0.0])


def drawn_kernels(
    estimate: Observed, events: Events, draws: int, prior: float, rng: np.random.Generator
) -> Iterator[tuple[FloatArray, FloatArray | None]]:
    """Yield probabilities of all outcomes drawn from the posterior, and the law of the first state if it is estimated."""
    mdp, balls, noise = estimate.mdp, estimate.balls, estimate.mdp.noise
    if not events and np.any(balls.visits != estimate.tries):
        rule = "come from fit in this session, because files do not hold the shared laws"
        raise bad_value("estimate", estimate, rule, "one from a file", remedy="fit the log again")
    shared = noise is not None and len(events) > 0
    size = np.diff(mdp.row_start)
    law = noise.row_law.reshape(-1) if noise is not None and shared else np.full(size.size, -1)
    rows = ~balls.known.reshape(-1) & (law < 0) & (size > 0)  # those that are drawn on their own
    free, begin = np.repeat(rows, size), np.r_[0, np.cumsum(size[rows])]
    shape = np.repeat(balls.visits.reshape(-1), size) * mdp.probability + prior / np.maximum(np.repeat(size, size), 1)
    first = np.flatnonzero(mdp.mu)
    for _ in range(draws):
        p, mu = mdp.probability.copy(), None
        p[free] = _dirichlet(shape[free], begin, rng)
        if noise is not None and shared:
            pairs = zip(events, noise.classes, strict=True)
            p = noise.image([_event_law(n, prior, classes, rng) for n, classes in pairs], p)
        if estimate.start_atoms:
            mu = np.zeros(mdp.S)
            weights = np.asarray(estimate.episodes * mdp.mu[first] + prior / first.size, np.float64)
            mu[first] = _dirichlet(weights, np.array([0, first.size]), rng)
        yield p, mu


def _dirichlet(shape: FloatArray, begin: IntArray, rng: np.random.Generator) -> FloatArray:
    """Return one Dirichlet draw per block [begin[i], begin[i + 1]); if all variates of a block underflow, its mean."""
    if not shape.size:
        return shape
    weights, sizes = rng.standard_gamma(shape), np.diff(begin)
    weights = np.where(np.repeat(np.add.reduceat(weights, begin[:-1]) > 0.0, sizes), weights, shape)
    return np.asarray(weights / np.repeat(np.add.reduceat(weights, begin[:-1]), sizes))


def _event_law(counts: IntArray, prior: float, classes: IntArray, rng: np.random.Generator) -> FloatArray:
    """Return a draw of the law of events; events that no row separates are counted and drawn as the first of their class."""
    first, law = np.unique(classes), np.zeros(counts.size)
    law[first] = _dirichlet(np.asarray(counts[first] + prior / first.size, np.float64), np.array([0, first.size]), rng)
    return law
