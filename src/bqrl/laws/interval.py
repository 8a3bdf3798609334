"""Distribution-free intervals for the quantile and the CVaR of independent returns.

quantile   X_(k) exceeds Q_tau with probability at most P(Bin(n, tau) <= k - 1), and X_(k) is below Q_tau with probability at
most P(Bin(n, tau) >= k): order statistics are ends of an interval for every law.
CVaR       By the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart, |F_n - F| <= eps everywhere with probability at least
1 - 2 exp(-2 n eps^2). The law with the smallest CVaR in this band moves the mass eps from the top to the lowest
possible return; the one with the largest CVaR drops the mass eps at the bottom.
"""

from __future__ import annotations

import math
from bisect import bisect_left

import numpy as np
from scipy.special import bdtr, bdtrc, betaincinv

from bqrl.laws.law import FloatArray, Law
from bqrl.laws.objectives import Objective, Quantile
from bqrl.loops.tolerance import MASS_TOL


def quantile_interval(returns: FloatArray, tau: float, confidence: float) -> dict[str, float]:
    """Return the empirical tau-quantile, and an interval that contains the true one with the stated confidence.

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
    above = bisect_left(range(n + 1), -alpha, key=lambda k: -bdtrc(k, n, tau)) + 1  # P(Bin >= above) <= alpha
    middle = max(1, math.ceil(n * (tau - MASS_TOL)))
    return {
        "value": float(sorted_returns[middle]),
        "lower": float(sorted_returns[_position_below(n, tau, alpha)]),
        "upper": float(sorted_returns[min(n + 1, above)]),
    }


def lower_quantile_bound(returns: FloatArray, tau: float, confidence: float) -> float:
    """Return a bound that lies below the tau-quantile with the stated confidence; -inf if there are too few returns.

    It is one-sided, so it is at least the lower end of `quantile_interval`.

    >>> lower_quantile_bound(np.arange(1000.0), 0.5, 0.95)
    473.0
    """
    return float(np.r_[-math.inf, np.sort(returns)][_position_below(returns.size, tau, 1.0 - confidence)])


def episodes_needed(tau: float, confidence: float) -> int:
    """Return the smallest number of returns for which `lower_quantile_bound` is finite: (1 - tau)^n <= 1 - confidence."""
    n = max(1, math.ceil(math.log1p(-confidence) / math.log1p(-tau)) - 1)
    while _position_below(n, tau, 1.0 - confidence) == 0:
        n += 1
    return n


def cvar_interval(
    law: Law, n: int, tau: float, confidence: float, lowest: float = -math.inf, highest: float = math.inf
) -> tuple[float, float]:
    """Return an interval that contains the lower CVaR at level tau with the stated confidence.

    Parameters
    ----------
    law : Law
        The empirical law of `n` independent returns.
    n : int
        Number of returns.
    tau, confidence : float
        Level in (0, 1] and confidence in (0, 1).
    lowest, highest : float
        The range of all possible returns, as far as it is known.

    Returns
    -------
    tuple of float
        Both ends. The lower end is -inf without `lowest`; the upper end needs `highest` only if tau + eps exceeds 1.

    Examples
    --------
    >>> law = Law([0.0, 1.0], [0.1, 0.9])
    >>> [round(end, 3) for end in cvar_interval(law, 100_000, 0.5, 0.95, lowest=0.0)]
    [0.791, 0.809]
    """
    eps = math.sqrt(math.log(2.0 / (1.0 - confidence)) / (2.0 * n))
    kept = max(tau - eps, 0.0)  # the mass of [0, tau] that the lowest returns leave
    lower = (
        -math.inf if lowest == -math.inf else ((tau - kept) * lowest + (kept * law.cvar(kept) if kept else 0.0)) / tau
    )
    over = max(tau + eps - 1.0, 0.0)  # the mass above the whole sample
    inside = max(tau - over, 0.0)
    upper = inside * law.buffered_quantile(1.0 if over else tau + eps, inside) if inside else 0.0
    return lower, (upper + (min(over, tau) * highest if over else 0.0)) / tau


def lower_end(objective: Objective, returns: FloatArray, confidence: float, floor: float) -> float:
    """Return a lower end for the objective of independent returns, none of which can be below `floor`.

    The objective never falls if returns rise. As in `quantile_interval`, the end fails with probability (1 - confidence) / 2.

    Examples
    --------
    >>> from bqrl.laws.objectives import CVaR
    >>> round(lower_end(CVaR(0.5), np.arange(1000.0), 0.95, 0.0), 1)
    208.4
    """
    if not math.isfinite(floor):
        return -math.inf
    n, values = returns.size, np.sort(np.maximum(returns, floor))
    return objective(_band(values, np.full(n, 1.0 / n), n, confidence, (floor, float(values[-1])))[0])


def share_interval(hits: int, n: int, confidence: float) -> tuple[float, float]:
    """Return an interval that contains the probability of a hit with the stated confidence (Clopper and Pearson).

    >>> [round(end, 4) for end in share_interval(97, 100, 0.95)]
    [0.9148, 0.9938]
    """
    alpha = (1.0 - confidence) / 2.0
    lower = float(betaincinv(hits, n - hits + 1.0, alpha)) if hits else 0.0
    return lower, float(betaincinv(hits + 1.0, n - hits, 1.0 - alpha)) if hits < n else 1.0


def sampled_interval(
    objective: Objective, values: FloatArray, mass: FloatArray, n: int, confidence: float, ends: tuple[float, float]
) -> tuple[float, float]:
    """Return an interval that contains the value of an objective under the law behind `n` independent returns.

    Parameters
    ----------
    objective : Objective
        Any objective that does not fall if returns rise.
    values, mass : ndarray
        The returns in increasing order, and the share of the sample at each.
    n, confidence
        Number of returns, and confidence in (0, 1).
    ends : tuple of float
        The lowest and the highest possible return.

    Returns
    -------
    tuple of float
        Order statistics for a quantile; else the values of the lowest and the highest law within the band of Dvoretzky,
        Kiefer, Wolfowitz and Massart.

    Examples
    --------
    >>> from bqrl.laws.objectives import Mean, Quantile
    >>> sample = np.arange(4.0), np.full(4, 0.25), 1000, 0.95, (0.0, 3.0)
    >>> sampled_interval(Quantile(0.4), *sample), [round(end, 3) for end in sampled_interval(Mean(), *sample)]
    ((1.0, 1.0), [1.371, 1.629])
    """
    if isinstance(objective, Quantile):
        found = quantile_interval(np.repeat(values, np.rint(n * mass).astype(np.int64)), objective.tau, confidence)
        return max(found["lower"], ends[0]), min(found["upper"], ends[1])
    lowest, highest = _band(values, mass, n, confidence, ends)
    return objective(lowest), objective(highest)


def _band(
    values: FloatArray, mass: FloatArray, n: int, confidence: float, ends: tuple[float, float]
) -> tuple[Law, Law]:
    """Return the lowest and the highest law near that of `n` independent returns, given in increasing order.

    With probability at least 1 - alpha the true distribution function exceeds the empirical one by at most
    eps = sqrt(log(1 / alpha) / (2 n)) everywhere (Dvoretzky, Kiefer, Wolfowitz; Massart, for alpha <= 1 / 2). Moving the
    mass eps from the highest returns to the lowest possible one therefore lowers every quantile below the true one; moving it
    from the lowest returns to the highest possible one raises every quantile above the true one. Here
    alpha = (1 - confidence) / 2.
    """
    eps, reached = math.sqrt(math.log(2.0 / (1.0 - confidence)) / (2.0 * n)), np.minimum(np.cumsum(mass), 1.0)
    reached[-1] = 1.0
    lowest = Law(np.r_[ends[0], values], np.diff(np.minimum(np.r_[-eps, 0.0, reached] + eps, 1.0)))
    return lowest, Law(np.r_[values, ends[1]], np.diff(np.maximum(np.r_[0.0, reached, 1.0 + eps] - eps, 0.0)))


def _position_below(n: int, tau: float, alpha: float) -> int:
    """Return the largest k with P(Bin(n, tau) <= k - 1) <= alpha; 0 if there is none."""
    return bisect_left(range(n + 1), True, key=lambda k: bdtr(k, n, tau) > alpha)
