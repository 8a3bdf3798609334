"""The greedy recursion over return laws: one retained law per stage and state, for many kernels in one call.

A law is its distribution function on the columns of a stage, F[s, j] = P(G <= x[j]), because mixing distribution
functions needs neither merging nor running sums. Columns are those of mdp/grid.py; rows of F are padded on the right
with their last entry. Functions take an array and the index of a row in it: a view of the row would cost more than most
of them do.
"""

from typing import Any, NamedTuple

import numpy as np
from numba import njit


class Levels(NamedTuple):
    """The objective and when values count as equal."""

    tau: float
    beta: float
    tol: float  # of masses
    tie: float  # of objective values
    mean_tie: float


class Stages(NamedTuple):
    """What all stages of a problem share with every kernel.

    A reward of u steps at stage h is worth bases[h] + u * step, and column i of the stage belongs to column
    i + drops[h] - u of the next one. On a set of returns `at` maps the columns instead.
    """

    row_start: Any  # (K*S*A + 1,)
    successor: Any  # (nnz,)
    units: Any  # (1 or H, nnz) rewards in steps
    common: Any  # (1 or H, S*A) rows whose outcomes share a reward
    dense: Any  # (1 or H, S*A) place of a row in the matrix product, or -1
    cells: Any  # (2, c) source and target of each outcome of a dense row
    cell_start: Any  # (stages + 1,)
    drops: Any  # (H,)
    bases: Any  # (H,)
    step: float
    points: Any  # (H + 1, width)
    size: Any  # (H + 1,)
    mu: Any  # (S,)
    at: Any  # (rewards, columns of the current stage) columns of the next stage, or -1; empty on a lattice


class Work(NamedTuple):
    """Work arrays of `greedy_stage`; the laws of this stage and the next take turns.

    Rows of `laws`: A actions, the dense rows, then one law per state.
    """

    laws: Any  # (2, A + dense rows + S, width)
    matrix: Any  # (dense rows, S) their kernel
    place: Any  # (A,) row of each action's law
    gain: Any  # (A,) reward added to it
    after: Any  # (A,) whether it lies on the columns of the next stage
    score: Any  # (A,)
    means: Any  # (A,)


class Greedy(NamedTuple):
    """Results of the recursion for each of n kernels."""

    actions: Any  # (n, H, S)
    values: Any  # (n,) objective value of the retained law at the root
    retained: Any  # (n, H + 1, S) objective value of every retained law


@njit(cache=True)
def objective(F, s, x, n, tau, beta, tol):
    """Buffered tau-quantile x_top - (1 / beta) * integral of (F - (tau - beta))_+ below x_top; x_top is the quantile."""
    row, top, end = np.uint64(s), 0, n - 1
    while end - top > 64:  # the first column whose mass reaches tau
        middle = (top + end) // 2
        if F[s, middle] >= tau - tol:
            end = middle
        else:
            top = middle + 1
    short = 0
    for j in range(np.uint64(top), np.uint64(end)):  # few are left: counting them runs on vectors
        short += F[row, j] < tau - tol
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
    """Mean of the law F[s]."""
    total = x[n - 1]
    for j in range(n - 1):
        total -= F[s, j] * (x[j + 1] - x[j])
    return total


@njit(cache=True)
def shift_to(F, t, m, shift, n, out, s):
    """out[s, i] = F[t] at column i + shift: 0 below its m columns, the whole mass above them."""
    row, source = np.uint64(s), np.uint64(t)  # unsigned, so that the loops run on vectors (see columns.py)
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
    """out[s, i] += weight * F[t] at column i + shift, as in `shift_to`."""
    begin = min(max(-shift, 0), n)
    end = max(min(n, m - shift), begin)
    for i in range(begin, end):
        out[s, i] += weight * F[t, i + shift]
    for i in range(end, out.shape[1]):
        out[s, i] += weight * F[t, m - 1]


@njit(cache=True)
def add_tabled(F, t, at, u, n, weight, out, s):
    """out[s, i] += weight * F[t] at column at[u, i], where -1 is below every column."""
    for i in range(out.shape[1]):
        j = at[u, min(i, n - 1)]
        if j >= 0:
            out[s, i] += weight * F[t, j]


@njit(cache=True)
def larger_mean(h, stages, work, laws, least, mean_tie):
    """Return, of the actions with a score of at least `least`, the one with the largest mean; within mean_tie the lowest."""
    best, chosen = -np.inf, -1
    for a in range(work.score.size):
        work.means[a] = -np.inf
        if work.score[a] >= least:
            stage = h + 1 if work.after[a] else h
            work.means[a] = work.gain[a] + mean(laws, work.place[a], stages.points[stage], stages.size[stage])
            best = max(best, work.means[a])
    for a in range(work.score.size - 1, -1, -1):
        if work.means[a] >= best - mean_tie:
            chosen = a
    return chosen


@njit(cache=True)
def multiply_dense(stage, stages, p, work, laws):
    """Fill the laws of the dense rows by one matrix product."""
    flat, cells, A = work.matrix.reshape(-1), stages.cells, work.score.size
    top = A + work.matrix.shape[0]
    source, target = np.uint64(0), np.uint64(1)
    flat[:] = 0.0
    for c in range(np.uint64(stages.cell_start[stage]), np.uint64(stages.cell_start[stage + 1])):
        flat[np.uint64(cells[target, c])] += p[np.uint64(cells[source, c])]
    np.dot(work.matrix, laws[top:], laws[A:top])


