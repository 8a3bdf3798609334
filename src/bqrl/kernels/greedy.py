"""The greedy recursion over return laws: one retained law for every (stage, state), for many kernels in one call.

A law is its distribution function on the columns of a stage, F[j] = P(G <= x[j]), because mixing distribution functions
needs no merging and no running sums. Columns are those of mdp/lattice.py; rows of F are padded on the right with their
last entry, so that inner loops run over whole vectors. Arrays in, arrays out: no checks, no options.
"""

import numpy as np
from numba import njit


@njit(cache=True)
def objective(F, x, n, tau, beta, tol):
    """Buffered tau-quantile x_top - (1 / beta) * integral of (F - (tau - beta))_+ below x_top; beta = 0: the quantile x_top."""
    low = tau - beta
    missing, before = 0.0, 0.0
    for j in range(n - 1):
        c = F[j]
        if c >= tau - tol:
            if beta == 0.0 or before <= (low + tol if low > 0.0 else 0.0):
                return x[j]
            return x[j] - missing / beta
        if c > low:
            missing += (c - low) * (x[j + 1] - x[j])
        before = c
    if beta == 0.0 or before <= (low + tol if low > 0.0 else 0.0):
        return x[n - 1]
    return x[n - 1] - missing / beta


@njit(cache=True)
def mean(F, x, n):
    """Mean of the law."""
    total = x[n - 1]
    for j in range(n - 1):
        total -= F[j] * (x[j + 1] - x[j])
    return total


@njit(cache=True)
def mixture(successor, probability, begin, end, F, out):
    """out = sum of probability[i] * F[successor[i]], four outcomes at a time."""
    out[:] = 0.0
    held = 0
    a, b, c = 0, 0, 0
    for i in range(begin, end):
        if probability[i] == 0.0:
            continue
        if held == 0:
            a, held = i, 1
        elif held == 1:
            b, held = i, 2
        elif held == 2:
            c, held = i, 3
        else:
            p, q, r, t = probability[a], probability[b], probability[c], probability[i]
            Fa, Fb, Fc, Ft = F[successor[a]], F[successor[b]], F[successor[c]], F[successor[i]]
            for j in range(out.size):
                out[j] += (p * Fa[j] + q * Fb[j]) + (r * Fc[j] + t * Ft[j])
            held = 0
    for k in range(held):
        i = a if k == 0 else (b if k == 1 else c)
        p, Fa = probability[i], F[successor[i]]
        for j in range(out.size):
            out[j] += p * Fa[j]


@njit(cache=True)
def shifted(F, m, shift, n, out, weight):
    """out[i] += weight * F at column i + shift: 0 below its m columns, the whole mass above them."""
    begin = min(max(-shift, 0), n)
    end = max(min(n, m - shift), begin)
    for i in range(begin, end):
        out[i] += weight * F[i + shift]
    top = weight * F[m - 1]
    for i in range(end, out.size):
        out[i] += top


@njit(cache=True)
def tabled(F, at, n, out, weight):
    """out[i] += weight * F at column at[i], where -1 is below every column."""
    for i in range(n):
        if at[i] >= 0:
            out[i] += weight * F[at[i]]
    if at[n - 1] >= 0:
        out[n:] += weight * F[at[n - 1]]


@njit(cache=True)
def best_action(law, gain, after, score, mean_of, x, n, x_next, m, tie, mean_tie):
    """Action of the best score; within `tie` of it that of the largest mean, within mean_tie the lowest; -1 without any."""
    best = score.max()
    if best == -np.inf:
        return -1
    chosen, tied = -1, 0
    for a in range(score.size):
        if score[a] >= best - tie:
            tied += 1
            if chosen < 0:
                chosen = a
    if tied == 1:
        return chosen
    mean_of[:] = -np.inf
    for a in range(score.size):
        if score[a] >= best - tie:
            mean_of[a] = gain[a] + (mean(law[a], x_next, m) if after[a] else mean(law[a], x, n))
    least = mean_of.max() - mean_tie
    for a in range(score.size):
        if mean_of[a] >= least:
            return a
    return chosen


