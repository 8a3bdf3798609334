"""The grid of returns that fits a problem: a lattice, a set of returns, or a rounded grid (see grid.py)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np

from bqrl.checks import whole
from bqrl.loops.backward import extend_ends
from bqrl.loops.plain import by_numpy, plain_ends
from bqrl.mdp.arrays import FloatArray, IntArray, read_only
from bqrl.mdp.grid import (
    EMPTY,
    NOISE,
    SNAP,
    Lattice,
    ReturnSet,
    Rounded,
    distinct_moves,
    drop_close,
    merge_close,
    whole_steps,
)
from bqrl.mdp.model import MDP, per_structure
from bqrl.mdp.paid import Paid

MAX_POINTS = 2_000_000
MAX_SET = 50_000
MAX_DENOMINATOR = 10_000
MAX_STEPS = 2**52  # sums in steps beyond this would lose digits as floats and could overflow as integers
ROUNDING = 1e-13  # error of a sum of rewards, relative to the number of stages times the largest reward
MAX_SET_WORK = 2_000_000  # largest number of transitions times stages for which a set is built
SMALL = 4_096  # a lattice of at most this size is not replaced by a set
HANDFUL = 256  # a stage with fewer sums does not yet show whether the sums fill the lattice


@per_structure
def returns_grid(mdp: MDP, max_points: int = MAX_POINTS, max_set: int = MAX_SET) -> Lattice | ReturnSet | None:
    """Return the exact grid of a problem, or None if neither a lattice nor a set of returns fits the given sizes."""
    found = lattice(mdp, max_points)
    if found is not None and found.size[0] <= SMALL:
        return found
    fewer = return_set(mdp, max_set, None if found is None else found.size // 4)
    return found if fewer is None else fewer


@per_structure
def lattice(mdp: MDP, max_points: int = MAX_POINTS) -> Lattice | None:
    """Return the uniform grid on the step of the rewards, or None if they have none or it exceeds `max_points`."""
    rewards = distinct_rewards(mdp)
    noise = noise_of(rewards)
    found = reward_step(rewards) if mdp.discount == 1.0 else None
    if found is None:
        return None
    base, step = found
    if mdp.H * noise > 0.01 * float(step) or not sums_fit(mdp.H, rewards, float(base), float(step)):
        return None
    reward = np.clip(mdp.reward, rewards[0], rewards[-1])  # rewards of unreachable states may be huge
    units = np.rint((reward - float(base)) / float(step)).astype(np.int64)
    lowest, size = _extent(mdp, units)
    if size[0] > max_points:
        return None
    return lattice_of(mdp.H, base, step, noise, lowest, size, units, mdp.paid)


def lattice_of(
    H: int, base: Fraction | float, step: Fraction, noise: float, lowest: IntArray, size: IntArray, units: IntArray,
    rewards: Paid | None,
) -> Lattice:  # fmt: skip
    """Return the uniform grid of rewards that are whole steps above `base`."""
    left = np.arange(H, -1, -1)
    fraction = exact_offset = None
    if isinstance(base, Fraction):
        common = math.lcm(base.denominator, step.denominator)
        per_stage = int(base * common)
        if H * max(abs(per_stage), int(step * common) * int(units.max())) < MAX_STEPS:
            fraction = (int(step * common), common)
            exact_offset = tuple(int(n) * per_stage for n in left)
    return Lattice(
        H=H, paid=rewards, size=size, units=units, discount=1.0, width=float(step), lowest=lowest, noise=noise,
        offset=np.asarray(float(base) * left, dtype=np.float64), fraction=fraction, exact_offset=exact_offset,
    )  # fmt: skip


def sums_fit(H: int, rewards: FloatArray, base: float, step: float) -> bool:
    """Return whether every sum of H rewards is a whole number of steps that floats and integers hold exactly."""
    most = max(float(rewards[-1]) - base, abs(base), abs(float(rewards[0]))) / step
    return H * most < MAX_STEPS


def return_set(mdp: MDP, max_points: int = MAX_SET, fewer_than: IntArray | None = None) -> ReturnSet | None:
    """Return the grid of the possible sums of rewards, or None if a stage has more than `max_points` sums.

    With `fewer_than` (H+1,) the result is also None if a stage has more sums than `fewer_than` and more than HANDFUL. The
    result is None as well if rewards differ by less than the rounding error of their sums.
    """
    if fewer_than is not None:
        max_points = min(max_points, int(fewer_than[0]))
    rewards = distinct_rewards(mdp)
    if rewards.size > max_points or max_points < 1 or mdp.successor.size * mdp.H > MAX_SET_WORK:
        return None
    noise = noise_of(rewards)
    distinct = drop_close(rewards, noise)
    units = np.searchsorted(distinct, np.clip(mdp.reward, rewards[0], rewards[-1]) + noise, side="right") - 1
    rounding = sum_error(mdp.H) * max(noise / NOISE, float(np.abs(rewards).max()))
    if np.any(np.diff(np.union1d(distinct, 0.0)) < 4.0 * rounding):
        return None  # sums would not distinguish these rewards
    sets = _backward_sets(mdp, distinct, units, rounding, max_points, fewer_than)
    if sets is None:
        return None
    closest = min((float(np.diff(points).min()) for points in sets if points.size > 1), default=1.0)
    slack = max(rounding, min(mdp.H * noise if distinct.size < rewards.size else rounding, closest / 4))
    return ReturnSet(
        H=mdp.H, paid=mdp.paid, size=np.array([points.size for points in sets]), units=units,
        discount=mdp.discount, sets=tuple(sets), rewards=distinct, slack=slack,
    )  # fmt: skip


def _backward_sets(
    mdp: MDP, rewards: FloatArray, units: IntArray, rounding: float, max_points: int, fewer_than: IntArray | None
) -> list[FloatArray] | None:
    """Return the sums that are still possible from each stage, or None if there are too many."""
    sets = [np.zeros(1)]
    by_state = [np.zeros(1)] * mdp.S
    parts = _stage_slices(mdp, units)
    for h in range(mdp.H - 1, -1, -1):
        after, by_state = by_state, [EMPTY] * mdp.S
        pairs = distinct_moves(mdp, h, parts[h])
        if sum(after[t].size for _, _, t in pairs) > 40 * max_points:
            return None
        found: list[list[FloatArray]] = [[] for _ in range(mdp.S)]
        for s, u, t in pairs:
            found[s].append(mdp.discount**h * rewards[u] + after[t])
        by_state = [merge_close(np.concatenate(sums), rounding) if sums else EMPTY for sums in found]
        sets.append(merge_close(np.concatenate(by_state), rounding))
        if sets[-1].size > max_points or (fewer_than is not None and sets[-1].size > max(HANDFUL, int(fewer_than[h]))):
            return None
    return sets[::-1]


def rounded_grid(mdp: MDP, points: int, *, up: bool = False) -> Rounded:
    """Return a uniform grid of about `points` points at stage 0 on which each discounted reward is rounded down (or up).

    There are fewer points if their step would be too small for floats: a need computed from rewards must differ from its
    point by less than SNAP steps.
    """
    whole(points, "points", 2, most=MAX_STEPS)
    reward = _discounted_rewards(mdp, every_stage=False)
    floor_of = np.array([part.min() for part in _stage_slices(mdp, reward)])
    smallest = sum_error(mdp.H) * (float(np.abs(distinct_rewards(mdp)).max()) or 1.0) / SNAP
    step = max(_spread(mdp, reward - _by_outcome(mdp, floor_of, len(reward))) / points, smallest)
    units, bound = _rounded_units(mdp, reward, floor_of, step, up=up)
    lowest, size = _extent(mdp, units)
    return Rounded(
        H=mdp.H, paid=mdp.paid, size=size, units=units, discount=mdp.discount, width=step, lowest=lowest,
        offset=np.r_[np.cumsum(floor_of[::-1])[::-1], 0.0], base=floor_of, bound=bound, up=up,
    )  # fmt: skip


def refit_grid(columns: Rounded, mdp: MDP) -> Rounded | None:
    """Return the grid with the units of this problem, whose reachable states may differ from those of the original problem.

    The result is None if the returns of this problem spread over too many steps of the grid. The limit applies to the
    remaining sums; a sum before a stage is a return minus a remaining sum, so there are at most twice as many of them.
    """
    reward = _discounted_rewards(mdp, every_stage=bool(np.ptp(columns.base)))
    if mdp.H * np.abs(reward - _by_outcome(mdp, columns.base, len(reward))).max() >= MAX_STEPS * columns.width:
        return None
    units, bound = _rounded_units(mdp, reward, columns.base, columns.width, up=columns.up)
    if _extent(mdp, units)[1].max() > max(MAX_POINTS, 4 * columns.size.max()):
        return None
    return replace(columns, units=units, bound=bound)


def _discounted_rewards(mdp: MDP, *, every_stage: bool) -> FloatArray:
    """Return the discounted rewards that can be collected, one row per stage if they differ by stage or if `every_stage`."""
    factor = np.array([mdp.discount**h for h in range(mdp.H)])  # exactly the factors that `Rounded.reduced` uses
    reward = mdp.reward
    if not mdp.stationary:  # the outcomes of stage h are a slice of one flat row
        reward = reward * np.repeat(factor, np.diff(mdp.row_start[:: mdp.S * mdp.A]))[None, :]
    elif len(reward) > 1 or mdp.discount < 1.0 or every_stage:
        reward = reward * factor[:, None]
    return _collectable_rewards(mdp, reward)


def _by_outcome(mdp: MDP, per_stage: FloatArray, rows: int) -> FloatArray:
    """Return one number per stage, reshaped to broadcast with rewards of `rows` rows."""
    if not mdp.stationary:
        return np.repeat(per_stage, np.diff(mdp.row_start[:: mdp.S * mdp.A]))[None, :]
    return (per_stage if rows > 1 else per_stage[:1])[:, None]


def _rounded_units(
    mdp: MDP, reward: FloatArray, floor_of: FloatArray, step: float, *, up: bool
) -> tuple[IntArray, float]:
    """Return the rewards in steps above the floors of their stages, and the largest change of a return by rounding."""
    base = _by_outcome(mdp, floor_of, len(reward))
    units = whole_steps(reward, base, step, up=up).astype(np.int64)
    moved = np.abs(reward - base - units * step)
    return units, float(sum(part.max() for part in _stage_slices(mdp, moved)))


def reward_step(rewards: FloatArray) -> tuple[Fraction | float, Fraction] | None:
    """Return the smallest reward and the largest step such that all rewards are whole steps above it, up to noise.

    The result is None if there is no such step, or if it is so small that sums in steps are not exact as floats. If no step
    is found, the search is repeated in units of a power of ten, which works for very small and very large rewards.
    """
    found = _step(rewards, noise_of(rewards))
    if found is None and (size := float(np.abs(rewards).max())) > 0.0:
        unit = Fraction(10) ** math.floor(math.log10(size))
        scaled, noise = rewards / float(unit), 10.0 * ROUNDING
        values = np.union1d(scaled, 0.0)
        gaps, sizes = np.diff(values), np.maximum(np.abs(values[1:]), np.abs(values[:-1]))
        blurred = (gaps > 0.1 * ROUNDING * sizes) & (gaps < 100.0 * noise)  # distinct, but too close for the noise
        found = None if blurred.any() else _step(scaled, noise)
        if found is not None:
            base, step = found
            return (base * unit if isinstance(base, Fraction) else base * float(unit)), step * unit
    return found


def _step(rewards: FloatArray, noise: float) -> tuple[Fraction | float, Fraction] | None:
    """Return base and step of the rewards, up to the given noise."""
    base = float(rewards[0])
    rational = _nearest_fraction(base, noise)
    exact_base: Fraction | float = base if rational is None else rational
    above = rewards - base
    if above.size == 1:
        return exact_base, Fraction(1)
    denominator = 1
    for _ in range(40):  # each round extends the denominator to fit one more reward
        scaled = above * denominator
        if scaled[-1] > MAX_STEPS or denominator > 10**7:
            return None
        missed = np.flatnonzero(np.abs(scaled - np.rint(scaled)) > noise * denominator)
        if missed.size == 0:
            common = int(np.gcd.reduce(np.rint(scaled).astype(np.int64)))
            return exact_base, Fraction(common, denominator) if common else Fraction(1)  # 0: equal up to noise
        found = _nearest_fraction(float(above[missed[0]]), noise)
        if found is None:
            return None
        denominator = math.lcm(denominator, found.denominator)
    return None


def noise_of(rewards: FloatArray) -> float:
    """Return the largest distance of a reward from its lattice point: 1e-9 times the largest reward, at most 1e-9."""
    return NOISE * min(1.0, float(np.abs(rewards).max()) or 1.0)


def _nearest_fraction(x: float, noise: float) -> Fraction | None:
    """Return the simplest fraction within `noise` of x: a short decimal, or a denominator up to MAX_DENOMINATOR."""
    for digits in range(7):
        if abs(x - round(x, digits)) <= noise:
            return Fraction(round(x * 10**digits), 10**digits)
    near = Fraction(x).limit_denominator(MAX_DENOMINATOR)
    return near if abs(float(near) - x) <= noise else None


def sum_error(H: int) -> float:
    """Return the largest difference by rounding between two equal sums of H rewards, relative to the largest reward."""
    return H * min(ROUNDING, max(H, 4) * 2.0**-51)


@per_structure
def distinct_rewards(mdp: MDP) -> FloatArray:
    """Return the distinct rewards of the actions that exist in reachable states, increasing."""
    if mdp.row_reward is None:
        return np.unique(_collectable_rewards(mdp, mdp.reward))
    met = mdp.reachable[:-1] if len(mdp.row_reward) > 1 else np.any(mdp.reachable[:-1], axis=0)[None]
    return np.unique(mdp.row_reward[np.broadcast_to(mdp.available & met[:, :, None], mdp.row_reward.shape)])


def _collectable_rewards(mdp: MDP, reward: FloatArray) -> FloatArray:
    """Return the rewards, where those of unreachable states are replaced by the least reward of the stage."""
    met, starts = mdp.reachable[:-1], mdp.row_start[:: mdp.A]
    if mdp.stationary:
        met = met if len(reward) > 1 else np.any(met, axis=0)[None]
    else:
        met = met.reshape(1, -1)
    met = np.repeat(met, np.diff(starts), axis=1)
    if met.all():
        return reward
    found = np.where(met, reward, np.inf)
    for part in _stage_slices(mdp, found):
        part[part == np.inf] = part.min()
    return found


def _stage_slices(mdp: MDP, per_outcome: np.ndarray) -> Sequence[np.ndarray]:
    bounds = mdp.row_start[:: mdp.S * mdp.A]
    if mdp.stationary:
        return [per_outcome[h if len(per_outcome) > 1 else 0] for h in range(mdp.H)]
    return [per_outcome[0, bounds[h] : bounds[h + 1]] for h in range(mdp.H)]


def _bounds(mdp: MDP, per_outcome: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the least and the greatest sum from each stage over all reachable states, shape (H+1,) each."""
    ends = np.zeros((mdp.S, 2), per_outcome.dtype)
    least, most = np.zeros((2, mdp.H + 1), per_outcome.dtype)
    parts = _stage_slices(mdp, per_outcome)
    for h in range(mdp.H - 1, -1, -1):
        after, ends, stage = ends, np.empty_like(ends), mdp.stage(h)
        starts, gain = np.ascontiguousarray(stage.row_start[:: mdp.A]), np.ascontiguousarray(parts[h])
        if by_numpy(stage.successor.size):
            plain_ends(starts, stage.successor, gain, after, ends)
        else:
            extend_ends(read_only(starts), stage.successor, read_only(gain), after, ends)
        met = mdp.reachable[h]
        least[h], most[h] = ends[met, 0].min(), ends[met, 1].max()
    return least, most


@per_structure
def possible_returns(mdp: MDP) -> tuple[float, float, float]:
    """Return the least and the greatest return of any policy and kernel on the same outcomes, and their rounding error."""
    least, most = _bounds(mdp, _discounted_rewards(mdp, every_stage=False))
    return float(least[0]), float(most[0]), sum_error(mdp.H) * float(np.abs(distinct_rewards(mdp)).max())


def cut_to_possible(mdp: MDP, values: Any) -> FloatArray:
    """Return bounds on returns, clipped to the range of possible returns.

    Values that exceed the range by no more than rounding error are not changed.
    """
    least, most, slack = possible_returns(mdp)
    values = np.asarray(values, np.float64)
    return np.where(values > most + slack, most, np.where(values < least - slack, least, values))


def _extent(mdp: MDP, units: IntArray) -> tuple[IntArray, IntArray]:
    least, most = _bounds(mdp, units)
    return least, most - least + 1


def _spread(mdp: MDP, above: FloatArray) -> float:
    """Return the range of sums at stage 0, or a quarter of the widest range of any stage if that is larger."""
    least, most = _bounds(mdp, above)
    return float(max(most[0] - least[0], (most - least).max() / 4))
