"""The innermost loops of every sweep, which shift, weight and add rows of columns.

A reward of u steps moves column i to column i + drop - u of the next stage, clipped to its ends. On a set of returns, a table
lists the column to which each column moves.
"""

import numpy as np
from numba import njit

# For loops that only other loops call; they compile faster without the wrappers for calls from Python.
inner = njit(cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True)  # type: ignore[call-overload]
# For loops over named groups of arrays; a call would count the references to each array of a group.
inlined = njit(cache=True, inline="always")
ZERO = np.int64(0)  # with a literal 0 as an argument, the callee would be compiled a second time


@njit(cache=True)
def columns_inside(n, last, shift):
    """Return the range begin .. end - 1 of those of n columns c for which c + shift lies within 0 .. last."""
    begin = min(max(-shift, 0), n)
    return begin, max(min(n, last + 1 - shift), begin)


@njit(cache=True)
def shift_into(out, source, shift, plus):
    """Fill out[c] with source[clip(c + shift)] + plus."""
    last = source.size - 1
    begin, end = columns_inside(out.size, last, shift)
    low, high = source[0] + plus, source[last] + plus
    for c in range(begin):
        out[c] = low
    to, at = np.uint64(begin), np.uint64(max(begin + shift, 0))
    for c in range(np.uint64(end - begin)):
        out[to + c] = source[at + c] + plus
    for c in range(end, out.size):
        out[c] = high


@inner
def fill(row, begin, end, value):
    """Fill the columns begin .. end - 1 of a row; Numba assigns to a slice more slowly."""
    for c in range(np.uint64(begin), np.uint64(end)):
        row[c] = value


@inner
def extend_edges(row, begin, end):
    """Fill the columns before `begin` of a row with that of column `begin`, and those from `end` on with the one before."""
    fill(row, ZERO, begin, row[begin])
    fill(row, end, row.size, row[end - 1])


@inner
def shift_row(out, j, source, row, n_next, shift):
    """Do the work of `shift_into` from source[row, :n_next] to out[j]."""
    begin, end = columns_inside(out.shape[1], n_next - 1, shift)
    r, to, first, at = np.uint64(row), np.uint64(j), np.uint64(begin), np.uint64(max(begin + shift, 0))
    low, high = source[r, np.uint64(0)], source[r, np.uint64(n_next - 1)]
    for c in range(first):
        out[to, c] = low
    for c in range(np.uint64(end - begin)):
        out[to, first + c] = source[r, at + c]
    for c in range(np.uint64(end), np.uint64(out.shape[1])):
        out[to, c] = high


@inner
def add_span(out, begin, end, weight, source, row, start):
    """Add weight * source[row, c - begin + start] to out[c] for c from begin to end - 1.

    Indices are unsigned in the innermost loops: without the check for negative indices the loops vectorise. Rows are given
    by their indices: a view of a row would count references, and threads would wait for each other.
    """
    if begin >= end:
        return
    r, to, at = np.uint64(row), np.uint64(begin), np.uint64(start)
    for c in range(np.uint64(end - begin)):
        out[to + c] += weight * source[r, at + c]


@inner
def put_span(out, begin, end, weight, source, row, start):
    """Fill out[c] with weight * source[row, c - begin + start] for c from begin to end - 1, as `add_span` does from 0."""
    r, to, at = np.uint64(row), np.uint64(begin), np.uint64(start)
    for c in range(np.uint64(end - begin)):
        out[to + c] = 0.0 + weight * source[r, at + c]  # not -0.0


@njit(cache=True)
def add_outcome(out, weight, source, row, origin, n_next, shift):
    """Add weight * source[row, origin + clip(c + shift)] to out[c], clipped to 0 .. n_next - 1, for one outcome of a row."""
    begin, end = columns_inside(out.size, n_next - 1, shift)
    low, high = weight * source[row, origin], weight * source[row, origin + n_next - 1]
    for c in range(begin):
        out[c] += low
    add_span(out, begin, end, weight, source, row, origin + begin + shift)
    for c in range(end, out.size):
        out[c] += high


@inner
def next_possible(probability, i, end):
    """Return the first outcome from i on that has a positive probability, or `end`."""
    while i < end and probability[i] == 0.0:
        i += 1
    return i


@njit(cache=True)
def add_rows(out, first, count, begin, end, rows, source, start):
    """Call `add_span` for the outcomes begin .. end - 1, four at a time, so that their rows are loaded together.

    Outcomes of probability zero are skipped: the empirical kernels of learners have many.
    """
    successor, probability = rows.successor, rows.probability
    n, to, at = np.uint64(count), np.uint64(first), np.uint64(start)
    i = next_possible(probability, begin, end)
    while i < end:
        j = next_possible(probability, i + 1, end)
        k = next_possible(probability, j + 1, end) if j < end else end
        m = next_possible(probability, k + 1, end) if k < end else end
        if j == end:
            add_span(out, first, first + count, probability[i], source, successor[i], start)
            return
        s, t, p, q = np.uint64(successor[i]), np.uint64(successor[j]), probability[i], probability[j]
        if m == end:
            for c in range(n):
                out[to + c] = (out[to + c] + p * source[s, at + c]) + q * source[t, at + c]
            if k < end:
                add_span(out, first, first + count, probability[k], source, successor[k], start)
            return
        u, v, r, w = np.uint64(successor[k]), np.uint64(successor[m]), probability[k], probability[m]
        for c in range(n):
            total = (out[to + c] + p * source[s, at + c]) + q * source[t, at + c]
            out[to + c] = (total + r * source[u, at + c]) + w * source[v, at + c]
        i = next_possible(probability, m + 1, end)


@inner
def mean_of(begin, end, rows, source, c):
    """Return E[source] in column c."""
    total = 0.0
    for i in range(begin, end):
        total += rows.probability[i] * source[rows.successor[i], c]
    return total


@njit(cache=True)
def move_columns(out, source, shift, jumps):
    """Fill out[c] with `source` at the column to which a reward moves column c."""
    if jumps.size > 0:
        to = jumps[shift]
        for c in range(out.size):
            out[c] = source[to[c]]
    else:
        shift_into(out, source, shift, 0.0)


@njit(cache=True)
def one_shift(shift, begin, end):
    """Return whether all outcomes of a row have the same shift."""
    for i in range(begin + 1, end):
        if shift[i] != shift[begin]:
            return False
    return True
