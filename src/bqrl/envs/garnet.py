"""Garnet: random problems of any size, the same for the same seed.

Each row has a few random successors with random probabilities; rewards are random whole numbers per state and action. The
construction follows Archibald, McKinnon and Thomas (1995, "On the generation of Markov decision processes") and Bhatnagar,
Sutton, Ghavamzadeh and Lee (2009, "Natural actor-critic algorithms"). Dirichlet probabilities and whole rewards, which put the
returns on a lattice, are our own choice, and so are the default sizes.
"""

from __future__ import annotations

import numpy as np

from bqrl.checks import random_seed, whole
from bqrl.mdp.model import MDP

UNIT, STAGE = "points", "stage"


def garnet(
    states: int = 12, actions: int = 4, successors: int = 3, largest_reward: int = 4, horizon: int = 10, seed: int = 7
) -> MDP:
    """Return a random problem.

    Parameters
    ----------
    states, actions, horizon : int
        Size of the problem.
    successors : int
        Number of possible successors per row.
    largest_reward : int
        Rewards are uniform on 0 .. largest_reward.
    seed : int
        Seed of the random numbers.

    Returns
    -------
    MDP

    Examples
    --------
    >>> garnet()
    MDP(H=10, S=12, A=4, start=0, 144 transitions, stationary)
    """
    S, A = whole(states, "states", 1), whole(actions, "actions", 1)
    branches = whole(successors, "successors", 1, S)
    rng = np.random.default_rng(random_seed(seed))
    P, R = np.zeros((S, A, S)), rng.integers(0, whole(largest_reward, "largest_reward") + 1, (S, A)).astype(float)
    for s in range(S):
        for a in range(A):
            P[s, a, rng.choice(S, branches, replace=False)] = rng.dirichlet(np.ones(branches))
    return MDP(
        P, R, horizon=horizon, state_names=[f"state {s}" for s in range(S)], action_names=[f"action {a}" for a in range(A)]
    )  # fmt: skip
