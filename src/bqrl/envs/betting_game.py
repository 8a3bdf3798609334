"""Betting game: six bets at favourable odds, and a cap on what can be won.

A player with 16 coins may stake any whole number of them, six times, and wins each stake with probability 0.88. The house
limits the capital to 256: a stake may not lead beyond it. The mean favours staking everything; a quantile does not. Repeated
bets are a common test of risk-averse planning (Bäuerle and Ott 2011, "Markov decision processes with average-value-at-risk
criteria"; Rigter, Lacerda and Hawes 2021, "Risk-averse Bayes-adaptive reinforcement learning").

With `stakes="eighths"` it is the benchmark of later work on CVaR (Luo, Pan, Wang, Torr and Poupart 2024; Mead, Costen,
Lacerda and Hawes 2025, "Return capping: sample efficient CVaR policy gradient optimisation"): stakes are 0, 1/8, ..., 8/8 of
the capital, whatever would exceed the cap is not staked, and amounts are exact. The return is the gain. Code and paper
differ: the public configuration wins with probability 0.88, the paper states 0.8. The best CVaR at level 0.2 is 23.88 with
0.88 and 6.89 with 0.8.
"""

from __future__ import annotations

from bqrl.checks import choice, number, whole
from bqrl.mdp.model import MDP
from bqrl.mdp.step import from_step

UNIT, STAGE = "coins", "bet"


def betting_game(
    win_probability: float = 0.88, bets: int = 6, start: int = 16, cap: int = 256, shared: bool = False,
    stakes: str = "whole",
) -> MDP:  # fmt: skip
    """Return the betting game.

    Parameters
    ----------
    win_probability : float
        Probability that a stake is won: 0.88 in the public configuration of the benchmark, 0.8 in its paper.
    bets : int
        Number of bets.
    start, cap : int
        First and largest capital.
    shared : bool
        Whether learners know that every bet has the same odds.
    stakes : {"whole", "eighths"}
        Stakes in whole coins, or in eighths of the capital.

    Returns
    -------
    MDP

    Examples
    --------
    >>> betting_game(bets=3, start=2, cap=8)
    MDP(H=3, S=9, A=5, start=2, 41 transitions, stationary)
    """
    cap, bets = whole(cap, "cap", 1), whole(bets, "bets", 1)
    p, first = number(win_probability, "win_probability", 0.0, 1.0), whole(start, "start", 0, cap)
    if choice(stakes, "stakes", ("whole", "eighths")) == "whole":
        mdp = from_step(
            lambda capital, stake, sign: (capital + sign * stake, float(sign * stake)),
            lambda capital: range(min(capital, cap - capital) + 1), {-1: 1.0 - p, 1: p}, bets, first,
            state_name=lambda capital: f"{capital} coins", action_name=lambda stake: f"stake {stake}",
        )  # fmt: skip
    else:
        unit = 8**bets  # capital in units of 8^-bets coins is a whole number after every bet

        def step(capital: int, eighths: int, sign: int) -> tuple[int, float]:
            gain = sign * min(capital * eighths // 8, cap * unit - capital)
            return capital + gain, gain / unit

        mdp = from_step(
            step, range(9), {-1: 1.0 - p, 1: p}, bets, first * unit,
            state_name=lambda capital: f"{capital / unit:.12g} coins", action_name=lambda eighths: f"stake {eighths}/8",
        )  # fmt: skip
    return mdp if shared else mdp.with_noise(None)
