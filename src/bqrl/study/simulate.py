"""`bqrl.simulate`: the returns of simulated episodes, of a model or of any Gymnasium environment."""

from __future__ import annotations

import pickle
import re
from typing import Any

import cloudpickle
import gymnasium as gym
import numpy as np
from gymnasium.envs.registration import registry

from bqrl.checks import bad_value, choice, flag, random_seed, whole
from bqrl.errors import PolicyError
from bqrl.laws.sample import Sample
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.grid_step import GridModel
from bqrl.mdp.model import MDP, check_mdp
from bqrl.mdp.stepping import Stepper, make_environment
from bqrl.mdp.unstored import StepModel
from bqrl.mdp.validation import check_horizon
from bqrl.planners.evaluate import simulate_model
from bqrl.planners.on_grid import play_continuous
from bqrl.policies.in_env import play_steps, player_of, state_names
from bqrl.policies.protocol import PLANNED, THIS_MODEL
from bqrl.study.workers import LocalWorkers

VERSION = re.compile(r"-v\d+$")  # the end of a Gymnasium id
Block = tuple[FloatArray, int, int]  # returns, number of episodes cut off, number with unknown states


def simulate(
    problem: Any,
    policy: Any,
    episodes: int = 10_000,
    seed: int | np.random.Generator | None = None,
    workers: int = 1,
    *,
    horizon: int | None = None,
    states: Any = None,
    bins: Any = None,
    labels: bool = False,
    rewards: str = PLANNED,
    outcome: str | None = None,
    deterministic: bool = True,
) -> Sample:
    """Return the returns of simulated episodes as a Sample, which has quantiles, intervals and promises.

    Parameters
    ----------
    problem : MDP, GridModel, StepModel, str or gymnasium.Env
        A model, the name of a problem as for `solve`, or a Gymnasium environment or its id. With continuous states (a
        GridModel) the policy plays in the problem itself, where states, events and rewards are not rounded.
    policy : Policy, callable, object with `predict`, array_like or str
        In a model, a policy in any form that `evaluate` accepts; a function or a custom Policy is called at every step, so
        it may draw its actions. In an environment, a Policy, a function of the observation, an object with
        predict(observation, deterministic=True), or "random", which draws among the actions of info["action_mask"]. A function
        may return one probability per action; the action is then drawn with `seed`, which does not control random draws
        inside the function. A Policy tracks the rewards of the environment.
    episodes : int
        Number of episodes.
    seed : int, Generator or None
        Source of randomness; None draws fresh entropy. The same int gives the same bits, whatever the number of workers.
    workers : int
        Number of processes that play the episodes of an environment. Models are simulated in one vectorised pass.
    horizon : int, optional
        Largest number of steps of an episode of an environment, by default that of the policy. Without one, episodes last
        until the environment ends or truncates them.
    states : MDP or list of str, optional
        Names of the states of a Policy, to find the state of an observation: the model for which it was planned, or
        `record.states`. Required unless the observations are Discrete, because their numbers can serve as states. A state that
        the policy does not know is played by a uniformly random action; `sample.unknown` counts these episodes.
    bins
        Cells of Box observations, for a Policy that acts on cells; see `learn`.
    labels, rewards, outcome
        For models. `labels` passes states to functions as values, `rewards` says whether a policy must meet the rewards for
        which it was planned (see `evaluate`), and `outcome` is a further outcome whose sums are returned instead.
    deterministic : bool
        If False, an object with `predict` draws its actions: from its action probabilities, if it exposes them (see
        `evaluate`), else by predict(observation, deterministic=False).

    Returns
    -------
    Sample
        The (discounted) return, or sum of the outcome, of every episode; returns of environments are not discounted.

    Examples
    --------
    >>> mdp = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=3)
    >>> simulate(mdp, [0, 0], episodes=4, seed=1).shape
    (4,)
    >>> print(simulate("Blackjack-v1", lambda hand: int(hand[0] < 17), episodes=200, seed=1).promise(0.5))
    with 95 % confidence, in half of all episodes at least -1
    """
    workers = whole(workers, "workers", 1)
    if not _is_environment(problem):
        mdp = problem if isinstance(problem, (GridModel, StepModel)) else check_mdp(problem)
        given = {"horizon": horizon, "states": states, "bins": bins}
        for name, value in given.items():
            if value is not None:
                raise bad_value(name, value, "be None for a model", remedy="it is for environments")
        if isinstance(mdp, GridModel):
            return Sample(play_continuous(mdp, policy, episodes, seed))
        rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(random_seed(seed))
        found = simulate_model(
            mdp, policy, episodes, rng, labels=labels, rewards=rewards, outcome=outcome, deterministic=deterministic
        )
        return Sample(found)
    choice(rewards, "rewards", (PLANNED, THIS_MODEL))
    if labels or outcome is not None:
        name, value = ("labels", labels) if labels else ("outcome", outcome)
        raise bad_value(name, value, "be left out for an environment", remedy="it is for models")
    episodes = whole(episodes, "episodes", 1, most=2**31)
    number = int(seed.integers(2**63)) if isinstance(seed, np.random.Generator) else random_seed(seed)
    facts = {
        "policy": policy, "seed": number, "horizon": None if horizon is None else check_horizon(horizon),
        "states": state_names(states), "bins": bins, "deterministic": flag(deterministic, "deterministic"),
    }  # fmt: skip
    if min(workers, episodes) == 1:
        env = make_environment(problem, "problem")
        returns, cut, unknown = play_block(env, 0, episodes, facts)
        return Sample(returns, cut, unknown)
    return _in_processes(problem, min(workers, episodes), episodes, facts)


