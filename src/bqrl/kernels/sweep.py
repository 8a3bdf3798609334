"""One backward stage over (state, column): the loops under every planner.

Each loop is written for one state (or one row) and driven twice: plain, for small problems and worker processes, and
over threads. Both give the same bits.

Columns are needs (see mdp/lattice.py), and rewards move them (see columns.py). Where a policy is made, the row of a state
holds the values of all columns and then their means: an outcome's two rows lie together in memory, which is what a sweep
waits for. Arrays in, arrays out: no checks, no options, no randomness.
"""

import numpy as np
from numba import njit, prange

from bqrl.kernels.columns import add_rows, inside, land, mean_of, one_shift, shifted, shifted_add
from bqrl.kernels.l1 import l1_columns

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
def forward_extremes(row_start, successor, reward, A, low, high, met):
    """Least and greatest sum with which each state can be met one stage later."""
    S = low.size
    low_next, high_next = np.zeros_like(low), np.zeros_like(high)
    seen = np.zeros(S, np.bool_)
    for s in range(S):
        if not met[s]:
            continue
        for i in range(row_start[s * A], row_start[(s + 1) * A]):
            t = successor[i]
            a, b = low[s] + reward[i], high[s] + reward[i]
            if not seen[t] or a < low_next[t]:
                low_next[t] = a
            if not seen[t] or b > high_next[t]:
                high_next[t] = b
            seen[t] = True
    return low_next, high_next


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
def expectation(out, begin, end, successor, probability, shift, jumps, source, origin, n_next):
    """out[c] = E[source] over the outcomes begin .. end - 1 of a row, each at the column where it takes column c.

    The columns of the next stage are `n_next` of source, from `origin` on.
    """
    together = one_shift(shift, begin, end)
    if together and jumps.size > 0:
        whole = np.zeros(n_next)
        add_rows(whole, 0, n_next, begin, end, successor, probability, source, origin)
        land(out, whole, shift[begin], jumps)
    elif together:
        first, last = inside(out.size, n_next - 1, shift[begin])
        if first == last:  # every column lands at the same end
            end_column = origin if first > 0 else origin + n_next - 1
            out[:] = mean_of(begin, end, successor, probability, source, end_column)
            return
        out[first:last] = 0.0
        start = origin + first + shift[begin]
        add_rows(out, first, last - first, begin, end, successor, probability, source, start)
        out[:first], out[last:] = out[first], out[last - 1]
    else:
        out[:] = 0.0
        for i in range(begin, end):
            p, s = probability[i], successor[i]
            if jumps.size > 0:
                for c in range(out.size):
                    out[c] += p * source[s, origin + jumps[shift[i], c]]
            else:
                shifted_add(out, p, source, s, origin, n_next, shift[i])


@njit(cache=True)
def extreme_expectation(out, begin, end, successor, probability, shift, jumps, source, n_next, half, sense):
    """`expectation` of the first `n_next` columns at its least (sense +1) or greatest (-1) over the l1 ball of the row."""
    p = probability[begin:end]
    if one_shift(shift, begin, end):
        whole = np.empty(n_next)
        l1_columns(source, successor[begin:end], p, half, sense, whole)
        land(out, whole, shift[begin], jumps)
        return
    rows = np.arange(end - begin).astype(successor.dtype)
    for first in range(0, out.size, CHUNK):
        n = min(CHUNK, out.size - first)
        landed = np.empty((end - begin, n))
        for i in range(begin, end):
            row = source[successor[i], :n_next]
            if jumps.size > 0:
                land(landed[i - begin], row, shift[i], jumps[:, first : first + n])
            else:
                land(landed[i - begin], row, shift[i] + first, jumps)
        l1_columns(landed, rows, p, half, sense, out[first : first + n])


