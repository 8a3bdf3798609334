"""Kernels within the l1 balls around the rows of an empirical one."""

import numpy as np
from numba import njit

from bqrl.kernels.l1 import l1_moved, l1_moved_around


@njit(cache=True)
def favour(begin, end, first, last, successor, reward, worth, retained, out):
    """out[j] = reward of outcome j plus retained value of its successor, added up over the stages first .. last - 1."""
    out[:] = 0.0
    for h in range(first, last):
        stage = h if reward.shape[0] > 1 else 0
        row, after, origin = np.uint64(stage), np.uint64(h + 1), np.uint64(begin)
        for j in range(np.uint64(end - begin)):
            out[j] += worth[h] * reward[row, origin + j] + retained[after, np.uint64(successor[origin + j])]


@njit(cache=True)
def rank(values, order):
    """Sort `order` by falling value, equal ones by rising index; quick where the order of the row before fits or nearly."""
    wrong = 0
    for j in range(1, order.size):
        before, after = np.uint64(order[j - 1]), np.uint64(order[j])
        wrong += (values[before] < values[after]) | ((values[before] == values[after]) & (before > after))
    if wrong == 0:
        return
    for j in range(1, order.size):
        item, k = order[j], j - 1
        while k >= 0 and (values[order[k]] < values[item] or (values[order[k]] == values[item] and order[k] > item)):
            order[k + 1] = order[k]
            k -= 1
        order[k + 1] = item


@njit(cache=True)
def fill_candidates(
    row_start, successor, reward, discount, per_stage, known, probability, half, retained, uniforms, out
):
    """out[0] = the kernel itself, out[1] its directed perturbation, then one for every block of uniforms (k, rows, 2)."""
    H, rows = retained.shape[0] - 1, row_start.size - 1
    for c in range(out.shape[0]):
        for i in range(probability.size):
            out[c, i] = probability[i]
    worth, ranking, values = discount ** np.arange(H), np.arange(0), np.empty(0)
    for q in range(rows):
        begin, end = row_start[q], row_start[q + 1]
        k = end - begin
        if k < 2 or known[q] or half[q] <= 0.0:
            continue
        if ranking.size != k:
            ranking, values = np.arange(k), np.empty(k)
        first, last = 0, H
        if rows > per_stage:  # this row belongs to one stage
            first = q // per_stage
            last = first + 1
        favour(begin, end, first, last, successor, reward, worth, retained, values)
        rank(values, ranking)
        l1_moved(ranking, probability[begin:end], half[q], out[1, begin:end])
        for c in range(uniforms.shape[0]):
            receiver = min(int(uniforms[c, q, 0] * k), k - 1)
            donor = min(int(uniforms[c, q, 1] * (k - 1)), k - 2)
            l1_moved_around(receiver, donor, begin, end, half[q], out, 2 + c)
