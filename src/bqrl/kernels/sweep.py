"""One backward stage over (state, column): the loops under every planner.

Each loop is written for one state (or one row) and driven twice: plain, for small problems and worker processes, and
over threads. Both give the same bits.

Columns are needs (see mdp/lattice.py). A reward of u steps takes column i to column i + drop - u of the next stage,
clipped to its ends; on a set of returns a table does so. Arrays in, arrays out: no checks, no options, no randomness.
"""

import numpy as np
from numba import njit, prange

RUN = 16  # columns over which an extreme row is tested at once


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
def shifted_add(out, weight, source, shift):
    """out[c] += weight * source[clip(c + shift)]: the contribution of one outcome to a row."""
    last = source.size - 1
    begin, end = inside(out.size, last, shift)
    low, high = weight * source[0], weight * source[last]
    for c in range(begin):
        out[c] += low
    here, there = out[begin:end], source[begin + shift : end + shift]  # slices let the compiler use vectors
    for c in range(here.size):
        here[c] += weight * there[c]
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
    for c in range(value.size):  # no branches: ties and columns of every kind run on vectors
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
def move_row(order, probability, half, moved, taken):
    """Fill `moved` with the row that attains `l1_expectation`; returns the favoured outcome and the last that gave mass.

    taken[j] says that outcome j gave all it had. The moved row stays extreme in every column where the favoured outcome
    is still the least, no outcome that gave all lies below the last giver, and no other lies above it.
    """
    favoured = giver = order[0]
    left = min(half, 1.0 - probability[favoured])
    moved[:] = probability
    moved[favoured] += left
    taken[:] = False
    for j in range(order.size - 1, 0, -1):
        if left <= 0.0:
            break
        giver = order[j]
        given = min(probability[giver], left)
        left -= given
        moved[giver] -= given
        taken[giver] = True
    return favoured, giver


@njit(cache=True)
def extreme_until(values, first, favoured, giver, taken, broken):
    """The first column after `first` where the moved row of that column is extreme no more; looks broken.size ahead."""
    end = min(first + broken.size, values.shape[1])
    n = end - first
    least, edge = values[favoured, first:end], values[giver, first:end]
    broken[:n] = 0
    for j in range(values.shape[0]):
        here = values[j, first:end]
        if taken[j]:
            for c in range(n):
                broken[c] |= here[c] < edge[c]
        elif giver == favoured:  # nothing had to move
            for c in range(n):
                broken[c] |= here[c] < least[c]
        else:
            for c in range(n):
                broken[c] |= (here[c] < least[c]) | (here[c] > edge[c])
    for c in range(1, n):
        if broken[c]:
            return first + c
    return end


@njit(cache=True)
def l1_run_expectations(values, probability, half, sense, out):
    """out[c] = `l1_expectation` of values[:, c] for every column.

    Neighbouring columns mostly share their extreme row, so it is made once for a run of columns.
    """
    k, n = values.shape
    order, moved, taken = np.arange(k), np.empty(k), np.empty(k, np.bool_)
    broken = np.empty(RUN, np.int64)
    if sense < 0.0:
        values *= -1.0
    c = 0
    while c < n:
        sorted_by_value(order, values[:, c], 1.0)
        favoured, giver = move_row(order, probability, half, moved, taken)
        end = extreme_until(values, c, favoured, giver, taken, broken)
        total = out[c:end]
        total[:] = 0.0
        for j in range(k):
            shifted_add(total, moved[j], values[j, c:end], 0)
        c = end
    if sense < 0.0:
        out *= -1.0


