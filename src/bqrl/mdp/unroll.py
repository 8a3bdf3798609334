"""Enumeration of the (stage, state, memory) triples that a policy can reach: the basis of exact conversions."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np

from bqrl.errors import PolicyError, SizeError
from bqrl.mdp.arrays import IntArray
from bqrl.mdp.model import MDP

MAX_LABELS = 1_000_000


class Acting(Protocol):
    """The methods of a policy that an episode uses."""

    def start(self) -> Any:
        """Memory before the first stage."""

    def act(self, h: int, s: int, memory: Any) -> int:
        """Action at stage `h` in state `s`."""

    def next(self, memory: Any, h: int, s: int, action: int, reward: float, s_next: int) -> Any:
        """Memory after a transition of stage `h`."""


def check_played(mdp: MDP, h: int, s: IntArray, a: IntArray) -> None:
    """Raise PolicyError unless every action `a` exists in its state `s` at stage `h`."""
    wrong = (a >= mdp.A) | (a < 0)
    if not wrong.any():
        wrong = ~mdp.stage(h).available[s, a]
    if wrong.any():
        state, action = int(s[wrong.argmax()]), int(a[wrong.argmax()])
        rule = f"an action from 0 to {mdp.A - 1}, got {action}"
        if 0 <= action < mdp.A:
            rule = f"an available action, got {mdp.action_label(action)}"
        raise PolicyError(
            f"the policy must play {rule} in state {mdp.state_label(state)} at stage {h}; is it a policy of this problem?",
            stage=h, state=state, action=action,
        )  # fmt: skip


class Move(NamedTuple):
    """An outcome of positive probability, and the (state, memory) that follows it."""

    outcome: int  # index among the outcomes of the row
    probability: float
    reward: float
    after: tuple[int, Any]


def moves_from(policy: Acting, mdp: MDP, h: int, s: int, memory: Any) -> tuple[int, list[Move]]:
    """The action of a policy at (stage, state, memory) and its moves; PolicyError if the action does not exist there.

    Every pass over the (state, memory) pairs of a policy goes through this function.
    """
    a = policy.act(h, s, memory)
    if not (0 <= a < mdp.A and mdp.available[0 if mdp.stationary else h, s, a]):
        check_played(mdp, h, np.array([s]), np.array([a]))
    listed = zip(*(column.tolist() for column in mdp.outcomes(h, s, a)), strict=True)
    return a, [
        Move(outcome=j, probability=p, reward=r, after=(t, policy.next(memory, h, s, a, r, t)))
        for j, (t, p, r) in enumerate(listed)
        if p > 0.0
    ]


def markov_actions(policy: Acting, mdp: MDP) -> IntArray:
    """Action by stage and state; raises PolicyError if an action depends on the memory."""
    actions = np.full((mdp.H, mdp.S), -1, np.int64)
    for h, met in enumerate(_memories(policy, mdp)):
        for s, memory in met:
            a = policy.act(h, s, memory)
            if actions[h, s] not in (-1, a):
                raise PolicyError(
                    f"the policy must play one action in state {mdp.state_label(s)} at stage {h}, got {int(actions[h, s])} and "
                    f"{a}: it depends on its memory; use to_labels", stage=h, state=s, action=a,
                )  # fmt: skip
            actions[h, s] = a
    for h in range(mdp.H):  # states that are never reached: any action that exists
        missing = actions[h] < 0
        actions[h, missing] = mdp.stage(h).available.argmax(axis=1)[missing]
    return actions


def graph_arrays(policy: Acting, mdp: MDP) -> dict[str, Any]:
    """The arrays of a label graph with one node per reachable (stage, state, memory)."""
    stages = _memories(policy, mdp)
    number = [{key: i for i, key in enumerate(met)} for met in stages]
    first = np.cumsum([0, *(len(met) for met in stages)])
    root = np.full(mdp.S, -1, np.int64)
    action: list[int] = []
    starts, successor, reward, child = [0], [], [], []
    for h, met in enumerate(stages):
        for s, memory in met:
            a, moves = moves_from(policy, mdp, h, s, memory)
            action.append(a)
            for move in moves:
                successor.append(move.after[0])
                reward.append(move.reward)
                child.append(int(first[h + 1]) + number[h + 1][move.after] if h + 1 < mdp.H else -1)
            starts.append(len(child))
    for s, memory in stages[0]:
        root[s] = number[0][s, memory]
    return {
        "root": root, "action": np.array(action), "child_start": np.array(starts), "successor": np.array(successor),
        "reward": np.array(reward, float), "child": np.array(child),
    }  # fmt: skip


def _memories(policy: Acting, mdp: MDP) -> list[list[tuple[int, Any]]]:
    """The reachable (state, memory) pairs of each stage."""
    stages = [[(int(s), policy.start()) for s in np.flatnonzero(mdp.mu)]]
    total = 0
    for h in range(mdp.H - 1):
        found: dict[tuple[int, Any], None] = {}
        for s, memory in stages[-1]:
            for move in moves_from(policy, mdp, h, s, memory)[1]:
                found[move.after] = None
        stages.append(list(found))
        total += len(found)
        if total > MAX_LABELS:
            raise SizeError(
                f"the policy must have at most {MAX_LABELS} labels, got {total} by stage {h + 1}; keep it in its own form",
                needed=total,
                limit=MAX_LABELS,
            )
    return stages
