"""Forward passes: episodes from uniforms that the caller drew, and the masses of collected sums."""

import numpy as np
from numba import njit, prange

from bqrl.loops import draws
from bqrl.loops.layout import Dynamics, Moves, Rows, Stages
from bqrl.loops.moves import ZERO, inlined, inner

NO_JUMPS = np.empty((0, 0), np.int64)
FEW = 2**12  # masses of a stage up to which it takes longer to find the states with mass than to visit all
draw = njit(cache=True)(draws.draw)


@njit(cache=True)
def draw_many(row_start, probability, row, u, outcome):
    """Fill outcome[e] with the outcome of row[e] for the uniform u[e], for every episode e."""
    for e in range(row.size):
        outcome[e] = draw(probability, row_start[row[e]], row_start[row[e] + 1], u[e])


@njit(cache=True)
def step(dynamics, h, a, u, states, actions, rewards):
    """Play action a at stage h in the current state and record the transition; return the reward in steps."""
    start, reward = dynamics.start, dynamics.reward
    rows = dynamics.mu.size * dynamics.A
    first = 0 if start.size - 1 == rows else h * rows
    q = first + states[h] * dynamics.A + a
    i = draw(dynamics.probability, start[q], start[q + 1], u)
    actions[h] = a
    rewards[h] = reward[h if reward.shape[0] > 1 else 0, i]
    states[h + 1] = dynamics.successor[i]
    return dynamics.gain[h, i - start[first]]


@njit(cache=True)
def play_tables(group, flat, begin, target, u, states, actions, rewards):
    """Play one episode with action tables by state and remaining need; a Markov policy has tables with one column.

    The table of stage h is flat[begin[h] : begin[h + 1]] as (S, columns). `target` is in steps; u holds one uniform for the
    first state and one per stage.
    """
    dynamics = Dynamics(*group)
    S = dynamics.mu.size
    states[0] = draw(dynamics.mu, 0, S, u[0])
    need = target
    for h in range(actions.size):
        columns = (begin[h + 1] - begin[h]) // S
        c = min(max(need - dynamics.lowest[h], 0), columns - 1)
        a = flat[begin[h] + states[h] * columns + c]
        need -= step(dynamics, h, a, u[1 + h], states, actions, rewards)


@njit(cache=True)
def play_chances(group, chance, u, v, states, actions, rewards):
    """Play one episode with actions drawn from chance[h, s]; v holds the uniforms for the actions."""
    dynamics = Dynamics(*group)
    states[0] = draw(dynamics.mu, 0, dynamics.mu.size, u[0])
    for h in range(actions.size):
        a = draw(chance[h, states[h]], 0, chance.shape[2], v[h])
        step(dynamics, h, a, u[1 + h], states, actions, rewards)


@njit(cache=True)
def next_run(s, own, g, action, column, mass, split):
    """Return the action at the first sum from g on that has mass, this sum, and the end of the run of sums with this action.

    The actions of state s begin at index `own`, and that of sum g has the offset column[g]. With `split` a run also ends at a
    sum without mass.
    """
    n, m = column.size, np.uint64(s)
    while g < n and mass[m, np.uint64(g)] == 0.0:
        g += 1
    if g == n:
        return ZERO, n, n
    a, end = action[np.uint64(own + column[g])], g + 1
    if not split and action.size == mass.shape[0]:
        end = n
    while (
        end < n
        and (not split or mass[m, np.uint64(end)] != 0.0)
        and action[np.uint64(own + column[np.uint64(end)])] == a
    ):
        end += 1
    return a, g, end


@inlined
def push_mass(rows, moves, action, column, mass, out, span, split, least=ZERO):
    """Add probability * mass[s, g] to `out` at s_next and the next sum, for each action at sum g and the columns in `span`.

    The sums g run from `least` to the last one of `column`. This is the only implementation of a forward stage over states
    and sums. A run of sums moves as a whole (see `next_run`).
    `split` should be True if most sums have no mass, and False if the search for gaps would take longer than it saves.
    """
    lo, hi = span
    S, n, first = mass.shape[0], column.size, np.uint64(rows.start[0])
    A, width = (rows.start.size - 1) // S, action.size // S
    for s in range(S):
        a, g, end = next_run(s, s * width, least, action, column, mass, split)
        while g < n:
            q, x = np.uint64(s * A + a), mass[s, g]
            for i in range(np.uint64(rows.start[q]), np.uint64(rows.start[q + np.uint64(1)])):
                p, t, shift = rows.probability[i], np.uint64(rows.successor[i]), moves.shift[i - first]
                if p == 0.0:
                    continue
                if moves.jumps.size > 0:
                    for c in range(g, end):
                        j = moves.jumps[shift, c]
                        if lo <= j < hi:
                            out[t, j] += p * mass[s, c]
                elif end == g + 1:
                    if lo <= g + shift < hi:
                        out[t, np.uint64(g + shift)] += p * x
                else:
                    begin = max(g, lo - shift)
                    stop = max(min(end, hi - shift), begin)
                    here, there = mass[s, begin:stop], out[t, begin + shift : stop + shift]
                    for c in range(here.size):  # slices, so that the loop vectorises
                        there[c] += p * here[c]
            a, g, end = next_run(s, s * width, end, action, column, mass, split)


