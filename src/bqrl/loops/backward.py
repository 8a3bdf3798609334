"""Backward passes of target planners and learners: one stage, or all stages, of the sweep over (state, column).

`sweep_state` is the recursion for one state. Three loops call it and give identical results: `sweep_rows` state by state,
`sweep_rows_threads` over threads, and `sweep_stages` through all stages, which avoids one Python call per stage on small
problems.

Columns are needs (see mdp/grid.py), and rewards move them (see moves.py). If a policy is computed, the row of a state holds
the values of all columns, followed by their means. The two are then adjacent in memory, which is the bottleneck of a sweep.
"""

import numpy as np
from numba import njit, prange

from bqrl.loops.l1 import l1_columns, l1_ordered, l1_sparse, sort_by_value
from bqrl.loops.layout import Ball, Goal, Moves, Pages, Rows
from bqrl.loops.moves import (
    ZERO,
    add_outcome,
    add_rows,
    columns_inside,
    extend_edges,
    fill,
    inlined,
    inner,
    mean_of,
    move_columns,
    one_shift,
    put_span,
    shift_into,
    shift_row,
)

SMALL_ROW = 128  # up to this number of columns, the value and the mean of a row are computed together
SPARSE = 1.5  # states are sorted once for all rows if rows have at least 1 / SPARSE of the states as successors
CHUNK = 256  # number of columns whose extreme expectations are computed at once; they fit into the cache


@inner
def keep_less(value, row_value, first):
    """Keep the smaller value per column."""
    for c in range(value.size):
        value[c] = row_value[c] if first else min(value[c], row_value[c])


@inner
def wins(v, m, best, mean, goal):
    """Return whether a row's value and mean are better: values within goal.tie (relative) tie, and the larger mean decides."""
    slack = goal.tie * abs(best)
    return (v < best - slack) | ((v <= best + slack) & (m > mean + goal.mean_tie))


@inner
def keep_better(value, mean, action, row_value, row_mean, a, first, goal):
    """Keep the better row per column, of equal rows the lower action."""
    if first:
        for c in range(value.size):
            value[c], mean[c], action[c] = row_value[c], row_mean[c], a
        return
    for c in range(value.size):  # no branches, so that the loop vectorises
        v, m = row_value[c], row_mean[c]
        better = wins(v, m, value[c], mean[c], goal)
        value[c] = min(v, value[c])
        mean[c] = m if better else mean[c]
        action[c] = a if better else action[c]


@inner
def keep_less_moved(value, weight, source, row, n_next, shift, first):
    """Do the work of `keep_less` for a row with one outcome, without a copy of its values."""
    begin, end = columns_inside(value.size, n_next - 1, shift)
    low, high = 0.0 + weight * source[row, 0], 0.0 + weight * source[row, n_next - 1]  # not -0.0
    for c in range(begin):
        value[c] = low if first else min(value[c], low)
    r, to, at = np.uint64(row), np.uint64(begin), np.uint64(begin + shift)
    for c in range(np.uint64(end - begin)):
        v = 0.0 + weight * source[r, at + c]
        value[to + c] = v if first else min(value[to + c], v)
    for c in range(end, value.size):
        value[c] = high if first else min(value[c], high)


@inner
def keep_better_moved(value, mean, action, weight, source, row, n_next, shift, reward, a, goal):
    """Do the work of `keep_better` for a row with one outcome and a mean reward, without a copy of its values and means."""
    begin, end = columns_inside(value.size, n_next - 1, shift)
    for c in range(begin):
        keep_end(value, mean, action, c, weight, source, row, n_next, shift, reward, a, goal)
    r, to, at = np.uint64(row), np.uint64(begin), np.uint64(begin + shift)
    also = np.uint64(begin + shift + n_next)
    for c in range(np.uint64(end - begin)):
        v, m = 0.0 + weight * source[r, at + c], (0.0 + weight * source[r, also + c]) + reward
        better = wins(v, m, value[to + c], mean[to + c], goal)
        value[to + c] = min(v, value[to + c])
        mean[to + c] = m if better else mean[to + c]
        action[to + c] = a if better else action[to + c]
    for c in range(end, value.size):
        keep_end(value, mean, action, c, weight, source, row, n_next, shift, reward, a, goal)


