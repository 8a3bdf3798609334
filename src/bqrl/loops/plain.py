"""NumPy forms of the loops that every plan needs, and when they are used; they give the same bits.

Compiling a loop takes seconds, and loading it a few hundredths of one. So the first steps of a process are left to these forms,
more of them if the compiled loops are not stored on disk yet: a first small plan compiles nothing.
"""

from pathlib import Path

import numpy as np

from bqrl.loops import threads
from bqrl.loops.backward import sweep_rows

PLAIN_BLOCK = 100_000  # numbers of an array that a form handles at once: a few megabytes in all
FIRST_WORK = {True: 2_000_000, False: 40_000_000}  # steps left to NumPy, 25 ns each, if loops are stored, and if not
CALL_WORK = 20_000  # steps that take as long as the calls of NumPy for one loop

_left_to_numpy: int | None = None


def by_numpy(work: int) -> bool:
    """Return whether NumPy should carry out a loop of `work` elementary steps, and count them."""
    global _left_to_numpy
    if _left_to_numpy is None:
        stats = getattr(sweep_rows, "stats", None)  # none if compilation is switched off
        stored = stats is not None and any(Path(str(stats.cache_path)).glob("backward.sweep_rows-*.nbi"))
        _left_to_numpy = FIRST_WORK[stored]
    if work > threads.THREADS_FROM or work + CALL_WORK > _left_to_numpy:
        return False
    _left_to_numpy -= work + CALL_WORK
    return True


def plain_rows(rows, moves, ball, goal, after, now, action, part):
    """Do the work of `sweep_rows` on all columns, without a ball, by NumPy: each outcome of many rows at once, in order."""
    S, A = now.shape[0], (rows.start.size - 1) // now.shape[0]
    block = max(1, PLAIN_BLOCK // (A * now.shape[1]))
    if S > block:
        for s in range(0, S, block):
            here, own = slice(s, s + block), slice(s * A, (s + block) * A)
            within = rows._replace(start=rows.start[s * A : (s + block) * A + 1])
            one = goal._replace(mean_reward=goal.mean_reward[own])
            listed = part.states[(part.states >= s) & (part.states < s + block)] - s
            plain_rows(within, moves, ball, one, after, now[here], action[here], part._replace(states=listed))
        return
    layers = 2 if action.size > 0 else 1
    n, n_next = now.shape[1] // layers, after.shape[1] // layers
    source, columns = after.reshape(-1, layers, n_next), np.arange(n)
    outcomes = np.zeros((S, A), np.int64)
    outcomes[part.states] = np.diff(rows.start).reshape(S, A)[part.states]
    outcomes = outcomes.reshape(-1)
    total = np.zeros((outcomes.size, n, layers))
    for k in range(outcomes.max(initial=0)):
        q = np.flatnonzero(outcomes > k)
        i = rows.start[q] + k
        shift = moves.shift[i]
        to = moves.jumps[shift] if moves.jumps.size > 0 else np.clip(columns + shift[:, None], 0, n_next - 1)
        total[q] += rows.probability[i][:, None, None] * source[rows.successor[i][:, None], :, to]
    _plain_best(total, outcomes.reshape(now.shape[0], -1) > 0, goal, now, action)


def plain_products(product, shift, exists, goal, now, action):
    """Do the work of `reduce_rows` by NumPy."""
    layers = 2 if action.size > 0 else 1
    n, n_next = now.shape[1] // layers, product.shape[1] // layers
    to = np.clip(np.arange(n) + shift[:, None], 0, n_next - 1)
    _plain_best(product.reshape(-1, layers, n_next)[np.arange(shift.size)[:, None], :, to], exists, goal, now, action)


def _plain_best(total, exists, goal, now, action):
    """Choose the best row per state and column, given the expectations (S*A, columns, layers)."""
    (S, A), n = exists.shape, total.shape[1]
    total = total.reshape(S, A, n, -1)
    reward = goal.mean_reward.reshape(S, A, 1)
    if goal.weight != 0.0:
        total[..., 0] -= goal.weight * reward
    if action.size > 0:
        total[..., 1] += reward
        action[:] = 0
    now[:] = 0.0  # for a state without actions, which is never reached
    seen = np.zeros((S, 1), bool)
    for a in range(A):
        row, possible = total[:, a, :, 0], exists[:, a, None]
        first, best = possible & ~seen, now[:, :n].astype(np.float64)
        now[:, :n] = np.where(first, row, np.where(possible, np.minimum(row, best), best))
        if action.size > 0:
            mean, slack = now[:, n:].astype(np.float64), goal.tie * np.abs(best)
            better = total[:, a, :, 1] > mean + goal.mean_tie
            wins = first | (possible & ((row < best - slack) | ((row <= best + slack) & better)))
            now[:, n:] = np.where(wins, total[:, a, :, 1], mean)
            action[wins] = a
        seen |= possible


def plain_ends(start, successor, gain, after, ends):
    """Do the work of `extend_ends` by NumPy."""
    ends[:] = 0
    acting = np.flatnonzero(start[1:] > start[:-1])
    if acting.size:
        for side, extreme in enumerate((np.minimum, np.maximum)):
            ends[acting, side] = extreme.reduceat(gain + after[successor, side], start[acting])


def plain_mass(rows, moves, action, column, mass, out):
    """Do the work of `push_mass` by NumPy, in the same order: by state, run of sums, outcome and sum."""
    (S, n), A = mass.shape, (rows.start.size - 1) // len(mass)
    block = max(1, PLAIN_BLOCK * S // ((rows.start[-1] - rows.start[0]) * n + 1))
    for s in range(0, S, block):
        own = rows._replace(start=rows.start[s * A : (s + block) * A + 1])
        width = action.size // S
        _plain_part(
            own, rows.start[0], moves, action[s * width : (s + block) * width], column, mass[s : s + block], out
        )


def _plain_part(rows, first, moves, action, column, mass, out):
    """Move the mass of some states; `first` is the first outcome of the stage."""
    (S, n), A = mass.shape, (rows.start.size - 1) // len(mass)
    played = action.reshape(S, -1)[:, column]
    run = np.cumsum(np.diff(played, axis=1, prepend=-1) != 0).reshape(S, n)
    s, g = np.nonzero(mass)
    q = s * A + played[s, g]
    outcomes = rows.start[q + 1] - rows.start[q]
    cell = np.repeat(np.arange(q.size), outcomes)
    i = np.arange(cell.size) - np.repeat(np.cumsum(outcomes) - outcomes, outcomes) + rows.start[q][cell]
    order = np.lexsort((cell, i, run[s, g][cell]))
    cell, i = cell[order], i[order]
    shift = moves.shift[i - first]
    to = moves.jumps[shift, g[cell]] if moves.jumps.size > 0 else g[cell] + shift
    inside = (to >= 0) & (to < out.shape[1])  # a worker of a cluster has some of the sums
    cell, i, to = cell[inside], i[inside], to[inside]
    np.add.at(out, (rows.successor[i], to), rows.probability[i] * mass[s[cell], g[cell]])