@njit(cache=True)
def greedy_stage(
    rows, successor, probability, unit, common, at, drop, base, step, x, n, x_next, m, F_next, value_next,
    tau, beta, tol, tie, mean_tie, law, gain, after, score, mean_of, F, value, action,
):  # fmt: skip
    """One stage of Algorithm 3 for one kernel: the law of every action, the best one retained.

    Outcome i of row q = s * A + a lies at rows[q] <= i < rows[q + 1]. On a lattice a row whose outcomes share a reward
    (`common`) is built and judged on the columns of the next stage (`after`), and only the winner is shifted; with a set
    of returns at[u] maps columns. `law` (A, width), `gain`, `after`, `score` and `mean_of` (A,) are work space.
    """
    S, A = F.shape[0], score.size
    by_table = at.size > 0
    for s in range(S):
        for a in range(A):
            q = s * A + a
            begin, end = rows[q], rows[q + 1]
            gain[a], after[a], score[a] = 0.0, False, -np.inf
            if begin == end:
                continue
            if common[q] and not by_table:
                gain[a], after[a] = base + unit[begin] * step, True
                if end == begin + 1:
                    law[a] = F_next[successor[begin]]
                    score[a] = gain[a] + value_next[successor[begin]]
                else:
                    mixture(successor, probability, begin, end, F_next, law[a])
                    score[a] = gain[a] + objective(law[a], x_next, m, tau, beta, tol)
                continue
            law[a] = 0.0
            for i in range(begin, end):
                if probability[i] > 0.0:
                    if by_table:
                        tabled(F_next[successor[i]], at[unit[i]], n, law[a], probability[i])
                    else:
                        shifted(F_next[successor[i]], m, drop - unit[i], n, law[a], probability[i])
            score[a] = objective(law[a], x, n, tau, beta, tol)

        chosen = best_action(law, gain, after, score, mean_of, x, n, x_next, m, tie, mean_tie)
        if chosen < 0:  # a state without actions is never met
            F[s], value[s], action[s] = 1.0, x[0], 0
            continue
        value[s], action[s] = score[chosen], chosen
        if after[chosen]:
            F[s] = 0.0
            shifted(law[chosen], m, drop - unit[rows[s * A + chosen]], n, F[s], 1.0)
        else:
            F[s] = law[chosen]


@njit(cache=True)
def greedy_sweep(
    row_start, successor, probabilities, units, common, drops, bases, step, points, sizes, mu,
    tau, beta, tol, tie, mean_tie, actions, values, roots,
):  # fmt: skip
    """All stages of Algorithm 3 on a lattice for every kernel of `probabilities` (n, stages stored, nnz).

    Fills actions (n, H, S), the retained values (n, H + 1, S) and the root values (n,).
    """
    _, H, S = actions.shape
    width = points.shape[1]
    per_stage = common.shape[1]
    A = per_stage // S
    flat = row_start.size - 1 == per_stage  # one kernel for all stages
    F, law = np.empty((2, S, width)), np.empty((A, width))
    gain, after, score, mean_of = np.empty(A), np.empty(A, np.bool_), np.empty(A), np.empty(A)
    table = np.empty((0, 0), np.int64)
    for k in range(probabilities.shape[0]):
        F[H % 2], values[k, H] = 1.0, 0.0
        for h in range(H - 1, -1, -1):
            first = 0 if flat else h * per_stage
            greedy_stage(
                row_start[first : first + per_stage + 1], successor,
                probabilities[k, h if probabilities.shape[1] > 1 else 0], units[h if units.shape[0] > 1 else 0],
                common[h if common.shape[0] > 1 else 0], table, drops[h], bases[h], step,
                points[h], sizes[h], points[h + 1], sizes[h + 1], F[(h + 1) % 2], values[k, h + 1],
                tau, beta, tol, tie, mean_tie, law, gain, after, score, mean_of, F[h % 2], values[k, h], actions[k, h],
            )  # fmt: skip
        roots[k] = root_value(mu, F[0], points[0], sizes[0], tau, beta, tol)


@njit(cache=True)
def root_value(mu, F, x, n, tau, beta, tol):
    """Objective value of the law from the first state, drawn from mu."""
    mixed = np.zeros(F.shape[1])
    for s in range(mu.size):
        if mu[s] > 0.0:
            mixed += mu[s] * F[s]
    return objective(mixed, x, n, tau, beta, tol)
