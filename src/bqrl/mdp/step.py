"""A model from a step function: `step(state, action, event) -> (next_state, reward)` and the law of the event.

A third value of the function, a dict of numbers, holds further outcomes such as costs.

The search follows `step` from the start through every action and event, stage by stage up to the horizon. The model keeps
the events as its shared noise (see `bqrl.mdp.noise`), so that learners can estimate one law from all
transitions instead of one law per row.
"""

from __future__ import annotations

import math
import pickle
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, overload

import numpy as np

from bqrl.checks import bad_type, bad_value, flag, number, one_line, whole
from bqrl.display import in_words
from bqrl.errors import ModelError, SizeError
from bqrl.loops.tolerance import SUM_TOL
from bqrl.mdp.grid_build import build_grid_model
from bqrl.mdp.grid_step import GridModel
from bqrl.mdp.model import MDP
from bqrl.mdp.noise import event_laws, shared_noise
from bqrl.mdp.search import REPEATED, TABLE_SECONDS, Progress, Scout, StateSearch, Walks
from bqrl.mdp.step_arrays import CHECK_EVERY, SearchResult, fault_text, follow_arrays, outcome_names, step_error
from bqrl.mdp.table import from_columns
from bqrl.mdp.unstored import StepModel, check_undiscounted
from bqrl.mdp.validation import check_horizon, distinct_names

MAX_STATES = 1_000_000
MAX_TRANSITIONS = 100_000_000  # about 16 GiB while the model is built
FIRST_CHECKED = 2_000  # so many calls of step are repeated to check that it is deterministic, then every CHECK_EVERY-th
WALK_CALLS = 20_000  # calls of step by all walks
IMMUTABLE = (int, float, complex, str, bytes, bool, type(None), np.generic)


