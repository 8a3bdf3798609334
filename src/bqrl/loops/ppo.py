"""The epochs of PPO over a batch: clipped ratios, an entropy bonus, Adam."""

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from bqrl.loops.actor_critic import add_parts, collect_parts, softmax_row

KEEP_MEAN, KEEP_SQUARE, TINY = 0.9, 0.999, 1e-8  # Adam's usual constants


class Rule(NamedTuple):
    """The constants of PPO."""

    sharing: float
    minibatch: int
    clip: float
    entropy: float
    rate: float


class Adam(NamedTuple):
    """Running moments of the gradient."""

    mean: Any
    square: Any


@njit(cache=True)
def ppo_epochs(parts, batch, orders, rule, adam, steps):
    """Improve the parts in place with one Adam step per minibatch; return the number of steps so far.

    `orders` (epochs, B * H) holds one permutation of the batch per epoch. The runs of the batch cover the parts of all rows that
    were ever visited: the other moments are 0, and the other parts do not move.
    """
    old, mean, square = batch.old, adam.mean, adam.square
    minibatch, clip = rule.minibatch, rule.clip
    E, N = orders.shape
    A = old.shape[1]
    logits, slope = np.zeros(old.shape), np.zeros(old.shape)
    p, gradient = np.zeros(A), np.zeros(parts.size)
    add_parts(parts, rule.sharing, batch.listed, logits)
    for e in range(E):
        for begin in range(0, N, minibatch):
            end = min(begin + minibatch, N)
            slope[:] = 0.0
            for j in range(begin, end):
                i = orders[e, j]
                k, a, gain = batch.place[i], batch.actions[i], batch.advantage[i]
                softmax_row(logits[k], batch.available[k], p)
                ratio = p[a] / old[k, a]
                # Where the clipped objective is flat, the sample has no gradient.
                flat = ratio > 1.0 + clip if gain > 0.0 else ratio < 1.0 - clip
                pull = 0.0 if flat else gain * ratio
                mixed = 0.0
                for c in range(A):
                    if p[c] > 0.0:
                        mixed -= p[c] * math.log(p[c])
                for c in range(A):
                    if p[c] > 0.0:
                        toward = (1.0 if c == a else 0.0) - p[c]
                        slope[k, c] += (pull * toward - rule.entropy * p[c] * (math.log(p[c]) + mixed)) / (end - begin)
            collect_parts(slope, rule.sharing, batch.listed, gradient)
            steps += 1
            step = rule.rate * math.sqrt(1.0 - KEEP_SQUARE**steps) / (1.0 - KEEP_MEAN**steps)
            for r in range(batch.listed.runs.shape[0]):
                for i in range(batch.listed.runs[r, 0], batch.listed.runs[r, 1]):
                    mean[i] = KEEP_MEAN * mean[i] + (1.0 - KEEP_MEAN) * gradient[i]
                    square[i] = KEEP_SQUARE * square[i] + (1.0 - KEEP_SQUARE) * gradient[i] * gradient[i]
                    parts[i] += step * mean[i] / (math.sqrt(square[i]) + TINY)
            add_parts(parts, rule.sharing, batch.listed, logits)
    return steps
