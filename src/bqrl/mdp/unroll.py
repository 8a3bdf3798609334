"""Enumeration of the (stage, state, memory) triples that a policy can reach: the basis of exact conversions."""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bqrl.errors import PolicyError, SizeError
from bqrl.mdp.arrays import FloatArray, IntArray
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
        known = f"{mdp.action_label(action)}, which is not available there" if 0 <= action < mdp.A else f"{action}"
        raise PolicyError(
            f"the policy plays action {known} in state {mdp.state_label(state)} at stage {h}; "
            f"the problem has actions 0 to {mdp.A - 1}", stage=h, state=state, action=action,
        )  # fmt: skip


def outcomes_played(mdp: MDP, h: int, s: int, a: int) -> tuple[NDArray[np.int32], FloatArray, FloatArray]:
    """Successors, probabilities and rewards of the action that a policy plays; PolicyError if it does not exist there."""
    if not (0 <= a < mdp.A and mdp.available[0 if mdp.stationary else h, s, a]):
        check_played(mdp, h, np.array([s]), np.array([a]))
    return mdp.outcomes(h, s, a)


def markov_actions(policy: Acting, mdp: MDP) -> IntArray:
    """Action by stage and state; raises PolicyError if an action depends on the memory."""
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
            a = policy.act(h, s, memory)
            action.append(a)
            for t, r in _outcomes(mdp, h, s, a):
                successor.append(t)
                reward.append(r)
                after = (t, policy.next(memory, h, s, a, r, t))
                child.append(int(first[h + 1]) + number[h + 1][after] if h + 1 < mdp.H else -1)
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
            a = policy.act(h, s, memory)
            for t, r in _outcomes(mdp, h, s, a):
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


def _outcomes(mdp: MDP, h: int, s: int, a: int) -> list[tuple[int, float]]:
    """Next states and rewards of the outcomes that can happen."""
    successors, probabilities, rewards = outcomes_played(mdp, h, s, a)
    happens = probabilities > 0.0
    return list(zip(successors[happens].tolist(), rewards[happens].tolist(), strict=True))
