"""Safe or risky: at each stage a sure small reward, or a larger one that may fail.

The risky choice pays 3 with probability 0.55, a mean of 1.65 against the sure 1. How often to take it depends on the level and on
what has been collected so far, so no rule that depends on the stage alone is optimal for a quantile.
Illustrative numbers of our own.
"""

from __future__ import annotations

from bqrl.checks import number
from bqrl.mdp.model import MDP
from bqrl.mdp.step import from_step

UNIT, STAGE = "dollars", "stage"


def safe_or_risky(
    win_probability: float = 0.55, safe: float = 1.0, risky: float = 3.0, horizon: int = 10, shared: bool = False
) -> MDP:
    """Return the problem of repeated choices.

    Parameters
    ----------
    win_probability : float
        Probability that the risky choice pays.
    safe, risky : float
        Rewards.
    horizon : int
        Number of choices.
    shared : bool
        Whether learners know that one law decides every risky choice.

    Returns
    -------
    MDP

    Examples
    --------
    >>> safe_or_risky()
    MDP(H=10, S=1, A=2, start=0, 3 transitions, stationary)
    """
    p = number(win_probability, "win_probability", 0.0, 1.0)
    safe, risky = number(safe, "safe"), number(risky, "risky")

    def step(state: str, action: str, wins: bool) -> tuple[str, float]:
        return state, safe if action == "Safe" else risky if wins else 0.0

    mdp = from_step(step, ["Safe", "Risky"], {True: p, False: 1.0 - p}, horizon, "playing")
    return mdp if shared else mdp.with_noise(None)
