"""Softmax tables with shared parts, and the advantages and values of actor-critic methods.

Logits and values of (h, s) are sums of three parts: one for (h, s) itself, one for s shared by all stages, and one for h shared
by all states. The shared parts are multiplied by `sharing`. All parts lie in one flat vector: (h, s, a), then (s, a), then
(h, a).
"""

import math
from typing import Any, NamedTuple

from numba import njit


class EpisodeBatch(NamedTuple):
    """Episodes of one policy, with the advantages of the actions played."""

    states: Any  # (B, H + 1)
    actions: Any  # (B, H)
    advantage: Any  # (B, H)
    old: Any  # (H, S, A) the policy that played
    available: Any  # (H, S, A)


@njit(cache=True)
def add_parts(parts, sharing, table):
    """Fill table[h, s, a] with the own part + sharing * (part of s + part of h)."""
    H, S, A = table.shape
    of_state, of_stage = H * S * A, H * S * A + S * A
    for h in range(H):
        for s in range(S):
            for a in range(A):
                common = parts[of_state + s * A + a] + parts[of_stage + h * A + a]
                table[h, s, a] = parts[(h * S + s) * A + a] + sharing * common


@njit(cache=True)
def collect_parts(table, sharing, parts):
    """Fill `parts` with the gradient of each part, given the gradient by (h, s, a); the transpose of `add_parts`."""
    H, S, A = table.shape
    of_state, of_stage = H * S * A, H * S * A + S * A
    parts[:] = 0.0
    for h in range(H):
        for s in range(S):
            for a in range(A):
                x = table[h, s, a]
                parts[(h * S + s) * A + a] = x
                parts[of_state + s * A + a] += sharing * x
                parts[of_stage + h * A + a] += sharing * x


@njit(cache=True)
def softmax_row(logits, available, chances):
    """Fill `chances` with the softmax of one row of logits over the available actions; zeros if there are none."""
    top, total = -math.inf, 0.0
    for a in range(logits.size):
        if available[a]:
            top = max(top, logits[a])
    for a in range(logits.size):
        chances[a] = math.exp(logits[a] - top) if available[a] else 0.0
        total += chances[a]
    for a in range(logits.size):
        if total > 0.0:
            chances[a] /= total


@njit(cache=True)
def softmax_table(logits, available, chances):
    """Fill `chances` (H, S, A) with the softmax of a table of logits."""
    for h in range(logits.shape[0]):
        for s in range(logits.shape[1]):
            softmax_row(logits[h, s], available[h, s], chances[h, s])


@njit(cache=True)
def advantages(states, rewards, V, discount, trace, advantage, target):
    """Fill in the generalized advantages (Schulman et al. 2016) of a batch and the values that they imply, both (B, H)."""
    B, H = rewards.shape
    for e in range(B):
        later = 0.0
        for h in range(H - 1, -1, -1):
            here = V[h, states[e, h]]
            after = V[h + 1, states[e, h + 1]] if h + 1 < H else 0.0
            later = rewards[e, h] + discount * after - here + discount * trace * later
            advantage[e, h] = later
            target[e, h] = later + here


@njit(cache=True)
def fit_values(parts, sharing, rate, states, target, V):
    """Make one pass of least-squares steps towards the targets; V (H, S) is updated in place.

    Each step reduces the error of its state and stage by the share `rate`, split over the three parts.
    """
    H, S = V.shape
    of_state, of_stage = H * S, H * S + S
    share = rate / (1.0 + 2.0 * sharing * sharing)
    for e in range(target.shape[0]):
        for h in range(H):
            s = states[e, h]
            value = parts[h * S + s] + sharing * (parts[of_state + s] + parts[of_stage + h])
            step = share * (target[e, h] - value)
            parts[h * S + s] += step
            parts[of_state + s] += sharing * step
            parts[of_stage + h] += sharing * step
    for h in range(H):
        for s in range(S):
            V[h, s] = parts[h * S + s] + sharing * (parts[of_state + s] + parts[of_stage + h])
