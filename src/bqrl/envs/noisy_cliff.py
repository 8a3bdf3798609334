"""Noisy cliff: walk to the goal along or away from an edge while half of all moves go in a random direction.

A walker crosses a grid of 4 x 8 cells from the lower left to the lower right corner, which pays 10. The other cells of
the lower row are the cliff: each move that ends there costs 1 and the walk goes on. With probability 0.5 a move goes in one
of the four directions at random instead of the chosen one. The walk ends at the goal or after 50 moves. The problem is the
cliff of the public code for Moghimi and Ku (2025, "Beyond CVaR: leveraging static spectral risk measures for enhanced
decision-making in distributional reinforcement learning"), a variant of cliff walking (Sutton and Barto 2018, Example 6.6).
As there, the last move costs nothing wherever it ends.
"""

from __future__ import annotations

from bqrl.checks import number, whole
from bqrl.mdp.model import MDP
from bqrl.mdp.step import from_step

UNIT, STAGE = "points", "move"
MOVES = {"Up": (-1, 0), "Right": (0, 1), "Down": (1, 0), "Left": (0, -1)}  # row, column


def noisy_cliff(
    rows: int = 4, columns: int = 8, horizon: int = 50, noise: float = 0.5, cost: float = 1.0, prize: float = 10.0
) -> MDP:
    """Return the cliff problem; its return is the prize, if the goal is reached, minus the cost of the cliff.

    Parameters
    ----------
    rows, columns : int
        Size of the grid, at least 2 by 3.
    horizon : int
        Largest number of moves.
    noise : float
        Probability that a move goes in a random direction.
    cost, prize : float
        Cost of a move that ends on the cliff and reward at the goal.

    Returns
    -------
    MDP

    Examples
    --------
    >>> noisy_cliff(horizon=20)
    MDP(H=20, S=32, A=4, start=24, 7336 transitions)
    """
    rows, columns, H = whole(rows, "rows", 2), whole(columns, "columns", 3), whole(horizon, "horizon", 1)
    noise, cost, prize = number(noise, "noise", 0.0, 1.0), number(cost, "cost"), number(prize, "prize")
    first, goal = (rows - 1, 0), (rows - 1, columns - 1)

    def step(place: tuple[int, int], action: str, event: tuple[str, bool]) -> tuple[tuple[int, int], float]:
        if place == goal:
            return goal, 0.0
        down, right = MOVES[action if event[0] == "as chosen" else event[0]]
        row, column = min(max(place[0] + down, 0), rows - 1), min(max(place[1] + right, 0), columns - 1)
        if (row, column) == goal:
            return goal, prize
        return (row, column), -cost if row == rows - 1 and column > 0 and not event[1] else 0.0

    laws = [
        {("as chosen", last): 1.0 - noise, **{(name, last): noise / 4.0 for name in MOVES}}
        for last in (h == H - 1 for h in range(H))
    ]
    return from_step(
        step,
        list(MOVES),
        laws,
        H,
        first,
        state_name=lambda place: "goal" if place == goal else f"row {place[0]}, column {place[1]}",
    ).with_noise(None)  # the events name the last move, so there is no one law
