"""The step function of a problem with continuous states, called on many states at once, and checks of what is declared about it.

`bqrl.mdp.grid_step` builds finite models from it. States are rows of numbers, one column per coordinate of the grid.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bqrl.checks import bad_type, bad_value, one_line
from bqrl.errors import ModelError
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.cells import Cells
from bqrl.mdp.step_arrays import fault_text, step_error

PAIRS, NEIGHBOURS = 1_000, 5_000  # sampled pairs of states that check a declaration
SLACK = 1e-9  # differences of this size, relative to the numbers compared, are rounding errors


@dataclass(frozen=True, eq=False, kw_only=True)
class StepFunction:
    """A step function with its actions; `many` calls it on rows of states."""

    step: Callable[..., Any]
    actions: tuple[Any, ...]
    options: Callable[..., Any] | None  # actions(state), or available(states, actions) of a vectorised function
    vectorized: bool
    names: tuple[str, ...]  # of the coordinates

    def many(self, states: FloatArray, a: IntArray, events: Any) -> tuple[FloatArray, FloatArray]:
        """Return the next states (n, d) and the rewards (n,)."""
        if self.vectorized:
            s_next, reward = self._call(self.step, states, np.array(self.actions)[a], events)
        else:
            rows = zip(map(tuple, states.tolist()), a.tolist(), _plain(events), strict=True)
            found = [self._one(state, self.actions[i], event) for state, i, event in rows]
            s_next = np.array([s for s, _ in found], float).reshape(states.shape)
            reward = np.array([r for _, r in found], float)
        s_next, reward = np.asarray(s_next, float), np.asarray(reward, float)
        if s_next.shape != states.shape or reward.shape != a.shape:
            got = f"{s_next.shape} and {reward.shape}"
            raise step_error("step", f"return next states of shape {states.shape} and rewards of shape {a.shape}", got)
        bad = ~(np.isfinite(s_next).all(axis=1) & np.isfinite(reward))
        if bad.any():
            i = int(bad.argmax())
            got = f"{tuple(s_next[i].tolist())}, {reward[i]:g}"
            raise step_error(self.text(states[i], a[i], events[i]), "return finite numbers", got)
        return s_next, reward + 0.0

    def _one(self, state: Any, action: Any, event: Any) -> tuple[Any, float]:
        call = f"step({one_line(state)}, {one_line(action)}, {one_line(event)})"
        try:
            s_next, reward = self.step(state, action, event)
            found = tuple(float(x) for x in s_next), float(reward)
        except Exception as fault:
            raise step_error(
                call, "return (next_state, reward) with a tuple as next state", fault_text(fault)
            ) from fault
        if len(found[0]) != len(self.names):
            raise step_error(call, f"return {len(self.names)} coordinates ({', '.join(self.names)})", one_line(s_next))
        return found

    @staticmethod
    def _call(function: Callable[..., Any], *given: Any) -> Any:
        try:
            result = function(*given)
        except Exception as fault:
            raise step_error("step", "return (next_states, rewards)", fault_text(fault)) from fault
        if not isinstance(result, tuple) or len(result) != 2:
            raise step_error("step", "return (next_states, rewards)", one_line(result))
        return result

    def available(self, states: FloatArray) -> BoolArray:
        """Return which actions exist in each state, shape (n, A)."""
        n, A = len(states), len(self.actions)
        if self.options is None:
            return np.ones((n, A), bool)
        if self.vectorized:
            given = np.repeat(states, A, axis=0), np.tile(np.array(self.actions), n)
            return np.asarray(self.options(*given), bool).reshape(n, A)
        number, mask = {action: i for i, action in enumerate(self.actions)}, np.zeros((n, A), bool)
        for i, state in enumerate(map(tuple, states.tolist())):
            mask[i, [number[action] for action in self.options(state) if action in number]] = True
        return mask

    def text(self, state: Any, a: Any, event: Any) -> str:
        """Return a call of the function as text, for a message."""
        return f"step({_numbers(state)}, {one_line(self.actions[int(a)])}, {one_line(_plain([event])[0])})"


def make_step(step: Any, actions: Any, available: Any, vectorized: bool, grid: dict[str, FloatArray]) -> StepFunction:
    """Return the checked step function; a function `actions(state)` is asked at every grid point for all actions."""
    if not callable(step):
        raise bad_type("step", step, "be a function (state, action, event)")
    if vectorized and callable(actions):
        raise bad_type("actions", actions, "be a list if vectorized=True", "a function", remedy="use available")
    if available is not None and not vectorized:
        raise bad_value("available", available, "be given with vectorized=True only", "vectorized=False")
    options = actions if callable(actions) else available
    if callable(actions):
        points = np.stack(np.meshgrid(*grid.values(), indexing="ij"), axis=-1).reshape(-1, len(grid))
        found: dict[Any, None] = {}
        for state in map(tuple, points.tolist()):
            found |= dict.fromkeys(actions(state))
        actions = list(found)
    if not list(actions):
        raise bad_value("actions", actions, "not be empty", "none", remedy="give one, e.g. one that does nothing")
    return StepFunction(step=step, actions=tuple(actions), options=options, vectorized=vectorized, names=tuple(grid))


# -- checks on sampled pairs ---------------------------------------------------------------------------------------------


class _Pairs(NamedTuple):
    """Pairs of states with one action that exists in the first, and one event for each state."""

    low: FloatArray
    high: FloatArray
    action: IntArray
    event_low: Any
    event_high: Any


def _sample(function: StepFunction, points: list[FloatArray], cells: Cells, moving: Any, event_sign: float) -> _Pairs:
    """Return pairs in which `high` exceeds `low` in some of the `moving` coordinates (by their sign) and equals it in others.

    PAIRS of them are random; the others are neighbours on the grid, all of them if there are at most NEIGHBOURS per coordinate.
    """
    rng, d = np.random.default_rng(0), len(points)
    spread = np.stack([rng.uniform(p[0], p[-1], (2, PAIRS)) for p in points], axis=-1)
    chosen = np.stack([rng.choice(p, (2, PAIRS)) for p in points], axis=-1)
    states = np.where(rng.random((1, PAIRS, 1)) < 0.5, spread, chosen)
    states = np.where(moving == 0, chosen, states)  # a coordinate without an order takes the values of its chain
    near = rng.random(PAIRS) < 0.3  # short moves find local counterexamples
    states[1, near] = states[0, near] + 0.01 * (states[1, near] - states[0, near])
    moved = (rng.random((PAIRS, d)) < max(0.5, 1.0 / d)) & (moving != 0)
    states[1] = np.where(moved, states[1], states[0])
    mask = function.available(np.where((states[1] - states[0]) * moving < 0, states[1], states[0]))
    action = np.argmax(rng.random(mask.shape) * mask, axis=1)
    event = rng.choice(cells.probability.size, PAIRS, p=cells.probability)
    single = (
        cells.low
        if cells.source is None
        else np.where(np.isfinite(cells.middle), cells.middle, cells.draw(cells.probability / 2))
    )
    events = [single[event]] * 2
    if cells.source is not None:
        drawn = np.sort(cells.draw(rng.uniform(1e-6, 1.0 - 1e-6, (2, PAIRS))), axis=0)
        events = list(drawn[:: 1 if event_sign > 0 else -1])
    pairs = [(states, action, events)]
    for j in np.flatnonzero(np.broadcast_to(moving, d)):
        shape = (*(p.size - (i == j) for i, p in enumerate(points)), len(function.actions), single.size)
        total = math.prod(shape)
        place = np.arange(total) if total <= NEIGHBOURS else rng.integers(total, size=NEIGHBOURS)
        *codes, a, e = np.unravel_index(place, shape)
        both = np.stack(
            [[p[c + k * (i == j)] for i, (p, c) in enumerate(zip(points, codes, strict=True))] for k in (0, 1)]
        )
        both = both.transpose(0, 2, 1)
        worse = np.where((moving * (both[1] - both[0]) < 0)[:, [j]], both[1], both[0])
        exists = function.available(worse)[np.arange(a.size), a]
        pairs.append((both[:, exists], a[exists], [single[e[exists]]] * 2))
    states, action = np.concatenate([s for s, _, _ in pairs], axis=1), np.concatenate([a for _, a, _ in pairs])
    down = (states[1] - states[0]) * moving < 0
    low, high = np.where(down, states[1], states[0]), np.where(down, states[0], states[1])
    return _Pairs(low, high, action, *(np.concatenate([e[k] for _, _, e in pairs]) for k in (0, 1)))


class _Steps(NamedTuple):
    """What the step function returns for both states of every pair."""

    low: FloatArray
    paid_low: FloatArray
    high: FloatArray
    paid_high: FloatArray

    @property
    def slack(self) -> tuple[FloatArray, FloatArray]:
        """Rounding errors of next states (n, d) and rewards (n,)."""
        paid = np.maximum(np.abs(self.paid_low), np.abs(self.paid_high))
        return SLACK * (1.0 + np.maximum(np.abs(self.low), np.abs(self.high))), SLACK * (1.0 + paid)


def _both(function: StepFunction, pairs: _Pairs) -> _Steps:
    first, second = (
        function.many(s, pairs.action, e) for s, e in ((pairs.low, pairs.event_low), (pairs.high, pairs.event_high))
    )
    return _Steps(*first, *second)


def _shown(function: StepFunction, pairs: _Pairs, steps: _Steps, i: int) -> str:
    """Return the two steps of a counterexample as text."""
    sides = (pairs.low, pairs.event_low, *steps[:2]), (pairs.high, pairs.event_high, *steps[2:])
    return " and ".join(
        f"{function.text(s[i], pairs.action[i], e[i])} = ({_numbers(after[i])}, {paid[i]:.6g})"
        for s, e, after, paid in sides
    )


def check_monotone(
    function: StepFunction, points: list[FloatArray], cells: Cells, signs: FloatArray, event_sign: float
) -> None:
    """Raise ModelError with a counterexample unless pairs of states agree with the declared order."""
    pairs = _sample(function, points, cells, signs, event_sign)
    lost = ~function.available(pairs.high)[np.arange(pairs.action.size), pairs.action]
    if lost.any():
        i = int(lost.argmax())
        action = one_line(function.actions[int(pairs.action[i])])
        raise ModelError(
            f"monotone must hold for the actions: {action} exists in {_numbers(pairs.low[i])} and must also exist in the better "
            f"state {_numbers(pairs.high[i])}, got none; offer it there or turn the sign", name="monotone",
        )  # fmt: skip
    steps = _both(function, pairs)
    scale, paid_scale = steps.slack
    worse = np.where(signs == 0, np.abs(steps.high - steps.low), signs * (steps.low - steps.high)) > scale
    pays_less = steps.paid_low - steps.paid_high > paid_scale
    bad = worse.any(axis=1) | pays_less
    if bad.any():
        i = int(bad.argmax())
        what = "a reward that is at least as high" if pays_less[i] else "a next state that is at least as good"
        raise ModelError(
            f"monotone must hold: a better state must have {what}, got {_shown(function, pairs, steps, i)}; correct the signs or "
            "use lipschitz", name="monotone",
        )  # fmt: skip


def check_lipschitz(
    function: StepFunction, points: list[FloatArray], cells: Cells, bound: Callable[..., Any], moving: FloatArray
) -> None:
    """Raise ModelError with a counterexample unless pairs of states that differ where `moving` is 1 agree with the constants.

    `bound(distance of states (n, d), distance of events (n,))` returns the largest distances of next states and of rewards.
    """
    pairs = _sample(function, points, cells, moving, 1.0)
    both = function.available(pairs.low) & function.available(pairs.high)
    if not both.all() and function.options is not None:
        raise ModelError(
            "lipschitz requires the same actions in every state, got states with different actions; give a list of actions",
            name="actions",
        )  # fmt: skip
    steps = _both(function, pairs)
    apart = np.zeros(pairs.action.size) if cells.source is None else np.abs(pairs.event_high - pairs.event_low)
    state_bound, reward_bound = bound(np.abs(pairs.high - pairs.low), apart)
    scale, paid_scale = steps.slack
    bad = (np.abs(steps.high - steps.low) > state_bound + scale).any(axis=1)
    bad |= np.abs(steps.paid_high - steps.paid_low) > reward_bound + 2.0 * paid_scale
    if bad.any():
        shown = _shown(function, pairs, steps, int(bad.argmax()))
        raise ModelError(f"lipschitz must bound these two steps, got {shown}; raise it", name="lipschitz")


def check_affine(function: StepFunction, points: list[FloatArray], cells: Cells, linear: BoolArray) -> None:
    """Raise ModelError unless sampled steps are affine in the given coordinates and, if it is continuous, in the event."""
    pairs = _sample(function, points, cells, linear.astype(float), 1.0)
    for events in ((pairs.event_low,) * 2, (pairs.event_low, pairs.event_high))[: 1 + (cells.source is not None)]:
        moved = events[1] is events[0]  # first two states with one event, then one state with two events
        pair = pairs._replace(high=pairs.high if moved else pairs.low, event_low=events[0], event_high=events[1])
        steps = _both(function, pair)
        event = events[0] if moved else (events[0] + events[1]) / 2.0
        middle, paid = function.many((pair.low + pair.high) / 2.0, pair.action, event)
        scale, paid_scale = steps.slack
        bad = np.abs((steps.low + steps.high) / 2.0 - middle) > scale
        bad |= moved & ~linear & (np.abs(steps.high - steps.low) > scale)
        bad[:, 0] |= np.abs((steps.paid_low + steps.paid_high) / 2.0 - paid) > paid_scale
        if bad.any():
            shown = _shown(function, pair, steps, int(bad.any(axis=1).argmax()))
            rule = "next state and reward must be affine and other coordinates must not depend on it"
            raise ModelError(f"affine must hold: {rule}, got {shown}; omit affine", name="affine")


def _plain(events: Any) -> list[Any]:
    """Return events as plain objects, so that a step function sees no NumPy scalars."""
    return [event.item() if isinstance(event, np.generic) else event for event in events]


def _numbers(state: Any) -> str:
    """Return a state as text, six digits per coordinate."""
    inner = ", ".join(f"{x:.6g}" for x in np.asarray(state).tolist())
    return f"({inner}{',' if len(np.asarray(state)) == 1 else ''})"
