"""Temporal-difference updates of one table per stage after each episode, and the epsilon-greedy behaviour of a table."""

import numpy as np
from numba import njit

from bqrl.loops.layout import Dynamics
from bqrl.loops.model_based import best_action
from bqrl.loops.rollout import draw, step


@njit(cache=True)
def td_episode(Q, visits, action, update, states, actions, rewards):
    """Update values and visits (H, S, A) and greedy actions (H, S) with one episode; return whether an action changed.

    `update` holds the smallest rate, the discount and whether the update is on-policy (SARSA) or off-policy (Q-learning).
    Unavailable actions have the value -inf. Each stage has its own table and occurs once per episode, so updates after the
    episode, in order of play, equal online updates. The value after the last stage is 0.
    """
    H = actions.size
    least_rate, discount, on_policy = update
    changed = False
    for h in range(H):
        s, a, s_next = states[h], actions[h], states[h + 1]
        target = rewards[h]
        if h + 1 < H:
            following = actions[h + 1] if on_policy else best_action(Q[h + 1, s_next])
            target += discount * Q[h + 1, s_next, following]
        visits[h, s, a] += 1
        Q[h, s, a] += max(least_rate, 1.0 / visits[h, s, a]) * (target - Q[h, s, a])
        best = best_action(Q[h, s])
        if best != action[h, s]:
            action[h, s] = best
            changed = True
    return changed


@njit(cache=True)
def explore(best, available, epsilon, chances):
    """Fill one row of `chances` (A,): with probability epsilon a uniform available action, else the greedy one."""
    n = 0
    for a in range(chances.size):
        n += available[a]
    share = epsilon / max(n, 1)  # a state without actions is never visited
    for a in range(chances.size):
        chances[a] = share if available[a] else 0.0
    chances[best] += 1.0 - epsilon


@njit(cache=True)
def explore_table(action, available, epsilon, chances):
    """Fill `chances` (H, S, A) in every row."""
    for h in range(chances.shape[0]):
        for s in range(chances.shape[1]):
            explore(action[h, s], available[h, s], epsilon, chances[h, s])


@njit(cache=True)
def play_exploring(group, mix, u, v, states, actions, rewards):
    """Play one episode as `play_chances` does; `mix` holds greedy actions (H, S), available ones and epsilon."""
    dynamics, (action, available, epsilon) = Dynamics(*group), mix
    chances = np.empty(dynamics.A)
    states[0] = draw(dynamics.mu, 0, dynamics.mu.size, u[0])
    for h in range(actions.size):
        s = states[h]
        explore(action[h, s], available[h, s], epsilon, chances)
        step(dynamics, h, draw(chances, 0, chances.size, v[h]), u[1 + h], states, actions, rewards)
