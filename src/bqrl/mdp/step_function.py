"""The step function of a problem with continuous states, called on many states at once, and checks of what is declared about it.

`bqrl.mdp.grid_step` builds finite models from it. States are rows of numbers, one column per coordinate of the grid.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from bqrl.checks import bad_type, bad_value, one_line
from bqrl.errors import ModelError
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.cells import Cells
from bqrl.mdp.step_arrays import fault_text, step_error

PAIRS = 1_000  # sampled pairs of states that check a declaration
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


def make_step(
    step: Any, actions: Any, available: Any, vectorized: bool, grid: dict[str, FloatArray]
) -> StepFunction:  # fmt: skip
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
    return StepFunction(
        step=step, actions=tuple(actions), options=options, vectorized=vectorized, names=tuple(grid)
    )  # fmt: skip


# -- checks on sampled pairs ---------------------------------------------------------------------------------------------


class _Pairs(NamedTuple):
    """Sampled pairs of states with one action that exists in the first, and one event for each state."""

    low: FloatArray
    high: FloatArray
    action: IntArray
    event_low: Any
    event_high: Any


def _sample(function: StepFunction, points: list[FloatArray], cells: Cells, moving: Any, event_sign: float) -> _Pairs:
    """Return pairs in which `high` exceeds `low` in some of the `moving` coordinates (by their sign) and equals it in others."""
    rng, d = np.random.default_rng(0), len(points)
    spread = np.stack([rng.uniform(p[0], p[-1], (2, PAIRS)) for p in points], axis=-1)
    chosen = np.stack([rng.choice(p, (2, PAIRS)) for p in points], axis=-1)
    states = np.where(rng.random((1, PAIRS, 1)) < 0.5, spread, chosen)
    states = np.where(moving == 0, chosen, states)  # a coordinate without an order takes the values of its chain
    near = rng.random(PAIRS) < 0.3  # short moves find local counterexamples
    states[1, near] = states[0, near] + 0.01 * (states[1, near] - states[0, near])
    moved = (rng.random((PAIRS, d)) < max(0.5, 1.0 / d)) & (moving != 0)
    states[1] = np.where(moved, states[1], states[0])
    down = (states[1] - states[0]) * moving < 0
    low, high = np.where(down, states[1], states[0]), np.where(down, states[0], states[1])
    mask = function.available(low)
    action = np.argmax(rng.random(mask.shape) * mask, axis=1)
    first = rng.choice(cells.probability.size, PAIRS, p=cells.probability)
    if cells.source is None:
        return _Pairs(low, high, action, cells.low[first], cells.low[first])
    events = np.sort(cells.draw(rng.uniform(1e-6, 1.0 - 1e-6, (2, PAIRS))), axis=0)[:: 1 if event_sign > 0 else -1]
    return _Pairs(low, high, action, events[0], events[1])


def check_monotone(
    function: StepFunction, points: list[FloatArray], cells: Cells, signs: FloatArray, event_sign: float
) -> None:
    """Raise ModelError with a counterexample unless sampled pairs agree with the declared order."""
    pairs = _sample(function, points, cells, signs, event_sign)
    lost = ~function.available(pairs.high)[np.arange(PAIRS), pairs.action]
    if lost.any():
        i = int(lost.argmax())
        action = one_line(function.actions[int(pairs.action[i])])
        raise ModelError(
            f"monotone must hold for the actions: {action} exists in {_numbers(pairs.low[i])} and must also exist in the better "
            f"state {_numbers(pairs.high[i])}, got none; offer it there or turn the sign", name="monotone",
        )  # fmt: skip
    low, paid_low = function.many(pairs.low, pairs.action, pairs.event_low)
    high, paid_high = function.many(pairs.high, pairs.action, pairs.event_high)
    scale = SLACK * (1.0 + np.maximum(np.abs(low), np.abs(high)))
    worse = np.where(signs == 0, np.abs(high - low), signs * (low - high)) > scale
    pays_less = paid_low - paid_high > SLACK * (1.0 + np.maximum(np.abs(paid_low), np.abs(paid_high)))
    bad = worse.any(axis=1) | pays_less
    if bad.any():
        i = int(bad.argmax())
        what = "a reward that is at least as high" if pays_less[i] else "a next state that is at least as good"
        calls = [
            f"{function.text(s[i], pairs.action[i], e[i])} = ({_numbers(n[i])}, {r[i]:.6g})"
            for s, e, n, r in (
                (pairs.low, pairs.event_low, low, paid_low), (pairs.high, pairs.event_high, high, paid_high)
            )
        ]  # fmt: skip
        raise ModelError(
            f"monotone must hold: a better state must have {what}, got {calls[0]} and {calls[1]}; correct the signs or use "
            "lipschitz", name="monotone",
        )  # fmt: skip


def check_lipschitz(function: StepFunction, points: list[FloatArray], cells: Cells, bound: Callable[..., Any]) -> None:
    """Raise ModelError with a counterexample unless sampled pairs agree with the declared constants.

    `bound(distance of states (n, d), distance of events (n,))` returns the largest distances of next states and of rewards.
    """
    pairs = _sample(function, points, cells, np.ones(len(points)), 1.0)
    both = function.available(pairs.low) & function.available(pairs.high)
    if not both.all() and function.options is not None:
        raise ModelError(
            "lipschitz requires the same actions in every state, got states with different actions; give a list of actions",
            name="actions",
        )  # fmt: skip
    low, paid_low = function.many(pairs.low, pairs.action, pairs.event_low)
    high, paid_high = function.many(pairs.high, pairs.action, pairs.event_high)
    apart = np.zeros(PAIRS) if cells.source is None else np.abs(pairs.event_high - pairs.event_low)
    state_bound, reward_bound = bound(np.abs(pairs.high - pairs.low), apart)
    scale = SLACK * (1.0 + np.maximum(np.abs(low), np.abs(high)))
    bad = (np.abs(high - low) > state_bound + scale).any(axis=1)
    bad |= np.abs(paid_high - paid_low) > reward_bound + SLACK * (1.0 + np.abs(paid_low) + np.abs(paid_high))
    if bad.any():
        i = int(bad.argmax())
        calls = [
            f"{function.text(s[i], pairs.action[i], e[i])} = ({_numbers(n[i])}, {r[i]:.6g})"
            for s, e, n, r in (
                (pairs.low, pairs.event_low, low, paid_low), (pairs.high, pairs.event_high, high, paid_high)
            )
        ]  # fmt: skip
        raise ModelError(
            f"lipschitz must bound these two steps, got {calls[0]} and {calls[1]}; raise it", name="lipschitz"
        )


def _plain(events: Any) -> list[Any]:
    """Return events as plain objects, so that a step function sees no NumPy scalars."""
    return [event.item() if isinstance(event, np.generic) else event for event in events]


def _numbers(state: Any) -> str:
    """Return a state as text, six digits per coordinate."""
    inner = ", ".join(f"{x:.6g}" for x in np.asarray(state).tolist())
    return f"({inner}{',' if len(np.asarray(state)) == 1 else ''})"
