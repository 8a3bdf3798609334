"""Slippery cliff: the short way to the goal runs along an edge, and the ground is slippery.

A walker crosses a grid from the lower left to the lower right corner; the lower edge between them is a cliff. Each move costs 1,
a fall costs much more and leads back to the start, and no cost arises at the goal. With probability 0.1 each, a move goes
to the left or to the right of the intended direction. The grid is that of cliff walking (Sutton and Barto 2018,
"Reinforcement learning: an introduction", Example 6.6), made smaller; the slips and the cost of a fall are illustrative
numbers of our own.
"""

from __future__ import annotations

from bqrl.checks import number, whole
from bqrl.mdp.model import MDP
from bqrl.mdp.step import from_step

UNIT, STAGE = "points", "move"
MOVES = ((-1, 0), (0, 1), (1, 0), (0, -1))  # Up, Right, Down, Left as (row, column)
NAMES = ("Up", "Right", "Down", "Left")


def slippery_cliff(
    rows: int = 4, columns: int = 6, horizon: int = 25, slip: float = 0.1, fall: float = 20.0, shared: bool = False
) -> MDP:
    """Return the cliff problem; its return is minus the cost.

    Parameters
    ----------
    rows, columns : int
        Size of the grid, at least 2 by 3.
    horizon : int
        Number of moves.
    slip : float
        Probability of each of the two sideways slips, at most 0.5.
    fall : float
        Cost of a fall.
    shared : bool
        Whether learners know that slips have one law everywhere.

    Returns
    -------
    MDP

    Examples
    --------
    >>> slippery_cliff()
    MDP(H=25, S=20, A=4, start=18, 226 transitions, stationary)
    """
    rows, columns = whole(rows, "rows", 2), whole(columns, "columns", 3)
    slip, fall = number(slip, "slip", 0.0, 0.5), number(fall, "fall", 0.0)
    first, goal = (rows - 1, 0), (rows - 1, columns - 1)

    def step(place: tuple[int, int], action: int, turn: int) -> tuple[tuple[int, int], float]:
        if place == goal:
            return goal, 0.0
        down, right = MOVES[(action + turn) % 4]
        row, column = min(max(place[0] + down, 0), rows - 1), min(max(place[1] + right, 0), columns - 1)
        if row == rows - 1 and 0 < column < columns - 1:
            return first, -fall
        return (row, column), -1.0

    mdp = from_step(
        step, range(4), {0: 1.0 - 2.0 * slip, -1: slip, 1: slip}, horizon, first,
        state_name=lambda place: "goal" if place == goal else f"row {place[0]}, column {place[1]}",
        action_name=lambda action: NAMES[action],
    )  # fmt: skip
    return mdp if shared else mdp.with_noise(None)
