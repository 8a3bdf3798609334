"""The finite models of a problem with affine coordinates; `bqrl.mdp.grid_step` has the proofs.

For means there are two models of type MDP. For objectives with CVaR a `Chain` also says how far its returns may spread.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from bqrl.checks import bad_value
from bqrl.errors import SizeError
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.cells import Cells
from bqrl.mdp.grid_step import SNAP, round_states, state_label
from bqrl.mdp.model import MDP
from bqrl.mdp.step_function import StepFunction
from bqrl.mdp.table import Table

CHUNK = 1_000_000  # calls of the step function at once
OUTSIDE = 1_000  # points with which the lower chain continues an axis on both sides


def build_affine(
    function: StepFunction, axes: dict[str, FloatArray], law: Cells, first: dict[tuple[float, ...], float], linear: BoolArray,
    slopes: Slopes, H: int, gamma: float, action_names: list[str], limit: int,
) -> tuple[MDP, MDP]:  # fmt: skip
    """Return the lower and the upper model; both have one state per grid point."""
    points = list(axes.values())
    shape = tuple(p.size for p in points)
    states = np.stack(np.meshgrid(*points, indexing="ij"), axis=-1).reshape(-1, len(points))
    begin, _, moved = round_states(np.array(list(first)), points, None, "nearest")
    if np.any(moved > SNAP * np.array([np.diff(p).min() for p in points])):
        raise bad_value("start", first, "be a grid point with affine", remedy="add it to the grid")
    mu = np.zeros(len(states))
    np.add.at(mu, np.ravel_multi_index(tuple(begin.T), shape), list(first.values()))
    slope, per_event = slopes.state.max(axis=0, initial=0.0), float(slopes.event.max())
    names: dict[str, Any] = {
        "state_names": [state_label(code, points) for code in np.ndindex(*shape)], "action_names": action_names,
        "state_values": tuple(np.ndindex(*shape)),
    }  # fmt: skip
    found = []
    for side, (events, chance, missing) in (("lower", (law.mean, law.probability, 0.0)), ("upper", _ends(law))):
        rows = _Rows(function, states, points, linear, events, chance)
        transitions, paid = rows.nearest(gamma * slope) if side == "lower" else rows.between(gamma * slope)
        if transitions.nnz > limit:
            raise SizeError(
                f"the model must have at most max_transitions={limit} outcomes, got {transitions.nnz}; use fewer points",
                needed=transitions.nnz, limit=limit, name="max_transitions",
            )  # fmt: skip
        table = Table(
            S=len(states), A=rows.A, K=1, row_start=transitions.indptr.astype(np.int64),
            successor=transitions.indices.astype(np.int32), probability=transitions.data,
            row_reward=(paid + missing * per_event).reshape(1, len(states), rows.A),
        )  # fmt: skip
        found.append(MDP.from_table(table, H, mu, gamma, **names))
    return found[0], found[1]


class Slopes:
    """By how much the return after every stage changes at most with a coordinate, and that from it with the event."""

    def __init__(self, bound: Callable[..., Any], linear: BoolArray, H: int, gamma: float) -> None:
        d, none = linear.size, np.zeros(1)
        L, K = np.zeros((d, d)), np.zeros(d)
        for j in np.flatnonzero(linear):
            moved, paid = bound(np.eye(d)[j : j + 1], none)
            L[:, j], K[j] = moved[0] * linear, float(paid[0])
        self.state = np.zeros((H, d))
        for h in range(H - 2, -1, -1):
            self.state[h] = K + gamma * L.T @ self.state[h + 1]
        moved, paid = bound(np.zeros((1, d)), np.ones(1))
        self.event = float(paid[0]) + gamma * self.state @ (moved[0] * linear)


def _ends(law: Cells) -> tuple[Any, FloatArray, float]:
    """Return the ends of the cells, the mass of each, and the mean distance from them in infinite cells."""
    if law.source is None:
        return law.mean, law.probability, 0.0
    ends = law.low[1:]  # the inner ends; a finite first and last one are added
    ends = np.r_[law.low[:1][np.isfinite(law.low[:1])], ends, law.high[-1:][np.isfinite(law.high[-1:])]]
    left, right = np.maximum(law.low, ends[0]), np.minimum(law.high, ends[-1])
    wide = np.where(right > left, right - left, 1.0)
    up = np.where(right > left, np.clip((law.mean - left) / wide, 0.0, 1.0), 0.0)
    chance = np.zeros(ends.size)
    np.add.at(chance, np.searchsorted(ends, left), law.probability * (1.0 - up))
    np.add.at(chance, np.searchsorted(ends, right), law.probability * up)
    infinite = ~np.isfinite(law.high - law.low)
    apart = np.abs(law.mean - np.where(np.isfinite(law.low), law.low, law.high))
    return ends, chance, float((law.probability * apart)[infinite].sum())


class _Rows:
    """The rows of one model: every grid point with every action and event."""

    def __init__(
        self, function: StepFunction, states: FloatArray, points: list[FloatArray], linear: BoolArray, events: Any,
        chance: FloatArray,
    ) -> None:  # fmt: skip
        self.function, self.states, self.points, self.linear = function, states, points, linear
        self.events, self.chance, self.A = events, chance, len(function.actions)
        self.shape = tuple(p.size for p in points)

    def nearest(self, slope: FloatArray) -> tuple[Any, FloatArray]:
        """Return the transitions to the nearest grid points, and the mean rewards minus what rounding may cost."""
        blocks, paid = [], []
        for s_next, reward, row, p in self._steps():
            codes, _, _ = round_states(s_next, self.points, self.linear.astype(float), "nearest")
            place = np.ravel_multi_index(tuple(codes.T), self.shape)
            blocks.append(self._matrix(p, row, place))
            loss = np.zeros(blocks[-1].shape[0])
            for j in np.flatnonzero(self.linear):
                shift = self._matrix(p * (s_next[:, j] - self.points[j][codes[:, j]]), row, place)
                loss += slope[j] * np.asarray(abs(shift).sum(axis=1)).ravel()
            paid.append(np.bincount(row, p * reward) - loss)
        return vstack(blocks, format="csr"), np.concatenate(paid)

    def between(self, slope: FloatArray) -> tuple[Any, FloatArray]:
        """Return the transitions to the grid points around each next state, and the mean rewards plus what lies outside."""
        blocks, paid = [], []
        for s_next, reward, row, p in self._steps():
            parts, away = self._around(s_next, p)
            place = np.concatenate([np.ravel_multi_index(tuple(at.T), self.shape) for at, _ in parts])
            blocks.append(self._matrix(np.concatenate([q for _, q in parts]), np.tile(row, len(parts)), place))
            paid.append(np.bincount(row, p * (reward + away @ slope)))
        return vstack(blocks, format="csr"), np.concatenate(paid)

    def grouped(
        self, chain: Chain, slope: FloatArray, s_next: FloatArray, reward: FloatArray, row: IntArray, p: FloatArray
    ) -> dict[str, Any]:  # fmt: skip
        """Return outcomes that stand for all events of a row near one point, and how far these lie from their mean."""
        code, near = chain._continued(s_next)
        _, first, group = np.unique(row * chain._size + code, return_index=True, return_inverse=True)
        mass = np.bincount(group, p)
        off = np.column_stack([reward, s_next - near])
        mean = np.stack([np.bincount(group, p * x) for x in off.T], axis=1) / mass[:, None]
        off -= mean[group]
        variance = np.stack([np.bincount(group, p * x * x) for x in off.T], axis=1) / mass[:, None]
        codes, _, _ = round_states(s_next[first], self.points, self.linear.astype(float), "nearest")
        inside = np.stack([x[codes[:, j]] for j, x in enumerate(self.points)], axis=1)
        back = mass * (np.abs(near[first] - inside) @ slope)
        return {
            "row": row[first], "code": code[first], "probability": mass,
            "place": np.ravel_multi_index(tuple(codes.T), self.shape),
            "reward": mean[:, 0] - np.abs(mean[:, 1:]) @ slope, "charge": np.bincount(row[first], back),
            "most": np.abs(off).max(axis=0), "variance": variance.max(axis=0),
        }  # fmt: skip

    def spread(
        self, slope: FloatArray, s_next: FloatArray, reward: FloatArray, row: IntArray, p: FloatArray
    ) -> dict[str, Any]:
        """Return one outcome per event and grid point beside it, and the distances between these points."""
        parts, outside = self._around(s_next, p)
        most = [0.0, *(float(np.diff(x).max()) * moves for x, moves in zip(self.points, self.linear, strict=True))]
        place = np.stack([np.ravel_multi_index(tuple(at.T), self.shape) for at, _ in parts], axis=1)
        share = np.stack([q for _, q in parts], axis=1)
        kept = share > 0.0
        return {
            "row": np.repeat(row, kept.sum(axis=1)), "place": place[kept], "probability": share[kept],
            "reward": np.repeat(reward, kept.sum(axis=1)), "most": np.array(most), "variance": np.zeros(len(most)),
            "charge": np.bincount(row, p * (outside @ slope)),
        }  # fmt: skip

    def blocks(self) -> Any:
        """Yield what `_steps` does without impossible events."""
        for s_next, reward, row, p in self._steps():
            kept = p > 0.0
            yield s_next[kept], reward[kept], row[kept], p[kept]

    def _around(self, s_next: FloatArray, p: FloatArray) -> tuple[list[tuple[IntArray, FloatArray]], FloatArray]:
        """Return the grid points around each next state with their shares of `p`, and how far it lies outside."""
        inside = np.clip(s_next, [x[0] for x in self.points], [x[-1] for x in self.points])
        codes, _, _ = round_states(inside, self.points, self.linear.astype(float), "nearest")
        parts = [(codes, p)]
        for j in np.flatnonzero(self.linear):
            axis = self.points[j]
            right = np.clip(np.searchsorted(axis, inside[:, j]), 1, axis.size - 1)
            share = (inside[:, j] - axis[right - 1]) / (axis[right] - axis[right - 1])
            parts = [
                (np.where(np.arange(len(self.points)) == j, side[:, None], at), q * part)
                for at, q in parts for side, part in ((right - 1, 1.0 - share), (right, share))
            ]  # fmt: skip
        return parts, np.abs(s_next - inside)

    def _steps(self) -> Any:
        """Yield next states, rewards, row numbers (from 0) and probabilities, for blocks of states."""
        size = max(1, CHUNK // (self.A * self.events.size))
        for begin in range(0, len(self.states), size):
            n = min(size, len(self.states) - begin)
            i, a, e = (x.ravel() for x in np.indices((n, self.A, self.events.size)))
            s_next, reward = self.function.many(self.states[begin + i], a, self.events[e])
            yield s_next, reward, i * self.A + a, self.chance[e]

    def _matrix(self, p: FloatArray, row: IntArray, place: IntArray) -> Any:
        """Return the sums of `p` by row and next state."""
        found = csr_array((p, (row, place)), shape=(int(row.max()) + 1, len(self.states)))
        found.sum_duplicates()
        found.eliminate_zeros()
        return found


# -- objectives with CVaR --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, kw_only=True)
class Chain:
    """A finite model whose returns spread around the true ones (upper), or the true ones around its own (lower).

    An outcome is a grid point with a reward. Rows whose outcomes differ by an amount alone are of one kind. In the lower chain it
    stands for all events that lead near to one point; the axes are continued beyond the grid, so that these events differ
    little, and the charge pays for the way back.
    """

    points: list[FloatArray]
    linear: BoolArray
    kind: IntArray  # (S*A,) of every row
    extra: FloatArray  # (S*A,) added to the rewards of its kind
    row_start: IntArray  # (kinds + 1,)
    place: IntArray  # (outcomes,)
    probability: FloatArray
    reward: FloatArray
    charge: FloatArray  # (S*A,) mean distance, in units of the return, that the spreads below leave out
    most: FloatArray  # (1 + d,) largest spread of the reward and of each coordinate of the next state
    deviation: FloatArray  # (1 + d,) standard deviations of the same
    width: float  # of the widest finite cell of events, which is spread, too
    key: IntArray | None = None  # (outcomes,) kind and point of every outcome of the lower chain, increasing

    def spreads(self, slopes: Slopes, h: int, gamma: float) -> list[tuple[float, float]]:
        """Return the largest size and the variance of each spread of stage `h`."""
        weight = gamma**h * np.r_[1.0, gamma * slopes.state[h]]
        by_event = gamma**h * self.width * float(slopes.event[h])
        if self.key is None:  # a draw between two points has a variance of at most a quarter of the squared length
            return [(x, x * x / 4.0) for x in (by_event, *(weight * self.most).tolist())]
        return [(by_event, by_event**2 / 4.0), (float(weight @ self.most), float(weight @ self.deviation) ** 2)]

    def paid(self, row: IntArray, s_next: FloatArray) -> FloatArray:
        """Return the rewards of the lower chain for rows and the next states of the step function."""
        assert self.key is not None
        code, _ = self._continued(s_next)
        place = np.searchsorted(self.key, self.kind[row] * self._size + code)
        return self.reward[np.minimum(place, self.reward.size - 1)] + self.extra[row]

    @cached_property
    def _size(self) -> int:
        return int(np.prod(self._shape))

    @property
    def _shape(self) -> list[int]:
        return [p.size + 2 * OUTSIDE * int(moves) for p, moves in zip(self.points, self.linear, strict=True)]

    def _continued(self, s_next: FloatArray) -> tuple[IntArray, FloatArray]:
        """Return the codes and the coordinates of the nearest points of the continued axes."""
        codes, _, _ = round_states(s_next, self.points, self.linear.astype(float), "nearest")
        near = np.stack([p[codes[:, j]] for j, p in enumerate(self.points)], axis=1)
        for j in np.flatnonzero(self.linear):
            p = self.points[j]
            for end, step in ((p[0], p[1] - p[0]), (p[-1], p[-1] - p[-2])):
                beyond = (s_next[:, j] < end) if end == p[0] else (s_next[:, j] > end)
                steps = np.where(beyond, np.clip(np.rint((s_next[:, j] - end) / step), -OUTSIDE, OUTSIDE), 0.0)
                codes[:, j] += steps.astype(np.int64)
                near[:, j] += steps * step
            codes[:, j] += OUTSIDE
        return np.ravel_multi_index(tuple(codes.T), self._shape), near


def build_chain(
    function: StepFunction, axes: dict[str, FloatArray], law: Cells, linear: BoolArray, slopes: Slopes, gamma: float, side: str
) -> Chain:  # fmt: skip
    """Return the lower or the upper chain; see `bqrl.mdp.grid_step`."""
    points = list(axes.values())
    states = np.stack(np.meshgrid(*points, indexing="ij"), axis=-1).reshape(-1, len(points))
    events, chance, missing = _ends(law)
    missing *= float(slopes.event.max())
    if side == "lower":
        events, chance, missing = law.mean, law.probability, 2.0 * missing
    widths = np.zeros(1) if law.source is None else (law.high - law.low)[np.isfinite(law.high - law.low)]
    rows, slope = _Rows(function, states, points, linear, events, chance), gamma * slopes.state.max(axis=0)
    none, whole = np.empty(0), np.empty(0, np.int64)
    chain = Chain(
        points=points, linear=linear, kind=whole, extra=none, row_start=whole, place=whole, probability=none, reward=none,
        charge=none, most=none, deviation=none, width=float(widths.max()),
    )  # fmt: skip
    found, kinds = [], 0
    for step in rows.blocks():
        part = rows.grouped(chain, slope, *step) if side == "lower" else rows.spread(slope, *step)
        found.append(_by_kind(part, kinds))
        kinds += found[-1]["count"].size
    parts: dict[str, Any] = {
        name: np.concatenate([part[name] for part in found]) for name in found[0] if name not in ("most", "variance")
    }
    most, variance = (np.max([part[name] for part in found], axis=0) for name in ("most", "variance"))
    if "code" in parts:
        parts["key"] = np.repeat(np.arange(kinds), parts["count"]) * chain._size + parts.pop("code")
    return replace(
        chain, row_start=np.r_[0, np.cumsum(parts.pop("count"))], most=most, deviation=np.sqrt(variance),
        charge=parts.pop("charge") + missing, **parts,
    )  # fmt: skip


def _by_kind(part: dict[str, Any], kinds: int) -> dict[str, Any]:
    """Return the outcomes of each kind once; kinds are numbered from `kinds` on."""
    row, place, p, reward = (part.pop(name) for name in ("row", "place", "probability", "reward"))
    start = np.r_[0, np.cumsum(np.bincount(row))]
    extra = np.add.reduceat(p * reward, start[:-1]) / np.add.reduceat(p, start[:-1])
    above = reward - extra[row]
    rounded = np.rint(above / (1e-10 * max(1.0, float(np.abs(reward).max()))))
    kind, kept, known = np.empty(extra.size, np.int64), np.zeros(extra.size, bool), dict[Any, int]()
    for q, (i, j) in enumerate(zip(start[:-1].tolist(), start[1:].tolist(), strict=True)):
        case = place[i:j].tobytes(), p[i:j].tobytes(), rounded[i:j].tobytes()
        if case not in known:
            known[case], kept[q] = kinds, True
            kinds += 1
        kind[q] = known[case]
    own = np.repeat(kept, np.diff(start))
    code = {"code": part.pop("code")[own]} if "code" in part else {}
    return part | code | {
        "kind": kind, "extra": extra, "count": np.diff(start)[kept], "place": place[own], "probability": p[own],
        "reward": above[own],
    }  # fmt: skip
