"""Conversions between kinds of policy that lose nothing."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from bqrl.errors import PolicyError, SizeError
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import LabelPolicy, MarkovPolicy, MixturePolicy, Policy, check_fits

MAX_LABELS = 1_000_000


class Acting(Protocol):
    """The methods of a policy that an episode uses."""

    def start(self) -> Any:
        """Memory before the first stage."""

    def act(self, h: int, s: int, memory: Any) -> int:
        """Action at stage `h` in state `s`."""

    def next(self, memory: Any, h: int, s: int, action: int, reward: float, s_next: int) -> Any:
        """Memory after a transition of stage `h`."""


def to_markov(policy: Policy, mdp: MDP) -> MarkovPolicy:
    """The policy without memory; raises PolicyError if its action in a (stage, state) depends on the memory."""
    if isinstance(policy, MarkovPolicy):
        return policy
    _check(policy, mdp)
    actions = np.full((mdp.H, mdp.S), -1, np.int64)
    for h, met in enumerate(_memories(policy, mdp)):
        for s, memory in met:
            a = policy.act(h, s, memory)
            if actions[h, s] not in (-1, a):
                raise PolicyError(
                    f"the policy's action in state {mdp.state_label(s)} at stage {h} depends on its memory; use to_labels",
                    stage=h,
                    state=s,
                )
            actions[h, s] = a
    for h in range(mdp.H):  # states that are never reached: any action that exists
        missing = actions[h] < 0
        actions[h, missing] = mdp.stage(h).available.argmax(axis=1)[missing]
    return MarkovPolicy(actions)


def to_labels(policy: Policy, mdp: MDP) -> LabelPolicy:
    """The policy as a graph of labels: one node per (stage, state, memory) that is possible."""
    if isinstance(policy, LabelPolicy):
        return policy
    _check(policy, mdp)
    return label_graph(policy, mdp)


def label_graph(policy: Acting, mdp: MDP) -> LabelPolicy:
    """A policy with a hashable memory as a graph of labels."""
    stages = _memories(policy, mdp)
    number = [{key: i for i, key in enumerate(met)} for met in stages]
    first = np.cumsum([0, *(len(met) for met in stages)])
    root = np.full(mdp.S, -1, np.int64)
    action: list[int] = []
    starts, successor, reward, child = [0], [], [], []
    for h, met in enumerate(stages):
        for s, memory in met:
            a = policy.act(h, s, memory)
            action.append(a)
            for t, _, r in _outcomes(mdp, h, s, a):
                successor.append(t)
                reward.append(r)
                after = (t, policy.next(memory, h, s, a, r, t))
                child.append(int(first[h + 1]) + number[h + 1][after] if h + 1 < mdp.H else -1)
            starts.append(len(child))
    for s, memory in stages[0]:
        root[s] = number[0][s, memory]
    return LabelPolicy(
        mdp.H, root, np.array(action), np.array(starts), np.array(successor), np.array(reward, float), np.array(child)
    )


def _check(policy: Policy, mdp: MDP) -> None:
    check_fits(policy, mdp)
    if isinstance(policy, MixturePolicy):
        raise PolicyError("a mixture draws its policy at the start; convert its parts instead")


def _memories(policy: Acting, mdp: MDP) -> list[list[tuple[int, Any]]]:
    """The (state, memory) pairs that are possible at each stage."""
    stages = [[(int(s), policy.start()) for s in np.flatnonzero(mdp.mu)]]
    total = 0
    for h in range(mdp.H - 1):
        found: dict[tuple[int, Any], None] = {}
        for s, memory in stages[-1]:
            a = policy.act(h, s, memory)
            for t, _, r in _outcomes(mdp, h, s, a):
                found[t, policy.next(memory, h, s, a, r, t)] = None
        stages.append(list(found))
        total += len(found)
        if total > MAX_LABELS:
            raise SizeError(
                f"the policy has more than {MAX_LABELS} labels by stage {h + 1}; keep it in its own form",
                needed=total,
                limit=MAX_LABELS,
            )
    return stages


def _outcomes(mdp: MDP, h: int, s: int, a: int) -> list[tuple[int, float, float]]:
    successors, probabilities, rewards = mdp.outcomes(h, s, a)
    rows = zip(successors.tolist(), probabilities.tolist(), rewards.tolist(), strict=True)
    return [(t, p, r) for t, p, r in rows if p > 0.0]
