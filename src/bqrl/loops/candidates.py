"""Candidate kernels within the l1 balls around the rows of an empirical kernel (Algorithm 3)."""

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from bqrl.loops.l1 import move_mass, move_mass_around, sort_by_value


class Outcomes(NamedTuple):
    """The outcomes of all stored rows, their rewards, and which rows are known."""

    start: Any  # (rows + 1,)
    successor: Any  # (nnz,)
    reward: Any  # (1 or H, nnz)
    known: Any  # (rows,)
    discount: float
    per_stage: int  # number of rows of one stage


@njit(cache=True)
def sum_preferences(outcomes, q, retained, worth, out):
    """Fill out[j] with reward plus retained value of the successor of outcome j of row q, summed over the row's stages."""
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
def fill_candidates(outcomes, probability, half, retained, uniforms, out):
    """Fill out[0] with the kernel, out[1] with the directed kernel, the rest with random ones from `uniforms` (k, rows, 2)."""
    H, rows = retained.shape[0] - 1, outcomes.start.size - 1
    for c in range(out.shape[0]):
        for i in range(probability.size):
            out[c, i] = probability[i]
    worth, ranking, values = outcomes.discount ** np.arange(H), np.arange(0), np.empty(0)
    for q in range(rows):
        begin, end = outcomes.start[q], outcomes.start[q + 1]
        k = end - begin
        if k < 2 or outcomes.known[q] or half[q] <= 0.0:
            continue
        if ranking.size != k:
            ranking, values = np.arange(k), np.empty(k)
        sum_preferences(outcomes, q, retained, worth, values)
        sort_by_value(ranking, values, -1.0)
        move_mass(ranking, probability[begin:end], half[q], out[1, begin:end])
        for c in range(uniforms.shape[0]):
            receiver = min(int(uniforms[c, q, 0] * k), k - 1)
            donor = min(int(uniforms[c, q, 1] * (k - 1)), k - 2)
            move_mass_around(receiver, donor, begin, end, half[q], out, 2 + c)
