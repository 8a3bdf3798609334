"""Policies that several test files share: one of each kind, a custom one; and following one step by step."""

import numpy as np

import bqrl
from bqrl import MixturePolicy, StochasticPolicy
from bqrl.planners.curve import guarantee_curve
from bqrl.policies.shares import uniform


def six_kinds(mdp, tau=0.3):
    curve = guarantee_curve(mdp, keep=True)
    target = curve.policy(tau)
    markov = bqrl.solve(mdp, tau, planner="expected").policy
    return [
        markov,
        StochasticPolicy(uniform(mdp)),
        target,
        target.to_labels(mdp),
        curve.level_policy(tau),
        MixturePolicy([markov, target], [0.25, 0.75]),
    ]


class Alternating(bqrl.Policy):
    """A custom policy with the methods of an episode only: the memory is the next action."""

    def start(self, u=None):
        return 0

    def act(self, h, s, memory):
        return memory

    def next(self, memory, h, s, action, reward, s_next):
        return 1 - action


COINS = bqrl.MDP([(0, a, 0, 0.5, r) for a in (0, 1) for r in (0.0, 2.0 + a)], horizon=3)


def decisions(mdp, policy):
    """(stage, history of outcomes) -> action, over all histories of positive probability."""
    found = {}
    open_ = [((int(s),), int(s), policy.start()) for s in np.flatnonzero(mdp.mu)]
    for h in range(mdp.H):
        after = []
        for history, s, memory in open_:
            a = found[h, history] = policy.act(h, s, memory)
            for t, p, r in zip(*mdp.outcomes(h, s, a), strict=True):
                if p > 0.0:
                    after.append(
                        ((*history, a, float(r), int(t)), int(t), policy.next(memory, h, s, a, float(r), int(t)))
                    )
        open_ = after
    return found


def followed(mdp, policy):
    """Law of the return and occupancies (H, S, A) from the methods of the policy alone, history by history."""
    mass, shares = {}, np.zeros((mdp.H, mdp.S, mdp.A))
    ahead = [(0, int(s), policy.start(), 0.0, float(mdp.mu[s])) for s in np.flatnonzero(mdp.mu)]
    while ahead:
        h, s, memory, total, chance = ahead.pop()
        if h == mdp.H:
            mass[total] = mass.get(total, 0.0) + chance
            continue
        a = policy.act(h, s, memory)
        shares[h, s, a] += chance
        for t, p, r in zip(*mdp.outcomes(h, s, a), strict=True):
            after = policy.next(memory, h, s, a, float(r), int(t))
            ahead.append((h + 1, int(t), after, total + mdp.discount**h * float(r), chance * p))
    return bqrl.Law(list(mass), list(mass.values())), shares
