"""Asset selling (paper, Section 5.1): take the offer at hand, or wait for a new one drawn independently of it.

States 0 .. offers - 1 are offers and the last one means sold. Stop = 0 sells at the offer s for s / (offers - 1) and moves
to sold; Continue = 1 pays nothing and draws the next offer. Sold absorbs and pays nothing, and episodes play all H stages.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, number, whole
from bqrl.loops.tolerance import SUM_TOL
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.model import MDP
from bqrl.mdp.noise import shared_noise
from bqrl.mdp.table import Table

UNIT, STAGE = "share of the best offer", "stage"
STOP, CONTINUE = 0, 1
DISTRIBUTIONS = ("uniform", "geometric", "two-humped")


def asset_selling(
    offers: int = 25, horizon: int = 10, start: int = 5, distribution: Any = "uniform", ratio: float = 0.85,
    stop_at_end: bool = False, shared: bool = False,
) -> MDP:  # fmt: skip
    """Return the asset-selling problem; the defaults give the problem of the paper.

    Learners know that Stop sells and that the state sold is absorbing. About Continue they know only that every offer is
    possible, even if its probability is zero.

    Parameters
    ----------
    offers, horizon : int
        Number of different offers, and of stages.
    start : int
        First offer.
    distribution : str or sequence
        Law of the next offer: "uniform", "geometric" (proportional to ratio**offer), "two-humped" (see `offer_law`), or
        one probability per offer.
    ratio : float
        Ratio of geometric offers.
    stop_at_end : bool
        Whether Continue is unavailable at the last stage, after which no offer can be accepted. The kernel is then
        stored stage by stage.
    shared : bool
        Whether learners know that one law of offers drives every row; in the paper's study they do not.

    Returns
    -------
    MDP

    Examples
    --------
    >>> asset_selling()
    MDP(H=10, S=26, A=2, start=5, 652 transitions, stationary)
    """
    n = whole(offers, "offers", 2)
    H = whole(horizon, "horizon", 1)
    whole(start, "start", 0, n - 1)
    law = offer_law(distribution, n, ratio)
    sold = n
    K = H if stop_at_end else 1
    counts = np.tile(np.r_[np.tile([1, n], n), 1, 1], K)  # outcomes of (offer, Stop), (offer, Continue), ..., (sold, .)
    successor = np.r_[np.tile(np.r_[sold, np.arange(n)], n), sold, sold]
    probability = np.r_[np.tile(np.r_[1.0, law], n), 1.0, 1.0]
    reward = np.zeros((K, n + 1, 2))
    reward[:, :n, STOP] = np.arange(n) / (n - 1)
    table = Table(
        S=n + 1, A=2, K=K, row_start=np.r_[0, np.cumsum(counts)], successor=np.tile(successor, K).astype(np.int32),
        probability=np.tile(probability, K), row_reward=reward,
    )  # fmt: skip
    available = np.ones((K, n + 1, 2), bool)
    if stop_at_end:
        available[-1, :n, CONTINUE] = False
    table = table.restrict(available)
    names = [*map(str, range(n)), "sold"]
    mdp = MDP.from_table(table, H, start, state_names=names, action_names=["Stop", "Continue"])
    if not shared:
        return mdp
    row = np.repeat(np.arange(mdp.row_start.size - 1), np.diff(mdp.row_start))
    outcome = np.arange(row.size)
    event = outcome - mdp.row_start[row]  # offer e is the e-th outcome of Continue
    events = {"events": (tuple(range(n)),), "probabilities": (law,)}
    return mdp.with_noise(shared_noise(table, row, outcome, np.zeros_like(row), event, **events))


def offer_law(distribution: Any, offers: int, ratio: float = 0.85) -> FloatArray:
    """Return the probabilities of the next offer, shape (offers,).

    "two-humped" is a market of many small buyers and a few large ones: with probability 0.9 a bell shape around a fifth of
    the range, with 0.1 one around four fifths, each with a standard deviation of a tenth of the range, cut to the offers.
    """
    x, rule = np.arange(offers), f"be one of {', '.join(DISTRIBUTIONS)} or {offers} probabilities that sum to 1"
    if isinstance(distribution, str):
        if distribution == "uniform":
            return np.full(offers, 1.0 / offers)
        if distribution == "geometric":
            ratio = number(ratio, "ratio", 0.0, ends="(]")
            weights = ratio ** (x - (offers - 1.0) * (ratio > 1))  # the largest weight is 1: no overflow
            return np.asarray(weights / weights.sum())
        if distribution == "two-humped":
            return 0.9 * _bell(x, 0.2) + 0.1 * _bell(x, 0.8)
        raise bad_value("distribution", distribution, rule)
    try:
        law = np.array(distribution, dtype=np.float64)
    except (TypeError, ValueError):
        raise bad_type("distribution", distribution, rule) from None
    if law.shape != (offers,):
        raise bad_value("distribution", distribution, rule, f"shape {law.shape}")
    if not np.all(law >= 0) or not abs(law.sum() - 1.0) <= SUM_TOL:
        raise bad_value("distribution", distribution, rule, f"the sum {law.sum():.12g}")
    return law


def _bell(x: Any, centre: float) -> FloatArray:
    width = x.size - 1
    weights = np.exp(-0.5 * ((x - centre * width) / (0.1 * width)) ** 2)
    return np.asarray(weights / weights.sum())