@inner
def keep_end(value, mean, action, c, weight, source, row, n_next, shift, reward, a, goal):
    """Do the work of `keep_better_moved` for one column that is clipped to an end."""
    j = ZERO if c + shift < 0 else n_next - 1
    v, m = 0.0 + weight * source[row, j], (0.0 + weight * source[row, n_next + j]) + reward
    better = wins(v, m, value[c], mean[c], goal)
    value[c] = min(v, value[c])
    mean[c] = m if better else mean[c]
    action[c] = a if better else action[c]


@inner
def expectation(out, at, row, rows, moves, source, origin, n_next, spare):
    """Fill out[c] with E[source] over the outcomes of a row; each outcome moves column at + c to a column of the next stage.

    The columns of the next stage are the `n_next` columns of `source` from `origin` on; `spare` is overwritten. `at` is 0 if
    the moves are jumps.
    """
    begin, end = rows.start[row], rows.start[row + 1]
    successor, probability, shift, jumps = rows.successor, rows.probability, moves.shift, moves.jumps
    together = one_shift(shift, begin, end)
    if together and jumps.size > 0:
        whole = spare[:n_next]
        whole[:] = 0.0
        add_rows(whole, ZERO, n_next, begin, end, rows, source, origin)
        move_columns(out, whole, shift[begin], jumps)
    elif together:
        move = at + shift[begin]
        first, last = columns_inside(out.size, n_next - 1, move)
        if first == last:  # every column is clipped to the same end
            end_column = origin if first > 0 else origin + n_next - 1
            fill(out, ZERO, out.size, mean_of(begin, end, rows, source, end_column))
            return
        if end == begin + 1:
            put_span(out, first, last, probability[begin], source, successor[begin], origin + first + move)
        else:
            fill(out, first, last, 0.0)
            add_rows(out, first, last - first, begin, end, rows, source, origin + first + move)
        extend_edges(out, first, last)
    else:
        fill(out, ZERO, out.size, 0.0)
        for i in range(begin, end):
            p, s = probability[i], successor[i]
            if p == 0.0:  # the empirical kernels of learners have many such outcomes
                continue
            if jumps.size > 0:
                for c in range(out.size):
                    out[c] += p * source[s, origin + jumps[shift[i], c]]
            else:
                add_outcome(out, p, source, s, origin, n_next, at + shift[i])


@inlined
def row_extremes(whole, low, high, row, rows, ball, source, n_next, chance):
    """Replace the expectations of a row by their extremes over its ball, at least in the columns low .. high - 1.

    `chance` (S,) is overwritten.
    """
    begin, end = rows.start[row], ball_end(row, rows, ball)
    if 0 < ball.order.shape[1] and ball.order.shape[0] == 0:
        p, half = rows.probability[begin:end], ball.half[row]
        l1_sparse(source, rows.successor[begin:end], p, half, ball.sense, ball.order.shape[1], low, high, whole)
    elif ball.order.size > 0:
        chance[: source.shape[0]] = -1.0  # the row's probabilities by state; -1: not a successor
        for i in range(begin, end):
            chance[rows.successor[i]] = rows.probability[i]
        for c in range(low, high):
            whole[c] = l1_ordered(ball.order, ball.values, c, chance, ball.half[row], ball.sense, whole[c])
    else:
        p = rows.probability[begin:end]
        l1_columns(source, rows.successor[begin:end].astype(np.uint64), p, ball.half[row], ball.sense, whole[:n_next])


@inner
def scattered_extremes(out, at, row, rows, moves, ball, source, n_next):
    """Fill out[c] with the extreme expectation of column at + c of a row whose outcomes move columns differently, by chunks.

    Values within the rounding error of a chunk count as equal, so `at` must be a multiple of CHUNK.
    """
    begin, end = rows.start[row], ball_end(row, rows, ball)
    successor, shift, jumps = rows.successor, moves.shift, moves.jumps
    places = np.arange(end - begin).view(np.uint64)
    for first in range(0, out.size, CHUNK):
        n = min(CHUNK, out.size - first)
        landed = np.empty((end - begin, n))
        for i in range(begin, end):
            if jumps.size > 0:
                for c in range(n):
                    landed[i - begin, c] = source[successor[i], jumps[shift[i], first + c]]
            else:
                shift_row(landed, i - begin, source, successor[i], n_next, at + first + shift[i])
        l1_columns(landed, places, rows.probability[begin:end], ball.half[row], ball.sense, out[first : first + n])


