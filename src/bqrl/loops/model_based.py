"""Backward induction on counted rows, one call per episode: optimistic values, and values of a sampled model.

Rows are q = (m * S + s) * A + a with m = h, or m = 0 if all stages share one kernel; the reward of outcome i at stage h is
reward[h or 0, i]. An action that is not available is a row without outcomes. A plan fills in the values Q (H, S, A) and
V (H + 1, S) and the greedy actions (H, S); V[H] is zero.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from bqrl.loops.moves import inlined

TIE_TOL = 1e-12  # values this close, relative to the largest, tie; the lower action is chosen


class Model(NamedTuple):
    """The rows of a model with their probabilities and rewards."""

    row_start: Any  # (M*S*A + 1,)
    successor: Any  # (nnz,)
    probability: Any  # (nnz,)
    reward: Any  # (H or 1, nnz)
    known: Any  # (M, S, A)
    discount: float


class Bonus(NamedTuple):
    """The exploration bonus of UCBVI."""

    bernstein: bool
    scale: float
    log_term: float
    monotone: bool  # Q never rises


@inlined
def find_row(model, h, s, a):
    """Return the indices of the stored kernel and of the reward table of a stage, and the range of the outcomes of a row."""
    M, S, A = model.known.shape
    m, k = (h if M > 1 else 0), (h if model.reward.shape[0] > 1 else 0)
    q = (m * S + s) * A + a
    return m, k, model.row_start[q], model.row_start[q + 1]


@inlined
def has_actions(model, h, s):
    """Return whether a state has actions at a stage; the values of a state without actions stay as they are."""
    return find_row(model, h, s, 0)[2] < find_row(model, h, s, model.known.shape[2] - 1)[3]


@njit(cache=True)
def best_action(q_values):
    """Return the first action with the largest value up to TIE_TOL (relative); unavailable actions have the value -inf."""
    best, largest = 0, 0.0
    for a in range(q_values.size):
        if q_values[a] > -math.inf:
            largest = max(largest, abs(q_values[a]))
    for a in range(1, q_values.size):
        if q_values[a] > q_values[best] + TIE_TOL * largest:
            best = a
    return best


@inlined
def take_best(Q, V, action, h, s):
    """Fill in the greedy action and the value of one state."""
    best = best_action(Q[h, s])
    action[h, s] = best
    V[h, s] = Q[h, s, best] if Q[h, s, best] > -math.inf else 0.0


@njit(cache=True)
def value_bounds(model, floor, ceiling):
    """Fill in the smallest and the largest optimal value (H, S, A) of each row over all kernels that the known rows allow."""
    H, S, A = floor.shape
    low, high = [0.0] * S, [0.0] * S
    for h in range(H - 1, -1, -1):
        low_here, high_here = [0.0] * S, [0.0] * S
        for s in range(S):
            met = False
            for a in range(A):
                m, k, begin, end = find_row(model, h, s, a)
                if begin == end:
                    floor[h, s, a] = ceiling[h, s, a] = -math.inf
                    continue
                known = model.known[m, s, a]
                least, most = (0.0, 0.0) if known else (math.inf, -math.inf)
                for i in range(begin, end):
                    below = model.reward[k, i] + model.discount * low[model.successor[i]]
                    above = model.reward[k, i] + model.discount * high[model.successor[i]]
                    if known:
                        least += model.probability[i] * below
                        most += model.probability[i] * above
                    else:
                        least, most = min(least, below), max(most, above)
                floor[h, s, a], ceiling[h, s, a] = least, most
                low_here[s] = max(low_here[s], least) if met else least
                high_here[s] = max(high_here[s], most) if met else most
                met = True
        low, high = low_here, high_here


@inlined
def row_value(model, begin, end, k, after):
    """Return the mean of reward plus value of the successor over the outcomes of a row."""
    value = 0.0
    for i in range(begin, end):
        value += model.probability[i] * (model.reward[k, i] + model.discount * after[model.successor[i]])
    return value


@inlined
def row_spread(model, visits, h, s, a, value, V, L):
    """Return the variance of the values of a row, and the mean over successors of a bound that falls with their visits."""
    H, S, A = V.shape[0] - 1, V.shape[1], visits.shape[2]
    m, k, begin, end = find_row(model, h, s, a)
    after = m + 1 if visits.shape[0] > 1 else 0
    spread, rare = 0.0, 0.0
    for i in range(begin, end):
        p, s_next = model.probability[i], model.successor[i]
        if p > 0.0:
            away = model.reward[k, i] + model.discount * V[h + 1, s_next] - value
            spread += p * away * away
            met = 0
            if h + 1 < H:
                for b in range(A):
                    met += visits[after, s_next, b]
            rare += p * min(1e4 * H * S * S * A * L * L / max(met, 1), 1.0)
    return spread, rare


@njit(cache=True)
def ucbvi_values(group, visits, planned, floor, ceiling, bonus, Q, V, action):
    """Update optimistic values and greedy actions that were planned with the counts `planned` (M, S, A).

    The bonuses are those of Azar et al. (2017), Algorithms 3 and 4, with the range of the values of a row in place of H. A row
    keeps its value if neither its counts nor the values and counts of its successors changed.
    """
    model = Model(*group)
    H, S, A = Q.shape
    L = bonus.log_term
    moved = np.zeros((H + 1, S), np.bool_)  # states whose value or counts changed
    for h in range(H - 1, -1, -1):
        after = moved[h + 1]
        for s in range(S):
            if not has_actions(model, h, s):
                continue
            stale = False
            for a in range(A):
                m, k, begin, end = find_row(model, h, s, a)
                i = begin
                if visits[m, s, a] != planned[m, s, a]:
                    moved[h, s] = True
                else:
                    while i < end and not after[np.uint64(model.successor[i])]:
                        i += 1
                if i == end:
                    continue
                stale = True
                n, top = visits[m, s, a], ceiling[h, s, a]
                width = top - floor[h, s, a]
                if n == 0 and not model.known[m, s, a]:
                    value = top
                else:
                    value = row_value(model, begin, end, k, V[h + 1])
                    if not model.known[m, s, a] and width > 0.0:
                        if bonus.bernstein:
                            spread, rare = row_spread(model, visits, h, s, a, value, V, L)
                            extra = math.sqrt(8.0 * L * spread / n) + 14.0 * width * L / (3.0 * n)
                            extra += width * math.sqrt(8.0 * rare / n)
                        else:
                            extra = 7.0 * width * L / math.sqrt(n)
                        value = min(value + bonus.scale * extra, top)
                Q[h, s, a] = min(value, Q[h, s, a]) if bonus.monotone else value
            if stale:
                before = V[h, s]
                take_best(Q, V, action, h, s)
                moved[h, s] |= V[h, s] != before


@njit(cache=True)
def sampled_values(group, place, gammas, Q, V, action):
    """Fill in values and best actions of a sampled model, whose row q is gammas[place[q]:], normalised.

    Rows with place -1 keep their probabilities, and so do rows whose variates all underflow.
    """
    model = Model(*group)
    H, S, A = Q.shape
    for h in range(H - 1, -1, -1):
        after = V[h + 1]
        for s in range(S):
            if not has_actions(model, h, s):
                continue
            for a in range(A):
                m, k, begin, end = find_row(model, h, s, a)
                if begin == end:
                    continue
                value, mass, own = 0.0, 0.0, place[(m * S + s) * A + a]
                if own >= 0:
                    r, i, j = np.uint64(k), np.uint64(begin), np.uint64(own)  # see add_span in loops/moves.py
                    for n in range(np.uint64(end - begin)):
                        t = np.uint64(model.successor[i + n])
                        value += gammas[j + n] * (model.reward[r, i + n] + model.discount * after[t])
                        mass += gammas[j + n]
                if mass == 0.0:
                    value, mass = row_value(model, begin, end, k, after), 1.0
                Q[h, s, a] = value / mass
            take_best(Q, V, action, h, s)
