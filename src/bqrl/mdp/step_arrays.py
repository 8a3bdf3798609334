"""The search with a vectorised step function, which is called on many states at once.

States are whole numbers, shape (n,), or rows of whole numbers, shape (n, d). Each state is encoded as one 64-bit number, in
mixed radix over the range of each coordinate, so that new states are found by sorting numbers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, one_line
from bqrl.errors import ModelError
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.outcomes import check_outcomes
from bqrl.mdp.search import REPEATED, Scout, StateSearch, Walks

CHUNK = 1_000_000  # triples (state, action, event) per call of step
CHECK_EVERY = 97  # these triples are asked again to check that step is deterministic, and all of the first CHUNK
WALKS, WALK_CALLS = 4_096, 500_000  # walks, and triples of all walks


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """The result of a search: one entry per pair (row, event), rows in increasing order."""

    states: Any  # by number
    actions: tuple[Any, ...]
    stage: IntArray
    s: IntArray
    a: IntArray
    s_next: IntArray
    reward: FloatArray
    mu: FloatArray  # law of the first state
    further: dict[str, FloatArray]  # other outcomes of every pair

    @property
    def values(self) -> tuple[Any, ...]:
        """The states as plain objects; rows of an array become tuples."""
        if isinstance(self.states, tuple):
            return self.states
        return tuple(tuple(s) if isinstance(s, list) else s for s in self.states.tolist())


def follow_arrays(
    step: Callable[..., Any], actions: Any, available: Callable[..., Any] | None, search: StateSearch
) -> SearchResult:
    """Return every reachable state and every transition from it."""
    per_stage, acts = search.per_stage, check_numbers(actions, "actions")
    events = [check_numbers(law.events, "events") for law in search.laws]
    level = first_states(search.first)
    known, blocks = level, list[tuple[Any, ...]]()
    transitions, scout = 0, Scout(search, partial(walk_arrays, step, acts, events, available, search))
    for h in range(search.H):
        k = h if per_stage else 0
        after, left, least = [], len(level), 1 if available is not None else acts.size  # actions of a state
        for part in np.array_split(level, max(1, math.ceil(len(level) * acts.size * events[k].size / CHUNK))):
            s, a = existing_rows(part, acts, available)
            left -= len(part)
            search.check_transitions(transitions + (s.size + left * least) * events[k].size, h)
            given = (
                np.repeat(part[s], events[k].size, axis=0),
                np.repeat(acts[a], events[k].size),
                np.tile(events[k], s.size),
            )
            again = 1 if transitions < CHUNK else CHECK_EVERY
            block = answer(
                step, given, tuple(blocks[0][-1]) if blocks else None, again=again, first=len(blocks) % again
            )
            after.append(_deduplicate(block[0]))
            blocks.append((k, part, s, a, *block))
            transitions += len(block[1])
            scout.report(len(known), transitions, h)
        reached = _deduplicate(np.concatenate(after))
        fresh = reached[_find(known, reached) < 0]
        search.check_states(len(known) + len(fresh), h)
        known = _deduplicate(np.concatenate([known, fresh]))
        level = reached if per_stage else fresh
        if not len(level):
            break
    stages, from_, played, to = (np.empty(transitions, np.int64) for _ in range(4))
    rewards, end = np.empty(transitions), 0
    further = {name: np.empty(transitions) for name in blocks[0][-1]}
    for stage, part, s, a, s_next, reward, others in blocks:
        here, n = slice(end, end + len(reward)), len(reward) // max(1, len(s))
        stages[here], from_[here], played[here] = stage, np.repeat(_find(known, part)[s], n), np.repeat(a, n)
        to[here], rewards[here], end = _find(known, s_next), reward, here.stop
        for name, values in others.items():
            further[name][here] = values
    mu = np.zeros(len(known))
    mu[_find(known, first_states(search.first, in_order=True))] = list(search.first.values())
    return SearchResult(
        states=known, actions=tuple(acts.tolist()), stage=stages, s=from_, a=played, s_next=to, reward=rewards, mu=mu,
        further=further,
    )  # fmt: skip


def check_numbers(values: Any, name: str) -> Any:
    """Return distinct numbers as an array; raise an error otherwise."""
    if callable(values):
        remedy = "say which exist with available(states, actions)"
        raise bad_type("actions", values, "be a list of numbers if vectorized=True", "a function", remedy=remedy)
    try:
        array = np.array(list(values))
    except (TypeError, ValueError):
        array = np.empty(0, object)
    if array.ndim != 1 or array.dtype.kind not in "iufb" or not array.size:
        raise bad_type(name, values, "be numbers if vectorized=True")
    if np.unique(array).size < array.size:
        raise bad_value(name, values, "be distinct")
    return array


def first_states(first: dict[Any, float], *, in_order: bool = False) -> IntArray:
    """Return the first states as an array, increasing unless `in_order`."""
    states = np.array(list(first))
    if states.ndim not in (1, 2) or states.dtype.kind not in "iu":
        rule = "be a whole number or a tuple of whole numbers if vectorized=True"
        raise bad_type("start", next(iter(first)), rule)
    return states.astype(np.int64) if in_order else _deduplicate(states.astype(np.int64))


def existing_rows(states: IntArray, acts: Any, available: Callable[..., Any] | None) -> tuple[IntArray, IntArray]:
    """Return the indices of state and action of every row that exists."""
    s, a = np.repeat(np.arange(len(states)), acts.size), np.tile(np.arange(acts.size), len(states))
    if available is None:
        return s, a
    try:
        mask = np.asarray(available(states[s], acts[a]))
    except Exception as fault:
        raise ModelError(f"available must return booleans, got {fault_text(fault)}", name="available") from fault
    if mask.shape != s.shape or mask.dtype != np.bool_:
        got = f"shape {mask.shape} of {mask.dtype}"
        raise ModelError(f"available must return {s.size} booleans, got {got}", name="available")
    stuck = ~mask.reshape(len(states), acts.size).any(axis=1)
    if stuck.any():
        state = one_line(states[stuck.argmax()].tolist())
        raise ModelError(
            f"available must leave state {state} an action, got none; give one that does nothing", name="available"
        )
    return s[mask], a[mask]


def walk_arrays(
    step: Callable[..., Any], acts: Any, events: list[Any], available: Callable[..., Any] | None, search: StateSearch
) -> Walks:
    """Return what walks of the step function meet; see search.py. They take about a second at most."""
    rng, first, until = np.random.default_rng(0), first_states(search.first), time.monotonic() + 1.0
    n = min(WALKS, max(1, WALK_CALLS // search.H))
    states, own = first[rng.integers(len(first), size=n)], rng.random((2, n))
    met, rewards = list[IntArray](), np.empty(0)
    for h in range(search.H):
        met.append(_deduplicate(states))
        s, a = existing_rows(states, acts, available)
        count, law = np.bincount(s, minlength=n), events[h if search.per_stage else 0]
        u = np.where(rng.random(n) < REPEATED, own, rng.random((2, n)))
        played = a[np.cumsum(count) - count + (u[0] * count).astype(np.int64)]
        states, reward, _ = answer(step, (states, acts[played], law[(u[1] * law.size).astype(np.int64)]), None)
        rewards = np.union1d(rewards, reward)
        if time.monotonic() >= until:
            break
    found = _deduplicate(np.concatenate(met))
    return Walks(found.reshape(len(found), -1).T, existing_rows(found, acts, available)[0].size, rewards)


def answer(
    step: Callable[..., Any], given: tuple[Any, Any, Any], names: tuple[str, ...] | None, *, again: int = 0, first: int = 0,
) -> tuple[IntArray, FloatArray, dict[str, FloatArray]]:  # fmt: skip
    """Return the checked results of `step` for arrays of states, actions and events.

    `names` are those of the further outcomes. With `again` = k every k-th triple from number `first` on is asked again to
    compare.
    """
    for array in given:
        array.flags.writeable = False
    *result, others = _try(step, given)
    s_next, reward = (np.asarray(part) for part in result)
    further = {name: np.asarray(others[name]) for name in outcome_names(others, names, lambda: "step")}
    if s_next.shape != given[0].shape or reward.shape != given[1].shape:
        rule = f"return next states of shape {given[0].shape} and rewards of shape {given[1].shape}"
        raise step_error("step", rule, f"{s_next.shape} and {reward.shape}")
    if s_next.dtype.kind not in "iu":
        raise step_error("step", "return whole numbers as next states", f"{s_next.dtype}; use astype(int)")
    if reward.dtype.kind not in "iufb":
        raise step_error("step", "return numbers as rewards", reward.dtype)
    reward = reward.astype(np.float64) + 0.0
    if not np.all(np.isfinite(reward)):
        i = int(np.flatnonzero(~np.isfinite(reward))[0])
        raise step_error(_call_text(given, i), "return a finite reward", reward[i])
    for name, values in further.items():
        if values.shape != reward.shape or values.dtype.kind not in "iufb" or not np.all(np.isfinite(values)):
            got = f"{values.dtype} of shape {values.shape}"
            raise step_error("step", f"return {reward.size} finite numbers as outcome {name!r}", got)
        further[name] = values.astype(np.float64) + 0.0
    s_next = s_next.astype(np.int64, copy=False)
    if again:
        asked = tuple(array[first::again] for array in given)
        second = [np.asarray(part) for part in _try(step, asked)[:2]]
        moved = np.any((second[0] != s_next[first::again]).reshape(len(asked[1]), -1), axis=1)
        differs = moved | (second[1] != reward[first::again])
        if differs.any():
            i = int(differs.argmax())
            place = first + i * again
            both = ((s_next[place], reward[place]), (second[0][i], second[1][i]))
            before, then = ((x.tolist(), float(r)) for x, r in both)
            raise step_error(
                _call_text(asked, i), "be deterministic", f"{before}, then {then}; move random draws into noise"
            )
    return s_next, reward, further


def outcome_names(given: Any, names: tuple[str, ...] | None, call: Callable[[], str]) -> tuple[str, ...]:
    """Return the names of the further outcomes that a call returned; they must be `names`, those of earlier calls."""
    if not isinstance(given, dict) or (names is not None and set(given) != set(names)):
        rule = "return further outcomes as a third value, a dict" + (
            "" if names is None else " with the same names always"
        )
        raise step_error(call(), rule, one_line(given))
    return tuple(check_outcomes(given)) if names is None else names


def _try(step: Callable[..., Any], given: tuple[Any, Any, Any]) -> tuple[Any, Any, Any]:
    """Return the next states, rewards and further outcomes of step; if it raises, find a failing triple by bisection."""
    try:
        result = step(*given)
    except Exception as fault:
        low, high = 0, len(given[1])
        while high - low > 1:
            middle = (low + high) // 2
            try:
                step(*(array[low:middle] for array in given))
            except Exception:
                high = middle
            else:
                low = middle
        raise step_error(_call_text(given, low), "return (next_states, rewards)", fault_text(fault)) from fault
    if not isinstance(result, tuple) or len(result) not in (2, 3):
        raise step_error("step", "return (next_states, rewards)", one_line(result))
    return result if len(result) == 3 else (*result, {})


def step_error(call: str, rule: str, got: Any) -> ModelError:
    """Return the error about a call of the step function."""
    return ModelError(f"{call} must {rule}, got {got}", name="step")


def fault_text(fault: Exception) -> str:
    """Return an exception of the caller's function as one line of text."""
    return f"{type(fault).__name__}: {' '.join(str(fault).split())[:200]}"


