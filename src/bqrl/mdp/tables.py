"""Policies as tables: one row for each decision, with the problem's own names."""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.mdp.forms import FloatArray, IntArray
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import MarkovPolicy, MixturePolicy, Policy, TargetPolicy


def policy_rows(policy: Policy, mdp: MDP) -> list[dict[str, Any]]:
    """Rows with stage, state, what the memory must be, and the action; stages count from 0.

    For a target policy `need_above` and `need_up_to` bound the remaining need for which the action is played; both ends
    are infinite where it does not matter. An episode begins with the need `target`, and a reward of stage h lowers it by
    discount**h * reward. A mixture lists its parts, each row with the part and its weight.
    """
    if isinstance(policy, MixturePolicy):
        parts = zip(policy.policies, policy.weights.tolist(), strict=True)
        return [{"part": i, "weight": w} | row for i, (part, w) in enumerate(parts) for row in policy_rows(part, mdp)]
    if isinstance(policy, MarkovPolicy):
        return [
            _row(mdp, h, s) | {"action": mdp.action_label(int(policy.actions[h, s]))}
            for h in range(policy.H)
            for s in np.flatnonzero(mdp.reachable[h]).tolist()
        ]
    if isinstance(policy, TargetPolicy):
        return [
            row
            for h in range(policy.H)
            for s in np.flatnonzero(mdp.reachable[h])
            for row in _needs(policy, mdp, h, int(s))
        ]
    from bqrl.mdp.unroll import to_labels

    labels = to_labels(policy, mdp)
    rows = []
    here = {int(v): s for s, v in enumerate(labels.root) if v >= 0}
    for h in range(labels.H):
        after: dict[int, int] = {}
        for v, s in sorted(here.items()):
            children = slice(int(labels.child_start[v]), int(labels.child_start[v + 1]))
            then = _then(mdp, labels.successor[children], labels.reward[children], labels.child[children])
            rows.append(_row(mdp, h, s) | {"label": v, "action": mdp.action_label(int(labels.action[v])), "then": then})
            after |= {
                int(c): int(t)
                for t, c in zip(labels.successor[children], labels.child[children], strict=True)
                if c >= 0
            }
        here = after
    return rows


def _then(mdp: MDP, successor: IntArray, reward: FloatArray, child: IntArray) -> str:
    """The label after each successor; the reward stands in brackets where the same successor leads to several."""
    several = {t for t in successor.tolist() if np.unique(child[successor == t]).size > 1}
    return " ".join(
        f"{mdp.state_label(t)}({r:g}):{c}" if t in several else f"{mdp.state_label(t)}:{c}"
        for t, r, c in zip(successor.tolist(), reward.tolist(), child.tolist(), strict=True)
    )


def _row(mdp: MDP, h: int, s: int) -> dict[str, Any]:
    return {"stage": h, "state": mdp.state_label(s)}


def _needs(policy: TargetPolicy, mdp: MDP, h: int, s: int) -> list[dict[str, Any]]:
    """Runs of needs with one action."""
    actions = policy.actions[h][s]
    points = policy.grid.points(h, policy.extra - 1)
    ends = np.r_[np.flatnonzero(np.diff(actions)), actions.size - 1]
    rows, begin = [], 0
    for end in ends.tolist():
        rows.append(
            _row(mdp, h, s)
            | {
                "target": policy.target,
                "need_above": float(points[begin - 1]) if begin > 0 else float("-inf"),
                "need_up_to": float(points[end]) if end < points.size else float("inf"),
                "action": mdp.action_label(int(actions[end])),
            }
        )
        begin = end + 1
    return rows
