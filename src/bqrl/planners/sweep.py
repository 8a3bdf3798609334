"""The backward sweep over (state, remaining need), the basis of target planning.

    V_H(s, n) = cost(n),    V_h(s, n) = min_a E[ V_{h+1}(s', n - r) ],    n over the columns of the grid.

With cost(n) = 1{n > 0}, V_0 is W_0, the smallest probability of ending short, for every target at once. With
cost(n) = clip(n, 0, d), V_0 is J_d, from which buffered quantiles are computed. The second cost depends on how far a need
exceeds the highest return, so `extra` columns are added above that return, one per step of the width d.

Ties are common: once a target is reached or out of reach, all actions are equal. The sweep therefore also computes the mean
of the remaining return, which breaks ties; a second terminal cost can replace this mean. Over an l1 ball each expectation is
replaced by its best or worst case within the known support.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numba import get_num_threads

from bqrl.laws.law import MASS_TOL, size_of
from bqrl.loops.backward import reduce_rows, sweep_rows, sweep_rows_threads, sweep_stages
from bqrl.loops.l1 import l1_dense_rows, l1_dense_rows_threads
from bqrl.loops.layout import Ball, Goal, Part, Rows, Stages, Tables
from bqrl.loops.plain import by_numpy, plain_ends, plain_products, plain_rows
from bqrl.loops.threads import THREADS_FROM, run_loop
from bqrl.mdp.arrays import ActionArray, BoolArray, FloatArray, IntArray, read_only
from bqrl.mdp.grid import BLOCK_BYTES, DENSE_FROM, Grid, Lattice, any_products, by_products, freeze, row_shift
from bqrl.mdp.model import MDP, per_model
from bqrl.mdp.stage import Stage
from bqrl.mdp.unstored import StepModel
from bqrl.planners.shared_rows import kinds_of, run_shared
from bqrl.policies.target import TargetPolicy, action_dtype

TIE_TOL = 1e-13  # values whose relative difference is at most this tie, and the mean decides
SMALL_WORK = 200_000  # up to this product of outcomes and columns of a stage, all stages run in one compiled call

OPTIMISTIC, ROBUST = 1.0, -1.0
SHORTFALL = np.array([0.0, 1.0])  # the terminal cost 1{n > 0}
NO_TABLE = np.empty((0, 0))
NO_ORDER = np.empty((0, 0), np.int64)
NONE_MISSING = np.empty(0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Sweep:
    """The result of one sweep: values at the root for every column, and what else was requested."""

    grid: Grid
    extra: int
    root: FloatArray  # (columns,) value from the first state, or averaged over the law of first states
    mean: FloatArray | None = None  # (columns,) mean return of the policy of each column, or minus its second cost
    tables: tuple[ActionArray, ...] | Tables | None = None  # the actions, per stage (S, columns) or in one buffer
    values: tuple[FloatArray, ...] | Tables | None = None  # values of the stages 0..H in the same form, with keep=True
    means: tuple[FloatArray, ...] | None = None  # minus the second cost per stage 0..H (S, columns), with keep=True

    def policy(self, target: float) -> TargetPolicy:
        """Return the policy for `target`; requires a sweep with `policy=True`."""
        assert self.tables is not None
        return TargetPolicy(self.grid, self.tables, target, self.extra)

    @property
    def actions(self) -> Sequence[ActionArray]:
        """The actions per stage (S, columns)."""
        return self.policy(0.0).actions

    def frozen(self) -> Sweep:
        """Return the sweep with read-only views of its arrays."""
        return replace(self, **{part.name: freeze(getattr(self, part.name)) for part in fields(self)})


class Found(NamedTuple):
    """The result of a shared sweep: the averages over the first states, and the actions of every stage."""

    root: FloatArray
    tables: list[ActionArray]


class SharedSweep(Protocol):
    """Workers that share the stages of a sweep; see planners/cluster.py."""

    def backward(
        self, mdp: MDP | StepModel, grid: Grid, goal: Goal, terminal: FloatArray, *, extra: int = 1, means: bool,
        precision: str = "float64", counted: bool = True, folder: Path | None = None, tick: Callable[[int], None] | None = None,
    ) -> Found:  # fmt: skip
        """Return the result of a backward pass from the terminal row of every state."""
        ...


def best_column(shortfall: FloatArray, tau: Any) -> Any:
    """Return the column of the highest target reached at level(s) tau, given the shortfall of every target.

    The exact shortfall never decreases with the target; the running maximum removes decreases due to rounding. A target
    with a shortfall of exactly 0 is reached at every level (see `reaches`). The column is -1 if no target is reached.
    """
    grown = np.maximum.accumulate(shortfall)
    below = np.searchsorted(grown, np.asarray(tau) - MASS_TOL, side="left")
    return np.maximum(below, np.count_nonzero(grown == 0.0)) - 1


class Layout:
    """The arrays of a problem on a uniform grid for the compiled loops, prepared once and reused by every sweep.

    A learner keeps one layout: before every episode it sweeps with a new kernel on the same outcomes. With `met_only`, sweeps
    skip the states that no policy can reach at a stage; values and actions are 0 there.
    """

    def __init__(self, mdp: MDP, grid: Lattice, *, met_only: bool = False) -> None:
        self.mdp, self.grid = mdp, grid
        rows, H = mdp.S * mdp.A, mdp.H
        widest = max(mdp.stage(h).successor.size for h in range(H))
        gain = np.zeros((H, widest), np.int64)
        for h in range(H):
            units = grid.stage_units(mdp, h)
            gain[h, : units.size] = units
        drops = np.array([grid.drop(h) for h in range(H)], np.int64)
        self.stages = Stages(
            start=np.array(mdp.row_start), successor=np.array(mdp.successor), shift=drops[:, None] - gain, gain=gain,
            shared=_shared_order(mdp), size=np.array(grid.size), lowest=np.array(grid.lowest), mu=np.array(mdp.mu),
            met=np.array(mdp.reachable) if met_only else np.ones((H + 1, mdp.S), bool), A=mdp.A,
        )  # fmt: skip
        self.work = np.empty((2, 0))
        self.widest = int(grid.size.max())
        self.points = grid.points(0)
        self.points.flags.writeable = False
        self.largest = size_of(self.points[[0, -1]])  # size of the returns
        self._table_starts: dict[int, IntArray] = {}
        self._listed = np.flatnonzero(np.diff(mdp.row_start))
        self._worth = (mdp.discount ** np.arange(H))[:, None]
        self._met_only, self._no_sums = met_only, np.zeros((0, 0, 0), np.int64)
        self._dense = any_products(mdp, grid)
        self._fixed_means = None
        if mdp.row_reward is not None:
            by_stage = np.broadcast_to(mdp.row_reward.reshape(-1, rows), (H, rows))
            self._fixed_means = np.ascontiguousarray(self._worth * by_stage)

    def in_one_call(self, columns: int) -> bool:
        """Return whether one call is fastest for this number of columns: neither matrix products nor threads would help."""
        threads = get_num_threads() > 1 and self.stages.shift.shape[1] * columns > THREADS_FROM
        return not self._dense and not threads

    @cached_property
    def _left(self) -> IntArray:
        """The least and the greatest sum of rewards, in steps, that can follow each state, shape (H + 1, S, 2)."""
        stages, (H, S) = self.stages, (self.mdp.H, self.mdp.S)
        left = np.zeros((H + 1, S, 2), np.int64)
        for h in range(H - 1, -1, -1):
            start, successor = self._outcomes(h)
            plain_ends(start[:: stages.A], successor, stages.gain[h, : successor.size], left[h + 1], left[h])
        return left

    @cached_property
    def _earned(self) -> IntArray:
        """The least and the greatest sum of rewards, in steps, with which each state can be met, shape (H + 1, S, 2)."""
        stages, (H, S) = self.stages, (self.mdp.H, self.mdp.S)
        earned = np.zeros((H + 1, S, 2), np.int64)
        earned[1:] = np.iinfo(np.int64).max, np.iinfo(np.int64).min
        for h in range(H):
            start, successor = self._outcomes(h)
            state = np.repeat(np.arange(S), np.diff(start[:: stages.A]))
            met = stages.met[h][state]
            total = earned[h][state[met]] + stages.gain[h, : successor.size][met, None]
            np.minimum.at(earned[h + 1, :, 0], successor[met], total[:, 0])
            np.maximum.at(earned[h + 1, :, 1], successor[met], total[:, 1])
        return earned

    def _outcomes(self, h: int) -> tuple[IntArray, IntArray]:
        """Return where the outcomes of each row of stage `h` begin, counted from the first, and the successors."""
        stages, rows = self.stages, self.mdp.S * self.mdp.A
        first = 0 if self.mdp.stationary else h * rows
        start = stages.start[first : first + rows + 1]
        return start - start[0], stages.successor[start[0] : start[-1]]

    def reach(self, ball: bool) -> tuple[IntArray, IntArray, bool]:
        """Return what `stage_spans` needs: the sums after and before each state, and whether chunks are kept whole."""
        whole = ball and not self.stages.shared.all()
        return self._left, self._earned if self._met_only and not whole else self._no_sums, whole

    def reserve(self, cells: int) -> FloatArray:
        """Return work arrays for `cells` numbers per stage; the previous ones are reused if they are large enough."""
        if self.work.shape[1] < cells:
            self.work = np.empty((2, cells))
        return self.work

    def table_starts(self, extra: int) -> IntArray:
        """Return the position in one buffer at which the action table of each stage begins, shape (H + 1,)."""
        if extra not in self._table_starts:
            self._table_starts[extra] = table_starts(self.mdp, self.grid, extra)
        return self._table_starts[extra]

    def mean_rewards(self, probability: FloatArray) -> FloatArray:
        """Return the discounted mean reward of every row at every stage, shape (H, S*A)."""
        if self._fixed_means is not None:
            return self._fixed_means
        mdp, rows = self.mdp, self.mdp.S * self.mdp.A
        means = np.zeros((len(mdp.reward), mdp.row_start.size - 1))
        means[:, self._listed] = np.add.reduceat(probability * mdp.reward, mdp.row_start[self._listed], axis=1)
        return np.ascontiguousarray(self._worth * np.broadcast_to(means.reshape(-1, rows), (mdp.H, rows)))


def sweep(
    mdp: MDP, grid: Grid, cost: FloatArray = SHORTFALL, *, extra: int = 1, weight: float = 0.0,
    gain: FloatArray | None = None, second: FloatArray | None = None, tie: float = TIE_TOL, policy: bool = True,
    half: FloatArray | None = None, sense: float = OPTIMISTIC, missing: FloatArray | None = None, keep: bool = False,
    tick: Callable[[int], None] | None = None, probability: FloatArray | None = None, layout: Layout | None = None,
    cluster: SharedSweep | None = None,
) -> Sweep:  # fmt: skip
    """Return the result of one backward pass.

    Parameters
    ----------
    mdp, grid
        The problem and its columns.
    cost
        Terminal cost of needs of 0, 1, ... steps, shape (extra + 1,). The default (0, 1) gives the probability of ending
        short.
    extra
        Columns above the highest return.
    weight
        The sweep minimises value - weight * mean return.
    gain
        Expected amounts of every row, shape (H, S*A), whose sum takes the place of the return in these means.
    second
        A second terminal cost, shape (extra + 1,); ties then go to its smaller expectation instead of the larger mean.
    tie
        Relative difference up to which values tie.
    policy
        Whether to compute means and actions as well as the values at the root.
    half, sense
        Half the l1 radius of every row, shape (H, S*A), and the case over the ball: the best (OPTIMISTIC) or the worst
        (ROBUST).
    missing
        For ROBUST only, shape (H, S*A). If it is positive, the last outcome of the row is not part of the ball and takes at
        most this mass from the other outcomes; this last outcome must be the worst of the row.
    keep
        Whether to keep the values of every stage.
    tick
        Called with the index of each stage when it is finished.
    probability
        Another kernel on the outcomes of `mdp`, shape (nnz,); not checked.
    layout
        The layout of this problem and grid, if it has been prepared.
    cluster
        Workers that share the stages, without `half`, `gain`, `keep` and `probability`.

    Returns
    -------
    Sweep
    """
    kernel = mdp.probability if probability is None else probability
    if second is not None:
        largest = size_of(second)
    elif gain is not None:
        largest = float(np.abs(gain).max(axis=1).sum())
    else:
        largest = size_of(grid.points(0)[[0, -1]]) if layout is None else layout.largest
    rule = Goal(mean_reward=NO_TABLE, weight=weight, tie=tie, mean_tie=1e-12 * largest)
    if cluster is not None:
        assert half is None and gain is None and probability is None and not keep  # noqa: PT018
        terminal = np.r_[cost, np.zeros(cost.size) if second is None else -second] if policy else cost
        found = cluster.backward(
            mdp, grid, rule, terminal, extra=extra, means=policy, counted=second is None, tick=tick
        )  # fmt: skip
        return _sweep_of(grid, extra, found.root, tuple(found.tables) if policy else None)
    ball, lost = None, NONE_MISSING if missing is None else missing
    if half is not None:
        ball = Ball(half=half, sense=sense, order=NO_ORDER, values=NO_TABLE, missing=lost)
    widest = (int(grid.size.max()) if layout is None else layout.widest) + extra
    # a single sweep does not repay its compilation
    if layout is not None and second is None and gain is None and tick is None:
        if fits_one_call(mdp, widest) or layout.in_one_call(widest):
            return _sweep_in_one_call(layout, kernel, cost, extra, rule, policy, ball, keep)
    layers = 2 if policy else 1  # values of all columns, then their means
    work = np.empty((2, mdp.S * layers * widest))  # this stage and the next one, alternating
    after = _fill_terminal(work, mdp.S, cost, layers, second)
    begin = table_starts(mdp, grid, extra)
    tables = Tables(np.empty(begin[-1] if policy else 0, action_dtype(mdp.A)), begin)
    values = [after[:, : cost.size].copy()] if keep else []
    means = [after[:, cost.size :].copy()] if keep and second is not None else []
    for h in range(mdp.H - 1, -1, -1):
        columns = int(grid.size[h]) + extra
        now = work[(mdp.H - h) % 2, : mdp.S * layers * columns].reshape(mdp.S, -1)
        action = tables.flat[begin[h] : begin[h + 1]].reshape((mdp.S, columns) if policy else (0, 0))
        worth = mdp.discount**h if second is None else 0.0  # rewards do not count towards a second cost
        stage = StageKernel(mdp, grid, h, kernel, ball, worth)
        if gain is not None:
            stage.mean_reward = gain[h]
        stage.run(after, rule, now, action)
        after = now
        if keep:
            values.append(now[:, :columns].copy())
        if means:
            means.append(now[:, columns:].copy())
        if tick is not None:
            tick(h)
    tables.flat.flags.writeable = False
    done = _sweep_of(grid, extra, at_start(mdp.mu, after), tables if policy else None)
    stored = tuple(values[::-1]) if keep else None
    return replace(done, values=stored, means=tuple(means[::-1]) if means else None)


def _sweep_of(grid: Grid, extra: int, root: FloatArray, tables: tuple[ActionArray, ...] | Tables | None) -> Sweep:
    """Return a sweep from the averages at the root, which end with the means if there are tables."""
    columns = root.size // (1 if tables is None else 2)
    return Sweep(
        grid=grid, extra=extra, root=root[:columns], mean=None if tables is None else root[columns:], tables=tables
    )


def table_starts(mdp: MDP, grid: Grid, extra: int) -> IntArray:
    """Return the position in one buffer at which the action table (S, columns) of each stage begins, shape (H + 1,)."""
    starts = mdp.S * np.concatenate(([0], np.cumsum(grid.size[:-1] + extra)))
    starts.flags.writeable = False
    return starts


def fits_one_call(mdp: MDP, columns: int) -> bool:
    """Return whether a problem is small enough for one compiled call to run all its stages."""
    return mdp.successor.size // len(mdp.available) * columns <= SMALL_WORK


def _fill_terminal(work: FloatArray, S: int, cost: FloatArray, layers: int, second: FloatArray | None) -> FloatArray:
    """Return the first work array, filled with the terminal values followed by the means."""
    after = work[0, : S * layers * cost.size].reshape(S, -1)
    after[:, : cost.size], after[:, cost.size :] = cost, 0.0 if second is None else -second
    return after


def _sweep_in_one_call(
    layout: Layout, kernel: FloatArray, cost: FloatArray, extra: int, rule: Goal, policy: bool, ball: Ball | None,
    keep: bool,
) -> Sweep:  # fmt: skip
    """Run all stages of a small problem in one compiled call."""
    mdp, grid, stages = layout.mdp, layout.grid, layout.stages
    layers, S = 2 if policy else 1, mdp.S
    work = layout.reserve(S * layers * (layout.widest + extra))
    _fill_terminal(work, S, cost, layers, None)
    begin = layout.table_starts(extra)
    tables = Tables(np.zeros(int(begin[-1]) if policy else 0, action_dtype(mdp.A)), begin)
    if ball is not None:
        ball = ball._replace(half=ball.half.reshape(-1), missing=ball.missing.reshape(-1))
    goal = rule._replace(mean_reward=layout.mean_rewards(kernel))
    writeable = kernel if kernel.flags.writeable else kernel.copy()  # a read-only array would cause a recompilation
    values = np.zeros(int(begin[-1]) + S * cost.size if keep else 0)
    values[begin[-1] :].reshape(-1, cost.size)[:] = cost
    reach = layout.reach(ball is not None)
    last = sweep_stages(stages, writeable, ball, goal, work, extra, reach, tables, values)
    stored = Tables(values, begin) if keep else None
    columns = int(grid.size[0]) + extra
    root = at_start(mdp.mu, work[last, : S * layers * columns].reshape(S, -1))
    if not policy:
        return Sweep(grid=grid, extra=extra, root=root, values=stored)
    tables.flat.flags.writeable = False
    return Sweep(grid=grid, extra=extra, root=root[:columns], mean=root[columns:], tables=tables, values=stored)


class StageKernel:
    """One stage of a large sweep: matrix products if its rows are dense, else a loop over the outcomes.

    On a uniform grid that is narrowed to a range of columns (planners/on_demand.py), it computes these columns alone.
    """

    def __init__(self, mdp: MDP, grid: Grid, h: int, kernel: FloatArray, ball: Ball | None, worth: float) -> None:
        self.mdp, self.grid, self.stage = mdp, grid, mdp.stage(h)
        self.by_products = by_products(mdp, grid, self.stage)
        self.ball = ball
        if ball is not None:
            missing = np.array(ball.missing[h] if ball.missing.size else ball.missing)
            self.ball = ball._replace(half=np.array(ball.half[h]), missing=missing)
        first = int(mdp.row_start[0 if mdp.stationary else h * mdp.S * mdp.A])
        self.own = kernel is mdp.probability
        self.h, self.probability = h, self.stage.probability
        if not self.own:
            self.probability = read_only(kernel[first : first + self.stage.successor.size])
        self.mean_reward = mean_rewards(self.stage, self.probability, mdp.S * mdp.A) * worth

    def run(
        self, after: FloatArray, rule: Goal, now: FloatArray, action: ActionArray, first: int = 0,
        states: IntArray | None = None,
    ) -> None:  # fmt: skip
        """Fill `now` with the values of the stage and, unless `action` is empty, the means; fill `action`.

        Both hold the states from `first` on, all of which are computed, or at least those numbered `states` within these
        arrays. On a stage that uses matrix products, `first` must be a multiple of `product_states`: the bits of a product may
        depend on its shape. A ball requires all states.
        """
        begin, end = first * self.mdp.A, (first + len(now)) * self.mdp.A
        goal = rule._replace(mean_reward=self.mean_reward[begin:end])
        if self.by_products:
            self._run_dense(after, goal, now, action, first)
            return
        states = np.arange(len(now)) if states is None else states
        start = self.stage.row_start[begin : end + 1]
        columns = now.shape[1] // (2 if action.size else 1)
        work = int(start[-1] - start[0]) * columns * states.size // len(now)
        if self.own and self.ball is None:
            kinds = kinds_of(self.mdp, self.grid, columns)
            if kinds is not None and work > 0:
                every = Rows(self.stage.row_start, self.stage.successor, self.probability)
                drop, units = self.grid.drop(self.h), self.grid.stage_units(self.mdp, self.h)
                run_shared(self.mdp, kinds, every, drop, units, goal, after, now, action, begin, states)
                return
        rows, moves = Rows(start, self.stage.successor, self.probability), self.grid.moves(self.mdp, self.h)
        given = rows, moves, self.ball, goal, after, now, action, Part(states, 0, columns)
        if self.ball is None and by_numpy(work):
            plain_rows(*given)
        else:
            run_loop(work, sweep_rows, sweep_rows_threads, *given)

    def _run_dense(self, after: FloatArray, goal: Goal, now: FloatArray, action: ActionArray, begin: int) -> None:
        """Run one matrix product per block of states, for values and means together; then shift rows and take minima."""
        mdp, kernel = self.mdp, self._dense_kernel()
        shift = row_shift(mdp, self.grid.moves(mdp, self.h), self.h)
        ball, support = self._dense_ball(after, action, kernel)
        block = product_states(mdp, after.shape[1])
        for first in range(0, len(now), block):
            own = slice(first, min(len(now), first + block))  # within `now`
            states = slice(begin + own.start, begin + own.stop)
            rows = slice(states.start * mdp.A, states.stop * mdp.A)
            product = kernel[rows] @ after
            if ball is not None:
                within, balls = support[rows], ball._replace(half=ball.half[rows])
                run_loop(within.size * len(ball.order), l1_dense_rows, l1_dense_rows_threads, within, balls, product)
                self._add_missing(after, rows, product[:, : len(ball.order)])
            part = goal._replace(mean_reward=goal.mean_reward[own.start * mdp.A : own.stop * mdp.A])
            reduce: Callable[..., None] = plain_products if by_numpy(product.size) else reduce_rows
            reduce(product, shift[rows], self.stage.available[states], part, now[own], action[own])

    def _dense_ball(self, after: FloatArray, action: ActionArray, kernel: FloatArray) -> tuple[Ball | None, FloatArray]:
        """Return the balls with the order of the states in every column, and the kernel with -1 outside their supports."""
        if self.ball is None or not self.ball.half.any():
            return None, kernel
        values = np.ascontiguousarray((after[:, : after.shape[1] // 2] if action.size else after).T)
        order = np.argsort(values, axis=1, kind="stable")
        half = np.where(self.stage.available.reshape(-1), self.ball.half, 0.0)
        support = np.where(_possible(self.mdp, 0 if self.mdp.stationary else self.h), kernel, -1.0)
        apart = np.flatnonzero(self.ball.missing > 0.0)
        support[apart, self.stage.successor[self.stage.row_start[apart + 1] - 1]] = -1.0
        return self.ball._replace(half=half, order=order, values=values), support

    def _add_missing(self, after: FloatArray, rows: slice, product: FloatArray) -> None:
        """Move the missing mass of each row in `rows` to its last outcome, from the other outcome with the largest value."""
        assert self.ball is not None
        for q in rows.start + np.flatnonzero(self.ball.missing[rows] > 0.0):
            others = self.stage.successor[self.stage.row_start[q] : self.stage.row_start[q + 1]]
            reached = after[others, : product.shape[1]]
            product[q - rows.start] += self.ball.missing[q] * np.maximum(reached[-1] - reached[:-1].max(axis=0), 0.0)

    def _dense_kernel(self) -> FloatArray:
        """Return the kernel of the stage as a matrix (S*A, S)."""
        if self.own:
            return self.mdp.dense(self.h)
        matrix = np.zeros((self.mdp.S * self.mdp.A, self.mdp.S))
        rows = np.repeat(np.arange(len(matrix)), np.diff(self.stage.row_start))
        np.add.at(matrix, (rows, self.stage.successor), self.probability)
        return matrix


def product_states(mdp: MDP, width: int) -> int:
    """Return the number of states of one matrix product with `width` columns."""
    return max(1, min(mdp.S, BLOCK_BYTES // (mdp.A * width * 8)))


def at_start(mu: FloatArray, after: Any) -> FloatArray:
    """Return the rows of a stage averaged over the first states, added one after the other whatever the number of columns."""
    met = np.flatnonzero(mu)
    if met.size == 1:
        return np.array(after[met[0]], np.float64)
    root = np.zeros(after.shape[1])
    for first in range(0, met.size, 1024):
        part = met[first : first + 1024]
        root += np.add.reduce(mu[part, None] * after[part], axis=0)
    return root


def _shared_order(mdp: MDP) -> BoolArray:
    """Return the stages in which states are sorted once for all rows: rewards depend on the row, and outcomes are many."""
    if mdp.row_reward is None:
        return np.zeros(mdp.H, bool)
    return np.array([mdp.stage(h).successor.size >= 4 * mdp.S for h in range(mdp.H)])


def mean_rewards(stage: Stage, probability: FloatArray, rows: int) -> FloatArray:
    """Return the mean reward of every row (S*A,), undiscounted."""
    if stage.row_reward is not None:
        return np.ascontiguousarray(stage.row_reward.reshape(-1))
    listed = np.flatnonzero(np.diff(stage.row_start))
    means = np.zeros(rows)
    means[listed] = np.add.reduceat(probability * stage.reward, stage.row_start[listed])
    return means


@per_model
def _possible(mdp: MDP, k: int) -> BoolArray:
    """Return which successors are possible in the rows of the stored stage `k`, shape (S*A, S)."""
    stage = mdp.stage(k)
    possible = np.zeros((mdp.S * mdp.A, mdp.S), bool)
    possible[np.repeat(np.arange(mdp.S * mdp.A), np.diff(stage.row_start)), stage.successor] = True
    return possible


def rounding_error(mdp: MDP | StepModel, *, ball: bool = False) -> float:
    """Return a bound gamma on the relative rounding error of the values of a sweep, whose terms are all nonnegative.

    Over a ball gamma bounds the absolute error of values in [0, 1]. It is then twice as large, because each step also treats
    values as equal, and remaining masses as 0, if they differ by less than the rounding error of its sums. These sums run
    over all states if rows share one order of the states.
    """
    over_states = (
        ball and isinstance(mdp, MDP) and (mdp.max_outcomes >= DENSE_FROM * mdp.S or bool(_shared_order(mdp).any()))
    )
    terms = mdp.S if over_states else mdp.max_outcomes
    starts = np.count_nonzero(mdp.mu)  # an average over several first states is one more sum
    return ((4.0 if ball else 2.0) * mdp.H * (terms + 2) + (2.0 * starts if starts > 1 else 0.0)) * 2.0**-53


# -- size of a sweep -------------------------------------------------------------------------------------------------------------


def sweep_work(mdp: MDP, grid: Grid) -> int:
    """Return the number of elementary steps of a sweep: outcomes times columns."""
    return sum(mdp.stage(h).successor.size * int(grid.size[h]) for h in range(mdp.H))


def sweep_bytes(mdp: MDP, columns: Grid, *, shared: bool = False) -> int:
    """Return the bytes of one sweep with its policy: four arrays with the values of a stage, and the actions of all stages.

    The values of a `shared` sweep are on the workers of a cluster.
    """
    stage = 0 if shared else int(columns.size.max()) * mdp.S * 8
    return 4 * stage + 2 * columns.cells * mdp.S + columns.table_bytes
