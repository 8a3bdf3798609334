"""The search with a vectorised step function, which is called on many states at once.

States are whole numbers, shape (n,), or rows of whole numbers, shape (n, d). Each state is encoded as one 64-bit number, in
mixed radix over the range of each coordinate, so that new states are found by sorting numbers.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.checks import shown, wrong, wrong_type
from bqrl.errors import ModelError, SizeError
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.noise import EventLaw

CHUNK = 1_000_000  # triples (state, action, event) per call of step
PATIENCE, EVERY = 2.0, 0.5  # seconds before the first line, and between lines


class Progress:
    """One line on stderr for a search of more than two seconds, shown only on a terminal; `say` may be called often."""

    def __init__(self, what: str) -> None:
        self.what, self.shown = what, False
        self.watched = sys.stderr is not None and sys.stderr.isatty()
        self.next = time.monotonic() + PATIENCE

    def say(self, text: str) -> None:
        """Show the line if enough time has passed."""
        if self.watched and time.monotonic() >= self.next:
            sys.stderr.write(f"\r\x1b[K{self.what}: {text}")
            sys.stderr.flush()
            self.shown, self.next = True, time.monotonic() + EVERY

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *fault: Any) -> None:
        if self.shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """The input of a search: the laws of the events, the stages, the first states and the limits."""

    laws: list[EventLaw]
    per_stage: bool
    H: int
    first: dict[Any, float]  # law of the first state
    limit: int  # of states
    progress: Progress


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The result of a search: one entry per pair (row, event), rows in increasing order."""

    states: Any  # by number
    actions: tuple[Any, ...]
    stage: IntArray
    s: IntArray
    a: IntArray
    s_next: IntArray
    reward: FloatArray
    mu: FloatArray  # law of the first state

    @property
    def values(self) -> tuple[Any, ...]:
        """The states as plain objects: rows of an array as tuples."""
        if isinstance(self.states, tuple):
            return self.states
        return tuple(tuple(s) if isinstance(s, list) else s for s in self.states.tolist())


def follow_arrays(
    step: Callable[..., Any], actions: Any, available: Callable[..., Any] | None, search: Search
) -> Found:
    """Every reachable state, and every transition out of it."""
    per_stage, limit = search.per_stage, search.limit
    acts, events = _numbers(actions, "actions"), [_numbers(law.events, "events") for law in search.laws]
    level = _first(search.first)
    known, blocks = level, []
    transitions = 0
    for h in range(search.H):
        k = h if per_stage else 0
        after = []
        for part in np.array_split(level, max(1, math.ceil(len(level) * acts.size * events[k].size / CHUNK))):
            s, a = _rows(part, acts, available)
            block = _call(step, part, s, acts, a, events[k])
            after.append(_distinct(block[0]))
            blocks.append((np.full(len(block[1]), k), part, s, a, *block))
            transitions += len(block[1])
            search.progress.say(f"{len(known):,} states, {transitions:,} transitions")
        reached = _distinct(np.concatenate(after))
        fresh = reached[_find(known, reached) < 0]
        if len(known) + len(fresh) > limit:
            needed = len(known) + len(fresh)
            raise SizeError(
                f"step must reach at most max_states={limit} states, got {needed} by stage {h + 1}; bound the state, e.g. by"
                " np.clip, or raise max_states", needed=needed, limit=limit, name="max_states",
            )  # fmt: skip
        known = _distinct(np.concatenate([known, fresh]))
        level = reached if per_stage else fresh
        if not len(level):
            break
    columns: dict[str, list[Any]] = {name: [] for name in ("stage", "s", "a", "s_next", "reward")}
    for stage, part, s, a, s_next, reward in blocks:
        n = len(reward) // max(1, len(s))
        columns["stage"].append(stage)
        columns["s"].append(np.repeat(_find(known, part)[s], n))
        columns["a"].append(np.repeat(a, n))
        columns["s_next"].append(_find(known, s_next))
        columns["reward"].append(reward)
    mu = np.zeros(len(known))
    mu[_find(known, _first(search.first, in_order=True))] = list(search.first.values())
    found = {name: np.concatenate(parts) for name, parts in columns.items()}
    return Found(states=known, actions=tuple(acts.tolist()), mu=mu, **found)


