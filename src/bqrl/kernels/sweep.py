"""One backward stage over (state, column): the loops under every planner.

Each loop is written for one state (or one row) and driven twice: plain, for small problems and worker processes, and
over threads. Both give the same bits.

Columns are needs (see mdp/lattice.py). A reward of u steps takes column i to column i + drop - u of the next stage,
clipped to its ends; on a set of returns a table does so. Arrays in, arrays out: no checks, no options, no randomness.
"""

import numpy as np
from numba import njit, prange

CHUNK = 256  # columns of a row whose extreme expectations are made at once: small enough to stay in cache


@njit(cache=True)
def extremes(row_start, successor, reward, A, low_next, high_next):
    """Least and greatest sum of rewards from each state, over actions and outcomes; 0 where there is no action."""
    S = low_next.size
    low, high = np.zeros_like(low_next), np.zeros_like(high_next)
    for s in range(S):
        first = True
        for i in range(row_start[s * A], row_start[(s + 1) * A]):
            a = reward[i] + low_next[successor[i]]
            b = reward[i] + high_next[successor[i]]
            if first or a < low[s]:
                low[s] = a
            if first or b > high[s]:
                high[s] = b
            first = False
    return low, high


@njit(cache=True)
def inside(n, last, shift):
    """The columns begin .. end - 1 of n whose landing c + shift lies within 0 .. last: nothing to clip there."""
    begin = min(max(-shift, 0), n)
    return begin, max(min(n, last + 1 - shift), begin)


@njit(cache=True)
def shifted(out, source, shift):
    """out[c] = source[clip(c + shift)]."""
    last = source.size - 1
    begin, end = inside(out.size, last, shift)
    out[:begin] = source[0]
    to, at = np.uint64(begin), np.uint64(max(begin + shift, 0))
    for c in range(np.uint64(end - begin)):
        out[to + c] = source[at + c]
    out[end:] = source[last]


@njit(cache=True)
def add_span(out, begin, end, weight, source, start):
    """out[c] += weight * source[c - begin + start] for c from begin to end - 1.

    Indices are unsigned in the innermost loops: those need no test for counting from the end, so they run on vectors.
    """
    if begin >= end:
        return
    to, at = np.uint64(begin), np.uint64(start)
    for c in range(np.uint64(end - begin)):
        out[to + c] += weight * source[at + c]


@njit(cache=True)
def shifted_add(out, weight, source, shift):
    """out[c] += weight * source[clip(c + shift)]: the contribution of one outcome to a row."""
    last = source.size - 1
    begin, end = inside(out.size, last, shift)
    low, high = weight * source[0], weight * source[last]
    for c in range(begin):
        out[c] += low
    add_span(out, begin, end, weight, source, begin + shift)
    for c in range(end, out.size):
        out[c] += high


@njit(cache=True)
def add_rows(out, begin, end, successor, probability, source):
    """out[c] += probability[i] * source[successor[i], c] over the outcomes begin .. end - 1, four rows at a time."""
    n, i = np.uint64(out.size), begin
    while i + 4 <= end:
        s, t = np.uint64(successor[i]), np.uint64(successor[i + 1])
        u, v = np.uint64(successor[i + 2]), np.uint64(successor[i + 3])
        p, q, r, w = probability[i], probability[i + 1], probability[i + 2], probability[i + 3]
        for c in range(n):
            out[c] = (((out[c] + p * source[s, c]) + q * source[t, c]) + r * source[u, c]) + w * source[v, c]
        i += 4
    while i < end:
        s, p = np.uint64(successor[i]), probability[i]
        for c in range(n):
            out[c] += p * source[s, c]
        i += 1


@njit(cache=True)
def keep_less(value, row_value, first):
    """Per column the smaller value."""
    if first:
        value[:] = row_value
        return
    for c in range(value.size):
        value[c] = min(value[c], row_value[c])


@njit(cache=True)
def keep_extreme(value, row_value, begin, end, sense):
    """For the columns begin .. end - 1 the smaller value (sense +1) or the larger (-1)."""
    first = np.uint64(begin)
    if sense > 0.0:
        for c in range(np.uint64(end - begin)):
            value[first + c] = min(value[first + c], row_value[first + c])
    else:
        for c in range(np.uint64(end - begin)):
            value[first + c] = max(value[first + c], row_value[first + c])


