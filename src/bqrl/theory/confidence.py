"""Confidence sets: how wide they are, and whether runs stay inside them as often as promised.

`confidence_constant` and `radius` are those of the planners (paper, Equation confset); here is what they rest on.
Corrected: the constant is not universal (it grows like sqrt(1.39 S)); per row the number k of possible successors may stand
for S, k = 1 needs no radius at all, and S = 1 must not take the logarithm of 2^1 - 2 = 0. Given N = n the draws of adaptive
data are not independent; the proof takes a union over n = 1 .. T of the first n draws of a row in place of the episodes t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.mdp.forms import BoolArray, FloatArray
from bqrl.mdp.model import MDP
from bqrl.planners.confidence import confidence_constant as confidence_constant
from bqrl.planners.confidence import radius as radius
from bqrl.theory.checks import as_number, open_share, whole
from bqrl.theory.perturbation import total_variation

ROUNDING = 1e-12


def weissman(n: int, eps: float, S: int) -> float:
    """Bound on P(||p_hat - p||_1 >= eps) from n independent draws over S outcomes: (2^S - 2) exp(-n eps^2 / 2), at most 1.

    0 for S = 1 and eps > 0: there is nothing to estimate.
    """
    n, S = whole(n, "n", 1), whole(S, "S", 1)
    eps = as_number(eps, "eps", "a number")
    if not eps >= 0.0:
        raise ValueError(f"eps must not be negative, got {eps:g}")
    if eps == 0.0:
        return 1.0
    if S == 1:
        return 0.0
    return math.exp(min(0.0, _log_subsets(S) - n * eps**2 / 2.0))


def weissman_radius(n: int, S: int, delta: float) -> float:
    """The eps at which `weissman` equals delta: sqrt(2 log((2^S - 2) / delta) / n); 0 for S = 1."""
    n, S, delta = whole(n, "n", 1), whole(S, "S", 1), open_share(delta, "delta")
    return 0.0 if S == 1 else math.sqrt(2.0 * (_log_subsets(S) - math.log(delta)) / n)


def _log_subsets(S: int) -> float:
    """log(2^S - 2), also for large S."""
    return S * math.log(2.0) + math.log1p(-(2.0 ** (1 - S)))


def inside(mdp: MDP, estimate: MDP, width: Any) -> BoolArray:
    """Which rows of `mdp` lie in the l1 balls of radius `width` (a number or (H, S, A)) around `estimate`, (H, S, A)."""
    reach = np.asarray(width, dtype=np.float64)
    if reach.shape not in ((), (mdp.S, mdp.A), (mdp.H, mdp.S, mdp.A)):
        raise ValueError(f"width must be a number or have shape {(mdp.H, mdp.S, mdp.A)}, got {reach.shape}")
    return np.asarray(2.0 * total_variation(mdp, estimate) <= reach + ROUNDING)


@dataclass(frozen=True, slots=True, eq=False)
class TotalVariation:
    """The total-variation lemma on one episode's confidence set, row by row (H, S, A)."""

    variation: FloatArray  # TV between the optimistic kernel and the true one
    bound: FloatArray  # f(N): what it is at most where both lie in the set
    covered: BoolArray  # where both do

    @property
    def holds(self) -> bool:
        """Whether the bound holds on every row that is covered."""
        return bool(np.all(self.variation[self.covered] <= self.bound[self.covered] + ROUNDING))


def total_variation_consequence(mdp: MDP, optimistic: MDP, estimate: MDP, width: Any) -> TotalVariation:
    """TV(P^t, P*) <= f(N) row by row (lemma on the total-variation consequence), beside the true distance.

    Both within f(N) of the estimate in l1 are within 2 f(N) of each other, and TV is half of that.
    """
    covered = inside(mdp, estimate, width) & inside(optimistic, estimate, width)
    bound = np.array(np.broadcast_to(np.asarray(width, dtype=np.float64), covered.shape))
    return TotalVariation(total_variation(mdp, optimistic), bound, covered)


@dataclass(frozen=True, slots=True)
class Coverage:
    """How often runs stayed inside, with an interval that holds the true share with the given confidence."""

    share: float
    low: float
    high: float
    promised: float
    runs: int

    @property
    def refuted(self) -> bool:
        """Whether the promise lies above everything that the runs leave possible."""
        return self.high < self.promised


def coverage(kept: Any, delta: float, confidence: float = 0.95) -> Coverage:
    """Share of runs whose confidence sets held throughout, against 1 - delta (exact binomial interval)."""
    from scipy.stats import beta as beta_law

    runs = np.asarray(kept)
    if runs.dtype != np.bool_ or runs.ndim != 1 or runs.size == 0:
        raise TypeError("kept must hold one True or False per run")
    delta, tail = open_share(delta, "delta"), (1.0 - open_share(confidence, "confidence")) / 2.0
    n, k = runs.size, int(runs.sum())
    low = 0.0 if k == 0 else float(beta_law.ppf(tail, k, n - k + 1))
    high = 1.0 if k == n else float(beta_law.ppf(1.0 - tail, k + 1, n - k))
    return Coverage(k / n, low, high, 1.0 - delta, n)
