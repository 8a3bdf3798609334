"""Policies in files: their arrays are validated before a compiled loop may index with them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bqrl.errors import FileFormatError
from bqrl.mdp.arrays import FloatArray, IntArray, damage_error, floats_of, number_of, require, whole_numbers_of
from bqrl.mdp.grid import Lattice, Rounded, grid_from_arrays
from bqrl.mdp.model import MDP
from bqrl.mdp.paid import paid_from_arrays
from bqrl.mdp.table import MAX_ID
from bqrl.mdp.validation import MAX_STAGES
from bqrl.policies.earned import Earned, EarnedPolicy
from bqrl.policies.envelope import EnvelopePolicy, read_envelope
from bqrl.policies.labels import LabelPolicy, label_graph
from bqrl.policies.levels import QuantileLevelPolicy
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.mixture import MixturePolicy
from bqrl.policies.protocol import Names, Policy, is_custom
from bqrl.policies.stochastic import StochasticPolicy
from bqrl.policies.target import TargetPolicy

PLAN = "bqrl_plan"  # marks the file of a plan
MAX_STORED_MOVES = 200_000  # per stage of a custom policy: about a second, spent whenever a record is stored
MAX_STEPS = 2.0**62  # amounts in steps must fit into 64 bits

Arrays = dict[str, Any]


def to_storable(policy: Policy, mdp: MDP) -> Policy:
    """Return the policy in a form that files can hold: a custom one becomes a label graph; raise SizeError if that takes long."""
    if isinstance(policy, MixturePolicy):
        return MixturePolicy([to_storable(part, mdp) for part in policy.policies], policy.weights)
    return label_graph(policy, mdp, MAX_STORED_MOVES) if is_custom(policy) else policy


def policy_from_arrays(arrays: Arrays) -> Policy:
    """Return the policy that saved arrays describe, also that of a saved plan; raise FileFormatError if they describe none."""
    if PLAN in arrays:
        arrays = {key.removeprefix("policy_"): x for key, x in arrays.items() if key.startswith("policy_")}
    kind = str(arrays.get("bqrl_policy", ""))
    if kind not in READERS:
        raise FileFormatError(
            f"expected a policy of the kind {', '.join(READERS)}, got {kind[:40]!r}", column="bqrl_policy"
        )
    try:
        policy = READERS[kind](arrays)
        policy.names = _read_names(arrays, policy.S)
        return policy
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as fault:
        raise damage_error(f"a {kind} policy", fault) from None


def _read_names(arrays: Arrays, S: int) -> Names | None:
    """Return the names that a policy follows, if the file has them."""
    if Names._fields[0] not in arrays:
        return None
    found = {}
    for name in Names._fields:
        part = arrays[name]
        valid = part.ndim == 1 and part.dtype.kind == "U" and np.unique(part).size == part.size > 0
        require(
            valid and (name != Names._fields[0] or part.size == S), name, "hold distinct texts, one per state", part
        )
        found[name] = tuple(part.tolist())
    return Names(**found)


def _read_markov(arrays: Arrays) -> MarkovPolicy:
    actions = _read_actions(arrays, "actions", 2)
    require(actions.size > 0, "actions", "hold at least one stage and state", f"shape {actions.shape}")
    return MarkovPolicy(actions)


def _read_stochastic(arrays: Arrays) -> StochasticPolicy:
    shares = floats_of(arrays, "probabilities", (None, None, None))
    require(shares.size > 0, "probabilities", "hold at least one stage, state and action", f"shape {shares.shape}")
    return StochasticPolicy(shares)


def _read_target(arrays: Arrays) -> TargetPolicy:
    grid = grid_from_arrays(arrays)
    require(grid.H <= MAX_STAGES, "size", f"list at most {MAX_STAGES} stages", grid.H)
    require(int(grid.size[-1]) == 1, "size", "end with 1, the only return after the last stage", grid.size)
    target = number_of(arrays, "target")
    if isinstance(grid, Lattice):
        with np.errstate(over="ignore"):
            base = grid.base if isinstance(grid, Rounded) else grid.offset
            steps = np.abs(np.r_[target, grid.offset, base, grid.H * grid.noise]) / grid.width
        fits = bool(np.all(steps < MAX_STEPS))
        require(fits, "numbers", "hold a step that is not tiny relative to the target", grid.width)
    extra = int(whole_numbers_of(arrays, "extra", ()))
    require(1 <= extra <= MAX_ID and (grid.uniform or extra == 1), "extra", "be 1, or above 1 on a uniform grid", extra)
    if isinstance(grid, Rounded):
        _check_range(grid.units, "units", 0, MAX_ID)
        require(len(grid.units) in (1, grid.H), "units", f"have 1 or {grid.H} rows", f"{len(grid.units)}")
    S = 0
    for h in range(grid.H):
        name, found = f"actions_{h}", _read_actions(arrays, f"actions_{h}", 2).shape
        S = S or found[0]
        shape = (S, int(grid.size[h]) + extra)
        require(found == shape and S > 0, name, f"have shape {shape}", f"{found}")
    paid = paid_from_arrays(arrays, grid.H, S)
    return TargetPolicy(replace(grid, paid=paid), [arrays[f"actions_{h}"] for h in range(grid.H)], target, extra)


def _read_earned(arrays: Arrays) -> EarnedPolicy:
    fallback = _read_actions(arrays, "fallback", 2)
    H, S = fallback.shape
    require(0 < H <= MAX_STAGES and S > 0, "fallback", f"hold 1 to {MAX_STAGES} stages", f"shape {fallback.shape}")
    target, discount, slack = floats_of(arrays, "numbers", (3,)).tolist()
    valid = slack >= 0.0 and 0.0 < discount <= 1.0
    require(valid, "numbers", "hold a target, a discount in (0, 1] and a slack", [target, discount, slack])
    stages = []
    for h in range(H):
        action = _read_actions(arrays, f"action_{h}", 1)
        start = whole_numbers_of(arrays, f"start_{h}", (S + 1,))
        rises = start[0] == 0 and start[-1] == action.size and bool(np.all(np.diff(start) >= 0))
        require(rises, f"start_{h}", f"rise from 0 to {action.size}", start)
        stages.append(Earned(start, floats_of(arrays, f"total_{h}", (action.size,)), action))
    return EarnedPolicy(stages, fallback, target, discount, slack, paid_from_arrays(arrays, H, S))


def _read_labels(arrays: Arrays) -> LabelPolicy:
    H = int(whole_numbers_of(arrays, "H", ()))
    require(1 <= H <= MAX_STAGES, "H", f"be from 1 to {MAX_STAGES}", H)
    root, action = whole_numbers_of(arrays, "root", (None,)), _read_actions(arrays, "action", 1)
    n, S = action.size, root.size
    child = whole_numbers_of(arrays, "child", (None,))
    m = child.size
    starts = whole_numbers_of(arrays, "child_start", (n + 1,))
    rising = starts[0] == 0 and starts[-1] == m and bool(np.all(np.diff(starts) >= 0))
    require(rising, "child_start", f"rise from 0 to {m}", starts)
    _check_range(root, "root", -1, n)
    _check_range(child, "child", -1, n)
    _check_range(whole_numbers_of(arrays, "successor", (m,)), "successor", 0, S)
    floats_of(arrays, "reward", (m,))
    here = np.unique(root[root >= 0])
    require(here.size > 0, "root", "name the label of a first state", root)
    for h in range(H):
        counts = starts[here + 1] - starts[here]
        first = np.repeat(starts[here] - np.cumsum(counts) + counts, counts)
        after = child[first + np.arange(first.size)]
        broken = (after < 0).any() if h < H - 1 else (after >= 0).any()
        require(not broken, "child", f"lead through {H} stages and end there", f"a fault at stage {h + 1}")
        here = np.unique(after)
    return LabelPolicy(H, **{name: arrays[name] for name in LabelPolicy.stored})


def _read_level(arrays: Arrays) -> QuantileLevelPolicy:
    targets = _read_target(_strip_prefix(arrays, "target_"))
    widths = [int(size) + targets.extra for size in targets.grid.size]
    shortfall = [floats_of(arrays, f"shortfall_{h}", (targets.S, width)) for h, width in enumerate(widths)]
    tau = number_of(arrays, "tau")
    require(0.0 < tau <= 1.0, "tau", "be a number in (0, 1]", f"{tau:g}")
    return QuantileLevelPolicy(targets, shortfall, tau, number_of(arrays, "margin"))


def _read_mixture(arrays: Arrays) -> MixturePolicy:
    weights = floats_of(arrays, "weights", (None,))
    require(weights.size > 0, "weights", "hold one number per policy", weights)
    policies = []
    for i in range(weights.size):
        inner = _strip_prefix(arrays, f"part{i}_")
        kind = str(inner.get("bqrl_policy", ""))
        require(kind in READERS, f"part{i}_bqrl_policy", f"be one of {', '.join(READERS)}", f"{kind[:40]!r}")
        policies.append(READERS[kind](inner))
    return MixturePolicy(policies, weights)


READERS: dict[str, Callable[[Arrays], Policy]] = {
    MarkovPolicy.kind: _read_markov, StochasticPolicy.kind: _read_stochastic, TargetPolicy.kind: _read_target,
    EarnedPolicy.kind: _read_earned, EnvelopePolicy.kind: read_envelope, LabelPolicy.kind: _read_labels,
    QuantileLevelPolicy.kind: _read_level, MixturePolicy.kind: _read_mixture,
}  # fmt: skip


def _strip_prefix(arrays: Arrays, prefix: str) -> Arrays:
    """Return the arrays whose name begins with `prefix`, named without it."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def _read_actions(arrays: Arrays, name: str, axes: int) -> IntArray:
    """Return a table of actions."""
    table = whole_numbers_of(arrays, name, (None,) * axes)
    _check_range(table, name, 0, MAX_ID)
    return table


def _check_range(values: IntArray | FloatArray, name: str, low: int, end: int) -> None:
    """Raise FileFormatError unless low <= value < end."""
    bad = (values < low) | (values >= end)
    if bad.any():
        require(False, name, f"hold numbers from {low} to {end - 1}", f"{values[bad][0]}")
