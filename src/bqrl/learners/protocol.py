"""The interface of learners: the task that they receive, the methods that they implement, and the form of an episode."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from copy import copy
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bqrl.checks import bad_value, warn_caller
from bqrl.errors import ArgumentError, FileFormatError
from bqrl.laws.objectives import Objective
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.model import MDP
from bqrl.mdp.stage import Structure
from bqrl.mdp.validation import check_discount
from bqrl.policies.files import policy_from_arrays, to_storable
from bqrl.policies.protocol import Policy

UPDATE_DISCOUNT = 0.99  # discount in the updates of model-free learners, as in the paper


class Episode(NamedTuple):
    """One episode that was played, as `Learner.observe` receives it.

    Attributes
    ----------
    states : ndarray of shape (H + 1,)
        Indices of the states.
    actions : ndarray of shape (H,)
        Indices of the actions.
    rewards : ndarray of shape (H,)
        Rewards, not discounted.
    events : ndarray of shape (H,) or (0,)
        Index of each event in its law, -1 in rows without shared noise; empty where events are not reported.

    Examples
    --------
    >>> Episode(states=np.array([0, 1]), actions=np.array([1]), rewards=np.array([2.5])).rewards.tolist()
    [2.5]
    """

    states: IntArray
    actions: IntArray
    rewards: FloatArray
    events: IntArray = np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Task:
    """What a learner knows of a problem: its structure, never the kernel; `learn` passes it to the learner.

    Attributes
    ----------
    structure : Structure
        Law of the first state, possible outcomes of each row, and the rows that are known exactly.
    model : MDP or None
        The problem with its rewards and, in place of the kernel, uniform rows over the known support; known rows keep their
        probabilities. None unless the learner has `needs_rewards` and the rewards are known.
    discount : float
        Discount factor of the problem.
    objective : Objective
        What is to be maximised, such as `Quantile(0.1)`; `tau` is its level, nan if it has none.
    episodes : int
        Number of episodes of the run, T.
    delta : float
        Probability with which confidence radii may fail.
    features : int
        Length of the observations of an environment with a Box space, whose structure then has no states to tell apart; else 0.

    Examples
    --------
    >>> import bqrl
    >>> class First(bqrl.Learner):
    ...     def plan(self):
    ...         return np.zeros((self.task.H, self.task.S), int)  # the sizes come from the task
    ...     def observe(self, episode):
    ...         pass
    >>> bqrl.learn("SafeOrRisky", First, episodes=3, seed=1).returns.tolist()
    [10.0, 10.0, 10.0]
    """

    structure: Structure
    model: MDP | None
    discount: float
    objective: Objective
    episodes: int
    delta: float
    features: int = 0

    @property
    def tau(self) -> float:
        """Level of the objective; nan if it has none."""
        return float(getattr(self.objective, "tau", math.nan))

    @property
    def H(self) -> int:
        """Number of stages."""
        return self.structure.H

    @property
    def S(self) -> int:
        """Number of states."""
        return self.structure.S

    @property
    def A(self) -> int:
        """Number of actions."""
        return self.structure.A

    @property
    def available(self) -> BoolArray:
        """Which actions exist, shape (H, S, A)."""
        return np.array(np.broadcast_to(self.structure.available, (self.H, self.S, self.A)), order="C")

    def require_model(self, learner: str) -> MDP:
        """Return the model; ArgumentError if the task has none."""
        if self.model is None:
            message = f"{learner} needs the rewards, got a task without a model; learn on an MDP"
            raise ArgumentError(message, name="task", value=self)
        return self.model

    def update_discount(self, given: float | None) -> float:
        """Return the discount in the updates of a model-free learner: `given`, else the discount of the problem, else 0.99."""
        if given is not None:
            return check_discount(given)
        return UPDATE_DISCOUNT if self.discount == 1.0 else self.discount


class Learner(ABC):
    """A learner: `plan()` returns the policy of the next episode, `observe(episode)` learns from it.

    Write a subclass with these two methods and pass it to `learn` or `compare`; the other methods are optional. All randomness
    comes from `rng`, which belongs to the learner: the random stream of the problem does not depend on it.

    Parameters
    ----------
    task : Task
        What the learner knows of the problem: the sizes H, S and A, the `objective` and its level `tau`, the number of
        `episodes`, the `structure` and, if `needs_rewards`, a `model` with the rewards.
    rng : numpy.random.Generator
        The learner's own random stream.

    Attributes
    ----------
    name : str
        Name of the learner in records.
    label : str
        Name in tables and charts; by default `name`.
    colour : str
        Colour in charts, as "#7B5EA7"; by default one that no other learner has.
    variants : dict of str to str
        Colours of further variants, by the value of the parameter `planner`; a comparison of all learners runs them, too.
    objectives : tuple or None
        Kinds of objectives that the learner can maximise, such as (Quantile, CVaR); None if its training does not depend on the
        objective.
    observes : bool
        Whether the learner also takes observations of a Box space, as rows of numbers.
    extra : str
        The extra of this package that the learner requires; "" if it requires none.
    needs_rewards : bool
        Whether the learner plans on a model, so that it is granted the reward function.
    tuned : str or None
        The one parameter that a study tunes.
    stored : tuple of str
        Attributes, arrays and whole numbers, that hold all that was learned; checkpoints store them.

    Examples
    --------
    >>> import bqrl, numpy as np
    >>> class First(bqrl.Learner):
    ...     def plan(self):
    ...         return bqrl.MarkovPolicy(np.zeros((self.task.H, self.task.S), int))
    ...     def observe(self, episode):
    ...         pass
    >>> bqrl.learn("AssetSelling", First, tau=0.1, episodes=5, seed=1).returns.size
    5
    """

    name: ClassVar[str] = ""
    label: ClassVar[str] = ""
    colour: ClassVar[str] = ""
    variants: ClassVar[Mapping[str, str]] = {}
    objectives: ClassVar[tuple[Callable[..., Objective], ...] | None] = None
    observes: ClassVar[bool] = False
    extra: ClassVar[str] = ""
    needs_rewards: ClassVar[bool] = False
    tuned: ClassVar[str | None] = None
    stored: ClassVar[tuple[str, ...]] = ()

    def __init__(self, task: Task, rng: np.random.Generator) -> None:
        self.task, self.rng = task, rng

    @abstractmethod
    def plan(self) -> Policy | ArrayLike:
        """Return what is played in the next episode, exploration included.

        Any Policy, or an array: actions of shape (S,) or (H, S), or action probabilities of shape (S, A) or (H, S, A).
        """

    @abstractmethod
    def observe(self, episode: Episode) -> None:
        """Learn from the episode just played."""

    def ahead(self) -> int:
        """Return how many episodes the next policy plays, at once if possible, before any of them is observed."""
        return 1

    def evaluated(self) -> Policy | ArrayLike | None:
        """Return the policy to score, in any form that `plan` may return; None means the planned policy itself.

        A learner that explores by random actions returns here the policy that it would use without exploration; otherwise
        the random actions are part of the score.
        """
        return None

    def notes(self) -> dict[str, float]:
        """Return numbers about the current plan for the record, e.g. its optimistic value."""
        return {}

    def state(self) -> dict[str, Any]:
        """Return everything learned so far as plain arrays and numbers, for a checkpoint; by default the `stored` attributes."""
        if not self.stored:
            raise NotImplementedError(f"{type(self).__name__} has no state() method; write one to checkpoint its runs")
        return {name: copy(getattr(self, name)) for name in self.stored}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        if not self.stored:
            raise NotImplementedError(f"{type(self).__name__} has no restore() method; write one to continue its runs")
        for name in self.stored:
            now = getattr(self, name)
            setattr(self, name, stored_array(state, name, now) if isinstance(now, np.ndarray) else int(state[name]))


def stored_array(state: dict[str, Any], name: str, like: np.ndarray) -> Any:
    """Return a copy of the stored array `name`; FileFormatError unless it has the shape and kind of `like`."""
    if name not in state:
        raise FileFormatError(f"expected the array {name!r}, got a checkpoint without it", column=name)
    found = np.array(state[name])
    if found.shape != like.shape or found.dtype.kind != like.dtype.kind:
        raise FileFormatError(f"{name} must have shape {like.shape}, got {found.shape} ({found.dtype})", column=name)
    return found.astype(like.dtype)


def add_prefix(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays with the prefix before their names."""
    return {prefix + name: values for name, values in arrays.items()}


