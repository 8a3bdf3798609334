"""The table of outcomes to which every input format is converted, and its checks.

A table stores the possible outcomes of every row (stage, state, action) one after the other:

    outcome i of row q:  row_start[q] <= i < row_start[q + 1],  q = (k * S + s) * A + a,
    successor[i], probability[i], reward of the outcome or of its row.

A kernel that is the same at every stage is stored once (K = 1) and never copied H times.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bqrl.errors import ModelError, SizeError
from bqrl.loops.tolerance import SUM_TOL
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.outcomes import Outcomes, merge_cases
from bqrl.mdp.validation import MAX_RETURN, MAX_SHARE, check_mask, resolve_horizon, sum_remedy

MAX_ID = 2**31 - 1  # successors are stored in 32 bits
MIN_LARGEST = 1e-290  # a grid over smaller rewards would have steps that floats cannot hold


@dataclass(slots=True, kw_only=True)
class Table:
    """Outcomes of every row in compressed form; rewards per outcome, or per row if all its outcomes agree."""

    S: int
    A: int
    K: int  # stored kernels: 1 (stationary) or H
    row_start: IntArray  # (K*S*A + 1,)
    successor: NDArray[np.int32]  # (nnz,)
    probability: FloatArray  # (nnz,)
    reward: FloatArray | None = None  # (1 or H, nnz)
    row_reward: FloatArray | None = None  # (1 or H, S, A)
    line_outcome: IntArray | None = None  # outcome of every listed line
    further: Outcomes | None = None  # outcomes beside the reward

    def restrict(self, available: Any, *, complete: bool = False) -> Table:
        """Return the table without the rows that the mask excludes; with `complete`, every other row must have outcomes."""
        if available is None and not complete:
            return self
        shape, sizes = (self.K, self.S, self.A), np.diff(self.row_start)
        keep = (np.ones(shape, bool) if available is None else check_mask(available, shape, "available")).reshape(-1)
        empty = np.flatnonzero(keep & (sizes == 0))
        if complete and empty.size:
            raise self._error(int(empty[0]), "must sum to 1, got 0; mask actions that do not exist with available=")
        if not sizes[~keep].any():
            return self
        kept = np.repeat(keep, sizes)
        return replace(
            self, row_start=np.r_[0, np.cumsum(np.where(keep, sizes, 0))], successor=self.successor[kept],
            probability=self.probability[kept], reward=None if self.reward is None else self.reward[:, kept],
            further=None if self.further is None else self.further.restrict(kept),
        )  # fmt: skip

    def normalise(self) -> FloatArray:
        """Return the checked probabilities; rows that sum to 1 up to rounding are unchanged, others are divided by their sum."""
        p, sizes = self.probability, np.diff(self.row_start)
        bad = np.flatnonzero(~((p >= 0) & (p <= MAX_SHARE)))
        if bad.size:
            i = int(bad[0])
            rule = f"the probability of successor {self.successor[i]} must be a number in [0, 1]"
            raise self._error(self._row_of(i), f"{rule}, got {p[i]}", ":")
        rows = np.flatnonzero(sizes)
        if rows.size == 0:
            raise ModelError("a model must have at least one transition, got none")
        sums = np.add.reduceat(p, self.row_start[rows])
        off = np.abs(sums - 1.0)
        if np.any(off > SUM_TOL):
            i = int(np.argmax(off > SUM_TOL))
            hint = sum_remedy(sums[i], p[slice(*self.row_start[rows[i] : rows[i] + 2])])
            raise self._error(rows[i], f"must sum to 1 (tolerance {SUM_TOL:g}), got {sums[i]:.12g}{hint}")
        loose = off > sizes[rows] * 2.0**-52
        if not loose.any():
            return p if p.flags.owndata else p.copy()
        return p / np.repeat(np.where(loose, sums, 1.0), sizes[rows])

    def check_rewards(self, H: int) -> None:
        """Raise ModelError unless all returns of H stages are finite, and large enough for a grid."""
        rewards = self.reward if self.reward is not None else self.row_reward
        assert rewards is not None
        allowed, sizes = MAX_RETURN / H, np.abs(rewards)
        outside = ~(sizes <= allowed)
        if outside.any():
            h, *where = (int(i) for i in np.argwhere(outside)[0])
            if self.reward is not None:
                q = self._row_of(where[0])
            else:
                q = ((h if self.K > 1 else 0) * self.S + where[0]) * self.A + where[1]
            at = f" at stage {h + 1}" if self.K == 1 and len(rewards) > 1 else ""
            value = rewards[outside][0]
            rule = f"be at most {allowed:g} in size over {H} stages" if np.isfinite(value) else "be finite"
            hint = "; mask actions that do not exist with available=" if value == -np.inf else ""
            raise self._error(q, f"must {rule}, got {value}{hint}", at, what="the reward of row")
        if 0.0 < sizes.max() < MIN_LARGEST:
            rule = f"the largest reward must be 0 or at least {MIN_LARGEST:g} in size"
            raise ModelError(f"{rule}, got {sizes.max():g}; rescale the rewards", name="rewards")

    def _row_of(self, outcome: int) -> int:
        return int(np.searchsorted(self.row_start, outcome, side="right")) - 1

    def _error(self, q: int, message: str, end: str = "", what: str = "row") -> ModelError:
        """Return the error about row `q`."""
        place, text = row_place(q, (self.S, self.A), self.K > 1)
        return ModelError(f"{what} {text}{end} {message}", row=place)


def row_place(
    q: int, shape: tuple[int, int], staged: bool, names: tuple[Any, Any] = (None, None), first_stage: int = 0
) -> tuple[tuple[int | None, int, int], str]:
    """Return row index `q` as (stage or None, state, action), and as text for a message; `shape` is (S, A)."""
    S, A = shape
    h, s, a = int(q) // (S * A), int(q) // A % S, int(q) % A
    labels = [i if given is None else str(given[i])[:40] for given, i in zip(names, (s, a), strict=True)]
    text = f"s={labels[0]}, a={labels[1]}"
    return ((h, s, a), f"(h={h + first_stage}, {text})") if staged else ((None, s, a), f"({text})")


# -- tables of columns -------------------------------------------------------------------------------------------------


def from_columns(
    stage: IntArray, s: IntArray, a: IntArray, s_next: IntArray, probability: FloatArray, reward: FloatArray,
    horizon: int | None, *, staged: bool = False, S: int | None = None, A: int | None = None, keep_zeros: bool = False,
    further: Mapping[str, FloatArray] | None = None,
) -> tuple[Table, int]:  # fmt: skip
    """Return the table and the horizon of listed transitions.

    The probabilities of lines with equal (row, successor, reward) add up; different rewards are random rewards. An outcome of
    probability zero is possible (part of the known support) only with `keep_zeros`. `further` holds the other outcomes of every
    line, shape (1 or H, lines) each; every line becomes a case of its transition.
    """
    H = resolve_horizon(int(stage.max()) + 1 if staged else None, horizon)
    S = int(max(s.max(), s_next.max())) + 1 if S is None else S
    A = int(a.max()) + 1 if A is None else A
    K = H if staged else 1
    check_gaps(K, S, A, s.size)
    every_row = (stage * S + s) * A + a
    order, key = _sorted_lines(every_row * S + s_next, reward)
    if not keep_zeros:
        possible = probability[order] != 0  # NaN stays, so that the check sees it
        order, key = order[possible], key[possible]
    paid, new = reward[order], np.ones(order.size, bool)
    new[1:] = (key[1:] != key[:-1]) | (paid[1:] != paid[:-1])
    first = np.flatnonzero(new)
    lines = order[first]
    mass = np.add.reduceat(probability[order], first) if first.size else probability[:0]
    sizes = np.bincount(every_row[lines], minlength=K * S * A)
    if not keep_zeros and not sizes[every_row].all():
        place, text = row_place(int(every_row[sizes[every_row].argmin()]), (S, A), staged)
        raise ModelError(f"row {text} must sum to 1, got 0; leave out actions that do not exist", row=place)
    table = from_rows((K, S, A), sizes, s_next[lines], mass, reward[lines][None])
    table.line_outcome = np.full(every_row.size, -1)
    table.line_outcome[order] = np.cumsum(new) - 1
    if further:
        table.further = merge_cases(further, order, first, probability)
    return table, H


def _sorted_lines(key: IntArray, reward: FloatArray) -> tuple[IntArray, IntArray]:
    """The order of lines by key and reward, equal ones as listed, and the sorted keys; fast where rows are listed in order."""
    order = np.argsort(key, kind="stable")
    key, reward = key[order], reward[order]
    same = key[1:] == key[:-1]
    mixed = key[1:][same & ~(reward[1:] >= reward[:-1])]  # lines with these keys are not in the order of their rewards
    if mixed.size:
        there = np.flatnonzero(np.isin(key, mixed))
        order[there] = order[there][np.lexsort((reward[there], key[there]))]
    return order, key


def from_rows(
    shape: tuple[int, int, int], sizes: IntArray, successor: IntArray, probability: FloatArray, reward: FloatArray
) -> Table:
    """Return the table of shape (K, S, A) for the outcomes of all rows, one row after the other; row q has sizes[q] of them.

    `reward` has one entry per row, (1 or H, S, A), or per outcome, (1 or H, nnz). Rewards per outcome are stored by row if
    all outcomes of each row agree, which makes sweeps faster.
    """
    K, S, A = shape
    starts, rows = np.r_[0, np.cumsum(sizes)], np.flatnonzero(sizes)
    table = Table(S=S, A=A, K=K, row_start=starts, successor=successor.astype(np.int32), probability=probability)
    if reward.ndim == 3:
        table.row_reward = reward
        return table
    table.reward, first = reward, reward[:, starts[rows]]
    if rows.size and np.all(np.isfinite(first)) and np.array_equal(np.repeat(first, sizes[rows], axis=1), reward):
        by_row = np.zeros((len(reward), K * S * A))
        by_row[:, rows] = first
        table.reward, table.row_reward = None, by_row.reshape(-1, S, A)
    return table


def check_gaps(K: int, S: int, A: int, listed: int) -> None:
    """Raise SizeError if rows without transitions would fill the memory, or if (row, successor) exceeds a whole number."""
    limit = min(max(2**24, 100 * listed), 2**62 // S)
    if K * S * A > limit:
        rows = f"{K * S * A} ({K} x {S} states x {A} actions)"
        raise SizeError(
            f"{listed} transitions must describe at most {limit} rows, got {rows}; number them without gaps",
            needed=K * S * A, limit=limit,
        )  # fmt: skip


def is_id(numbers: FloatArray) -> BoolArray:
    """Return which numbers are valid ids: whole numbers from 0 to MAX_ID - 1."""
    return (numbers >= 0) & (numbers < MAX_ID) & (numbers == np.rint(numbers))
