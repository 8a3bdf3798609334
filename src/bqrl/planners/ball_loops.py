"""A fixed policy and a kernel that may move within l1 balls: occupancy, row steps, worst cases."""

import numpy as np
from numba import njit, prange

from bqrl.kernels.l1 import l1_expectation, l1_moved, sorted_by_value


@njit(cache=True)
def land(c, shift, jumps, last):
    """Column of the next stage after an outcome from column c."""
    if jumps.size > 0:
        return jumps[shift, c]
    return min(max(c + shift, 0), last)


@njit(cache=True)
def push_needs(row_start, successor, probability, shift, jumps, A, action, mass, out):
    """out[s', column'] += probability * mass[s, column] under action[s, column]."""
    S, n = mass.shape
    last = out.shape[1] - 1
    for s in range(S):
        for c in range(n):
            if mass[s, c] > 0.0:
                q = s * A + action[s, c]
                for i in range(row_start[q], row_start[q + 1]):
                    out[successor[i], land(c, shift[i], jumps, last)] += probability[i] * mass[s, c]


@njit(cache=True)
def improve_rows(row_start, successor, probability, half, shift, jumps, A, action, mass, value_next, out):
    """Rows of one stage, each moved within its l1 ball so as to lower the expected value under the policy.

    The expectation is linear in the rows of one stage: outcome i of a row counts value_next averaged over the columns in
    which the row is played, weighted by `mass`. Rows that are never played stay.
    """
    S, n = mass.shape
    last = value_next.shape[1] - 1
    for i in range(out.size):
        out[i] = probability[i]
    for s in range(S):
        for a in range(A):
            begin, end = row_start[s * A + a], row_start[s * A + a + 1]
            if half[s * A + a] <= 0.0 or end - begin < 2:
                continue
            weighted = np.zeros(end - begin)
            played = False
            for c in range(n):
                if mass[s, c] > 0.0 and action[s, c] == a:
                    played = True
                    for i in range(begin, end):
                        weighted[i - begin] += mass[s, c] * value_next[successor[i], land(c, shift[i], jumps, last)]
            if played:
                order = np.argsort(weighted, kind="mergesort")
                l1_moved(order, probability[begin:end], half[s * A + a], out[begin:end])


@njit(cache=True)
def follow(row_start, successor, probability, shift, jumps, A, action, value_next, value):
    """value[s, c] = E[value_next] under action[s, c]: one stage of a fixed policy."""
    S, n = value.shape
    last = value_next.shape[1] - 1
    for s in range(S):
        for c in range(n):
            q = s * A + action[s, c]
            total = 0.0
            for i in range(row_start[q], row_start[q + 1]):
                total += probability[i] * value_next[successor[i], land(c, shift[i], jumps, last)]
            value[s, c] = total


@njit(cache=True, parallel=True)
def robust_stage(row_start, successor, probability, half, gain, A, action, column, value_next, value):
    """Worst expected cost of a fixed policy over the l1 ball: value[s, g, :] from value_next[s', g + gain, :].

    g runs over the sums collected so far; a sum that a state cannot have is clipped and never counts.
    """
    S, n, widths = value.shape
    for s in prange(S):
        for g in range(n):
            q = s * A + action[s, column[g]]
            begin, end = row_start[q], row_start[q + 1]
            k = end - begin
            order, values = np.arange(k), np.empty(k)
            value[s, g] = 0.0
            if k == 0:
                continue
            for d in range(widths):
                for j in range(k):
                    i = begin + j
                    place = min(max(g + gain[i], 0), value_next.shape[1] - 1)
                    values[j] = value_next[successor[i], place, d]
                sorted_by_value(order, values, -1.0)
                value[s, g, d] = l1_expectation(order, values, probability[begin:end], half[q])