def _numbers(values: Any, name: str) -> Any:
    if callable(values):
        remedy = "say which exist with available(states, actions)"
        raise wrong_type("actions", values, "be a list of numbers if vectorized=True", "a function", remedy=remedy)
    try:
        array = np.array(list(values))
    except (TypeError, ValueError):
        array = np.empty(0, object)
    if array.ndim != 1 or array.dtype.kind not in "iufb" or not array.size:
        raise wrong_type(name, values, "be numbers if vectorized=True")
    if np.unique(array).size < array.size:
        raise wrong(name, values, "be distinct")
    return array


def _first(first: dict[Any, float], *, in_order: bool = False) -> IntArray:
    states = np.array(list(first))
    if states.ndim not in (1, 2) or states.dtype.kind not in "iu":
        rule = "be a whole number or a tuple of whole numbers if vectorized=True"
        raise wrong_type("start", next(iter(first)), rule)
    return states.astype(np.int64) if in_order else _distinct(states.astype(np.int64))


def _rows(states: IntArray, acts: Any, available: Callable[..., Any] | None) -> tuple[IntArray, IntArray]:
    """Index of the state and of the action of every row that exists."""
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
        state = shown(states[stuck.argmax()].tolist())
        raise ModelError(
            f"available must leave state {state} an action, got none; give one that does nothing", name="available"
        )
    return s[mask], a[mask]


def _call(
    step: Callable[..., Any], states: IntArray, s: IntArray, acts: Any, a: IntArray, events: Any
) -> tuple[IntArray, FloatArray]:
    """Next states and rewards of every (row, event), checked."""
    given = np.repeat(states[s], events.size, axis=0), np.repeat(acts[a], events.size), np.tile(events, s.size)
    for array in given:
        array.flags.writeable = False
    result = _try(step, given)
    s_next, reward = (np.asarray(part) for part in result)
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
        raise step_error(_place(given, i), "return a finite reward", reward[i])
    again = [np.asarray(part) for part in _try(step, given)]
    differs = np.any((again[0] != s_next).reshape(len(reward), -1), axis=1) | (again[1] != reward)
    if differs.any():
        i = int(differs.argmax())
        first, second = ((x[i].tolist(), float(r[i])) for x, r in ((s_next, reward), again))
        raise step_error(_place(given, i), "be deterministic", f"{first}, then {second}; put what is random into noise")
    return s_next.astype(np.int64), reward


def _try(step: Callable[..., Any], given: tuple[Any, Any, Any]) -> tuple[Any, Any]:
    """The result of step; if it raises, bisection finds one triple (state, action, event) for the message."""
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
        raise step_error(_place(given, low), "return (next_states, rewards)", fault_text(fault)) from fault
    if not isinstance(result, tuple) or len(result) != 2:
        raise step_error("step", "return (next_states, rewards)", shown(result))
    return result


def step_error(call: str, rule: str, got: Any) -> ModelError:
    """The error about what the step function did."""
    return ModelError(f"{call} must {rule}, got {got}", name="step")


def fault_text(fault: Exception) -> str:
    """An exception of the caller's function on one line."""
    return f"{type(fault).__name__}: {' '.join(str(fault).split())[:200]}"


def _place(given: tuple[Any, Any, Any], i: int) -> str:
    return f"step({', '.join(shown(array[i].tolist()) for array in given)})"


# -- states as numbers ---------------------------------------------------------------------------------------------------


def _codes(*arrays: IntArray) -> list[IntArray]:
    """One code per state, the same for equal states of all arrays, increasing in lexicographic order."""
    if arrays[0].ndim == 1:
        return list(arrays)
    stacked = [array for array in arrays if len(array)]
    low = np.min([array.min(axis=0) for array in stacked], axis=0)
    span = np.max([array.max(axis=0) for array in stacked], axis=0) - low + 1
    if math.prod(span.tolist()) >= 2**62:
        rule = "the states must have coordinates with fewer than 2**62 combinations"
        raise ModelError(f"{rule}, got the ranges {span.tolist()}; make them smaller", name="step")
    radix = np.r_[np.cumprod(span[:0:-1])[::-1], 1].astype(np.int64)
    return [(array - low) @ radix for array in arrays]


def _distinct(states: IntArray) -> IntArray:
    """The distinct states, in increasing order."""
    (codes,) = _codes(states)
    return states[np.unique(codes, return_index=True)[1]]


def _find(known: IntArray, states: IntArray) -> IntArray:
    """Index of every state among the known ones, which are sorted; -1 if it is not among them."""
    there, wanted = _codes(known, states)
    place = np.minimum(np.searchsorted(there, wanted), there.size - 1)
    return np.where(there[place] == wanted, place, -1)
