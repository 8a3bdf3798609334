"""Bandit: one choice between a sure reward and arms that pay a high or a low one.

The sure arm pays 4; each other arm pays 8 with its own probability and 1 otherwise. At the median, any arm with a
probability above one half is best; at low levels the sure arm is. Illustrative numbers of our own: the probabilities
are near one half, so that a learner must distinguish them.
"""

from __future__ import annotations

from collections.abc import Sequence

from bqrl.checks import bad_type, number, numbers
from bqrl.mdp.model import MDP

UNIT, STAGE = "dollars", "pull"


def bandit(
    probabilities: Sequence[float] = (0.5, 0.62, 0.45, 0.55), sure: float = 4.0, high: float = 8.0, low: float = 1.0,
    horizon: int = 1,
) -> MDP:  # fmt: skip
    """Return the bandit.

    Parameters
    ----------
    probabilities : sequence
        Probability of the high reward, one per arm that is not sure.
    sure, high, low : float
        Rewards.
    horizon : int
        Number of pulls.

    Returns
    -------
    MDP

    Examples
    --------
    >>> bandit()
    MDP(H=1, S=1, A=5, start=0, 9 transitions, stationary)
    """
    sure, high, low = number(sure, "sure"), number(high, "high"), number(low, "low")
    chances = numbers(probabilities, "probabilities").tolist()
    if not isinstance(chances, list):
        raise bad_type("probabilities", probabilities, "be a list with one probability per arm")
    rows = [(0, 0, 0, 1.0, sure)]
    for a, given in enumerate(chances, start=1):
        p = number(given, f"probabilities[{a - 1}]", 0.0, 1.0)
        rows += [(0, a, 0, p, high), (0, a, 0, 1.0 - p, low)]
    names = ["Sure", *(f"Arm {a}" for a in range(1, len(chances) + 1))]
    return MDP(rows, horizon=horizon, state_names=["playing"], action_names=names)
