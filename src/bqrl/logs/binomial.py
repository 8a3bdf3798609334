"""Exact bounds for samples of fixed size: how far the frequency of a set of outcomes can exceed its probability.

If x of n independent draws hit a set G, then with probability at least 1 - alpha (Clopper and Pearson)

    p(G)  >=  B(alpha; x, n - x + 1),    the alpha-quantile of that Beta law.

The number of draws is fixed beforehand, so that no union over sample sizes or rates is needed, unlike for logs.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.special import betaincinv

from bqrl.mdp.arrays import FloatArray, IntArray

FIRST = 256  # points of the first search
SLACK = 1.005  # the bound exceeds the largest excess by at most this factor


@lru_cache(maxsize=2**16)
def largest_excess(n: int, most: int, seen: int, complete: bool, alpha: float) -> float:
    """Return a bound on p_hat(G) - p(G) over all proper sets G of outcomes, where each set may fail with probability alpha.

    Parameters
    ----------
    n, most, seen : int
        Number of draws, draws of the most frequent outcome, and number of different outcomes among the draws.
    complete : bool
        Whether every possible outcome was drawn, so that no proper set has frequency 1.
    alpha : float
        Probability with which the bound of one set may fail.

    Examples
    --------
    >>> round(largest_excess(100, 70, 2, True, 0.025), 4)  # 0.3 - 0.2124 and 0.7 - 0.6002
    0.0998
    """
    found = [0.0 if complete else float(_excess(np.array([n]), n, alpha)[0])]
    if seen == 2:
        found += _excess(np.array([most, n - most]), n, alpha).tolist()
    elif seen > 2:  # a set contains the most frequent outcome or not
        found += [_search(low, high, n, alpha) for low, high in ((1, n - most), (most, n - 1)) if low <= high]
    return max(found)


def _excess(x: IntArray, n: int, alpha: float) -> FloatArray:
    return np.asarray(x / n - betaincinv(x, n - x + 1.0, alpha), np.float64)


def _search(low: int, high: int, n: int, alpha: float) -> float:
    """Return a bound on the excess over all x from `low` to `high`, at most SLACK times the largest.

    The limit B rises with x, so x / n - B(x) is at most right / n - B(left) for all x of an interval.
    """
    ends = np.unique(np.linspace(low, high, min(high - low + 1, FIRST)).round().astype(np.int64))
    best, done = float(_excess(ends, n, alpha).max()), 0.0
    left, right = ends[:-1], ends[1:] - 1  # right ends belong to the next interval
    while left.size:
        bound = right / n - (left / n - _excess(left, n, alpha))
        open_ones = (bound > best * SLACK) & (right > left)
        done = max(done, float(bound[~open_ones].max(initial=0.0)))
        middle = (left[open_ones] + right[open_ones] + 1) // 2
        if middle.size:
            best = max(best, float(_excess(middle, n, alpha).max()))
        left, right = np.r_[left[open_ones], middle], np.r_[middle - 1, right[open_ones]]
    return max(best, done)
