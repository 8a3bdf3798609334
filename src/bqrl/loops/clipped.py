"""One stage of a sweep over needs that are cut at both ends, with a charge per row; see planners/affine.py."""

import numpy as np
from numba import njit


@njit(cache=True, nogil=True, error_model="numpy")
def mix_into(row, p, between, here, begin):
    """Add p times the values from place `begin` on, with probability `between` those one place before."""
    one, two = p * (1.0 - between), p * between
    if two > 0.0:
        for c in range(row.size):
            row[c] += one * here[begin + c] + two * here[begin + c - 1]
    else:
        for c in range(row.size):
            row[c] += one * here[begin + c]


@njit(cache=True, nogil=True, error_model="numpy")
def clipped_stage(outcomes, kinds, charge, A, after, margin, reach, value, action):
    """Write the value (S, C) and the action of every state and need.

    Need c of outcome i becomes c - shift[i], and with probability between[i] one step less. Rows of one kind have the same
    outcomes but for an amount that the row adds to each reward, so that an expectation is computed once per kind. Row s of
    `after` holds the value of state s with `margin` further columns on both sides, of which the rows need `reach`.
    """
    row_start, place, p, shift, between = outcomes
    kind, row_shift, row_between = kinds
    S, C = value.shape
    expected, row = np.zeros((row_start.size - 1, C + 2 * reach)), np.empty(C)
    for k in range(row_start.size - 1):
        for i in range(row_start[k], row_start[k + 1]):
            mix_into(expected[k], p[i], between[i], after[place[i]], margin - reach - shift[i])
    for s in range(S):
        best, chosen = value[s], action[s]
        for a in range(A):
            q = s * A + a
            row[:] = charge[q]
            mix_into(row, 1.0, row_between[q], expected[kind[q]], reach - row_shift[q])
            for c in range(C):
                if a == 0 or row[c] < best[c]:
                    best[c], chosen[c] = row[c], a