def _call_text(given: tuple[Any, Any, Any], i: int) -> str:
    return f"step({', '.join(one_line(array[i].tolist()) for array in given)})"


# -- states as numbers ---------------------------------------------------------------------------------------------------


def _codes(*arrays: IntArray) -> list[IntArray]:
    """Return one code per state: equal states of all arrays share a code, and codes increase in lexicographic order."""
    if arrays[0].ndim == 1:
        return list(arrays)
    stacked = [array for array in arrays if len(array)]
    axes = range(arrays[0].shape[1])  # one coordinate after the other: rows are too short for loops over them
    low = [min(int(array[:, j].min()) for array in stacked) for j in axes]
    span = [max(int(array[:, j].max()) for array in stacked) - low[j] + 1 for j in axes]
    if math.prod(span) >= 2**62:
        rule = "the states must have coordinates with fewer than 2**62 combinations"
        raise ModelError(f"{rule}, got the ranges {span}; make them smaller", name="step")
    codes = [np.zeros(len(array), np.int64) for array in arrays]
    for code, array in zip(codes, arrays, strict=True):
        for j in axes:
            code *= span[j]
            code += array[:, j] - low[j]
    return codes


def _deduplicate(states: IntArray) -> IntArray:
    """Return the distinct states, in increasing order."""
    (codes,) = _codes(states)
    return states[np.unique(codes, return_index=True)[1]]


def _find(known: IntArray, states: IntArray) -> IntArray:
    """Return the index of every state in the sorted array `known`; -1 if it is not there."""
    there, wanted = _codes(known, states)
    place = np.minimum(np.searchsorted(there, wanted), there.size - 1)
    return np.where(there[place] == wanted, place, -1)
