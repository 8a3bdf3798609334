"""Policies that act on the amount earned so far, stored for the amounts that can be met."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bqrl.loops.earned import find_totals
from bqrl.mdp.arrays import ActionArray, FloatArray, IntArray, read_only
from bqrl.mdp.model import MDP
from bqrl.mdp.paid import Fault, Paid
from bqrl.policies.protocol import Policy


class Earned(NamedTuple):
    """The decisions of one stage: the entries start[s] to start[s + 1] - 1 belong to state s."""

    start: IntArray  # (S + 1,)
    total: FloatArray  # (n,) earned so far, increasing within each state
    action: ActionArray  # (n,)


class EarnedPolicy(Policy):
    """Action by stage, state and the amount earned so far; made by the planner "target" with `pairs`.

    The memory is the sum of the rewards so far, discounted to stage 0. An amount that is not listed is treated as the next
    lower one of its state; in a state that is not listed at a stage the policy plays the action of `fallback`.

    Attributes
    ----------
    target : float
        The return that the policy was planned for.
    stages : tuple of H Earned
        States, amounts and actions of each stage.
    fallback : ndarray of shape (H, S)
        The actions in states that the problem of the plan does not reach.
    discount : float
        Discount of the problem.
    slack : float
        Amounts that differ by at most this are equal.

    Examples
    --------
    >>> import bqrl
    >>> mdp = bqrl.envs.make("SafeOrRisky")
    >>> policy = bqrl.solve(mdp, tau=0.1, pairs=True).policy
    >>> earned = policy.start()
    >>> action = policy.act(0, 0, earned)
    >>> policy.next(earned, 0, 0, action, reward=3.0, s_next=0)
    3.0
    """

    kind = "earned"

    def __init__(
        self, stages: Sequence[Earned], fallback: ActionArray, target: float, discount: float, slack: float,
        paid: Paid | None = None,
    ) -> None:  # fmt: skip
        self.stages = tuple(Earned(*map(read_only, stage)) for stage in stages)
        self.fallback, self.target = read_only(fallback), float(target)
        self.discount, self.slack, self.paid = float(discount), float(slack), paid
        self.H, self.S = fallback.shape

    @property
    def size(self) -> int:
        """Number of decisions at all stages."""
        return sum(stage.total.size for stage in self.stages)

    def start(self, u: float | None = None) -> float:
        """Return 0: nothing is earned before the first stage."""
        return 0.0

    def act(self, h: int, s: int, memory: Any) -> int:
        """Return the action for the amount earned so far."""
        self._check(h, s, memory)
        return int(self.act_many(h, np.array([s]), np.array([memory], np.float64))[0])

    def next(self, memory: Any, h: int, s: int, action: int, reward: float, s_next: int) -> float:
        """Return the amount earned after the reward."""
        return float(memory + self.discount**h * reward)

    def start_many(self, u: FloatArray) -> Any:
        """Return the first memories of many episodes."""
        return np.zeros(u.shape)

    def act_many(self, h: int, s: IntArray, memory: Any) -> IntArray:
        """Return the actions of many episodes."""
        stage, place = self.stages[h], np.empty(s.size, np.int64)
        find_totals(stage.start, stage.total, s, memory, self.slack, place)
        listed = stage.action[np.maximum(place, 0)] if stage.total.size else 0
        return np.where(place >= 0, listed, self.fallback[h, s]).astype(np.int64)

    def next_many(self, memory: Any, h: int, s: IntArray, a: IntArray, reward: FloatArray, s_next: IntArray) -> Any:
        """Return the amounts earned after one more stage."""
        return memory + self.discount**h * reward

    def reward_fault(self, mdp: MDP) -> Fault | None:
        """Return a transition of `mdp` with another reward than in the model of the plan."""
        return None if self.paid is None else self.paid.fault(mdp.paid, mdp.reachable, mdp.probability)

    def arrays(self) -> dict[str, Any]:
        """Return the decisions of every stage and the rewards that they were planned for."""
        flat = {"numbers": np.array([self.target, self.discount, self.slack]), "fallback": self.fallback}
        flat |= {"paid_shape": np.zeros(2, np.int64)} if self.paid is None else self.paid.arrays()
        return flat | {f"{name}_{h}": part for h, one in enumerate(self.stages) for name, part in one._asdict().items()}

    def __repr__(self) -> str:
        return f"EarnedPolicy(target={self.target:g}, H={self.H}, S={self.S}, {self.size} decisions)"
