"""Loops for the search among rules without memory: what every action of a stage costs, and the cost that is left.

Columns are sums of rewards (see policies/forward.py), and an outcome moves a sum to a sum of the next stage. State s can have the
sums low[s] to high[s] - 1 only, so the loops skip all others.
"""

import numpy as np
from numba import njit, prange

from bqrl.loops.moves import inlined


@inlined
def cost_of_state(s, rows, moves, mass, other, after, low, high, out):
    """Fill out[0, s, a] with the sum over g of mass[s, g] E[after(s', g + r)] for every action, and out[1, s, a] for `other`."""
    A = out.shape[2]
    for a in range(A):
        q, first, second = s * A + a, 0.0, 0.0
        for i in range(rows.start[q], rows.start[q + 1]):
            p, t, shift = rows.probability[i], rows.successor[i], moves.shift[i - rows.start[0]]
            if p == 0.0:
                continue
            one, two = 0.0, 0.0
            for g in range(low[s], high[s]):
                j = moves.jumps[shift, g] if moves.jumps.size > 0 else g + shift
                w = after[t, j]
                one += mass[s, g] * w
                two += other[s, g] * w
            first += p * one
            second += p * two
        out[0, s, a], out[1, s, a] = first, second


@njit(cache=True)
def cost_rows(rows, moves, mass, other, after, low, high, out):
    """Run `cost_of_state` for every state."""
    for s in range(low.size):
        cost_of_state(s, rows, moves, mass, other, after, low, high, out)


@njit(cache=True, parallel=True)
def cost_rows_threads(rows, moves, mass, other, after, low, high, out):
    """Run `cost_of_state` over threads."""
    for s in prange(low.size):
        cost_of_state(s, rows, moves, mass, other, after, low, high, out)


@njit(cache=True)
def pull_back(rows, moves, action, after, low, high, now):
    """Fill now[s, g] with E[after(s', g + r)] under action[s], for the sums of each state; `now` must hold zeros."""
    A = (rows.start.size - 1) // low.size
    for s in range(low.size):
        q = s * A + action[s]
        for i in range(rows.start[q], rows.start[q + 1]):
            p, t, shift = rows.probability[i], rows.successor[i], moves.shift[i - rows.start[0]]
            if p == 0.0:
                continue
            for g in range(low[s], high[s]):
                j = moves.jumps[shift, g] if moves.jumps.size > 0 else g + shift
                now[s, g] += p * after[t, j]


@njit(cache=True)
def least(costs, tolerance, a, b):
    """Return whether column a of `costs` is smaller than column b: the first row that differs by its tolerance decides."""
    for k in range(tolerance.size):
        if abs(costs[k, a] - costs[k, b]) > tolerance[k]:
            return costs[k, a] < costs[k, b]
    return False


@njit(cache=True)
def monotone_choice(order, costs, allowed, tolerance, out):
    """Fill out[s] for the states in `order` with the actions of least total cost that never fall along the order.

    costs[k, s, a] are compared in the order of k, each with its tolerance. Return False if no such choice is allowed.
    """
    K, _, A = costs.shape
    n = order.size
    best, total = np.zeros((n + 1, A), np.int64), np.zeros((K, A))
    open_to = np.ones(A, np.bool_)
    for i in range(n):
        s, before, was = order[i], -1, total.copy()
        could = open_to.copy()
        for a in range(A):
            if could[a] and (before < 0 or least(was, tolerance, a, before)):
                before = a
            open_to[a] = before >= 0 and allowed[s, a]
            best[i, a] = before
            for k in range(K):
                total[k, a] = was[k, before] + costs[k, s, a] if open_to[a] else 0.0
    last = -1
    for a in range(A):
        if open_to[a] and (last < 0 or least(total, tolerance, a, last)):
            last = a
    if last < 0:
        return False
    for i in range(n - 1, -1, -1):
        out[order[i]] = last
        last = best[i, last]
    return True
