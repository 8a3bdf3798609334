"""Return-law perturbation for a fixed policy (lemma of that name): its bound, and the distance that it bounds.

Couple an episode under the kernel P with one under P_bar so that they agree as long as possible. They separate at stage h
with probability at most E TV(P_h, P_bar_h); from then on their rewards differ, in each later stage, by at most the span of
that stage's rewards. Hence

    W_1(G^P, G^P_bar) <= sum_h w_h E_{pi, P_bar} TV(P_h(. | S_h, A_h), P_bar_h(. | S_h, A_h)),   w_h = sum_{k > h} span_k.

Rewards in [0, 1] have span at most 1, which gives the paper's weight H - h - 1.

Corrected: if rewards depend on (s, a, s'), the two episodes may already receive different rewards in the transition at
which they separate, so w_h = sum_{k >= h} span_k, which is H - h for rewards in [0, 1]. For rewards of any range the
(discounted) span of each stage takes the place of 1. Where rewards are random the outcome of a row is (s', reward), and TV
is the distance between the laws of outcomes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqrl.checks import bad_value
from bqrl.mdp.arrays import FloatArray, read_only
from bqrl.mdp.model import MDP, check_mdp
from bqrl.policies.forward import play_shares
from bqrl.policies.protocol import Policy
from bqrl.theory.inputs import exact_law, reachable_outcomes
from bqrl.theory.total_variation import total_variation


def reward_spans(*problems: MDP) -> FloatArray:
    """Return largest minus smallest reward of every stage (H,), over the reachable states, discounted to stage 0."""
    rewards = [
        np.concatenate([mdp.stage(h).reward[reachable_outcomes(mdp, h)] for mdp in problems])
        for h in range(problems[0].H)
    ]
    return np.array([problems[0].discount ** h * np.ptp(reward) for h, reward in enumerate(rewards)])


def mismatch_weights(*problems: MDP) -> FloatArray:
    """Return the weights w_h of the lemma (H,), from the spans of the stages over all given problems."""
    spans = reward_spans(*problems)
    from_here = np.cumsum(spans[::-1])[::-1]
    return from_here - spans if all(mdp.row_reward is not None for mdp in problems) else from_here


def sharp_weights(mdp: MDP) -> FloatArray:
    """Return weights w_h (H,) from the returns that can follow each outcome; never larger than `mismatch_weights`.

    Two episodes that separate at a row of stage h continue from two outcomes of that row. Their returns therefore differ by
    at most the range, over the outcomes of the row, of r plus the return that can follow from s'. The weight w_h is the
    largest of these ranges. In asset selling it is 1, because there is only one sale, while the spans of the stages add up to
    H - h - 1.
    """
    low, high, weights = np.zeros(mdp.S), np.zeros(mdp.S), np.zeros(mdp.H)
    for h in range(mdp.H - 1, -1, -1):
        stage = mdp.stage(h)
        rows = np.flatnonzero(np.diff(stage.row_start))
        worth = mdp.discount**h * stage.reward
        least = np.minimum.reduceat(worth + low[stage.successor], stage.row_start[rows])
        most = np.maximum.reduceat(worth + high[stage.successor], stage.row_start[rows])
        several = mdp.reachable[h][rows // mdp.A] & (np.diff(stage.row_start)[rows] > 1)
        weights[h] = (most - least)[several].max(initial=0.0)
        low, high = np.full(mdp.S, np.inf), np.full(mdp.S, -np.inf)
        np.minimum.at(low, rows // mdp.A, least)
        np.maximum.at(high, rows // mdp.A, most)
    return weights


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Perturbation:
    """The bound of the perturbation lemma and the distance that it bounds."""

    bound: float  # sum_h w_h E TV_h
    distance: float  # W_1 between the two return laws
    weights: FloatArray  # (H,)  the weights w_h
    variation: FloatArray  # (H,)  expected TV at each stage, along the policy under the second kernel


def return_law_perturbation(mdp: MDP, other: MDP, policy: Policy) -> Perturbation:
    """Return W_1 between the laws of a fixed policy in two problems, and its bound (return-law perturbation).

    Parameters
    ----------
    mdp, other : MDP
        Problems that differ only in their kernels; rewards that depend on the outcome may differ too. The expectation is
        taken under `other`, the kernel P_bar of the lemma; exchanging the two problems gives a second valid bound.
    policy : Policy
        Any policy; its memory agrees as long as the two episodes agree.

    Returns
    -------
    Perturbation

    Examples
    --------
    >>> import bqrl
    >>> mdp = bqrl.envs.make("AssetSelling")
    >>> return_law_perturbation(mdp, mdp, bqrl.solve(mdp, 0.1).policy).bound
    0.0
    """
    mdp, other = check_mdp(mdp), check_mdp(other, "other")
    apart = total_variation(mdp, other)
    if mdp.discount != other.discount or not np.array_equal(mdp.mu, other.mu):
        raise bad_value("other", other, "have the start and the discount of mdp", repr(other))
    weights = mismatch_weights(mdp, other)
    first, second = (exact_law(kernel, policy, "the W_1 distance") for kernel in (mdp, other))
    variation = np.einsum("hsa,hsa->h", play_shares(other, policy), apart)
    return Perturbation(
        bound=float(weights @ variation),
        distance=first.wasserstein(second),
        weights=read_only(weights),
        variation=read_only(variation),
    )
