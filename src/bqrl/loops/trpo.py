"""The step of TRPO: the natural gradient by conjugate gradients, then a line search within the trust region.

Vectors have one entry per part. They are 0 outside the runs of parts of the batch, where nothing is computed.
"""

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
def add_scaled(first, factor, second, runs, out):
    """Fill `out` with first + factor * second in the runs; it may be one of the two."""
    for r in range(runs.shape[0]):
        for i in range(runs[r, 0], runs[r, 1]):
            out[i] = first[i] + factor * second[i]


@njit(cache=True)
def fisher_product(direction, sharing, share, batch, damping, table, out):
    """Fill `out` with (F + damping) times a direction; the Fisher matrix F has the blocks share (diag p - p p') by row."""
    n, A = table.shape
    add_parts(direction, sharing, batch.listed, table)
    for k in range(n):
        middle = 0.0
        for a in range(A):
            middle += batch.old[k, a] * table[k, a]
        for a in range(A):
            table[k, a] = share[k] * batch.old[k, a] * (table[k, a] - middle)
    collect_parts(table, sharing, batch.listed, out)
    add_scaled(out, damping, direction, batch.listed.runs, out)


@njit(cache=True)
def natural_direction(gradient, sharing, share, batch, damping, iterations, table):
    """Return the solution x of (F + damping) x = gradient by conjugate gradients, and x' (F + damping) x."""
    x, product = np.zeros(gradient.size), np.zeros(gradient.size)
    residual, direction = gradient.copy(), gradient.copy()
    left = np.dot(residual, residual)
    least = ENOUGH * left
    for _ in range(iterations):
        if left <= least:
            break
        fisher_product(direction, sharing, share, batch, damping, table, product)
        length = left / np.dot(direction, product)
        add_scaled(x, length, direction, batch.listed.runs, x)
        add_scaled(residual, -length, product, batch.listed.runs, residual)
        now = np.dot(residual, residual)
        add_scaled(residual, now / left, direction, batch.listed.runs, direction)
        left = now
    fisher_product(x, sharing, share, batch, damping, table, product)
    return x, np.dot(x, product)


@njit(cache=True)
def trust_region_step(parts, batch, region):
    """Improve the parts in place; return whether a step was taken.

    To second order, the first step has the mean KL divergence `radius`. It is shortened until the surrogate improves and the
    exact mean KL divergence is at most `radius`.
    """
    place, actions, advantage, old = batch.place, batch.actions, batch.advantage, batch.old
    sharing = region.sharing
    n, A = old.shape
    share, slope = np.zeros(n), np.zeros(old.shape)
    for i in range(place.size):
        k = place[i]
        share[k] += 1.0 / place.size
        for c in range(A):
            toward = (1.0 if c == actions[i] else 0.0) - old[k, c]
            slope[k, c] += advantage[i] * toward / place.size
    gradient, moved = np.zeros(parts.size), np.zeros(parts.size)
    collect_parts(slope, sharing, batch.listed, gradient)
    table, new = np.zeros(old.shape), np.zeros(old.shape)
    direction, curvature = natural_direction(gradient, sharing, share, batch, region.damping, region.iterations, table)
    if not curvature > 0.0:
        return False
    length = math.sqrt(2.0 * region.radius / curvature)
    for _ in range(region.tries):
        add_scaled(parts, length, direction, batch.listed.runs, moved)
        add_parts(moved, sharing, batch.listed, table)
        softmax_table(table, batch.available, new)
        divergence, surrogate = 0.0, 0.0
        for k in range(n):
            for a in range(A):
                if old[k, a] > 0.0:
                    ratio = old[k, a] / max(new[k, a], 1e-300)
                    divergence += share[k] * old[k, a] * math.log(ratio)
        for i in range(place.size):
            k, a = place[i], actions[i]
            surrogate += advantage[i] * (new[k, a] / old[k, a] - 1.0)
        if surrogate > 0.0 and divergence <= region.radius:
            add_scaled(parts, length, direction, batch.listed.runs, parts)
            return True
        length *= region.shrink
    return False
