"""What a problem is: a finite-horizon Markov decision process, validated once and frozen."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from reprlib import repr as short_repr
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bqrl.mdp.forms import BoolArray, FloatArray, IntArray, Table, check_horizon, names, read

if TYPE_CHECKING:
    import gymnasium

    from bqrl.mdp.noise import SharedNoise

ROW_TOL = 1e-9  # a row may miss 1 by this much before it is renormalised


class Stage(NamedTuple):
    """Views of one stage: outcomes of row s*A + a are row_start[row] .. row_start[row + 1]."""

    row_start: IntArray  # (S*A + 1,)
    successor: NDArray[np.int32]  # (n,)
    probability: FloatArray  # (n,)
    reward: FloatArray  # (n,)
    row_reward: FloatArray | None  # (S, A) where the outcome does not matter
    available: BoolArray  # (S, A)

    def outcomes_of(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """The outcomes of positive probability of the given rows, one after the other: whose it is, and its number."""
        counts = self.row_start[rows + 1] - self.row_start[rows]
        whose = np.repeat(np.arange(rows.size), counts)
        i = np.repeat(self.row_start[rows] - np.cumsum(counts) + counts, counts) + np.arange(whose.size)
        happens = self.probability[i] > 0.0
        return whose[happens], i[happens]


@dataclass(frozen=True, slots=True)
class Structure:
    """What a learner may know of a kernel: which successors are possible, and the rows that are known exactly."""

    H: int
    S: int
    A: int
    mu: FloatArray  # (S,)
    row_start: IntArray  # (K*S*A + 1,)
    successor: NDArray[np.int32]  # (nnz,)
    available: BoolArray  # (K, S, A)
    known: BoolArray  # (K, S, A)
    probability: FloatArray  # (nnz,)  NaN in rows that are not known

    @property
    def support_size(self) -> IntArray:
        """Number of possible outcomes of every row, shape (K, S, A)."""
        return np.diff(self.row_start).reshape(self.available.shape)


class MDP:
    """A finite-horizon MDP with known rewards.

    `transitions` is (H,S,A,S), or (S,A,S) with `horizon`; or SciPy matrices of shape (S*A, S), one or one a stage;
    or, with `rewards=None`, a list of (s, a, s_next, probability, reward), stage in front where it matters.
    `rewards` is (S,A) or (H,S,A), each also with a trailing successor axis. Several outcomes with one successor and
    different rewards are random rewards. `start` is a state, its name, or a probability vector over states.

    `available` masks actions, `support` names successors that are possible though their probability is zero, and
    `known` marks the rows that learners may know exactly (default: rows with a single outcome).

    >>> mdp = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=3)
    >>> mdp
    MDP(H=3, S=2, A=1, start=0, 3 transitions, stationary)
    """

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
    action_names: tuple[str, ...] | None
    noise: SharedNoise | None  # the laws of events whose images the rows are, where rows share them
    _reward: FloatArray | None
    _cache: dict[Any, Any]
    _per_model: dict[Any, Any]  # written by derived.per_model alone
    _per_structure: dict[Any, Any]  # written by derived.per_structure alone; shared with twins
    __slots__ = (
        "A", "H", "S", "_cache", "_per_model", "_per_structure", "_reward", "action_names", "available", "discount",
        "known", "mu", "noise", "probability",
        "row_reward", "row_start", "state_names", "successor",
    )  # fmt: skip

    def __init__(
        self,
        transitions: Any,
        rewards: Any = None,
        start: Any = 0,
        horizon: int | None = None,
        discount: float = 1.0,
        *,
        available: Any = None,
        support: Any = None,
        known: Any = None,
        state_names: Any = None,
        action_names: Any = None,
    ) -> None:
        table, H = read(transitions, rewards, horizon, support)
        self._fill(table, H, start, discount, available, known, state_names, action_names)

    @classmethod
    def from_table(cls, table: Table, H: int, start: Any = 0, discount: float = 1.0, **optional: Any) -> MDP:
        """MDP of outcomes already in a table (what the file readers make); checked like any other."""
        mdp = cls.__new__(cls)
        filled = {"available": None, "known": None, "state_names": None, "action_names": None, "noise": None} | optional
        mdp._fill(table, H, start, discount, **filled)
        return mdp

    def _fill(
        self, table: Table, H: int, start: Any, discount: float, available: Any, known: Any,
        state_names: Any, action_names: Any, noise: SharedNoise | None = None,
    ) -> None:  # fmt: skip
        S, A, K = table.S, table.A, table.K
        put = object.__setattr__
        for store in ("_cache", "_per_model", "_per_structure"):
            put(self, store, {})
        put(self, "H", check_horizon(H))
        put(self, "S", S)
        put(self, "A", A)
        put(self, "state_names", names(state_names, S, "state_names"))
        put(self, "action_names", names(action_names, A, "action_names"))
        if isinstance(discount, bool) or not isinstance(discount, (int, float, np.integer, np.floating)):
            raise TypeError(f"discount must be a number in (0, 1], got {discount!r}")
        if not 0.0 < discount <= 1.0:
            raise ValueError(f"discount must lie in (0, 1], got {discount}")
        put(self, "discount", float(discount))
        put(self, "mu", self._first_state(start))

        mask = _mask(available, (K, S, A), "available")
        sizes = np.diff(table.row_start)
        if mask is not None and np.any(sizes[~mask.reshape(-1)]):
            table = _without_rows(table, ~mask.reshape(-1))
            sizes = np.diff(table.row_start)
        listed = (sizes > 0).reshape(K, S, A)
        if not table.infer_available:
            wanted = np.ones((K, S, A), bool) if mask is None else mask
            if np.any(wanted & ~listed):
                place = _place(np.flatnonzero((wanted & ~listed).reshape(-1))[0], S, A, K)
                raise ValueError(f"row {place} sums to 0; mask actions that do not exist with available=")
        put(self, "available", listed)
        if table.row_reward is not None and not listed.all():  # what an absent action would pay means nothing
            table.row_reward = np.where(np.broadcast_to(listed, table.row_reward.shape), table.row_reward, 0.0)

        _check_table(table, K)
        put(self, "row_start", table.row_start)
        put(self, "successor", table.successor)
        put(self, "probability", _normalised(table.probability, table.row_start, S, A, K))
        if noise is not None:
            noise.check(self.row_start, self.probability)
        put(self, "noise", noise)
        put(self, "row_reward", table.row_reward)
        put(self, "_reward", table.reward)
        single = (sizes == 1).reshape(K, S, A)
        given = _mask(known, (K, S, A), "known")
        put(self, "known", single if given is None else (given | single) & listed)
        for array in (self.row_start, self.successor, self.probability, self.row_reward, self._reward, self.mu):
            if array is not None:
                array.flags.writeable = False
        self.available.flags.writeable = False
        self.known.flags.writeable = False
        self._check_actions()

    def _first_state(self, start: Any) -> FloatArray:
        mu = np.zeros(self.S)
        if isinstance(start, str):
            labels = self.state_names or tuple(map(str, range(self.S)))
            if start not in labels:
                near = get_close_matches(start, labels, n=1)
                hint = f"; did you mean {near[0]!r}?" if near else f"; states are named {labels[0]!r} to {labels[-1]!r}"
                raise ValueError(f"start is {start!r}, which names no state{hint}")
            mu[labels.index(start)] = 1.0
        elif isinstance(start, (int, np.integer)) and not isinstance(start, bool):
            if not 0 <= start < self.S:
                raise ValueError(f"start is {start}, but states run from 0 to {self.S - 1}")
            mu[start] = 1.0
        else:
            try:
                mu = np.array(start, dtype=np.float64)
            except (TypeError, ValueError):
                given = " ".join(short_repr(start).split())
                raise TypeError(f"start must be a state, its name or {self.S} probabilities, got {given}") from None
            if mu.shape != (self.S,) or not np.all(mu >= 0) or not abs(mu.sum() - 1.0) <= ROW_TOL:
                given = (
                    f"shape {mu.shape}, sum {mu.sum():.12g}, smallest {mu.min():.3g}"
                    if mu.ndim and mu.size
                    else repr(start)
                )
                raise ValueError(
                    f"start must be a state, its name, or {self.S} probabilities that sum to 1, got {given}"
                )
            if abs(mu.sum() - 1.0) > self.S * 2.0**-52:
                mu /= mu.sum()
        return mu

    def _check_actions(self) -> None:
        stuck = self.reachable[:-1] & ~self.available.any(axis=2)
        if stuck.any():
            h, s = np.argwhere(stuck)[0]
            raise ValueError(
                f"state {self.state_label(int(s))} is reachable at stage {h} but has no action; give it one (a loop will do)"
            )

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"an MDP is frozen; build a new one to change {name}")

    def __delattr__(self, name: str) -> None:
        raise AttributeError(f"an MDP is frozen; {name} cannot be deleted")

    def __getstate__(self) -> dict[str, Any]:
        return {
            slot: getattr(self, slot)
            for slot in MDP.__slots__
            if slot not in ("_cache", "_per_model", "_per_structure")
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        for slot, value in state.items():
            object.__setattr__(self, slot, value)
            if isinstance(value, np.ndarray):
                value.flags.writeable = False  # a pickle forgets it
        for store in ("_cache", "_per_model", "_per_structure"):
            object.__setattr__(self, store, {})

    def __deepcopy__(self, memo: Any) -> MDP:
        return self  # frozen: a copy could not differ

    def __copy__(self) -> MDP:
        return self

    def __repr__(self) -> str:
        possible = np.flatnonzero(self.mu)
        start = possible[0] if possible.size == 1 else f"law over {possible.size} states"
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
        """The first state, where it is fixed."""
        if np.count_nonzero(self.mu) > 1:
            raise ValueError("this problem starts from a law over states; read mdp.mu")
        return int(self.mu.argmax())

    @property
    def reward(self) -> FloatArray:
        """Reward of every outcome, (1, nnz), or (H, nnz) where a stationary kernel has rewards of its own each stage."""
        if self._reward is not None:
            return self._reward
        if "reward" not in self._cache:
            assert self.row_reward is not None
            by_row = self.row_reward.reshape(-1, self.row_start.size - 1)
            expanded = np.repeat(by_row, np.diff(self.row_start), axis=1)
            expanded.flags.writeable = False
            self._cache["reward"] = expanded
        return self._cache["reward"]

    def stage(self, h: int) -> Stage:
        """Views of the outcomes, rewards and actions of stage `h`."""
        k, rows = (0 if self.stationary else h), self.S * self.A
        starts = self.row_start[k * rows : (k + 1) * rows + 1]
        here = slice(starts[0], starts[-1])
        rewards = self.reward
        by_row = None
        if self.row_reward is not None:
            by_row = self.row_reward[h if len(self.row_reward) > 1 else 0]
        return Stage(
            starts - starts[0] if starts[0] else starts,
            self.successor[here],
            self.probability[here],
            rewards[h if len(rewards) > 1 else 0, here],
            by_row,
            self.available[k],
        )

    def outcomes(self, h: int, s: int, a: int) -> tuple[NDArray[np.int32], FloatArray, FloatArray]:
        """Successors, probabilities and rewards of one row."""
        q = ((0 if self.stationary else h) * self.S + s) * self.A + a
        here = slice(self.row_start[q], self.row_start[q + 1])
        rewards = self.reward
        return self.successor[here], self.probability[here], rewards[h if len(rewards) > 1 else 0, here]

    def dense(self, h: int) -> FloatArray:
        """Kernel of stage `h` as a matrix (S*A, S); outcomes with the same successor add up."""
        k = 0 if self.stationary else h
        if ("dense", k) not in self._cache:
            stage = self.stage(h)
            matrix = np.zeros((self.S * self.A, self.S))
            rows = np.repeat(np.arange(self.S * self.A), np.diff(stage.row_start))
            np.add.at(matrix, (rows, stage.successor), stage.probability)
            matrix.flags.writeable = False
            self._cache["dense", k] = matrix
        return self._cache["dense", k]

    @property
    def density(self) -> float:
        """Share of successors that are possible, over all rows that exist."""
        rows = max(1, int(np.count_nonzero(self.available)))
        return self.successor.size / (rows * self.S)

    @property
    def max_outcomes(self) -> int:
        """The largest number of outcomes of one row."""
        return int(np.diff(self.row_start).max())

    @property
    def reachable(self) -> BoolArray:
        """Which states can be met at each stage, shape (H + 1, S)."""
        if "reachable" not in self._cache:
            met = np.zeros((self.H + 1, self.S), bool)
            met[0] = self.mu > 0
            for h in range(self.H):
                starts = self.row_start[0 if self.stationary else h * self.S * self.A :][: self.S * self.A + 1]
                counts = np.diff(starts[:: self.A])
                leaving = np.repeat(met[h], counts)
                met[h + 1, self.successor[starts[0] : starts[-1]][leaving]] = True
                if self.stationary and np.array_equal(met[h], met[h + 1]):
                    met[h + 2 :] = met[h]
                    break
            met.flags.writeable = False
            self._cache["reachable"] = met
        return self._cache["reachable"]

    @property
    def unreachable_states(self) -> list[int]:
        """States that no stage can meet: harmless, but often a slip in the model."""
        return np.flatnonzero(~self.reachable.any(axis=0)).tolist()

    @property
    def structure(self) -> Structure:
        """The part of the kernel that learners may see."""
        hidden = np.repeat(~self.known.reshape(-1), np.diff(self.row_start))
        shown = np.where(hidden, np.nan, self.probability)
        return Structure(
            self.H, self.S, self.A, self.mu, self.row_start, self.successor, self.available, self.known, shown
        )

    def with_probability(self, probability: FloatArray) -> MDP:
        """The same problem with other probabilities on the same outcomes; zeros keep their place in the support."""
        probability = np.array(probability, dtype=np.float64)
        if probability.shape != self.successor.shape:
            raise ValueError(f"probability must have shape {self.successor.shape}, got {probability.shape}")
        twin = MDP.__new__(MDP)
        for slot in MDP.__slots__:
            object.__setattr__(twin, slot, getattr(self, slot))
        object.__setattr__(twin, "_per_model", {})
        object.__setattr__(twin, "_cache", {k: v for k, v in self._cache.items() if k in ("reward", "reachable")})
        table = Table(self.S, self.A, self.available.shape[0], self.row_start, self.successor, probability)
        _check_table(table, table.K)
        object.__setattr__(
            twin, "probability", _normalised(probability, self.row_start, self.S, self.A, self.available.shape[0])
        )
        twin.probability.flags.writeable = False
        object.__setattr__(twin, "noise", self.noise and self.noise.hidden)
        return twin

    def with_noise(self, noise: SharedNoise | None) -> MDP:
        """The same problem with these laws of events behind its rows; None: the rows share nothing."""
        if noise is not None:
            noise.check(self.row_start, self.probability)
        twin = self.with_probability(self.probability)
        object.__setattr__(twin, "noise", noise)
        return twin

    def staged(self) -> MDP:
        """The same problem with one kernel stored for each stage, so that stages can be changed apart."""
        if not self.stationary or self.H == 1:
            return self
        rows, nnz = self.S * self.A, self.successor.size
        starts = np.r_[np.tile(self.row_start[:-1], self.H) + np.repeat(np.arange(self.H) * nnz, rows), self.H * nnz]
        by_row, by_outcome = self.row_reward, self._reward
        if by_row is not None:
            by_row = np.array(np.broadcast_to(by_row, (self.H, self.S, self.A)))
        if by_outcome is not None:
            by_outcome = np.array(np.broadcast_to(by_outcome, (self.H, nnz))).reshape(1, -1)
        table = Table(
            self.S, self.A, self.H, starts, np.tile(self.successor, self.H), np.tile(self.probability, self.H),
            by_outcome, by_row, True,
        )  # fmt: skip
        known = np.array(np.broadcast_to(self.known, (self.H, self.S, self.A)))
        return MDP.from_table(
            table, self.H, self.mu, self.discount, known=known, state_names=self.state_names,
            action_names=self.action_names, noise=self.noise and self.noise.staged(self.H),
        )  # fmt: skip

    def replace(self, *, start: Any = None, horizon: int | None = None, discount: float | None = None) -> MDP:
        """The same problem with another start, discount or, where the kernel and rewards are stationary, horizon."""
        if horizon is not None and horizon != self.H and not (self.stationary and len(self.reward) == 1):
            raise ValueError(f"horizon is fixed at {self.H}: this model's stages differ")
        table = Table(
            self.S, self.A, self.available.shape[0], self.row_start, self.successor, self.probability,
            self._reward, self.row_reward, True,
        )  # fmt: skip
        return MDP.from_table(
            table,
            self.H if horizon is None else horizon,
            self.mu if start is None else start,
            self.discount if discount is None else discount,
            known=self.known,
            state_names=self.state_names,
            action_names=self.action_names,
            noise=self.noise,
        )

    # -- names, files, environments ---------------------------------------------------------------------------------

    def state_label(self, s: int) -> str:
        """The state's name, or its number."""
        return self.state_names[s] if self.state_names else str(s)

    def action_label(self, a: int) -> str:
        """The action's name, or its number."""
        return self.action_names[a] if self.action_names else str(a)

    def save(self, path: str | Path) -> None:
        """Write the model to .csv, .npz or .json, whole or not at all."""
        from bqrl.mdp.files import save

        save(self, path)

    def as_env(self, **options: Any) -> gymnasium.Env[np.int64, np.int64]:
        """A Gymnasium environment that plays this problem."""
        from bqrl.mdp.gym import MDPEnv

        return MDPEnv(self, **options)


