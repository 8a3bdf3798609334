"""Target policies: the action depends on the stage, the state and the amount still needed to reach a target."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from bqrl.errors import PolicyError, SizeError
from bqrl.loops.layout import Tables
from bqrl.mdp.arrays import ActionArray, BoolArray, FloatArray, IntArray, read_only
from bqrl.mdp.grid import Grid
from bqrl.mdp.model import MDP
from bqrl.mdp.paid import Fault
from bqrl.policies.protocol import Policy


def action_dtype(A: int) -> type[np.int16] | type[np.int32]:
    """Return the integer type of tables with `A` actions: 16 bits where they fit."""
    return np.int16 if A <= 2**15 else np.int32


class StageTables(Sequence[ActionArray]):
    """Action tables (S, columns) of all stages that are computed when a stage is asked for; see planners/on_demand.py."""

    S: int


class Near(NamedTuple):
    """The tables of the states and columns that a target can meet: entry [s, j] of stage h belongs to column first[h] + j."""

    first: IntArray  # (H,)
    actions: tuple[ActionArray, ...]
    met: BoolArray | None = None  # (H + 1, S) the states with entries; None: all


class TargetPolicy(Policy):
    """Action by stage, state and the amount still needed to reach a target; made by the planner "target".

    The memory is the remaining need, discounted to stage 0: target minus the discounted rewards so far. On a rounded
    grid the rounded rewards are subtracted, so that the return law of the policy can be bracketed.

    Attributes
    ----------
    target : float
        The return that the policy tries to reach, in the unit of the rewards; the first memory.
    grid : Grid
        The amounts that can be needed at each stage.
    actions : tuple of H ndarrays of shape (S, columns)
        The action for each state and amount; `column(h, need)` is the column of an amount.
    extra : int
        Number of columns for amounts above the highest return.
    near : Near or None
        For plans whose tables do not fit into memory: the tables of the amounts that this target can meet. `actions` then
        computes the table of a stage when it is asked for.

    Examples
    --------
    >>> import bqrl
    >>> policy = bqrl.solve(bqrl.envs.make("SafeOrRisky"), tau=0.1).policy
    >>> need = policy.start()
    >>> action = policy.act(0, 0, need)
    >>> need, policy.next(need, 0, 0, action, reward=3.0, s_next=0)
    (12.0, 9.0)
    """

    kind = "target"

    def __init__(
        self, grid: Grid, actions: Sequence[ActionArray] | Tables, target: float, extra: int = 1, near: Near | None = None
    ) -> None:  # fmt: skip
        self.grid, self.target, self.extra, self.near = grid, float(target), int(extra), near
        if isinstance(actions, StageTables):
            self.actions = actions
            self.H, self.S = len(actions), actions.S
        elif isinstance(actions, Tables):
            self.tables = actions
            self.H, self.S = actions.begin.size - 1, int(actions.begin[1]) // (int(grid.size[0]) + self.extra)
        else:
            self.actions = tuple(map(read_only, actions))
            self.H, self.S = len(self.actions), int(self.actions[0].shape[0])

    def start(self, u: float | None = None) -> float:
        """Return the first need, which is the target."""
        return self.target

    @cached_property
    def actions(self) -> Sequence[ActionArray]:
        """The action tables, one per stage (S, columns)."""
        table, begin = self.tables
        return tuple(table[i:j].reshape(self.S, -1) for i, j in pairwise(begin.tolist()))

    @cached_property
    def tables(self) -> Tables:
        """The tables of all stages one after the other, as compiled loops read them."""
        table = read_only(np.concatenate([actions.reshape(-1) for actions in self.actions]))
        return Tables(table, read_only(np.cumsum([0, *(actions.size for actions in self.actions)])))

    def column(self, h: int, need: Any) -> IntArray:
        """Return the columns of the action table for the given needs."""
        return self.grid.column(h, need, self.extra)

    def decisions(self, h: int, needs: Any, states: Any) -> tuple[ActionArray, IntArray]:
        """Return an action table of stage `h`, with entries for the given states, and the column of each need in it."""
        column = self.column(h, needs)
        if self.near is not None and (self.near.met is None or np.all(self.near.met[h, states])):
            table, place = self.near.actions[h], column - self.near.first[h]
            if np.all((place >= 0) & (place < table.shape[1])):
                return self._covering(table, h, states), place
        return self._covering(self.actions[h], h, states), column

    def _covering(self, table: ActionArray, h: int, states: Any) -> ActionArray:
        """Return the table; PolicyError if the plan of a model without a table did not meet some of the states at the stage."""
        if len(table) < self.S and (np.asarray(states).dtype == bool or np.max(states, initial=0) >= len(table)):
            rule = f"the states at stage {h + 1} must be below {len(table)}, because the plan with stored=False met no others"
            raise PolicyError(f"{rule}, got more states; plan on the model with stored=True", stage=h)
        return table

    @cached_property
    def first_column(self) -> int:
        """Column of the target in the table of the first stage."""
        return int(self.column(0, self.target))

    def act(self, h: int, s: int, memory: Any) -> int:
        """Return the action for the remaining need `memory`."""
        self._check(h, s, memory)
        table, column = self.decisions(h, memory, s)
        return int(table[s, column])

    def next(self, memory: Any, h: int, s: int, action: int, reward: float, s_next: int) -> float:
        """Return the remaining need after the reward."""
        return float(self.grid.reduced(memory, h, reward))

    def start_many(self, u: FloatArray) -> Any:
        """Return the first needs of many episodes."""
        return np.full(u.shape, self.target)

    def act_many(self, h: int, s: IntArray, memory: Any) -> IntArray:
        """Return the actions of many episodes."""
        table, column = self.decisions(h, memory, s)
        return table[s, column].astype(np.int64)

    def next_many(self, memory: Any, h: int, s: IntArray, a: IntArray, reward: FloatArray, s_next: IntArray) -> Any:
        """Return the needs after one more stage."""
        return self.grid.reduced(memory, h, reward)

    def reward_fault(self, mdp: MDP) -> Fault | None:
        """Return a transition of `mdp` with another reward than in the model of the plan."""
        planned = self.grid.paid
        return None if planned is None else planned.fault(mdp.paid, mdp.reachable, mdp.probability)

    def arrays(self) -> dict[str, Any]:
        """Return the action tables, the columns of the grid and the rewards that they were planned for."""
        if isinstance(self.actions, StageTables):
            cells = self.S * (self.grid.cells + self.H * self.extra)
            raise SizeError(
                f"a stored policy must have its tables in memory, got one that computes its {cells} decisions on demand; raise "
                "max_bytes without precision, or store policy.to_labels(mdp)", needed=cells, limit=0, name="max_bytes",
            )  # fmt: skip
        flat = {"target": np.array(self.target), "extra": np.array(self.extra), **self.grid.arrays()}
        flat |= {"paid_shape": np.zeros(2, np.int64)} if self.grid.paid is None else self.grid.paid.arrays()
        return flat | {f"actions_{h}": table for h, table in enumerate(self.actions)}

    def __repr__(self) -> str:
        return f"TargetPolicy(target={self.target:g}, H={self.H}, S={self.S}, {self.grid.kind})"
