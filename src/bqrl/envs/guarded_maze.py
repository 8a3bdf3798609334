"""Guarded maze: a short way past a guard who takes or gives a random amount, or a long way round.

A walker crosses a maze of 8 x 8 cells, walls included. Each step costs 1 and the goal pays 10. The short way (6 steps) passes
a guard: each visit to its cell adds a normal amount of mean 0 and standard deviation 30. The long way (14 steps) is certain
and returns -4. The mean favours the short way (4), CVaR the long one: at level 0.2 the short way is worth about -38. The maze
is a benchmark of CVaR learning (Greenberg, Chow, Ghavamzadeh and Mannor 2022, "Efficient risk-averse reinforcement learning";
Luo, Pan, Wang, Torr and Poupart 2024, "A simple mixture policy parameterization for improving sample efficiency of CVaR
optimization"). Map, costs and guard are those of the public configuration for Mead, Costen, Lacerda and Hawes (2025, "Return
capping: sample efficient CVaR policy gradient optimisation").

Our form differs in two points. That configuration allows 500 steps, of which only the first 32 cost anything; ours ends after
32 steps, so policies that return to the guard for nothing after step 32 are left out. And the normal amount is rounded to
multiples of `step` and cut at six standard deviations (a probability of 2e-9 per visit). A player of the continuous maze can
round what it sees, and a player of the rounded maze can draw an amount within the cell, so the best quantiles and CVaRs of
the two mazes of 32 steps differ by at most step / 2 per visit to the guard, plus the effect of the cut. At most (horizon - 2)
// 2 visits are possible.
"""

from __future__ import annotations

import math
from itertools import pairwise

from bqrl.checks import number, whole
from bqrl.mdp.model import MDP
from bqrl.mdp.step import from_step

UNIT, STAGE = "points", "step"
MAP = (
    "########",
    "#      #",
    "# #### #",
    "#    # #",
    "#    # #",
    "#    #$#",
    "#    ! #",
    "########",
)  # "$" is the goal, "!" the guard
MOVES = {"Right": (0, 1), "Down": (1, 0), "Left": (0, -1), "Up": (-1, 0)}
START, GOAL = (6, 1), (5, 6)  # row, column
CUT = 6.0  # standard deviations


def guarded_maze(
    horizon: int = 32, cost: float = 1.0, prize: float = 10.0, spread: float = 30.0, step: float = 1.0,
    shared: bool = False,
) -> MDP:  # fmt: skip
    """Return the maze; its return is the prize plus the amounts of the guard minus the cost of the steps.

    Parameters
    ----------
    horizon : int
        Largest number of steps.
    cost, prize : float
        Cost per step and reward at the goal.
    spread : float
        Standard deviation of the amount at the guard; 0 removes the guard.
    step : float
        The amount is rounded to multiples of this.
    shared : bool
        Whether learners know that the guard has one law.

    Returns
    -------
    MDP

    Examples
    --------
    >>> guarded_maze(step=30.0)
    MDP(H=32, S=29, A=4, start=23, 99 transitions, stationary)
    """
    cost, prize, spread = number(cost, "cost"), number(prize, "prize"), number(spread, "spread", 0.0)
    step = number(step, "step", 0.0, ends="(]")

    def move(cell: tuple[int, int], action: str, amount: float) -> tuple[tuple[int, int], float]:
        if cell == GOAL:
            return cell, 0.0
        row, column = cell[0] + MOVES[action][0], cell[1] + MOVES[action][1]
        mark = MAP[row][column]
        return (row, column), (prize if mark == "$" else 0.0) + (amount if mark == "!" else 0.0) - cost

    def actions(cell: tuple[int, int]) -> list[str]:
        if cell == GOAL:
            return ["Right"]
        return [name for name, (down, right) in MOVES.items() if MAP[cell[0] + down][cell[1] + right] != "#"]

    mdp = from_step(
        move, actions, rounded_normal(spread, step), horizon, START,
        state_name=lambda cell: "goal" if cell == GOAL else f"row {cell[0]}, column {cell[1]}",
    )  # fmt: skip
    return mdp if shared else mdp.with_noise(None)


def rounded_normal(spread: float, step: float) -> dict[float, float]:
    """Return {amount: probability} of a normal law of mean 0, rounded to multiples of `step`; the end cells hold the tails."""
    if spread == 0.0:
        return {0.0: 1.0}
    cells = whole(math.ceil(CUT * spread / step), "cells", 1, 100_000)
    edges = [math.erf((k + 0.5) * step / (spread * math.sqrt(2.0))) for k in range(cells)]
    inner = [edges[0], *((high - low) / 2.0 for low, high in pairwise(edges))]
    half = [*inner, (1.0 - edges[-1]) / 2.0]
    return {k * step: half[abs(k)] for k in range(-cells, cells + 1)}
