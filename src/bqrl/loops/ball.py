"""A fixed policy under kernels within l1 balls: occupancies, improvement of rows, worst cases."""

import numpy as np
from numba import njit, prange

from bqrl.loops.backward import ball_end, column_after
from bqrl.loops.l1 import l1_expectation, move_mass, sort_by_value
from bqrl.loops.layout import Stages


@njit(cache=True)
def push_needs(rows, moves, action, mass, out):
    """Add probability * mass[s, column] to out[s', column'] under action[s, column]."""
    S, n = mass.shape
    A, n_next = (rows.start.size - 1) // S, out.shape[1]
    for s in range(S):
        for c in range(n):
            if mass[s, c] > 0.0:
                q = s * A + action[s, c]
                for i in range(rows.start[q], rows.start[q + 1]):
                    out[rows.successor[i], column_after(c, i, moves, n_next)] += rows.probability[i] * mass[s, c]


@njit(cache=True)
def push_optimistic(group, sums, probability, half, values, tables, target, work):
    """Return the law of the return under a sweep's policy and the kernel of the ball that attains the sweep's value.

    This is `push_stages` with one difference: the row played at a need is moved within its ball to minimise the expectation of
    the values after it; a row whose values are all equal is not changed. `half` (H*S*A,) holds half the radius of every row,
    `values` the values of the stages 0 to H, one after the other. `sums`, `tables` and `work` are as in `push_stages`.
    """
    stages, (lowest, count, rise), (flat, begin) = Stages(*group), sums, tables
    H, S, rows = stages.size.size - 1, stages.mu.size, stages.mu.size * stages.A
    extra = (begin[1] - begin[0]) // S - stages.size[0]
    longest = 0
    for q in range(stages.start.size - 1):
        longest = max(longest, stages.start[q + 1] - stages.start[q])
    places, reached, moved = np.empty(longest, np.int64), np.empty(longest), np.empty(longest)
    order = places[:0]
    work[0] = 0.0
    for s in range(S):
        work[0, s, 0] = stages.mu[s]
    for h in range(H):
        here, after = work[h % 2], work[1 - h % 2]
        after[:, : count[h + 1]] = 0.0
        base = 0 if stages.start.size - 1 == rows else h * rows
        first, columns, n_next = stages.start[base], stages.size[h] + extra, stages.size[h + 1] + extra
        highest = target - lowest[h] - stages.lowest[h]  # column of the sum 0
        for s in range(S):
            for g in range(count[h]):
                if here[s, g] == 0.0:
                    continue
                c = min(max(highest - g, 0), columns - 1)
                a = flat[begin[h] + s * columns + c]
                q = s * stages.A + a
                i, end = stages.start[base + q], stages.start[base + q + 1]
                least, most = np.inf, -np.inf
                if half[h * rows + q] > 0.0:
                    for j in range(end - i):
                        to = min(max(c + stages.shift[h, i + j - first], 0), n_next - 1)
                        reached[j] = values[begin[h + 1] + stages.successor[i + j] * n_next + to]
                        least, most = min(least, reached[j]), max(most, reached[j])
                if least < most:
                    if order.size != end - i:  # otherwise sorting starts from the order of the last row
                        order = places[: end - i]
                        for j in range(order.size):
                            order[j] = j
                    sort_by_value(order, reached, 1.0)
                    move_mass(order, probability[i:end], half[h * rows + q], moved[: order.size])
                for j in range(end - i):
                    p = moved[j] if least < most else probability[i + j]
                    after[stages.successor[i + j], g + rise[h, i + j - first]] += here[s, g] * p
    law, first = np.zeros(stages.size[0]), lowest[H] - stages.lowest[0]
    for s in range(S):
        for g in range(count[H]):
            law[first + g] += work[H % 2, s, g]
    return law


@njit(cache=True)
def possible_sums(group, sums, work):
    """Return which points of stage 0 are possible returns, for any policy and any kernel with the same outcomes.

    `sums` and `work` are as in `push_optimistic`; work[., s, g] is 1 if state s can be reached with the sum g.
    """
    stages, (lowest, count, rise) = Stages(*group), sums
    H, S, rows = stages.size.size - 1, stages.mu.size, stages.mu.size * stages.A
    work[0] = 0.0
    for s in range(S):
        work[0, s, 0] = 1.0 if stages.mu[s] > 0.0 else 0.0
    for h in range(H):
        here, after = work[h % 2], work[1 - h % 2]
        after[:, : count[h + 1]] = 0.0
        base = 0 if stages.start.size - 1 == rows else h * rows
        for s in range(S):
            for i in range(stages.start[base + s * stages.A], stages.start[base + (s + 1) * stages.A]):
                for g in range(count[h]):
                    if here[s, g] > 0.0:
                        after[stages.successor[i], g + rise[h, i - stages.start[base]]] = 1.0
    possible, first = np.zeros(stages.size[0], np.bool_), lowest[H] - stages.lowest[0]
    for s in range(S):
        for g in range(count[H]):
            if work[H % 2, s, g] > 0.0:
                possible[first + g] = True
    return possible


