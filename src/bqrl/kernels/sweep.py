"""The backward sweep over (state, column): the loops under every planner and every planning learner.

`sweep_state` is the recursion for one state. It is driven in three ways that give the same bits: state by state
(`sweep_rows`), over threads (`sweep_rows_threads`), and through all stages in one call (`sweep_stages`), which spares small
problems the overhead of a Python call per stage.

Columns are needs (see mdp/grid.py), and rewards move them (see columns.py). Where a policy is made, the row of a state
holds the values of all columns and then their means: an outcome's two rows then lie together in memory, and memory is the
bottleneck of a sweep.
"""

import numpy as np
from numba import njit, prange

from bqrl.kernels.columns import ZERO, add_rows, inside, land, mean_of, one_shift, shifted, shifted_add
from bqrl.kernels.l1 import l1_columns, l1_ordered, sorted_by_value
from bqrl.kernels.layout import Ball, Goal, Moves, Pages, Rows

SMALL_ROW = 128  # columns up to which the value and the mean of a row are computed together
CHUNK = 256  # columns of a row whose extreme expectations are computed at once: small enough to stay in cache


@njit(cache=True)
def keep_less(value, row_value, first):
    """Per column the smaller value."""
    for c in range(value.size):
        value[c] = row_value[c] if first else min(value[c], row_value[c])


@njit(cache=True)
def keep_better(value, mean, action, row_value, row_mean, a, first, goal):
    """Per column: the smaller value wins; within goal.tie (relative) the larger mean; then the lower action."""
    if first:
        for c in range(value.size):
            value[c], mean[c], action[c] = row_value[c], row_mean[c], a
        return
    for c in range(value.size):  # without branches, so that it runs on vectors
        best, v, m = value[c], row_value[c], row_mean[c]
        slack = goal.tie * abs(best)
        wins = (v < best - slack) | ((v <= best + slack) & (m > mean[c] + goal.mean_tie))
        value[c] = min(v, best)
        mean[c] = m if wins else mean[c]
        action[c] = a if wins else action[c]


@njit(cache=True)
def expectation(out, row, rows, moves, source, origin, n_next, spare):
    """Fill out[c] with E[source] over the outcomes of a row, each at the column where it takes column c.

    The columns of the next stage are the `n_next` columns of `source` from `origin` on; `spare` is overwritten.
    """
    begin, end = rows.start[row], rows.start[row + 1]
    shift = moves.shift
    together = one_shift(shift, begin, end)
    if together and moves.jumps.size > 0:
        whole = spare[:n_next]
        whole[:] = 0.0
        add_rows(whole, ZERO, n_next, begin, end, rows, source, origin)
        land(out, whole, shift[begin], moves.jumps)
    elif together:
        first, last = inside(out.size, n_next - 1, shift[begin])
        if first == last:  # every column lands at the same end
            end_column = origin if first > 0 else origin + n_next - 1
            out[:] = mean_of(begin, end, rows, source, end_column)
            return
        out[first:last] = 0.0
        add_rows(out, first, last - first, begin, end, rows, source, origin + first + shift[begin])
        out[:first], out[last:] = out[first], out[last - 1]
    else:
        out[:] = 0.0
        for i in range(begin, end):
            p, s = rows.probability[i], rows.successor[i]
            if moves.jumps.size > 0:
                for c in range(out.size):
                    out[c] += p * source[s, origin + moves.jumps[shift[i], c]]
            else:
                shifted_add(out, p, source, s, origin, n_next, shift[i])


@njit(cache=True)
def extreme_expectation(out, row, rows, moves, ball, source, n_next, spare):
    """`expectation` of the first `n_next` columns at its least (sense +1) or greatest (-1) over the l1 ball of the row."""
    begin, end = rows.start[row], ball_end(row, rows, ball)
    p, shift = rows.probability[begin:end], moves.shift
    if one_shift(shift, begin, end):
        whole = spare[:n_next]
        whole[:] = 0.0
        if ball.order.size > 0:
            add_rows(whole, ZERO, n_next, begin, end, rows, source, ZERO)
        row_extremes(whole, row, rows, ball, source, n_next, spare[n_next:])
        land(out, whole, shift[begin], moves.jumps)
        return
    places = np.arange(end - begin).astype(rows.successor.dtype)
    for first in range(0, out.size, CHUNK):
        n = min(CHUNK, out.size - first)
        landed = np.empty((end - begin, n))
        for i in range(begin, end):
            values = source[rows.successor[i], :n_next]
            if moves.jumps.size > 0:
                land(landed[i - begin], values, shift[i], moves.jumps[:, first : first + n])
            else:
                land(landed[i - begin], values, shift[i] + first, moves.jumps)
        l1_columns(landed, places, p, ball.half[row], ball.sense, out[first : first + n])


