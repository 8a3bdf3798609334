"""Forward passes: episodes driven by uniforms that the caller drew, and the masses of collected sums."""

import numpy as np
from numba import njit, prange

from bqrl.kernels import draws
from bqrl.kernels.layout import Dynamics, Stages
from bqrl.kernels.moves import ZERO

draw = njit(cache=True)(draws.draw)


@njit(cache=True)
def draw_many(row_start, probability, row, u, outcome):
    """Draw the outcome of row[e] with the uniform u[e] for every episode e."""
    for e in range(row.size):
        outcome[e] = draw(probability, row_start[row[e]], row_start[row[e] + 1], u[e])


@njit(cache=True)
def step(dynamics, h, a, u, states, actions, rewards):
    """Play action a at stage h from the current state and record what happens; returns the reward in steps."""
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
    """Play one episode of action tables by state and remaining need; a Markov policy has tables of one column.

    Stage h of the tables is flat[begin[h] : begin[h + 1]] as (S, columns). `target` is in steps; u holds one uniform for the
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
    """Play one episode of actions drawn from chance[h, s]; v holds the uniforms of the actions."""
    dynamics = Dynamics(*group)
    states[0] = draw(dynamics.mu, 0, dynamics.mu.size, u[0])
    for h in range(actions.size):
        a = draw(chance[h, states[h]], 0, chance.shape[2], v[h])
        step(dynamics, h, a, u[1 + h], states, actions, rewards)


@njit(cache=True)
def add_run(after, t, to, here, s, g, count, p):
    """after[t, to + c] += p * here[s, g + c] for c below `count`; unsigned indices, so that it runs on vectors."""
    r, m, j, at = np.uint64(t), np.uint64(s), np.uint64(to), np.uint64(g)
    for c in range(np.uint64(count)):
        after[r, j + c] += here[m, at + c] * p


@njit(cache=True)
def push_stages(group, lowest, count, probability, flat, begin, target, work):
    """Return the mass of every return of stage 0 under action tables as in `play_tables`.

    There are count[h] sums before stage h, from lowest[h] steps on; `work` (2, S, sums) is overwritten.
    """
    stages = Stages(*group)
    H, S = stages.size.size - 1, stages.mu.size
    work[0] = 0.0
    for s in range(S):
        work[0, s, 0] = stages.mu[s]
    rows = S * stages.A
    for h in range(H):
        here, after = work[h % 2], work[1 - h % 2]
        after[:, : count[h + 1]] = 0.0
        base = 0 if stages.start.size - 1 == rows else h * rows
        first = stages.start[base]
        columns = (begin[h + 1] - begin[h]) // S
        moved = lowest[h] - lowest[h + 1]
        highest = target - lowest[h] - stages.lowest[h]  # column of the sum 0
        for s in range(S):
            own, m, end = begin[h] + s * columns, np.uint64(s), 0
            while end < count[h]:
                g, end = end, end + 1
                x = here[m, np.uint64(g)]
                if x == 0.0:
                    continue
                a = flat[own + min(max(highest - g, 0), columns - 1)]
                while end < count[h] and here[m, np.uint64(end)] != 0.0:  # a run of sums that play the same action
                    if flat[own + min(max(highest - end, 0), columns - 1)] != a:
                        break
                    end += 1
                q = base + s * stages.A + a
                for i in range(np.uint64(stages.start[q]), np.uint64(stages.start[q + 1])):
                    t, p = stages.successor[i], probability[i]
                    if p == 0.0:
                        continue
                    to = g + moved + stages.gain[h, i - np.uint64(first)]
                    if end == g + 1:
                        after[np.uint64(t), np.uint64(to)] += x * p
                    else:
                        add_run(after, t, to, here, s, g, end - g, p)
    law, first = np.zeros(stages.size[0]), lowest[H] - stages.lowest[0]
    for s in range(S):
        for g in range(count[H]):
            law[first + g] += work[H % 2, s, g]
    return law


@njit(cache=True)
def next_run(s, g, action, column, mass):
    """Return the first column from g on with mass, and the end of the run of columns with the same action."""
    n = mass.shape[1]
    while g < n and mass[s, g] == 0.0:
        g += 1
    if action.shape[1] == 1 or g == n:
        return g, n
    a = action[s, column[g]]
    end = g + 1
    while end < n and action[s, column[end]] == a:
        end += 1
    return g, end


@njit(cache=True)
def push_mass(rows, moves, action, column, mass, out, lo, hi):
    """out[s_next, landing of g] += probability * mass[s, g] under action[s, column[g]], for columns lo .. hi of `out`.

    A run of columns with the same action moves as a whole.
    """
    S, n = mass.shape
    A = (rows.start.size - 1) // S
    for s in range(S):
        g, end = next_run(s, ZERO, action, column, mass)
        while g < n:
            q = s * A + action[s, column[g]]
            for i in range(rows.start[q], rows.start[q + 1]):
                p, row, shift = rows.probability[i], out[rows.successor[i]], moves.shift[i]
                if moves.jumps.size > 0:
                    for c in range(g, end):
                        j = moves.jumps[shift, c]
                        if lo <= j < hi:
                            row[j] += p * mass[s, c]
                else:
                    begin = max(g, lo - shift)
                    stop = max(min(end, hi - shift), begin)
                    here, there = mass[s, begin:stop], row[begin + shift : stop + shift]
                    for c in range(here.size):  # slices, so that the loop runs on vectors
                        there[c] += p * here[c]
            g, end = next_run(s, end, action, column, mass)


@njit(cache=True, parallel=True)
def push_mass_threads(rows, moves, action, column, mass, out, blocks):
    """Do `push_mass` over threads: each block owns a range of columns, so the order of sums does not depend on `blocks`."""
    width = (out.shape[1] + blocks - 1) // blocks
    for b in prange(blocks):
        push_mass(rows, moves, action, column, mass, out, b * width, min(out.shape[1], (b + 1) * width))


@njit(cache=True)
def spread_rows(first, mass, action, column, gain, n_next, place, rows):
    """Return the mass of each row (s, a) that is played, by the sum after its reward, and list these rows in `rows`.

    States count from `first`. `place` (S, A) must hold -1.
    """
    S, n = mass.shape
    A = place.shape[1]
    played = 0
    for s in range(S):
        g, end = next_run(s, ZERO, action, column, mass)
        while g < n:
            a = action[s, column[g]]
            if place[s, a] < 0:
                place[s, a] = played
                rows[played] = (first + s) * A + a
                played += 1
            g, end = next_run(s, end, action, column, mass)
    spread = np.zeros((played, n_next))
    for s in range(S):
        g, end = next_run(s, ZERO, action, column, mass)
        while g < n:
            a = action[s, column[g]]
            moved = gain[(first + s) * A + a]
            stop = min(end, n_next - moved)  # beyond it this state has no mass
            r, q, at, to = np.uint64(place[s, a]), np.uint64(s), np.uint64(g), np.uint64(g + moved)
            for c in range(np.uint64(max(stop - g, 0))):
                spread[r, to + c] = mass[q, at + c]
            g, end = next_run(s, end, action, column, mass)
    return spread