@overload
def from_step(
    step: Callable[..., Any], actions: Any, noise: Any, horizon: int, start: Any, *, grid: None = None,
    stored: Literal[True] = ..., **options: Any,
) -> MDP: ...  # fmt: skip
@overload
def from_step(
    step: Callable[..., Any], actions: Any, noise: Any, horizon: int, start: Any, *, stored: Literal[False], **options: Any
) -> StepModel: ...  # fmt: skip
@overload
def from_step(
    step: Callable[..., Any], actions: Any, noise: Any, horizon: int, start: Any, *, grid: Mapping[str, Any], **options: Any
) -> GridModel: ...  # fmt: skip
def from_step(  # type: ignore[misc]  # the overloads abbreviate the other arguments
    step: Callable[..., Any],
    actions: Any,
    noise: Any,
    horizon: int,
    start: Any,
    *,
    grid: Mapping[str, Any] | None = None,
    monotone: Mapping[str, int] | None = None,
    lipschitz: tuple[Any, Any] | None = None,
    event_lipschitz: tuple[Any, Any] | None = None,
    affine: Iterable[str] | None = None,
    reward_range: tuple[float, float] | None = None,
    cells: int = 64,
    invert: Callable[..., Any] | None = None,
    discount: float = 1.0,
    mass: float | None = None,
    events_observed: bool = True,
    vectorized: bool = False,
    available: Callable[..., Any] | None = None,
    state_name: Callable[[Any], str] = str,
    action_name: Callable[[Any], str] = str,
    max_states: int = MAX_STATES,
    max_transitions: int = MAX_TRANSITIONS,
    terminal: Any = None,
    units: str | None = None,
    words: Mapping[str, str] | None = None,
    stored: bool = True,
) -> MDP | GridModel | StepModel:
    """Return the model of a step function with random events.

    Parameters
    ----------
    step : function
        `step(state, action, event) -> (next_state, reward)`, deterministic. With `vectorized=True` the three arguments
        are read-only arrays of equal length, and so are the two results. A third value, a dict such as {"cost": 3.0}
        with the same names in every call, holds further outcomes; see `MDP`.
    actions : list or function
        The actions, or a function of the state that returns its actions.
    noise : dict, Counter, Series, SciPy distribution, list of records, or list of these
        The law of the event: {event: probability}; a Counter {event: times seen}; a pandas Series of records, or one of
        probabilities or counts by event, as `value_counts` returns it; a frozen discrete distribution; or a list of
        recorded events, each of which has the same weight, such as [3, 5, 3, 4]. A list of laws has one per stage.
        Learners regard events of probability 0 as possible.
    horizon : int
        Number of stages.
    start : state or dict
        The first state, or {state: probability}.
    grid : dict, optional
        For continuous states: the grid points of every coordinate, e.g. {"wealth": np.linspace(0, 10, 101)}. States are then
        tuples in this order, `noise` may be a continuous distribution, and the result is a `GridModel`, whose plans are proven
        brackets. It needs `monotone` or `lipschitz`; `bqrl.mdp.grid_step` has the proofs.
    monotone : dict, optional
        The order: 1 if more of a coordinate never hurts, -1 if less never hurts, also for a continuous "event". Next state,
        reward and available actions must be monotone, which sampled pairs check. A coordinate without a sign must stay on its
        grid points.
    lipschitz : tuple, optional
        If there is no order: by how much the next state and the reward change at most per unit of the state (largest coordinate),
        as numbers, or as arrays (d, d) and (d,) per coordinate. The policy then needs the events: `policy.next(..., event=)`.
    event_lipschitz : tuple, optional
        The same two constants per unit of a continuous event.
    affine : list of str, optional
        With `lipschitz`: coordinates in which next state and reward are affine, for every action and event, as they are in a
        continuous event; other coordinates must stay on their grid points and not depend on these. `Mean()`, `CVaR(tau)` and
        `MeanCVaR` then have brackets whose width falls with the square of the spacing; others need a model without `affine`.
    reward_range : tuple, optional
        Bounds on every reward, in every state. Without them a run that leaves the grid misses (reaches) every target.
    cells : int
        Number of cells of a continuous event.
    invert : function, optional
        `invert(state, action, next_state)` returns the event, for environments that do not report it.
    discount : float
        Discount per stage.
    mass : float, optional
        Cuts a SciPy distribution to the events that carry this probability and rescales them to sum to 1; required if
        it has infinitely many events. `mdp.noise.cut` holds the mass that was cut off.
    events_observed : bool
        Whether learners observe the event of each transition. If False they observe next state and reward only.
    vectorized : bool
        For large problems: states are whole numbers or rows of whole numbers, actions and events are numbers.
    available : function, optional
        With `vectorized=True`: `available(states, actions)` says which pairs exist, as a boolean array.
    state_name, action_name : functions
        The name of a state and of an action in the model.
    max_states, max_transitions : int
        Raise SizeError beyond these numbers of states and of transitions, one per state, action and event. A search stops as
        soon as the states found have more.
    terminal : dict or function, optional
        Value of the state in which an episode ends: {state: value}, where others have 0, or a function of the state
        (with `vectorized=True` of the array of states); see `MDP`.
    units : str, optional
        Unit of the rewards, for display.
    words : dict, optional
        What users call things, e.g. {"run": "season", "stage": "week"}; see `MDP`.
    stored : bool
        With `vectorized=True` and one law of events: False keeps no table of transitions and calls `step` again whenever they
        are needed, for models of up to about 10**7 states; `max_states` is the only limit then. Requires rewards on a lattice
        and no discount.

    Returns
    -------
    MDP, GridModel with `grid`, or StepModel with stored=False
        The model. `mdp.state_values[s]` and `mdp.noise.actions[a]` are the objects that `step` receives (rows of an
        array as tuples); states are in increasing order if they can be sorted, else in the order in which they were found.

    Examples
    --------
    >>> def step(stock, order, demand):
    ...     sold = min(stock + order, demand)
    ...     return stock + order - sold, 5 * sold - 2 * order
    >>> from_step(step, lambda stock: range(4 - stock), {0: 0.2, 1: 0.5, 2: 0.3}, horizon=8, start=0)
    MDP(H=8, S=4, A=4, start=0, 26 transitions, stationary)
    """
    if not callable(step):
        raise bad_type("step", step, "be a function (state, action, event)")
    for name, given in (("state_name", state_name), ("action_name", action_name)):
        if not callable(given):
            raise bad_type(name, given, "be a function that returns a name")
    vectorized, events_observed = flag(vectorized, "vectorized"), flag(events_observed, "events_observed")
    if grid is not None:
        for name, extra in (("terminal", terminal), ("units", units), ("words", words)):
            if extra is not None:
                raise bad_value(
                    name, extra, "not be given with grid", remedy="pay terminal values as rewards of the last stage"
                )
        return build_grid_model(
            from_step, step, actions, noise, horizon, start, grid=grid, monotone=monotone, lipschitz=lipschitz, cells=cells,
            event_lipschitz=event_lipschitz, affine=affine, reward_range=reward_range, invert=invert, discount=discount,
            mass=mass, vectorized=vectorized, available=available, action_name=action_name, max_states=max_states,
            max_transitions=max_transitions,
        )  # fmt: skip
    for name, extra in (
        ("monotone", monotone),
        ("lipschitz", lipschitz),
        ("affine", affine),
        ("reward_range", reward_range),
    ):
        if extra is not None:
            raise bad_value(name, extra, "be given with grid only", remedy="omit it")
    H = check_horizon(horizon)
    laws, per_stage = event_laws(noise, H, mass)
    limit, most = whole(max_states, "max_states", 1), whole(max_transitions, "max_transitions", 1)
    with Progress("following the step function") as progress:
        search = StateSearch(
            laws=laws, per_stage=per_stage, H=H, first=_first_states(start), limit=limit, max_transitions=most,
            progress=progress,
        )  # fmt: skip
        if not flag(stored, "stored"):
            if not vectorized:
                raise bad_value(
                    "stored", stored, "be True without vectorized=True", remedy="vectorise the step function"
                )
            check_undiscounted(discount)
            for name, value in (("terminal", terminal), ("words", words)):
                if value is not None:
                    raise bad_value(name, value, "be omitted if stored=False")
            return StepModel(step, actions, available, search, units)
        if vectorized:
            found = follow_arrays(step, actions, available, search)
        else:
            if available is not None:
                remedy = "give actions as a function of the state instead"
                raise bad_value(
                    "available", available, "be given with vectorized=True only", "vectorized=False", remedy=remedy
                )
            found = _follow(step, actions, search)
        progress.say(
            f"building a table of {found.s.size:,} transitions, about {in_words(TABLE_SECONDS * found.s.size)}"
        )
        return _model(
            found, search, events_observed, discount=discount, state_names=distinct_names(found.values, state_name),
            action_names=distinct_names(found.actions, action_name), state_values=found.values,
            terminal=_terminal(terminal, found, vectorized), units=units, words=words,
        )  # fmt: skip


