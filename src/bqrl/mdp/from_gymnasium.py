"""Models of Gymnasium's toy-text environments, which expose their transition table."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics, TimeLimit

from bqrl.checks import bad_value, one_line
from bqrl.errors import ModelError
from bqrl.mdp.as_env import MDPEnv
from bqrl.mdp.columns import code_labels
from bqrl.mdp.model import MDP
from bqrl.mdp.stepping import make_environment
from bqrl.mdp.table import check_gaps
from bqrl.mdp.validation import check_horizon

HARMLESS = (OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics, TimeLimit)
DONE = "done"  # the absorbing state after an episode that ended early
Row = tuple[Any, Any, Any, float, float, bool]  # state, action, next state, probability, reward, ended


def from_gymnasium(env: Any, horizon: int | None = None, start: Any = None, discount: float = 1.0) -> MDP:
    """Return the model of an environment with a toy-text table `env.unwrapped.P` (FrozenLake, CliffWalking, Taxi, ...).

    Parameters
    ----------
    env
        An environment, an id for gymnasium.make, or a table {state: {action: [(probability, next state, reward, ended)]}}
        itself. States and actions of a table may be names, and `ended` may be left out.
    horizon
        Number of stages; default: the time limit of the environment. Required if there is none, e.g. for a table.
    start
        First state or law of the first state; default: that of the environment.
    discount
        Factor per stage, in (0, 1].

    Returns
    -------
    MDP
        If an episode ends early, the model moves to an absorbing state with reward 0: the terminal state itself if its
        row absorbs without reward, else an additional state named "done".

    Examples
    --------
    >>> from_gymnasium("FrozenLake-v1", horizon=20)
    MDP(H=20, S=16, A=4, start=0, 148 transitions, stationary)
    >>> table = {"low": {"wait": [(0.5, "low", 0), (0.5, "high", 1)]}, "high": {"stop": [(1, "high", 0)]}}
    >>> from_gymnasium(table, horizon=10, start="low")
    MDP(H=10, S=2, A=2, start=0, 3 transitions, stationary)
    """
    bare = isinstance(env, (Mapping, list))
    env = make_environment(env, "env") if isinstance(env, str) else env
    core, table = (None, env) if bare else _table_of(env)
    name = "a table" if bare else type(core).__name__
    horizon = chosen_horizon(env, horizon, name)
    rows, states, actions = _rows(table, name, named=bare), None, None
    if bare:
        rows, states, actions = _number_rows(rows, table)
    S = max(len(table), 1 + max((max(s, s_next) for s, _, s_next, *_ in rows), default=0))
    A = 1 + max(a for _, a, *_ in rows)
    check_gaps(1, S + 1, A, len(rows))
    leaving = {s for s, _, s_next, p, r, _ in rows if p > 0 and (s_next != s or r != 0)}
    acting = {s for s, *_ in rows}
    listed = [
        (s, a, S if ended and (s_next in leaving or s_next not in acting) else s_next, p, r)
        for s, a, s_next, p, r, ended in rows
    ]
    if any(s_next == S for _, _, s_next, _, _ in listed):
        listed += [(S, a, S, 1.0, 0.0) for a in range(A)]
        states = [*(states or map(str, range(S)))]
        states.append(next(end for end in (DONE, f"({DONE})") if end not in states))
    if start is None:
        start = getattr(core, "initial_state_distrib", getattr(core, "isd", None))  # older versions call it isd
        if start is None:
            raise bad_value("start", None, f"be given for {name}, which does not expose its first state")
    if np.shape(start) == (S,) and any(s == S for s, *_ in listed):
        start = np.append(start, 0.0)  # no episode starts in the added state
    return MDP(listed, start=start, horizon=horizon, discount=discount, state_names=states, action_names=actions)


def _table_of(env: Any) -> tuple[Any, Any]:
    """Return the environment below all wrappers, and its transition table."""
    layer = changing_wrapper(env)
    if layer is not None:
        got, remedy = f"the wrapper {type(layer).__name__}", "pass env.unwrapped for the environment below it"
        raise bad_value("env", env, "have no wrapper that may change states, actions or rewards", got, remedy=remedy)
    core = getattr(env, "unwrapped", env)
    name = type(core).__name__
    if isinstance(core, MDPEnv):
        raise bad_value("env", env, "not already play a model", name, remedy="read it from env.unwrapped.mdp")
    table = getattr(core, "P", None)
    if not isinstance(table, (Mapping, list)) or not len(table):
        rule = "have a transition table P, as FrozenLake, CliffWalking and Taxi do"
        raise bad_value("env", env, rule, name, remedy="build an MDP instead")
    if getattr(core, "fickle_passenger", False):
        got, remedy = f"{name} with fickle_passenger", "make it without that option"
        raise bad_value("env", env, "follow its table P", got, remedy=remedy)
    return core, table


def wrappers(env: Any) -> Iterator[Any]:
    """Yield the wrappers of an environment, outermost first."""
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env


def changing_wrapper(env: Any) -> Any:
    """Return the outermost wrapper that may change states, actions or rewards; None if there is none."""
    return next((layer for layer in wrappers(env) if type(layer) not in HARMLESS), None)


def time_limit(env: Any) -> int | None:
    """Return the least time limit of the wrappers, else that of the specification; None if there is none."""
    found = [layer._max_episode_steps for layer in wrappers(env) if isinstance(layer, TimeLimit)]
    spec = getattr(env, "spec", None)
    return min(found) if found else None if spec is None else spec.max_episode_steps


def chosen_horizon(env: Any, horizon: int | None, name: str) -> int:
    """Return the given number of stages, else the time limit of the environment; errors mention `name`."""
    chosen = time_limit(env) if horizon is None else horizon
    if chosen is None:
        remedy = "pass e.g. horizon=100, the number of steps to plan for"
        raise bad_value("horizon", None, f"be given for {name}, which has no time limit", remedy=remedy)
    return check_horizon(chosen)


def has_table(core: Any) -> bool:
    """Return whether the attribute P of an environment is a toy-text table."""
    table = getattr(core, "P", None)
    try:
        return isinstance(table, (Mapping, list)) and len(_rows(table)) > 0
    except ModelError:
        return False


def _rows(table: Any, name: str = "", *, named: bool = False) -> list[Row]:
    """Return the entries of a toy-text table; states and actions must be whole numbers unless `named`."""
    rows: list[Row] = []
    place: Any = table
    try:
        for s, actions in _entries(table):
            for a, outcomes in _entries(actions):
                for place in outcomes:
                    p, s_next, r, *ended = place
                    flags = [isinstance(part, (bool, np.bool_)) for part in (r, *ended)]
                    if flags in ([True], [True, False]) or len(ended) > 1 or not (ended or named):
                        raise TypeError  # `ended` stands in place of the reward, or before it
                    if ended and ended[0] not in (0, 1):  # the text "False" would be true
                        raise TypeError
                    ids = (s, a, s_next) if named else map(operator.index, (s, a, s_next))
                    rows.append((*ids, float(p), float(r), bool(ended and ended[0])))
        if not rows:
            raise ValueError
    except (TypeError, ValueError):
        rule = "must hold (probability, next state, reward, ended) per state and action"
        what, remedy = (name, "") if named else (f"the table P of {name}", "; pass P itself if its states have names")
        raise ModelError(f"{what} {rule}, got {one_line(place)}{remedy}", name="env") from None
    return rows


def _entries(given: Any) -> Iterable[tuple[Any, Any]]:
    return given.items() if isinstance(given, Mapping) else enumerate(given)


def _number_rows(rows: list[Row], table: Any) -> tuple[list[Row], list[str] | None, list[str] | None]:
    """Return the rows with states and actions as numbers, and their names, or None if the labels are numbers."""
    keys = [s for s, _ in _entries(table)]
    states, s_names = _number_labels([*keys, *(row[0] for row in rows), *(row[2] for row in rows)])
    actions, a_names = _number_labels([row[1] for row in rows])
    s, s_next = states[len(keys) : len(keys) + len(rows)], states[len(keys) + len(rows) :]
    numbered = [(i, a, j, *row[3:]) for i, a, j, row in zip(s, actions, s_next, rows, strict=True)]
    return cast(list[Row], numbered), s_names, a_names


def _number_labels(labels: list[Any]) -> tuple[list[int], list[str] | None]:
    """Return whole-number labels as numbers, without names; number other labels in order of appearance and return their names."""
    codes = code_labels(labels)
    if all(label.isascii() and label.isdecimal() for label in codes.labels):
        return [int(codes.labels[code]) for code in codes.code.tolist()], None
    return codes.code.tolist(), codes.labels
