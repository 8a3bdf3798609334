"""Episodes of a policy in a problem with continuous states."""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.checks import bad_type, random_seed, whole
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.grid_step import GridModel
from bqrl.policies.on_grid import GridPolicy
from bqrl.policies.protocol import Policy
from bqrl.policies.shares import check_shares, draw_actions


def play_continuous(model: GridModel, policy: Any, episodes: int, seed: Any) -> FloatArray:
    """Return the returns of episodes in the continuous problem itself: no rounding of states, events or rewards."""
    if not isinstance(policy, Policy):
        raise bad_type(
            "policy", policy, "be a Policy for continuous states", type(policy).__name__, remedy="pass plan.policy"
        )
    episodes = whole(episodes, "episodes", 1)
    rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(random_seed(seed))
    u = rng.random((episodes, model.H + 2))  # the policy's coin, the first state, then one draw per event
    firsts, below = np.array(list(model.start)), np.cumsum(list(model.start.values()))
    s = firsts[np.minimum(np.searchsorted(below, u[:, 1], side="right"), len(firsts) - 1)]
    memory, total = policy.start_many(u[:, 0]), np.zeros(episodes)
    ours = isinstance(policy, GridPolicy)
    for h in range(model.H):
        states: list[Any] = [] if ours else list(map(tuple, s.tolist()))  # a policy of the user sees tuples
        a = (
            policy.act_many(h, s, memory)
            if ours
            else np.array([policy.act(h, x, m) for x, m in zip(states, memory, strict=True)])
        )
        left = u[:, 2 + h]
        if a.ndim == 2:  # action probabilities
            check_shares(a[None], np.ones((1, *a.shape), bool), np.ones((1, episodes), bool), first=h)
            a, left = draw_actions(a, left)
        events = model.law(h).draw(left)
        after, reward = model.function.many(s, a, events)
        if isinstance(policy, GridPolicy):
            memory = policy.next_many(memory, h, s, a, reward, after, events)
        else:
            onward: list[Any] = list(map(tuple, after.tolist()))
            steps = zip(memory, states, a.tolist(), reward.tolist(), onward, strict=True)
            memory = [policy.next(m, h, x, y, r, z) for m, x, y, r, z in steps]
        total += model.discount**h * reward
        s = after
    return total
