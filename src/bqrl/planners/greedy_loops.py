"""The greedy recursion over return laws: one retained law for every (stage, state), for many kernels in one call.

A law is its distribution function on the columns of a stage, F[s, j] = P(G <= x[j]), because mixing distribution
functions needs no merging and no running sums. Columns are those of mdp/lattice.py; rows of F are padded on the right
with their last entry. Functions take an array and the index of a row in it: a view of the row would cost more than most
of them do. Arrays in, arrays out: no checks, no options.
"""

import numpy as np
from numba import njit


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
def larger_mean(laws, place, gain, after, score, means, least, x, n, x_next, m, mean_tie):
    """Of the actions with a score of at least `least` the one of the largest mean; within mean_tie the lowest."""
    best, chosen = -np.inf, -1
    for a in range(score.size):
        means[a] = -np.inf
        if score[a] >= least:
            means[a] = gain[a] + (mean(laws, place[a], x_next, m) if after[a] else mean(laws, place[a], x, n))
            best = max(best, means[a])
    for a in range(score.size - 1, -1, -1):
        if means[a] >= best - mean_tie:
            chosen = a
    return chosen


@njit(cache=True)
def greedy_stage(
    q0, row_start, successor, k, probabilities, unit, common, dense, cells, first_cell, last_cell, at, move, x, n, x_next, m,
    laws, value_next, levels, work, out, value, action,
):  # fmt: skip
    """One stage of Algorithm 3 for one kernel: the law of every action, the best one retained.

    Outcome i of row q = s * A + a lies at row_start[q0 + q] <= i < row_start[q0 + q + 1], its probability at
    probabilities[k, i]. Rows of `laws`: A actions, the dense rows, then the S laws of the next stage; `out` holds those of
    this stage in the same place. move = (drop, base, step) of a lattice: a reward of u steps is worth base + u * step and
    takes column i to column i + drop - u. A row whose outcomes share a reward (`common`) is built and judged on the columns
    of the next stage (`after`), and only the winner is shifted; dense[q] >= 0 says which row of one matrix product it is,
    filled by the `cells` (source, target) of the stage. With a set of returns at[u] maps columns.
    levels = (tau, beta, tol, tie, mean_tie).
    """
    drop, base, step = move
    tau, beta, tol, tie, mean_tie = levels
    matrix, place, gain, after, score, means = work
    A, S = score.size, value.size
    top = laws.shape[0] - S  # the first law of the next stage
    by_table = at.size > 0
    if matrix.size > 0:
        flat = matrix.reshape(-1)
        flat[:] = 0.0
        for c in range(first_cell, last_cell):
            flat[np.uint64(cells[1, c])] += probabilities[k, np.uint64(cells[0, c])]
        np.dot(matrix, laws[top:], laws[A:top])
    for s in range(S):
        best, chosen, tied = -np.inf, -1, False
        for a in range(A):
            q = s * A + a
            begin, end = row_start[q0 + q], row_start[q0 + q + 1]
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
            chosen = larger_mean(laws, place, gain, after, score, means, best - tie, x, n, x_next, m, mean_tie)
        if chosen < 0:  # a state without actions is never met
            out[top + s, :] = 1.0
            value[s], action[s] = x[0], 0
            continue
        value[s], action[s] = score[chosen], chosen
        if after[chosen]:
            shift_to(laws, place[chosen], m, drop - unit[row_start[q0 + s * A + chosen]], n, out, top + s)
        else:
            shift_to(laws, place[chosen], n, 0, n, out, top + s)


@njit(cache=True)
def work_space(S, A, blocks):
    """Scratch of `greedy_stage`: the dense rows of the kernel, and what is known of each action."""
    return np.empty((blocks, S)), np.empty(A, np.int64), np.empty(A), np.empty(A, np.bool_), np.empty(A), np.empty(A)


@njit(cache=True)
def greedy_sweep(
    row_start, successor, probabilities, units, common, dense, cells, cell_start, drops, bases, step, points, sizes, mu,
    levels, actions, values, roots,
):  # fmt: skip
    """All stages of Algorithm 3 on a lattice, for every kernel of `probabilities` (n, nnz).

    Fills actions (n, H, S), the retained values (n, H + 1, S) and the root values (n,).
    """
    _, H, S = actions.shape
    per_stage = common.shape[1]
    A, blocks = per_stage // S, dense.max() + 1
    single = row_start.size - 1 == per_stage  # rows of one stage serve all
    work = work_space(S, A, blocks)
    table = np.empty((0, 0), np.int64)
    laws, out = np.empty((A + blocks + S, points.shape[1])), np.empty((A + blocks + S, points.shape[1]))
    for k in range(probabilities.shape[0]):
        laws[A + blocks :] = 1.0
        values[k, H] = 0.0
        for h in range(H - 1, -1, -1):
            q0 = 0 if single else h * per_stage
            unit = units[h if units.shape[0] > 1 else 0]
            i = h if common.shape[0] > 1 else 0
            greedy_stage(
                q0, row_start, successor, k, probabilities, unit, common[i], dense[i],
                cells, np.uint64(cell_start[i]), np.uint64(cell_start[i + 1]), table, (drops[h], bases[h], step),
                points[h], sizes[h], points[h + 1], sizes[h + 1], laws, values[k, h + 1], levels, work,
                out, values[k, h], actions[k, h],
            )  # fmt: skip
            laws, out = out, laws
        roots[k] = root_value(mu, laws, A + blocks, points[0], sizes[0], levels)


@njit(cache=True)
def root_value(mu, laws, top, x, n, levels):
    """Objective value of the law from the first state, drawn from mu."""
    mixed = np.zeros((1, laws.shape[1]))
    for s in range(mu.size):
        if mu[s] > 0.0:
            for j in range(laws.shape[1]):
                mixed[0, j] += mu[s] * laws[top + s, j]
    return objective(mixed, 0, x, n, levels[0], levels[1], levels[2])
