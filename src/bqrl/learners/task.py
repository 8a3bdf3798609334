"""The task of a problem: what the learner knows, where episodes are played, and which MDP scores the policies.

An MDP provides all three. There are four kinds of Gymnasium environment:

- `MDPEnv`: its MDP is the problem.
- An environment with a transition table (FrozenLake, CliffWalking, Taxi, ...): episodes are played in the environment itself,
  and the table is the MDP that scores the policies. The learner knows only its structure and, if it needs them, the rewards.
- Any other environment with Discrete actions and observations that can be numbered (`mdp/observations.py`). Runs are not scored.
  Learners that need the reward function plan on the empirical model (`bqrl.learners.open_world`). For the others, every
  state of the observation space may follow every other; one additional state, the last, marks the end of an episode.
- An environment with Box observations and Discrete actions, for a learner that `observes`: runs are not scored.

An environment with a wrapper that may change transitions or rewards belongs to the third kind.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Discrete
from gymnasium.vector import VectorEnv

from bqrl.checks import bad_value, nearest
from bqrl.envs import make, names
from bqrl.errors import SizeError
from bqrl.learners.box_world import BoxWorld
from bqrl.learners.open_world import OpenWorld
from bqrl.learners.play import GymWorld, ModelWorld, World
from bqrl.learners.protocol import Task, blank_model, with_events
from bqrl.mdp.arrays import IntArray
from bqrl.mdp.as_env import MDPEnv
from bqrl.mdp.from_gymnasium import changing_wrapper, chosen_horizon, from_gymnasium, has_table, time_limit
from bqrl.mdp.model import MDP
from bqrl.mdp.observations import Observations
from bqrl.mdp.stage import Structure
from bqrl.mdp.stepping import make_environment, one_space

MOST = 100_000_000  # largest number of possible transitions of an environment without a table


def pose(
    problem: Any, maker: Any, horizon: int | None, start: Any, rng: np.random.Generator, facts: dict[str, Any],
    events_observed: bool | None, bins: Any = None,
) -> tuple[MDP | None, Task | None, World]:  # fmt: skip
    """Return the MDP that scores policies (or None), the task of the learner, and the world in which episodes are played.

    A learner that needs the reward function receives it if it is known. Otherwise the task of a learner class that needs it is
    None, because the model grows with what is seen. Episodes of an environment last `horizon` stages, by default its time
    limit. `facts` are the other fields of the task. `bins` divides Box observations into cells.
    """
    grant = bool(getattr(maker, "needs_rewards", True))  # a function (task, rng) also receives the rewards
    require = grant and inspect.isclass(maker)
    if isinstance(problem, str) and problem in names():
        problem = make(problem)
    if isinstance(problem, MDP):
        _check_no_bins(bins)
        mdp = _replace(problem, horizon, start, events_observed)
        return mdp, _task(mdp, grant, facts), ModelWorld(mdp, rng)
    near = nearest(problem, names(), listed=False) if isinstance(problem, str) else ""
    remedy = near.removeprefix("; ") or "pass bqrl.load(path) for a file"
    many = isinstance(problem, VectorEnv)
    env = problem if many else make_environment(problem, "problem", "be a known problem or environment", remedy)
    core, plain = env.unwrapped, not many and changing_wrapper(env) is None
    if plain and isinstance(core, MDPEnv):
        _check_no_bins(bins)
        mdp = _replace(core.mdp, horizon, start, events_observed)
        _check_limit(env, mdp.H)
        return mdp, _task(mdp, grant, facts), ModelWorld(mdp, rng)
    if events_observed is not None:
        rule = f"be None for {type(core).__name__}, which does not expose shared noise"
        raise bad_value("events_observed", events_observed, rule)
    _check_actions(env)
    space: Any = one_space(env, "observation_space")
    observed = isinstance(space, Box) and bins is None and getattr(maker, "observes", False)
    H = chosen_horizon(env, horizon, type(core).__name__)
    if many and (not observed or start is not None):
        rule = "be a single environment, unless the learner reads Box observations and neither bins nor start is given"
        raise bad_value("problem", problem, rule, type(problem).__name__)
    if observed and start is None:
        blank = open_structure(1, int(one_space(env, "action_space").n), H)  # type: ignore[attr-defined]
        features = int(np.prod(space.shape))
        task = Task(structure=blank, model=None, discount=1.0, features=features, **facts)
        return None, task, BoxWorld(env, H, rng)
    observations = Observations(env.observation_space, bins, type(core).__name__)
    if plain and has_table(core):
        _check_limit(env, H)
        mdp = from_gymnasium(env, horizon=H, start=start)
        if start is not None:  # the environment would draw its own first state, so episodes are played in the table
            return mdp, _task(mdp, grant, facts), ModelWorld(mdp, rng)
        ends = _end_states(mdp, int(env.observation_space.n))
        return mdp, _task(mdp, grant, facts), GymWorld(env, H, rng, ends, table=mdp)
    if start is not None:
        raise bad_value("start", start, f"be None for {type(core).__name__}, which does not expose a transition table")
    if require:
        return None, None, OpenWorld(env, H, rng, observations)
    S, A = observations.size, int(env.action_space.n)
    task = Task(structure=open_structure(S, A, H), model=None, discount=1.0, **facts)
    return None, task, GymWorld(env, H, rng, np.full(S, S), observations=observations)


def _replace(mdp: MDP, horizon: int | None, start: Any, events_observed: bool | None) -> MDP:
    """Return the problem with the horizon, start and setting of its events that are given."""
    mdp = with_events(mdp, events_observed)
    if (horizon is None or horizon == mdp.H) and start is None:
        return mdp
    return mdp.replace(horizon=horizon, start=start)


def open_structure(S: int, A: int, H: int) -> Structure:
    """Return the structure of an unknown problem: every state may follow every other, or the episode ends in state S."""
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
    mu = np.r_[np.full(S, 1.0 / S), 0.0]  # also unknown; learners without a model do not use it
    return Structure(
        H=H, S=S + 1, A=A, mu=mu, row_start=row_start, successor=successor, available=np.ones((1, S + 1, A), bool),
        known=known, probability=probability,
    )  # fmt: skip


def _check_actions(env: Any) -> None:
    """Raise ArgumentError unless the actions are Discrete."""
    space = one_space(env, "action_space")
    if not isinstance(space, Discrete):
        got = f"{type(space).__name__} in {type(env.unwrapped).__name__}"
        raise bad_value("problem", env, "have Discrete actions", got, remedy="use a wrapper that numbers them")


def _check_no_bins(bins: Any) -> None:
    """Raise ArgumentError if cells of observations are given for a model."""
    if bins is not None:
        raise bad_value("bins", bins, "be None for a model, whose states are numbered")


def _check_limit(env: Any, H: int) -> None:
    """Raise ArgumentError if the time limit of the environment is shorter than H."""
    limit = time_limit(env)
    if limit is not None and H > limit:
        remedy = f"pass horizon={limit}, or make the environment with max_episode_steps={H}"
        raise bad_value("horizon", H, f"be at most {limit}, the time limit of the environment", remedy=remedy)


def _task(mdp: MDP, grant: bool, facts: dict[str, Any]) -> Task:
    """Return the task of an MDP; with `grant`, it contains the rewards."""
    model = blank_model(mdp) if grant else None
    return Task(structure=mdp.structure, model=model, discount=mdp.discount, **facts)


def _end_states(mdp: MDP, S: int) -> IntArray:
    """Return, for each state s < S, the state in which an episode stays after it has ended in s.

    This is s itself if s is absorbing, else the last state, `done`; -1 if the table has no such state.
    """
    rewards, starts = mdp.reward[0], mdp.row_start[:: mdp.A]
    absorbing = np.zeros(mdp.S, bool)
    for s in range(mdp.S):
        here = slice(int(starts[s]), int(starts[s + 1]))
        met = mdp.probability[here] > 0
        absorbing[s] = met.any() and np.all(mdp.successor[here][met] == s) and not rewards[here][met].any()
    states = np.arange(mdp.S)
    return np.where(absorbing, states, states[-1] if absorbing[-1] else -1)[:S]
