"""One backward stage over (state, column): the loops under every planner.

Each loop is written for one state (or one row) and driven twice: plain, for small problems and worker processes, and
over threads. Both give the same bits.

Columns are needs (see mdp/lattice.py). A reward of u steps takes column i to column i + drop - u of the next stage,
clipped to its ends; on a set of returns a table does so. Arrays in, arrays out: no checks, no options, no randomness.
"""

import numpy as np
from numba import njit, prange


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
def shifted_add(out, weight, source, shift):
    """out[i] += weight * source[clip(i + shift)]: the contribution of one outcome to a row."""
    n, last = out.size, source.size - 1
    begin = min(max(-shift, 0), n)
    end = max(min(n, last + 1 - shift), begin)
    low, high = weight * source[0], weight * source[last]
    for i in range(begin):
        out[i] += low
    for i in range(begin, end):
        out[i] += weight * source[i + shift]
    for i in range(end, n):
        out[i] += high


@njit(cache=True)
def keep_better(value, mean, action, row_value, row_mean, a, first, tie, mean_tie):
    """Per column: a smaller value wins; within `tie` (relative) the larger mean; then the lower action."""
    for i in range(value.size):
        v, m = row_value[i], row_mean[i]
        if first:
            value[i], mean[i], action[i] = v, m, a
            continue
        best = value[i]
        slack = tie * abs(best)
        if v < best - slack:
            value[i], mean[i], action[i] = v, m, a
        elif v <= best + slack:
            if m > mean[i] + mean_tie:
                mean[i], action[i] = m, a
            if v < best:
                value[i] = v


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
def sweep_state(
    s, row_start, successor, probability, shift, jumps, mean_reward, weight, half, sense,
    value_next, mean_next, tie, mean_tie, value, mean, action,
):  # fmt: skip
    """One state of one stage: value = min over actions of E[value_next], its mean and action beside it.

    shift[i] moves the columns of outcome i (with a set of returns: picks a row of `jumps`). `half` is half the l1 radius
    of every row, or empty; sense +1 lets the ball help (optimistic), -1 lets it hurt (robust). `weight` counts the mean
    reward into the value: value - weight * reward is minimised.
    """
    S, n = value.shape
    A = mean_reward.size // S
    by_table = jumps.size > 0
    row_value, row_mean = np.empty(n), np.empty(n)
    first = True
    for a in range(A):
        q = s * A + a
        begin, end = row_start[q], row_start[q + 1]
        if begin == end:
            continue
        row_mean[:] = mean_reward[q]
        for i in range(begin, end):
            if by_table:
                for c in range(n):
                    row_mean[c] += probability[i] * mean_next[successor[i], jumps[shift[i], c]]
            else:
                shifted_add(row_mean, probability[i], mean_next[successor[i]], shift[i])
        if half.size > 0 and half[q] > 0.0 and end > begin + 1:
            k = end - begin
            order, values = np.arange(k), np.empty(k)
            for c in range(n):
                for j in range(k):
                    i = begin + j
                    if by_table:
                        values[j] = value_next[successor[i], jumps[shift[i], c]]
                    else:
                        column = min(max(c + shift[i], 0), value_next.shape[1] - 1)
                        values[j] = value_next[successor[i], column]
                sorted_by_value(order, values, sense)
                row_value[c] = l1_expectation(order, values, probability[begin:end], half[q])
        else:
            row_value[:] = 0.0
            for i in range(begin, end):
                if by_table:
                    for c in range(n):
                        row_value[c] += probability[i] * value_next[successor[i], jumps[shift[i], c]]
                else:
                    shifted_add(row_value, probability[i], value_next[successor[i]], shift[i])
        if weight != 0.0:
            row_value -= weight * mean_reward[q]
        keep_better(value[s], mean[s], action[s], row_value, row_mean, a, first, tie, mean_tie)
        first = False
    if first:  # a state without actions is never met
        value[s], mean[s], action[s] = 0.0, 0.0, 0


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
