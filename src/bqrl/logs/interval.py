"""Intervals for the policy that wrote the log, from its own independent returns."""

from __future__ import annotations

import math

import numpy as np
from scipy.stats import binom

from bqrl.laws.law import Law
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


def buffered_lower(returns: FloatArray, tau: float, beta: float, confidence: float, floor: float) -> float:
    """Return a lower end for the buffered quantile of independent returns, none of which can be below `floor`.

    With probability at least 1 - alpha the true distribution function exceeds the empirical one by at most
    eps = sqrt(log(1 / alpha) / (2 n)) everywhere (Dvoretzky, Kiefer, Wolfowitz; Massart, for alpha <= 1 / 2). So moving the
    mass eps from the highest returns to the floor lowers every quantile below the true one. As in `quantile_interval`,
    alpha = (1 - confidence) / 2.

    Examples
    --------
    >>> round(buffered_lower(np.arange(1000.0), 0.5, 0.5, 0.95, 0.0), 1)
    208.4
    """
    if not math.isfinite(floor):
        return -math.inf
    n, values = returns.size, np.sort(np.maximum(returns, floor))
    eps = min(1.0, math.sqrt(math.log(2.0 / (1.0 - confidence)) / (2.0 * n)))
    reached = np.minimum(np.arange(n + 1) / n + eps, 1.0)  # the highest possible distribution function
    law = Law(np.r_[floor, values], np.diff(np.r_[0.0, reached]))
    return float(law.buffered_quantile(tau, beta))