def _mask(given: Any, shape: tuple[int, int, int], what: str) -> BoolArray | None:
    if given is None:
        return None
    mask = np.asarray(given)
    if shape[0] == 1 and mask.ndim == 3 and mask.shape[1:] == shape[1:] and len(mask) > 1:
        raise ValueError(
            f"{what} differs by stage but the kernel is stored once; give the transitions stage by stage, too"
        )
    if mask.dtype != np.bool_ or mask.shape not in (shape, shape[1:]):
        raise ValueError(
            f"{what} must be a boolean array of shape {shape[1:]}, or one a stage, got {mask.shape} {mask.dtype}"
        )
    return np.array(np.broadcast_to(mask, shape))


def _without_rows(table: Table, drop: BoolArray) -> Table:
    sizes = np.diff(table.row_start)
    keep = np.repeat(~drop, sizes)
    starts = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(np.where(drop, 0, sizes), out=starts[1:])
    reward = None if table.reward is None else table.reward[:, keep]
    return Table(
        table.S, table.A, table.K, starts, table.successor[keep], table.probability[keep], reward, table.row_reward,
        table.infer_available,
    )  # fmt: skip


def _place(q: int, S: int, A: int, K: int) -> str:
    k, s, a = int(q) // (S * A), int(q) // A % S, int(q) % A
    return f"(h={k}, s={s}, a={a})" if K > 1 else f"(s={s}, a={a})"


