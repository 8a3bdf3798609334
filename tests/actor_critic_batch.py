"""A batch of random episodes for the tests of actor-critic updates."""

import numpy as np

from bqrl.learners.actor_critic import list_rows
from bqrl.loops.actor_critic import EpisodeBatch, add_parts, softmax_table

H, S, A, B = 3, 4, 3, 6
SIZE = H * S * A + S * A + H * A
EVERYWHERE = list_rows(np.arange(H * S), np.zeros(SIZE // A, bool), (H, S, A))


def random_batch():
    """Random parts of a softmax table, and episodes that their policy played: as tables, and as a batch."""
    rng = np.random.default_rng(3)
    available = rng.random((H, S, A)) < 0.8
    available[:, :, 0] = True
    parts = rng.normal(size=SIZE)
    old = policy(parts, 0.7, available)
    states = rng.integers(0, S, (B, H + 1))
    actions = np.array([[rng.choice(A, p=old[h, states[b, h]]) for h in range(H)] for b in range(B)])
    played = states, actions, rng.normal(size=(B, H)), old, available
    rows, place = np.unique(np.arange(H) * S + states[:, :-1], return_inverse=True)
    assert rows.size < H * S
    shares, exists = (table.reshape(-1, A)[rows] for table in (old, available))
    listed, steps = list_rows(rows, np.zeros(SIZE // A, bool), (H, S, A)), (actions.reshape(-1), played[2].reshape(-1))
    return parts, played, EpisodeBatch(listed, place.reshape(-1), *steps, shares, exists)


def everywhere(played, batch):
    """The same batch with a list of all rows."""
    old, available = (table.reshape(-1, A) for table in played[3:])
    return batch._replace(listed=EVERYWHERE, place=batch.listed.rows[batch.place], old=old, available=available)


def policy(parts, sharing, available):
    """Action probabilities of a softmax table."""
    logits, chances = np.zeros((H * S, A)), np.zeros((H * S, A))
    add_parts(parts, sharing, EVERYWHERE, logits)
    softmax_table(logits, available.reshape(-1, A), chances)
    return chances.reshape(H, S, A)
