"""How far the return law moves when the kernel does (perturbation lemma), beside how far it really moves.

Two copies of an episode under the kernels P and P_bar, coupled as long as possible, part at stage h with probability at
most E TV(P_h, P_bar_h); from then on their rewards differ by at most the span of each later stage. Hence

    W_1(G^P, G^P_bar) <= sum_h w_h E_{pi, P_bar} TV(P_h(. | S_h, A_h), P_bar_h(. | S_h, A_h)),   w_h = sum_{k > h} span_k.

Rewards in [0, 1] have span 1 at every stage, which is the paper's weight H - h - 1.
Corrected: with rewards on (s, a, s') the parting transition itself pays differently, so its stage counts, too:
w_h = sum_{k >= h} span_k, which is H - h for rewards in [0, 1]. Rewards of any range count by their span at each stage,
discounted; random rewards make the outcome (s', reward), so the distance is between the laws of outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from bqrl.laws.law import Law
from bqrl.mdp.forms import FloatArray
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import MixturePolicy, Policy, TargetPolicy
from bqrl.planners.evaluate import evaluate
from bqrl.planners.occupancy import play_shares
from bqrl.theory.checks import problem


def reward_spans(mdp: MDP) -> FloatArray:
    """Largest minus smallest reward of every stage in the money of stage 0, over the states it can meet, shape (H,)."""
    spans = np.empty(mdp.H)
    for h in range(mdp.H):
        stage = mdp.stage(h)
        met = np.repeat(np.repeat(mdp.reachable[h], mdp.A), np.diff(stage.row_start))
        spans[h] = mdp.discount**h * np.ptp(stage.reward[met])
    return spans


def mismatch_weights(mdp: MDP) -> FloatArray:
    """w_h: by how much the return can differ once two episodes part at stage h, shape (H,)."""
    spans = reward_spans(mdp)
    from_here = np.cumsum(spans[::-1])[::-1]
    return from_here - spans if mdp.row_reward is not None else from_here


def sharp_weights(mdp: MDP) -> FloatArray:
    """The same from what can still follow, shape (H,): never above `mismatch_weights`, often far below.

    Two episodes that part at a row of stage h go on from two of its outcomes, so their returns differ by at most the range
    of r + (what can still be collected from s') over the row's outcomes; w_h is the largest such range. In asset selling it
    is 1, one sale, where the stages' spans add up to H - h - 1.
    """
    low, high, weights = np.zeros(mdp.S), np.zeros(mdp.S), np.zeros(mdp.H)
    for h in range(mdp.H - 1, -1, -1):
        stage = mdp.stage(h)
        rows = np.flatnonzero(np.diff(stage.row_start))
        worth = mdp.discount**h * stage.reward
        least = np.minimum.reduceat(worth + low[stage.successor], stage.row_start[rows])
        most = np.maximum.reduceat(worth + high[stage.successor], stage.row_start[rows])
        parts = mdp.reachable[h][rows // mdp.A] & (np.diff(stage.row_start)[rows] > 1)
        weights[h] = (most - least)[parts].max(initial=0.0)
        low, high = np.full(mdp.S, np.inf), np.full(mdp.S, -np.inf)
        np.minimum.at(low, rows // mdp.A, least)
        np.maximum.at(high, rows // mdp.A, most)
    return weights


def total_variation(mdp: MDP, other: MDP) -> FloatArray:
    """TV between the rows of two kernels, shape (H, S, A); between laws of (s', reward) where rewards are on outcomes."""
    if (mdp.H, mdp.S, mdp.A) != (other.H, other.S, other.A):
        raise ValueError(f"the problems differ in size: {mdp!r} and {other!r}")
    by_row = mdp.row_reward is not None and other.row_reward is not None
    if mdp.successor is other.successor:  # one was made from the other by with_probability
        rows = np.repeat(np.arange(mdp.row_start.size - 1), np.diff(mdp.row_start))
        if not by_row or np.unique(rows * mdp.S + mdp.successor).size == rows.size:
            halves = np.bincount(rows, np.abs(mdp.probability - other.probability), mdp.row_start.size - 1) / 2.0
            return np.array(np.broadcast_to(halves.reshape(mdp.available.shape), (mdp.H, mdp.S, mdp.A)))
    distance = np.empty((mdp.H, mdp.S, mdp.A))
    for h in range(mdp.H):
        if h and mdp.stationary and other.stationary and (by_row or len(mdp.reward) == len(other.reward) == 1):
            distance[h] = distance[0]
            continue
        here, there = mdp.stage(h), other.stage(h)
        if not np.array_equal(here.available, there.available):
            raise ValueError(f"the problems differ in the actions that exist at stage {h}")
        if by_row and not np.array_equal(_row_reward(mdp, h), _row_reward(other, h)):
            raise ValueError(f"the problems differ in their rewards at stage {h}; only kernels may differ")
        keys, mass = [], []
        for stage, sign in ((here, 1.0), (there, -1.0)):
            rows = np.repeat(np.arange(mdp.S * mdp.A), np.diff(stage.row_start))
            reward = np.zeros(rows.size) if by_row else stage.reward
            keys.append(np.column_stack([rows, stage.successor, reward]))
            mass.append(sign * stage.probability)
        outcome, which = np.unique(np.concatenate(keys), axis=0, return_inverse=True)
        moved = np.abs(np.bincount(which.ravel(), weights=np.concatenate(mass), minlength=len(outcome)))
        halves = np.bincount(outcome[:, 0].astype(np.int64), weights=moved, minlength=mdp.S * mdp.A) / 2.0
        distance[h] = halves.reshape(mdp.S, mdp.A)
    return distance


@dataclass(frozen=True, slots=True, eq=False)
class Perturbation:
    """The bound of the perturbation lemma and what it bounds."""

    bound: float
    distance: float  # W_1 between the two return laws
    weights: FloatArray  # (H,) w_h
    variation: FloatArray  # (H,) expected TV at each stage, along the policy under the second kernel

    @property
    def ratio(self) -> float:
        """Bound over distance; infinite where the laws agree."""
        return self.bound / self.distance if self.distance > 0.0 else np.inf


def return_law_perturbation(mdp: MDP, other: MDP, policy: Policy) -> Perturbation:
    """The bound on W_1 between the policy's return laws in `mdp` and in `other`, beside the distance itself.

    The expectation runs along `other`, the lemma's P_bar; exchanging the two gives a second valid bound. The policy may be
    of any kind: as long as the episodes agree, so do its memories.
    """
    apart = total_variation(problem(mdp), problem(other, "other"))
    weights = np.maximum(mismatch_weights(mdp), mismatch_weights(other))  # equal unless one reaches more states
    laws = []
    for kernel in (mdp, other):
        law = evaluate(kernel, policy)
        if not isinstance(law, Law):
            raise ValueError("the true distance needs returns on an exact grid; round the rewards or drop the discount")
        laws.append(law)
    variation = np.einsum("hsa,hsa->h", play_shares(other, _listed_as(policy, other)), apart)
    return Perturbation(float(weights @ variation), laws[0].wasserstein(laws[1]), weights, variation)


def _row_reward(mdp: MDP, h: int) -> FloatArray:
    by_row = mdp.stage(h).row_reward
    assert by_row is not None
    return by_row


def _listed_as(policy: Policy, mdp: MDP) -> Policy:
    """The policy with its grid's rewards in the order in which `mdp` lists its outcomes: it may come from elsewhere."""
    if isinstance(policy, MixturePolicy):
        return MixturePolicy([_listed_as(part, mdp) for part in policy.policies], policy.weights)
    if not isinstance(policy, TargetPolicy):
        return policy
    columns = policy.grid
    return TargetPolicy(
        replace(columns, units=columns.units_of(mdp.reward)), policy.actions, policy.target, policy.extra
    )
