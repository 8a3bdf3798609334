"""Betting game: six bets at favourable odds, and a cap on what can be won.

A player with 16 coins may stake any whole number of them, six times, and wins each stake with probability 0.88. The
house limits the capital to 256: a stake may not lead beyond it. The mean favours staking everything; a quantile does
not. Repeated bets are a common test of risk-averse planning (Bäuerle and Ott 2011, "Markov decision processes with
average-value-at-risk criteria"; Rigter, Lacerda and Hawes 2021, "Risk-averse Bayes-adaptive reinforcement learning"). Six
bets from 16 coins with a cap of 256 are a known benchmark for CVaR, with stakes in eighths of the capital; here every
whole stake is allowed. The winning probability is a number of our own. The return is the gain.
"""

from __future__ import annotations

from bqrl.checks import number, whole
from bqrl.mdp.model import MDP
from bqrl.mdp.step import from_step

UNIT, STAGE = "coins", "bet"


def betting_game(
    win_probability: float = 0.88, bets: int = 6, start: int = 16, cap: int = 256, shared: bool = False
) -> MDP:
    """Return the betting game.

    Parameters
    ----------
    win_probability : float
        Probability that a stake is won.
    bets : int
        Number of bets.
    start, cap : int
        First and largest capital.
    shared : bool
        Whether learners know that every bet has the same odds.

    Returns
    -------
    MDP

    Examples
    --------
    >>> betting_game(bets=3, start=2, cap=8)
    MDP(H=3, S=9, A=5, start=2, 41 transitions, stationary)
    """
    cap = whole(cap, "cap", 1)
    p = number(win_probability, "win_probability", 0.0, 1.0)

    def step(capital: int, stake: int, sign: int) -> tuple[int, float]:
        return capital + sign * stake, float(sign * stake)

    mdp = from_step(
        step,
        lambda capital: range(min(capital, cap - capital) + 1),
        {-1: 1.0 - p, 1: p},
        whole(bets, "bets", 1),
        whole(start, "start", 0, cap),
        state_name=lambda capital: f"{capital} coins",
        action_name=lambda stake: f"stake {stake}",
    )
    return mdp if shared else mdp.with_noise(None)
