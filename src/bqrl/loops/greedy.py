"""The greedy recursion over return laws: one retained law per stage and state, for many kernels in one call.

A law is its distribution function on the columns of a stage, F[s, j] = P(G <= x[j]), because mixing distribution
functions needs neither merging nor running sums. Columns are those of mdp/grid.py; rows of F are padded on the right
with their last entry. Functions take an array and the index of a row: creating a view of the row would take longer than
most of the functions.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from bqrl.loops.moves import inlined

LEAST = np.nextafter(0.0, 1.0)  # the smallest positive mass


class GreedyLevels(NamedTuple):
    """The objective, and the tolerances below which values tie."""

    tau: float
    beta: float
    tol: float  # of masses
    tie: float  # of objective values
    mean_tie: float


class GreedyStages(NamedTuple):
    """The arrays of all stages of a problem, which do not depend on the kernel."""

    row_start: Any  # (K*S*A + 1,)
    successor: Any  # (nnz,)
    units: Any  # (1 or H, nnz) rewards in steps
    common: Any  # (1 or H, S*A) whether all outcomes of a row have the same reward
    dense: Any  # (1 or H, S*A) index of a row in the matrix product, or -1
    cells: Any  # (2, c) source and target of each outcome of a dense row
    cell_start: Any  # (stages + 1,)
    drops: Any  # (H,)
    bases: Any  # (H,) value of a reward of 0 steps
    step: float
    points: Any  # (H + 1, width)
    size: Any  # (H + 1,)
    mu: Any  # (S,)


class GreedyColumns(NamedTuple):
    """The n columns x of a stage, the m columns x_next of the next stage, and the shift of columns by a reward.

    A reward of u steps has the value base + u * step and moves column i to column i + drop - u; on a set of returns, at[u]
    maps the columns.
    """

    x: Any
    n: int
    x_next: Any
    m: int
    drop: int
    base: float
    step: float
    at: Any


class StageRows(NamedTuple):
    """Rows of one stage: row q = s * A + a has the outcomes start[q] .. start[q + 1], with probabilities[k]."""

    start: Any
    successor: Any
    k: int
    probabilities: Any
    unit: Any
    common: Any
    dense: Any
    cells: Any
    first_cell: Any
    last_cell: Any


class Work(NamedTuple):
    """Work arrays of `greedy_stage`: the dense rows of the kernel, and the law and score of each action."""

    matrix: Any
    place: Any
    gain: Any
    after: Any
    score: Any
    means: Any


class Retained(NamedTuple):
    """Laws and values of a stage; rows of `laws`: A actions, the dense rows, then one law per state."""

    laws: Any
    value: Any  # (S,)


class GreedyTables(NamedTuple):
    """The result of the recursion for each of n kernels."""

    actions: Any  # (n, H, S)
    values: Any  # (n,) objective value of the retained law at the root
    retained: Any  # (n, H + 1, S) objective value of every retained law


@njit(cache=True)
def objective(F, s, x, n, tau, beta, tol):
    """Return the buffered tau-quantile x_top - (1 / beta) * integral of (F - (tau - beta))_+ below the quantile x_top."""
    row, top, end = np.uint64(s), 0, n - 1
    level = max(tau - tol, LEAST)  # a column with F = 0 is below the quantile at every level, as in laws/law.py
    while end - top > 64:  # the first column whose mass reaches the level
        middle = (top + end) // 2
        if F[s, middle] >= level:
            end = middle
        else:
            top = middle + 1
    short = 0
    for j in range(np.uint64(top), np.uint64(end)):  # few columns are left; counting them vectorises
        short += F[row, j] < level
    top += short
    low = tau - beta
    if beta == 0.0 or top == 0 or F[s, top - 1] <= (low + tol if low > 0.0 else 0.0):
        return x[top]  # all levels of the buffer lie in one atom
    missing = 0.0
    for j in range(top - 1, -1, -1):
        if F[s, j] <= low:
            break
        missing += (F[s, j] - low) * (x[j + 1] - x[j])
    return x[top] - missing / beta


@njit(cache=True)
def mean(F, s, x, n):
    """Return the mean of the law F[s]."""
    total = x[n - 1]
    for j in range(n - 1):
        total -= F[s, j] * (x[j + 1] - x[j])
    return total


@njit(cache=True)
def shift_to(F, t, m, shift, n, out, s):
    """Fill out[s, i] with F[t] at column i + shift: 0 below its m columns, the whole mass above them."""
    row, source = np.uint64(s), np.uint64(t)  # unsigned, so that the loops vectorise (see loops/moves.py)
    if shift == 0 and m == n:
        for i in range(np.uint64(out.shape[1])):
            out[row, i] = F[source, i]
        return
    begin = min(max(-shift, 0), n)
    end = max(min(n, m - shift), begin)
    out[s, :begin] = 0.0
    to, at = np.uint64(begin), np.uint64(max(begin + shift, 0))
    for i in range(np.uint64(end - begin)):
        out[row, to + i] = F[source, at + i]
    out[s, end:] = F[t, m - 1]


@njit(cache=True)
def add_shifted(F, t, m, shift, n, weight, out, s):
    """Add weight * F[t] at column i + shift to out[s, i], as in `shift_to`."""
    begin = min(max(-shift, 0), n)
    end = max(min(n, m - shift), begin)
    for i in range(begin, end):
        out[s, i] += weight * F[t, i + shift]
    for i in range(end, out.shape[1]):
        out[s, i] += weight * F[t, m - 1]


@njit(cache=True)
def add_tabled(F, t, at, u, n, weight, out, s):
    """Add weight * F[t] at column at[u, i] to out[s, i]; -1 is below every column."""
    for i in range(out.shape[1]):
        j = at[u, min(i, n - 1)]
        if j >= 0:
            out[s, i] += weight * F[t, j]


@inlined
def best_mean_action(laws, work, columns, least, mean_tie):
    """Return the action with the largest mean among those that score at least `least`; within mean_tie, the lowest index."""
    best, chosen = -np.inf, -1
    for a in range(work.score.size):
        work.means[a] = -np.inf
        if work.score[a] >= least:
            on_next = work.after[a]
            x, n = (columns.x_next, columns.m) if on_next else (columns.x, columns.n)
            work.means[a] = work.gain[a] + mean(laws, work.place[a], x, n)
            best = max(best, work.means[a])
    for a in range(work.score.size - 1, -1, -1):
        if work.means[a] >= best - mean_tie:
            chosen = a
    return chosen


@inlined
def multiply_dense(rows, work, laws, A, top):
    """Fill the laws of the dense rows by one matrix product."""
    flat, cells, probabilities, k = work.matrix.reshape(-1), rows.cells, rows.probabilities, np.uint64(rows.k)
    source, target = np.uint64(0), np.uint64(1)
    flat[:] = 0.0
    for c in range(rows.first_cell, rows.last_cell):
        flat[np.uint64(cells[target, c])] += probabilities[k, np.uint64(cells[source, c])]
    np.dot(work.matrix, laws[top:], laws[A:top])


@inlined
def greedy_stage(rows, columns, levels, work, following, here, action):
    """Run one stage of Algorithm 3 for one kernel: compute the law of every action and retain the best.

    If all outcomes of a row have the same reward, its law is computed and scored on the columns of the next stage (`after`);
    only the retained law is shifted.
    """
    row_start, successor, k, probabilities, unit, common, dense, _, _, _ = rows
    x, n, x_next, m, drop, base, step, at = columns
    tau, beta, tol, tie, mean_tie = levels
    matrix, place, gain, after, score, _ = work
    laws, value_next = following
    out, value = here
    A, S = score.size, value.size
    top = laws.shape[0] - S  # the first law of the next stage
    by_table = at.size > 0
    if matrix.size > 0:
        multiply_dense(rows, work, laws, A, top)
    for s in range(S):
        best, chosen, tied = -np.inf, -1, False
        for a in range(A):
            q = s * A + a
            begin, end = row_start[q], row_start[q + 1]
            score[a] = -np.inf
            if begin == end:
                continue
            place[a], gain[a], after[a] = a, 0.0, common[q] and not by_table
            if after[a]:
                gain[a] = base + unit[begin] * step
                if end == begin + 1:
                    place[a] = top + successor[begin]
                    score[a] = gain[a] + value_next[successor[begin]]
                else:
                    if dense[q] >= 0:
                        place[a] = A + dense[q]
                    else:
                        laws[a, :] = 0.0
                        for i in range(begin, end):
                            add_shifted(laws, top + successor[i], m, 0, m, probabilities[k, i], laws, a)
                    score[a] = gain[a] + objective(laws, place[a], x_next, m, tau, beta, tol)
            else:
                laws[a, :] = 0.0
                for i in range(begin, end):
                    if by_table:
                        add_tabled(laws, top + successor[i], at, unit[i], n, probabilities[k, i], laws, a)
                    else:
                        add_shifted(laws, top + successor[i], m, drop - unit[i], n, probabilities[k, i], laws, a)
                score[a] = objective(laws, a, x, n, tau, beta, tol)
            if score[a] > best + tie:
                chosen, tied = a, False
            else:
                tied = tied or score[a] >= best - tie
            best = max(best, score[a])
        if tied:
            chosen = best_mean_action(laws, work, columns, best - tie, mean_tie)
        if chosen < 0:  # a state without actions is never reached
            out[top + s, :] = 1.0
            value[s], action[s] = x[0], 0
            continue
        value[s], action[s] = score[chosen], chosen
        if after[chosen]:
            shift_to(laws, place[chosen], m, drop - unit[row_start[s * A + chosen]], n, out, top + s)
        else:
            shift_to(laws, place[chosen], n, 0, n, out, top + s)


@njit(cache=True)
def work_space(S, A, blocks):
    """Return the work arrays of `greedy_stage`."""
    return Work(
        np.empty((blocks, S)), np.empty(A, np.int64), np.empty(A), np.empty(A, np.bool_), np.empty(A), np.empty(A)
    )


@njit(cache=True)
def greedy_sweep(stages, probabilities, levels, found):
    """Run all stages of Algorithm 3 on a lattice, for every kernel in `probabilities` (n, nnz)."""
    _, H, S = found.actions.shape
    per_stage = stages.common.shape[1]
    A, blocks = per_stage // S, stages.dense.max() + 1
    single = stages.row_start.size - 1 == per_stage  # all stages share the same rows
    work = work_space(S, A, blocks)
    table = np.empty((0, 0), np.int64)
    size, points = stages.size, stages.points
    laws, out = np.empty((A + blocks + S, points.shape[1])), np.empty((A + blocks + S, points.shape[1]))
    for k in range(probabilities.shape[0]):
        laws[A + blocks :] = 1.0
        found.retained[k, H] = 0.0
        for h in range(H - 1, -1, -1):
            q0 = 0 if single else h * per_stage
            i = h if stages.common.shape[0] > 1 else 0
            rows = StageRows(
                stages.row_start[q0 : q0 + per_stage + 1], stages.successor, k, probabilities,
                stages.units[h if stages.units.shape[0] > 1 else 0], stages.common[i], stages.dense[i], stages.cells,
                np.uint64(stages.cell_start[i]), np.uint64(stages.cell_start[i + 1]),
            )  # fmt: skip
            columns = GreedyColumns(
                points[h], size[h], points[h + 1], size[h + 1], stages.drops[h], stages.bases[h], stages.step, table
            )
            following = Retained(laws, found.retained[k, h + 1])
            greedy_stage(
                rows, columns, levels, work, following, Retained(out, found.retained[k, h]), found.actions[k, h]
            )
            laws, out = out, laws
        found.values[k] = root_value(stages.mu, laws, A + blocks, points[0], size[0], levels)


@njit(cache=True)
def root_value(mu, laws, top, x, n, levels):
    """Return the objective value of the return law, with the first state drawn from mu."""
    mixed = np.zeros((1, laws.shape[1]))
    for s in range(mu.size):
        if mu[s] > 0.0:
            for j in range(laws.shape[1]):
                mixed[0, j] += mu[s] * laws[top + s, j]
    return objective(mixed, 0, x, n, levels.tau, levels.beta, levels.tol)