@njit(cache=True)
def land_row(out, source, shift, jumps):
    """out[c] = source at the column where an outcome takes column c."""
    if jumps.size > 0:
        to = jumps[shift]
        for c in range(out.size):
            out[c] = source[to[c]]
    else:
        shifted(out, source, shift)


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
def sweep_state(
    s, row_start, successor, probability, shift, jumps, mean_reward, weight, half, sense,
    value_next, mean_next, tie, mean_tie, value, mean, action,
):  # fmt: skip
    """One state of one stage: value = min over actions of E[value_next], its mean and action beside it.

    shift[i] moves the columns of outcome i (with a set of returns: picks a row of `jumps`). `half` is half the l1 radius
    of every row, or empty; sense +1 lets the ball help (optimistic), -1 lets it hurt (robust). `weight` counts the mean
    reward into the value: value - weight * reward is minimised. With an empty `mean` values alone are made.
    """
    S, n = value.shape
    A = mean_reward.size // S
    row_value, row_mean = np.empty(n), np.empty(n if mean.size > 0 else 0)
    first = True
    for a in range(A):
        q = s * A + a
        begin, end = row_start[q], row_start[q + 1]
        if begin == end:
            continue
        if half.size > 0 and half[q] > 0.0 and end > begin + 1:
            landed = np.empty((end - begin, n))
            for i in range(begin, end):
                land_row(landed[i - begin], value_next[successor[i]], shift[i], jumps)
            l1_run_expectations(landed, probability[begin:end], half[q], sense, row_value)
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
def reduce_state(s, product, product_mean, shift, exists, mean_reward, weight, tie, mean_tie, value, mean, action):
    """One state after a matrix product: shift every row (s, a) by its reward, then the minimum over actions."""
    n = value.shape[1]
    A = exists.shape[1]
    last = product.shape[1] - 1
    row_value, row_mean = np.empty(n), np.empty(n)
    first = True
    for a in range(A):
        if not exists[s, a]:
            continue
        q = s * A + a
        move, r = shift[q], mean_reward[q]
        begin = min(max(-move, 0), n)
        end = max(min(n, last + 1 - move), begin)
        row_value[:begin], row_mean[:begin] = product[q, 0], product_mean[q, 0] + r
        for i in range(begin, end):
            row_value[i], row_mean[i] = product[q, i + move], product_mean[q, i + move] + r
        row_value[end:], row_mean[end:] = product[q, last], product_mean[q, last] + r
        if weight != 0.0:
            row_value -= weight * r
        keep_better(value[s], mean[s], action[s], row_value, row_mean, a, first, tie, mean_tie)
        first = False
    if first:
        value[s], mean[s], action[s] = 0.0, 0.0, 0


@njit(cache=True)
def reduce_rows(product, product_mean, shift, exists, mean_reward, weight, tie, mean_tie, value, mean, action):
    """`reduce_state` for every state."""
    for s in range(value.shape[0]):
        reduce_state(s, product, product_mean, shift, exists, mean_reward, weight, tie, mean_tie, value, mean, action)


@njit(cache=True, parallel=True)
def reduce_rows_threads(product, product_mean, shift, exists, mean_reward, weight, tie, mean_tie, value, mean, action):
    """`reduce_state` for every state, over threads."""
    for s in prange(value.shape[0]):
        reduce_state(s, product, product_mean, shift, exists, mean_reward, weight, tie, mean_tie, value, mean, action)


@njit(cache=True)
def reduce_values(product, shift, exists, value):
    """`reduce_rows` without actions and means: what the guarantee curve alone needs."""
    B, n = value.shape
    A = exists.shape[1]
    last = product.shape[1] - 1
    for s in range(B):
        value[s, :] = np.inf
        for a in range(A):
            if not exists[s, a]:
                continue
            q = s * A + a
            move = shift[q]
            begin = min(max(-move, 0), n)
            end = max(min(n, last + 1 - move), begin)
            low, high = product[q, 0], product[q, last]
            for i in range(begin):
                value[s, i] = min(value[s, i], low)
            for i in range(begin, end):
                value[s, i] = min(value[s, i], product[q, i + move])
            for i in range(end, n):
                value[s, i] = min(value[s, i], high)
        if value[s, 0] == np.inf:
            value[s, :] = 0.0


@njit(cache=True)
def l1_row(q, kernel, values, order, half, sense, product):
    """Dense row: replace product[q, c] = kernel[q] @ values[:, c] by its extreme over the l1 ball of the row.

    `order[:, c]` sorts the states by values[:, c], once for all rows. Only the mass that moves is walked, each row
    through its own support, which is where kernel[q] is not negative.
    """
    S = values.shape[0]
    row = kernel[q]
    for c in range(product.shape[1]):
        best = -1
        for j in range(S):
            s = order[j, c] if sense > 0 else order[S - 1 - j, c]
            if row[s] >= 0.0:
                best = s
                break
        left = min(half[q], 1.0 - row[best])
        total = product[q, c] + left * values[best, c]
        for j in range(S):
            if left <= 0.0:
                break
            s = order[S - 1 - j, c] if sense > 0 else order[j, c]
            if row[s] > 0.0 and s != best:
                taken = min(row[s], left)
                left -= taken
                total -= taken * values[s, c]
        product[q, c] = max(total, 0.0)


@njit(cache=True, parallel=True)
def l1_rows_threads(kernel, values, order, half, sense, product):
    """`l1_row` for every row with a radius, over threads."""
    for q in prange(product.shape[0]):
        if half[q] > 0.0:
            l1_row(q, kernel, values, order, half, sense, product)