@inlined
def ball_end(row, rows, ball):
    """Return the end of the outcomes of a row that belong to its ball; an outcome with missing mass does not."""
    outside = ball.missing.size > 0 and ball.missing[row] > 0.0
    return rows.start[row + 1] - 1 if outside else rows.start[row + 1]


@inner
def column_after(c, i, moves, n_next):
    """Return the column of the next stage to which outcome i moves column c."""
    if moves.jumps.size > 0:
        return moves.jumps[moves.shift[i], c]
    return min(max(c + moves.shift[i], 0), n_next - 1)


@inner
def add_missing(out, at, row, rows, moves, mass, source, n_next):
    """Move the given mass to the last outcome of a row from the other one with the largest value, in the columns from `at` on."""
    last = rows.start[row + 1] - 1
    for c in range(out.size):
        greatest = -np.inf
        for i in range(rows.start[row], last):
            greatest = max(greatest, source[rows.successor[i], column_after(at + c, i, moves, n_next)])
        lost = source[rows.successor[last], column_after(at + c, last, moves, n_next)]
        out[c] += mass * max(lost - greatest, 0.0)


@inner
def fill_unreached(s, now, action):
    """Fill in zeros for a state that is never reached."""
    now[s] = 0.0
    if action.size > 0:
        action[s] = 0


@inner
def scratch_for(after, now, ball):
    """Return the work arrays of `sweep_state`: value and mean of a row, and a row of the next stage.

    Over a ball, S entries follow. Otherwise the arrays stay small, because the loop over threads makes them for every state.
    """
    width = after.shape[1]
    if ball is not None:
        width += after.shape[0]
    return np.empty((3, max(width, now.shape[1])))


@inlined
def sweep_state(s, rows, moves, ball, goal, pages, scratch, at, m):
    """Fill in m columns of a state of one stage, from `at` on: the smallest expected value over actions, its mean and action.

    If actions are requested, the pages hold the values followed by the means. Without uncertainty, `ball` is None, and the
    l1 step is not compiled. `scratch` comes from `scratch_for`.

    If all outcomes of a row move the columns by the same shift, its expectations are computed on the columns of the next
    stage and shifted once. This is done for extremes over a ball and, if there are few columns, for values and means.
    """
    after, now, action = pages
    layers = 2 if action.size > 0 else 1
    n, n_next = now.shape[1] // layers, after.shape[1] // layers
    A = goal.mean_reward.size // now.shape[0]
    value, mean = now[s, at : at + m], now[s, (layers - 1) * n + at :][:m]
    row_value, row_mean, spare = scratch[0, :m], scratch[1, :m], scratch[2]
    few = layers == 2 and n_next <= SMALL_ROW and moves.jumps.size == 0
    first = A > 0  # with a literal True the loops below would be compiled twice
    for a in range(A):
        q = s * A + a
        begin, end = rows.start[q], rows.start[q + 1]
        if begin == end:
            continue
        if ball is None:
            if end == begin + 1 and moves.jumps.size == 0 and goal.weight == 0.0 and not (first and layers == 2):
                p, t, shift = rows.probability[begin], rows.successor[begin], at + moves.shift[begin]
                if layers == 2:
                    reward = goal.mean_reward[q]
                    keep_better_moved(value, mean, action[s, at : at + m], p, after, t, n_next, shift, reward, a, goal)
                else:
                    keep_less_moved(value, p, after, t, n_next, shift, first)
                first = False
                continue
        uncertain, skip = A < 0, ZERO
        if ball is not None:
            uncertain = ball.half[q] > 0.0 and end > begin + 1
            skip = n_next if uncertain and ball.order.shape[1] == 0 else ZERO  # l1_columns needs no plain expectations
        together = (few or uncertain) and one_shift(moves.shift, begin, end)
        if together:
            low, high = column_after(at, begin, moves, n_next), column_after(at + m - 1, begin, moves, n_next) + 1
            to, stop = skip + low, (layers - 1) * n_next + high  # values and means, with what lies between
            for c in range(to, stop):
                spare[c] = 0.0
            add_rows(spare, to, stop - to, begin, end, rows, after, to)
            if ball is not None:
                if uncertain:
                    row_extremes(spare, low, high, q, rows, ball, after, n_next, spare[layers * n_next :])
            for c in range(m):
                j = column_after(at + c, begin, moves, n_next)
                row_value[c] = spare[j]
                if layers == 2:
                    row_mean[c] = spare[n_next + j]
        else:
            if not uncertain:
                expectation(row_value, at, q, rows, moves, after, ZERO, n_next, spare)
            if layers == 2:
                expectation(row_mean, at, q, rows, moves, after, n_next, n_next, spare)
        if ball is not None:
            if uncertain and not together:
                scattered_extremes(row_value, at, q, rows, moves, ball, after, n_next)
            if ball.missing.size > 0 and ball.missing[q] > 0.0:
                add_missing(row_value, at, q, rows, moves, ball.missing[q], after, n_next)
        if goal.weight != 0.0:
            for c in range(m):
                row_value[c] -= goal.weight * goal.mean_reward[q]
        if layers == 2:
            for c in range(m):
                row_mean[c] += goal.mean_reward[q]
            keep_better(value, mean, action[s, at : at + m], row_value, row_mean, a, first, goal)
        else:
            keep_less(value, row_value, first)
        first = False
    if first:  # a state without actions is never reached
        fill_unreached(s, now, action)


