"""The grid of returns: which totals are still possible from each stage.

Every sweep runs over the states and, as columns, over R_h: the sorted returns that can still be collected from stage h
on, with R_H = {0}. A remaining need n belongs to the first column i with R_h[i] >= n, because no return lies between two
points of R_h. There are three kinds of grid:

    Lattice     rewards are base + step * whole numbers (up to noise of 1e-9 of their size), so R_h is uniform: exact
    ReturnSet   the finitely many sums themselves, if they are far fewer than the points of the lattice: exact
    Rounded     if neither fits: each discounted reward is rounded down (or up) to a step; `error` bounds the effect

On a grid that rounds down (up), the return of the grid is never above (below) the true one, and at most `error` away from
it. The need n is rounded rather than n / discount^h: late stages then need few columns, which allows a finer step for the
same work, and all three kinds share one sweep.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np

from bqrl.errors import FileFormatError
from bqrl.loops.layout import Moves
from bqrl.mdp.arrays import FloatArray, IntArray, floats_of, read_only, require, whole_numbers_of
from bqrl.mdp.model import MDP
from bqrl.mdp.paid import Paid
from bqrl.mdp.stage import Stage

NOISE = 1e-9  # rewards this close to a lattice, relative to the largest reward (at most 1), count as on it
SNAP = 1e-3  # a need this close to a point, in steps (plus the noise of H rewards), counts as that point

DENSE_FROM = 0.3  # share of possible successors from which a matrix product beats visiting the outcomes
SMALL_STATES = 24  # with fewer states the overhead of a matrix product outweighs its gain
BLOCK_BYTES = 2**24  # memory of the rows of a product that are handled at once

NO_JUMPS = np.empty((0, 0), np.int64)
EMPTY = np.zeros(0)


def freeze(value: Any) -> Any:
    """Return a read-only view of an array, or views of a tuple of arrays; what cannot be written to is returned unchanged."""
    if type(value) is tuple and value and isinstance(value[0], np.ndarray):
        return tuple(map(freeze, value))
    return read_only(value) if isinstance(value, np.ndarray) and value.flags.writeable else value


@dataclass(frozen=True, kw_only=True, eq=False)
class Grid(ABC):
    """Points R_h of every stage, and how rewards move needs between them."""

    kind: ClassVar[str]
    uniform: ClassVar[bool]  # columns are whole steps, so a reward shifts all columns of its outcome alike
    exact: ClassVar[bool]  # returns lie on the grid, up to the noise of the rewards

    H: int
    size: IntArray  # (H+1,) number of points of each stage
    units: IntArray  # shaped like MDP.reward: rewards in steps above their base; for a set, indices into `rewards`
    discount: float
    paid: Paid | None = None  # the rewards of the model that the grid was made for

    def __post_init__(self) -> None:
        for one in fields(self):  # callers share the grid of a problem
            object.__setattr__(self, one.name, freeze(getattr(self, one.name)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._summary()}, H={self.H}, {self.cells} points)"

    @property
    def cells(self) -> int:
        """Number of points of all stages together."""
        return int(self.size.sum())

    @property
    def error(self) -> float:
        """Largest difference between the true return and that of the grid; 0.0 for an exact grid."""
        return 0.0

    @property
    def step(self) -> float:
        """Distance between neighbouring points of a uniform grid; 0.0 for a set."""
        return 0.0

    @property
    def table_bytes(self) -> int:
        """Memory of the largest table of moves; a uniform grid needs none."""
        return 0

    @abstractmethod
    def points(self, h: int, extra: int = 0) -> FloatArray:
        """Return the points of stage `h`; a uniform grid adds `extra` further steps above the highest."""

    @abstractmethod
    def column(self, h: int, need: Any, extra: int = 1) -> IntArray:
        """Return the first column whose point is at least `need`; the last column if no point is that high."""

    def reduced(self, need: Any, h: int, reward: Any) -> Any:
        """Return the need that is left after collecting `reward` at stage `h`, discounted to stage 0."""
        return need - self.discount**h * np.asarray(reward)

    @abstractmethod
    def moves(self, mdp: MDP, h: int) -> Moves:
        """Return how the outcomes of stage `h` move each need."""

    @abstractmethod
    def landing(self, h: int, unit: int) -> IntArray:
        """Return, for each point of stage h + 1, the column of stage `h` for that point plus a reward of `unit`."""

    @abstractmethod
    def arrays(self) -> dict[str, Any]:
        """Return the grid as plain arrays, without the rewards of the problem unless they are needed."""

    @abstractmethod
    def _summary(self) -> str: ...

    def stage_units(self, mdp: MDP, h: int) -> IntArray:
        """Return the rewards of the outcomes of stage `h` in steps; for a set, as indices into `rewards`."""
        rows = mdp.S * mdp.A
        k = 0 if mdp.stationary else h
        if self.units.shape[1] != mdp.successor.size:  # the grid was built for the stationary form of this problem
            return self.units[h if len(self.units) > 1 else 0]
        return self.units[h if len(self.units) > 1 else 0, mdp.row_start[k * rows] : mdp.row_start[(k + 1) * rows]]

    def drop(self, h: int) -> int:
        """Return d such that a reward of u steps moves column i of stage h to column i + d - u; 0 for a set."""
        return 0


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Lattice(Grid):
    """Uniform grid on the common step of the rewards."""

    kind = "lattice"
    uniform = True
    exact = True

    width: float  # the step
    lowest: IntArray  # (H+1,) lowest point of each stage in steps
    offset: FloatArray  # (H+1,) value of zero steps at each stage
    fraction: tuple[int, int] | None = None  # (numerator, denominator) of the step, if it and the offsets are rational
    exact_offset: tuple[int, ...] | None = None  # (H+1,) offsets in units of 1 / denominator
    noise: float = NOISE  # of one reward
    _ends: dict[int, tuple[int, int]] = field(default_factory=dict, init=False)  # by stage, written by unit_ends alone

    def unit_ends(self, units: IntArray, h: int) -> tuple[int, int]:
        """Return the smallest and the largest of the `units` of stage `h`, which are the same at every call."""
        if h not in self._ends:
            self._ends[h] = int(units.min()), int(units.max())
        return self._ends[h]

    @property
    def step(self) -> float:
        """Distance between neighbouring points."""
        return self.width

    def points(self, h: int, extra: int = 0) -> FloatArray:
        """Return the points of stage `h` and `extra` further steps above the highest."""
        return self.value(h, np.arange(self.size[h] + extra))

    def value(self, h: int, column: Any) -> FloatArray:
        """Return the values of columns, correctly rounded where the step is rational."""
        return self.steps_value(np.asarray(column) + self.lowest[h], h, self.H)

    def steps_value(self, steps: Any, begin: int, end: int) -> FloatArray:
        """Return the value of `steps` whole steps collected in the stages `begin` to `end` - 1."""
        if self.fraction is not None and self.exact_offset is not None:
            base = self.exact_offset[begin] - self.exact_offset[end]
            return (base + steps * self.fraction[0]) / self.fraction[1]
        return (self.offset[begin] - self.offset[end]) + steps * self.width

    def column(self, h: int, need: Any, extra: int = 1) -> IntArray:
        """Return the first column whose point is at least `need`; the last column if no point is that high."""
        steps = (np.asarray(need) - self.offset[h]) / self.width - float(self.lowest[h])
        last = self.size[h] - 1 + extra
        return np.minimum(np.maximum(np.ceil(steps - self._snap), 0), last).astype(np.int64)  # faster than clip

    @property
    def _snap(self) -> float:
        """How far above a point, in steps, a need may lie and still be that point."""
        return SNAP + self.H * self.noise / self.width

    def drop(self, h: int) -> int:
        """Return d such that a reward of u steps moves column i of stage h to column i + d - u of stage h + 1."""
        return int(self.lowest[h] - self.lowest[h + 1])

    def moves(self, mdp: MDP, h: int) -> Moves:
        """Return the shift of every outcome of stage `h`."""
        return Moves(self.drop(h) - self.stage_units(mdp, h), NO_JUMPS)

    def landing(self, h: int, unit: int) -> IntArray:
        """Return, for each point of stage h + 1, the column of stage `h` for that point plus `unit` steps."""
        return np.clip(np.arange(self.size[h + 1]) + unit - self.drop(h), 0, self.size[h] - 1)

    def same_columns(self, other: Grid) -> bool:
        """Return whether the other grid has the same columns at every stage."""
        return other is self or (
            type(other) is type(self)
            and isinstance(other, Lattice)
            and other.width == self.width
            and np.array_equal(other.size, self.size)
            and np.array_equal(other.lowest, self.lowest)
            and np.array_equal(other.offset, self.offset)
            and other.discount == self.discount
        )

    def arrays(self) -> dict[str, Any]:
        """Return the grid as plain arrays."""
        flat = {
            "kind": np.array(self.kind),
            "numbers": np.array([self.width, self.noise, self.discount]),
            "size": self.size,
        }
        flat |= {"lowest": self.lowest, "offset": self.offset}
        if self.fraction is not None and self.exact_offset is not None:
            flat |= {"scale": np.array(self.fraction), "exact_offset": np.array(self.exact_offset, dtype=np.int64)}
        return flat

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Lattice:
        """Return the grid that `arrays` describe."""
        H, size = _sizes(arrays)
        width, noise, discount = floats_of(arrays, "numbers", (3,)).tolist()
        fraction = whole_numbers_of(arrays, "scale", (2,)).tolist() if "scale" in arrays else None
        offsets = tuple(whole_numbers_of(arrays, "exact_offset", (H + 1,)).tolist()) if fraction else None
        require(width > 0.0 and noise >= 0.0, "numbers", "begin with a positive step", [width, noise])
        require(fraction is None or min(fraction) > 0, "scale", "hold positive numbers", fraction)
        require(0.0 < discount <= 1.0, "numbers", "end with a discount in (0, 1]", discount)
        return cls(
            H=H, size=size, units=np.zeros((1, 0), np.int64), discount=discount, width=width, noise=noise,
            lowest=whole_numbers_of(arrays, "lowest", (H + 1,)), offset=floats_of(arrays, "offset", (H + 1,)),
            fraction=None if fraction is None else (fraction[0], fraction[1]), exact_offset=offsets,
        )  # fmt: skip

    def _summary(self) -> str:
        return f"step={self.width:g}"


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class Rounded(Lattice):
    """Uniform grid on which each discounted reward is rounded down, or up."""

    kind = "rounded"
    exact = False

    base: FloatArray  # (H,) least discounted reward of each stage
    bound: float  # the true return minus the grid's lies in [0, bound], or in [-bound, 0] where rounded up
    up: bool = False

    @property
    def error(self) -> float:
        """Largest difference between the true return and that of the grid."""
        return self.bound

    @property
    def _snap(self) -> float:
        return SNAP

    def same_columns(self, other: Grid) -> bool:
        """Return whether the other grid has the same columns at every stage and rounds rewards in the same direction."""
        return super().same_columns(other) and isinstance(other, Rounded) and other.up == self.up

    def reduced(self, need: Any, h: int, reward: Any) -> Any:
        """Return the need that is left after the reward, rounded as on the grid, so that the policy's law is computable."""
        worth = self.discount**h * np.asarray(reward)
        steps = whole_steps(worth, self.base[h], self.width, up=self.up)
        return need - self.base[h] - steps * self.width

    def arrays(self) -> dict[str, Any]:
        """Return the grid as plain arrays, including the rewards in steps."""
        more = {
            "numbers": np.array([self.width, self.noise, self.bound, self.discount]),
            "rounded_up": np.array(self.up),
        }
        return super().arrays() | more | {"units": self.units, "base": self.base}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> Rounded:
        """Return the grid that `arrays` describe."""
        H, size = _sizes(arrays)
        width, noise, bound, discount = floats_of(arrays, "numbers", (4,)).tolist()
        valid = width > 0.0 and noise >= 0.0 and bound >= 0.0 and 0.0 < discount <= 1.0
        got = [width, noise, bound, discount]
        require(valid, "numbers", "hold a positive step, two errors and a discount in (0, 1]", got)
        return cls(
            H=H, size=size, units=whole_numbers_of(arrays, "units", (None, None)), discount=discount, width=width, noise=noise,
            lowest=whole_numbers_of(arrays, "lowest", (H + 1,)), offset=floats_of(arrays, "offset", (H + 1,)),
            base=floats_of(arrays, "base", (H,)), bound=bound, up=bool(arrays["rounded_up"]),
        )  # fmt: skip


