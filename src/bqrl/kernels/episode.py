"""One episode in a problem, and the return law of a Markov policy: called once an episode, so they must be quick."""

import numpy as np
from numba import njit


@njit(cache=True)
def draw(row_start, probability, q, u):
    """Outcome of row q by inverse CDF over its stored order; outcomes of probability zero are never drawn."""
    i, last = row_start[q], row_start[q + 1] - 1
    mass = probability[i]
    while i < last and u >= mass:
        i += 1
        mass += probability[i]
    while probability[i] == 0.0 and i > row_start[q]:
        i -= 1
    return i


@njit(cache=True)
def first_state(mu, u):
    """First state by inverse CDF."""
    s, mass = 0, mu[0]
    last = 0
    for t in range(mu.size):
        if mu[t] > 0.0:
            last = t
    while s < last and u >= mass:
        s += 1
        mass += mu[s]
    return s


@njit(cache=True)
def step(row_start, successor, probability, reward, S, A, h, a, u, states, actions, rewards):
    """Play action a at stage h from states[h] and write down what happens; returns the outcome's place in its stage.

    Every episode of a model, whatever chooses the actions, is made of these steps.
    """
    stages = (row_start.size - 1) // (S * A)
    first = (h if stages > 1 else 0) * S * A
    i = draw(row_start, probability, first + states[h] * A + a, u[1 + h])
    actions[h] = a
    rewards[h] = reward[h if reward.shape[0] > 1 else 0, i]
    states[h + 1] = successor[i]
    return i - row_start[first]


@njit(cache=True)
def play_table(row_start, successor, probability, reward, mu, S, A, action, u, states, actions, rewards):
    """Play action[h, s]; u holds one uniform for the first state and one for each transition."""
    states[0] = first_state(mu, u[0])
    for h in range(actions.size):
        a = action[h, states[h]]
        step(row_start, successor, probability, reward, S, A, h, a, u, states, actions, rewards)


@njit(cache=True)
def play_chances(row_start, successor, probability, reward, mu, S, A, chance, u, v, states, actions, rewards):
    """Play actions drawn from chance[h, s]; v holds the learner's own uniforms."""
    states[0] = first_state(mu, u[0])
    for h in range(actions.size):
        a = first_state(chance[h, states[h]], v[h])
        step(row_start, successor, probability, reward, S, A, h, a, u, states, actions, rewards)


@njit(cache=True)
def law_of_table(row_start, successor, probability, shift, same, mu, S, A, sizes, action, law, scratch, filled):
    """Mass of every return under action[h, s], backward over stages; rows that are equal are averaged once.

    shift[h, q] is where the law of row q begins among the points of stage h (rewards by row); same[q] is the first row
    with the same successors and probabilities. `law` and `scratch` are (2, S, points) and (rows, points).
    """
    H = action.shape[0]
    K = (row_start.size - 1) // (S * A)
    now = 0
    law[now, :, :] = 0.0
    law[now, :, 0] = 1.0
    for h in range(H - 1, -1, -1):
        n, m = sizes[h + 1], sizes[h]
        after = law[now]
        here = law[1 - now]
        filled[:] = False
        base = (h if K > 1 else 0) * S * A
        for s in range(S):
            q = base + s * A + action[h, s]
            r = same[q]
            if row_start[r] == row_start[r + 1]:
                here[s, :m] = 0.0
                continue
            mixed = scratch[r - base]
            if not filled[r - base]:
                mixed[:n] = 0.0
                for i in range(row_start[r], row_start[r + 1]):
                    p, t = probability[i], successor[i]
                    if p > 0.0:
                        for j in range(n):
                            mixed[j] += p * after[t, j]
                filled[r - base] = True
            here[s, :m] = 0.0
            k = shift[h, q - base]
            # Sums outside the stage's range belong to states that are never met.
            begin, end = max(0, -k), min(n, m - k)
            for j in range(begin, end):
                here[s, j + k] = mixed[j]
        now = 1 - now
    root = np.zeros(sizes[0])
    for s in range(S):
        if mu[s] > 0.0:
            for j in range(sizes[0]):
                root[j] += mu[s] * law[now, s, j]
    return root
