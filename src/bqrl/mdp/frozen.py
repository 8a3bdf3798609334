"""What a model stores: read-only arrays, and the views that read them.

Whatever writes a model to a file or plays it needs this class alone; `bqrl.mdp.model.MDP` adds what builds and changes models.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bqrl.display import Tabular
from bqrl.errors import ModelError
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.derived import per_model, per_structure
from bqrl.mdp.noise import SharedNoise
from bqrl.mdp.stage import Stage, Structure


class FrozenMDP(Tabular):
    """The fields of a model, set once, and views of them."""

    H: int
    S: int
    A: int
    mu: FloatArray
    discount: float
    row_start: IntArray
    successor: NDArray[np.int32]
    probability: FloatArray
    row_reward: FloatArray | None
    available: BoolArray
    known: BoolArray
    state_names: tuple[str, ...] | None
    state_values: tuple[Any, ...] | None  # the states as a step function or a frame gives them; files do not store them
    action_names: tuple[str, ...] | None
    units: str | None
    noise: SharedNoise | None  # the laws of events whose images the rows are, where rows share them
    _reward: FloatArray | None
    _per_model: dict[Any, Any]  # written by derived.per_model alone
    _per_structure: dict[Any, Any]  # written by derived.per_structure alone; shared with twins
    __slots__ = (
        "A", "H", "S", "_per_model", "_per_structure", "_reward", "action_names", "available", "discount",
        "known", "mu", "noise", "probability", "row_reward", "row_start", "state_names", "state_values",
        "successor", "units",
    )  # fmt: skip

    def _store(self, **fields: Any) -> None:
        """Set the fields for good: arrays become read-only, and nothing is derived yet."""
        for name, value in fields.items():
            if isinstance(value, np.ndarray):
                value.flags.writeable = False
            object.__setattr__(self, name, value)
        for store in ("_per_model", "_per_structure"):
            object.__setattr__(self, store, {})

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"an MDP is frozen; build a new one to change {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"an MDP is frozen; {name} cannot be deleted")

    def __getstate__(self) -> dict[str, Any]:
        return {
            slot: getattr(self, slot) for slot in FrozenMDP.__slots__ if slot not in ("_per_model", "_per_structure")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self._store(**state)

    def __deepcopy__(self, memo: Any) -> Self:
        return self  # frozen: a copy could not differ

    def __copy__(self) -> Self:
        return self

    def rows(self) -> list[dict[str, Any]]:
        """One row per outcome: stage (from 1; absent if the kernel is the same at all stages), state, action and so on."""
        fixed = self.stationary and len(self.reward) == 1
        rows = []
        for h, s, a in np.ndindex(1 if fixed else self.H, self.S, self.A):
            where = ({} if fixed else {"stage": h + 1}) | {"state": self.state_label(s), "action": self.action_label(a)}
            for t, p, r in zip(*(column.tolist() for column in self.outcomes(h, s, a)), strict=True):
                rows.append(where | {"next_state": self.state_label(t), "probability": p, "reward": r})
        return rows

    def __repr__(self) -> str:
        possible = np.flatnonzero(self.mu)
        start = str(possible[0]) if possible.size == 1 else f"law over {possible.size} states"
        if (
            possible.size == 1
            and self.state_names
            and (self.state_names[0], self.state_names[-1]) == ("1", str(self.S))
        ):
            start = repr(self.state_label(int(possible[0])))  # ids from 1: the number would look like the id
        extras = ", stationary" if self.stationary else ""
        extras += f", discount={self.discount:g}" if self.discount < 1 else ""
        return f"MDP(H={self.H}, S={self.S}, A={self.A}, start={start}, {self.successor.size} transitions{extras})"

    # -- views ------------------------------------------------------------------------------------------------------

    @property
    def stationary(self) -> bool:
        """Whether one stored kernel serves every stage."""
        return self.available.shape[0] == 1

    @property
    def start(self) -> int:
        """The first state, if it is fixed."""
        if np.count_nonzero(self.mu) > 1:
            raise ModelError("expected a fixed first state, got a law over states; read mdp.mu", name="start")
        return int(self.mu.argmax())

    @property
    def reward(self) -> FloatArray:
        """Reward of every outcome, (1, nnz), or (H, nnz) if the rewards of a stationary kernel differ by stage."""
        return self._reward if self._reward is not None else _expanded(self)

    def stage(self, h: int) -> Stage:
        """Views of the outcomes, rewards and actions of stage `h`."""
        k, rows = (0 if self.stationary else h), self.S * self.A
        starts = self.row_start[k * rows : (k + 1) * rows + 1]
        here = slice(starts[0], starts[-1])
        own = starts - starts[0] if starts[0] else starts
        own.flags.writeable = False  # like the view of the first stage: loops are compiled for one kind of array
        rewards = self.reward
        by_row = None
        if self.row_reward is not None:
            by_row = self.row_reward[h if len(self.row_reward) > 1 else 0]
        return Stage(
            row_start=own,
            successor=self.successor[here],
            probability=self.probability[here],
            reward=rewards[h if len(rewards) > 1 else 0, here],
            row_reward=by_row,
            available=self.available[k],
        )

    def outcomes(self, h: int, s: int, a: int) -> tuple[NDArray[np.int32], FloatArray, FloatArray]:
        """Successors, probabilities and rewards of one row."""
        if not (0 <= h < self.H and 0 <= s < self.S and 0 <= a < self.A):
            last = (self.H - 1, self.S - 1, self.A - 1)
            raise IndexError(f"(stage, state, action) must be from (0, 0, 0) to {last}, got {(h, s, a)}")
        q = ((0 if self.stationary else h) * self.S + s) * self.A + a
        here = slice(self.row_start[q], self.row_start[q + 1])
        rewards = self.reward
        return self.successor[here], self.probability[here], rewards[h if len(rewards) > 1 else 0, here]

    def dense(self, h: int) -> FloatArray:
        """Kernel of stage `h` as a matrix (S*A, S); outcomes with the same successor add up."""
        return _dense(self, 0 if self.stationary else h)

    @property
    def max_outcomes(self) -> int:
        """The largest number of outcomes of one row."""
        return int(np.diff(self.row_start).max())

    @property
    def reachable(self) -> BoolArray:
        """Which states are possible at each stage, shape (H + 1, S)."""
        return _reachable(self)

    @property
    def unreachable_states(self) -> list[int]:
        """States that are possible at no stage: harmless, but often a mistake in the model."""
        return np.flatnonzero(~self.reachable.any(axis=0)).tolist()

    @property
    def structure(self) -> Structure:
        """The part of the kernel that learners may see."""
        hidden = np.repeat(~self.known.reshape(-1), np.diff(self.row_start))
        shown = np.where(hidden, np.nan, self.probability)
        shared = ("H", "S", "A", "mu", "row_start", "successor", "available", "known")
        return Structure(probability=shown, **{name: getattr(self, name) for name in shared})

    # -- names ------------------------------------------------------------------------------------------------------

    def state_label(self, s: int) -> str:
        """The state's name, or its number."""
        return self.state_names[s] if self.state_names else str(s)

    def action_label(self, a: int) -> str:
        """The action's name, or its number."""
        return self.action_names[a] if self.action_names else str(a)


