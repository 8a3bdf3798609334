"""The target sweep of a learner: all stages in one call, because it runs before every episode.

The recursion is that of `sweep.sweep_state`. Where rewards belong to rows, all outcomes of a row look at one column of the
next stage, so one order of the states per column serves every row of the stage, and a row walks only as far down that
order as its ball lets mass move.
"""

import numpy as np
from numba import njit

from bqrl.kernels.episode import first_state, step
from bqrl.kernels.l1 import moved_expectation, sorted_by_value
from bqrl.kernels.sweep import keep_better, sweep_rows


@njit(cache=True)
def sweep_stages(
    row_start, successor, probability, half, shift, row_shift, mean_reward, mu, A, sizes, extra, cost, sense, tie,
    mean_tie, value, mean, order, action,
):  # fmt: skip
    """Backward over all stages; returns the root values by column and fills action[h, s, column].

    Arrays of rows are flat over the stored stages. `row_shift` (H, S*A) moves the columns of whole rows, or is empty where
    rewards differ by outcome: then `shift` (H, outcomes of a stage) does. `value` and `mean` are work arrays (2, S, columns).
    """
    H, S = sizes.size - 1, mu.size
    rows = S * A
    K = (row_start.size - 1) // rows
    by_row = row_shift.size > 0
    now = 0
    value[now, :, : cost.size] = cost
    mean[now, :, : cost.size] = 0.0
    no_jumps = np.empty((0, 0), np.int64)
    for h in range(H - 1, -1, -1):
        n, n_next = sizes[h] + extra, sizes[h + 1] + extra
        base = (h if K > 1 else 0) * rows
        begin, end = row_start[base], row_start[base + rows]
        starts = row_start[base : base + rows + 1] - begin
        here = slice(begin, end)
        stage_half = half[h] if half.shape[0] > 0 else np.empty(0)
        if by_row:
            sweep_stage_by_row(
                starts, successor[here], probability[here], stage_half, row_shift[h], mean_reward[h], A, sense,
                value[now], mean[now], n_next, tie, mean_tie, n, order, value[1 - now], mean[1 - now], action[h],
            )  # fmt: skip
        else:
            after, found = np.empty((S, 2 * n_next)), np.empty((S, 2 * n))
            after[:, :n_next], after[:, n_next:] = value[now, :, :n_next], mean[now, :, :n_next]
            sweep_rows(
                starts, successor[here], probability[here], shift[h], no_jumps, mean_reward[h], 0.0, stage_half, sense,
                after, tie, mean_tie, found, action[h, :, :n],
            )  # fmt: skip
            value[1 - now, :, :n], mean[1 - now, :, :n] = found[:, :n], found[:, n:]
        now = 1 - now
    root = np.zeros(sizes[0] + extra)
    for s in range(S):
        if mu[s] > 0.0:
            root += mu[s] * value[now, s, : root.size]
    return root


@njit(cache=True)
def sweep_stage_by_row(
    row_start, successor, probability, half, row_shift, mean_reward, A, sense, value_next, mean_next, n_next, tie,
    mean_tie, n, order, value, mean, action,
):  # fmt: skip
    """One stage whose rewards belong to rows."""
    S = value.shape[0]
    moves = False
    for q in range(half.size):
        if half[q] > 0.0:
            moves = True
            break
    if moves:
        column = np.empty(S)
        items = np.arange(S)
        for c in range(n_next):
            for s in range(S):
                column[s] = value_next[s, c]
            sorted_by_value(items, column, sense)
            order[c, :] = items
    chance = np.full(S, -1.0)  # the row's probabilities by state; -1 where a successor is impossible
    acc, acc_mean = np.empty(n_next), np.empty(n_next)
    row_value, row_mean = np.empty(n), np.empty(n)
    for s in range(S):
        first = True
        for a in range(A):
            q = s * A + a
            begin, end = row_start[q], row_start[q + 1]
            if begin == end:
                continue
            acc[:] = 0.0
            acc_mean[:] = mean_reward[q]
            for i in range(begin, end):
                p, t = probability[i], successor[i]
                if p > 0.0:
                    for c in range(n_next):
                        acc[c] += p * value_next[t, c]
                        acc_mean[c] += p * mean_next[t, c]
            if moves and half[q] > 0.0 and end - begin > 1:
                for i in range(begin, end):
                    chance[successor[i]] = probability[i]
                for c in range(n_next):
                    acc[c] = moved_expectation(order[c], chance, value_next, c, half[q], acc[c])
                for i in range(begin, end):
                    chance[successor[i]] = -1.0
            move = row_shift[q]
            for c in range(n):
                j = min(max(c + move, 0), n_next - 1)
                row_value[c], row_mean[c] = acc[j], acc_mean[j]
            keep_better(value[s, :n], mean[s, :n], action[s, :n], row_value, row_mean, a, first, tie, mean_tie)
            first = False
        if first:
            value[s, :n], mean[s, :n], action[s, :n] = 0.0, 0.0, 0


@njit(cache=True)
def law_of_needs(
    row_start, successor, probability, gain, mu, S, A, lowest_sum, count_sum, lowest, sizes, extra, action, target, work
):  # fmt: skip
    """Mass of every final sum under action[h, s, column of target - sum]; all in steps of the lattice.

    gain (H, outcomes of a stage) is each outcome's reward in steps, lowest_sum and count_sum the range of sums before
    each stage, `work` (2, S, sums) is overwritten.
    """
    H = sizes.size - 1
    rows = S * A
    K = (row_start.size - 1) // rows
    now = 0
    work[now, :, :] = 0.0
    for s in range(S):
        work[now, s, 0] = mu[s]
    for h in range(H):
        after = work[1 - now]
        after[:, : count_sum[h + 1]] = 0.0
        base = (h if K > 1 else 0) * rows
        begin_stage = row_start[base]
        last = sizes[h] + extra - 1
        for s in range(S):
            for g in range(count_sum[h]):
                m = work[now, s, g]
                if m == 0.0:
                    continue
                c = min(max(target - (g + lowest_sum[h]) - lowest[h], 0), last)
                q = base + s * A + action[h, s, c]
                for i in range(row_start[q], row_start[q + 1]):
                    place = g + gain[h, i - begin_stage] + lowest_sum[h] - lowest_sum[h + 1]
                    after[successor[i], place] += m * probability[i]
        now = 1 - now
    law = np.zeros(count_sum[H])
    for s in range(S):
        for g in range(count_sum[H]):
            law[g] += work[now, s, g]
    return law


@njit(cache=True)
def play_needs(
    row_start, successor, probability, reward, gain, mu, S, A, lowest, sizes, extra, action, target, u, states, actions,
    rewards,
):  # fmt: skip
    """One episode of action[h, s, column of the remaining need]; u holds one uniform for the first state and one a stage."""
    states[0] = first_state(mu, u[0])
    need = target
    for h in range(actions.size):
        c = min(max(need - lowest[h], 0), sizes[h] + extra - 1)
        a = action[h, states[h], c]
        i = step(row_start, successor, probability, reward, S, A, h, a, u, states, actions, rewards)
        need -= gain[h, i]
