"""Weissman's l1 concentration of an empirical distribution (lemma of that name).

For n independent draws from a law p on S outcomes and their frequencies p_hat,

    P( ||p_hat - p||_1 >= eps ) <= (2^S - 2) exp(-n eps^2 / 2).
"""

from __future__ import annotations

import math

from bqrl.checks import number, whole


def weissman(n: int, eps: float, S: int) -> float:
    """Weissman's bound on the probability of an l1 error of at least `eps`.

    Parameters
    ----------
    n : int
        Number of independent draws, at least 1.
    eps : float
        l1 distance, at least 0.
    S : int
        Number of outcomes, at least 1.

    Returns
    -------
    float
        (2^S - 2) exp(-n eps^2 / 2), at most 1. With one outcome there is nothing to estimate: the value is then 0 for
        every eps > 0.

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
    delta : float
        Probability in (0, 1) that the radius may fail.

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