@dataclass(frozen=True, kw_only=True, repr=False, eq=False)
class ReturnSet(Grid):
    """The finitely many sums themselves."""

    kind = "set"
    uniform = False
    exact = True

    sets: tuple[FloatArray, ...]  # (H+1) arrays of increasing points
    rewards: FloatArray  # (n,) distinct rewards
    slack: float  # points and needs this close are equal

    @property
    def table_bytes(self) -> int:
        """Memory of the largest table of moves."""
        return self.rewards.size * int(self.size.max()) * 8

    def points(self, h: int, extra: int = 0) -> FloatArray:
        """Return the points of stage `h`; the single column above the highest point has no value."""
        return self.sets[h]

    def column(self, h: int, need: Any, extra: int = 1) -> IntArray:
        """Return the first column whose point is at least `need`; the last column if no point is that high."""
        return np.searchsorted(self.sets[h], np.asarray(need) - self.slack, side="left")

    def moves(self, mdp: MDP, h: int) -> Moves:
        """Return the reward index of every outcome of stage `h`, and jumps[u, i], the column to which reward u moves column i."""
        here, after = self.sets[h], self.sets[h + 1]
        left = here[None, :] - self.discount**h * self.rewards[:, None]
        table = np.searchsorted(after, left - self.slack, side="left")
        lost = np.full((self.rewards.size, 1), after.size)  # a need above all points stays above them
        return Moves(self.stage_units(mdp, h).copy(), np.concatenate([table, lost], axis=1))

    def landing(self, h: int, unit: int) -> IntArray:
        """Return, for each point of stage h + 1, the column of stage `h` for that point plus reward number `unit`."""
        total = self.discount**h * self.rewards[unit] + self.sets[h + 1]
        return np.minimum(np.searchsorted(self.sets[h], total - self.slack, side="left"), self.size[h] - 1)

    def arrays(self) -> dict[str, Any]:
        """Return the grid as plain arrays."""
        flat = {"kind": np.array(self.kind), "numbers": np.array([self.slack, self.discount]), "size": self.size}
        return flat | {"rewards": self.rewards} | {f"set_{h}": points for h, points in enumerate(self.sets)}

    @classmethod
    def from_arrays(cls, arrays: dict[str, Any]) -> ReturnSet:
        """Return the grid that `arrays` describe."""
        H, size = _sizes(arrays)
        slack, discount = floats_of(arrays, "numbers", (2,)).tolist()
        valid = slack >= 0.0 and 0.0 < discount <= 1.0
        require(valid, "numbers", "hold a slack and a discount in (0, 1]", [slack, discount])
        sets = tuple(floats_of(arrays, f"set_{h}", (int(size[h]),)) for h in range(H + 1))
        for h, points in enumerate(sets):
            require(bool(np.all(np.diff(points) > 0.0)), f"set_{h}", "increase", points)
        return cls(
            H=H, size=size, units=np.zeros((1, 0), np.int64), discount=discount, sets=sets, slack=slack,
            rewards=floats_of(arrays, "rewards", (None,)),
        )  # fmt: skip

    def _summary(self) -> str:
        return f"{self.size[0]} returns"