@njit(cache=True)
def improve_rows(rows, half, moves, action, mass, value_next, out):
    """Fill `out` with the rows of one stage, each moved within its l1 ball to lower the expected value of the policy.

    The expected value is linear in the rows of one stage. The coefficient of outcome i of a row is the sum of value_next,
    weighted by `mass`, over the columns in which the row is played. Rows that are never played are not changed.
    """
    S, n = mass.shape
    A, n_next = (rows.start.size - 1) // S, value_next.shape[1]
    for i in range(out.size):
        out[i] = rows.probability[i]
    for q in range(S * A):
        s, a, begin, end = q // A, q % A, rows.start[q], rows.start[q + 1]
        if half[q] <= 0.0 or end - begin < 2:
            continue
        weighted = np.zeros(end - begin)
        played = False
        for c in range(n):
            if mass[s, c] > 0.0 and action[s, c] == a:
                played = True
                for i in range(begin, end):
                    weighted[i - begin] += mass[s, c] * value_next[rows.successor[i], column_after(c, i, moves, n_next)]
        if played:
            order = np.argsort(weighted, kind="mergesort")
            move_mass(order, rows.probability[begin:end], half[q], out[begin:end])


@njit(cache=True)
def follow(rows, moves, action, value_next, value):
    """Fill value[s, c] with E[value_next] under action[s, c]: one stage of a fixed policy."""
    S, n = value.shape
    A, n_next = (rows.start.size - 1) // S, value_next.shape[1]
    for s in range(S):
        for c in range(n):
            q = s * A + action[s, c]
            total = 0.0
            for i in range(rows.start[q], rows.start[q + 1]):
                total += rows.probability[i] * value_next[rows.successor[i], column_after(c, i, moves, n_next)]
            value[s, c] = total


@njit(cache=True)
def robust_stage(rows, ball, moves, action, column, value_next, value):
    """Fill value[s, g, :] with the worst expected cost of a fixed policy over the l1 ball, from value_next[s', g', :].

    g runs over the sums collected so far; `moves` leads from g to g'. Sums that cannot occur in a state have no effect.
    """
    for s in range(value.shape[0]):
        _robust_state(s, rows, ball, moves, action, column, value_next, value)


@njit(cache=True, parallel=True)
def robust_stage_threads(rows, ball, moves, action, column, value_next, value):
    """Run `robust_stage` over threads."""
    for s in prange(value.shape[0]):
        _robust_state(s, rows, ball, moves, action, column, value_next, value)


@njit(cache=True)
def _robust_state(s, rows, ball, moves, action, column, value_next, value):
    """Fill value[s] of `robust_stage`."""
    S, n, widths = value.shape
    A, n_next = (rows.start.size - 1) // S, value_next.shape[1]
    longest = 0
    for q in range(s * A, s * A + A):
        longest = max(longest, rows.start[q + 1] - rows.start[q])
    places, reached, previous = np.empty(longest, np.int64), np.empty(longest), -1
    order = places[:0]
    for g in range(n):
        q = s * A + action[s, column[g]]
        begin, end = rows.start[q], rows.start[q + 1]
        k = ball_end(q, rows, ball) - begin
        if end == begin:
            value[s, g] = 0.0
            continue
        if q != previous:  # otherwise sorting starts from the order of the last sum
            order, previous = places[:k], q
            for j in range(k):
                order[j] = j
        for d in range(widths):
            least, most = np.inf, -np.inf
            for j in range(k):
                place = min(column_after(g, begin + j, moves, n_next), n_next - 1)
                reached[j] = value_next[rows.successor[begin + j], place, d]
                least, most = min(least, reached[j]), max(most, reached[j])
            worst = most
            if least < most:  # otherwise moving mass changes nothing
                sort_by_value(order, reached, -1.0)
                worst = l1_expectation(order, reached, rows.probability[begin : begin + k], ball.half[q])
            if begin + k < end:
                place = min(column_after(g, end - 1, moves, n_next), n_next - 1)
                worst += ball.missing[q] * max(value_next[rows.successor[end - 1], place, d] - most, 0.0)
            value[s, g, d] = worst


@njit(cache=True)
def worst_rows(start, probability, half, missing, values, out):
    """Fill `out` with the law of every row whose expectation of increasing functions of `values` is smallest over its ball.

    Where `missing` is positive, the last outcome of the row is not part of the ball and takes this mass from the lowest other.
    """
    longest = 0
    for q in range(start.size - 1):
        longest = max(longest, start[q + 1] - start[q])
    places = np.empty(longest, np.int64)
    for q in range(start.size - 1):
        begin, end = start[q], start[q + 1]
        for i in range(begin, end):
            out[i] = probability[i]
        k = end - begin - 1 if missing[q] > 0.0 else end - begin
        if half[q] <= 0.0 or k < 1:
            continue
        order = places[:k]
        for j in range(k):
            order[j] = j
        sort_by_value(order, values[begin : begin + k], 1.0)
        move_mass(order, probability[begin : begin + k], half[q], out[begin : begin + k])
        lowest = begin + order[0]
        if missing[q] > 0.0 and values[end - 1] < values[lowest]:
            moved = min(missing[q], out[lowest])
            out[lowest] -= moved
            out[end - 1] += moved
