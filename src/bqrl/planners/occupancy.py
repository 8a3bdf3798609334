"""State-action occupancy of a policy.

    share_h(s, a) = P(the episode is in s at stage h and the policy plays a).

This is the forward pass of `evaluate`; only states and actions are recorded.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from bqrl.kernels.layout import Rows
from bqrl.kernels.rollout import push_mass
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.find_grid import grid
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import MarkovPolicy, MixturePolicy, Policy, TargetPolicy, check_fits
from bqrl.planners.follow import sums_on


def play_shares(mdp: MDP, policy: Policy) -> FloatArray:
    """Probability of being in each state at each stage and playing each action there, shape (H, S, A); exact."""
    check_fits(policy, mdp)
    if isinstance(policy, MixturePolicy):
        parts = zip(policy.weights, policy.policies, strict=True)
        return np.asarray(sum(w * play_shares(mdp, part) for w, part in parts))
    if isinstance(policy, MarkovPolicy):
        return _of_markov(mdp, policy)
    return _of_target(mdp, policy) if isinstance(policy, TargetPolicy) else _of_memories(mdp, policy)


def _of_markov(mdp: MDP, policy: MarkovPolicy) -> FloatArray:
    shares = np.zeros((mdp.H, mdp.S, mdp.A))
    here: FloatArray = mdp.mu
    for h in range(mdp.H):
        stage = mdp.stage(h)
        shares[h, np.arange(mdp.S), policy.actions[h]] = here
        by_row = np.repeat(shares[h].reshape(-1), np.diff(stage.row_start))
        here = np.bincount(stage.successor, by_row * stage.probability, mdp.S).astype(np.float64)
    return shares


def _of_target(mdp: MDP, policy: TargetPolicy) -> FloatArray:
    shares = np.zeros((mdp.H, mdp.S, mdp.A))
    for h, sums, mass in target_masses(mdp, policy):
        played = policy.actions[h][:, policy.column(h, policy.target - sums)]
        for a in range(mdp.A):
            shares[h, :, a] = np.where(played == a, mass, 0.0).sum(axis=1)
    return shares


def target_masses(mdp: MDP, policy: TargetPolicy) -> Iterator[tuple[int, FloatArray, FloatArray]]:
    """For each stage the possible sums of rewards so far, and the probability (S, sums) of each state with each sum."""
    columns = policy.grid
    if not columns.units.size:  # a policy from a file knows its columns, not the rewards of the problem
        columns = grid(mdp) or columns
    sums = sums_on(mdp, columns)
    mass = mdp.mu[:, None].copy()
    for h in range(mdp.H):
        stage, values = mdp.stage(h), sums.values(h)
        yield h, values, mass
        column = policy.column(h, policy.target - values)
        out = np.zeros((mdp.S, sums.count(h + 1)))
        rows = Rows(stage.row_start, stage.successor, stage.probability)
        push_mass(rows, sums.moves(h), policy.actions[h], column, mass, out, 0, out.shape[1])
        mass = out


def _of_memories(mdp: MDP, policy: Policy) -> FloatArray:
    shares = np.zeros((mdp.H, mdp.S, mdp.A))
    mass: dict[tuple[int, Any], float] = {(int(s), policy.start()): float(mdp.mu[s]) for s in np.flatnonzero(mdp.mu)}
    for h in range(mdp.H):
        after: dict[tuple[int, Any], float] = defaultdict(float)
        for (s, memory), p in mass.items():
            a = policy.act(h, s, memory)
            shares[h, s, a] += p
            for t, q, r in zip(*(column.tolist() for column in mdp.outcomes(h, s, a)), strict=True):
                if q > 0.0:
                    after[t, policy.next(memory, h, s, a, r, t)] += p * q
        mass = after
    return shares
