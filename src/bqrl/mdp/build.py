"""Conversion of every form in which a model may be given to one table of outcomes.

A table stores the possible outcomes of every row (stage, state, action) one after the other:

    outcome i of row q:  row_start[q] <= i < row_start[q + 1],  q = (k * S + s) * A + a,
    successor[i], probability[i], reward of the outcome or of its row.

A kernel that is the same at every stage is stored once (K = 1) and never copied H times.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bqrl.checks import is_one_line, shown, whole, wrong, wrong_type
from bqrl.errors import ModelError, SizeError
from bqrl.kernels.tolerance import SUM_TOL
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray

MAX_ID = 2**31 - 1  # successors are stored in 32 bits
NAMED = "give names as a frame or a list of dicts with state, action, next_state, probability and reward"
MAX_STAGES = 1_000_000  # a longer horizon means minutes of planning for the smallest problem


@dataclass(slots=True, kw_only=True)
class Table:
    """Outcomes of every row in compressed form; rewards per outcome, or per row where all outcomes agree."""

    S: int
    A: int
    K: int  # stored kernels: 1 (stationary) or H
    row_start: IntArray  # (K*S*A + 1,)
    successor: NDArray[np.int32]  # (nnz,)
    probability: FloatArray  # (nnz,)
    reward: FloatArray | None = None  # (1 or H, nnz)
    row_reward: FloatArray | None = None  # (1 or H, S, A)
    infer_available: bool = False  # a row without outcomes is an action that does not exist
    line_outcome: IntArray | None = None  # outcome of every listed line


def read(transitions: Any, rewards: Any, horizon: int | None, support: Any) -> tuple[Table, int]:
    """Table and horizon of a model given as dense arrays, SciPy matrices or a list of transitions."""
    if isinstance(transitions, np.ndarray) and transitions.dtype == object and transitions.ndim == 1:  # of matrices
        transitions = list(transitions)
    if _is_sparse(transitions) or (
        isinstance(transitions, (list, tuple)) and transitions and _is_sparse(transitions[0])
    ):
        return _from_sparse(transitions, rewards, horizon, support)
    if isinstance(transitions, (str, os.PathLike)):
        raise wrong_type("transitions", transitions, "be arrays or a table", remedy="read a file with bqrl.load")
    if rewards is None:
        if support is not None:  # ignoring it would void guarantees over a ball
            remedy = "pass transitions and rewards separately"
            raise wrong("support", support, "not be given with a list of transitions", remedy=remedy)
        return _from_list(transitions, horizon)
    return _from_dense(transitions, rewards, horizon, support)


def check_horizon(horizon: Any) -> int:
    """The horizon as an int from 1 to MAX_STAGES."""
    stages = whole(horizon, "horizon", 1, most=math.inf)
    if stages > MAX_STAGES:
        raise SizeError(
            f"horizon must be at most {MAX_STAGES}, got {shown(stages)}",
            needed=stages,
            limit=MAX_STAGES,
            name="horizon",
        )
    return stages


def _settle_horizon(stages: int | None, horizon: int | None, what: str) -> int:
    if horizon is not None:
        horizon = check_horizon(horizon)
    if stages is None:
        if horizon is None:
            raise wrong("horizon", None, f"be given for {what} without stages", remedy="pass e.g. horizon=10")
        return horizon
    if horizon is not None and horizon != stages:
        raise wrong(
            "horizon", horizon, f"be {stages}, the number of stages of {what}", remedy="omit it or give one stage"
        )
    return check_horizon(stages)


def _numbers(array: Any, what: str, remedy: str = "") -> FloatArray:
    try:
        if np.iscomplexobj(array) or np.ma.is_masked(array):
            raise TypeError
        numbers = np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise wrong_type(
            what, array, "be an array of numbers of one shape", type(array).__name__, remedy=remedy
        ) from None
    return numbers


def _from_dense(transitions: Any, rewards: Any, horizon: int | None, support: Any) -> tuple[Table, int]:
    P = _numbers(transitions, "transitions")
    if P.ndim not in (3, 4) or P.shape[-1] != P.shape[-3]:
        rule = "transitions must have shape (H,S,A,S), or (S,A,S) with horizon"
        raise ModelError(f"{rule}, got {P.shape}{_kernel_remedy(P)}", name="transitions")
    if 0 in P.shape:
        raise ModelError(
            f"transitions must have at least one stage, state and action, got {P.shape}", name="transitions"
        )
    _check_stacked(transitions, P, "transitions")
    H = _settle_horizon(P.shape[0] if P.ndim == 4 else None, horizon, "transitions")
    sums = P.sum(axis=-1)
    if np.any((sums != 0.0) & (np.abs(sums - 1.0) > SUM_TOL)) and (remedy := _summed_remedy(P)):
        raise ModelError(f"transitions must sum to 1 over the last axis, got other sums{remedy}", name="transitions")
    if P.ndim == 3:
        P = P[None]
    K, S, A, _ = P.shape
    possible = P != 0  # NaN counts as possible, so that validation sees it
    if support is not None:
        extra = np.asarray(support)
        if extra.dtype != np.bool_ or extra.shape not in (P.shape, P.shape[1:]):
            rule = f"support must be a boolean array of shape {P.shape[1:]} or {P.shape}"
            raise ModelError(f"{rule}, got {extra.dtype} of shape {extra.shape}", name="support")
        possible = possible | extra
    flat = np.flatnonzero(possible.reshape(-1))
    counts = np.count_nonzero(possible.reshape(K * S * A, S), axis=1)
    table = Table(
        S=S,
        A=A,
        K=K,
        row_start=np.r_[0, np.cumsum(counts)],
        successor=(flat % S).astype(np.int32),
        probability=P.reshape(-1)[flat],
    )
    _attach_rewards(table, rewards, H, four_dimensional=np.ndim(transitions) == 4)
    return table, H


def _check_stacked(given: Any, array: FloatArray, what: str) -> None:
    """Raise ModelError if a list of S matrices (S,S) may have one per action, or one per state with S actions."""
    parts = given if isinstance(given, (list, tuple)) else ()
    if len(parts) > 1 and len(set(array.shape)) == 1 and all(getattr(part, "ndim", 0) == 2 for part in parts):
        got = f"a list of {len(parts)} matrices of shape {array.shape[1:]}"
        remedy = "pass np.stack(list, axis=1) if there is one per action, np.stack(list) if there is one per state"
        raise ModelError(
            f"{what} must be an array (S,A,S) if there are as many actions as states, got {got}; {remedy}", name=what
        )


def _kernel_remedy(P: FloatArray) -> str:
    """The end of a message: how to turn a kernel of another shape into (S,A,S) or (H,S,A,S)."""
    if P.ndim in (3, 4) and P.shape[-1] == P.shape[-2]:
        return f"; for {'(H,A,S,S)' if P.ndim == 4 else '(A,S,S)'} pass np.moveaxis(P, {P.ndim - 3}, {P.ndim - 2})"
    if P.ndim == 2 and P.shape[0] == P.shape[1]:
        return "; for a matrix (S,S) of one action pass P[:, None]"
    if P.ndim == 2:
        return "; list (s, a, s_next, probability, reward) without rewards, or pass a table"
    return _summed_remedy(P) if P.ndim in (3, 4) else ""


def _summed_remedy(P: FloatArray) -> str:
    """The same for a kernel whose successors are not on the last axis: the axis over which it sums to 1."""
    axis = next((axis for axis in (P.ndim - 2, P.ndim - 3) if np.allclose(P.sum(axis=axis), 1.0)), None)
    return "" if axis is None else f"; they sum to 1 over axis {axis}: pass np.moveaxis(P, {axis}, -1)"


def _from_sparse(transitions: Any, rewards: Any, horizon: int | None, support: Any) -> tuple[Table, int]:
    from scipy import sparse

    per_stage = not _is_sparse(transitions)
    given = list(transitions) if per_stage else [transitions]
    if not all(_is_sparse(m) and not np.iscomplexobj(m) for m in given):
        raise wrong_type("transitions", transitions, "be real SciPy matrices at every stage")
    matrices = [sparse.csr_array(m, copy=True) for m in given]  # modified below
    rows, S = matrices[0].shape
    square = len(matrices) > 1 and all(m.shape == (S, S) for m in matrices)
    one_action = getattr(rewards, "shape", ())[-1:] == (1,)
    if square and horizon != len(matrices) and not one_action:  # one per action, or one per stage with one action
        rule = f"be {len(matrices)} if each of {len(matrices)} square matrices is a stage with one action"
        remedy = (
            "for one matrix (S,S) per action pass sparse.vstack(P, 'csr')[np.arange(A * S).reshape(A, S).T.ravel()]"
        )
        raise wrong("horizon", horizon, rule, remedy=remedy)
    H = _settle_horizon(len(matrices) if per_stage else None, horizon, "transitions")
    if S < 1 or rows < S or rows % S:
        raise ModelError(
            f"a sparse kernel must have shape (S*A, S), row s*A + a, got {matrices[0].shape}", name="transitions"
        )
    patterns = (
        [None] * len(matrices) if support is None else (support if isinstance(support, (list, tuple)) else [support])
    )
    if len(patterns) != len(matrices):
        rule = f"support must have one matrix per stored stage ({len(matrices)})"
        raise ModelError(f"{rule}, got {len(patterns)}", name="support")
    for k, matrix in enumerate(matrices):
        if matrix.shape != (rows, S):
            rule = f"transitions[{k}] must have shape {(rows, S)} as the first stage"
            raise ModelError(f"{rule}, got {matrix.shape}", name="transitions")
        if patterns[k] is None:
            matrix.eliminate_zeros()
        else:  # the union of both patterns, zeros included
            wide = sparse.csr_array(patterns[k]).astype(np.float64)
            if wide.shape != (rows, S):
                raise ModelError(f"support must have shape {(rows, S)} as the kernel, got {wide.shape}", name="support")
            both = matrix.tocoo(), wide.tocoo()
            entries = np.r_[both[0].data, np.zeros(both[1].nnz)]
            place = np.r_[both[0].row, both[1].row], np.r_[both[0].col, both[1].col]
            matrix = sparse.csr_array((entries, place), shape=(rows, S))
        matrix.sum_duplicates()
        matrix.sort_indices()
        matrices[k] = matrix
    counts = np.concatenate([np.diff(m.indptr) for m in matrices])
    table = Table(
        S=S,
        A=rows // S,
        K=len(matrices),
        row_start=np.r_[0, np.cumsum(counts)],
        successor=np.concatenate([m.indices for m in matrices]).astype(np.int32),
        probability=np.concatenate([m.data for m in matrices]).astype(np.float64),
    )
    if rewards is None:
        rule = "be given with a sparse kernel, as (S,A), (H,S,A) or a sparse matrix of the kernel's shape"
        raise wrong_type("rewards", None, rule)
    paid = [rewards] if _is_sparse(rewards) else rewards
    if isinstance(paid, (list, tuple)) and paid and _is_sparse(paid[0]):
        if len(paid) not in (1, H) or any(not _is_sparse(m) or m.shape != (rows, S) for m in paid):
            rule, got = f"one or {H} matrices of shape {(rows, S)}", shown([np.shape(m) for m in paid])
            raise ModelError(f"sparse rewards must be {rule}, got {got}", name="rewards")
        stored = paid if table.K == 1 else [sparse.vstack(paid)]  # entries that are not stored are zero
        row = np.repeat(np.arange(table.K * rows), counts)
        found = [sparse.csr_array(m)[row % m.shape[0], table.successor] for m in stored]
        table.reward = np.stack([np.asarray(reward).ravel() for reward in found])
        _rewards_by_row(table)
    else:
        _attach_rewards(table, rewards, H, four_dimensional=per_stage)
    return table, H


def _from_list(transitions: Any, horizon: int | None) -> tuple[Table, int]:
    """Table of listed transitions (s, a, s_next, probability, reward), or the same with the stage in front."""
    columns = _numbers(transitions, "transitions without rewards (a list of transitions)", NAMED)
    if columns.ndim > 2:
        raise wrong_type("rewards", None, "be given with an array of transitions, as (S,A), (H,S,A) or (S,A,S)")
    if columns.ndim != 2 or columns.shape[0] == 0 or columns.shape[1] not in (5, 6):
        rule = "without rewards, transitions must list (s, a, s_next, probability, reward), or the same with the stage in front"
        raise ModelError(f"{rule}, got shape {columns.shape}", name="transitions")
    ids = columns[:, :-2]
    proper = are_ids(ids).all(axis=1)
    if not proper.all():
        line = int(np.flatnonzero(~proper)[0])
        rule = f"transitions[{line}] must have ids that are whole numbers from 0 to {MAX_ID - 1}"
        raise ModelError(f"{rule}, got {ids[line].tolist()}", name="transitions")
    index = ids.astype(np.int64)
    staged = index.shape[1] == 4
    stage = index[:, 0] if staged else np.zeros(len(index), np.int64)
    s, a, s_next = index[:, -3:].T
    return from_columns(stage, s, a, s_next, columns[:, -2], columns[:, -1], horizon, staged=staged)


def are_ids(numbers: FloatArray) -> BoolArray:
    """Which numbers can be ids: whole numbers from 0 to MAX_ID - 1."""
    return (numbers >= 0) & (numbers < MAX_ID) & (numbers == np.rint(numbers))


def row_place(
    q: int, shape: tuple[int, int], staged: bool, names: tuple[Any, Any] = (None, None), first_stage: int = 0
) -> tuple[tuple[int | None, int, int], str]:
    """Row index `q` as (stage or None, state, action), and as text for a message; `shape` is (S, A)."""
    S, A = shape
    h, s, a = int(q) // (S * A), int(q) // A % S, int(q) % A
    labels = [i if given is None else str(given[i])[:40] for given, i in zip(names, (s, a), strict=True)]
    text = f"s={labels[0]}, a={labels[1]}"
    return ((h, s, a), f"(h={h + first_stage}, {text})") if staged else ((None, s, a), f"({text})")


def check_gaps(K: int, S: int, A: int, listed: int) -> None:
    """Raise SizeError if rows without transitions would fill the memory."""
    limit = max(2**24, 100 * listed)
    if K * S * A > limit:
        rows = f"{K * S * A} ({K} x {S} states x {A} actions)"
        raise SizeError(
            f"{listed} transitions must describe at most {limit} rows, got {rows}; number them without gaps",
            needed=K * S * A, limit=limit,
        )  # fmt: skip


def from_columns(
    stage: IntArray,
    s: IntArray,
    a: IntArray,
    s_next: IntArray,
    probability: FloatArray,
    reward: FloatArray,
    horizon: int | None,
    *,
    staged: bool = False,
    S: int | None = None,
    A: int | None = None,
    keep_zeros: bool = False,
) -> tuple[Table, int]:
    """Table and horizon of listed transitions.

    Lines with equal (row, successor, reward) add up; different rewards are random rewards. An outcome of probability zero
    is possible (part of the known support) only with `keep_zeros`.
    """
    H = _settle_horizon(int(stage.max()) + 1 if staged else None, horizon, "transitions")
    S = int(max(s.max(), s_next.max())) + 1 if S is None else S
    A = int(a.max()) + 1 if A is None else A
    K = H if staged else 1
    check_gaps(K, S, A, s.size)
    possible = (probability != 0) | keep_zeros  # NaN stays for validation
    every_row = (stage * S + s) * A + a
    row = every_row[possible]
    s_next, probability, reward = s_next[possible], probability[possible], reward[possible]
    order = np.lexsort((reward, s_next, row))
    row, s_next, probability, reward = row[order], s_next[order], probability[order], reward[order]
    new = np.ones(row.size, bool)
    new[1:] = (row[1:] != row[:-1]) | (s_next[1:] != s_next[:-1]) | (reward[1:] != reward[:-1])
    first = np.flatnonzero(new)
    counts = np.bincount(row[first], minlength=K * S * A)
    if not counts[every_row].all():
        place, text = row_place(int(every_row[counts[every_row] == 0][0]), (S, A), staged)
        raise ModelError(f"row {text} must sum to 1, got 0; leave out actions that do not exist", row=place)
    mass = np.add.reduceat(probability, first) if first.size else probability
    line_outcome = np.full(every_row.size, -1)
    line_outcome[np.flatnonzero(possible)[order]] = np.cumsum(new) - 1
    table = Table(
        S=S,
        A=A,
        K=K,
        row_start=np.r_[0, np.cumsum(counts)],
        successor=s_next[first].astype(np.int32),
        probability=mass,
        reward=reward[first][None],
        infer_available=True,
        line_outcome=line_outcome,
    )
    _rewards_by_row(table)
    return table, H


def _attach_rewards(table: Table, rewards: Any, H: int, *, four_dimensional: bool) -> None:
    R = _numbers(rewards, "rewards")
    S, A, K = table.S, table.A, table.K
    by_row = {(S, A): 1, (H, S, A): H}
    by_outcome = {(S, A, S): 1, (H, S, A, S): H}
    if R.shape in by_row and R.shape in by_outcome and not four_dimensional and S > 1:
        got = f"{R.shape}, which may mean (H,S,A) or (S,A,S)"
        raise ModelError(
            f"rewards must have an unambiguous shape, got {got}; give them as (S,A) or (H,S,A,S)", name="rewards"
        )
    if R.shape in by_row:
        R = R.reshape(-1, S, A)
        table.row_reward = R.copy() if K == 1 or len(R) == H else np.repeat(R, H, axis=0)
    elif R.shape in by_outcome:
        _check_stacked(rewards, R, "rewards")
        row = np.repeat(np.arange(K * S * A), np.diff(table.row_start))
        if K == 1:
            table.reward = R.reshape(-1, S * A, S)[:, row, table.successor]
        else:
            stacked = R.reshape(-1, S)  # one stage of rewards serves every stage of the kernel
            table.reward = stacked[row % len(stacked), table.successor][None]
        _rewards_by_row(table)
    else:
        rule = f"{(S, A)}, {(H, S, A)}, or one of these with a trailing successor axis"
        remedies = {
            (S,): f"for one reward per state pass np.repeat(np.c_[R], {A}, axis=1)",
            (A, S): "for (A,S) pass np.transpose(R)",
            (S, S): f"for (S,S) pass np.repeat(np.expand_dims(R, 1), {A}, axis=1)",
            (A, S, S): "for (A,S,S) pass np.moveaxis(R, 0, 1)",
            (S, S, A): "for (S,S,A) pass np.moveaxis(R, 2, 1)",
        }
        remedy = f"; {remedies[R.shape]}" if R.shape in remedies else ""
        raise ModelError(f"rewards must have shape {rule}, got {R.shape}{remedy}", name="rewards")


def _rewards_by_row(table: Table) -> None:
    """Store one reward per row if all outcomes of each row agree, which makes sweeps faster."""
    assert table.reward is not None
    starts, rows = table.row_start[:-1], np.flatnonzero(np.diff(table.row_start))
    if rows.size == 0 or not np.all(np.isfinite(table.reward)):
        return
    first = table.reward[:, starts[rows]]
    if np.array_equal(np.repeat(first, np.diff(table.row_start)[rows], axis=1), table.reward):
        full = np.zeros((table.reward.shape[0], table.K * table.S * table.A))
        full[:, rows] = first
        table.row_reward = full.reshape(-1, table.S, table.A)
        table.reward = None


def _is_sparse(thing: Any) -> bool:
    return hasattr(thing, "tocsr") and hasattr(thing, "nnz")


def names(given: Iterable[Any] | None, count: int, what: str) -> tuple[str, ...] | None:
    """Names as distinct printable strings, one per item."""
    if given is None:
        return None
    if not isinstance(given, Iterable):
        raise wrong_type(what, given, f"be a list of {count} names")
    strings = tuple(str(name) for name in given)
    if len(strings) != count:
        raise wrong(what, given, f"hold {count} names", len(strings))
    unprintable = next((name for name in strings if not is_one_line(name)), None)
    if unprintable is not None:
        raise wrong(what, unprintable, "be printable on one line", remedy="remove line breaks and control characters")
    if len(set(strings)) != count:
        twice = next(name for name, times in Counter(strings).items() if times > 1)
        raise wrong(what, twice, "be distinct", f"{shown(twice)} twice")
    return strings


def distinct_names(values: Sequence[Any], name: Callable[[Any], str]) -> list[str]:
    """Names by `name` if they are distinct and printable on one line, else by `repr`, else numbered."""
    plain = [value.tolist() if isinstance(value, np.generic) else value for value in values]
    for text in (name, repr):
        names = [" ".join(str(text(value)).split()) for value in plain]
        if len(set(names)) == len(names) and all(found.isprintable() and found for found in names):
            return names
    return [f"{i}: {type(value).__name__}" for i, value in enumerate(plain)]
