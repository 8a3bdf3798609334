"""Checks that every model passes when it is built: masks, probabilities, rewards and the start."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from numbers import Real
from typing import Any

import numpy as np

from bqrl.checks import is_one_line, nearest, number, short, shown, whole, wrong, wrong_type
from bqrl.errors import ArgumentError, ModelError, SizeError
from bqrl.kernels.tolerance import SUM_TOL
from bqrl.mdp.arrays import BoolArray, FloatArray
from bqrl.mdp.build import MAX_STAGES, Table, check_horizon, names, row_place
from bqrl.mdp.columns import label_text

MAX_PLACES = 100_000_000  # (stage, state) pairs: a table of reachable states must fit
MAX_SHARE = 1e6  # larger entries cannot be percentages either; sums stay finite
MAX_RETURN = 1e300  # sums and differences of returns stay finite
MIN_LARGEST = 1e-290  # a grid over smaller rewards would have steps that floats cannot hold


def checked(
    table: Table, H: int, start: Any, discount: float, *, available: Any = None, known: Any = None, state_names: Any = None,
    action_names: Any = None, state_values: tuple[Any, ...] | None = None, units: str | None = None, noise: Any = None,
) -> dict[str, Any]:  # fmt: skip
    """The fields of a model, each checked."""
    S, A, K = table.S, table.A, table.K
    H = check_horizon(H)
    _check_length(H, S)
    if units is not None and not (isinstance(units, str) and is_one_line(units)):
        raise wrong_type("units", units, "be a word such as 'EUR'")
    labels = names(state_names, S, "state_names")
    mask = mask_of(available, (K, S, A), "available")
    if mask is not None:
        table = _without_rows(table, ~mask.reshape(-1))
    sizes = np.diff(table.row_start)
    listed = (sizes > 0).reshape(K, S, A)
    if not table.infer_available:
        empty = np.flatnonzero(~listed if mask is None else mask & ~listed)
        if empty.size:
            row, text = place(empty[0], table)
            raise ModelError(
                f"row {text} must sum to 1, got 0; mask actions that do not exist with available=", row=row
            )
    if table.row_reward is not None and not listed.all():  # rewards of absent actions have no meaning
        table.row_reward = np.where(np.broadcast_to(listed, table.row_reward.shape), table.row_reward, 0.0)
    check_table(table, H)
    probability = normalised(table)
    if noise is not None:
        noise.check(table.row_start, probability)
    single = (sizes == 1).reshape(K, S, A)
    given = mask_of(known, (K, S, A), "known")
    return {
        "H": H,
        "S": S,
        "A": A,
        "discount": check_discount(discount),
        "mu": first_state(start, S, labels),
        "state_names": labels,
        "state_values": state_values,
        "action_names": names(action_names, A, "action_names"),
        "units": units,
        "available": listed,
        "known": single if given is None else (given | single) & listed,
        "row_start": table.row_start,
        "successor": table.successor,
        "probability": probability,
        "noise": noise,
        "row_reward": table.row_reward,
        "_reward": table.reward,
    }


def _check_length(H: int, S: int) -> None:
    """Raise SizeError if the (stage, state) pairs are too many to list."""
    longest = min(MAX_STAGES, max(1, MAX_PLACES // S))
    if H > longest:
        message = f"horizon must be at most {longest} with {S} states, got {H}"
        raise SizeError(message, needed=H, limit=longest, name="horizon")


def mask_of(given: Any, shape: tuple[int, int, int], what: str) -> BoolArray | None:
    """A mask of the given shape, or None."""
    if given is None:
        return None
    mask = np.asarray(given)
    if shape[0] == 1 and mask.ndim == 3 and mask.shape[1:] == shape[1:] and len(mask) > 1:
        remedy = "give the transitions per stage, too"
        raise wrong(what, given, f"have shape {shape[1:]} if the kernel is stored once", mask.shape, remedy=remedy)
    if mask.dtype != np.bool_ or mask.shape not in (shape, shape[1:]):
        rule = f"be a boolean array of shape {shape[1:]}, or one per stage"
        raise wrong(what, given, rule, f"{mask.shape} of {mask.dtype}")
    return np.array(np.broadcast_to(mask, shape))


def _without_rows(table: Table, drop: BoolArray) -> Table:
    """The table without the outcomes of some rows."""
    sizes = np.diff(table.row_start)
    if not sizes[drop].any():
        return table
    keep = np.repeat(~drop, sizes)
    return replace(
        table,
        row_start=np.r_[0, np.cumsum(np.where(drop, 0, sizes))],
        successor=table.successor[keep],
        probability=table.probability[keep],
        reward=None if table.reward is None else table.reward[:, keep],
    )


def place(q: int, table: Table) -> tuple[tuple[int | None, int, int], str]:
    """Row number `q` as (stage, state, action) and as text for a message."""
    return row_place(q, (table.S, table.A), table.K > 1)


def check_table(table: Table, H: int) -> None:
    """Raise ModelError unless probabilities are numbers in [0, 1] and all returns are finite."""
    p = table.probability
    bad = np.flatnonzero(~((p >= 0) & (p <= MAX_SHARE)))
    if bad.size:
        i = int(bad[0])
        row, text = place(int(np.searchsorted(table.row_start, i, side="right")) - 1, table)
        rule = f"row {text}: the probability of successor {table.successor[i]} must be a number in [0, 1]"
        raise ModelError(f"{rule}, got {p[i]}", row=row)
    rewards = table.reward if table.reward is not None else table.row_reward
    if rewards is None or not rewards.size:
        return
    allowed = MAX_RETURN / H
    outside = ~(np.abs(rewards) <= allowed)
    if not outside.any():
        if 0.0 < (largest := float(np.abs(rewards).max())) < MIN_LARGEST:
            rule = f"the largest reward must be 0 or at least {MIN_LARGEST:g} in size"
            raise ModelError(f"{rule}, got {largest:g}; rescale the rewards", name="rewards")
        return
    where = np.argwhere(outside)[0]
    if rewards.ndim == 2:
        row, text = place(int(np.searchsorted(table.row_start, where[1], side="right")) - 1, table)
    else:
        row = (int(where[0]) if table.K > 1 else None, int(where[1]), int(where[2]))
        text = f"(s={where[1]}, a={where[2]})"
    at = f" at stage {where[0] + 1}" if len(rewards) > 1 else ""
    value = rewards[tuple(where)]
    rule = f"be at most {allowed:g} in size over {H} stages" if np.isfinite(value) else "be finite"
    hint = "; mask actions that do not exist with available=" if value == -np.inf else ""
    raise ModelError(f"the reward of row {text}{at} must {rule}, got {value}{hint}", row=row)


def normalised(table: Table) -> FloatArray:
    """Probabilities whose rows sum to 1; rows that already do, up to rounding, keep their bits."""
    p, sizes = table.probability, np.diff(table.row_start)
    rows = np.flatnonzero(sizes)
    if rows.size == 0:
        raise ModelError("a model must have at least one transition, got none")
    sums = np.add.reduceat(p, table.row_start[rows])
    off = np.abs(sums - 1.0)
    if np.any(off > SUM_TOL):
        q = int(np.flatnonzero(off > SUM_TOL)[0])
        row, text = place(rows[q], table)
        got = f"{sums[q]:.12g}{sum_hint(sums[q], p[slice(*table.row_start[rows[q] : rows[q] + 2])])}"
        raise ModelError(f"row {text} must sum to 1 (tolerance {SUM_TOL:g}), got {got}", row=row)
    loose = off > sizes[rows] * 2.0**-52
    if not loose.any():
        return p.copy() if not p.flags.owndata else p
    return p / np.repeat(np.where(loose, sums, 1.0), sizes[rows])


def sum_hint(total: float, parts: Any = ()) -> str:
    """A hint for the message if probabilities sum to 100 or nearly to 1, or if the `parts` are counts; else empty."""
    if abs(total - 100.0) <= 0.1:
        return ": percentages? divide them by 100"
    if total > 1.5 and np.size(parts) and np.max(parts) > 1 and np.array_equal(parts, np.rint(parts)):
        return ": counts? divide them by their sum"
    return "; if they are rounded, divide them by their sum" if 0.0 < abs(total - 1.0) <= 0.01 else ""


def first_state(start: Any, S: int, labels: tuple[str, ...] | None) -> FloatArray:
    """Law of the first state, shape (S,), from a state, its name, a law {state: probability} or S probabilities."""
    mu = np.zeros(S)
    if isinstance(start, Mapping):
        for state, share in start.items():
            mu[_state(_named(state, labels), S, labels)] += number(share, f"start[{shown(state)}]", 0.0)
    elif isinstance(_named(start, labels), (str, int, np.integer)) and not isinstance(start, bool):
        mu[_state(_named(start, labels), S, labels)] = 1.0
    else:
        try:
            mu = np.array(start, dtype=np.float64)
        except (TypeError, ValueError, OverflowError):
            raise wrong_type("start", start, f"be a state, its name or {S} probabilities") from None
    proper = mu.shape == (S,) and bool(np.all((mu >= 0) & (mu <= MAX_SHARE)))
    if not proper or not abs(mu.sum() - 1.0) <= SUM_TOL:
        found = shown(start)
        if proper:
            found = f"the sum {mu.sum():.12g}{sum_hint(mu.sum())}"
        elif mu.ndim and mu.size:
            found = f"shape {mu.shape}, values from {mu.min():.3g} to {mu.max():.3g}"
        raise wrong("start", start, f"be a state, its name, or {S} probabilities that sum to 1", found)
    return mu if abs(mu.sum() - 1.0) <= S * 2.0**-52 else mu / mu.sum()


def check_discount(given: Any) -> float:
    """A discount as a float in (0, 1]; a rate of interest is refused with the factor that it means."""
    try:
        return number(given, "discount", 0.0, 1.0, "(]")
    except ArgumentError:
        growth = float(given) if given < 2.0 else 1.0 + float(given) / 100.0  # 1.03, or 3 for 3 %
        if not 1.0 < growth < 1.5:
            raise
        remedy = f"for interest of {100.0 * (growth - 1.0):.6g} % per stage give 1 / {growth:.9g}"
        raise wrong("discount", given, "be a number in (0, 1]", short(float(given)), remedy=remedy) from None


def _named(given: Any, labels: tuple[str, ...] | None) -> Any:
    """The name of a state that is given as an object such as a tuple or a date; anything else as it is."""
    text = "" if isinstance(given, (str, Real, list, np.ndarray, Mapping)) else label_text(given)
    return text if text and text in (labels or ()) else given


def _state(given: Any, S: int, labels: tuple[str, ...] | None) -> int:
    """Index of a state given by its index or its name."""
    if isinstance(given, str):
        labels = labels or tuple(map(str, range(S)))
        if given in labels:
            return labels.index(given)
        is_number = given.lstrip("-").isdigit()  # numbers have no near spelling
        near = "" if is_number else nearest(given, labels, listed=False)
        near = near or f"; states run from {shown(labels[0])} to {shown(labels[-1])}"
        raise wrong("start", given, "name a state", f"{shown(given)}{near}")
    return whole(given, "start", 0, S - 1)
