"""What passes over a grid need: the sums of rewards that forward passes meet, and when a stage is a matrix product.

Matrix products are faster than loops over outcomes if rows are dense and each shifts all columns alike.
"""

from __future__ import annotations

import numpy as np

from bqrl.loops.layout import Moves
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.grid import EMPTY, NO_JUMPS, Grid, Lattice, ReturnSet, distinct_moves, merge_close
from bqrl.mdp.model import MDP
from bqrl.mdp.stage import Stage

DENSE_FROM = 0.3  # share of possible successors from which a matrix product beats visiting the outcomes
SMALL_STATES = 24  # with fewer states the overhead of a matrix product outweighs its gain
BLOCK_BYTES = 2**24  # memory of the rows of a product that are handled at once


def by_products(mdp: MDP, grid: Grid, stage: Stage) -> bool:
    """Return whether matrix products are faster for a stage: its rows are dense, and each row shifts all columns alike."""
    return grid.uniform and stage.row_reward is not None and mdp.S >= SMALL_STATES and is_dense(mdp, stage)


def is_dense(mdp: MDP, stage: Stage) -> bool:
    """Return whether the rows of a stage have so many successors that a matrix product beats visiting them."""
    return bool(stage.successor.size >= DENSE_FROM * mdp.S * np.count_nonzero(stage.available))


def row_shift(mdp: MDP, moves: Moves, h: int) -> IntArray:
    """Return the shift of the rows of stage `h`, shape (S*A,), if it does not depend on the outcome."""
    starts = mdp.stage(h).row_start
    rows = np.flatnonzero(np.diff(starts))
    shift = np.zeros(mdp.S * mdp.A, np.int64)
    shift[rows] = moves.shift[starts[rows]]
    return shift


class SumRange:
    """Sums on a uniform grid: all whole steps between the least and the greatest sum over the reachable states."""

    def __init__(self, mdp: MDP, grid: Lattice) -> None:
        self.mdp, self.grid = mdp, grid
        low, high = np.zeros((2, mdp.S), np.int64)
        self.lowest, self.size = np.zeros(mdp.H + 1, np.int64), np.ones(mdp.H + 1, np.int64)
        for h in range(mdp.H):
            stage, units = mdp.stage(h), grid.stage_units(mdp, h)
            source = np.repeat(np.arange(mdp.S), np.diff(stage.row_start[:: mdp.A]))
            used = np.flatnonzero(mdp.reachable[h][source])
            source, successor = source[used], stage.successor[used]
            before_low, before_high = low, high
            low, high = np.full(mdp.S, np.iinfo(np.int64).max), np.full(mdp.S, np.iinfo(np.int64).min)
            np.minimum.at(low, successor, before_low[source] + units[used])
            np.maximum.at(high, successor, before_high[source] + units[used])
            met = mdp.reachable[h + 1]
            self.lowest[h + 1] = low[met].min()
            self.size[h + 1] = high[met].max() - low[met].min() + 1

    def count(self, h: int) -> int:
        """Return the number of sums before stage `h`."""
        return int(self.size[h])

    def values(self, h: int) -> FloatArray:
        """Return the sums before stage `h`, computed exactly as the grid computes its points."""
        return self.grid.steps_value(np.arange(self.size[h]) + self.lowest[h], 0, h)

    def moves(self, h: int) -> Moves:
        """Return the shift of every outcome of stage `h`."""
        return Moves(self.grid.stage_units(self.mdp, h) + (self.lowest[h] - self.lowest[h + 1]), NO_JUMPS)


class SumSets:
    """Sums on a grid that is a set of returns: each sum is collected on some path."""

    def __init__(self, mdp: MDP, grid: ReturnSet) -> None:
        self.mdp, self.grid = mdp, grid
        by_state = [np.zeros(1) if p > 0 else EMPTY for p in mdp.mu]
        self.sets = [np.zeros(1)]
        for h in range(mdp.H):
            found: list[list[FloatArray]] = [[] for _ in range(mdp.S)]
            for s, u, t in distinct_moves(mdp, h, grid.stage_units(mdp, h)):
                found[t].append(by_state[s] + mdp.discount**h * grid.rewards[u])
            by_state = [merge_close(np.concatenate(parts), grid.slack) if parts else EMPTY for parts in found]
            self.sets.append(merge_close(np.concatenate(by_state), grid.slack))

    def count(self, h: int) -> int:
        """Return the number of sums before stage `h`."""
        return self.sets[h].size

    def values(self, h: int) -> FloatArray:
        """Return the sums before stage `h`."""
        return self.sets[h]

    def moves(self, h: int) -> Moves:
        """Return the reward index of every outcome of stage `h`, and where each reward takes each sum."""
        total = self.sets[h][None, :] + self.grid.discount**h * self.grid.rewards[:, None]
        landings = np.searchsorted(self.sets[h + 1], total - self.grid.slack, side="left")
        return Moves(self.grid.stage_units(self.mdp, h).copy(), landings)


Sums = SumRange | SumSets


def sums_of(mdp: MDP, grid: Grid) -> Sums:
    """Return the sums that may have been collected before each stage."""
    if isinstance(grid, Lattice):
        return SumRange(mdp, grid)
    assert isinstance(grid, ReturnSet)
    return SumSets(mdp, grid)
