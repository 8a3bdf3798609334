"""Chooses between matrix products and loops over outcomes: products are faster if rows are dense and shift all columns alike."""

from __future__ import annotations

import numpy as np

from bqrl.loops.layout import Moves
from bqrl.mdp.arrays import IntArray
from bqrl.mdp.grid import Grid
from bqrl.mdp.model import MDP
from bqrl.mdp.stage import Stage

DENSE_FROM = 0.3  # share of possible successors from which a matrix product beats visiting the outcomes
SMALL_STATES = 24  # with fewer states the overhead of a matrix product outweighs its gain
BLOCK_BYTES = 2**24  # memory of the rows of a product that are handled at once


def by_products(mdp: MDP, grid: Grid, stage: Stage) -> bool:
    """Return whether matrix products are faster for a stage: its rows are dense, and each row shifts all columns alike."""
    if not grid.uniform or stage.row_reward is None or mdp.S < SMALL_STATES:
        return False
    return bool(stage.successor.size >= DENSE_FROM * mdp.S * np.count_nonzero(stage.available))


def row_shift(mdp: MDP, moves: Moves, h: int) -> IntArray:
    """Return the shift of the rows of stage `h`, shape (S*A,), if it does not depend on the outcome."""
    starts = mdp.stage(h).row_start
    rows = np.flatnonzero(np.diff(starts))
    shift = np.zeros(mdp.S * mdp.A, np.int64)
    shift[rows] = moves.shift[starts[rows]]
    return shift
