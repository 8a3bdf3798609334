"""Builds the table of outcomes of a model given as dense arrays, SciPy matrices or a list of transitions.

A dense or sparse kernel is first converted to the outcomes of its rows, one row after the other; one function then reads the
rewards of both. The lines of a list contain their rewards; they are sorted and merged.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, one_line
from bqrl.errors import ArgumentTypeError, ModelError
from bqrl.loops.tolerance import SUM_TOL
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.outcomes import check_outcomes, one_case
from bqrl.mdp.table import MAX_ID, Table, from_columns, from_rows, is_id
from bqrl.mdp.validation import resolve_horizon

NAMED = "give names as a frame or a list of dicts with state, action, next_state, probability and reward"
Shape = tuple[int, int, int]  # (K, S, A)
Kernel = tuple[Shape, IntArray, IntArray, FloatArray]  # size of every row; successor and probability of every outcome


def build_table(
    transitions: Any, rewards: Any, horizon: int | None, support: Any, outcomes: Any = None
) -> tuple[Table, int]:
    """Return the table and the horizon of a model given as dense arrays, SciPy matrices or a list of transitions."""
    if isinstance(transitions, np.ndarray) and transitions.dtype == object and transitions.ndim == 1:  # matrices
        transitions = list(transitions)
    further = check_outcomes(outcomes)
    if isinstance(transitions, (str, os.PathLike)):
        raise bad_type("transitions", transitions, "be arrays or a table", remedy="read a file with bqrl.load")
    read_kernel = _from_sparse if _holds_sparse(transitions) else _from_dense
    if rewards is None and read_kernel is _from_dense:
        if support is not None:  # ignoring it would void guarantees over a ball
            remedy = "pass transitions and rewards separately"
            raise bad_value("support", support, "not be given with a list of transitions", remedy=remedy)
        return _from_list(transitions, horizon, further)
    if rewards is None:
        raise _rewards_error()
    H, kernel = read_kernel(transitions, rewards, horizon, support)
    table = from_rows(*kernel, _read_rewards(rewards, H, kernel, "rewards"))
    if further:
        read = {
            name: _by_outcome(_read_rewards(x, H, kernel, f"outcomes[{name!r}]"), kernel) for name, x in further.items()
        }
        table.further = one_case(table.probability, read)
    return table, H


def _rewards_error() -> ArgumentTypeError:
    return bad_type("rewards", None, "be given with an array of transitions, as (S,A), (H,S,A) or (S,A,S)")


def _numbers(array: Any, what: str, remedy: str = "") -> FloatArray:
    try:
        if np.iscomplexobj(array) or np.ma.is_masked(array):
            raise TypeError
        return np.asarray(array, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        rule = "be an array of numbers of one shape"
        raise bad_type(what, array, rule, type(array).__name__, remedy=remedy) from None


# -- dense arrays ------------------------------------------------------------------------------------------------------


def _from_dense(transitions: Any, rewards: Any, horizon: int | None, support: Any) -> tuple[int, Kernel]:
    P = _numbers(transitions, "transitions")
    if P.ndim not in (3, 4) or P.shape[-1] != P.shape[-3]:
        rule = "transitions must have shape (H,S,A,S), or (S,A,S) with horizon"
        raise ModelError(f"{rule}, got {P.shape}{_axes_remedy(P)}", name="transitions")
    if 0 in P.shape:
        rule = "transitions must have at least one stage, state and action"
        raise ModelError(f"{rule}, got {P.shape}", name="transitions")
    _check_stacked(transitions, P, "transitions")
    H = resolve_horizon(P.shape[0] if P.ndim == 4 else None, horizon)
    sums = P.sum(axis=-1)
    off = np.argwhere((sums != 0.0) & (np.abs(sums - 1.0) > SUM_TOL))
    if off.size and (remedy := _axes_remedy(P)):
        at = tuple(off[0].tolist())
        got = f"{sums[at]:.12g} in row {at}"
        raise ModelError(f"transitions must sum to 1 over the last axis, got {got}{remedy}", name="transitions")
    P = P if P.ndim == 4 else P[None]
    K, S, A, _ = P.shape
    possible = P != 0  # NaN counts as possible, so that the check sees it
    if support is not None:
        extra = np.asarray(support)
        if extra.dtype != np.bool_ or extra.shape not in (P.shape, P.shape[1:]):
            rule = f"support must be a boolean array of shape {P.shape[1:]} or {P.shape}"
            raise ModelError(f"{rule}, got {extra.dtype} of shape {extra.shape}", name="support")
        possible |= extra
    place = np.flatnonzero(possible)
    sizes = np.count_nonzero(possible.reshape(-1, S), axis=1)
    return H, ((K, S, A), sizes, place % S, P.reshape(-1)[place])


def _axes_remedy(P: FloatArray) -> str:
    """Return the end of a message: how to convert a kernel with other axes to (S,A,S) or (H,S,A,S)."""
    if P.ndim == 2 and P.shape[0] == P.shape[1]:
        return "; for a matrix (S,S) of one action pass P[:, None]"
    if P.ndim == 2:
        return "; list (s, a, s_next, probability, reward) without rewards, or pass a table"
    last = P.ndim - 1
    for i, j in ((last - 2, last - 1), (last - 1, last), (last - 2, last)) if P.ndim in (3, 4) else ():
        turned = np.moveaxis(P, i, j)
        sums = turned.sum(axis=-1)
        if turned.shape[-1] == turned.shape[-3] and sums.any() and np.all((sums == 0.0) | np.isclose(sums, 1.0)):
            return f"; for this order of axes, whose rows sum to 1, pass np.moveaxis(P, {i}, {j})"
    return ""


def _check_stacked(given: Any, array: FloatArray, what: str) -> None:
    """Raise ModelError if a list of S matrices (S,S) is ambiguous: one per action, or one per state with S actions."""
    parts = given if isinstance(given, (list, tuple)) else ()
    if len(parts) > 1 and len(set(array.shape)) == 1 and all(getattr(part, "ndim", 0) == 2 for part in parts):
        rule = f"{what} must be an array (S,A,S) if there are as many actions as states"
        got = f"a list of {len(parts)} matrices of shape {array.shape[1:]}"
        remedy = "pass np.stack(list, axis=1) if there is one per action, np.stack(list) if there is one per state"
        raise ModelError(f"{rule}, got {got}; {remedy}", name=what)


# -- SciPy matrices ----------------------------------------------------------------------------------------------------


def _holds_sparse(given: Any) -> bool:
    """Return whether `given` is a SciPy matrix or a list that begins with one."""
    first = given[0] if isinstance(given, (list, tuple)) and given else given
    return hasattr(first, "tocsr") and hasattr(first, "nnz")


def _from_sparse(transitions: Any, rewards: Any, horizon: int | None, support: Any) -> tuple[int, Kernel]:
    from scipy import sparse

    per_stage = isinstance(transitions, (list, tuple))
    K = len(transitions) if per_stage else 1
    P = _stack(transitions, "transitions")
    rows, S = P.shape[0] // K, P.shape[1]
    one_action = getattr(rewards, "shape", ())[-1:] == (1,)
    if K > 1 and rows == S and horizon != K and not one_action:  # one per action, or one per stage with one action
        rule = f"be {K} if each of {K} square matrices is a stage with one action"
        remedy = (
            "for one matrix (S,S) per action pass sparse.vstack(P, 'csr')[np.arange(A * S).reshape(A, S).T.ravel()]"
        )
        raise bad_value("horizon", horizon, rule, remedy=remedy)
    H = resolve_horizon(K if per_stage else None, horizon)
    if S < 1 or rows < S or rows % S:
        rule = "a sparse kernel must have shape (S*A, S), row s*A + a"
        raise ModelError(f"{rule}, got {(rows, S)}", name="transitions")
    if support is None:
        P.eliminate_zeros()
    else:  # the union of both patterns, zeros included
        parts = P.tocoo(), _stack(support, "support", (K,), (rows, S)).tocoo()
        place = tuple(np.concatenate([getattr(part, axis) for part in parts]) for axis in ("row", "col"))
        P = sparse.csr_array((np.r_[parts[0].data, np.zeros(parts[1].nnz)], place), shape=P.shape)
    P.sum_duplicates()
    P.sort_indices()
    return H, ((K, S, rows // S), np.diff(P.indptr), P.indices, P.data.astype(np.float64))


def _stack(given: Any, what: str, counts: tuple[int, ...] = (), shape: tuple[int, int] | None = None) -> Any:
    """Return SciPy matrices of one shape, one per stage or one for all, stacked vertically into a new matrix."""
    from scipy import sparse

    parts = list(given) if isinstance(given, (list, tuple)) else [given]
    if what == "support":  # may be dense
        parts = [sparse.csr_array(part) if getattr(part, "ndim", 0) == 2 else part for part in parts]
    if not all(_holds_sparse(part) and getattr(part, "ndim", 0) == 2 and not np.iscomplexobj(part) for part in parts):
        raise bad_type(what, given, "be real SciPy matrices at every stage")
    shape = shape or parts[0].shape
    if (counts and len(parts) not in counts) or any(part.shape != shape for part in parts):
        number = f", {' or '.join(map(str, dict.fromkeys(counts)))} of them" if counts else ""
        rule = f"{what} must be SciPy matrices of shape {shape}{number}"
        raise ModelError(f"{rule}, got {one_line([part.shape for part in parts])}", name=what)
    return sparse.csr_array(parts[0], copy=True) if len(parts) == 1 else sparse.csr_array(sparse.vstack(parts, "csr"))


# -- rewards of dense and sparse kernels --------------------------------------------------------------------------------


def _read_rewards(rewards: Any, H: int, kernel: Kernel, what: str) -> FloatArray:
    """Return the rewards of every row, (1 or H, S, A), or of every outcome of the kernel, (1 or H, nnz).

    `what` names the argument in messages: further outcomes have the shapes of rewards.
    """
    (K, S, A), sizes, successor, _ = kernel
    if _holds_sparse(rewards):
        R = _stack(rewards, what, (1, H), (S * A, S))  # entries that are not stored are zero
    else:
        R = _numbers(rewards, what)
        by_row, by_outcome = R.shape in ((S, A), (H, S, A)), R.shape in ((S, A, S), (H, S, A, S))
        if by_row and by_outcome and K == 1 and S > 1:
            got = f"{R.shape}, which may mean (H,S,A) or (S,A,S)"
            remedy = "give them as (S,A) or (H,S,A,S)"
            raise ModelError(f"{what} must have an unambiguous shape, got {got}; {remedy}", name=what)
        if by_row:
            R = R.reshape(-1, S, A)
            return R.copy() if K in (1, len(R)) else np.repeat(R, K, axis=0)
        if not by_outcome:
            rule = f"{what} must have shape {(S, A)}, {(H, S, A)}, or one of these with a trailing successor axis"
            raise ModelError(f"{rule}, got {R.shape}{_reward_remedy(R.shape, S, A)}", name=what)
        _check_stacked(rewards, R, what)
        R = R.reshape(-1, S)
    # Line q of R holds the rewards of row q of its stage. A single stage of rewards or of the kernel applies to all stages.
    stages = [R[i : i + S * A] for i in range(0, R.shape[0], S * A)] if K == 1 else [R]
    line = np.repeat(np.arange(K * S * A) % stages[0].shape[0], sizes)
    return np.stack([np.asarray(stage[line, successor], np.float64).ravel() for stage in stages])


def _by_outcome(values: FloatArray, kernel: Kernel) -> FloatArray:
    """Return values by row, (1 or H, S, A), or by outcome as values by outcome, (1 or H, nnz)."""
    (K, S, A), sizes, _, _ = kernel
    return np.repeat(values.reshape(-1, K * S * A), sizes, axis=1) if values.ndim == 3 else values


def _reward_remedy(shape: tuple[int, ...], S: int, A: int) -> str:
    """Return the end of a message: how to convert rewards with other axes."""
    if shape in ((S,), (S, S)):
        return f"; for rewards that do not depend on the action pass np.repeat(np.expand_dims(R, 1), {A}, axis=1)"
    if shape in ((A, S), (A, S, S), (S, S, A)):
        return f"; for this order of axes pass np.moveaxis(R, {shape.index(A)}, 1)"
    return ""


# -- lists -------------------------------------------------------------------------------------------------------------


def _from_list(transitions: Any, horizon: int | None, further: Mapping[str, Any]) -> tuple[Table, int]:
    """Return table and horizon of listed transitions (s, a, s_next, probability, reward), which may begin with the stage."""
    columns = _numbers(transitions, "transitions without rewards (a list of transitions)", NAMED)
    if columns.ndim > 2:
        raise _rewards_error()
    if columns.ndim != 2 or columns.shape[0] == 0 or columns.shape[1] not in (5, 6):
        rule = "without rewards, transitions must list (s, a, s_next, probability, reward), or the same with the stage in front"
        raise ModelError(f"{rule}, got shape {columns.shape}", name="transitions")
    ids = columns[:, :-2]
    proper = is_id(ids).all(axis=1)
    if not proper.all():
        line = int(proper.argmin())
        rule = f"transitions[{line}] must have ids that are whole numbers from 0 to {MAX_ID - 1}"
        raise ModelError(f"{rule}, got {ids[line].tolist()}", name="transitions")
    index = ids.astype(np.int64)
    staged = index.shape[1] == 4
    stage = index[:, 0] if staged else np.zeros(len(index), np.int64)
    s, a, s_next = index[:, -3:].T
    read = {name: _numbers(values, f"outcomes[{name!r}]") for name, values in further.items()}
    for name, values in read.items():
        if values.shape != (len(index),):
            rule = f"outcomes[{name!r}] must have one number per listed transition ({len(index)})"
            raise ModelError(f"{rule}, got shape {values.shape}", name="outcomes")
    lines = {name: values[None] for name, values in read.items()}
    return from_columns(stage, s, a, s_next, columns[:, -2], columns[:, -1], horizon, staged=staged, further=lines)