@per_structure
def _expanded(mdp: FrozenMDP) -> FloatArray:
    """Rewards per row repeated for every outcome."""
    assert mdp.row_reward is not None
    by_row = mdp.row_reward.reshape(-1, mdp.row_start.size - 1)
    expanded = np.repeat(by_row, np.diff(mdp.row_start), axis=1)
    expanded.flags.writeable = False
    return expanded


@per_model
def _dense(mdp: FrozenMDP, k: int) -> FloatArray:
    """Stored kernel `k` as a matrix (S*A, S)."""
    stage = mdp.stage(k)
    matrix = np.zeros((mdp.S * mdp.A, mdp.S))
    rows = np.repeat(np.arange(mdp.S * mdp.A), np.diff(stage.row_start))
    np.add.at(matrix, (rows, stage.successor), stage.probability)
    matrix.flags.writeable = False
    return matrix


@per_structure
def _reachable(mdp: FrozenMDP) -> BoolArray:
    """Which states are possible at each stage, shape (H + 1, S)."""
    met = np.zeros((mdp.H + 1, mdp.S), bool)
    met[0] = mdp.mu > 0
    for h in range(mdp.H):
        starts = mdp.row_start[0 if mdp.stationary else h * mdp.S * mdp.A :][: mdp.S * mdp.A + 1]
        leaving = np.repeat(met[h], np.diff(starts[:: mdp.A]))
        met[h + 1, mdp.successor[starts[0] : starts[-1]][leaving]] = True
        if mdp.stationary and np.array_equal(met[h], met[h + 1]):
            met[h + 2 :] = met[h]
            break
    met.flags.writeable = False
    return met
