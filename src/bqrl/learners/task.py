"""From a problem to a task: what the learner knows, where episodes are played, and what scores policies.

An MDP is all of these. There are three kinds of Gymnasium environment:

- `MDPEnv`: its MDP is the problem.
- An environment with a transition table (FrozenLake, CliffWalking, Taxi, ...): episodes are played in the environment itself,
  the table is the MDP that scores the policies, and the learner knows only its structure, and the rewards if they are granted.
- Any other environment with Discrete observations and actions: only their numbers are known. Every successor is possible, runs
  are not scored, and learners that need the reward function are refused. One additional state, the last, marks the end.

An environment with a wrapper that may change transitions or rewards is of the third kind.
"""

from __future__ import annotations

import inspect
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.wrappers import TimeLimit

from bqrl.checks import shown, wrong, wrong_type
from bqrl.envs import make, names
from bqrl.errors import ArgumentError, SizeError
from bqrl.learners.play import GymWorld, ModelWorld, World
from bqrl.learners.protocol import Task, blank_model, with_events
from bqrl.mdp.arrays import IntArray
from bqrl.mdp.gymnasium import MDPEnv
from bqrl.mdp.model import MDP
from bqrl.mdp.stage import Structure
from bqrl.mdp.toy_text import changing_wrapper, from_gymnasium, has_table, wrappers
from bqrl.mdp.validation import check_horizon

MOST = 100_000_000  # possible transitions of an environment without a table


def pose(
    problem: Any, maker: Any, horizon: int | None, start: Any, rng: np.random.Generator, facts: dict[str, Any],
    events_observed: bool | None,
) -> tuple[MDP | None, Task, World]:  # fmt: skip
    """Return the MDP that scores policies or None, the learner's task, and where its episodes are played.

    A learner that needs the reward function receives it if it is known; otherwise a class that needs it raises
    ArgumentError. Episodes of an environment last `horizon` stages: by default as many as its own time limit. `facts`
    are the other fields of the task.
    """
    grant = bool(getattr(maker, "needs_rewards", True))  # a function of the caller's own gets the rewards, too
    require = grant and inspect.isclass(maker)
    if isinstance(problem, str) and problem in names():
        problem = make(problem)
    if isinstance(problem, MDP):
        mdp = _changed(problem, horizon, start, events_observed)
        return mdp, _task(mdp, grant, facts), ModelWorld(mdp, rng)
    env = _environment(problem)
    core, plain = env.unwrapped, changing_wrapper(env) is None
    if plain and isinstance(core, MDPEnv):
        mdp = _changed(core.mdp, horizon, start, events_observed)
        _check_limit(env, mdp.H)
        return mdp, _task(mdp, grant, facts), ModelWorld(mdp, rng)
    if events_observed is not None:
        rule = f"be None for {type(core).__name__}, which does not expose shared noise"
        raise wrong("events_observed", events_observed, rule)
    _check_spaces(env)
    H = _horizon(env, horizon)
    if plain and has_table(core):
        _check_limit(env, H)
        mdp = from_gymnasium(env, horizon=H, start=start)
        if start is not None:  # the environment draws its own first state, so the table plays in its place
            return mdp, _task(mdp, grant, facts), ModelWorld(mdp, rng)
        ends = _ends(mdp, int(env.observation_space.n))
        return mdp, _task(mdp, grant, facts), GymWorld(env, H, rng, ends, table=mdp)
    if start is not None:
        raise wrong("start", start, f"be None for {type(core).__name__}, which does not expose a transition table")
    if require:
        raise ArgumentError(
            f"{maker.name} needs the reward function, which {type(core).__name__} does not expose; "
            "use q-learning, sarsa, ppo or trpo, or build an MDP", name="learner", value=maker.name,
        )  # fmt: skip
    S, A = int(env.observation_space.n), int(env.action_space.n)
    task = Task(structure=open_structure(S, A, H), model=None, discount=1.0, **facts)
    return None, task, GymWorld(env, H, rng, np.full(S, S))


