"""The step of TRPO: the natural gradient by conjugate gradients, then a line search within the trust region."""

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from bqrl.loops.actor_critic import add_parts, collect_parts, softmax_table

ENOUGH = 1e-10  # conjugate gradients stop when the squared residual has shrunk by this factor


class Region(NamedTuple):
    """The constants of a trust-region step."""

    sharing: float
    radius: float  # largest mean KL divergence
    damping: float
    iterations: int  # of conjugate gradients
    shrink: float  # factor on the length of each further step of the line search
    tries: int  # largest number of steps of the line search


@njit(cache=True)
def fisher_product(direction, sharing, share, chances, damping, table, out):
    """Fill `out` with (F + damping) times a direction; the Fisher matrix F has the blocks share (diag p - p p') by (h, s)."""
    H, S, A = chances.shape
    add_parts(direction, sharing, table)
    for h in range(H):
        for s in range(S):
            middle = 0.0
            for a in range(A):
                middle += chances[h, s, a] * table[h, s, a]
            for a in range(A):
                table[h, s, a] = share[h, s] * chances[h, s, a] * (table[h, s, a] - middle)
    collect_parts(table, sharing, out)
    for i in range(direction.size):
        out[i] += damping * direction[i]


@njit(cache=True)
def natural_direction(gradient, sharing, share, chances, damping, iterations, table):
    """Return the solution x of (F + damping) x = gradient by conjugate gradients, and x' (F + damping) x."""
    x, product = np.zeros(gradient.size), np.zeros(gradient.size)
    residual, direction = gradient.copy(), gradient.copy()
    left = np.dot(residual, residual)
    least = ENOUGH * left
    for _ in range(iterations):
        if left <= least:
            break
        fisher_product(direction, sharing, share, chances, damping, table, product)
        length = left / np.dot(direction, product)
        x += length * direction
        residual -= length * product
        now = np.dot(residual, residual)
        direction = residual + (now / left) * direction
        left = now
    fisher_product(x, sharing, share, chances, damping, table, product)
    return x, np.dot(x, product)


@njit(cache=True)
def trust_region_step(parts, batch, region):
    """Improve the parts in place; return whether a step was taken.

    To second order, the first step has the mean KL divergence `radius`. It is shortened until the surrogate improves and the
    exact mean KL divergence is at most `radius`.
    """
    states, actions, advantage, old = batch.states, batch.actions, batch.advantage, batch.old
    sharing = region.sharing
    H, S, A = old.shape
    B = actions.shape[0]
    share, slope = np.zeros((H, S)), np.zeros((H, S, A))
    for b in range(B):
        for h in range(H):
            s = states[b, h]
            share[h, s] += 1.0 / (B * H)
            for c in range(A):
                toward = (1.0 if c == actions[b, h] else 0.0) - old[h, s, c]
                slope[h, s, c] += advantage[b, h] * toward / (B * H)
    gradient = np.zeros(parts.size)
    collect_parts(slope, sharing, gradient)
    table, new = np.zeros((H, S, A)), np.zeros((H, S, A))
    direction, curvature = natural_direction(gradient, sharing, share, old, region.damping, region.iterations, table)
    if not curvature > 0.0:
        return False
    length = math.sqrt(2.0 * region.radius / curvature)
    for _ in range(region.tries):
        add_parts(parts + length * direction, sharing, table)
        softmax_table(table, batch.available, new)
        divergence, surrogate = 0.0, 0.0
        for h in range(H):
            for s in range(S):
                if share[h, s] > 0.0:
                    for a in range(A):
                        if old[h, s, a] > 0.0:
                            ratio = old[h, s, a] / max(new[h, s, a], 1e-300)
                            divergence += share[h, s] * old[h, s, a] * math.log(ratio)
        for b in range(B):
            for h in range(H):
                s, a = states[b, h], actions[b, h]
                surrogate += advantage[b, h] * (new[h, s, a] / old[h, s, a] - 1.0)
        if surrogate > 0.0 and divergence <= region.radius:
            parts += length * direction
            return True
        length *= region.shrink
    return False