# -- arguments ---------------------------------------------------------------------------------------------------------


def _first_states(start: Any) -> dict[Any, float]:
    if not isinstance(start, Mapping):
        return {_check_hashable(start, "start"): 1.0}
    if not start:
        raise bad_value("start", start, "name at least one state", "{}")
    law = {_check_hashable(s, "start"): number(p, f"start[{one_line(s)}]", 0.0, 1.0) for s, p in start.items()}
    if abs(math.fsum(law.values()) - 1.0) > SUM_TOL:
        raise bad_value("start", start, "sum to 1", f"{math.fsum(law.values()):.12g}")
    return law


def _terminal(given: Any, found: SearchResult, vectorized: bool) -> Any:
    """Return the terminal value of every state, by index."""
    if callable(given):
        try:
            return np.asarray(given(found.states) if vectorized else [given(state) for state in found.values])
        except Exception as fault:
            raise ModelError(
                f"terminal must return the value of a state, got {fault_text(fault)}", name="terminal"
            ) from fault
    if not isinstance(given, Mapping | None):
        raise bad_type("terminal", given, "be {state: value} or a function of the state")
    states = {state: i for i, state in enumerate(found.values)}
    for state in given or ():
        if state not in states:
            remedy = "give it as the step function does"
            raise bad_value("terminal", state, "name states that the step function reaches", remedy=remedy)
    return None if given is None else {states[state]: value for state, value in given.items()}


def _check_hashable(value: Any, where: str) -> Any:
    """Return the value if it is hashable; raise ArgumentTypeError otherwise."""
    try:
        hash(value)
    except TypeError:
        remedy = "use a tuple instead of a list or an array"
        raise bad_type(where, value, "be hashable", remedy=remedy) from None
    return value


# -- following the function ------------------------------------------------------------------------------------------