KINDS: dict[str, type[Lattice] | type[ReturnSet]] = {kind.kind: kind for kind in (Lattice, ReturnSet, Rounded)}


def grid_from_arrays(arrays: dict[str, Any]) -> Grid:
    """Return the grid that saved arrays describe; raise FileFormatError if they describe none."""
    kind = str(arrays.get("kind", ""))
    if kind not in KINDS:
        raise FileFormatError(f"expected a grid of kind {', '.join(KINDS)}, got {kind[:40]!r}", column="kind")
    return KINDS[kind].from_arrays(arrays)


def distinct_moves(mdp: MDP, h: int, units: IntArray) -> list[tuple[int, int, int]]:
    """Return the distinct (state, reward, successor) of stage `h`, from the reachable states."""
    stage = mdp.stage(h)
    s = np.repeat(np.arange(mdp.S), np.diff(stage.row_start[:: mdp.A]))
    met = mdp.reachable[h][s]
    found = np.unique(np.stack([s[met], units[met], stage.successor[met]], axis=1), axis=0)
    return [(int(s), int(u), int(t)) for s, u, t in found]


def merge_close(values: FloatArray, slack: float) -> FloatArray:
    """Return sorted values, one per group of values within `slack` of each other."""
    return drop_close(np.sort(values), slack)