def play_block(env: Any, first: int, last: int, facts: dict[str, Any]) -> Block:
    """Return the returns of the episodes first .. last - 1, and how many were cut off or had states unknown to the policy."""
    env = pickle.loads(env) if isinstance(env, bytes) else gym.make(env) if not isinstance(env, gym.Env) else env
    player = player_of(env, facts["policy"], facts["states"], facts["bins"], facts["deterministic"])
    horizon, steps = facts["horizon"] or player.horizon, Stepper(env)
    if horizon is not None and player.horizon is not None and horizon > player.horizon:
        raise PolicyError(f"the policy must have at least {horizon} stages, got H={player.horizon}; lower horizon")
    returns, cut, unknown = np.zeros(last - first), 0, 0
    for i in range(last - first):
        for step in play_steps(steps, player, facts["seed"], first + i, horizon):
            returns[i] += step.reward
        cut, unknown = cut + step.cut, unknown + player.unknown
    return returns, cut, unknown


def _is_environment(problem: Any) -> bool:
    """Return whether a problem is a Gymnasium environment, or an id with a version that is not one of our problems."""
    if isinstance(problem, str):
        return not problem.startswith("bqrl/") and (problem in registry or VERSION.search(problem) is not None)
    return isinstance(problem, gym.Env) and not isinstance(problem, MDP)


def _in_processes(problem: Any, workers: int, episodes: int, facts: dict[str, Any]) -> Sample:
    """Return the sample of episodes that several processes play in blocks."""
    ends = np.linspace(0, episodes, workers + 1).astype(int).tolist()
    pool, sent = LocalWorkers(workers), _sendable(problem)
    try:
        calls = [pool.submit(play_block, sent, *ends[i : i + 2], facts) for i in range(workers)]
        blocks: list[Block] = [call.result() for call in calls]
    finally:
        pool.close()
    returns, cut, unknown = zip(*blocks, strict=True)
    return Sample(np.concatenate(returns), sum(cut), sum(unknown))


def _sendable(problem: Any) -> Any:
    """Return an id, the pickled environment, or else its specification, from which a process makes the environment."""
    if isinstance(problem, str):
        return problem
    try:
        return cloudpickle.dumps(problem)
    except Exception:  # pickling may raise any error
        if problem.spec is None:
            rule = "be an id or an environment that can be pickled if there are several workers"
            raise bad_value(
                "problem", problem, rule, type(problem.unwrapped).__name__, remedy="pass workers=1"
            ) from None
        return problem.spec
