"""Models without a table: a vectorised step function is called again whenever transitions are needed.

The states are found level by level, as in `step_arrays`, but nothing else is kept: one number per state, and a table from the
box of all coordinates to these numbers. States are numbered by the first stage at which they can be met, so that the states of
stage h are the first count[h], and a sweep visits no others.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bqrl.checks import bad_value
from bqrl.errors import GridError, SizeError
from bqrl.mdp.arrays import FloatArray, IntArray, read_only
from bqrl.mdp.find_grid import lattice_of, noise_of, reward_step, sums_fit
from bqrl.mdp.grid import Lattice
from bqrl.mdp.search import Scout, StateSearch
from bqrl.mdp.step_arrays import CHUNK, answer, check_numbers, existing_rows, first_states, step_error, walk_arrays
from bqrl.mdp.validation import check_discount

MAX_BOX = 2**30  # cells of the box of coordinates
MAX_REWARDS = 100_000  # distinct rewards
UNKNOWN = -1


class Outcomes(NamedTuple):
    """The outcomes of the rows (s, a) of a block of states: those of row q are start[q] .. start[q + 1] - 1."""

    start: IntArray  # (rows + 1,)
    successor: NDArray[np.int32]  # (n,)
    probability: FloatArray  # (n,)
    unit: IntArray  # (n,) rewards in steps of the grid


class Box:
    """Whole coordinates in a box, each encoded as one number in mixed radix."""

    def __init__(self, low: IntArray, high: IntArray) -> None:
        self.low, self.span = low, high - low + 1
        self.cells = math.prod(self.span.tolist())
        if self.cells > MAX_BOX:
            rule = f"the states must have coordinates with at most {MAX_BOX} combinations"
            message = f"{rule} if stored=False, got {self.cells}; bound them, e.g. by np.clip"
            raise SizeError(message, needed=self.cells, limit=MAX_BOX, name="stored")

    def holds(self, states: IntArray) -> bool:
        """Return whether all states lie in the box."""
        ends = zip(states.T, self.low.tolist(), (self.low + self.span).tolist(), strict=True)
        return all(int(x.min()) >= low and int(x.max()) < end for x, low, end in ends)  # far quicker than along axis 0

    def encode(self, states: IntArray) -> IntArray:
        """Return the number of every state (n, d)."""
        codes = states[:, 0] - self.low[0]
        for j in range(1, self.span.size):
            codes *= self.span[j]
            codes += states[:, j]
            codes -= self.low[j]
        return codes

    def decode(self, codes: IntArray) -> IntArray:
        """Return the states (n, d) of the given numbers."""
        states = np.empty((codes.size, self.span.size), np.int64)
        for j in range(self.span.size - 1, 0, -1):
            codes, states[:, j] = np.divmod(codes, self.span[j])
        states[:, 0] = codes
        return states + self.low

    def wider(self, states: IntArray) -> Box:
        """Return a box that also holds `states`, at least doubled wherever it grows."""
        low, high = np.minimum(self.low, states.min(axis=0)), np.maximum(self.low + self.span - 1, states.max(axis=0))
        low = np.where(low < self.low, np.minimum(low, self.low - self.span), low)
        high = np.where(high >= self.low + self.span, np.maximum(high, self.low + 2 * self.span - 1), high)
        return Box(low, high)


class StepModel:
    """A model that computes its transitions when they are needed; made by `from_step(..., stored=False)`.

    It has no table of transitions, so it takes a few bytes per state instead of about 20 per transition. `solve` (for `Quantile`
    and `Chance`), `guarantee_curve`, `evaluate` (of its plans and of arrays of actions) and `simulate` accept it; every other
    function needs a stored model and says so.

    Attributes
    ----------
    H, S, A : int
        Numbers of stages, states and actions.
    count : ndarray of shape (H + 1,)
        The states that can be met by each stage are 0 to count[h] - 1.
    mu : ndarray of shape (S,)
        Law of the first state.
    grid : Lattice
        The lattice of the returns.

    Examples
    --------
    >>> import bqrl
    >>> import numpy as np
    >>> def step(stock, order, demand):
    ...     sold = np.minimum(stock + order, demand)
    ...     return np.minimum(stock + order - sold, 9), 5 * sold - 2 * order
    >>> model = bqrl.from_step(step, [0, 1, 2], {0: 0.2, 1: 0.5, 2: 0.3}, 8, 0, vectorized=True, stored=False)
    >>> model
    StepModel(H=8, S=10, A=3, 3 events, step function)
    >>> bqrl.solve(model, tau=0.1).value
    18.0
    """

    stored = False
    discount = 1.0
    stationary = True
    noise = None
    outcome_names: tuple[str, ...] = ()
    box: Box

    def __init__(
        self, step: Callable[..., Any], actions: Any, available: Callable[..., Any] | None, search: StateSearch,
        units: str | None = None,
    ) -> None:  # fmt: skip
        if search.per_stage:
            raise bad_value("stored", False, "be True with one law of events per stage")
        self.step, self.available, self.H, self.units = step, available, search.H, units
        self.acts, law = check_numbers(actions, "actions"), search.laws[0]
        self.events, self.chances = check_numbers(law.events, "events"), law.probabilities
        self.A, self.max_outcomes = self.acts.size, self.events.size
        first = first_states(search.first, in_order=True)
        self.plain = first.ndim == 1  # states are numbers, not rows
        level = self._find_states(first.reshape(len(first), -1), search)
        tight = Box(self.box.decode(level.codes).min(axis=0), self.box.decode(level.codes).max(axis=0))
        self.codes = tight.encode(self.box.decode(level.codes))
        self.box, self.count, self.S = tight, read_only(level.met), level.codes.size
        self.place = np.full(tight.cells, UNKNOWN, np.int32)
        self.place[self.codes] = np.arange(self.S, dtype=np.int32)
        self.mu = np.zeros(self.S)
        self.mu[self.place[tight.encode(first.reshape(len(first), -1))]] = list(search.first.values())
        self.grid = self._lattice(level.rewards)
        self._base, self._step = float(self.grid.offset[-2]), self.grid.width

    def __repr__(self) -> str:
        return f"StepModel(H={self.H}, S={self.S}, A={self.A}, {self.events.size} events, step function)"

    @property
    def block(self) -> int:
        """Number of states whose transitions are computed at once."""
        return max(1, CHUNK // (self.A * self.events.size))

    def states(self, s: IntArray) -> IntArray:
        """Return the states of the given numbers as `step` receives them, shape (n,) or (n, d)."""
        found = self.box.decode(self.codes[s])
        return found[:, 0] if self.plain else found

    def state_label(self, s: int) -> str:
        """Return the state as text."""
        return str(self.states(np.array([s])).tolist()[0])

    def action_label(self, a: int) -> str:
        """Return the action as text."""
        return str(self.acts[a])

    def follow(self, s: IntArray, a: IntArray, event: IntArray) -> tuple[NDArray[np.int32], FloatArray]:
        """Return the numbers of the next states, and the rewards."""
        return self._follow(self.states(s), self.acts[a], self.events[event])

    def _follow(self, states: IntArray, acts: Any, events: Any) -> tuple[NDArray[np.int32], FloatArray]:
        s_next, reward, _ = answer(self.step, (states, acts, events), ())
        s_next = s_next.reshape(len(s_next), -1)
        if not s_next.size:
            return np.empty(0, np.int32), reward
        successor = self.place[self.box.encode(s_next)] if self.box.holds(s_next) else np.array([UNKNOWN], np.int32)
        if successor.min() == UNKNOWN:
            raise step_error(
                "step", "be deterministic", "a state that it did not reach before; move random draws into noise"
            )
        return successor, reward

    def outcomes(self, s: IntArray, rows: NDArray[np.bool_] | None = None) -> Outcomes:
        """Return the outcomes of all rows of the given states, or of the rows (n, A) that are selected; others are empty."""
        states, E = self.states(s), self.events.size
        if rows is None and self.available is None:
            counts = np.full(s.size * self.A, E)
            i, a = np.repeat(np.arange(s.size), self.A), np.tile(self.acts, s.size)
        else:
            exists = np.zeros((s.size, self.A), bool)
            i, played = existing_rows(states, self.acts, self.available)
            exists[i, played] = True
            exists &= True if rows is None else rows
            i, played = np.nonzero(exists)
            counts, a = exists.reshape(-1) * E, self.acts[played]
        start = np.zeros(counts.size + 1, np.int64)
        np.cumsum(counts, out=start[1:])
        given = np.repeat(states[i], E, axis=0), np.repeat(a, E), np.tile(self.events, i.size)
        successor, reward = self._follow(*given)
        unit = np.rint((reward - self._base) / self._step).astype(np.int64)
        return Outcomes(start, successor, np.tile(self.chances, i.size), unit)

    def blocks(self, begin: int, stop: int) -> Iterator[tuple[slice, Outcomes]]:
        """Yield the outcomes of the states `begin` to `stop` - 1, block by block, each with its place among them.

        The next block is computed in a second thread.
        """
        with ThreadPoolExecutor(1) as ahead:
            coming = ahead.submit(self.outcomes, np.arange(begin, min(begin + self.block, stop)))
            for first in range(begin, stop, self.block):
                outcomes, end = coming.result(), min(first + self.block, stop)
                if end < stop:
                    coming = ahead.submit(self.outcomes, np.arange(end, min(end + self.block, stop)))
                yield slice(first - begin, end - begin), outcomes

    # -- finding the states -------------------------------------------------------------------------------------------------

    def _find_states(self, first: IntArray, search: StateSearch) -> _Found:
        """Follow the step function from the first states, level by level."""
        self.box = Box(first.min(axis=0), first.max(axis=0))
        seen = np.zeros(self.box.cells, bool)
        fresh = np.unique(self.box.encode(first))
        seen[fresh] = True
        levels, rewards, followed = [self.box.decode(fresh)], np.empty(0), 0
        walk = partial(walk_arrays, self.step, self.acts, [self.events], self.available, search)
        scout = Scout(search, walk, stored=False)
        for h in range(self.H):
            level = levels[-1]
            before = seen.copy()
            for begin in range(0, len(level), self.block):
                states = level[begin : begin + self.block]
                i, a = existing_rows(states[:, 0] if self.plain else states, self.acts, self.available)
                E = self.events.size
                given = np.repeat(states[i], E, axis=0), np.repeat(self.acts[a], E), np.tile(self.events, i.size)
                asked = (given[0][:, 0] if self.plain else given[0]), *given[1:]
                s_next, reward, others = answer(self.step, asked, None, again=0 if begin else 1)
                if others:
                    raise step_error("step", "return (next_states, rewards) alone if stored=False", "further outcomes")
                s_next = s_next.reshape(len(s_next), -1)
                if not self.box.holds(s_next):
                    wider = self.box.wider(s_next)
                    seen, before = (_moved(array, self.box, wider) for array in (seen, before))
                    self.box = wider
                seen[self.box.encode(s_next)] = True
                rewards = _with_new(rewards, reward)
                followed += len(reward)
                scout.report(sum(map(len, levels)), followed, h)
            found = np.flatnonzero(seen & ~before)
            if not found.size:
                break
            levels.append(self.box.decode(found))
            search.check_states(sum(map(len, levels)), h)
        sizes = np.cumsum([len(level) for level in levels])
        count = sizes[np.minimum(np.arange(self.H + 1), sizes.size - 1)]
        return _Found(self.box.encode(np.concatenate(levels)), count, rewards)

    def _lattice(self, rewards: FloatArray) -> Lattice:
        """Return the lattice of the returns; raise GridError if the rewards have none."""
        noise, found = noise_of(rewards), reward_step(rewards)
        if found is None or not sums_fit(self.H, rewards, float(found[0]), float(found[1])) or (
            self.H * noise > 0.01 * float(found[1])
        ):  # fmt: skip
            raise GridError(
                "stored=False requires rewards on a lattice, got rewards without one; round them", name="stored"
            )
        base, step = found
        units = np.rint((rewards - float(base)) / float(step)).astype(np.int64)[None]
        left = np.arange(self.H, -1, -1)
        return lattice_of(self.H, base, step, noise, 0 * left, left * int(units.max()) + 1, units, None)


class _Found(NamedTuple):
    codes: IntArray  # (S,) by level
    met: IntArray  # (H + 1,) states found by each stage
    rewards: FloatArray  # distinct


def _moved(array: NDArray[np.bool_], old: Box, new: Box) -> NDArray[np.bool_]:
    """Return marks of the cells of one box as marks of another box."""
    moved = np.zeros(new.cells, bool)
    moved[new.encode(old.decode(np.flatnonzero(array)))] = True
    return moved


def _with_new(known: FloatArray, values: FloatArray) -> FloatArray:
    """Return the sorted distinct values of both arrays; quick if `known` has almost all of them."""
    if known.size:
        place = np.minimum(np.searchsorted(known, values), known.size - 1)
        values = values[known[place] != values]
    if not values.size:
        return known
    found = np.union1d(known, values)
    if found.size > MAX_REWARDS:
        rule = f"stored=False requires at most {MAX_REWARDS} distinct rewards"
        raise GridError(f"{rule}, got {found.size}; round them", name="stored")
    return found


def check_undiscounted(discount: Any) -> None:
    """Raise an error if a model without a table has a discount: its returns have no lattice."""
    if check_discount(discount) != 1.0:
        raise bad_value("discount", discount, "be 1 if stored=False", remedy="store the model")