@njit(cache=True)
def sweep_rows(rows, moves, ball, goal, after, now, action, part):
    """Call `sweep_state` for the states and columns of `part`; the others keep what they hold."""
    pages, scratch = Pages(after, now, action), scratch_for(after, now, ball)
    for s in part.states:
        sweep_state(s, rows, moves, ball, goal, pages, scratch, part.first, part.columns)


@inner
def call_sweep_state(s, rows, moves, ball, goal, pages, scratch, at, m):
    """Call `sweep_state`, which Numba cannot inline into a loop over threads."""
    sweep_state(s, rows, moves, ball, goal, pages, scratch, at, m)


@njit(cache=True, parallel=True)
def sweep_rows_threads(rows, moves, ball, goal, after, now, action, part):
    """Do the work of `sweep_rows` over threads."""
    for i in prange(part.states.size):
        pages, scratch = Pages(after, now, action), scratch_for(after, now, ball)
        call_sweep_state(part.states[i], rows, moves, ball, goal, pages, scratch, part.first, part.columns)


@njit(cache=True)
def sweep_stages(stages, probability, ball, goal, work, extra, reach, tables, stored):
    """Sweep all stages of a uniform grid in one call; return the row of `work` that holds the first stage.

    ball.half (H*S*A,), if there is a ball, and goal.mean_reward (H, S*A) hold all stages. The first row of `work` (2, cells)
    holds the terminal values, followed by the means. The actions are written to `tables`; if its buffer is empty, only values
    are computed. Unless `stored` is empty, the values of the stages 0 to H - 1 are written to it, one after the other.

    `reach` holds what `stage_spans` needs, from `Layout.reach`. States that are not met are not read; what `tables` and
    `stored` hold there is not changed.
    """
    H, S = stages.size.size - 1, stages.mu.size
    per_stage = S * stages.A
    layers = 2 if tables.flat.size > 0 else 1
    no_jumps, none = np.empty((0, 0), np.int64), np.empty((0, 0), tables.flat.dtype)
    single = stages.start.size - 1 == per_stage  # one stored kernel serves every stage
    spans, now = np.empty((S, 2), np.int64), 0
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
            states = np.flatnonzero(stages.met[h + 1])
            order, values = np.empty((0, states.size if stages.shared[h] else 0), np.int64), np.empty((0, 0))
            here_q = slice(h * per_stage, (h + 1) * per_stage)
            half = ball.half[here_q]
            if stages.shared[h] and SPARSE * (last - first) > np.count_nonzero(np.diff(rows.start)) * states.size:
                order, values = np.empty((n_next, states.size), np.int64), np.empty((n_next, S))
                sort_columns(after, states, order, values)
            stage_ball = Ball(half, ball.sense, order, values, ball.missing[here_q])
        stage_spans(stages, h, n, extra, reach, spans)
        pages, scratch = Pages(after, here, action), scratch_for(after, here, ball)
        for s in range(S):
            if not stages.met[h, s]:
                continue
            begin, end = spans[s, 0], spans[s, 1]
            sweep_state(s, rows, moves, stage_ball, rule, pages, scratch, begin, end - begin)
            extend_edges(here[s, :n], begin, end)
            if layers == 2:
                extend_edges(here[s, n:], begin, end)
                extend_edges(action[s], begin, end)
            if stored.size > 0:
                at = tables.begin[h] + s * n
                for c in range(n):  # an array assignment would add seconds of compilation for its error message
                    stored[at + c] = here[s, c]
        now = 1 - now
    return now