def _changed(mdp: MDP, horizon: int | None, start: Any, events_observed: bool | None) -> MDP:
    """Return the problem with another horizon, start or setting of its events where one is given."""
    mdp = with_events(mdp, events_observed)
    if (horizon is None or horizon == mdp.H) and start is None:
        return mdp
    return mdp.replace(horizon=horizon, start=start)


def open_structure(S: int, A: int, H: int) -> Structure:
    """Return the structure of S states without any knowledge: every state may follow, or the episode ends in state S."""
    if (S + 1) * S * A > MOST:
        raise SizeError(
            f"an environment without a transition table must have at most {MOST} possible transitions, got {S} states and "
            f"{A} actions with {(S + 1) * S * A}; build an MDP", needed=(S + 1) * S * A, limit=MOST,
        )  # fmt: skip
    everything = np.arange(S + 1, dtype=np.int32)
    row_start = np.r_[np.arange(S * A + 1) * (S + 1), S * A * (S + 1) + 1 + np.arange(A)]
    successor = np.r_[np.tile(everything, S * A), np.full(A, S, np.int32)]
    known = np.zeros((1, S + 1, A), bool)
    known[:, S] = True
    probability = np.r_[np.full(S * A * (S + 1), np.nan), np.ones(A)]
    mu = np.r_[np.full(S, 1.0 / S), 0.0]  # not known either; learners without a model do not use it
    return Structure(
        H=H,
        S=S + 1,
        A=A,
        mu=mu,
        row_start=row_start,
        successor=successor,
        available=np.ones((1, S + 1, A), bool),
        known=known,
        probability=probability,
    )


def _environment(env: Any) -> Any:
    if isinstance(env, str):
        try:
            return gym.make(env)
        except gym.error.Error as error:
            got, remedy = f"{shown(env)} ({' '.join(str(error).split())})", "pass bqrl.load(path) for a file"
            raise wrong("problem", env, "be a known problem or environment", got, remedy=remedy) from None
    if not isinstance(env, gym.Env):
        raise wrong_type("problem", env, "be an MDP or a Gymnasium environment", type(env).__name__)
    return env


def _check_spaces(env: Any) -> None:
    for name, space in (("observations", env.observation_space), ("actions", env.action_space)):
        if not isinstance(space, Discrete):
            got = f"{type(space).__name__} in {type(env.unwrapped).__name__}"
            raise wrong("problem", env, f"have Discrete {name}", got, remedy="use a wrapper that numbers them")


def _limit(env: Any) -> int | None:
    """Return the least time limit of the wrappers, else that of the specification."""
    found = [layer._max_episode_steps for layer in wrappers(env) if isinstance(layer, TimeLimit)]
    spec = getattr(env, "spec", None)
    return min(found) if found else None if spec is None else spec.max_episode_steps


def _horizon(env: Any, horizon: int | None) -> int:
    chosen = _limit(env) if horizon is None else horizon
    if chosen is None:
        raise wrong("horizon", None, f"be given for {type(env.unwrapped).__name__}, which has no time limit")
    return check_horizon(chosen)


def _check_limit(env: Any, H: int) -> None:
    limit = _limit(env)
    if limit is not None and H > limit:
        remedy = f"pass horizon={limit}, or make the environment with max_episode_steps={H}"
        raise wrong("horizon", H, f"be at most {limit}, the time limit of the environment", remedy=remedy)


def _task(mdp: MDP, grant: bool, facts: dict[str, Any]) -> Task:
    model = blank_model(mdp) if grant else None
    return Task(structure=mdp.structure, model=model, discount=mdp.discount, **facts)


def _ends(mdp: MDP, S: int) -> IntArray:
    """Return the state of the model in which an episode that ends in state s < S stays.

    It is s itself if s is absorbing, else the last state, `done`; -1 if the table has no such end.
    """
    rewards, starts = mdp.reward[0], mdp.row_start[:: mdp.A]
    absorbing = np.zeros(mdp.S, bool)
    for s in range(mdp.S):
        here = slice(int(starts[s]), int(starts[s + 1]))
        met = mdp.probability[here] > 0
        absorbing[s] = met.any() and np.all(mdp.successor[here][met] == s) and not rewards[here][met].any()
    states = np.arange(mdp.S)
    return np.where(absorbing, states, states[-1] if absorbing[-1] else -1)[:S]
