"""Containment of the true kernel in the confidence sets with high probability, and Weissman's inequality, which proves it.

For n independent draws from a law p on S outcomes and their frequencies p_hat, Weissman's inequality states

    P( ||p_hat - p||_1 >= eps ) <= (2^S - 2) exp(-n eps^2 / 2).

The lemma on containment states: with probability at least 1 - delta, the l1 balls of radius f(N) around the rows of the
empirical kernel (paper, Equation confset) contain the true kernel in all T episodes. `planners/confidence.py` holds the
radii, which `bqrl.theory` exports as `radius` and `confidence_constant`.

Corrected: the constant c is not universal; c^2 log(2 S A T H / delta) grows like 1.39 S. For each row the number k of
possible successors can replace S, and a row with k = 1 needs no radius. For S = 1 the logarithm of 2^1 - 2 = 0 must be
avoided. In adaptively collected data the draws of a row are not independent given N = n; the proof holds with a union over
the first n = 1, ..., T draws of each row instead of a union over the episodes t.
"""

from __future__ import annotations

import math

from bqrl.checks import number, whole


def weissman(n: int, eps: float, S: int) -> float:
    """Return Weissman's bound on the probability of an l1 error of at least `eps` (lemma on l1 concentration).

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


def _log_subsets(S: int) -> float:
    """Return log(2^S - 2), without overflow for large S."""
    return S * math.log(2.0) + math.log1p(-(2.0 ** (1 - S)))
