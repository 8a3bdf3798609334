"""Models of Gymnasium's toy-text environments, which expose their transition table."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Mapping
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics, TimeLimit

from bqrl.checks import shown, wrong
from bqrl.errors import ModelError
from bqrl.mdp.build import check_horizon
from bqrl.mdp.gymnasium import MDPEnv
from bqrl.mdp.model import MDP

HARMLESS = (OrderEnforcing, PassiveEnvChecker, RecordEpisodeStatistics, TimeLimit)
DONE = "done"  # the absorbing state after an episode that ended early


def from_gymnasium(env: Any, horizon: int = 100, start: Any = None, discount: float = 1.0) -> MDP:
    """The model of an environment with a toy-text table `env.unwrapped.P` (FrozenLake, CliffWalking, Taxi, ...).

    Parameters
    ----------
    env
        An environment, or an id for gymnasium.make.
    horizon
        Number of stages; time limits of the environment are not read.
    start
        First state or law of the first state; default: that of the environment.
    discount
        Factor per stage, in (0, 1].

    Returns
    -------
    MDP
        If an episode ends early, the model moves to a state that absorbs and pays nothing: the terminal state itself if
        its row does so, else an additional state named "done".

    Examples
    --------
    >>> from_gymnasium("FrozenLake-v1", horizon=20)
    MDP(H=20, S=16, A=4, start=0, 148 transitions, stationary)
    """
    horizon = check_horizon(horizon)
    core, table = _table_of(env)
    name = type(core).__name__
    rows = _rows(table, name)
    S = max(len(table), 1 + max((max(s, s_next) for s, _, s_next, *_ in rows), default=0))
    leaving = {s for s, _, s_next, p, r, _ in rows if p > 0 and (s_next != s or r != 0)}
    acting = {s for s, *_ in rows}
    listed = [
        (s, a, S if ended and (s_next in leaving or s_next not in acting) else s_next, p, r)
        for s, a, s_next, p, r, ended in rows
    ]
    names = None
    if any(s_next == S for _, _, s_next, _, _ in listed):
        actions = 1 + max(a for _, a, *_ in rows)
        listed += [(S, a, S, 1.0, 0.0) for a in range(actions)]
        names = [*map(str, range(S)), DONE]
    if start is None:
        start = getattr(core, "initial_state_distrib", None)
        if start is None:
            raise wrong("start", None, f"be given for {name}, which does not expose its first state")
    if names is not None and np.shape(start) == (S,):
        start = np.append(start, 0.0)  # no episode starts in the added state
    return MDP(listed, start=start, horizon=horizon, discount=discount, state_names=names)


def _table_of(env: Any) -> tuple[Any, Any]:
    """The environment below all wrappers, and its transition table."""
    if isinstance(env, str):
        try:
            env = gym.make(env)
        except gym.error.Error as error:
            reason = " ".join(str(error).split())
            raise wrong("env", env, "be a known environment", f"{shown(env)} ({reason})") from None
    layer = changing_wrapper(env)
    if layer is not None:
        got, remedy = f"the wrapper {type(layer).__name__}", "pass env.unwrapped for the environment below it"
        raise wrong("env", env, "have no wrapper that may change states, actions or rewards", got, remedy=remedy)
    core = getattr(env, "unwrapped", env)
    name = type(core).__name__
    if isinstance(core, MDPEnv):
        raise wrong("env", env, "not play a model already", name, remedy="read it from env.unwrapped.mdp")
    table = getattr(core, "P", None)
    if not isinstance(table, (Mapping, list)) or not len(table):
        rule = "have a transition table P, as FrozenLake, CliffWalking and Taxi have"
        raise wrong("env", env, rule, name, remedy="build an MDP instead")
    if getattr(core, "fickle_passenger", False):
        got, remedy = f"{name} with fickle_passenger", "make it without that option"
        raise wrong("env", env, "follow its table P", got, remedy=remedy)
    return core, table


def wrappers(env: Any) -> Iterator[Any]:
    """Yield the wrappers of an environment, outermost first."""
    while isinstance(env, gym.Wrapper):
        yield env
        env = env.env


def changing_wrapper(env: Any) -> Any:
    """The outermost wrapper that may change states, actions or rewards; None if there is none."""
    return next((layer for layer in wrappers(env) if type(layer) not in HARMLESS), None)


def has_table(core: Any) -> bool:
    """Return whether an environment has a toy-text table; its attribute P may be anything else."""
    table = getattr(core, "P", None)
    try:
        return isinstance(table, (Mapping, list)) and len(_rows(table, "")) > 0
    except ModelError:
        return False


def _rows(table: Any, name: str) -> list[tuple[int, int, int, float, float, bool]]:
    """Entries (s, a, s_next, probability, reward, ended) of a toy-text table."""

    def entries(given: Any) -> Any:
        return given.items() if isinstance(given, Mapping) else enumerate(given)

    try:
        return [
            (operator.index(s), operator.index(a), operator.index(s_next), float(p), float(r), bool(ended))
            for s, actions in entries(table)
            for a, outcomes in entries(actions)
            for p, s_next, r, ended in outcomes
        ]
    except (TypeError, ValueError):
        rule = "hold (probability, next state, reward, ended) per state and action"
        raise ModelError(f"the table P of {name} must {rule}, got other entries", name="env") from None