class _Stepper:
    """Calls the step function and checks what it returns."""

    def __init__(self, step: Callable[..., Any]) -> None:
        self.step, self.calls = step, 0
        self.names: tuple[str, ...] | None = None  # of the further outcomes, from the first call

    def __call__(self, state: Any, action: Any, event: Any) -> tuple[Any, float, tuple[float, ...]]:
        self.calls += 1
        if self.calls <= FIRST_CHECKED or self.calls % CHECK_EVERY == 0:
            return self._ask_twice(state, action, event)
        return self._ask(state, action, event)

    def _ask(self, state: Any, action: Any, event: Any) -> tuple[Any, float, tuple[float, ...]]:
        try:
            result = self.step(state, action, event)
        except Exception as fault:
            raise step_error(
                _call_text(state, action, event), "return (next_state, reward)", fault_text(fault)
            ) from fault
        if not isinstance(result, tuple) or len(result) not in (2, 3):
            raise step_error(_call_text(state, action, event), "return (next_state, reward)", one_line(result))
        s_next, reward, further = result if len(result) == 3 else (*result, {})
        names = outcome_names(further, self.names, lambda: _call_text(state, action, event))
        if self.names is None:
            self.names = names
        numbers = [_number(x) for x in (reward, *(further[name] for name in names))]
        if not all(map(math.isfinite, numbers)):
            i = list(map(math.isfinite, numbers)).index(False)
            what, got = ("reward", reward) if i == 0 else (f"outcome {names[i - 1]!r}", further[names[i - 1]])
            raise step_error(_call_text(state, action, event), f"return a finite {what}", one_line(got))
        try:
            hash(s_next)
        except TypeError:
            _check_hashable(s_next, f"the next state of {_call_text(state, action, event)}")
        if s_next != s_next:  # NaN never equals itself, so it would be a new state each time
            raise step_error(
                _call_text(state, action, event), "return a next state that equals itself", one_line(s_next)
            )
        return s_next, numbers[0], tuple(numbers[1:])

    def _ask_twice(self, state: Any, action: Any, event: Any) -> tuple[Any, float, tuple[float, ...]]:
        before, call = _fingerprint(state), _call_text(state, action, event)
        result, again = self._ask(state, action, event), self._ask(state, action, event)
        if _fingerprint(state) != before:
            raise step_error(call, "leave its state unchanged", "a changed one; return a new state")
        if result != again:
            remedy = "move random draws into noise, and compare states by value"
            first, second = (one_line(found if found[2] else found[:2]) for found in (result, again))
            raise step_error(call, "be deterministic", f"{first}, then {second}; {remedy}")
        return result


def _number(given: Any) -> float:
    """Return a number of the step function as a float; NaN if it is none."""
    try:
        return float(given) + 0.0  # turns -0.0 into 0.0
    except (TypeError, ValueError, OverflowError):
        return math.nan


def _call_text(state: Any, action: Any, event: Any) -> str:
    return f"step({one_line(state)}, {one_line(action)}, {one_line(event)})"


def _fingerprint(state: Any) -> Any:
    """Return a value that changes if a mutable state is modified."""
    if isinstance(state, IMMUTABLE) or (isinstance(state, tuple) and all(isinstance(x, IMMUTABLE) for x in state)):
        return None
    try:
        return pickle.dumps(state)
    except Exception:  # a foreign object may raise anything
        return repr(state)


def _follow(step: Callable[..., Any], actions: Any, search: StateSearch) -> SearchResult:
    """Return every reachable state and every transition from it."""
    per_stage, first, limit = search.per_stage, search.first, search.limit
    ask, allowed = _Stepper(step), _actions(actions)
    states: dict[Any, int] = dict.fromkeys(first, 0)
    acts: dict[Any, int] = {} if callable(actions) else {a: i for i, a in enumerate(allowed(None))}
    listed: list[tuple[Any, ...]] = []  # stage, state, action, next state, reward, further outcomes
    level = list(first)
    scout = Scout(search, lambda: _walk(ask, allowed, search))
    for h in range(search.H):
        law = search.laws[h if per_stage else 0]
        after: dict[Any, None] = {}
        search.check_transitions(len(listed) + sum(len(allowed(s)) for s in level) * len(law.events), h)
        for s in level:
            for a in allowed(s):
                acts.setdefault(a, len(acts))
                for event in law.events:
                    s_next, reward, further = ask(s, a, event)
                    listed.append((h if per_stage else 0, s, a, s_next, reward, further))
                    if s_next not in states:
                        states[s_next] = 0
                        if len(states) > limit:
                            raise SizeError(
                                f"step must reach at most max_states={limit} states, got more by stage {h + 1}, e.g."
                                f" {one_line(s_next)}; bound the state, e.g. by min and max, or raise max_states",
                                needed=len(states), limit=limit, name="max_states",
                            )  # fmt: skip
                        after[s_next] = None
                    elif per_stage:
                        after[s_next] = None
            scout.report(len(states), len(listed), h)
        level = list(after)
        if not level:
            break
    order = _sort(states)
    number_of = {s: i for i, s in enumerate(order)}
    act_order = _sort(acts) if callable(actions) else list(acts)
    act_number = {a: i for i, a in enumerate(act_order)}
    columns = list(zip(*listed, strict=True))
    mu = np.zeros(len(order))
    mu[[number_of[state] for state in first]] = list(first.values())
    return SearchResult(
        states=tuple(order), actions=tuple(act_order), stage=np.array(columns[0]),
        s=np.array([number_of[state] for state in columns[1]]), a=np.array([act_number[action] for action in columns[2]]),
        s_next=np.array([number_of[state] for state in columns[3]]), reward=np.array(columns[4], np.float64),
        further=dict(zip(ask.names or (), np.array(columns[5], np.float64).T, strict=True)), mu=mu,
    )  # fmt: skip


