"""What a learner is told, what it must do, and what one episode is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from bqrl.mdp.forms import FloatArray, IntArray
from bqrl.mdp.model import MDP, Structure
from bqrl.mdp.policy import Policy


class Episode(NamedTuple):
    """One played episode: H + 1 states, H actions, H rewards (not discounted)."""

    states: IntArray
    actions: IntArray
    rewards: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """What a learner is told of a problem: its known structure, never the kernel.

    `model` is the problem with its rewards and, in place of the kernel, uniform rows over the known support (rows that
    are known exactly keep their probabilities). It is None where the reward function is not granted or not known.
    """

    structure: Structure
    model: MDP | None
    discount: float
    tau: float
    episodes: int  # T: the run's own length
    delta: float

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


@dataclass(frozen=True, slots=True, eq=False)
class Randomised:
    """Play by chance: action probabilities of shape (H, S, A). Only learners play so; what is scored is deterministic."""

    probabilities: FloatArray


class Learner(ABC):
    """The protocol: `plan()` gives the policy of the next episode, `observe(episode)` learns from it.

    All randomness comes from `rng`, which is the learner's own stream: the problem's stream does not depend on it.
    """

    name: ClassVar[str]
    needs_rewards: ClassVar[bool] = False  # plans on a model, so it is granted the reward function
    tuned: ClassVar[str | None] = None  # the one parameter that a study tunes

    def __init__(self, task: Task, rng: np.random.Generator) -> None:
        self.task, self.rng = task, rng

    @abstractmethod
    def plan(self) -> Policy | Randomised:
        """What is played in the next episode, exploration included."""

    @abstractmethod
    def observe(self, episode: Episode) -> None:
        """Learn from the episode just played."""

    @abstractmethod
    def evaluated(self) -> Policy:
        """The policy in force with exploration removed: what the episode just planned is scored by."""

    def notes(self) -> dict[str, float]:
        """Numbers about the plan in force that the record keeps, e.g. its optimistic value."""
        return {}

    @abstractmethod
    def memory(self) -> dict[str, Any]:
        """Everything learned so far as plain arrays and numbers; with the stream's state it continues bit for bit."""

    @abstractmethod
    def recall(self, memory: dict[str, Any]) -> None:
        """Continue from what `memory()` returned."""


def blank_model(mdp: MDP) -> MDP:
    """The problem with uniform rows over the known support in place of the kernel; known rows keep theirs."""
    sizes = np.diff(mdp.row_start)
    known = np.repeat(mdp.known.reshape(-1), sizes)
    uniform = np.repeat(1.0 / np.maximum(sizes, 1), sizes)
    return mdp.with_probability(np.where(known, mdp.probability, uniform))
