"""Label graphs: the paper's recursive labels, which can represent any deterministic history-dependent policy."""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.errors import PolicyError
from bqrl.mdp.arrays import FloatArray, IntArray, read_only
from bqrl.mdp.model import MDP
from bqrl.mdp.paid import SAME, Fault
from bqrl.policies.pairs import limited_pairs, reached_pairs
from bqrl.policies.protocol import THIS_MODEL, Policy, check_fits, check_rewards


class LabelPolicy(Policy):
    """The paper's recursive label as a graph of n nodes: each has an action, and each outcome leads to the next node.

    The planners "frontier" and "capped-frontier" return one, and `policy.to_labels(mdp)` converts any policy without a random
    draw. The memory is the current node, -1 before the first stage.

    Attributes
    ----------
    root : ndarray of shape (S,)
        First node of every first state; -1 for other states.
    action : ndarray of shape (n,)
        Action of every node.
    child_start : ndarray of shape (n + 1,)
        The outcomes of node v are the entries child_start[v] to child_start[v + 1] - 1 of the next three arrays.
    successor, reward, child : ndarrays
        Next state and reward of every outcome, and the node that follows; -1 after the last stage.

    Examples
    --------
    >>> import bqrl
    >>> mdp = bqrl.envs.make("SafeOrRisky")
    >>> bqrl.solve(mdp, tau=0.1).policy.to_labels(mdp).kind
    'label'
    """

    kind = "label"
    stored = ("root", "action", "child_start", "successor", "reward", "child")

    def __init__(
        self, H: int, root: IntArray, action: IntArray, child_start: IntArray, successor: IntArray, reward: FloatArray,
        child: IntArray,
    ) -> None:  # fmt: skip
        self.H, self.S = H, root.size
        self.root, self.action, self.child_start = read_only(root), read_only(action), read_only(child_start)
        self.successor, self.reward, self.child = read_only(successor), read_only(reward), read_only(child)

    def start(self, u: float | None = None) -> int:
        """Return -1 for no node: the first state determines the first node."""
        return -1

    def node(self, s: int, memory: int) -> int:
        """Return the current node, or the first node of state `s` before the first stage."""
        v = int(self.root[s]) if memory < 0 else memory
        if v < 0:
            raise PolicyError(f"expected a first state of this label policy, got state {s}", stage=0, state=s)
        return v

    def act(self, h: int, s: int, memory: Any) -> int:
        """Return the action of the current label."""
        self._check(h, s, memory)
        return int(self.action[self.node(s, memory)])

    def next(self, memory: Any, h: int, s: int, action: int, reward: float, s_next: int) -> int:
        """Return the next label after the outcome (s_next, reward)."""
        v = self.node(s, memory)
        here = slice(self.child_start[v], self.child_start[v + 1])
        misses = np.abs(self.reward[here] - reward) + np.where(self.successor[here] == s_next, 0.0, np.inf)
        if misses.size == 0 or not np.isfinite(misses.min()):
            message = f"h={h}: expected a successor of state {s} under the current label, got state {s_next}"
            raise PolicyError(message, stage=h, state=s)
        return int(self.child[here][misses.argmin()])

    def reward_fault(self, mdp: MDP) -> Fault | None:
        """Return an outcome of `mdp` whose reward decides the next label but is not listed with the label; None if there is none.

        A label with one continuation per successor, as in models whose rewards are not random, does not need the reward.
        """
        label = np.repeat(np.arange(self.action.size), np.diff(self.child_start))
        key = label * self.S + self.successor
        order = np.lexsort((self.child, key))
        differs = (np.diff(key[order]) == 0) & (np.diff(self.child[order]) != 0)
        looked_up = np.unique(key[order][1:][differs])
        if not looked_up.size:
            return None
        tol = SAME * max(1.0, float(np.abs(self.reward).max()))
        for h, pairs in zip(range(mdp.H), reached_pairs(self, mdp), strict=False):
            stage, memory = mdp.stage(h), np.asarray(pairs.memory)
            v = np.where(memory < 0, self.root[pairs.state], memory)[pairs.source]
            t, r = stage.successor[pairs.outcome].astype(np.int64), stage.reward[pairs.outcome]
            for i in np.flatnonzero(np.isin(v * self.S + t, looked_up)).tolist():
                here = slice(self.child_start[v[i]], self.child_start[v[i] + 1])
                known = self.reward[here][self.successor[here] == t[i]]
                nearest = known[np.abs(known - r[i]).argmin()]
                if abs(nearest - r[i]) > tol:
                    s, a = (int(part[pairs.source[i]]) for part in (pairs.state, pairs.action))
                    return Fault(h, s, a, int(t[i]), float(nearest), float(r[i]))
        return None

    def arrays(self) -> dict[str, Any]:
        """Return the graph."""
        return {"H": np.array(self.H), **{name: getattr(self, name) for name in self.stored}}

    def __repr__(self) -> str:
        return f"LabelPolicy(H={self.H}, S={self.S}, {self.action.size} labels)"


def label_graph(policy: Policy, mdp: MDP, max_moves: float = np.inf, rewards: str = THIS_MODEL) -> LabelPolicy:
    """Return a policy with a hashable memory as a graph of labels: one node per reachable (stage, state, memory)."""
    if isinstance(policy, LabelPolicy):
        return policy
    check_fits(policy, mdp)
    check_rewards(policy, mdp, rewards)
    policy.check_unrolled()
    root = np.full(mdp.S, -1, np.int64)
    action, moves, successor, reward, child = [], [], [], [], []
    nodes = 0
    for h, pairs in zip(range(mdp.H), limited_pairs(policy, mdp, max_moves=max_moves), strict=False):
        if h == 0:
            root[pairs.state] = np.arange(pairs.state.size)
        stage, nodes = mdp.stage(h), nodes + pairs.state.size
        action.append(pairs.action)
        moves.append(np.bincount(pairs.source, minlength=pairs.state.size))
        successor.append(stage.successor[pairs.outcome].astype(np.int64))
        reward.append(stage.reward[pairs.outcome])
        child.append(pairs.child + nodes if h + 1 < mdp.H else np.full(pairs.child.size, -1))
    return LabelPolicy(
        mdp.H, root=root, action=np.concatenate(action), child_start=np.r_[0, np.cumsum(np.concatenate(moves))],
        successor=np.concatenate(successor), reward=np.concatenate(reward), child=np.concatenate(child),
    )  # fmt: skip