@inner
def stage_spans(stages, h, n, extra, reach, spans):
    """Fill spans[s] with begin and end: the columns begin .. end - 1 of a state are computed, the others equal the nearest one.

    Let the returns that can follow a state be the points from l to u. A need of at most l is met after every outcome, and a
    need of at least u + `extra` costs the same after every outcome. So all columns up to l equal each other in every bit, and
    so do all columns from u + `extra` on: one of them is computed. `reach` holds these returns in steps, left[h, s], and
    the least and the greatest sum earned[h, s] on the way to each state. The needs of a state are targets minus such a sum;
    other needs are not computed. If `earned` is empty, all are.

    If chunks of columns are kept `whole`, they are computed whole, and so is the first column of the chunk after them, in which
    all columns are equal.
    """
    left, earned, whole = reach
    for s in range(spans.shape[0]):
        low, high = 0, n - 1
        if earned.size > 0:
            target = stages.lowest[0] - stages.lowest[h]
            low = min(max(target - earned[h, s, 1], 0), n - 1)
            high = min(max(target + stages.size[0] - 1 - earned[h, s, 0], 0), n - 1)
        begin = min(max(left[h, s, 0] - stages.lowest[h], low), high)
        end = min(max(left[h, s, 1] - stages.lowest[h] + extra, low), high)
        if whole:
            begin, end = begin - begin % CHUNK, min(end - end % CHUNK + CHUNK, n - 1)
        spans[s, 0], spans[s, 1] = begin, end + 1


@inner
def sort_columns(after, states, order, values):
    """Fill values[c, s] with after[s, c], and order[c] with `states` by increasing value; neighbours have similar orders."""
    for c in range(order.shape[0]):
        for s in states:
            values[c, s] = after[s, c]
        sort_by_value(states, values[c], 1.0)
        for i in range(states.size):
            order[c, i] = states[i]


@njit(cache=True)
def reduce_rows(product, shift, exists, goal, now, action):
    """Shift every row (s, a) of a matrix product by its reward, and take the minimum over actions as in `sweep_state`.

    This loop does not use threads: the product takes ten times as long, and its threads still occupy the cores.
    """
    S, A = exists.shape
    layers = 2 if action.size > 0 else 1
    n, n_next = now.shape[1] // layers, product.shape[1] // layers
    row_value, row_mean = np.empty(n), np.empty(n)
    for s in range(S):
        value, mean = now[s, :n], now[s, n:]
        first = A > 0  # with a literal True the loops below would be compiled twice
        for a in range(A):
            if not exists[s, a]:
                continue
            q = s * A + a
            shift_into(row_value, product[q, :n_next], shift[q], -goal.weight * goal.mean_reward[q])
            if layers == 2:
                shift_into(row_mean, product[q, n_next:], shift[q], goal.mean_reward[q])
                keep_better(value, mean, action[s], row_value, row_mean, a, first, goal)
            else:
                keep_less(value, row_value, first)
            first = False
        if first:
            now[s] = 0.0
            if layers == 2:
                action[s] = 0


@njit(cache=True)
def extend_ends(start, successor, gain, after, ends):
    """Fill `ends` (S, 2) with the least and the greatest sum from a stage: gain[i] plus those of the successor in `after`.

    The outcomes of all actions of state s are start[s] .. start[s + 1] - 1. A state without actions keeps 0: it is never reached.
    """
    for s in range(len(ends)):
        begin, end = start[s], start[s + 1]
        if begin == end:
            ends[s] = 0
            continue
        low, high = gain[begin] + after[successor[begin], 0], gain[begin] + after[successor[begin], 1]
        for i in range(np.uint64(begin), np.uint64(end)):
            t = np.uint32(successor[i])
            low, high = min(low, gain[i] + after[t, 0]), max(high, gain[i] + after[t, 1])
        ends[s, 0], ends[s, 1] = low, high
