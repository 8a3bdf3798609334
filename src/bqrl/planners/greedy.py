"""The paper's practical planner (Algorithm 3): one retained return law for every stage and state.

    D_H(s) = the law of 0,
    D_h^a(s) = law of r + G',  G' ~ D_{h+1}(s'),  s' ~ P_h(. | s, a),
    a_h(s) = argmax_a Q_tau^beta(D_h^a(s)),    D_h(s) = D_h^{a_h(s)}(s),

with ties broken by the larger mean, then by the lower action index. It applies the same tau at every stage, so it is
time-inconsistent: the policy is Markov and often not optimal for the quantile, and the planner proves no upper bound.
It is fast: one call plans for several kernels, before every episode of a learner.

Algorithm 3 as a whole, the choice among candidate kernels of a confidence set, is `optimistic_greedy`.
Deviation: values within TIE of each other tie, and so do means within MEAN_TIE; the paper does not define equality. Among
kernels of equal value the first is chosen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bqrl.errors import ArgumentError, GridError
from bqrl.laws.law import MASS_TOL, size_of
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.derived import per_structure
from bqrl.mdp.find_grid import grid
from bqrl.mdp.grid import Grid
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import ActionArray, MarkovPolicy, action_dtype
from bqrl.planners.confidence import candidate_kernels
from bqrl.planners.expected import plan_of
from bqrl.planners.greedy_loops import Greedy, Levels, Stages, greedy_stage, greedy_sweep, root_value, work_space
from bqrl.planners.plan import Plan, check_levels
from bqrl.planners.target import MAX_BYTES, check_memory

TIE = 1e-9  # objective values this close, relative to the size of the returns, are equal
MEAN_TIE = 1e-12  # and means this close
LANES = 8  # laws are padded to whole vectors
DENSE_FROM = 0.2  # share of possible successors from which one matrix product beats walking the outcomes
MAX_DENSE = 2**22  # entries of laws or kernels that a matrix product may take


def greedy_policies(
    mdp: MDP, probabilities: FloatArray, tau: float, beta: float = 0.0, columns: Grid | None = None
) -> Greedy:
    """Return what the recursion of Algorithm 3 finds for many kernels at once, on the outcomes and rewards of `mdp`.

    `probabilities` is (n, nnz): one entry per outcome that `mdp` stores; `mdp.staged()` stores every stage separately.
    beta = 0 is the plain quantile. In unreachable states a law may leave the grid; it is then clipped to it.
    """
    tau, beta = check_levels(tau, beta)
    kernels = np.require(
        probabilities, np.float64, ["C", "W"]
    )  # read-only arrays would compile the loops a second time
    if kernels.ndim != 2 or kernels.shape[1] != mdp.successor.size:
        raise ArgumentError(
            f"probabilities must have shape (n, {mdp.successor.size}), one entry per outcome, got {kernels.shape}",
            name="probabilities", value=kernels.shape,
        )  # fmt: skip
    columns = exact_columns(mdp) if columns is None else columns
    stages, n = _stages(mdp, columns), len(kernels)
    actions = np.empty((n, mdp.H, mdp.S), action_dtype(mdp.A))
    found = Greedy(actions, np.empty(n), np.empty((n, mdp.H + 1, mdp.S)))
    scale = size_of(stages.points[0, [0, -1]])
    levels = Levels(tau, beta, MASS_TOL, TIE * scale, MEAN_TIE * scale)
    if columns.uniform:
        greedy_sweep(stages, kernels, levels, found)
    else:
        _sweep_set(mdp, columns, stages, kernels, levels, found)
    return found


def plan_greedy(mdp: MDP, tau: float, beta: float = 0.0) -> Plan:
    """Return the greedy policy of `mdp` itself with its true value; no upper bound is proven."""
    tau, beta = check_levels(tau, beta)
    found = greedy_policies(mdp, mdp.probability[None], tau, beta)
    return plan_of(mdp, MarkovPolicy(found.actions[0]), tau, beta, "greedy")


class Choice(NamedTuple):
    """The optimistic choice among candidate kernels."""

    actions: ActionArray  # (H, S)
    value: float  # objective value at the root under the chosen kernel
    kernel: int  # which one: 0 empirical, 1 directed, then the random ones
    values: FloatArray  # (n,) root values of all candidates


def optimistic_greedy(
    mdp: MDP, probability: FloatArray, half_radius: FloatArray, tau: float, beta: float, uniforms: FloatArray
) -> Choice:
    """Return the result of Algorithm 3: the greedy policy of the candidate kernel with the largest value at the root.

    `probability` (nnz,) is the empirical kernel; `half_radius` and `uniforms` are those of `candidate_kernels`. The pass over
    the empirical kernel also provides the values that direct the first perturbation.
    """
    centre = greedy_policies(mdp, probability[None], tau, beta)
    candidates = candidate_kernels(mdp, probability, half_radius, centre.retained[0], uniforms)
    others = greedy_policies(mdp, candidates[1:], tau, beta)
    values = np.concatenate([centre.values, others.values])
    i = first_best(values, TIE * size_of(mdp.reward))
    actions = centre.actions[0] if i == 0 else others.actions[i - 1]
    return Choice(actions, float(values[i]), i, values)


def first_best(values: FloatArray, tie: float) -> int:
    """Return the index of the first value within `tie` of the largest."""
    listed = values.tolist()  # faster than NumPy for a handful of numbers
    least = max(listed) - tie
    return next(i for i, value in enumerate(listed) if value >= least)


def exact_columns(mdp: MDP) -> Grid:
    """Return the exact grid of returns; raise GridError if there is none."""
    columns = grid(mdp)
    if columns is None:
        raise GridError(
            "this planner requires an exact grid of returns, and this problem has none (a discount, or rewards without a "
            "common step); use planner='target', which brackets the optimum, or planner='expected'"
        )
    return columns


@per_structure
def _stages(mdp: MDP, columns: Grid) -> Stages:
    """Return the problem on an exact grid as the compiled loops need it; computed once."""
    if not columns.exact:
        raise GridError("the greedy planner requires an exact grid; use planner='target', which brackets the optimum")
    check_memory(mdp, columns, MAX_BYTES)
    width = -(-int(columns.size.max()) // LANES) * LANES
    points = np.empty((mdp.H + 1, width))
    for h in range(mdp.H + 1):
        points[h] = np.resize(columns.points(h)[-1:], width)
        points[h, : columns.size[h]] = columns.points(h)
    drops = np.array([columns.drop(h) for h in range(mdp.H)], np.int64)
    common = _common(mdp, columns)
    dense, cells, cell_start = _dense_rows(mdp, common, width)
    return Stages(
        row_start=mdp.row_start, successor=mdp.successor, units=columns.units, common=common, dense=dense, cells=cells,
        cell_start=cell_start, drops=drops, bases=points[:-1, 0] - points[1:, 0] - drops * columns.step,
        step=columns.step, points=points, size=columns.size, mu=mdp.mu, at=np.empty((0, 0), np.int64),
    )  # fmt: skip


def _common(mdp: MDP, columns: Grid) -> BoolArray:
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
    """Return the position of each row in the matrix product, or -1, and source and target of their outcomes by stage."""
    per_stage = mdp.S * mdp.A
    dense = np.full(common.shape, -1, np.int64)
    cells: list[IntArray] = []
    for i, same in enumerate(common):
        starts = mdp.row_start[0 if mdp.stationary else i * per_stage :][: per_stage + 1]
        counts = np.diff(starts)
        rows = np.flatnonzero(same & (counts > 1))
        if rows.size * max(width, mdp.S) > MAX_DENSE or counts[rows].sum() < DENSE_FROM * rows.size * mdp.S:
            rows = rows[:0]
        dense[i, rows] = np.arange(rows.size)
        source = np.arange(starts[0], starts[-1])[np.repeat(dense[i] >= 0, counts)]
        cells.append(np.stack([source, np.repeat(dense[i, rows], counts[rows]) * mdp.S + mdp.successor[source]]))
    if sum(part.shape[1] for part in cells) > MAX_DENSE:
        return np.full(common.shape, -1, np.int64), np.empty((2, 0), np.int64), np.zeros(len(cells) + 1, np.int64)
    cell_start = np.cumsum([0, *(part.shape[1] for part in cells)])
    return dense, np.ascontiguousarray(np.concatenate(cells, axis=1)), cell_start


def _sweep_set(mdp: MDP, columns: Grid, stages: Stages, kernels: FloatArray, levels: Levels, found: Greedy) -> None:
    """Run the recursion on a set of returns stage by stage: its tables of columns are too large to hold for all stages."""
    works = [work_space(stages, mdp.S, 0) for _ in kernels]
    found.retained[:, mdp.H] = 0.0
    for h in range(mdp.H - 1, -1, -1):
        landings = [columns.landing(h, u) for u in range(int(columns.units.max()) + 1)]
        at = np.stack([np.searchsorted(row, np.arange(columns.size[h]), side="right") - 1 for row in landings])
        for k, work in enumerate(works):
            greedy_stage(h, k, stages._replace(at=at), kernels[k], levels, work, found)
    for k, work in enumerate(works):
        found.values[k] = root_value(stages, work.laws[0], levels)
