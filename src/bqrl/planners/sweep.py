"""The backward sweep over (state, remaining need), on which target planning stands.

    V_H(s, n) = cost(n),    V_h(s, n) = min_a E[ V_{h+1}(s', n - r) ],    n over the columns of the grid.

With cost(n) = 1{n > 0}, V_0 is W_0: the smallest probability of ending short, for every target at once. With
cost(n) = clip(n, 0, d) it is J_d, from which buffered quantiles are made. A larger cost beyond the highest return needs
`extra` columns there: as many steps as the width d has.

Ties are the rule (once a target is safe or lost every action is equal), so the mean of the remaining return is carried
along and breaks them; a second terminal cost can take its place. Over an l1 ball each expectation is replaced by its best
or worst case within the known support.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bqrl.kernels.l1 import l1_rows_threads
from bqrl.kernels.layout import Moves
from bqrl.kernels.sweep import reduce_rows, sweep_rows, sweep_rows_threads
from bqrl.mdp.derived import per_model
from bqrl.mdp.forms import FloatArray, IntArray
from bqrl.mdp.grid import Grid
from bqrl.mdp.model import MDP, Stage
from bqrl.mdp.policy import ActionArray

TIE_TOL = 1e-13  # values this close, relatively, are a tie for the mean to break
DENSE_FROM = 0.3  # share of possible successors from which a matrix product beats walking the outcomes
SMALL_STATES = 24  # below this many states a matrix product is all overhead
BLOCK_BYTES = 2**24  # rows of a product handled at once
THREADS_FROM = 1_000_000  # outcomes times columns of a stage from which threads pay

OPTIMISTIC, ROBUST = 1.0, -1.0


@dataclass(frozen=True, slots=True, eq=False)
class Sweep:
    """Root values of one sweep by column, and what else was asked for."""

    grid: Grid
    extra: int
    root: FloatArray  # (columns,) value from the first state, or averaged over the law of first states
    mean: FloatArray | None  # (columns,) mean return of the policy of each column, or minus its second cost
    actions: tuple[ActionArray, ...] | None  # per stage (S, columns)
    values: tuple[FloatArray, ...] | None  # per stage 0..H (S, columns), where kept
    means: tuple[FloatArray, ...] | None = None  # minus the second cost per stage 0..H (S, columns), where kept


def sweep(
    mdp: MDP,
    grid: Grid,
    cost: FloatArray | None = None,
    *,
    extra: int = 1,
    weight: float = 0.0,
    second: FloatArray | None = None,
    tie: float = TIE_TOL,
    policy: bool = True,
    half: FloatArray | None = None,
    sense: float = OPTIMISTIC,
    keep: bool = False,
    tick: Callable[[int], None] | None = None,
) -> Sweep:
    """One backward pass; without `policy` only the root values.

    `cost` (extra + 1,) is the terminal cost of needs 0, 1, ... steps; by default 0, 1: the probability of ending short.
    `weight` minimises value - weight * mean return. `second` (extra + 1,) is a terminal cost whose smaller expectation
    breaks ties (relative differences up to `tie`), in place of the larger mean. `half` (H, S*A) is half the l1 radius of
    every row. `tick` is called with each finished stage.
    """
    terminal = np.array([0.0, 1.0]) if cost is None else cost
    layers = 2 if policy else 1  # values of all columns, then their means
    work = np.empty((2, mdp.S * layers * (int(grid.size.max()) + extra)))  # this stage and the next take turns
    after = work[0, : mdp.S * layers * terminal.size].reshape(mdp.S, -1)
    after[:, : terminal.size], after[:, terminal.size :] = terminal, 0.0 if second is None else -second
    size = np.abs(grid.points(0)[[0, -1]] if second is None else second)
    tie_for_mean = 1e-12 * max(1.0, float(size.max()))
    actions: list[ActionArray] = []
    kept = [after[:, : terminal.size].copy()] if keep else []
    beside = [after[:, terminal.size :].copy()] if keep and second is not None else []
    for h in range(mdp.H - 1, -1, -1):
        columns = int(grid.size[h]) + extra
        step = _Stage(mdp, grid, h, mdp.stage(h), columns, None if half is None else half[h], sense, second is None)
        now = work[(mdp.H - h) % 2, : mdp.S * layers * columns].reshape(mdp.S, -1)
        action = np.empty((mdp.S, columns) if policy else (0, 0), np.int16)
        step.choose(after, weight, tie, tie_for_mean, now, action)
        actions.append(action)
        after = now
        if keep:
            kept.append(now[:, :columns].copy())
        if keep and second is not None:
            beside.append(now[:, columns:].copy())
        if tick is not None:
            tick(h)
    root = mdp.mu @ after
    values = tuple(reversed(kept)) if keep else None
    if not policy:
        return Sweep(grid, extra, root, None, None, values)
    columns = root.size // 2
    means = tuple(reversed(beside)) if beside else None
    return Sweep(grid, extra, root[:columns], root[columns:], tuple(reversed(actions)), values, means)


class _Stage:
    """One stage of a sweep: by matrix products where rows are dense, outcome by outcome elsewhere."""

    def __init__(
        self, mdp: MDP, grid: Grid, h: int, stage: Stage, columns: int, half: FloatArray | None, sense: float, paid: bool
    ) -> None:  # fmt: skip
        self.mdp, self.grid, self.h, self.stage, self.columns = mdp, grid, h, stage, columns
        self.half, self.sense = half, sense
        self.dense = by_products(mdp, grid, stage)
        factor = mdp.discount**h if paid else 0.0  # a second cost is due at the end, rewards count for nothing
        self.mean_reward = factor * mean_rewards(stage, mdp.S * mdp.A)

    def choose(
        self, after: FloatArray, weight: float, tie: float, mean_tie: float, now: FloatArray, action: ActionArray
    ) -> None:  # fmt: skip
        """Values of the stage and, unless the array of actions is empty, means behind them, and actions."""
        if self.dense:
            self._choose_dense(after, weight, tie, mean_tie, now, action)
            return
        stage = self.stage
        shift, jumps = self.grid.moves(self.mdp, self.h)
        half = np.empty(0) if self.half is None else self.half
        run = sweep_rows_threads if stage.successor.size * self.columns > THREADS_FROM else sweep_rows
        run(
            stage.row_start, stage.successor, stage.probability, shift, jumps, self.mean_reward, weight, half,
            self.sense, after, tie, mean_tie, now, action,
        )  # fmt: skip

    def _choose_dense(
        self, after: FloatArray, weight: float, tie: float, mean_tie: float, now: FloatArray, action: ActionArray
    ) -> None:  # fmt: skip
        """One matrix product for a block of states, values and means at once, then shifts and minima."""
        mdp, kernel = self.mdp, self.mdp.dense(self.h)
        shift = row_shift(mdp, self.grid.moves(mdp, self.h), self.h)
        half = None
        if self.half is not None and self.half.any():
            half = np.where(self.stage.available.reshape(-1), self.half, 0.0)
            values = after[:, : after.shape[1] // 2] if action.size else after
            columns = np.ascontiguousarray(values.T)
            order = np.argsort(columns, axis=1, kind="stable")
            support = _support_kernel(mdp, 0 if mdp.stationary else self.h)
        block = max(1, min(mdp.S, BLOCK_BYTES // (mdp.A * after.shape[1] * 8)))
        for first in range(0, mdp.S, block):
            states = slice(first, min(mdp.S, first + block))
            rows = slice(states.start * mdp.A, states.stop * mdp.A)
            product = kernel[rows] @ after
            if half is not None:
                l1_rows_threads(support[rows], columns, order, half[rows], self.sense, product)
            reduce_rows(
                product, shift[rows], self.stage.available[states], self.mean_reward[rows], weight, tie, mean_tie,
                now[states], action[states],
            )  # fmt: skip


def by_products(mdp: MDP, grid: Grid, stage: Stage) -> bool:
    """Whether matrix products serve a stage best: dense rows, and every row moves the columns as a whole."""
    if not grid.uniform or stage.row_reward is None or mdp.S < SMALL_STATES:
        return False
    return bool(stage.successor.size >= DENSE_FROM * mdp.S * np.count_nonzero(stage.available))


def row_shift(mdp: MDP, moves: Moves, h: int) -> IntArray:
    """Return the shift of the rows of stage `h`, shape (S*A,), where it does not depend on the outcome."""
    starts = mdp.stage(h).row_start
    rows = np.flatnonzero(np.diff(starts))
    shift = np.zeros(mdp.S * mdp.A, np.int64)
    shift[rows] = moves.shift[starts[rows]]
    return shift


def mean_rewards(stage: Stage, rows: int) -> FloatArray:
    """Mean reward of every row (S*A,), undiscounted."""
    if stage.row_reward is not None:
        return np.ascontiguousarray(stage.row_reward.reshape(-1))
    listed = np.flatnonzero(np.diff(stage.row_start))
    means = np.zeros(rows)
    means[listed] = np.add.reduceat(stage.probability * stage.reward, stage.row_start[listed])
    return means


@per_model
def _support_kernel(mdp: MDP, k: int) -> FloatArray:
    """Return the dense kernel of the stored stage `k` with -1 where a successor is impossible."""
    stage = mdp.stage(k)
    possible = np.zeros((mdp.S * mdp.A, mdp.S), bool)
    possible[np.repeat(np.arange(mdp.S * mdp.A), np.diff(stage.row_start)), stage.successor] = True
    return np.where(possible, mdp.dense(k), -1.0)


def rounding_error(mdp: MDP, *, ball: bool = False) -> float:
    """Bound gamma on the relative rounding error of a sweep's values: all terms are nonnegative.

    Over a ball it is a bound on the error itself of values up to 1, and twice as large: each step also counts values as
    level, and rests of mass as none, that lie within the rounding error of its sums (over all states, for dense rows).
    """
    terms = mdp.S if ball and mdp.max_outcomes >= DENSE_FROM * mdp.S else mdp.max_outcomes
    starts = np.count_nonzero(mdp.mu)  # an average over several first states is one more sum
    return ((4.0 if ball else 2.0) * mdp.H * (terms + 2) + (2.0 * starts if starts > 1 else 0.0)) * 2.0**-53