@njit(cache=True)
def keep_better(value, mean, action, row_value, row_mean, a, first, tie, mean_tie):
    """Per column: a smaller value wins; within `tie` (relative) the larger mean; then the lower action."""
    if first:
        value[:], mean[:], action[:] = row_value, row_mean, a
        return
    for c in range(value.size):  # without branches, so that it runs on vectors
        best, v, m = value[c], row_value[c], row_mean[c]
        slack = tie * abs(best)
        wins = (v < best - slack) | ((v <= best + slack) & (m > mean[c] + mean_tie))
        value[c] = min(v, best)
        mean[c] = m if wins else mean[c]
        action[c] = a if wins else action[c]


@njit(cache=True)
def sorted_by_value(order, values, sense):
    """Insertion sort of `order` by sense * values; nearly free when neighbouring columns agree."""
    for j in range(1, order.size):
        item = order[j]
        key = sense * values[item]
        k = j - 1
        while k >= 0 and sense * values[order[k]] > key:
            order[k + 1] = order[k]
            k -= 1
        order[k + 1] = item


@njit(cache=True)
def l1_expectation(order, values, probability, half):
    """Extreme expectation over an l1 ball of radius 2 * half around `probability`, within its support.

    `order` lists the support from the favoured outcome to the least favoured: mass min(half, 1 - p(favoured)) moves to
    the first, taken from the last upwards. Every term is a product of nonnegative factors for nonnegative values.
    """
    best = order[0]
    left = min(half, 1.0 - probability[best])
    total = (probability[best] + left) * values[best]
    for j in range(order.size - 1, 0, -1):
        item = order[j]
        p = probability[item]
        if left > 0.0:
            taken = min(p, left)
            left -= taken
            p -= taken
        total += p * values[item]
    return total


@njit(cache=True)
def first_givers(order, probability, half, sense, kept, side):
    """Take mass `half` from the last of `order` upwards; returns the last giver and what the others gave.

    kept[j] is what outcome j keeps; side[j] is -sense where it gave all, else sense.
    """
    kept[:], side[:] = probability, sense
    given, giver = 0.0, order[-1]
    for j in range(order.size - 1, -1, -1):
        giver = order[j]
        if j == 0 or given + probability[giver] >= half:
            break
        given += probability[giver]
        kept[giver], side[giver] = 0.0, -sense
    kept[giver] = max(probability[giver] - (half - given), 0.0)
    return giver, given


@njit(cache=True)
def misplaced(values, rows, c, edge, side, slack):
    """An outcome that gave all though favoured over the last giver, or kept all though behind it; -1 where none is."""
    column = np.uint64(c)
    for j in range(side.size):
        if side[j] * (values[np.uint64(rows[j]), column] - edge) > slack:
            return j
    return -1


@njit(cache=True)
def largest(values, rows, c, sign):
    """The largest sign * value of a column."""
    most, column = -np.inf, np.uint64(c)
    for j in range(rows.size):
        most = max(most, sign * values[np.uint64(rows[j]), column])
    return most


@njit(cache=True)
def where_apart(values, rows, n, slack):
    """First and last + 1 of the columns in which outcomes differ; values do not fall along a row, so bisection finds them.

    Before them all needs are safe from every outcome, behind them all are lost.
    """
    safe, lost = -largest(values, rows, 0, -1.0), largest(values, rows, n - 1, 1.0)
    begin, end = 0, n
    while begin < end:
        c = (begin + end) // 2
        if largest(values, rows, c, 1.0) <= safe + slack:
            begin = c + 1
        else:
            end = c
    low, end = begin, n
    while low < end:
        c = (low + end) // 2
        if -largest(values, rows, c, -1.0) < lost - slack:
            low = c + 1
        else:
            end = c
    return begin, end


