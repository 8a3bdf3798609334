"""Updates of one episode for the learners of every need (`target-q`) and of quantile functions (`var-q`, `qr-q`).

All of them ignore actions that were not visited: their tables start at 0, which may look better than anything. Updates run
backwards, so that each transition learns from the update of the next one. Where the stages are pooled, a transition updates
every stage at which its successor is known, from the last stage to the first.
"""

import numpy as np
from numba import njit

from bqrl.loops.model_based import best_action


@njit(cache=True)
def update_rate(least, H, n):
    """Return the rate of the n-th update: (H + 1) / (H + n), but at least `least`."""
    return max(least, (H + 1.0) / (H + n))


@njit(cache=True)
def need_episode(J, V, visits, table, grid, rule, ends, shift, states, actions):
    """Update the costs J (H, S, A, M) of all needs, their minima V and best actions `table` (H, S, M + 1) with one episode.

    `grid` holds the step, the number of columns and the lowest need of each of the H + 1 stages. `rule` holds the least rate,
    whether the final cost is max(n, 0) or 1{n > 0}, and whether a transition counts for every stage or only for its own.
    The costs of the states marked in `ends` (S,) are known. After transition t, column i of stage h becomes column
    i + shift[h, t] of stage h + 1.
    """
    step, size, lowest = grid
    least, linear, pooled = rule
    H = J.shape[0]
    last = actions.size - 1
    for t in range(last, -1, -1):
        s, a, s_next = states[t], actions[t], states[t + 1]
        if ends[s]:
            continue
        for h in range(H - 1 if pooled else t, -1 if pooled else t - 1, -1):
            final = h == H - 1 or (t == last and actions.size < H)
            if not final and not visits[h + 1, s_next].any():
                continue  # the episode stopped there: nothing is known
            visits[h, s, a] += 1
            rate = update_rate(least, H, visits[h, s, a])
            top = size[h + 1] - 1
            for i in range(size[h]):
                c = i + shift[h, t]
                if final:
                    need = lowest[h + 1] + c * step
                    cost = 0.0
                    if need > 0.5 * step:  # a need is a whole number of steps, up to rounding
                        cost = need if linear else 1.0
                elif c < 0:
                    cost = 0.0  # every return from here on is larger
                elif c > top and not linear:
                    cost = 1.0
                else:
                    cost = V[h + 1, s_next, min(c, top)] + max(c - top, 0) * step
                J[h, s, a, i] += rate * (cost - J[h, s, a, i])
            best_columns(J[h, s], visits[h, s], size[h], V[h, s], table[h, s])


@njit(cache=True)
def best_columns(J, visits, size, V, table):
    """Fill in the least cost and its visited action for each need; needs above the highest act as the highest."""
    for i in range(size):
        best, least = -1, np.inf
        for a in range(visits.size):
            if visits[a] > 0 and J[a, i] < least - 1e-12 * abs(least if best >= 0 else 0.0):
                best, least = a, J[a, i]
        V[i], table[i] = least, best
    table[size:] = table[size - 1]


@njit(cache=True)
def quantile_step(theta, y, rate):
    """Move the quantiles theta (N,) towards those of the increasing sample y (N,): a step of quantile regression.

    The level of entry j is (j + 1/2) / N, so that y[j] is that quantile of the sample. The step is `rate` times the slope of
    the pinball loss and never passes y[j]: atoms are met exactly.
    """
    N = theta.size
    for j in range(N):
        level = (j + 0.5) / N
        if theta[j] < y[j]:
            below = np.searchsorted(y, theta[j], side="right") / N
            theta[j] = min(y[j], theta[j] + rate * (level - below))
        elif theta[j] > y[j]:
            below = np.searchsorted(y, theta[j]) / N
            theta[j] = max(y[j], theta[j] - rate * (below - level))


@njit(cache=True)
def level_episode(Q, visits, rule, ends, spread, worth, states, actions):
    """Update the quantile functions Q (H, S, A, N) of the best return at each level with one episode.

    The sample of an update is the worth[h, t] of step t at stage h plus, at each level, the best quantile of the visited next
    actions. `rule` holds the least rate and whether stages are pooled; `spread` (H,) scales the steps of a stage. The values of
    the states marked in `ends` (S,) are known.
    """
    least, pooled = rule
    H, _, _, N = Q.shape
    last = actions.size - 1
    y = np.empty(N)
    for t in range(last, -1, -1):
        s, a, s_next = states[t], actions[t], states[t + 1]
        if ends[s]:
            continue
        for h in range(H - 1 if pooled else t, -1 if pooled else t - 1, -1):
            y[:] = worth[h, t]
            if h < H - 1 and (t < last or actions.size == H):
                if not visits[h + 1, s_next].any():
                    continue  # the episode stopped there: nothing is known
                y += best_levels(Q[h + 1, s_next], visits[h + 1, s_next])
            visits[h, s, a] += 1
            n = visits[h, s, a]
            if n == 1:
                Q[h, s, a] = y
            else:
                quantile_step(Q[h, s, a], y, spread[h] * update_rate(least, H, n))


@njit(cache=True)
def best_levels(Q, visits):
    """Return the largest quantile (N,) of the visited actions at each level, increasing."""
    A, N = Q.shape
    best = np.full(N, -np.inf)
    for a in range(A):
        if visits[a] > 0:
            for j in range(N):
                best[j] = max(best[j], Q[a, j])
    return np.sort(best)


@njit(cache=True)
def distribution_episode(Z, Q, visits, action, update, spread, states, actions, rewards):
    """Update quantiles Z (H, S, A, N), means Q and greedy actions (H, S) with one episode; return whether an action changed.

    The sample of an update is the reward plus the discounted quantiles of the next action with the best mean. Unavailable
    actions have the mean -inf. `update` holds the least rate and the discount.
    """
    least, discount = update
    H, _, _, N = Z.shape
    changed = False
    for h in range(actions.size - 1, -1, -1):
        s, a = states[h], actions[h]
        y = np.full(N, rewards[h])
        if h + 1 < actions.size:
            s_next = states[h + 1]
            y += discount * np.sort(Z[h + 1, s_next, best_action(Q[h + 1, s_next])])
        visits[h, s, a] += 1
        n = visits[h, s, a]
        if n == 1:
            Z[h, s, a] = y
        else:
            quantile_step(Z[h, s, a], y, spread[h] * update_rate(least, H, n))
        Q[h, s, a] = Z[h, s, a].mean()
        best = best_action(Q[h, s])
        changed |= best != action[h, s]
        action[h, s] = best
    return changed


@njit(cache=True)
def level_tables(Q, visits, table, grid):
    """Fill in `table` (H, S, M + 1) for the visited states: the action of the lowest level that covers each need.

    Values are rounded to the nearest column. A need that no level covers acts as the highest level.
    """
    step, size, lowest = grid
    H, S, A, N = Q.shape
    for h in range(H):
        for s in range(S):
            if not visits[h, s].any():
                continue
            i, best = 0, -1
            for j in range(N):
                best = -1
                for a in range(A):
                    if visits[h, s, a] > 0 and (best < 0 or Q[h, s, a, j] > Q[h, s, best, j]):
                        best = a
                column = int(np.rint((Q[h, s, best, j] - lowest[h]) / step))
                while i < size[h] and i <= column:
                    table[h, s, i] = best
                    i += 1
            table[h, s, i:] = best