def _check_table(table: Table, K: int) -> None:
    S, A = table.S, table.A

    def row_of(i: int) -> str:
        return _place(int(np.searchsorted(table.row_start, i, side="right")) - 1, S, A, K)

    p = table.probability
    bad = np.flatnonzero(~(np.isfinite(p) & (p >= 0)))
    if bad.size:
        i = int(bad[0])
        raise ValueError(
            f"row {row_of(i)} gives successor {table.successor[i]} the probability {p[i]}; it must be a number in [0, 1]"
        )
    for rewards in (table.reward, table.row_reward):
        if rewards is not None and not np.all(np.isfinite(rewards)):
            place = np.argwhere(~np.isfinite(rewards))[0]
            if rewards.ndim == 2:
                where, stage = row_of(int(place[1])), int(place[0]) if len(rewards) > 1 else None
            else:
                stage = int(place[0]) if len(rewards) > 1 else None
                where = f"(s={place[1]}, a={place[2]})"
            at = f" at stage {stage}" if stage is not None else ""
            raise ValueError(f"the reward of row {where}{at} is {rewards[tuple(place)]}; rewards must be finite")


def _normalised(p: FloatArray, row_start: IntArray, S: int, A: int, K: int) -> FloatArray:
    """Probabilities whose rows sum to 1; rows that already do, up to rounding, keep their bits."""
    sizes = np.diff(row_start)
    rows = np.flatnonzero(sizes)
    if rows.size == 0:
        raise ValueError("the model has no transitions")
    sums = np.add.reduceat(p, row_start[rows])
    off = np.abs(sums - 1.0)
    if np.any(off > ROW_TOL):
        q = int(np.flatnonzero(off > ROW_TOL)[0])
        raise ValueError(
            f"row {_place(rows[q], S, A, K)} sums to {sums[q]:.12g}; a row's probabilities must sum to 1 (tolerance {ROW_TOL:g})"
        )
    loose = off > sizes[rows] * 2.0**-52
    if not loose.any():
        return p.copy() if not p.flags.owndata else p
    return p / np.repeat(np.where(loose, sums, 1.0), sizes[rows])