@njit(cache=True)
def l1_columns(values, rows, probability, half, sense, out):
    """out[c] = `l1_expectation` of values[rows, c] for every column: the least (sense +1) or the greatest (-1).

    Mass `half` goes from the least favoured values to the most favoured (what it takes from that one comes back to it).
    Neighbouring columns mostly agree on who gives, so the givers are followed from column to column: an outcome on the
    wrong side of the last giver, which gives only in part, changes sides. Weights are constant between two changes, so
    each outcome is added for all columns since its last change at once. No term is negative for nonnegative values.
    Values closer than the rounding error of such sums count as equal: `rounding_error` in planners/sweep.py allows for it.
    """
    k = rows.size
    slack = (k + 2) * 2.0**-53 * max(largest(values, rows, out.size - 1, 1.0), largest(values, rows, 0, -1.0))
    begin, n = where_apart(values, rows, out.size, slack)
    out[:] = values[rows[0]]
    for j in range(1, k):
        keep_extreme(out, values[rows[j]], begin, n, sense)
    for c in range(begin, n):
        out[c] *= half
    kept, side, since = np.empty(k), np.empty(k), np.full(k, begin)
    giver, given = first_givers(np.arange(k), probability, half, sense, kept, side)
    for c in range(begin, n):
        changes = 0
        while True:
            j = misplaced(values, rows, c, values[rows[giver], c], side, slack)
            if j < 0:
                break
            changes += 1
            if changes > k:  # these columns have little in common: begin anew
                for i in range(k):
                    add_span(out, since[i], c, kept[i], values[rows[i]], since[i])
                since[:] = c
                order = np.argsort(sense * values[rows, c])
                giver, given = first_givers(order, probability, half, sense, kept, side)
                break
            last = giver
            if side[j] != sense:  # j takes its mass back, the last giver gives more; if that is all it has, j the rest
                given -= probability[j]
                side[j] = sense
                if given + probability[giver] < half:
                    given += probability[giver]
                    side[giver] = -sense
                    giver = j
            elif given + probability[j] <= half:  # j gives all, the last giver less
                given += probability[j]
                side[j] = -sense
            else:  # j gives in place of the last giver
                giver = j
            for i in (j, last):
                if kept[i] > 0.0:
                    add_span(out, since[i], c, kept[i], values[rows[i]], since[i])
                since[i] = c
                kept[i] = probability[i] if side[i] == sense else 0.0
            kept[giver] = max(probability[giver] - (half - given), 0.0)
    for i in range(k):
        if kept[i] > 0.0:
            add_span(out, since[i], n, kept[i], values[rows[i]], since[i])


@njit(cache=True)
def land(out, source, shift, jumps):
    """out[c] = source at the column where a reward takes column c."""
    if jumps.size > 0:
        to = jumps[shift]
        for c in range(out.size):
            out[c] = source[to[c]]
    else:
        shifted(out, source, shift)


@njit(cache=True)
def expectation(out, begin, end, successor, probability, shift, jumps, source):
    """out[c] = E[source] over the outcomes begin .. end - 1 of a row, each at the column where it takes column c."""
    if one_shift(shift, begin, end):  # then the row moves as a whole
        whole = np.zeros(source.shape[1])
        add_rows(whole, begin, end, successor, probability, source)
        land(out, whole, shift[begin], jumps)
        return
    out[:] = 0.0
    for i in range(begin, end):
        p, row = probability[i], source[successor[i]]
        if jumps.size > 0:
            to = jumps[shift[i]]
            for c in range(out.size):
                out[c] += p * row[to[c]]
        else:
            shifted_add(out, p, row, shift[i])


@njit(cache=True)
def extreme_expectation(out, begin, end, successor, probability, shift, jumps, source, half, sense):
    """`expectation` at its least (sense +1) or greatest (-1) over the l1 ball of the row."""
    p = probability[begin:end]
    if one_shift(shift, begin, end):
        whole = np.empty(source.shape[1])
        l1_columns(source, successor[begin:end], p, half, sense, whole)
        land(out, whole, shift[begin], jumps)
        return
    rows = np.arange(end - begin).astype(successor.dtype)
    for first in range(0, out.size, CHUNK):
        n = min(CHUNK, out.size - first)
        landed = np.empty((end - begin, n))
        for i in range(begin, end):
            if jumps.size > 0:
                land(landed[i - begin], source[successor[i]], shift[i], jumps[:, first : first + n])
            else:
                land(landed[i - begin], source[successor[i]], shift[i] + first, jumps)
        l1_columns(landed, rows, p, half, sense, out[first : first + n])


@njit(cache=True)
def one_shift(shift, begin, end):
    """Whether all outcomes of a row have the same reward."""
    for i in range(begin + 1, end):
        if shift[i] != shift[begin]:
            return False
    return True


