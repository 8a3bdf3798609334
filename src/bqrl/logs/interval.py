"""The quantile of independent returns with an order-statistic interval."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import binom

from bqrl.loops.tolerance import MASS_TOL
from bqrl.mdp.arrays import FloatArray


def quantile_interval(returns: FloatArray, tau: float, confidence: float) -> dict[str, float]:
    """Return the empirical tau-quantile, and an interval that contains the true one with the stated confidence.

    The number of returns below the true quantile is binomial, which bounds the positions of both ends in the sorted returns.

    Parameters
    ----------
    returns : ndarray
        Independent returns.
    tau, confidence : float
        Level and confidence, each in (0, 1).

    Returns
    -------
    dict
        value, lower and upper; an end is infinite if there are too few returns for it.

    Examples
    --------
    >>> quantile_interval(np.arange(1000.0), 0.5, 0.95)
    {'value': 499.0, 'lower': 468.0, 'upper': 531.0}
    """
    sorted_returns = np.r_[-math.inf, np.sort(returns), math.inf]
    n, alpha = returns.size, (1.0 - confidence) / 2.0
    below = int(binom.ppf(alpha, n, tau))  # P(Bin < below) < alpha, so position `below` is a valid end
    below = below if binom.cdf(below - 1, n, tau) <= alpha else below - 1
    above = int(binom.isf(alpha, n, tau)) + 1  # P(Bin >= above) <= alpha
    middle = max(1, math.ceil(n * (tau - MASS_TOL)))
    return {
        "value": float(sorted_returns[middle]),
        "lower": float(sorted_returns[max(0, below)]),
        "upper": float(sorted_returns[min(n + 1, above)]),
    }
