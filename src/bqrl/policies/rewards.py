"""Checks that a model has the rewards that a policy was planned for, if the policy tracks rewards."""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.checks import choice
from bqrl.errors import PolicyError
from bqrl.mdp.model import MDP
from bqrl.mdp.paid import SAME, Fault
from bqrl.policies.labels import LabelPolicy
from bqrl.policies.levels import QuantileLevelPolicy
from bqrl.policies.mixture import MixturePolicy
from bqrl.policies.pairs import reached_pairs
from bqrl.policies.protocol import Policy
from bqrl.policies.target import TargetPolicy

PLANNED, THIS_MODEL = "planned", "this model"


def check_rewards(policy: Policy, mdp: MDP, rewards: Any = PLANNED) -> None:
    """Raise PolicyError if the policy tracks rewards and a transition of `mdp` has another reward than it was planned for."""
    if choice(rewards, "rewards", (PLANNED, THIS_MODEL)) == THIS_MODEL:
        return
    if isinstance(policy, MixturePolicy):
        for part in policy.policies:
            check_rewards(part, mdp)
        return
    fault = _fault(policy, mdp)
    if fault is not None:
        h, s, a, s_next, planned, found = fault
        where = f"from {mdp.state_label(s)} to {mdp.state_label(s_next)} with {mdp.action_label(a)} at stage {h + 1}"
        raise PolicyError(
            f"the policy must meet the rewards that it was planned for, {planned:g} {where}, got {found:g}; evaluate it in a "
            f"model with these, or pass rewards='{THIS_MODEL}' to let it follow the rewards of this one",
            stage=h, state=s, action=a,
        )  # fmt: skip


def _fault(policy: Policy, mdp: MDP) -> Fault | None:
    if isinstance(policy, LabelPolicy):
        return _label_fault(policy, mdp)
    targets = policy.targets if isinstance(policy, QuantileLevelPolicy) else policy
    paid = targets.grid.paid if isinstance(targets, TargetPolicy) else None
    return None if paid is None else paid.fault(mdp)


def _label_fault(policy: LabelPolicy, mdp: MDP) -> Fault | None:
    """Return an outcome of `mdp` whose reward decides the next label but is not listed with the label; None if there is none.

    A label with one continuation per successor, as in models whose rewards are not random, does not need the reward.
    """
    label = np.repeat(np.arange(policy.action.size), np.diff(policy.child_start))
    key = label * policy.S + policy.successor
    order = np.lexsort((policy.child, key))
    differs = (np.diff(key[order]) == 0) & (np.diff(policy.child[order]) != 0)
    looked_up = np.unique(key[order][1:][differs])
    if not looked_up.size:
        return None
    tol = SAME * max(1.0, float(np.abs(policy.reward).max()))
    for h, pairs in zip(range(mdp.H), reached_pairs(policy, mdp), strict=False):
        stage, memory = mdp.stage(h), np.asarray(pairs.memory)
        v = np.where(memory < 0, policy.root[pairs.state], memory)[pairs.source]
        t, r = stage.successor[pairs.outcome].astype(np.int64), stage.reward[pairs.outcome]
        for i in np.flatnonzero(np.isin(v * policy.S + t, looked_up)).tolist():
            here = slice(policy.child_start[v[i]], policy.child_start[v[i] + 1])
            known = policy.reward[here][policy.successor[here] == t[i]]
            nearest = known[np.abs(known - r[i]).argmin()]
            if abs(nearest - r[i]) > tol:
                s, a = (int(part[pairs.source[i]]) for part in (pairs.state, pairs.action))
                return Fault(h, s, a, int(t[i]), float(nearest), float(r[i]))
    return None
