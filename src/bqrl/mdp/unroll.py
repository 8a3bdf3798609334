"""Policies turned into other kinds, where that loses nothing."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from bqrl.mdp.model import MDP
from bqrl.mdp.policy import LabelPolicy, MarkovPolicy, MixturePolicy, Policy, check_fits

MAX_LABELS = 1_000_000


class Acting(Protocol):
    """What an episode needs of a policy."""

    def start(self) -> Any:
        """Memory before the first stage."""

    def act(self, h: int, s: int, memory: Any) -> int:
        """Action at stage `h` in state `s`."""

    def next(self, memory: Any, h: int, s: int, action: int, reward: float, s_next: int) -> Any:
        """Memory after a transition of stage `h`."""


def to_markov(policy: Policy, mdp: MDP) -> MarkovPolicy:
    """The policy without memory; ValueError where two memories that can be met in one state act differently."""
    if isinstance(policy, MarkovPolicy):
        return policy
    _check(policy, mdp)
    actions = np.full((mdp.H, mdp.S), -1, np.int64)
    for h, met in enumerate(_memories(policy, mdp)):
        for s, memory in met:
            a = policy.act(h, s, memory)
            if actions[h, s] not in (-1, a):
                raise ValueError(
                    f"the policy's action in state {mdp.state_label(s)} at stage {h} depends on its memory; use to_labels"
                )
            actions[h, s] = a
    for h in range(mdp.H):  # states that are never met: any action that exists
        missing = actions[h] < 0
        actions[h, missing] = mdp.stage(h).available.argmax(axis=1)[missing]
    return MarkovPolicy(actions)


def to_labels(policy: Policy, mdp: MDP) -> LabelPolicy:
    """The policy as a graph of labels: one node for each (stage, state, memory) that can be met."""
    if isinstance(policy, LabelPolicy):
        return policy
    _check(policy, mdp)
    return label_graph(policy, mdp)


def label_graph(policy: Acting, mdp: MDP) -> LabelPolicy:
    """Whatever acts on a memory that can be compared, as a graph of labels."""
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
        raise ValueError("a mixture draws its policy at the start; convert its parts instead")


def _memories(policy: Acting, mdp: MDP) -> list[list[tuple[int, Any]]]:
    """The (state, memory) pairs that can be met at each stage."""
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
            raise ValueError(f"the policy has more than {MAX_LABELS} labels by stage {h + 1}; it stays as it is")
    return stages


def _outcomes(mdp: MDP, h: int, s: int, a: int) -> list[tuple[int, float, float]]:
    successors, probabilities, rewards = mdp.outcomes(h, s, a)
    rows = zip(successors.tolist(), probabilities.tolist(), rewards.tolist(), strict=True)
    return [(t, p, r) for t, p, r in rows if p > 0.0]