@njit(cache=True)
def push_stages(group, sums, probability, flat, begin, target, work):
    """Return the mass of every point of stage 0 under action tables as in `play_tables`.

    `sums` holds lowest, count and shift: before stage h there are count[h] sums, from lowest[h] steps on, and outcome i moves
    their columns by shift[h, i]. `work` (2, S, sums) is overwritten. In large stages, only the sums of a state from the least
    to the greatest one with mass are visited: reach[., s] holds the first of them and the one after the last.
    """
    stages, (lowest, count, shift) = Stages(*group), sums
    H, S, A = stages.size.size - 1, stages.mu.size, stages.A
    columns, reach = np.empty(work.shape[2], np.int64), np.zeros((2, S, 2), np.int64)
    for s in range(S):
        reach[0, s, 1] = 1 if stages.mu[s] > 0.0 else 0
        work[0, s, 0] = stages.mu[s]
    for h in range(H):
        base = 0 if stages.start.size - 1 == S * A else h * S * A
        width = (begin[h + 1] - begin[h]) // S
        highest = target - lowest[h] - stages.lowest[h]  # column of the sum 0
        for g in range(count[h]):
            columns[g] = min(max(highest - g, 0), width - 1)
        mass, after = work[h % 2], work[1 - h % 2]
        here, there = reach[h % 2], reach[1 - h % 2]
        if S * count[h + 1] <= FEW:
            for t in range(S):  # an array assignment would add seconds of compilation for its error message
                there[t, 0], there[t, 1] = 0, count[h + 1]
                for g in range(count[h + 1]):
                    after[t, g] = 0.0
        else:
            for t in range(S):
                there[t, 0], there[t, 1] = 0, 0
            for s in range(S):
                first, own = base + s * A, begin[h] + s * width
                while here[s, 0] < here[s, 1] and mass[s, here[s, 0]] == 0.0:
                    here[s, 0] += 1
                while here[s, 0] < here[s, 1] and mass[s, here[s, 1] - 1] == 0.0:
                    here[s, 1] -= 1
                g = here[s, 0]
                while g < here[s, 1]:
                    a, end = flat[own + columns[g]], g + 1
                    while end < here[s, 1] and flat[own + columns[end]] == a:
                        end += 1
                    if a < A:  # tables may hold anything where no episode comes
                        for i in range(stages.start[first + a], stages.start[first + a + 1]):
                            if probability[i] > 0.0:
                                move = shift[h, i - stages.start[base]]
                                include(after, stages.successor[i], g + move, end + move, there)
                    g = end
        end = 0
        while end < S:
            s = end
            while s < S and here[s, 0] == here[s, 1]:
                s += 1
            end = s
            while end < S and here[end, 0] < here[end, 1] and here[end, 0] == here[s, 0] and here[end, 1] == here[s, 1]:
                end += 1
            if s < end:
                first = base + s * A
                push_mass(
                    Rows(stages.start[first : base + end * A + 1], stages.successor, probability),
                    Moves(shift[h, stages.start[first] - stages.start[base] :], NO_JUMPS),
                    flat[begin[h] + s * width : begin[h] + end * width], columns[: here[s, 1]], mass[s:end], after,
                    (ZERO, count[h + 1]), True, here[s, 0],
                )  # fmt: skip
    law, first = np.zeros(stages.size[0]), lowest[H] - stages.lowest[0]
    for s in range(S):
        for g in range(reach[H % 2, s, 0], reach[H % 2, s, 1]):
            law[first + g] += work[H % 2, s, g]
    return law


@inner
def include(mass, t, begin, end, reach):
    """Extend the sums of state t that are visited by begin .. end - 1, and set the masses of the new ones to 0."""
    low, high = reach[t, 0], reach[t, 1]
    if low == high:
        low = high = begin
    for g in range(begin, low):
        mass[t, g] = 0.0
    for g in range(high, end):
        mass[t, g] = 0.0
    reach[t, 0], reach[t, 1] = min(low, begin), max(high, end)


@njit(cache=True, parallel=True)
def push_mass_threads(rows, moves, action, column, mass, out, blocks):
    """Run `push_mass` over threads; each block has its own columns, so the order of additions does not depend on `blocks`."""
    width = (out.shape[1] + blocks - 1) // blocks
    for b in prange(blocks):
        push_mass(rows, moves, action, column, mass, out, (b * width, min(out.shape[1], (b + 1) * width)), False)