@njit(cache=True)
def both_layers(row, rows, moves, ball, after, n, scratch):
    """Fill value and mean of a row whose outcomes have one reward, in one pass: for few columns, where calls cost the most."""
    begin, end, n_next = rows.start[row], rows.start[row + 1], after.shape[1] // 2
    whole = scratch[2]
    for c in range(2 * n_next):
        whole[c] = 0.0
    add_rows(whole, ZERO, 2 * n_next, begin, end, rows, after, ZERO)
    if ball is not None:
        if ball.half[row] > 0.0 and end > begin + 1:
            row_extremes(whole, row, rows, ball, after, n_next, whole[2 * n_next :])
    last = n_next - 1
    for c in range(n):
        j = min(max(c + moves.shift[begin], 0), last)
        scratch[0, c], scratch[1, c] = whole[j], whole[n_next + j]


@njit(cache=True)
def row_extremes(whole, row, rows, ball, source, n_next, chance):
    """Replace the expectations of a row by their extremes over its ball; `chance` (S,) is overwritten."""
    begin, end = rows.start[row], ball_end(row, rows, ball)
    if ball.order.size > 0:
        chance[: source.shape[0]] = -1.0  # the row's probabilities by state; -1: not a successor
        for i in range(begin, end):
            chance[rows.successor[i]] = rows.probability[i]
        for c in range(n_next):
            whole[c] = l1_ordered(ball.order, ball.values, c, chance, ball.half[row], ball.sense, whole[c])
    else:
        p = rows.probability[begin:end]
        l1_columns(source, rows.successor[begin:end], p, ball.half[row], ball.sense, whole[:n_next])


@njit(cache=True)
def ball_end(row, rows, ball):
    """End of the outcomes of a row that its ball covers: an outcome with missing mass comes behind them."""
    outside = ball.missing.size > 0 and ball.missing[row] > 0.0
    return rows.start[row + 1] - 1 if outside else rows.start[row + 1]


@njit(cache=True)
def column_after(c, i, moves, n_next):
    """Column of the next stage in which outcome i takes column c."""
    if moves.jumps.size > 0:
        return moves.jumps[moves.shift[i], c]
    return min(max(c + moves.shift[i], 0), n_next - 1)


@njit(cache=True)
def add_missing(out, row, rows, moves, mass, source, n_next):
    """Let the last outcome of a row take the given mass from the greatest of the others, to which the ball moved mass."""
    last = rows.start[row + 1] - 1
    for c in range(out.size):
        greatest = -np.inf
        for i in range(rows.start[row], last):
            greatest = max(greatest, source[rows.successor[i], column_after(c, i, moves, n_next)])
        lost = source[rows.successor[last], column_after(c, last, moves, n_next)]
        out[c] += mass * max(lost - greatest, 0.0)


@njit(cache=True)
def scratch_for(after, now):
    """Work arrays of `sweep_state`: the value and mean of a row, and room for a row of the next stage and one per state."""
    return np.empty((3, max(after.shape[1] + after.shape[0], now.shape[1])))


@njit(cache=True)
def sweep_state(s, rows, moves, ball, goal, pages, scratch):
    """One state of one stage: the least expected value over actions, with its mean and its action.

    Where actions are filled in, the pages hold values and the means behind them. `ball` is None without uncertainty, which
    spares the compilation of the l1 step. `scratch` comes from `scratch_for`.
    """
    after, now, action = pages
    layers = 2 if action.size > 0 else 1
    n, n_next = now.shape[1] // layers, after.shape[1] // layers
    A = goal.mean_reward.size // now.shape[0]
    value, mean = now[s, :n], now[s, n:]
    row_value, row_mean, spare = scratch[0, :n], scratch[1, :n], scratch[2]
    first = A > 0  # a literal True would compile the loops below a second time
    for a in range(A):
        q = s * A + a
        if rows.start[q] == rows.start[q + 1]:
            continue
        small = layers == 2 and n_next <= SMALL_ROW and moves.jumps.size == 0
        small = small and one_shift(moves.shift, rows.start[q], rows.start[q + 1])
        if small:
            both_layers(q, rows, moves, ball, after, n, scratch)
        else:
            known = True
            if ball is not None:
                known = ball.half[q] <= 0.0 or rows.start[q + 1] == rows.start[q] + 1
                if not known:
                    extreme_expectation(row_value, q, rows, moves, ball, after, n_next, spare)
            if known:
                expectation(row_value, q, rows, moves, after, ZERO, n_next, spare)
        if ball is not None:
            if ball.missing.size > 0 and ball.missing[q] > 0.0:
                add_missing(row_value, q, rows, moves, ball.missing[q], after, n_next)
        if goal.weight != 0.0:
            for c in range(n):
                row_value[c] -= goal.weight * goal.mean_reward[q]
        if layers == 2:
            if not small:
                expectation(row_mean, q, rows, moves, after, n_next, n_next, spare)
            for c in range(n):
                row_mean[c] += goal.mean_reward[q]
            keep_better(value, mean, action[s], row_value, row_mean, a, first, goal)
        else:
            keep_less(value, row_value, first)
        first = False
    if first:  # a state without actions is never met
        now[s] = 0.0
        if layers == 2:
            action[s] = 0


