"""A batch of random episodes for the tests of actor-critic updates."""

import numpy as np

from bqrl.loops.actor_critic import EpisodeBatch, add_parts, softmax_table

H, S, A, B = 3, 4, 3, 6
SIZE = H * S * A + S * A + H * A


def random_batch():
    """Random parts of a softmax table, and episodes that their policy played."""
    rng = np.random.default_rng(3)
    available = rng.random((H, S, A)) < 0.8
    available[:, :, 0] = True
    parts = rng.normal(size=SIZE)
    old = policy(parts, 0.7, available)
    states = rng.integers(0, S, (B, H + 1))
    actions = np.array([[rng.choice(A, p=old[h, states[b, h]]) for h in range(H)] for b in range(B)])
    return parts, EpisodeBatch(states, actions, rng.normal(size=(B, H)), old, available)


def policy(parts, sharing, available):
    """Action probabilities of a softmax table."""
    logits, chances = np.zeros((H, S, A)), np.zeros((H, S, A))
    add_parts(parts, sharing, logits)
    softmax_table(logits, available, chances)
    return chances
