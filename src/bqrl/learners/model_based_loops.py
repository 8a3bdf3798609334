"""Backward inductions over counted rows, one call an episode: optimistic values and values of a sampled model.

Rows are q = (m * S + s) * A + a with m = h, or 0 where one kernel serves every stage; the reward of outcome i at stage h is
reward[h or 0, i]. Actions that do not exist are rows without outcomes.
"""

import math

from numba import njit

TIE_TOL = 1e-12  # values this close, relative to the best, tie; the lower action is kept


@njit(cache=True)
def best_action(q_values):
    """First action whose value is the largest up to TIE_TOL; actions that do not exist hold -inf."""
    best = 0
    for a in range(1, q_values.size):
        if q_values[a] > q_values[best] + TIE_TOL * max(1.0, abs(q_values[best])):
            best = a
    return best


@njit(cache=True)
def value_bounds(row_start, successor, probability, reward, known, discount, H, S, A, floor, ceiling):
    """Least and largest value that each row can have under optimal play, whatever the rows that are not known are."""
    M = (row_start.size - 1) // (S * A)
    low, high = [0.0] * S, [0.0] * S
    for h in range(H - 1, -1, -1):
        m, k = (h if M > 1 else 0), (h if reward.shape[0] > 1 else 0)
        low_here, high_here = [0.0] * S, [0.0] * S
        for s in range(S):
            met = False
            for a in range(A):
                q = (m * S + s) * A + a
                begin, end = row_start[q], row_start[q + 1]
                if begin == end:
                    floor[h, s, a] = ceiling[h, s, a] = -math.inf
                    continue
                least, most = math.inf, -math.inf
                if known[q]:
                    least = most = 0.0
                for i in range(begin, end):
                    below = reward[k, i] + discount * low[successor[i]]
                    above = reward[k, i] + discount * high[successor[i]]
                    if known[q]:
                        least += probability[i] * below
                        most += probability[i] * above
                    else:
                        least, most = min(least, below), max(most, above)
                floor[h, s, a], ceiling[h, s, a] = least, most
                low_here[s] = max(low_here[s], least) if met else least
                high_here[s] = max(high_here[s], most) if met else most
                met = True
        low, high = low_here, high_here


@njit(cache=True)
def ucbvi_values(
    row_start, successor, probability, visits, reward, known, floor, ceiling, discount, bernstein, scale, log_term,
    keep, Q, V, action,
):  # fmt: skip
    """Optimistic Q (H, S, A), V (H + 1, S) and greedy actions (H, S); V[H] is zero, and `keep` never lets Q rise.

    The bonuses are those of Azar et al. (2017), Algorithms 3 and 4, with the range of a row's values in place of H.
    """
    H, S, A = Q.shape
    M = visits.shape[0]
    L = log_term
    for h in range(H - 1, -1, -1):
        m, k = (h if M > 1 else 0), (h if reward.shape[0] > 1 else 0)
        for s in range(S):
            for a in range(A):
                q = (m * S + s) * A + a
                begin, end = row_start[q], row_start[q + 1]
                if begin == end:
                    continue
                n, top = visits[m, s, a], ceiling[h, s, a]
                width = top - floor[h, s, a]
                if n == 0 and not known[m, s, a]:
                    value = top
                else:
                    value = 0.0
                    for i in range(begin, end):
                        value += probability[i] * (reward[k, i] + discount * V[h + 1, successor[i]])
                    if not known[m, s, a] and width > 0.0:
                        if bernstein:
                            spread, next_visits = 0.0, 0.0
                            for i in range(begin, end):
                                if probability[i] > 0.0:
                                    s_next = successor[i]
                                    away = reward[k, i] + discount * V[h + 1, s_next] - value
                                    spread += probability[i] * away * away
                                    met = 0
                                    if h + 1 < H:
                                        for b in range(A):
                                            met += visits[(h + 1 if M > 1 else 0), s_next, b]
                                    share = 1e4 * H * S * S * A * L * L / max(met, 1)
                                    next_visits += probability[i] * min(share, 1.0)
                            bonus = math.sqrt(8.0 * L * spread / n) + 14.0 * width * L / (3.0 * n)
                            bonus += width * math.sqrt(8.0 * next_visits / n)
                        else:
                            bonus = 7.0 * width * L / math.sqrt(n)
                        value = min(value + scale * bonus, top)
                Q[h, s, a] = min(value, Q[h, s, a]) if keep else value
            best = best_action(Q[h, s])
            action[h, s] = best
            V[h, s] = Q[h, s, best] if Q[h, s, best] > -math.inf else 0.0


@njit(cache=True)
def dirichlet_shapes(seen, drawn, prior, scale, shapes):
    """Shapes of the gamma variates whose normalised rows are draws of the posterior; `prior` by drawn outcome."""
    for j in range(drawn.size):
        shapes[j] = (prior[j] + seen[drawn[j]]) / (scale * scale)


@njit(cache=True)
def sampled_values(row_start, successor, probability, reward, place, gammas, discount, Q, V, action):
    """Q (H, S, A), V (H + 1, S) and best actions (H, S) of the model whose row q is gammas[place[q]:], normalised.

    Rows with place -1 keep `probability`, and so does a row whose variates all vanished. V[H] is zero.
    """
    H, S, A = Q.shape
    M = (row_start.size - 1) // (S * A)
    for h in range(H - 1, -1, -1):
        m, k = (h if M > 1 else 0), (h if reward.shape[0] > 1 else 0)
        for s in range(S):
            for a in range(A):
                q = (m * S + s) * A + a
                begin, end = row_start[q], row_start[q + 1]
                if begin == end:
                    continue
                value, mass = 0.0, 0.0
                if place[q] >= 0:
                    shift = place[q] - begin
                    for i in range(begin, end):
                        value += gammas[i + shift] * (reward[k, i] + discount * V[h + 1, successor[i]])
                        mass += gammas[i + shift]
                if mass == 0.0:
                    value, mass = 0.0, 1.0
                    for i in range(begin, end):
                        value += probability[i] * (reward[k, i] + discount * V[h + 1, successor[i]])
                Q[h, s, a] = value / mass
            best = best_action(Q[h, s])
            action[h, s] = best
            V[h, s] = Q[h, s, best] if Q[h, s, best] > -math.inf else 0.0