@njit(cache=True, inline="always")
def judge(q, h, stages, p, levels, work, laws, value_next):
    """Build the law of the action in row q of stage h, and fill in its place among the laws, its gain and its score.

    A row whose outcomes share a reward is built and judged on the columns of the next stage (`after`); only the law of the
    best action is shifted. Inlined, because a call would count references to every array of its arguments.
    """
    A, per_stage = work.score.size, stages.common.shape[1]
    a, top = q % A, laws.shape[0] - value_next.size  # the first law of the next stage
    row = q if stages.row_start.size - 1 == per_stage else h * per_stage + q
    begin, end = stages.row_start[row], stages.row_start[row + 1]
    stage, by_reward = min(h, stages.common.shape[0] - 1), min(h, stages.units.shape[0] - 1)
    n, m, by_table = stages.size[h], stages.size[h + 1], stages.at.size > 0
    work.place[a], work.gain[a], work.after[a] = a, 0.0, stages.common[stage, q] and not by_table
    if work.after[a]:
        work.gain[a] = stages.bases[h] + stages.units[by_reward, begin] * stages.step
        if end == begin + 1:
            work.place[a] = top + stages.successor[begin]
            work.score[a] = work.gain[a] + value_next[stages.successor[begin]]
        else:
            if stages.dense[stage, q] >= 0:
                work.place[a] = A + stages.dense[stage, q]
            else:
                laws[a, :] = 0.0
                for i in range(begin, end):
                    add_shifted(laws, top + stages.successor[i], m, 0, m, p[i], laws, a)
            value = objective(laws, work.place[a], stages.points[h + 1], m, levels.tau, levels.beta, levels.tol)
            work.score[a] = work.gain[a] + value
    else:
        laws[a, :] = 0.0
        for i in range(begin, end):
            t, u = top + stages.successor[i], stages.units[by_reward, i]
            if by_table:
                add_tabled(laws, t, stages.at, u, n, p[i], laws, a)
            else:
                add_shifted(laws, t, m, stages.drops[h] - u, n, p[i], laws, a)
        work.score[a] = objective(laws, a, stages.points[h], n, levels.tau, levels.beta, levels.tol)


@njit(cache=True)
def greedy_stage(h, k, stages, p, levels, work, found):
    """One stage of Algorithm 3 for kernel number k, p: the law of every action is built, the best one is retained."""
    laws, out = work.laws[(h + 1) % 2], work.laws[h % 2]
    value_next, value, action = found.retained[k, h + 1], found.retained[k, h], found.actions[k, h]
    score, tie, n = work.score, levels.tie, stages.size[h]
    A, S, single = score.size, value.size, stages.row_start.size - 1 == stages.common.shape[1]
    top, first = laws.shape[0] - S, 0 if single else h * S * A
    if work.matrix.size > 0:
        multiply_dense(min(h, stages.common.shape[0] - 1), stages, p, work, laws)
    for s in range(S):
        best, chosen, tied = -np.inf, -1, False
        for a in range(A):
            q = s * A + a
            score[a] = -np.inf
            if stages.row_start[first + q] == stages.row_start[first + q + 1]:
                continue
            judge(q, h, stages, p, levels, work, laws, value_next)
            if score[a] > best + tie:
                chosen, tied = a, False
            else:
                tied = tied or score[a] >= best - tie
            best = max(best, score[a])
        if tied:
            chosen = larger_mean(h, stages, work, laws, best - tie, levels.mean_tie)
        if chosen < 0:  # a state without actions is never met
            out[top + s, :] = 1.0
            value[s], action[s] = stages.points[h, 0], 0
            continue
        value[s], action[s] = score[chosen], chosen
        if work.after[chosen]:
            begin = stages.row_start[first + s * A + chosen]
            shift = stages.drops[h] - stages.units[min(h, stages.units.shape[0] - 1), begin]
            shift_to(laws, work.place[chosen], stages.size[h + 1], shift, n, out, top + s)
        else:
            shift_to(laws, work.place[chosen], n, 0, n, out, top + s)


@njit(cache=True)
def work_space(stages, S, dense):
    """Return the work arrays of `greedy_stage` with the laws of the last stage, which are all the law of 0."""
    A = stages.common.shape[1] // S
    laws = np.ones((2, A + dense + S, stages.points.shape[1]))
    return Work(
        laws, np.empty((dense, S)), np.empty(A, np.int64), np.empty(A), np.empty(A, np.bool_), np.empty(A), np.empty(A)
    )


@njit(cache=True)
def greedy_sweep(stages, probabilities, levels, found):
    """All stages of Algorithm 3 on a lattice, for every kernel of `probabilities` (n, nnz)."""
    _, H, S = found.actions.shape
    work = work_space(stages, S, stages.dense.max() + 1)
    for k in range(probabilities.shape[0]):
        work.laws[H % 2] = 1.0
        found.retained[k, H] = 0.0
        for h in range(H - 1, -1, -1):
            greedy_stage(h, k, stages, probabilities[k], levels, work, found)
        found.values[k] = root_value(stages, work.laws[0], levels)


@njit(cache=True)
def root_value(stages, laws, levels):
    """Return the objective value of the law from the first state, drawn from mu."""
    mixed, top = np.zeros((1, laws.shape[1])), laws.shape[0] - stages.mu.size
    for s in range(stages.mu.size):
        if stages.mu[s] > 0.0:
            for j in range(laws.shape[1]):
                mixed[0, j] += stages.mu[s] * laws[top + s, j]
    return objective(mixed, 0, stages.points[0], stages.size[0], levels.tau, levels.beta, levels.tol)