@njit(cache=True)
def sweep_rows(rows, moves, ball, goal, after, now, action):
    """`sweep_state` for every state."""
    pages, scratch = Pages(after, now, action), scratch_for(after, now)
    for s in range(now.shape[0]):
        sweep_state(s, rows, moves, ball, goal, pages, scratch)


@njit(cache=True, parallel=True)
def sweep_rows_threads(rows, moves, ball, goal, after, now, action):
    """`sweep_state` for every state, over threads."""
    for s in prange(now.shape[0]):
        sweep_state(s, rows, moves, ball, goal, Pages(after, now, action), scratch_for(after, now))


@njit(cache=True)
def sweep_stages(stages, probability, ball, goal, work, extra, tables):
    """All stages of a uniform grid in one call; returns the row of `work` that holds the first stage.

    ball.half (H*S*A,), if there is a ball, and goal.mean_reward (H, S*A) hold all stages. `work` (2, cells) holds the
    terminal values, with the means behind them, in its first row. `tables` receives the actions; an empty buffer asks for
    values only.
    """
    H, S = stages.size.size - 1, stages.mu.size
    per_stage = S * stages.A
    layers = 2 if tables.flat.size > 0 else 1
    no_jumps, none = np.empty((0, 0), np.int64), np.empty((0, 0), tables.flat.dtype)
    single = stages.start.size - 1 == per_stage  # one stored kernel serves every stage
    now = 0
    for h in range(H - 1, -1, -1):
        n, n_next = stages.size[h] + extra, stages.size[h + 1] + extra
        after = work[now, : S * layers * n_next].reshape(S, layers * n_next)
        here = work[1 - now, : S * layers * n].reshape(S, layers * n)
        base = 0 if single else h * per_stage
        first, last = stages.start[base], stages.start[base + per_stage]
        rows = Rows(
            stages.start[base : base + per_stage + 1] - first, stages.successor[first:last], probability[first:last]
        )
        moves = Moves(stages.shift[h, : last - first], no_jumps)
        rule = Goal(goal.mean_reward[h], goal.weight, goal.tie, goal.mean_tie)
        action = none
        if layers == 2:
            action = tables.flat[tables.begin[h] : tables.begin[h + 1]].reshape(S, n)
        stage_ball = ball
        if ball is not None:
            order, values = np.empty((0, 0), np.int64), np.empty((0, 0))
            if stages.shared[h]:
                order, values = np.empty((n_next, S), np.int64), np.empty((n_next, S))
                sort_columns(after, order, values)
            here_q = slice(h * per_stage, (h + 1) * per_stage)
            stage_ball = Ball(ball.half[here_q], ball.sense, order, values, ball.missing[here_q])
        pages, scratch = Pages(after, here, action), scratch_for(after, here)
        for s in range(S):
            sweep_state(s, rows, moves, stage_ball, rule, pages, scratch)
        now = 1 - now
    return now


@njit(cache=True)
def sort_columns(after, order, values):
    """Fill values[c, s] = after[s, c], and order[c] with the states by rising value; neighbouring columns mostly agree."""
    items = np.arange(after.shape[0])
    for c in range(order.shape[0]):
        for s in range(items.size):
            values[c, s] = after[s, c]
        sorted_by_value(items, values[c], 1.0)
        for s in range(items.size):
            order[c, s] = items[s]


@njit(cache=True)
def reduce_rows(product, shift, exists, goal, now, action):
    """After a matrix product: shift every row (s, a) by its reward, then the minimum over actions, as in `sweep_state`.

    Not over threads: the product takes ten times as long, and its threads still hold the cores when this begins.
    """
    S, A = exists.shape
    layers = 2 if action.size > 0 else 1
    n, n_next = now.shape[1] // layers, product.shape[1] // layers
    row_value, row_mean = np.empty(n), np.empty(n)
    for s in range(S):
        value, mean = now[s, :n], now[s, n:]
        first = A > 0  # a literal True would compile the loops below a second time
        for a in range(A):
            if not exists[s, a]:
                continue
            q = s * A + a
            shifted(row_value, product[q, :n_next], shift[q], -goal.weight * goal.mean_reward[q])
            if layers == 2:
                shifted(row_mean, product[q, n_next:], shift[q], goal.mean_reward[q])
                keep_better(value, mean, action[s], row_value, row_mean, a, first, goal)
            else:
                keep_less(value, row_value, first)
            first = False
        if first:
            now[s] = 0.0
            if layers == 2:
                action[s] = 0
