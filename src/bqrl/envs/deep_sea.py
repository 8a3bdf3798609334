"""Deep sea: only an unbroken run of costly moves to the right reaches the treasure.

A diver sinks one row per stage and moves one column left or right. A move right costs a little, and with a small probability
leads left instead. The treasure lies below the last column, which is reached only by moving right at every stage. The
problem is from Osband, Van Roy, Russo and Wen (2019, "Deep exploration via randomized value functions"); slips and whole
rewards are illustrative numbers of our own.
"""

from __future__ import annotations

from bqrl.checks import number, whole
from bqrl.mdp.model import MDP
from bqrl.mdp.step import from_step

UNIT, STAGE = "points", "row"


def deep_sea(
    size: int = 8, prize: float = 100.0, cost: float = 1.0, success: float = 0.95, shared: bool = False
) -> MDP:
    """Return the deep-sea problem; the state is the column.

    Parameters
    ----------
    size : int
        Number of columns and of stages, at least 2.
    prize, cost : float
        Reward of a successful move right in the last column, and cost of every move right.
    success : float
        Probability that a move right does not slip.
    shared : bool
        Whether learners know that slips have one probability everywhere.

    Returns
    -------
    MDP

    Examples
    --------
    >>> deep_sea()
    MDP(H=8, S=8, A=2, start=0, 24 transitions, stationary)
    """
    N = whole(size, "size", 2)
    prize, cost = number(prize, "prize"), number(cost, "cost")
    p = number(success, "success", 0.0, 1.0)

    def step(column: int, move: str, slips: bool) -> tuple[int, float]:
        if move == "Left":
            return max(column - 1, 0), 0.0
        if slips:
            return max(column - 1, 0), -cost
        return min(column + 1, N - 1), (prize if column == N - 1 else 0.0) - cost

    mdp = from_step(
        step, ["Left", "Right"], {True: 1.0 - p, False: p}, N, 0, state_name=lambda column: f"column {column}"
    )
    return mdp if shared else mdp.with_noise(None)
