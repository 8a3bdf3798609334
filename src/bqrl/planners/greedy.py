"""The paper's practical planner (Algorithm 3): one retained return law for every stage and state.

    D_H(s) = the law of 0,
    D_h^a(s) = law of r + G',  G' ~ D_{h+1}(s'),  s' ~ P_h(. | s, a),
    a_h(s) = argmax_a Q_tau^beta(D_h^a(s)),    D_h(s) = D_h^{a_h(s)}(s),

with ties broken by the larger mean, then by the lower action index. It applies the same tau at every stage, so it is
time-inconsistent: the policy is Markov and often not optimal for the quantile, and the planner proves no upper bound.
It is fast: one call plans for several kernels, so a learner can run it before every episode.

Algorithm 3 as a whole, the choice among candidate kernels of a confidence set, is `optimistic_greedy`.
Deviation: values within TIE of each other tie, and so do means within MEAN_TIE; the paper does not define equality. Among
kernels of equal value the first is chosen.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bqrl.checks import bad_value
from bqrl.errors import GridError
from bqrl.laws.law import MASS_TOL, size_of
from bqrl.laws.objectives import check_levels
from bqrl.loops.greedy import (
    GreedyColumns,
    GreedyLevels,
    GreedyStages,
    GreedyTables,
    Retained,
    StageRows,
    greedy_stage,
    greedy_sweep,
    root_value,
    work_space,
)
from bqrl.mdp.arrays import ActionArray, BoolArray, FloatArray, IntArray
from bqrl.mdp.find_grid import distinct_rewards, returns_grid
from bqrl.mdp.grid import Grid
from bqrl.mdp.model import MDP, per_structure
from bqrl.planners.confidence import candidate_kernels
from bqrl.planners.expected import plan_of
from bqrl.planners.plan import Plan
from bqrl.planners.room import MAX_BYTES, check_memory
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.target import action_dtype

NO_GRID = (
    "this planner requires an exact grid of returns, got a problem without one (a discount, or rewards without a common "
    "step); use planner='target', which brackets the optimum"
)
TIE = 1e-9  # objective values this close, relative to the size of the returns, are equal
MEAN_TIE = 1e-12  # the same for means
LANES = 8  # laws are padded to a multiple of this number of columns
MULTIPLY_FROM = 0.2  # share of possible successors from which laws are faster by a matrix product than by outcomes
MAX_DENSE = 2**22  # largest number of entries of the laws or the kernel in a matrix product


def greedy_policies(
    mdp: MDP, probabilities: FloatArray, tau: float, beta: float = 0.0, columns: Grid | None = None
) -> GreedyTables:
    """Return the result of the recursion of Algorithm 3 for several kernels on the outcomes and rewards of `mdp`.

    `probabilities` has shape (n, nnz), with one entry per outcome that `mdp` stores; `mdp.staged()` stores every stage
    separately. beta = 0 is the plain quantile. In unreachable states a law may leave the grid; it is then clipped.
    """
    tau, beta = check_levels(tau, beta)
    layout = _layout(mdp, exact_columns(mdp) if columns is None else columns)
    return _recursion(mdp, layout, _kernels(mdp, probabilities), tau, beta)


def _recursion(mdp: MDP, layout: _Layout, kernels: FloatArray, tau: float, beta: float) -> GreedyTables:
    n = kernels.shape[0]
    shape = (n, mdp.H, mdp.S)
    found = GreedyTables(np.empty(shape, action_dtype(mdp.A)), np.empty(n), np.empty((n, mdp.H + 1, mdp.S)))
    levels = GreedyLevels(tau=tau, beta=beta, tol=MASS_TOL, tie=TIE * layout.scale, mean_tie=MEAN_TIE * layout.scale)
    if layout.grid.uniform:
        greedy_sweep(layout.stages, kernels, levels, found)
    else:
        _sweep_set(mdp, layout, kernels, levels, found)
    return found


def plan_greedy(mdp: MDP, tau: float, beta: float = 0.0) -> Plan:
    """Return the greedy policy of `mdp` itself with its true value; no upper bound is proven."""
    tau, beta = check_levels(tau, beta)
    found = greedy_policies(mdp, mdp.probability[None], tau, beta)
    return plan_of(mdp, MarkovPolicy(found.actions[0]), tau, beta, "greedy")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class CandidateChoice:
    """The candidate kernel with the largest value, and its policy."""

    actions: ActionArray  # (H, S)
    value: float  # objective value at the root under the chosen kernel
    kernel: int  # index of the chosen kernel: 0 empirical, 1 directed, then the random ones
    values: FloatArray  # (n,) root values of all candidates


def optimistic_greedy(
    mdp: MDP, probability: FloatArray, half_radius: FloatArray, tau: float, beta: float, uniforms: FloatArray,
    columns: Grid | None = None,
) -> CandidateChoice:  # fmt: skip
    """Return the greedy policy of the candidate kernel with the largest value at the root (Algorithm 3).

    `probability` (nnz,) is the empirical kernel; `half_radius` and `uniforms` are as in `confidence.candidate_kernels`. The
    pass over the empirical kernel also computes the values that determine the directed kernel.
    """
    tau, beta = check_levels(tau, beta)
    layout = _layout(mdp, exact_columns(mdp) if columns is None else columns)
    centre = _recursion(mdp, layout, _kernels(mdp, probability[None]), tau, beta)
    candidates = candidate_kernels(mdp, probability, half_radius, centre.retained[0], uniforms)
    others = _recursion(mdp, layout, candidates[1:], tau, beta)
    values = np.concatenate([centre.values, others.values])
    i = first_best(values, layout.tie)
    actions = centre.actions[0] if i == 0 else others.actions[i - 1]
    return CandidateChoice(actions=actions, value=float(values[i]), kernel=i, values=values)


def first_best(values: FloatArray, tie: float) -> int:
    """Return the index of the first value within `tie` of the largest."""
    listed = values.tolist()  # faster than NumPy for a handful of numbers
    least = max(listed) - tie
    return next(i for i, value in enumerate(listed) if value >= least)


def exact_columns(mdp: MDP) -> Grid:
    """Return the exact grid of returns; raise GridError if there is none."""
    columns = returns_grid(mdp)
    if columns is None:
        raise GridError(NO_GRID, name="planner")
    return columns


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Layout:
    """The arrays of a problem for the compiled loops, built once."""

    grid: Grid
    scale: float  # size of the returns
    tie: float  # candidates whose values differ by at most this tie
    stages: GreedyStages


@per_structure
def _layout(mdp: MDP, columns: Grid) -> _Layout:
    """Return the layout of a problem on an exact grid."""
    if not columns.exact:
        raise GridError(NO_GRID, name="planner")
    check_memory(mdp, columns, MAX_BYTES)
    width = -(-int(columns.size.max()) // LANES) * LANES
    points = np.empty((mdp.H + 1, width))
    for h in range(mdp.H + 1):
        points[h] = np.resize(columns.points(h)[-1:], width)
        points[h, : columns.size[h]] = columns.points(h)
    drops = np.array([columns.drop(h) for h in range(mdp.H)], np.int64)
    common = _rows_with_one_reward(mdp, columns)
    dense, cells, cell_start = _dense_rows(mdp, common, width)
    stages = GreedyStages(
        row_start=mdp.row_start, successor=mdp.successor, units=columns.units, common=common, dense=dense, cells=cells,
        cell_start=cell_start, drops=drops, bases=points[:-1, 0] - points[1:, 0] - drops * columns.step,
        step=columns.step, points=points, size=columns.size, mu=mdp.mu,
    )  # fmt: skip
    return _Layout(grid=columns, scale=size_of(points[0]), tie=TIE * size_of(distinct_rewards(mdp)), stages=stages)


def _rows_with_one_reward(mdp: MDP, columns: Grid) -> BoolArray:
    """Return which rows have one reward for all outcomes, shape (1 or H, S*A)."""
    rows = np.flatnonzero(np.diff(mdp.row_start))
    same = np.ones((len(columns.units), mdp.row_start.size - 1), bool)
    if mdp.row_reward is not None:
        return same[:1].reshape(-1, mdp.S * mdp.A)
    starts = mdp.row_start[rows]
    high, low = np.maximum.reduceat(columns.units, starts, axis=1), np.minimum.reduceat(columns.units, starts, axis=1)
    same[:, rows] = high == low
    return same.reshape(-1, mdp.S * mdp.A)


def _dense_rows(mdp: MDP, common: BoolArray, width: int) -> tuple[IntArray, IntArray, IntArray]:
    """Return the position of each row in the matrix product (or -1), the source and target of each outcome, and their starts."""
    per_stage = mdp.S * mdp.A
    dense = np.full(common.shape, -1, np.int64)
    cells: list[IntArray] = []
    for i, same in enumerate(common):
        starts = mdp.row_start[0 if mdp.stationary else i * per_stage :][: per_stage + 1]
        counts = np.diff(starts)
        rows = np.flatnonzero(same & (counts > 1))
        if rows.size * max(width, mdp.S) > MAX_DENSE or counts[rows].sum() < MULTIPLY_FROM * rows.size * mdp.S:
            rows = rows[:0]
        dense[i, rows] = np.arange(rows.size)
        source = np.arange(starts[0], starts[-1])[np.repeat(dense[i] >= 0, counts)]
        cells.append(np.stack([source, np.repeat(dense[i, rows], counts[rows]) * mdp.S + mdp.successor[source]]))
    if sum(part.shape[1] for part in cells) > MAX_DENSE:
        return np.full(common.shape, -1, np.int64), np.empty((2, 0), np.int64), np.zeros(len(cells) + 1, np.int64)
    cell_start = np.cumsum([0, *(part.shape[1] for part in cells)])
    return dense, np.ascontiguousarray(np.concatenate(cells, axis=1)), cell_start


def _kernels(mdp: MDP, probabilities: FloatArray) -> FloatArray:
    given = np.ascontiguousarray(probabilities, dtype=np.float64)
    if given.ndim != 2 or given.shape[1] != mdp.successor.size:
        rule = f"have shape (n, {mdp.successor.size}), one entry per outcome"
        raise bad_value("probabilities", probabilities, rule, given.shape)
    # The loops would be compiled a second time for read-only arrays.
    return given if given.flags.writeable else given.copy()


def _sweep_set(mdp: MDP, layout: _Layout, kernels: FloatArray, levels: GreedyLevels, found: GreedyTables) -> None:
    """Run the recursion stage by stage on a set of returns, whose tables of columns are too large to hold for all stages."""
    columns, per_stage, stages = layout.grid, mdp.S * mdp.A, layout.stages
    points, nothing = stages.points, np.full(per_stage, -1, np.int64)
    no_cells: NDArray[np.int64] = np.empty((2, 0), np.int64)
    work = work_space(mdp.S, mdp.A, 0)
    laws = np.ones((kernels.shape[0], mdp.A + mdp.S, points.shape[1]))
    found.retained[:, mdp.H] = 0.0
    for h in range(mdp.H - 1, -1, -1):
        n = int(columns.size[h])
        landings = [columns.landing(h, u) for u in range(int(columns.units.max()) + 1)]
        at = np.stack([np.searchsorted(row, np.arange(n), side="right") - 1 for row in landings])
        here = GreedyColumns(
            x=points[h], n=n, x_next=points[h + 1], m=int(columns.size[h + 1]), drop=0, base=0.0, step=0.0, at=at
        )
        q0 = 0 if mdp.stationary else h * per_stage
        unit = columns.units[h if len(columns.units) > 1 else 0]
        for k in range(kernels.shape[0]):
            rows = StageRows(
                start=mdp.row_start[q0 : q0 + per_stage + 1], successor=mdp.successor, k=k,
                probabilities=kernels, unit=unit, common=stages.common[0], dense=nothing, cells=no_cells,
                first_cell=np.uint64(0), last_cell=np.uint64(0),
            )  # fmt: skip
            out = np.empty_like(laws[k])
            following, now = Retained(laws[k], found.retained[k, h + 1]), Retained(out, found.retained[k, h])
            greedy_stage(rows, here, levels, work, following, now, found.actions[k, h])
            laws[k] = out
    for k in range(kernels.shape[0]):
        found.values[k] = root_value(mdp.mu, laws[k], mdp.A, points[0], int(columns.size[0]), levels)
