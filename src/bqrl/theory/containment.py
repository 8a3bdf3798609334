"""High-probability containment of the true kernel in the confidence sets, and Weissman's inequality, which proves it.

For n independent draws from a law p on S outcomes and their frequencies p_hat, Weissman's inequality states

    P( ||p_hat - p||_1 >= eps ) <= (2^S - 2) exp(-n eps^2 / 2).

The lemma on containment states: with probability at least 1 - delta, the l1 balls of radius f(N) around the rows of the
empirical kernel (paper, Equation confset) contain the true kernel in all T episodes. `planners/confidence.py` holds the
radii, which `bqrl.theory` exports as `radius` and `confidence_constant`; `coverage` compares the statement with runs.

Corrected: the constant c is not universal; c^2 log(2 S A T H / delta) grows like 1.39 S. For each row the number k of
possible successors can replace S, and a row with k = 1 needs no radius. For S = 1 the logarithm of 2^1 - 2 = 0 must be
avoided. In adaptively collected data the draws of a row are not independent given N = n; the proof holds with a union over
the first n = 1, ..., T draws of each row instead of a union over the episodes t.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.checks import number, whole, wrong_type


def weissman(n: int, eps: float, S: int) -> float:
    """Weissman's bound on the probability of an l1 error of at least `eps`.

    Parameters
    ----------
    n, S : int
        Numbers of independent draws and of outcomes, each at least 1.
    eps : float
        l1 distance, at least 0.

    Returns
    -------
    float
        (2^S - 2) exp(-n eps^2 / 2), at most 1; with one outcome, 0 for every eps > 0.

    Examples
    --------
    >>> round(weissman(1000, 0.15, 4), 6)
    0.000182
    """
    n, S, eps = whole(n, "n", 1), whole(S, "S", 1), number(eps, "eps", 0.0)
    if eps == 0.0:
        return 1.0
    if S == 1:
        return 0.0
    return math.exp(min(0.0, _log_subsets(S) - n * eps**2 / 2.0))


def weissman_radius(n: int, S: int, delta: float) -> float:
    """The l1 radius at which Weissman's bound equals `delta`.

    Parameters
    ----------
    n, S : int
        Numbers of draws and of outcomes, each at least 1.
    delta : see `bqrl.theory`

    Returns
    -------
    float
        sqrt(2 log((2^S - 2) / delta) / n); 0 for S = 1.

    Examples
    --------
    >>> round(weissman_radius(1000, 4, 0.05), 4)
    0.1062
    """
    n, S, delta = whole(n, "n", 1), whole(S, "S", 1), number(delta, "delta", 0.0, 1.0, "()")
    return 0.0 if S == 1 else math.sqrt(2.0 * (_log_subsets(S) - math.log(delta)) / n)


def _log_subsets(S: int) -> float:
    """log(2^S - 2) without overflow for large S."""
    return S * math.log(2.0) + math.log1p(-(2.0 ** (1 - S)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Share of runs whose confidence sets contained the true kernel, with a confidence interval."""

    share: float  # observed
    low: float  # ends of the confidence interval for the true probability
    high: float
    promised: float  # 1 - delta
    runs: int

    @property
    def refuted(self) -> bool:
        """Whether the whole confidence interval lies below the stated probability."""
        return self.high < self.promised


def coverage(contained: Any, delta: float, confidence: float = 0.95) -> Coverage:
    """Observed coverage of the confidence sets, compared with the stated 1 - delta.

    Parameters
    ----------
    contained : array_like of bool
        One entry per run: whether the sets contained the true kernel in every episode.
    delta : see `bqrl.theory`
    confidence : float
        Confidence level of the exact binomial (Clopper-Pearson) interval.

    Returns
    -------
    Coverage

    Examples
    --------
    >>> coverage([True] * 19 + [False], delta=0.1).refuted
    False
    """
    from scipy.stats import beta as beta_distribution  # slow to import, and used here only

    runs = np.asarray(contained)
    if runs.dtype != np.bool_ or runs.ndim != 1 or runs.size == 0:
        raise wrong_type("contained", contained, "hold one True or False per run")
    delta = number(delta, "delta", 0.0, 1.0, "()")
    tail = (1.0 - number(confidence, "confidence", 0.0, 1.0, "()")) / 2.0
    n, k = runs.size, int(runs.sum())
    low = 0.0 if k == 0 else float(beta_distribution.ppf(tail, k, n - k + 1))
    high = 1.0 if k == n else float(beta_distribution.ppf(1.0 - tail, k + 1, n - k))
    return Coverage(share=k / n, low=low, high=high, promised=1.0 - delta, runs=n)
