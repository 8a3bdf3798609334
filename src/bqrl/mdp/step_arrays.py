"""The search with a vectorised step function, which is called on many states at once.

States are whole numbers, shape (n,), or rows of whole numbers, shape (n, d). Each state is encoded as one 64-bit number, in
mixed radix over the range of each coordinate, so that new states are found by sorting numbers.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, one_line
from bqrl.errors import ModelError, SizeError
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.noise import EventLaw
from bqrl.mdp.outcomes import check_outcomes

CHUNK = 1_000_000  # triples (state, action, event) per call of step
TABLE_BYTES = 160  # per transition, while a table is built
PATIENCE, EVERY = 2.0, 0.5  # seconds before the first line, and between lines


class Progress:
    """A progress line on stderr, shown on a terminal if a search takes more than two seconds; `say` may be called often."""

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


def machine_memory() -> float | None:
    """Return the bytes of memory of the machine, or None if the system does not tell."""
    try:
        return float(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    except (AttributeError, OSError, ValueError):
        return None


def duration(seconds: float) -> str:
    """Return a time in the unit that a person would use."""
    if seconds < 1.0:
        return "a second"
    for limit, size, unit in ((100.0, 1.0, "s"), (6000.0, 60.0, "min")):
        if seconds < limit:
            return f"{seconds / size:.2g} {unit}"
    return f"{seconds / 3600:.2g} h"


@dataclass(frozen=True, slots=True, kw_only=True)
class StateSearch:
    """The input of a search: the laws of the events, the stages, the first states and the limits."""

    laws: list[EventLaw]
    per_stage: bool
    H: int
    first: dict[Any, float]  # law of the first state
    limit: int  # largest number of states
    max_transitions: int  # one per (state, action, event)
    progress: Progress

    def check_transitions(self, needed: int, h: int) -> None:
        """Raise SizeError if the states found by stage `h` have more transitions than allowed, before they are followed."""
        memory, room = TABLE_BYTES * needed, machine_memory()
        if room is not None and memory > room:
            raise SizeError(
                f"a table of at least {needed} transitions must fit into the memory of this machine, {room / 1e9:.3g} GB, got "
                f"{memory / 1e9:.3g} GB by stage {h + 1}; pass stored=False with a vectorized step function, or use fewer states",
                needed=memory, limit=room, name="stored",
            )  # fmt: skip
        if needed > self.max_transitions:
            raise SizeError(
                f"the states must have at most max_transitions={self.max_transitions} transitions, one per action and event, "
                f"got at least {needed} by stage {h + 1}; use fewer states, actions or events, "
                "pass stored=False, or raise max_transitions",
                needed=needed, limit=self.max_transitions, name="max_transitions",
            )  # fmt: skip


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
    per_stage, limit = search.per_stage, search.limit
    acts, events = check_numbers(actions, "actions"), [check_numbers(law.events, "events") for law in search.laws]
    level = first_states(search.first)
    known, blocks = level, list[tuple[Any, ...]]()
    transitions = 0
    for h in range(search.H):
        k = h if per_stage else 0
        after, left, least = [], len(level), 1 if available is not None else acts.size  # actions of a state
        for part in np.array_split(level, max(1, math.ceil(len(level) * acts.size * events[k].size / CHUNK))):
            s, a = existing_rows(part, acts, available)
            left -= len(part)
            search.check_transitions(transitions + (s.size + left * least) * events[k].size, h)
            block = _call(step, part, s, acts, a, events[k], tuple(blocks[0][-1]) if blocks else None)
            after.append(_deduplicate(block[0]))
            blocks.append((k, part, s, a, *block))
            transitions += len(block[1])
            table = f"a table of {TABLE_BYTES * transitions / 1e9:.2g} GB so far"
            search.progress.say(f"{len(known):,} states, {transitions:,} transitions, {table}")
        reached = _deduplicate(np.concatenate(after))
        fresh = reached[_find(known, reached) < 0]
        if len(known) + len(fresh) > limit:
            needed = len(known) + len(fresh)
            raise SizeError(
                f"step must reach at most max_states={limit} states, got {needed} by stage {h + 1}; bound the state, e.g. by"
                " np.clip, or raise max_states", needed=needed, limit=limit, name="max_states",
            )  # fmt: skip
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


def _call(
    step: Callable[..., Any], states: IntArray, s: IntArray, acts: Any, a: IntArray, events: Any,
    names: tuple[str, ...] | None,
) -> tuple[IntArray, FloatArray, dict[str, FloatArray]]:  # fmt: skip
    """Return the checked next states, rewards and further outcomes of every (row, event); `names` are those of the outcomes."""
    given = np.repeat(states[s], events.size, axis=0), np.repeat(acts[a], events.size), np.tile(events, s.size)
    return answer(step, given, names, twice=True)


def answer(
    step: Callable[..., Any], given: tuple[Any, Any, Any], names: tuple[str, ...] | None, *, twice: bool
) -> tuple[IntArray, FloatArray, dict[str, FloatArray]]:
    """Return the checked results of `step` for arrays of states, actions and events; `twice` asks again to compare."""
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
    if not twice:
        return s_next.astype(np.int64, copy=False), reward, further
    *again, _ = _try(step, given)
    again = [np.asarray(part) for part in again]
    differs = np.any((again[0] != s_next).reshape(len(reward), -1), axis=1) | (again[1] != reward)
    if differs.any():
        i = int(differs.argmax())
        first, second = ((x[i].tolist(), float(r[i])) for x, r in ((s_next, reward), again))
        raise step_error(
            _call_text(given, i), "be deterministic", f"{first}, then {second}; move random draws into noise"
        )
    return s_next.astype(np.int64), reward, further


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
