"""The grid of returns: which totals are still possible from each stage.

Every sweep runs over the states and, as columns, over R_h: the sorted returns that can still be collected from stage h
on, R_H = {0}. An amount still needed, n, belongs to the first column i with R_h[i] >= n, because the return cannot end
between two points of R_h. There are three kinds of grid, tried in this order:

    lattice   rewards are base + step * whole numbers (up to noise of 1e-9), so R_h is a uniform grid: exact
    set       the finitely many sums themselves, where these are far fewer than the lattice has points: exact
    rounded   no such grid fits: every discounted reward is rounded down (or up) to a step; `error` bounds what that moves

On a rounded grid the return of the grid is never above (below) the true one, and at most `error` away from it.
Rounding happens on n itself rather than on n / discount^h: late stages then need few columns, which buys a finer step for
the same work, and one code serves all three kinds.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from bqrl.mdp.forms import FloatArray, IntArray
from bqrl.mdp.model import MDP

NOISE = 1e-9  # rewards this close to a lattice lie on it
SNAP = 1e-3  # a need this close to a point, in steps, is that point (plus the noise of H rewards)
MAX_POINTS = 2_000_000
MAX_SET = 50_000
MAX_DENOMINATOR = 10_000
MAX_SET_WORK = 2_000_000  # transitions times stages that may be looked at one by one in building a set
SMALL = 4_096  # a lattice of this size is not worth replacing by a set
HANDFUL = 256  # sums of a stage that tell nothing yet of whether they fill the lattice


@dataclass(frozen=True, slots=True, eq=False)
class Grid:
    """Points R_h of every stage, and where a reward leads on them."""

    H: int
    kind: str  # "lattice", "set" or "rounded"
    step: float  # 0.0 for a set
    error: float  # the true return minus the grid's lies in [0, error], or in [-error, 0] where rounded up
    lowest: IntArray  # (H+1,) lowest point of each stage in steps; zeros for a set
    size: IntArray  # (H+1,) number of points of each stage
    units: IntArray  # rewards in steps above their base, shaped like MDP.reward; for a set, which of `rewards` it is
    offset: FloatArray  # (H+1,) value of zero steps at each stage
    scale: tuple[int, int] | None  # exact step as (numerator, denominator) where rational and so is the offset
    exact_offset: tuple[int, ...] | None  # offsets in units of 1 / denominator
    sets: tuple[FloatArray, ...] | None  # the points themselves, for a set
    rewards: FloatArray | None  # (n,) distinct rewards, for a set
    discount: float
    slack: float = 0.0  # for a set: points and needs this close are equal
    rounded_up: bool = False
    base: FloatArray | None = None  # (H,) least discounted reward of each stage, on a rounded grid

    def __post_init__(self) -> None:
        for part in (self.lowest, self.size, self.units, self.offset, self.rewards, self.base, *(self.sets or ())):
            if part is not None:
                part.flags.writeable = False  # a grid is shared by all plans of a problem

    def __repr__(self) -> str:
        how = f"step={self.step:g}" if self.sets is None else f"{self.size[0]} returns"
        return f"Grid({self.kind}, {how}, H={self.H}, {self.cells} points in all)"

    @property
    def exact(self) -> bool:
        """Whether returns lie on the grid (up to the noise of 1e-9 in the rewards)."""
        return self.kind != "rounded"

    @property
    def cells(self) -> int:
        """Points of all stages together."""
        return int(self.size.sum())

    def points(self, h: int, extra: int = 0) -> FloatArray:
        """Points of stage `h` in increasing order, with `extra` further steps above the highest."""
        if self.sets is not None:
            return self.sets[h]
        return self.value(h, np.arange(self.size[h] + extra))

    def value(self, h: int, column: IntArray | int) -> FloatArray:
        """Value of the given columns of a uniform grid, correctly rounded where the step is rational."""
        steps = np.asarray(column) + self.lowest[h]
        if self.scale is not None and self.exact_offset is not None:
            return (self.exact_offset[h] + steps * self.scale[0]) / self.scale[1]
        return self.offset[h] + steps * self.step

    def column(self, h: int, need: FloatArray | float, extra: int = 1) -> IntArray:
        """The first column whose point is at least `need`; the last of all when no point is that high."""
        if self.sets is not None:
            return np.searchsorted(self.sets[h], np.asarray(need) - self.slack, side="left")
        steps = (np.asarray(need) - self.offset[h]) / self.step - float(self.lowest[h])
        return np.clip(np.ceil(steps - self.snap), 0, self.size[h] - 1 + extra).astype(np.int64)

    def reduced(self, need: FloatArray | float, h: int, reward: FloatArray | float) -> FloatArray | float:
        """The need that is left after collecting `reward` at stage `h`, in the money of stage 0.

        On a rounded grid the reward counts as much as the grid gave it, so that the policy's own law can be followed.
        """
        worth = self.discount**h * np.asarray(reward)
        if self.exact:
            return need - worth
        assert self.base is not None
        steps = whole_steps(worth, self.base[h], self.step, up=self.rounded_up)
        return need - self.base[h] - steps * self.step

    @property
    def snap(self) -> float:
        """How far above a point, in steps, a need may lie and still be that point."""
        return SNAP + (self.H * NOISE / self.step if self.exact else 0.0)

    def stage_units(self, mdp: MDP, h: int) -> IntArray:
        """Rewards of the outcomes of stage `h` in steps (for a set: indices into `rewards`)."""
        rows = mdp.S * mdp.A
        k = 0 if mdp.stationary else h
        here = slice(mdp.row_start[k * rows], mdp.row_start[(k + 1) * rows])
        if self.units.shape[1] != mdp.successor.size:  # made for a stationary twin of this problem
            return self.units[h if len(self.units) > 1 else 0]
        return self.units[h if len(self.units) > 1 else 0, here]

    def drop(self, h: int) -> int:
        """What takes column i of stage h, after a reward of u steps, to column i + drop - u of stage h + 1."""
        return int(self.lowest[h] - self.lowest[h + 1])

    def stage_shift(self, mdp: MDP, h: int) -> tuple[IntArray, IntArray]:
        """Columns by which each outcome of stage `h` moves a need, and no table; for a set, rows of the table of jumps."""
        units = self.stage_units(mdp, h)
        if self.sets is not None:
            return units, self.jumps(h)
        return self.drop(h) - units, np.empty((0, 0), np.int64)

    def jumps(self, h: int) -> IntArray:
        """For a set: jumps[u, i] is the column of stage h + 1 after reward u from column i of stage h; lost stays lost."""
        assert self.sets is not None
        assert self.rewards is not None
        here, after = self.sets[h], self.sets[h + 1]
        left = here[None, :] - self.discount**h * self.rewards[:, None]
        table = np.searchsorted(after, left - self.slack, side="left")
        return np.concatenate([table, np.full((self.rewards.size, 1), after.size)], axis=1)

    def landings(self, h: int) -> IntArray:
        """For a set: landings[u, j] is the column of stage h that reward u makes of point j of stage h + 1."""
        assert self.sets is not None
        assert self.rewards is not None
        here, after = self.sets[h], self.sets[h + 1]
        total = self.discount**h * self.rewards[:, None] + after[None, :]
        return np.searchsorted(here, total - self.slack, side="left")


def grid(mdp: MDP, max_points: int = MAX_POINTS, max_set: int = MAX_SET) -> Grid | None:
    """The exact grid of a problem, or None where neither a lattice nor a set of returns fits the given sizes."""
    key = ("grid", max_points, max_set)
    if key not in mdp._cache:
        found = lattice(mdp, max_points) if mdp.discount == 1.0 else None
        if found is None or found.size[0] > SMALL:
            fewer = return_set(mdp, max_set) if found is None else return_set(mdp, max_set, found.size // 4)
            found = found if fewer is None else fewer
        mdp._cache[key] = found
    cached: Grid | None = mdp._cache[key]
    return cached


def lattice(mdp: MDP, max_points: int = MAX_POINTS) -> Grid | None:
    """Uniform grid on the step of the rewards, or None where they have none or it has more than `max_points` points."""
    found = reward_step(_distinct_rewards(mdp))
    if found is None or mdp.discount != 1.0:
        return None
    base, step = found
    units = np.rint((mdp.reward - float(base)) / float(step)).astype(np.int64)
    if mdp.H * NOISE > 0.01 * float(step):
        return None
    lowest, size = _extent(mdp, units)
    if size[0] > max_points:
        return None
    left = np.arange(mdp.H, -1, -1)
    scale = exact_offset = None
    if isinstance(base, Fraction):
        common = math.lcm(base.denominator, step.denominator)
        per_stage = int(base * common)
        if max(abs(per_stage) * mdp.H, int(step * common) * int(size[0])) < 2**52:
            scale = (int(step * common), common)
            exact_offset = tuple(int(n) * per_stage for n in left)
    return Grid(
        mdp.H,
        "lattice",
        float(step),
        0.0,
        lowest,
        size,
        units,
        np.asarray(float(base) * left, dtype=np.float64),
        scale,
        exact_offset,
        None,
        None,
        1.0,
    )


def return_set(mdp: MDP, max_points: int = MAX_SET, fewer_than: IntArray | None = None) -> Grid | None:
    """Grid of the sums themselves, or None where some stage has more than `max_points` of them.

    With `fewer_than` (H+1,) it gives up at the first stage that has more than so many, and more than a handful.
    """
    if fewer_than is not None:
        max_points = min(max_points, int(fewer_than[0]))
    rewards = _distinct_rewards(mdp)
    if rewards.size > max_points or max_points < 1 or mdp.successor.size * mdp.H > MAX_SET_WORK:
        return None
    kept = _apart(rewards, NOISE)
    units = np.searchsorted(kept, mdp.reward + NOISE, side="right") - 1
    rounding = 1e-13 * mdp.H * max(1.0, float(np.abs(rewards).max()))
    sets = [np.zeros(1)]
    by_state = [np.zeros(1)] * mdp.S
    parts = _stage_slices(mdp, units)
    for h in range(mdp.H - 1, -1, -1):
        after, by_state = by_state, [_EMPTY] * mdp.S
        pairs = _steps(mdp, h, parts[h])
        if sum(after[t].size for _, _, t in pairs) > 40 * max_points:
            return None
        sums: list[list[FloatArray]] = [[] for _ in range(mdp.S)]
        for s, u, t in pairs:
            sums[s].append(mdp.discount**h * kept[u] + after[t])
        by_state = [_merged(np.concatenate(found), rounding) if found else _EMPTY for found in sums]
        sets.append(_merged(np.concatenate(by_state), rounding))
        if sets[-1].size > max_points or (fewer_than is not None and sets[-1].size > max(HANDFUL, int(fewer_than[h]))):
            return None
    sets.reverse()
    closest = min((float(np.diff(points).min()) for points in sets if points.size > 1), default=1.0)
    slack = max(rounding, min(mdp.H * NOISE if kept.size < rewards.size else rounding, closest / 4))
    size = np.array([points.size for points in sets])
    nothing = np.zeros(mdp.H + 1, np.int64)
    return Grid(
        mdp.H,
        "set",
        0.0,
        0.0,
        nothing,
        size,
        units,
        np.zeros(mdp.H + 1),
        None,
        None,
        tuple(sets),
        kept,
        mdp.discount,
        slack,
    )


def rounded(mdp: MDP, points: int, *, up: bool = False) -> Grid:
    """Uniform grid of about `points` points at stage 0 on which every discounted reward is rounded down (or up)."""
    if points < 2:
        raise ValueError(f"a rounded grid needs at least 2 points, got {points}")
    factor = np.array([mdp.discount**h for h in range(mdp.H)])  # the very numbers that `Grid.reduced` makes
    reward = mdp.reward
    flat_stages = not mdp.stationary  # then the outcomes of stage h are a slice of one flat row
    if flat_stages:
        per_stage = np.diff(mdp.row_start[:: mdp.S * mdp.A])
        reward = reward * np.repeat(factor, per_stage)[None, :]
    elif len(reward) > 1 or mdp.discount < 1.0:
        reward = reward * factor[:, None]
    floor_of = _stage_minima(mdp, reward)
    base = (
        np.repeat(floor_of, per_stage)[None, :]
        if flat_stages
        else (floor_of if len(reward) > 1 else floor_of[:1])[:, None]
    )
    above = reward - base
    step = max(_spread(mdp, above), NOISE) / points
    units = whole_steps(reward, base, step, up=up).astype(np.int64)
    moved = np.abs(above - units * step)
    if flat_stages:
        worst = np.maximum.reduceat(moved[0], mdp.row_start[:: mdp.S * mdp.A][:-1])
    else:
        worst = moved.max(axis=1) if len(moved) > 1 else np.full(mdp.H, moved.max())
    lowest, size = _extent(mdp, units)
    offset = np.r_[np.cumsum(floor_of[::-1])[::-1], 0.0]
    return Grid(
        mdp.H,
        "rounded",
        step,
        float(worst.sum()),
        lowest,
        size,
        units,
        offset,
        None,
        None,
        None,
        None,
        mdp.discount,
        rounded_up=up,
        base=floor_of,
    )


def whole_steps(worth: FloatArray, base: FloatArray | float, step: float, *, up: bool) -> FloatArray:
    """Steps from base to worth, floored (or ceiled) after a snap to the lattice: 0.3 is 3 steps of 0.1, not 2.

    What lies within the rounding error of worth and base is snapped, too: a reward at the base is worth 0 steps, not -1.
    """
    ratio = (worth - base) / step
    snapped = np.rint(ratio)
    noise = 2.0**-50 * np.maximum(np.abs(worth), np.abs(base)) / step
    near = np.abs(ratio - snapped) <= 1e-12 * np.maximum(1.0, np.abs(ratio)) + np.minimum(noise, 0.1)
    return np.where(near, snapped, np.ceil(ratio) if up else np.floor(ratio))


def reward_step(rewards: FloatArray) -> tuple[Fraction | float, Fraction] | None:
    """Smallest reward and the largest step such that all rewards are whole steps above it, up to NOISE; None if none."""
    base = float(rewards[0])
    rational = _nearest_fraction(base)
    exact_base: Fraction | float = base if rational is None else rational
    above = rewards - base
    if above.size == 1:
        return exact_base, Fraction(1)
    denominator = 1
    for _ in range(40):  # each round mends the first reward that the denominator so far misses
        scaled = above * denominator
        missed = np.flatnonzero(np.abs(scaled - np.rint(scaled)) > NOISE * denominator)
        if missed.size == 0:
            common = int(np.gcd.reduce(np.rint(scaled).astype(np.int64)))
            return exact_base, Fraction(common, denominator) if common else Fraction(1)  # 0: all are one up to NOISE
        found = _nearest_fraction(float(above[missed[0]]))
        if found is None:
            return None
        denominator = math.lcm(denominator, found.denominator)
        if denominator > 10**7 or float(above[-1]) * denominator > 2**52:
            return None
    return None


def _nearest_fraction(x: float) -> Fraction | None:
    """The simplest fraction within NOISE of x: a short decimal, or a denominator up to MAX_DENOMINATOR."""
    for digits in range(7):
        if abs(x - round(x, digits)) <= NOISE:
            return Fraction(round(x * 10**digits), 10**digits)
    near = Fraction(x).limit_denominator(MAX_DENOMINATOR)
    return near if abs(float(near) - x) <= NOISE else None


def _distinct_rewards(mdp: MDP) -> FloatArray:
    if mdp.row_reward is not None:
        values = mdp.row_reward[np.broadcast_to(mdp.available, mdp.row_reward.shape)]
    else:
        values = mdp.reward.ravel()
    return np.unique(values)


_EMPTY = np.zeros(0)


def _steps(mdp: MDP, h: int, units: IntArray) -> list[tuple[int, int, int]]:
    """Distinct (state, reward, successor) of stage `h`, from the states that can be met."""
    stage = mdp.stage(h)
    s = np.repeat(np.arange(mdp.S), np.diff(stage.row_start[:: mdp.A]))
    met = mdp.reachable[h][s]
    found = np.unique(np.stack([s[met], units[met], stage.successor[met]], axis=1), axis=0)
    return [(int(s), int(u), int(t)) for s, u, t in found]


def forward_sets(mdp: MDP, columns: Grid) -> list[FloatArray]:
    """For a set of returns: the sums that may have been collected before each stage."""
    assert columns.rewards is not None
    by_state = [np.zeros(1) if p > 0 else _EMPTY for p in mdp.mu]
    sets = [np.zeros(1)]
    for h in range(mdp.H):
        sums: list[list[FloatArray]] = [[] for _ in range(mdp.S)]
        for s, u, t in _steps(mdp, h, columns.stage_units(mdp, h)):
            sums[t].append(by_state[s] + mdp.discount**h * columns.rewards[u])
        by_state = [_merged(np.concatenate(found), columns.slack) if found else _EMPTY for found in sums]
        sets.append(_merged(np.concatenate(by_state), columns.slack))
    return sets


def _merged(values: FloatArray, slack: float) -> FloatArray:
    """Sorted values, one for each group that lies closer together than `slack`."""
    return _apart(np.sort(values), slack)


def _apart(values: FloatArray, slack: float) -> FloatArray:
    """Of sorted values the first, and each that lies more than `slack` above the last one kept: chains do not merge."""
    starts = np.flatnonzero(np.r_[True, np.diff(values) > slack])
    ends = np.r_[starts[1:], values.size] - 1
    if np.all(values[ends] - values[starts] <= slack):
        return values[starts]
    kept = [float(values[0])]
    for x in values.tolist():
        if x > kept[-1] + slack:
            kept.append(x)
    return np.array(kept)


def _stage_slices(mdp: MDP, per_outcome: np.ndarray) -> Sequence[np.ndarray]:
    bounds = mdp.row_start[:: mdp.S * mdp.A]
    if mdp.stationary:
        return [per_outcome[h if len(per_outcome) > 1 else 0] for h in range(mdp.H)]
    return [per_outcome[0, bounds[h] : bounds[h + 1]] for h in range(mdp.H)]


def _stage_minima(mdp: MDP, reward: FloatArray) -> FloatArray:
    return np.array([part.min() for part in _stage_slices(mdp, reward)])


def _bounds(mdp: MDP, per_outcome: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Least and greatest sum from each stage over all reachable states, shape (H+1,) each."""
    from bqrl.kernels.sweep import extremes

    low = np.zeros(mdp.S, per_outcome.dtype)
    high = np.zeros(mdp.S, per_outcome.dtype)
    least = np.zeros(mdp.H + 1, per_outcome.dtype)
    most = np.zeros(mdp.H + 1, per_outcome.dtype)
    parts = _stage_slices(mdp, per_outcome)
    for h in range(mdp.H - 1, -1, -1):
        stage = mdp.stage(h)
        low, high = extremes(stage.row_start, stage.successor, parts[h], mdp.A, low, high)
        met = mdp.reachable[h]
        least[h], most[h] = low[met].min(), high[met].max()
    return least, most


def _extent(mdp: MDP, units: IntArray) -> tuple[IntArray, IntArray]:
    least, most = _bounds(mdp, units)
    return least, most - least + 1


def _spread(mdp: MDP, above: FloatArray) -> float:
    """The range of sums at stage 0; or a quarter of the widest of a later stage, where what differs cancels out."""
    least, most = _bounds(mdp, above)
    return float(max(most[0] - least[0], (most - least).max() / 4))
