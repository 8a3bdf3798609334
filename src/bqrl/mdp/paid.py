"""The rewards that a policy was planned for: what every (state, action, successor) pays.

A policy that tracks rewards, such as a target policy, acts differently if the same transitions pay other rewards: rewards in
quality-adjusted life years do not reduce a need in money. A grid refers to the rewards of the model that it was made for,
without a copy, and `fault` compares them with the rewards of another model. Only transitions that both models have are
compared, because a fitted model has fewer of them. Where rewards are random, the rewards of a transition in one model must
include those in the other. Probabilities do not matter.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray, floats_of, require, whole_numbers_of

SAME = 1e-9  # rewards whose difference is at most this, relative to their size, are equal


class Fault(NamedTuple):
    """A transition whose reward differs from that in the model that a policy was planned for."""

    h: int
    s: int
    a: int
    s_next: int
    planned: float
    found: float


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Paid:
    """Outcomes and rewards of a model; the fields have the names of `MDP`."""

    S: int
    A: int
    row_start: IntArray  # (K*S*A + 1,)
    successor: NDArray[np.integer[Any]]  # (n,)
    reward: FloatArray  # (1, n) or (H, n)

    @property
    def stages(self) -> int:
        """Number of stored stages; 1 if all stages have the same outcomes and rewards."""
        return max((self.row_start.size - 1) // (self.S * self.A), len(self.reward))

    def stage(self, h: int) -> tuple[IntArray, slice]:
        """Return the row s*A + a of every outcome of a stage, and the slice of these outcomes."""
        rows = self.S * self.A
        k = 0 if self.row_start.size == rows + 1 else h
        starts = self.row_start[k * rows : (k + 1) * rows + 1]
        return np.repeat(np.arange(rows), np.diff(starts)), slice(int(starts[0]), int(starts[-1]))

    def outcomes(self, h: int, actions: int, met: BoolArray | None = None) -> tuple[IntArray, FloatArray]:
        """Return the keys (state * actions + action) * S + successor and rewards of a stage's outcomes; `met` selects some."""
        row, here = self.stage(h)
        key = (row // self.A * actions + row % self.A) * self.S + self.successor[here]
        reward = self.reward[h if len(self.reward) > 1 else 0, here]
        return (key, reward) if met is None else (key[met], reward[met])

    def fault(self, other: Paid, reachable: BoolArray, probability: FloatArray) -> Fault | None:
        """Return a transition with another reward in another model, where it can occur; None if there is none."""
        H = len(reachable) - 1
        if other is self or all(
            np.array_equal(getattr(self, name), getattr(other, name)) for name in ("row_start", "successor", "reward")
        ):
            return None
        alike = self.stages == other.stages == 1
        actions = max(self.A, other.A)
        for h in range(1 if alike else H):
            row, here = other.stage(h)
            reached = np.atleast_1d(reachable[slice(0, H) if alike else slice(h, h + 1)].any(axis=0))
            met: BoolArray = reached[row // other.A] & (probability[here] > 0.0)
            found = _disagreement(self.outcomes(h, actions), other.outcomes(h, actions, met))
            if found is not None:
                key, planned, pays = found
                s, a = divmod(key // self.S, actions)
                return Fault(h, s, a, key % self.S, planned, pays)
        return None

    def arrays(self) -> dict[str, Any]:
        """Return the rewards as plain arrays."""
        arrays = {f"paid_{name}": getattr(self, name) for name in ("row_start", "successor", "reward")}
        return {"paid_shape": np.array([self.S, self.A]), **arrays}


def paid_from_arrays(arrays: dict[str, Any], H: int, S: int) -> Paid | None:
    """Return the rewards in saved arrays, or None if none were saved; raise FileFormatError if the arrays are damaged."""
    states, A = whole_numbers_of(arrays, "paid_shape", (2,)).tolist()
    if (states, A) == (0, 0):
        return None
    require(states == S and A > 0, "paid_shape", f"hold {S} states and the number of actions", [states, A])
    start, successor = (whole_numbers_of(arrays, f"paid_{name}", (None,)) for name in ("row_start", "successor"))
    reward = floats_of(arrays, "paid_reward", (None, successor.size))
    require(start.size - 1 in (S * A, H * S * A), "paid_row_start", "have one entry per row", start.size)
    rises = start[0] == 0 and start[-1] == successor.size and bool(np.all(np.diff(start) >= 0))
    require(rises, "paid_row_start", f"rise from 0 to {successor.size}", start)
    require(bool(np.all((successor >= 0) & (successor < S))), "paid_successor", f"hold states below {S}", successor)
    require(len(reward) in (1, H), "paid_reward", f"have 1 or {H} rows", len(reward))
    return Paid(S=S, A=A, row_start=start, successor=successor.astype(np.int32), reward=reward)  # int32 as in models


def _disagreement(
    planned: tuple[IntArray, FloatArray], found: tuple[IntArray, FloatArray]
) -> tuple[int, float, float] | None:
    """Return a key in both, with a reward that only `planned` has and one that only `found` has; None if there is none."""
    key, reward = (np.concatenate(both) for both in zip(planned, found, strict=True))
    second = np.arange(key.size) >= planned[0].size
    order = np.lexsort((reward, key))
    key, reward, second = key[order], reward[order], second[order]
    size = float(np.abs(reward).max(initial=0.0))
    near = np.diff(reward) <= SAME * np.maximum(min(1.0, size), np.abs(reward[1:]))
    group = np.r_[0, np.cumsum((np.diff(key) != 0) | ~near)] if key.size else key
    in_second = np.bincount(group, second) > 0
    in_first = np.bincount(group, ~second) > 0
    only_first, only_second = (in_first & ~in_second)[group], (in_second & ~in_first)[group]
    wrong = np.intersect1d(key[only_first], key[only_second])
    if not wrong.size:
        return None
    here = key == wrong[0]
    return int(wrong[0]), float(reward[here & only_first][0]), float(reward[here & only_second][0])