def _walk(ask: _Stepper, allowed: Callable[[Any], list[Any]], search: StateSearch) -> Walks:
    """Return what walks of the step function meet; see search.py."""
    draw, first = random.Random(0), list(search.first)
    met, rewards = dict[Any, int](), set[float]()
    for _ in range(max(1, WALK_CALLS // search.H)):
        s, own = draw.choice(first), (draw.random(), draw.random())
        for h in range(search.H):
            acts, events = allowed(s), search.laws[h if search.per_stage else 0].events
            met[s] = len(acts)
            u = own if draw.random() < REPEATED else (draw.random(), draw.random())
            s, reward, _ = ask(s, acts[int(u[0] * len(acts))], events[int(u[1] * len(events))])
            rewards.add(reward)
    rows = all(isinstance(s, tuple) for s in met) and len({len(s) for s in met}) == 1
    return Walks(list(zip(*met, strict=True)) if rows else [list(met)], sum(met.values()), np.array(sorted(rewards)))


def _actions(actions: Any) -> Callable[[Any], list[Any]]:
    """Return a function that returns the checked actions of a state."""

    def check(given: Any, where: str) -> list[Any]:
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise bad_type("actions", given, "be a list", f"{one_line(given)}{where}")
        listed = list(given)
        if not listed:
            raise bad_value(
                "actions", given, "not be empty", f"none{where}", remedy="give one, e.g. one that does nothing"
            )
        for action in listed:
            _check_hashable(action, f"actions{where}")
        if len(set(listed)) < len(listed):
            raise bad_value("actions", given, "be distinct", f"{one_line(listed)}{where}")
        return listed

    if not callable(actions):
        fixed = check(actions, "")
        return lambda state: fixed
    cache: dict[Any, list[Any]] = {}

    def of_state(state: Any) -> list[Any]:
        if state not in cache:
            try:
                given = actions(state)
            except Exception as fault:
                message = f"actions({one_line(state)}) must return a list, got {fault_text(fault)}"
                raise ModelError(message, name="actions") from fault
            cache[state] = check(given, f" in state {one_line(state)}")
        return cache[state]

    return of_state


def _sort(values: Iterable[Any]) -> list[Any]:
    """Return the values in increasing order if they have one type and can be compared, else in the given order."""
    listed = list(values)
    try:
        return sorted(listed) if len({type(value) for value in listed}) == 1 else listed
    except TypeError:
        return listed


# -- the model ---------------------------------------------------------------------------------------------------------


def _model(found: SearchResult, search: StateSearch, events_observed: bool, **optional: Any) -> MDP:
    """Return the model: equal outcomes of a row are merged, and the events become shared noise."""
    laws, per_stage, H = search.laws, search.per_stage, search.H
    S, A = len(found.states), len(found.actions)
    row = (found.stage * S + found.s) * A + found.a
    # the pairs of a row follow each other, in the order of the events
    begin = np.flatnonzero(np.r_[True, row[1:] != row[:-1]])
    event = np.arange(row.size) - np.repeat(begin, np.diff(np.r_[begin, row.size]))
    first_event = np.cumsum([0, *(len(law.events) for law in laws)])
    p = np.concatenate([law.probabilities for law in laws])[first_event[found.stage] + event]
    table, _ = from_columns(
        found.stage, found.s, found.a, found.s_next, p, found.reward, H, staged=per_stage, S=S, A=A, keep_zeros=True,
        further={name: values[None] for name, values in found.further.items()},
    )  # fmt: skip
    noise = shared_noise(
        table, row, table.line_outcome, found.stage, event, events=tuple(law.events for law in laws),
        probabilities=tuple(law.probabilities for law in laws), events_observed=events_observed,
        cut=tuple(law.cut for law in laws), states=found.states, actions=found.actions,
    )  # fmt: skip
    table.probability = noise.image(noise.probabilities)
    return MDP.from_table(table, H, found.mu, noise=noise, **optional)
