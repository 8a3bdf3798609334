"""Softmax tables with shared parts, and the advantages and values of actor-critic methods.

Logits and values of (h, s) are sums of three parts: one for (h, s) itself, one for s shared by all stages, and one for h shared
by all states. The shared parts are multiplied by `sharing`. All parts lie in one flat vector: (h, s, a), then (s, a), then
(h, a).

A batch visits few rows of a large table. The loops therefore run over a list of n rows, increasing numbers h * S + s, and
their tables have one line per listed row.
"""

import math
from typing import Any, NamedTuple

from numba import njit

from bqrl.loops.moves import inlined


class Listed(NamedTuple):
    """The rows that a loop runs over, and the parts that it may change."""

    H: int
    S: int
    rows: Any  # (n,) increasing
    runs: Any  # (k, 2) begin and end of each run of parts; they contain all parts of these rows


class EpisodeBatch(NamedTuple):
    """The steps of episodes of one policy, with the advantages of the actions played."""

    listed: Listed  # the rows visited
    place: Any  # (B * H,) place of the row of each step among them
    actions: Any  # (B * H,)
    advantage: Any  # (B * H,)
    old: Any  # (n, A) the policy that played
    available: Any  # (n, A)


@inlined
def find_parts(listed, k, A):
    """Return where the own part of listed row k begins, and the parts of its state and of its stage."""
    H, S, row = listed.H, listed.S, listed.rows[k]
    return row * A, (H * S + row % S) * A, (H * S + S + row // S) * A


@njit(cache=True)
def add_parts(parts, sharing, listed, table):
    """Fill table[k] with the own part + sharing * (part of s + part of h) of each listed row."""
    A = table.shape[1]
    for k in range(table.shape[0]):
        own, of_state, of_stage = find_parts(listed, k, A)
        for a in range(A):
            table[k, a] = parts[own + a] + sharing * (parts[of_state + a] + parts[of_stage + a])


@njit(cache=True)
def collect_parts(table, sharing, listed, parts):
    """Fill in the gradient of the parts of the listed rows, given the gradient by row; the transpose of `add_parts`."""
    A = table.shape[1]
    for k in range(table.shape[0]):
        own, of_state, of_stage = find_parts(listed, k, A)
        for a in range(A):
            parts[own + a] = table[k, a]
            parts[of_state + a] = parts[of_stage + a] = 0.0
    for k in range(table.shape[0]):
        own, of_state, of_stage = find_parts(listed, k, A)
        for a in range(A):
            parts[of_state + a] += sharing * table[k, a]
            parts[of_stage + a] += sharing * table[k, a]


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
    """Fill `chances` (n, A) with the softmax of a table of logits."""
    for k in range(logits.shape[0]):
        softmax_row(logits[k], available[k], chances[k])


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
