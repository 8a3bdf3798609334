"""The two finite models of a problem with affine coordinates, for means; `bqrl.mdp.grid_step` has the proof."""

from __future__ import annotations

from collections.abc import Callable
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


def build_affine(
    function: StepFunction, axes: dict[str, FloatArray], law: Cells, first: dict[tuple[float, ...], float], linear: BoolArray,
    bound: Callable[..., Any], H: int, gamma: float, action_names: list[str], limit: int,
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
    slope, per_event = _slopes(bound, linear, H, gamma)
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


def _slopes(bound: Callable[..., Any], linear: BoolArray, H: int, gamma: float) -> tuple[FloatArray, float]:
    """Return the largest slope of the value after a stage in every coordinate, and that of reward and value in the event."""
    d, none = linear.size, np.zeros(1)
    L, K = np.zeros((d, d)), np.zeros(d)
    for j in np.flatnonzero(linear):
        moved, paid = bound(np.eye(d)[j : j + 1], none)
        L[:, j], K[j] = moved[0] * linear, float(paid[0])
    after = largest = np.zeros(d)
    for _ in range(H - 1):
        after = K + gamma * L.T @ after
        largest = np.maximum(largest, after)
    moved, paid = bound(np.zeros((1, d)), np.ones(1))
    return largest, float(paid[0] + gamma * (moved[0] * linear) @ largest)


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
            place = np.concatenate([np.ravel_multi_index(tuple(at.T), self.shape) for at, _ in parts])
            blocks.append(self._matrix(np.concatenate([q for _, q in parts]), np.tile(row, len(parts)), place))
            outside = np.abs(s_next - inside) @ slope
            paid.append(np.bincount(row, p * (reward + outside)))
        return vstack(blocks, format="csr"), np.concatenate(paid)

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
