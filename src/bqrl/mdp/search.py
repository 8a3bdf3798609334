"""A search for the states of a step function: its limits, its progress line, and what is to be expected of it.

A search that has run for a second plays walks over the whole horizon. Each walk has an action and an event of its own, which it
repeats most of the time, so that walks go to the edges as well as through the middle. Two numbers follow:

    the distinct states that the walks met    all can be reached: a limit that they exceed is exceeded, and the search stops
    the box of their coordinates              an estimate of all states, from which time and memory are estimated.
"""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bqrl.display import in_words
from bqrl.errors import SizeError
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.find_grid import reward_step
from bqrl.mdp.noise import EventLaw

TABLE_BYTES = 160  # per transition, while a table is built
PATIENCE, EVERY = 2.0, 0.5  # seconds before the first line, and between lines
AFTER = 1.0  # seconds of a search before its walks
REPEATED = 0.7  # share of the stages at which a walk takes its own action and event
TABLE_SECONDS = 2.5e-7  # per transition, to sort and check a table on one core of 2024
SWEEP_SECONDS = 2e-9  # per outcome and return of a plan


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

    def check_states(self, found: int, h: int) -> None:
        """Raise SizeError if more states than allowed were found by stage `h`."""
        if found > self.limit:
            raise SizeError(
                f"step must reach at most max_states={self.limit} states, got {found} by stage {h + 1}; bound the state, e.g. by"
                " np.clip, or raise max_states", needed=found, limit=self.limit, name="max_states",
            )  # fmt: skip

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


# -- what is to be expected --------------------------------------------------------------------------------------------


class Walks(NamedTuple):
    """What walks of the step function met."""

    coordinates: Any  # of the distinct states, one sequence per coordinate
    rows: int  # (state, action) of these states
    rewards: FloatArray  # distinct


class Size(NamedTuple):
    """The estimated size of a model."""

    states: int
    transitions: int  # one per state, action and event, over the stages that are stored
    returns: int  # of the whole horizon; 0 if the rewards that were met have no lattice


class Scout:
    """Reports how a search grows; `walk` plays walks, and `stored` says whether transitions are kept."""

    def __init__(self, search: StateSearch, walk: Callable[[], Walks], *, stored: bool = True) -> None:
        self.search, self.walk, self.stored = search, walk, stored
        self.begun = time.monotonic()
        self.size: Size | None = None

    def report(self, states: int, transitions: int, h: int) -> None:
        """Show what was found by stage `h` and what is to be expected; SizeError if the limits are certain to be exceeded."""
        if self.size is None and time.monotonic() - self.begun >= AFTER:
            paused = time.monotonic()
            self.size = self._outline(h)
            self.begun += time.monotonic() - paused  # the time left is estimated from the search alone
        self.search.progress.say(self.text(states, transitions, time.monotonic() - self.begun))

    def _outline(self, h: int) -> Size:
        """Return the estimated size; every state that a walk met can be reached, so their number is checked at once."""
        search, walks = self.search, self.walk()
        events = sum(len(law.events) for law in search.laws)
        met = len(walks.coordinates[0])
        search.check_states(met, h)
        if self.stored:
            search.check_transitions(walks.rows * min(len(law.events) for law in search.laws), h)
        states = max(met, math.prod(map(_values, walks.coordinates)))
        found = reward_step(walks.rewards)
        span = 0 if found is None else round(float(np.ptp(walks.rewards)) / float(found[1])) * search.H + 1
        return Size(states, round(states * walks.rows / met * events), span)

    def text(self, states: int, transitions: int, elapsed: float) -> str:
        """Return a line on what was found and, once walks were played, on the time and memory that it will take."""
        size = self.size
        if size is None:
            return f"{states:,} states, {transitions:,} transitions"
        states, transitions = max(states, 1), max(transitions, 1)
        all_states, rows = max(size.states, states), max(size.transitions, transitions)
        left = elapsed * (rows / transitions - 1.0) + (TABLE_SECONDS * rows if self.stored else 0.0)
        parts = [f"{states:,} of about {all_states:,} states, about {in_words(left)} left"]
        if self.stored:
            needed, room = TABLE_BYTES * rows, machine_memory()
            over = f", more than the {room / 1e9:.2g} GB of this machine" if room is not None and needed > room else ""
            parts.append(f"about {rows:,} transitions in {needed / 1e9:.2g} GB{over}")
        if size.returns:
            H, stored = self.search.H, self.search.H if self.search.per_stage else 1
            seconds = SWEEP_SECONDS * rows / stored * H * size.returns / 2.0
            parts.append(
                f"a plan then takes about {in_words(seconds)} and {32.0 * all_states * size.returns / 1e9:.2g} GB"
            )
        return "; ".join(parts)


def _values(coordinate: Sequence[Any]) -> int:
    """Return how many values a coordinate has: whole numbers all those between the ends, in their common step."""
    found = np.asarray(coordinate)
    if found.ndim != 1 or found.dtype.kind not in "iu":
        return len(set(coordinate))
    above = found - found.min()
    return int(above.max()) // max(1, int(np.gcd.reduce(above))) + 1
