"""High-probability containment of the true kernel in the confidence sets, checked against runs.

The lemma states: with probability at least 1 - delta, the l1 balls of radius f(N) around the rows of the empirical kernel
(paper, Equation confset) contain the true kernel in all T episodes. `planners/confidence.py` holds the radii, which
`bqrl.theory` exports as `radius` and `confidence_constant`; this file compares the statement with runs.

Corrected: the constant c is not universal; c^2 log(2 S A T H / delta) grows like 1.39 S. For each row the number k of
possible successors can replace S, and a row with k = 1 needs no radius. For S = 1 the logarithm of 2^1 - 2 = 0 must be
avoided. In adaptively collected data the draws of a row are not independent given N = n; the proof holds with a union over
the first n = 1, ..., T draws of each row instead of a union over the episodes t.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.checks import number, shown
from bqrl.errors import ArgumentTypeError


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Share of runs whose confidence sets contained the true kernel, with a confidence interval.

    Attributes
    ----------
    share : float
        Observed share of runs.
    low, high : float
        Ends of the confidence interval for the true probability.
    promised : float
        The probability 1 - delta that the lemma states.
    runs : int
        Number of runs.
    """

    share: float
    low: float
    high: float
    promised: float
    runs: int

    @property
    def refuted(self) -> bool:
        """Whether the whole confidence interval lies below the stated probability."""
        return self.high < self.promised


def coverage(contained: Any, delta: float, confidence: float = 0.95) -> Coverage:
    """Observed coverage of the confidence sets beside the stated 1 - delta.

    Parameters
    ----------
    contained : array_like of bool
        One entry per run: whether the sets contained the true kernel in every episode.
    delta : float
        Failure probability in (0, 1) for which the radii were computed.
    confidence : float
        Confidence level of the exact binomial (Clopper-Pearson) interval.

    Returns
    -------
    Coverage
        The observed share, its interval and the stated probability.

    Examples
    --------
    >>> coverage([True] * 19 + [False], delta=0.1).refuted
    False
    """
    from scipy.stats import beta as beta_distribution  # slow to import, and used here only

    runs = np.asarray(contained)
    if runs.dtype != np.bool_ or runs.ndim != 1 or runs.size == 0:
        raise ArgumentTypeError(
            f"contained must hold one True or False per run, got {shown(contained)}", name="contained", value=contained
        )
    delta = number(delta, "delta", 0.0, 1.0, "()")
    tail = (1.0 - number(confidence, "confidence", 0.0, 1.0, "()")) / 2.0
    n, k = runs.size, int(runs.sum())
    low = 0.0 if k == 0 else float(beta_distribution.ppf(tail, k, n - k + 1))
    high = 1.0 if k == n else float(beta_distribution.ppf(1.0 - tail, k + 1, n - k))
    return Coverage(share=k / n, low=low, high=high, promised=1.0 - delta, runs=n)