@njit(cache=True)
def sweep_state(
    s, row_start, successor, probability, shift, jumps, mean_reward, weight, half, sense, after, tie, mean_tie, now, action,
):  # fmt: skip
    """One state of one stage: value = min over actions of the expected value after it, its mean and action beside it.

    shift[i] moves the columns of outcome i (with a set of returns: picks a row of `jumps`). `half` is half the l1 radius
    of every row, or empty; sense +1 lets the ball help (optimistic), -1 lets it hurt (robust). `weight` counts the mean
    reward into the value: value - weight * reward is minimised. `after` and `now` (S, columns) hold values of the next
    stage and of this one, and means behind them (S, 2 columns); with an empty `action` there are only values.
    """
    layers = 2 if action.size > 0 else 1
    n, n_next = now.shape[1] // layers, after.shape[1] // layers
    A = mean_reward.size // now.shape[0]
    value, mean = now[s, :n], now[s, n:]
    row_value, row_mean = np.empty(n), np.empty(n)
    first = True
    for a in range(A):
        q = s * A + a
        begin, end = row_start[q], row_start[q + 1]
        if begin == end:
            continue
        if half.size > 0 and half[q] > 0.0 and end > begin + 1:
            extreme_expectation(
                row_value, begin, end, successor, probability, shift, jumps, after, n_next, half[q], sense
            )  # fmt: skip
        else:
            expectation(row_value, begin, end, successor, probability, shift, jumps, after, 0, n_next)
        if weight != 0.0:
            row_value -= weight * mean_reward[q]
        if layers == 2:
            expectation(row_mean, begin, end, successor, probability, shift, jumps, after, n_next, n_next)
            row_mean += mean_reward[q]
            keep_better(value, mean, action[s], row_value, row_mean, a, first, tie, mean_tie)
        else:
            keep_less(value, row_value, first)
        first = False
    if first:  # a state without actions is never met
        now[s] = 0.0
        if layers == 2:
            action[s] = 0


@njit(cache=True)
def sweep_rows(
    row_start, successor, probability, shift, jumps, mean_reward, weight, half, sense, after, tie, mean_tie, now, action
):  # fmt: skip
    """`sweep_state` for every state."""
    for s in range(now.shape[0]):
        sweep_state(
            s, row_start, successor, probability, shift, jumps, mean_reward, weight, half, sense, after, tie, mean_tie,
            now, action,
        )  # fmt: skip


@njit(cache=True, parallel=True)
def sweep_rows_threads(
    row_start, successor, probability, shift, jumps, mean_reward, weight, half, sense, after, tie, mean_tie, now, action
):  # fmt: skip
    """`sweep_state` for every state, over threads."""
    for s in prange(now.shape[0]):
        sweep_state(
            s, row_start, successor, probability, shift, jumps, mean_reward, weight, half, sense, after, tie, mean_tie,
            now, action,
        )  # fmt: skip


@njit(cache=True)
def reduce_rows(product, shift, exists, mean_reward, weight, tie, mean_tie, now, action):
    """After a matrix product: shift every row (s, a) by its reward, then the minimum over actions, as in `sweep_state`.

    Not over threads: the product takes ten times as long, and its threads still hold the cores when this begins.
    """
    S, A = exists.shape
    layers = 2 if action.size > 0 else 1
    n, n_next = now.shape[1] // layers, product.shape[1] // layers
    row_value, row_mean = np.empty(n), np.empty(n)
    for s in range(S):
        value, mean = now[s, :n], now[s, n:]
        first = True
        for a in range(A):
            if not exists[s, a]:
                continue
            q = s * A + a
            shifted(row_value, product[q, :n_next], shift[q])
            if weight != 0.0:
                row_value -= weight * mean_reward[q]
            if layers == 2:
                shifted(row_mean, product[q, n_next:], shift[q])
                row_mean += mean_reward[q]
                keep_better(value, mean, action[s], row_value, row_mean, a, first, tie, mean_tie)
            else:
                keep_less(value, row_value, first)
            first = False
        if first:
            now[s] = 0.0
            if layers == 2:
                action[s] = 0