@njit(cache=True)
def sweep_state(
    s, row_start, successor, probability, shift, jumps, mean_reward, weight, half, sense,
    value_next, mean_next, tie, mean_tie, value, mean, action,
):  # fmt: skip
    """One state of one stage: value = min over actions of E[value_next], its mean and action beside it.

    shift[i] moves the columns of outcome i (with a set of returns: picks a row of `jumps`). `half` is half the l1 radius
    of every row, or empty; sense +1 lets the ball help (optimistic), -1 lets it hurt (robust). `weight` counts the mean
    reward into the value: value - weight * reward is minimised. With an empty `mean` only values are made.
    """
    S, n = value.shape
    A = mean_reward.size // S
    row_value, row_mean = np.empty(n), np.empty(n)
    first = True
    for a in range(A):
        q = s * A + a
        begin, end = row_start[q], row_start[q + 1]
        if begin == end:
            continue
        if half.size > 0 and half[q] > 0.0 and end > begin + 1:
            extreme_expectation(
                row_value, begin, end, successor, probability, shift, jumps, value_next, half[q], sense
            )  # fmt: skip
        else:
            expectation(row_value, begin, end, successor, probability, shift, jumps, value_next)
        if weight != 0.0:
            row_value -= weight * mean_reward[q]
        if mean.size > 0:
            expectation(row_mean, begin, end, successor, probability, shift, jumps, mean_next)
            row_mean += mean_reward[q]
            keep_better(value[s], mean[s], action[s], row_value, row_mean, a, first, tie, mean_tie)
        else:
            keep_less(value[s], row_value, first)
        first = False
    if first:  # a state without actions is never met
        value[s] = 0.0
        if mean.size > 0:
            mean[s], action[s] = 0.0, 0


@njit(cache=True)
def sweep_rows(
    row_start, successor, probability, shift, jumps, mean_reward, weight, half, sense,
    value_next, mean_next, tie, mean_tie, value, mean, action,
):  # fmt: skip
    """`sweep_state` for every state."""
    for s in range(value.shape[0]):
        sweep_state(
            s, row_start, successor, probability, shift, jumps, mean_reward, weight, half, sense,
            value_next, mean_next, tie, mean_tie, value, mean, action,
        )  # fmt: skip


@njit(cache=True, parallel=True)
def sweep_rows_threads(
    row_start, successor, probability, shift, jumps, mean_reward, weight, half, sense,
    value_next, mean_next, tie, mean_tie, value, mean, action,
):  # fmt: skip
    """`sweep_state` for every state, over threads."""
    for s in prange(value.shape[0]):
        sweep_state(
            s, row_start, successor, probability, shift, jumps, mean_reward, weight, half, sense,
            value_next, mean_next, tie, mean_tie, value, mean, action,
        )  # fmt: skip


@njit(cache=True)
def reduce_rows(product, product_mean, shift, exists, mean_reward, weight, tie, mean_tie, value, mean, action):
    """After a matrix product: shift every row (s, a) by its reward, then the minimum over actions, as in `sweep_state`.

    Not over threads: the product takes ten times as long, and its threads still hold the cores when this begins.
    """
    S, n = value.shape
    A = exists.shape[1]
    row_value, row_mean = np.empty(n), np.empty(n)
    for s in range(S):
        first = True
        for a in range(A):
            if not exists[s, a]:
                continue
            q = s * A + a
            shifted(row_value, product[q], shift[q])
            if weight != 0.0:
                row_value -= weight * mean_reward[q]
            if mean.size > 0:
                shifted(row_mean, product_mean[q], shift[q])
                row_mean += mean_reward[q]
                keep_better(value[s], mean[s], action[s], row_value, row_mean, a, first, tie, mean_tie)
            else:
                keep_less(value[s], row_value, first)
            first = False
        if first:
            value[s] = 0.0
            if mean.size > 0:
                mean[s], action[s] = 0.0, 0


@njit(cache=True)
def l1_row(q, kernel, values, order, half, sense, product):
    """Dense row: replace product[q, c] = kernel[q] @ values[c] by its extreme over the l1 ball of the row.

    `values` (columns, S) has a column of needs in each row, and order[c] sorts the states by values[c], once for all rows.
    Only the mass that moves is walked, each row through its own support, which is where kernel[q] is not negative.
    """
    n, S = values.shape
    row = kernel[q]
    for c in range(n):
        best = 0 if sense > 0.0 else S - 1
        step = 1 if sense > 0.0 else -1
        while row[order[c, best]] < 0.0:
            best += step
        favoured = order[c, best]
        left = min(half[q], 1.0 - row[favoured])
        total = product[q, c] + left * values[c, favoured]
        j = S - 1 if sense > 0.0 else 0
        while left > 0.0 and j != best:
            s = order[c, j]
            if row[s] > 0.0:
                taken = min(row[s], left)
                left -= taken
                total -= taken * values[c, s]
            j -= step
        product[q, c] = max(total, 0.0)


@njit(cache=True, parallel=True)
def l1_rows_threads(kernel, values, order, half, sense, product):
    """`l1_row` for every row with a radius, over threads."""
    for q in prange(product.shape[0]):
        if half[q] > 0.0:
            l1_row(q, kernel, values, order, half, sense, product)