def strip_prefix(prefix: str, arrays: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arrays whose names begin with the prefix, under their names without it."""
    return {name.removeprefix(prefix): values for name, values in arrays.items() if name.startswith(prefix)}


def policy_arrays(policy: Policy | None, mdp: MDP | None = None) -> dict[str, Any]:
    """Return a policy as the arrays that `stored_policy` reads; an empty dict for None.

    A custom policy is stored as its label graph in `mdp`. If that fails, only the reason is stored, so that the record can be
    saved even if its last policy cannot.
    """
    try:
        return {} if policy is None else (policy if mdp is None else to_storable(policy, mdp)).file_arrays()
    except Exception as fault:  # whatever a method of the custom policy raises
        return {"missing": np.array(f"{type(policy).__name__}: {' '.join(str(fault).split())}")}


def stored_policy(arrays: dict[str, Any]) -> Policy | None:
    """Return the policy that `policy_arrays` stored; if it could not be stored, warn with the reason and return None."""
    if "missing" in arrays:
        warn_caller(f"the record holds no final policy: {arrays['missing']}")
        return None
    return policy_from_arrays(arrays) if arrays else None


def blank_model(mdp: MDP) -> MDP:
    """Return the problem with rows that are uniform over their known support; known rows keep their probabilities.

    Shared noise is kept, without its laws. If the laws of the problem are not known, it is dropped, because the rows then
    need not be images of any law.
    """
    sizes = np.diff(mdp.row_start)
    known = np.repeat(mdp.known.reshape(-1), sizes)
    uniform = np.repeat(1.0 / np.maximum(sizes, 1), sizes)
    blank = mdp.with_probability(np.where(known, mdp.probability, uniform))
    return blank if mdp.noise is None or mdp.noise.known else blank.with_noise(None)


def with_events(mdp: MDP, observed: bool | None) -> MDP:
    """Return the problem with events observed or not, unchanged for None; ArgumentError if it has no shared noise."""
    if observed is None:
        return mdp
    if mdp.noise is None:
        remedy = "build it with shared=True or from_step"
        raise bad_value("events_observed", observed, "be None for a problem without shared noise", remedy=remedy)
    return mdp.with_noise(replace(mdp.noise, events_observed=bool(observed)))
