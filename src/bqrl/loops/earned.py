"""Passes over the pairs (state, earned so far) that can be met at each stage.

The moves of pair p are the outcomes of all rows of its state, in their order: the outcome i of stage arrays leads to pair
child[begin[p] + i - start[state[p] * A]] of the next stage. A row without outcomes belongs to an action that does not exist.
"""

import numpy as np
from numba import njit, prange


def _least_costs(first, end, state, begin, child, start, probability, A, after, out):
    """Fill out[p] with the least expected cost of pairs first to end - 1, for every column of `after` (pairs, targets)."""
    columns = after.shape[1]
    cost = np.empty(columns)
    for p in range(first, end):
        base = start[state[p] * A]
        out[p] = np.inf
        for row in range(state[p] * A, state[p] * A + A):
            if start[row] == start[row + 1]:
                continue
            cost[:] = 0.0
            for i in range(start[row], start[row + 1]):
                q, c = probability[i], child[begin[p] + i - base]
                for j in range(columns):
                    cost[j] += q * after[c, j]
            for j in range(columns):
                out[p, j] = min(out[p, j], cost[j])


least_costs_of = njit(cache=True)(_least_costs)


@njit(cache=True)
def least_costs(state, begin, child, start, probability, A, after, out):
    """Fill `out` with the least expected cost of every pair and target."""
    least_costs_of(0, state.size, state, begin, child, start, probability, A, after, out)


@njit(cache=True, parallel=True)
def least_costs_threads(state, begin, child, start, probability, A, after, out):
    """`least_costs` over threads."""
    blocks = 64
    for b in prange(blocks):
        first, end = b * state.size // blocks, (b + 1) * state.size // blocks
        least_costs_of(first, end, state, begin, child, start, probability, A, after, out)


@njit(cache=True)
def best_actions(state, begin, child, start, probability, reward, A, after, tie, mean_tie, out, action):
    """Fill out[p] with cost and mean of the best action of every pair: the least cost; among ties the largest mean.

    `after` holds cost and mean of the remaining return of every pair of the next stage; `reward` is discounted.
    """
    cost, mean = np.empty(A), np.empty(A)
    for p in range(state.size):
        base, least = start[state[p] * A], np.inf
        for a in range(A):
            row = state[p] * A + a
            cost[a] = mean[a] = 0.0
            if start[row] == start[row + 1]:
                cost[a] = np.inf
                continue
            for i in range(start[row], start[row + 1]):
                c = child[begin[p] + i - base]
                cost[a] += probability[i] * after[c, 0]
                mean[a] += probability[i] * (reward[i] + after[c, 1])
            least = min(least, cost[a])
        best = -1
        for a in range(A):
            if cost[a] <= least + tie * abs(least) and (best < 0 or mean[a] > mean[best] + mean_tie):
                best = a
        action[p], out[p, 0], out[p, 1] = best, cost[best], mean[best]


@njit(cache=True)
def find_totals(start, total, s, earned, slack, out):
    """Fill out[e] with the last entry of state s[e] whose total is at most earned[e], else its first; -1 if it has none."""
    for e in range(s.size):
        low, high = start[s[e]], start[s[e] + 1]
        out[e] = low if high > low else -1
        while high > low:
            middle = (low + high) // 2
            if total[middle] <= earned[e] + slack:
                out[e], low = middle, middle + 1
            else:
                high = middle
