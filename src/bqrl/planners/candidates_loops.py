"""Candidate kernels within the l1 balls around the rows of an empirical one (Algorithm 3)."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from bqrl.kernels.l1 import l1_moved


class Outcomes(NamedTuple):
    """Outcomes of all stored rows, their rewards, and which rows are known."""

    start: Any  # (rows + 1,)
    successor: Any  # (nnz,)
    reward: Any  # (1 or H, nnz)
    known: Any  # (rows,)
    discount: float
    per_stage: int  # rows of one stage


@njit(cache=True)
def favour(outcomes, q, retained, worth, out):
    """out[j] = reward of outcome j of row q plus retained value of its successor, summed over the stages of the row."""
    rows, begin, end = outcomes.start.size - 1, outcomes.start[q], outcomes.start[q + 1]
    first, last = 0, worth.size
    if rows > outcomes.per_stage:  # this row belongs to one stage
        first = q // outcomes.per_stage
        last = first + 1
    out[:] = 0.0
    for h in range(first, last):
        stage = h if outcomes.reward.shape[0] > 1 else 0
        row, after, origin = np.uint64(stage), np.uint64(h + 1), np.uint64(begin)
        for j in range(np.uint64(end - begin)):
            s_next = np.uint64(outcomes.successor[origin + j])
            out[j] += worth[h] * outcomes.reward[row, origin + j] + retained[after, s_next]


@njit(cache=True)
def rank(values, order):
    """Sort `order` by falling value, equal ones by rising index; fast if the order of the previous row nearly fits."""
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
def move_around(receiver, donor, begin, end, half, kernels, c):
    """`l1_moved` of the row begin .. end - 1 of kernels[c], in place, with donors in cyclic order.

    `receiver` takes mass; the others give it, from the `donor`-th after it on. Rows are given by their indices, since
    views would cost more than the step.
    """
    k, first = end - begin, np.uint64(begin)
    left = min(half, 1.0 - kernels[c, first + np.uint64(receiver)])
    kernels[c, first + np.uint64(receiver)] += left
    item = receiver + 1 + donor
    for _ in range(k - 1):
        if left <= 0.0:
            break
        item = item - k if item >= k else item
        if item == receiver:
            item = item + 1 if item + 1 < k else 0
        taken = min(kernels[c, first + np.uint64(item)], left)
        kernels[c, first + np.uint64(item)] -= taken
        left -= taken
        item += 1


@njit(cache=True)
def fill_candidates(outcomes, probability, half, retained, uniforms, out):
    """out[0] = the kernel itself, out[1] its directed perturbation, then one per block of uniforms (k, rows, 2)."""
    H, rows = retained.shape[0] - 1, outcomes.start.size - 1
    for c in range(out.shape[0]):
        out[c, :] = probability
    worth, ranking, values = outcomes.discount ** np.arange(H), np.arange(0), np.empty(0)
    for q in range(rows):
        begin, end = outcomes.start[q], outcomes.start[q + 1]
        k = end - begin
        if k < 2 or outcomes.known[q] or half[q] <= 0.0:
            continue
        if ranking.size != k:
            ranking, values = np.arange(k), np.empty(k)
        favour(outcomes, q, retained, worth, values)
        rank(values, ranking)
        l1_moved(ranking, probability[begin:end], half[q], out[1, begin:end])
        for c in range(uniforms.shape[0]):
            receiver = min(int(uniforms[c, q, 0] * k), k - 1)
            donor = min(int(uniforms[c, q, 1] * (k - 1)), k - 2)
            move_around(receiver, donor, begin, end, half[q], out, 2 + c)
