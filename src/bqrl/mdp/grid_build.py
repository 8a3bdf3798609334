"""Builds the finite models of a problem with continuous states; `bqrl.mdp.grid_step` has the proofs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from itertools import chain
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, number, numbers, one_line, whole
from bqrl.errors import SizeError
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.cells import Cells, cells_of
from bqrl.mdp.grid_affine import Slopes, build_affine
from bqrl.mdp.grid_step import GONE, LOST, GridModel, round_states, state_label
from bqrl.mdp.model import MDP
from bqrl.mdp.step_function import StepFunction, check_affine, check_lipschitz, check_monotone, make_step
from bqrl.mdp.table import Table
from bqrl.mdp.validation import check_discount, check_horizon

UNBOUNDED = (-math.inf, math.inf)


class _RoundedStep:
    """The step function of a finite model, on grid indices; it remembers the rewards and rounding errors that it met."""

    def __init__(
        self, function: StepFunction, points: list[FloatArray], ends: list[Any], signs: FloatArray | None, side: str,
        outside: float,
    ) -> None:  # fmt: skip
        self.function, self.points, self.signs, self.side = function, points, signs, side
        self.events = (
            np.concatenate(ends)
            if len({e.dtype for e in ends}) == 1
            else np.array(list(chain.from_iterable(ends)), object)
        )
        self.outside = outside  # reward outside the grid; infinite if it has no bound
        self.moved = np.zeros(len(points))
        self.paid = [math.inf, -math.inf]
        self._last: tuple[Any, Any] | None = None

    def __call__(self, codes: IntArray, a: IntArray, event: IntArray) -> tuple[IntArray, FloatArray]:
        """Return the next indices and the rewards; a second call with the same arrays is answered from memory."""
        if self._last is not None and self._last[0] is codes:
            return self._last[1]
        bounded = math.isfinite(self.outside)
        after = np.full(codes.shape, LOST if bounded else GONE)
        reward = np.full(a.shape, self.outside if bounded else 0.0)
        events = self.events[event]
        known = np.isfinite(events) if events.dtype.kind == "f" else np.ones(a.shape, bool)
        here = np.flatnonzero((codes[:, 0] >= 0) & known)
        if here.size:
            states = np.stack([p[codes[here, j]] for j, p in enumerate(self.points)], axis=1)
            s_next, paid = self.function.many(states, a[here], events[here])
            found, out, moved = round_states(s_next, self.points, self.signs, self.side)
            after[here] = np.where(out[:, None], LOST, found)
            reward[here] = paid
            self.moved = np.maximum(self.moved, np.where(out[:, None], 0.0, moved).max(axis=0))
            self.paid = [min(self.paid[0], float(paid.min())), max(self.paid[1], float(paid.max()))]
        result = after, reward
        self._last = codes, result
        return result

    def available(self, codes: IntArray, a: IntArray) -> BoolArray:
        """Return which actions exist; outside the grid there is one."""
        A = len(self.function.actions)
        inside = codes[:, 0] >= 0
        mask = a == 0
        if inside.any():
            rows = codes[inside].reshape(-1, A, codes.shape[1])[:, 0]
            states = np.stack([p[rows[:, j]] for j, p in enumerate(self.points)], axis=1)
            mask[inside] = self.function.available(states)[np.repeat(np.arange(len(rows)), A), a[inside]]
        return np.asarray(mask)


def build_grid_model(
    finite: Callable[..., MDP], step: Any, actions: Any, noise: Any, horizon: int, start: Any, *, grid: Any, monotone: Any,
    lipschitz: Any, event_lipschitz: Any, affine: Any, reward_range: Any, cells: int, invert: Any, discount: float,
    mass: float | None, vectorized: bool, available: Any, action_name: Callable[[Any], str], max_states: int,
    max_transitions: int,
) -> GridModel:  # fmt: skip
    """Return the model of `from_step` with `grid=`; `finite` is `from_step` itself, which builds the two finite models."""
    H, gamma = check_horizon(horizon), check_discount(discount)
    axes = _check_grid(grid)
    points, d = list(axes.values()), len(axes)
    laws, per_stage = cells_of(noise, H, whole(cells, "cells", 3), mass, even=lipschitz is not None)
    function = make_step(step, actions, available, vectorized, axes)
    low, high = _check_range(reward_range)
    first = _check_start(start, axes)
    if (monotone is None) == (lipschitz is None):
        raise bad_value(
            "monotone", monotone, "be given with grid, or lipschitz instead", "both" if monotone else "neither"
        )
    signs, event_sign = (None, 1.0) if monotone is None else _check_signs(monotone, axes, laws)
    size = math.prod(p.size for p in points)
    if size > max_states:
        raise SizeError(
            f"the grid must have at most max_states={max_states} points, got {size}; use fewer points or raise max_states",
            needed=size, limit=max_states, name="max_states",
        )  # fmt: skip
    bound, linear = None, _check_affine(affine, axes, lipschitz, per_stage)
    if signs is not None:
        for law in laws:
            check_monotone(function, points, law, signs, event_sign)
    else:
        bound = _lipschitz_bound(lipschitz, event_lipschitz, d, any(law.source is not None for law in laws))
        for law in laws:
            check_lipschitz(function, points, law, bound, np.ones(d) if linear is None else linear.astype(float))
    if invert is not None and not callable(invert):
        raise bad_type("invert", invert, "be a function (state, action, next_state) that returns the event")

    def again(finer: dict[str, FloatArray], factor: int) -> GridModel:
        return build_grid_model(
            finite, step, actions, noise, horizon, start, grid=finer, monotone=monotone, lipschitz=lipschitz, affine=affine,
            event_lipschitz=event_lipschitz, reward_range=reward_range, cells=cells * factor, invert=invert, discount=discount,
            mass=mass, vectorized=vectorized, available=available, action_name=action_name, max_states=max_states,
            max_transitions=max_transitions,
        )  # fmt: skip

    shared: dict[str, Any] = {
        "grid": axes, "function": function, "laws": laws, "H": H, "start": first, "discount": gamma, "signs": signs,
        "invert": invert, "build": again, "linear": linear,
    }  # fmt: skip
    if linear is not None:
        assert bound is not None
        check_affine(function, points, laws[0], linear)
        slopes = Slopes(bound, linear, H, gamma)
        lower, upper = build_affine(
            function, axes, laws[0], first, linear, slopes, H, gamma, [action_name(a) for a in function.actions], max_transitions
        )  # fmt: skip
        return GridModel(
            lower=lower, upper=upper, error=np.zeros(H), infinite=(False, False), ends=(-math.inf, math.inf), slopes=slopes,
            **shared,
        )  # fmt: skip

    def one(side: str, outside: float) -> tuple[MDP, _RoundedStep, bool]:
        worse = side.endswith("down")
        if signs is None:
            ends = [law.middle for law in laws]
        else:
            ends = [law.low if worse == (event_sign > 0) else law.high for law in laws]
        rounded = _RoundedStep(function, points, ends, signs, "nearest" if signs is None else side, outside)
        offsets = np.cumsum([0, *(law.probability.size for law in laws)]).tolist()
        noises = [
            {offset + i: p for i, p in enumerate(law.probability.tolist())}
            for offset, law in zip(offsets, laws, strict=False)
        ]
        begin = _first_codes(first, points, signs, "nearest" if signs is None else side)
        if side == "down":  # every grid point is a state, see the module docstring
            begin = dict.fromkeys(np.ndindex(*(p.size for p in points)), 0.0) | begin
        mdp = finite(
            rounded, range(len(function.actions)), noises if per_stage else noises[0], H, begin, discount=gamma, vectorized=True,
            available=rounded.available, state_name=lambda code: _name(code, points, worse),
            action_name=lambda a: action_name(function.actions[a]), max_states=max_states + 2, max_transitions=max_transitions,
        )  # fmt: skip
        return _price_exits(mdp, rounded, worse), rounded, any(code[0] == GONE for code in mdp.state_values or ())

    lower, down, misses = one("down" if signs is not None else "nearest down", low)
    leaves = any(code[0] < 0 for code in lower.state_values or ())
    if signs is None and not leaves:
        upper, up, wins = lower, down, misses
    else:
        upper, up, wins = one("up" if signs is not None else "nearest up", high)
    least, most = min(down.paid[0], up.paid[0]), max(down.paid[1], up.paid[1])
    slack = 1e-12 * max(abs(least), abs(most))
    if least < low - slack or most > high + slack:
        raise bad_value("reward_range", reward_range, "hold every reward", f"rewards from {least:g} to {most:g}")
    worth = sum(gamma**h for h in range(H))
    return GridModel(
        lower=lower, upper=upper, infinite=(misses, wins), ends=(down.paid[0] * worth, up.paid[1] * worth),
        error=np.zeros(H) if bound is None else _errors(bound, first, points, laws, np.maximum(down.moved, up.moved), H, gamma),
        **shared,
    )  # fmt: skip


def _price_exits(mdp: MDP, rounded: _RoundedStep, worse: bool) -> MDP:
    """Return the model in which a run that leaves the grid ends below (above) the return of every run that stays on it.

    The payment is made once, on the way to the state GONE, so that the grid of returns is at most twice as long. All rewards stay
    on the lattice of the others.
    """
    gone = next((s for s, code in enumerate(mdp.state_values or ()) if code[0] == GONE), None)
    if gone is None:
        return mdp
    least, most = rounded.paid if rounded.paid[0] <= rounded.paid[1] else (0.0, 0.0)
    span = (most - least) or abs(most) or 1.0
    jump = (mdp.H + 1) * span / mdp.discount ** (mdp.H - 1)
    source = np.repeat(np.arange(mdp.row_start.size - 1) // mdp.A % mdp.S, np.diff(mdp.row_start))
    reward = mdp.reward.copy()
    reward[:, mdp.successor == gone] = least - jump if worse else most + jump
    reward[:, source == gone] = least if worse else most
    table = Table(
        S=mdp.S, A=mdp.A, K=mdp.available.shape[0], row_start=mdp.row_start, successor=mdp.successor,
        probability=mdp.probability, reward=reward,
    )  # fmt: skip
    names = {name: getattr(mdp, name) for name in ("state_names", "action_names", "state_values", "noise", "units")}
    return MDP.from_table(table, mdp.H, mdp.mu, mdp.discount, **names)


def _errors(
    bound: Callable[..., Any], first: dict[tuple[float, ...], float], points: list[FloatArray], laws: list[Cells],
    moved: FloatArray, H: int, gamma: float,
) -> FloatArray:  # fmt: skip
    """Return the bound on the difference of the discounted rewards of each stage."""
    distance = round_states(np.array(list(first)), points, None, "nearest")[2].max(axis=0)
    errors = np.zeros(H)
    for h in range(H):
        half = laws[h if len(laws) > 1 else 0].half_width
        onward, paid = bound(distance[None, :], np.array([half]))
        errors[h] = gamma**h * float(paid[0])
        distance = onward[0] + moved
    return errors


def _name(code: tuple[int, ...], points: list[FloatArray], worse: bool) -> str:
    if code[0] < 0:
        return ("below" if worse else "above") + (" the grid" if code[0] == LOST else " the grid, for good")
    return state_label(code, points)


# -- arguments -------------------------------------------------------------------------------------------------------------


def _check_grid(grid: Any) -> dict[str, FloatArray]:
    if not isinstance(grid, Mapping) or not grid:
        raise bad_type("grid", grid, "be a dict such as {'wealth': np.linspace(0, 10, 101)}")
    axes = {}
    for name, points in grid.items():
        found = np.atleast_1d(numbers(points, f"grid[{one_line(name)}]"))
        if name == "event" or not isinstance(name, str):
            raise bad_value("grid", name, "name coordinates by words other than 'event'")
        if found.ndim != 1 or found.size < 2 or np.any(np.diff(found) <= 0.0):
            raise bad_value(f"grid[{name!r}]", points, "be at least two increasing numbers")
        axes[name] = found
    return axes


def _check_signs(monotone: Any, axes: dict[str, FloatArray], laws: list[Cells]) -> tuple[FloatArray, float]:
    if not isinstance(monotone, Mapping):
        raise bad_type("monotone", monotone, "be a dict such as {'wealth': 1, 'price': -1}")
    for name, sign in monotone.items():
        if name not in axes and name != "event":
            raise bad_value("monotone", name, f"name coordinates of the grid ({', '.join(axes)}) or 'event'")
        if sign not in (1, -1):
            raise bad_value(f"monotone[{name!r}]", sign, "be 1 (more never hurts) or -1 (less never hurts)")
    if any(law.source is not None for law in laws) and "event" not in monotone:
        raise bad_value(
            "monotone",
            monotone,
            "state the sign of a continuous event",
            remedy="add 'event': 1 if more never hurts, else -1",
        )
    return np.array([float(monotone.get(name, 0)) for name in axes]), float(monotone.get("event", 1))


def _check_affine(names: Any, axes: dict[str, FloatArray], lipschitz: Any, per_stage: bool) -> BoolArray | None:
    if names is None:
        return None
    if isinstance(names, str) or not all(name in axes for name in names) or not names:
        raise bad_value("affine", names, f"be a list of coordinates of the grid ({', '.join(axes)})")
    if lipschitz is None or per_stage:
        raise bad_value("affine", names, "be given with lipschitz and with one law of events", remedy="omit it")
    return np.array([name in names for name in axes])


def _check_range(given: Any) -> tuple[float, float]:
    if given is None:
        return UNBOUNDED
    try:
        low, high = (float(x) for x in given)
    except (TypeError, ValueError):
        raise bad_type("reward_range", given, "be a pair of numbers (low, high)") from None
    if not low <= high:
        raise bad_value("reward_range", given, "be a pair of numbers (low, high) with low <= high")
    return low, high


def _check_start(start: Any, axes: dict[str, FloatArray]) -> dict[tuple[float, ...], float]:
    law = dict(start) if isinstance(start, Mapping) else {start if isinstance(start, tuple) else one_line(start): 1.0}
    found = {}
    for state, p in law.items():
        if not isinstance(state, tuple) or len(state) != len(axes):
            raise bad_value("start", start, f"be a tuple of {len(axes)} numbers ({', '.join(axes)})")
        at = tuple(number(x, "start", float(p[0]), float(p[-1])) for x, p in zip(state, axes.values(), strict=True))
        found[at] = number(p, "start", 0.0, 1.0)
    return found


def _first_codes(
    first: dict[tuple[float, ...], float], points: list[FloatArray], signs: FloatArray | None, side: str
) -> dict[tuple[int, ...], float]:
    codes = round_states(np.array(list(first)), points, signs, side)[0]
    law: dict[tuple[int, ...], float] = {}
    for code, p in zip(map(tuple, codes.tolist()), first.values(), strict=True):
        law[code] = law.get(code, 0.0) + p
    return law


def _lipschitz_bound(given: Any, event: Any, d: int, continuous: bool) -> Callable[..., Any]:
    """Return the function that bounds the distances of next states and rewards by those of states and events."""
    try:
        state, reward = (numbers(part, "lipschitz", 0.0) for part in given)
    except (TypeError, ValueError):
        raise bad_type(
            "lipschitz", given, "be a pair (state, reward) of constants, or of arrays (d, d) and (d,)"
        ) from None
    if state.shape not in ((), (d, d)) or reward.shape not in ((), (d,)):
        raise bad_value("lipschitz", given, f"be numbers, or have the shapes {(d, d)} and {(d,)}")
    if continuous and event is None:
        raise bad_value("event_lipschitz", None, "be given with a continuous event, e.g. (1.0, 0.0)")
    by_event = (0.0, 0.0) if event is None else tuple(numbers(part, "event_lipschitz", 0.0) for part in event)

    def bound(distance: FloatArray, apart: FloatArray) -> tuple[FloatArray, FloatArray]:
        largest = distance.max(axis=1)
        moved = np.outer(largest, np.full(d, float(state))) if state.ndim == 0 else distance @ state.T
        paid = largest * float(reward) if reward.ndim == 0 else distance @ reward
        return moved + apart[:, None] * np.asarray(by_event[0]), paid + apart * float(by_event[1])

    return bound