def drop_close(values: FloatArray, slack: float) -> FloatArray:
    """Return the first of the sorted values, then each value more than `slack` above the last one returned."""
    starts = np.flatnonzero(np.r_[True, np.diff(values) > slack])
    ends = np.r_[starts[1:], values.size] - 1
    if np.all(values[ends] - values[starts] <= slack):
        return values[starts]
    taken = [float(values[0])]
    for x in values.tolist():
        if x > taken[-1] + slack:
            taken.append(x)
    return np.array(taken)


def whole_steps(worth: Any, base: Any, step: float, *, up: bool) -> FloatArray:
    """Return the steps from base to worth, rounded down (or up) after snapping to the lattice: 0.3 is 3 steps of 0.1, not 2.

    Ratios within the rounding error of worth and base are snapped as well: a reward at the base is 0 steps, not -1.
    """
    ratio = (worth - base) / step
    snapped = np.rint(ratio)
    noise = 2.0**-50 * np.maximum(np.abs(worth), np.abs(base)) / step
    near = np.abs(ratio - snapped) <= 2.0**-49 * np.abs(ratio) + np.minimum(noise, 0.1)
    return np.where(near, snapped, np.ceil(ratio) if up else np.floor(ratio))


def _sizes(arrays: dict[str, Any]) -> tuple[int, IntArray]:
    """Return the number of stages and the number of points of each stage."""
    size = whole_numbers_of(arrays, "size", (None,))
    require(size.size >= 2, "size", "list one number per stage", size)
    require(bool(np.all((size >= 1) & (size <= 2**40))), "size", "give each stage at least one point", size)
    return size.size - 1, size


def by_products(mdp: MDP, grid: Grid, stage: Stage) -> bool:
    """Return whether matrix products are faster for a stage: its rows are dense, and each row shifts all columns alike."""
    return grid.uniform and stage.row_reward is not None and mdp.S >= SMALL_STATES and is_dense(mdp, stage)


def any_products(mdp: MDP, grid: Grid) -> bool:
    """Return whether a sweep uses matrix products at some stage."""
    return any(by_products(mdp, grid, mdp.stage(h)) for h in range(1 if mdp.stationary else mdp.H))


def is_dense(mdp: MDP, stage: Stage) -> bool:
    """Return whether the rows of a stage have so many successors that a matrix product beats visiting them."""
    return bool(stage.successor.size >= DENSE_FROM * mdp.S * np.count_nonzero(stage.available))


def row_shift(mdp: MDP, moves: Moves, h: int) -> IntArray:
    """Return the shift of the rows of stage `h`, shape (S*A,), if it does not depend on the outcome."""
    starts = mdp.stage(h).row_start
    rows = np.flatnonzero(np.diff(starts))
    shift = np.zeros(mdp.S * mdp.A, np.int64)
    shift[rows] = moves.shift[starts[rows]]
    return shift
