"""Markov policies: the action depends on the stage and the state."""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.errors import PolicyError
from bqrl.mdp.arrays import ActionArray, FloatArray, IntArray, read_only
from bqrl.mdp.model import MDP
from bqrl.policies.pairs import limited_pairs
from bqrl.policies.protocol import THIS_MODEL, Policy, check_fits, check_rewards
from bqrl.policies.target import action_dtype


class MarkovPolicy(Policy):
    """Action by stage and state; the policy has no memory.

    The planners "expected" and "greedy" return one, and so does `policy.to_markov(mdp)` if the memory is never used.

    Parameters
    ----------
    actions : array_like of int, shape (H, S)
        Indices of actions.

    Attributes
    ----------
    actions : ndarray of shape (H, S)
        The same, read-only.

    Examples
    --------
    >>> MarkovPolicy([[0, 1], [1, 1]]).act(0, 1)
    1
    """

    kind = "markov"

    def __init__(self, actions: Any) -> None:
        table = np.asarray(actions)
        if table.ndim != 2 or table.size == 0 or table.dtype.kind not in "iu" or table.min() < 0:
            raise PolicyError(
                f"actions must be whole numbers from 0 in shape (H, S), got {table.shape} of {table.dtype}"
            )
        small = table.dtype == np.int16  # as compiled loops write it
        self.actions: ActionArray = read_only(table.astype(np.int16 if small else action_dtype(int(table.max()) + 1)))
        self.H, self.S = table.shape

    def act(self, h: int, s: int, memory: Any = None) -> int:
        """Return the action at stage `h` in state `s`."""
        self._check(h, s, 0)
        return int(self.actions[h, s])

    def start_many(self, u: FloatArray) -> Any:
        """Return None: the policy has no memory."""
        return None

    def act_many(self, h: int, s: IntArray, memory: Any) -> IntArray:
        """Return the actions of many episodes."""
        return self.actions[h, s].astype(np.int64)

    def next_many(self, memory: Any, h: int, s: IntArray, a: IntArray, reward: FloatArray, s_next: IntArray) -> Any:
        """Return None: the policy has no memory."""
        return None

    def arrays(self) -> dict[str, Any]:
        """Return the action table."""
        return {"actions": self.actions}

    def __repr__(self) -> str:
        return f"MarkovPolicy(H={self.H}, S={self.S})"


def to_markov(policy: Policy, mdp: MDP, rewards: str = THIS_MODEL) -> MarkovPolicy:
    """Return the same policy without memory; raise PolicyError if an action depends on the memory."""
    if isinstance(policy, MarkovPolicy):
        return policy
    check_fits(policy, mdp)
    check_rewards(policy, mdp, rewards)
    policy.check_unrolled()
    actions = np.full((mdp.H, mdp.S), -1, np.int64)
    for h, pairs in zip(range(mdp.H), limited_pairs(policy, mdp), strict=False):
        actions[h, pairs.state] = pairs.action
        other = actions[h, pairs.state] != pairs.action
        if other.any():
            s, a = int(pairs.state[other.argmax()]), int(pairs.action[other.argmax()])
            raise PolicyError(
                f"the policy must play one action in state {mdp.state_label(s)} at stage {h + 1}, got {a} and "
                f"{int(actions[h, s])}: it depends on its memory; use to_labels, or solve with rule=",
                stage=h, state=s, action=int(actions[h, s]),
            )  # fmt: skip
        missing = actions[h] < 0  # states that are never reached get any available action
        actions[h, missing] = mdp.stage(h).available.argmax(axis=1)[missing]
    return MarkovPolicy(actions)
