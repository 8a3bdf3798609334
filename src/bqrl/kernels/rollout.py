"""Episodes driven by uniforms that the caller drew, and the forward pass of a return law."""

import numpy as np
from numba import njit, prange


@njit(cache=True)
def draw_outcomes(row_start, probability, row, u, outcome):
    """Outcome of each row by inverse CDF over its stored order; one uniform an episode."""
    for e in range(row.size):
        i, last = row_start[row[e]], row_start[row[e] + 1] - 1
        mass = probability[i]
        while i < last and u[e] >= mass:
            i += 1
            mass += probability[i]
        while probability[i] == 0.0 and i > row_start[row[e]]:  # rounding must not end in a support-only outcome
            i -= 1
        outcome[e] = i


@njit(cache=True)
def next_run(s, g, action, column, mass):
    """The first column from g on with mass, and the end of the run of columns that play the same action there."""
    n = mass.shape[1]
    while g < n and mass[s, g] == 0.0:
        g += 1
    if action.shape[1] == 1 or g == n:
        return g, n
    a = action[s, column[g]]
    end = g + 1
    while end < n and action[s, column[end]] == a:
        end += 1
    return g, end


@njit(cache=True)
def push_mass(row_start, successor, probability, gain, landings, A, action, column, mass, out, lo, hi):
    """out[s_next, g + gain] += probability * mass[s, g] under action[s, column[g]], for columns lo .. hi of `out`.

    A run of columns with the same action moves as a whole. With a set of returns landings[gain, g] says where column g
    lands.
    """
    S, n = mass.shape
    by_table = landings.size > 0
    for s in range(S):
        g, end = next_run(s, 0, action, column, mass)
        while g < n:
            q = s * A + action[s, column[g]]
            for i in range(row_start[q], row_start[q + 1]):
                p, row = probability[i], out[successor[i]]
                if by_table:
                    for c in range(g, end):
                        j = landings[gain[i], c]
                        if lo <= j < hi:
                            row[j] += p * mass[s, c]
                else:
                    begin = max(g, lo - gain[i])
                    stop = max(min(end, hi - gain[i]), begin)
                    here, there = mass[s, begin:stop], row[begin + gain[i] : stop + gain[i]]
                    for c in range(here.size):  # slices, so that the loop runs on vectors
                        there[c] += p * here[c]
            g, end = next_run(s, end, action, column, mass)


@njit(cache=True, parallel=True)
def push_mass_threads(row_start, successor, probability, gain, landings, A, action, column, mass, out, blocks):
    """The same over threads: each block owns a range of columns, so the sums come in one order whatever their number."""
    width = (out.shape[1] + blocks - 1) // blocks
    for b in prange(blocks):
        lo, hi = b * width, min(out.shape[1], (b + 1) * width)
        push_mass(row_start, successor, probability, gain, landings, A, action, column, mass, out, lo, hi)


@njit(cache=True)
def spread_rows(first, mass, action, column, gain, A, n_next):
    """The rows (s, a) played with some mass, and that mass by the sum after their reward; states count from `first`."""
    S, n = mass.shape
    place = np.full((S, A), -1)
    played = 0
    for s in range(S):
        g, end = next_run(s, 0, action, column, mass)
        while g < n:
            a = action[s, column[g]]
            if place[s, a] < 0:
                place[s, a] = played
                played += 1
            g, end = next_run(s, end, action, column, mass)
    rows, spread = np.empty(played, np.int64), np.zeros((played, n_next))
    for s in range(S):
        g, end = next_run(s, 0, action, column, mass)
        while g < n:
            a = action[s, column[g]]
            q = (first + s) * A + a
            rows[place[s, a]] = q
            stop = min(end, n_next - gain[q])  # beyond it this state has no mass
            spread[place[s, a], g + gain[q] : stop + gain[q]] = mass[s, g:stop]
            g, end = next_run(s, end, action, column, mass)
    return rows, spread
