"""Finite models that bracket a problem with continuous states; made by `from_step` with `grid=`.

**With an order** (`monotone`). Let s' = f(s, a, e) and r = g(s, a, e). Orient every coordinate so that more never hurts: f and g
do not decrease in s, and the actions of s also exist above s. A coordinate without a sign must stay on its grid points (a finite
chain); two states are compared only if they agree in it. Let floor(s) round every coordinate to the grid towards the worse
side, and let "lost" lie below every state.

  Lower model: x' = floor(f(x, a, e)), reward g(x, a, e), "lost" if x' leaves the grid on the worse side. Let W be its smallest
  probability of ending short of a need n, and a(x, n) the action that attains it.
  (1) W falls with x and rises with n: by induction, the best action of x also exists in u >= x, and leads there to a state that
      is at least as good with a need that is at most as large. "lost" never reaches a need, so it is below all others.
  (2) The policy a(floor(s), n), with the true need n, ends short with probability at most W(floor(s), n) in the continuous
      problem: its action exists in s; floor(f(s, a, e)) >= floor(f(floor(s), a, e)) and n - g(s, a, e) <= n - g(floor(s), a, e);
      then the induction hypothesis and (1).
  Upper model: the same with ceil. For every policy of the continuous problem the probability of ending short is at least
  W_up(ceil(s), n): its action at s also exists in ceil(s), and the inequalities turn round. Leaving the grid on the better side
  leads to "won", which reaches every need.

(1) and (2) use only that the cost at the end rises with the need, so they hold for means and for CVaR as well. They do not say
that the law of the return of the policy is better than its law in the lower model: only its cost at its own target is. The
lower model must contain every grid point, because floor(s) need not be a state that the lower model itself can reach.

Rewards outside the grid. Without `reward_range` "lost" is a miss at every target and "won" reaches every target; quantiles and
chances are then still proven, means are not. With `reward_range=(low, high)`, which must hold in every state, "lost" pays
`low` per stage: the order in (1) needs a bound per reward, not a bound on the return of the states outside.

Returns without a lattice. The needs of the lower model use rewards that are rounded down, which keeps g monotone.

Continuous events are cut into cells (`bqrl.mdp.cells`). The lower model takes the worse end of a cell and the upper model the
better end; both are proven if f and g are monotone in the event, too. An infinite end leads to "lost" or "won".

**Without an order** (`lipschitz`). If |f(s, a, e) - f(u, a, e')| <= L |s - u| + L_e |e - e'|, and g has the constants K, K_e, the
policy follows the chain of rounded states that the real events drive. The distance from the true state is at most
d_0 = |start - its grid point|, d_{h+1} = L d_h + L_e c + rho, with c half a noise cell and rho the largest rounding error of a
step, so the returns of the two differ by at most eps = sum over h of discount^h (K d_h + K_e c), event by event. Hence the
optimum lies within eps of the optimum of the chain, and the policy attains the lower end. (The term K_e c is needed wherever the
reward depends on a continuous event.) All states must have the same actions, and the policy must learn the events. A run of the
chain that leaves the grid is lost in the lower and won in the upper model.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, number, numbers, one_line, whole
from bqrl.errors import ModelError, SizeError
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.cells import Cells, cells_of
from bqrl.mdp.model import MDP
from bqrl.mdp.step_function import StepFunction, check_lipschitz, check_monotone, make_step
from bqrl.mdp.table import Table
from bqrl.mdp.validation import check_discount, check_horizon

LOST, GONE = -1, -2  # codes of the state that has left the grid, and of the state after its payment
SNAP = 1e-9  # a value this close to a grid point, relative to the spacing, is that point
UNBOUNDED = (-math.inf, math.inf)


class EveryState(MDP):
    """A model whose grids of returns cover every state, because the policy may meet states that the model cannot reach."""

    __slots__ = ()

    @classmethod
    def of(cls, mdp: MDP) -> EveryState:
        """Return the same model as one of this kind."""
        twin = cls.__new__(cls)
        twin._store(**mdp.__getstate__())
        return twin

    @property
    def reachable(self) -> BoolArray:
        """Every state counts as reachable at every stage, shape (H + 1, S)."""
        return np.ones((self.H + 1, self.S), bool)


@dataclass(frozen=True, eq=False, kw_only=True)
class GridModel:
    """A problem with continuous states between two finite models; made by `from_step` with `grid=`.

    `solve`, `guarantee_curve` and `simulate` accept it. A policy of its plans acts on continuous states: tuples in the order of
    `grid`; `actions[a]` is the action of index a.

    Attributes
    ----------
    lower, upper : MDP
        The finite models. With `lipschitz` they are one model, unless a state can leave the grid.
    grid : dict
        The grid points of every coordinate.
    error : ndarray of shape (H,)
        With `lipschitz`: by how much the discounted reward of each stage may differ from that of the chain; else 0.
    actions : tuple
        The actions as `step` receives them.

    Examples
    --------
    >>> import bqrl, numpy as np
    >>> def step(state, action, event):
    ...     (wealth,) = state
    ...     return (wealth * (1.0 + action * event),), 0.1 * wealth
    >>> grid = {"wealth": np.linspace(0.0, 4.0, 81)}
    >>> model = bqrl.from_step(step, [0.0, 0.5], {-0.3: 0.4, 0.4: 0.6}, 4, (1.0,), grid=grid, monotone={"wealth": 1})
    >>> model
    GridModel(81 grid points of wealth, H=4, monotone)
    """

    lower: MDP
    upper: MDP
    grid: dict[str, FloatArray]
    error: FloatArray
    function: StepFunction
    laws: list[Cells]
    H: int
    start: dict[tuple[float, ...], float]
    discount: float
    signs: FloatArray | None  # (d,) +1, -1, or 0 for a finite chain; None with `lipschitz`
    infinite: tuple[bool, bool]  # whether a miss (a win) outside the grid has no finite reward in the models
    ends: tuple[float, float]  # the returns of runs that stay on the grid lie between these
    invert: Callable[..., Any] | None = None
    build: Callable[..., GridModel]  # builds the same problem on another grid

    @property
    def actions(self) -> tuple[Any, ...]:
        """The actions as `step` receives them."""
        return self.function.actions

    @property
    def points(self) -> int:
        """Number of grid points."""
        return math.prod(points.size for points in self.grid.values())

    @cached_property
    def planned(self) -> MDP:
        """The lower model for planners: with `monotone` its grids of returns cover every grid point."""
        return self.lower if self.signs is None else EveryState.of(self.lower)

    @property
    def total_error(self) -> float:
        """By how much the return may differ from that of the chain of rounded states; 0 with `monotone`."""
        return float(self.error.sum())

    def law(self, h: int) -> Cells:
        """Return the law of the event of stage `h`."""
        return self.laws[h if len(self.laws) > 1 else 0]

    @cached_property
    def _lookup(self) -> IntArray:
        """State of the lower model at every grid point, -1 if it has none."""
        table = np.full([points.size for points in self.grid.values()], -1)
        codes = np.array([code for code in self.lower.state_values or () if code[0] >= 0])
        at = [s for s, code in enumerate(self.lower.state_values or ()) if code[0] >= 0]
        table[tuple(codes.T)] = at
        return table

    def locate(self, states: Any) -> IntArray:
        """Return the states of the lower model for continuous states (n, d); -1 outside the grid."""
        given = np.asarray(states, float).reshape(-1, len(self.grid))
        side = "nearest" if self.signs is None else "down"
        codes, out, _ = round_states(given, list(self.grid.values()), self.signs, side)
        return np.where(out, -1, self._lookup[tuple(np.where(out[:, None], 0, codes).T)])

    def refined(self) -> GridModel:
        """Return the model on a grid with half the spacing, and with twice as many noise cells."""
        halved = {}
        for j, (name, points) in enumerate(self.grid.items()):
            fixed = self.signs is not None and self.signs[j] == 0
            halved[name] = points if fixed else np.union1d(points, (points[1:] + points[:-1]) / 2.0)
        return self.build(halved, 2)

    def __repr__(self) -> str:
        sizes = " x ".join(str(points.size) for points in self.grid.values())
        kind = "monotone" if self.signs is not None else f"lipschitz, error {self.total_error:.3g}"
        return f"GridModel({sizes} grid points of {', '.join(self.grid)}, H={self.H}, {kind})"


def round_states(
    states: FloatArray, points: list[FloatArray], signs: FloatArray | None, side: str
) -> tuple[IntArray, BoolArray, FloatArray]:
    """Return grid indices (n, d), which states leave the grid on that side (n,), and the distances moved (n, d).

    `side` is "down" (towards the worse), "up" or "nearest". A coordinate of sign 0 must lie on a grid point.
    """
    codes, out = np.empty(states.shape, np.int64), np.zeros(len(states), bool)
    for j, p in enumerate(points):
        v, sign = states[:, j], 1.0 if signs is None else float(signs[j])
        right = np.clip(np.searchsorted(p, v), 1, p.size - 1)
        near = np.where(v - p[right - 1] <= p[right] - v, right - 1, right)
        snapped = np.abs(v - p[near]) <= SNAP * (p[right] - p[right - 1])
        if side == "nearest" or sign == 0.0:
            out |= (v < p[0] - (p[1] - p[0]) / 2.0) | (v > p[-1] + (p[-1] - p[-2]) / 2.0)
            if sign == 0.0 and not snapped.all():
                raise _not_on_grid(states[int((~snapped).argmax())], j)
            codes[:, j] = near
        elif (side == "down") == (sign > 0.0):
            codes[:, j] = np.where(snapped, near, np.searchsorted(p, v, side="right") - 1)
            out |= codes[:, j] < 0
        else:
            codes[:, j] = np.where(snapped, near, np.searchsorted(p, v))
            out |= codes[:, j] >= p.size
    inside = np.stack([p[np.clip(codes[:, j], 0, p.size - 1)] for j, p in enumerate(points)], axis=1)
    return codes, out, np.abs(inside - states)


def _not_on_grid(state: FloatArray, j: int) -> ModelError:
    return ModelError(
        f"a coordinate without a sign in monotone must stay on its grid points, got {state[j]:.6g} in coordinate {j + 1}; give "
        "it a sign, add the point to the grid or use lipschitz", name="grid",
    )  # fmt: skip


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
        after, reward = (
            np.full(codes.shape, LOST if bounded else GONE),
            np.full(a.shape, self.outside if bounded else 0.0),
        )
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
    lipschitz: Any, event_lipschitz: Any, reward_range: Any, cells: int, invert: Any, discount: float, mass: float | None,
    vectorized: bool, available: Any, action_name: Callable[[Any], str], max_states: int, max_transitions: int,
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
    bound = None
    if signs is not None:
        for law in laws:
            check_monotone(function, points, law, signs, event_sign)
    else:
        bound = _lipschitz_bound(lipschitz, event_lipschitz, d, any(law.source is not None for law in laws))
        for law in laws:
            check_lipschitz(function, points, law, bound)
    if invert is not None and not callable(invert):
        raise bad_type("invert", invert, "be a function (state, action, next_state) that returns the event")

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

    def again(finer: dict[str, FloatArray], factor: int) -> GridModel:
        return build_grid_model(
            finite, step, actions, noise, horizon, start, grid=finer, monotone=monotone, lipschitz=lipschitz,
            event_lipschitz=event_lipschitz, reward_range=reward_range, cells=cells * factor, invert=invert, discount=discount,
            mass=mass, vectorized=vectorized, available=available, action_name=action_name, max_states=max_states,
            max_transitions=max_transitions,
        )  # fmt: skip

    return GridModel(
        lower=lower, upper=upper, grid=axes, function=function, laws=laws, H=H,
        error=np.zeros(H) if bound is None else _errors(bound, first, points, laws, np.maximum(down.moved, up.moved), H, gamma),
        start=first, discount=gamma, signs=signs, infinite=(misses, wins), ends=(down.paid[0] * worth, up.paid[1] * worth),
        invert=invert, build=again,
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
    return f"({', '.join(f'{p[i]:.6g}' for p, i in zip(points, code, strict=True))})"


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
