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
    out[begin:end] = source[begin + shift : end + shift]
    out[end:] = source[last]


@njit(cache=True)
def scaled_add(out, weight, source):
    """out[c] += weight * source[c]."""
    for c in range(out.size):
        out[c] += weight * source[c]


@njit(cache=True)
def shifted_add(out, weight, source, shift):
    """out[c] += weight * source[clip(c + shift)]: the contribution of one outcome to a row."""
    last = source.size - 1
    begin, end = inside(out.size, last, shift)
    low, high = weight * source[0], weight * source[last]
    for c in range(begin):
        out[c] += low
    scaled_add(out[begin:end], weight, source[begin + shift : end + shift])
    for c in range(end, out.size):
        out[c] += high


@njit(cache=True)
def keep_less(value, row_value, first):
    """Per column the smaller value."""
    if first:
        value[:] = row_value
        return
    for c in range(value.size):
        value[c] = min(value[c], row_value[c])


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
def first_givers(order, probability, half, kept, side):
    """Take mass `half` from the last of `order` upwards; returns the last giver and what the others gave.

    kept[j] is what outcome j keeps; side[j] is -1 where it gave all, else +1.
    """
    kept[:], side[:] = probability, 1.0
    given, giver = 0.0, order[-1]
    for j in range(order.size - 1, -1, -1):
        giver = order[j]
        if j == 0 or given + probability[giver] >= half:
            break
        given += probability[giver]
        kept[giver], side[giver] = 0.0, -1.0
    kept[giver] = max(probability[giver] - (half - given), 0.0)
    return giver, given


@njit(cache=True)
def misplaced(values, c, edge, side):
    """An outcome that gave all though it lies below the last giver, or kept all though above it; -1 where there is none."""
    for j in range(side.size):
        if side[j] * (values[j, c] - edge) > 0.0:
            return j
    return -1


@njit(cache=True)
def l1_columns(values, probability, half, out):
    """out[c] = `l1_expectation` of values[:, c], small values favoured, for the columns of one row.

    Mass `half` goes from the largest values to the least (what it takes from the least itself comes back). Neighbouring
    columns mostly agree on who gives, so the givers are followed from column to column: an outcome on the wrong side of
    the last giver, which gives only in part, changes sides. Weights are constant between two changes, so each outcome is
    added for all columns since its last change at once. Every term is a product of nonnegative factors.
    """
    k, n = values.shape
    out[:] = values[0]
    for j in range(1, k):
        keep_less(out, values[j], False)
    out *= half
    kept, side, since = np.empty(k), np.empty(k), np.zeros(k, np.int64)
    giver, given = first_givers(np.argsort(values[:, 0]), probability, half, kept, side)
    for c in range(1, n):
        changes = 0
        while True:
            j = misplaced(values, c, values[giver, c], side)
            if j < 0:
                break
            changes += 1
            if changes > k:  # the columns have little in common: begin anew
                for i in range(k):
                    scaled_add(out[since[i] : c], kept[i], values[i, since[i] : c])
                since[:] = c
                giver, given = first_givers(np.argsort(values[:, c]), probability, half, kept, side)
                break
            last = giver
            if (
                side[j] < 0.0
            ):  # j takes its mass back; the last giver gives more, and all it has where j must stay partly
                given -= probability[j]
                side[j] = 1.0
                if given + probability[giver] < half:
                    given += probability[giver]
                    side[giver] = -1.0
                    giver = j
            elif given + probability[j] <= half:  # j gives all, the last giver less
                given += probability[j]
                side[j] = -1.0
            else:  # j gives in place of the last giver
                giver = j
            for i in (j, last):
                scaled_add(out[since[i] : c], kept[i], values[i, since[i] : c])
                since[i] = c
                kept[i] = 0.0 if side[i] < 0.0 else probability[i]
            kept[giver] = max(probability[giver] - (half - given), 0.0)
    for i in range(k):
        scaled_add(out[since[i] :], kept[i], values[i, since[i] :])


@njit(cache=True)
def add_expectation(out, begin, end, successor, probability, shift, jumps, source):
    """out[c] += E[source] over the outcomes begin .. end - 1 of a row."""
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
    """out[c] = the least (sense +1) or greatest (-1) E[source] over the l1 ball of a row, a chunk of columns at a time."""
    k = end - begin
    for first in range(0, out.size, CHUNK):
        n = min(CHUNK, out.size - first)
        landed = np.empty((k, n))  # source where each outcome takes each column
        for j in range(k):
            row, move = source[successor[begin + j]], shift[begin + j]
            if jumps.size > 0:
                to = jumps[move, first : first + n]
                for c in range(n):
                    landed[j, c] = row[to[c]]
            else:
                shifted(landed[j], row, first + move)
        if sense < 0.0:
            landed *= -1.0
        l1_columns(landed, probability[begin:end], half, out[first : first + n])
    if sense < 0.0:
        out *= -1.0


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
            row_value[:] = 0.0
            add_expectation(row_value, begin, end, successor, probability, shift, jumps, value_next)
        if weight != 0.0:
            row_value -= weight * mean_reward[q]
        if mean.size > 0:
            row_mean[:] = mean_reward[q]
            add_expectation(row_mean, begin, end, successor, probability, shift, jumps, mean_next)
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
