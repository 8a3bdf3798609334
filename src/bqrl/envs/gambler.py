"""Gambler: stake part of a capital on a coin that is biased against you.

Each round the gambler stakes a whole amount and wins or loses it. Play ends at 0 or at the goal. The return is what
the gambler gains in total. The problem is a classic of dynamic programming (Dubins and Savage 1965, "How to gamble if you
must"); a goal of 10, a winning probability of 0.45 and eight rounds are illustrative numbers of our own.
"""

from __future__ import annotations

from bqrl.checks import number, whole
from bqrl.mdp.model import MDP
from bqrl.mdp.step import from_step

UNIT, STAGE = "dollars", "round"


def gambler(
    goal: int = 10, win_probability: float = 0.45, horizon: int = 8, start: int | None = None, shared: bool = False
) -> MDP:
    """Return the gambler's problem.

    Parameters
    ----------
    goal : int
        The capital at which play ends, at least 2.
    win_probability : float
        Probability that a stake is won.
    horizon : int
        Number of rounds.
    start : int, optional
        First capital; half of the goal if not given.
    shared : bool
        Whether learners know that one coin decides every stake.

    Returns
    -------
    MDP

    Examples
    --------
    >>> gambler()
    MDP(H=8, S=11, A=6, start=5, 61 transitions, stationary)
    """
    goal = whole(goal, "goal", 2)
    p = number(win_probability, "win_probability", 0.0, 1.0)
    first = goal // 2 if start is None else whole(start, "start", 0, goal)

    def step(capital: int, stake: int, sign: int) -> tuple[int, float]:
        return capital + sign * stake, float(sign * stake)

    mdp = from_step(
        step, lambda capital: range(min(capital, goal - capital) + 1), {-1: 1.0 - p, 1: p}, horizon, first,
        state_name=lambda capital: f"capital {capital}", action_name=lambda stake: f"stake {stake}",
    )  # fmt: skip
    return mdp if shared else mdp.with_noise(None)
