"""Q-learning (Watkins 1989) with epsilon-greedy behaviour, one table per stage.

    Q_h(s, a) += max(learning_rate, 1 / n) * ( r + discount * max_a' Q_{h+1}(s', a') - Q_h(s, a) ),   Q_H = 0,

where n counts the visits of (h, s, a). The values are first plain averages of the targets and later exponential averages.
Each stage occurs once per episode, so updating after the episode, in order of play, equals updating after every step.

Epsilon falls linearly from 1 to 0.05 over the run. With an optimistic start it is always 0.05, because then the table itself
leads to exploration. `epsilon=(first, last)` sets other values. The evaluated policy is greedy and breaks ties by the lowest
index, so in asset selling the initial table sells immediately.

A table that starts at zero undervalues waiting until later stages have been learned. Within a few thousand episodes it still
accepts early offers. The usual remedy is `optimistic_start=x`, where x is the largest possible return.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from bqrl.checks import bad_type, number
from bqrl.learners.protocol import Episode, Learner, Task
from bqrl.loops.q_learning import explore, explore_table, td_episode
from bqrl.mdp.arrays import ActionArray, BoolArray, FloatArray, read_only
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.stochastic import StochasticPolicy
from bqrl.policies.target import action_dtype

FALLING, LOW = (1.0, 0.05), (0.05, 0.05)  # first and last epsilon


class EpsilonGreedy(StochasticPolicy):
    """The actions of a policy, with probability epsilon replaced by uniformly random available ones.

    An episode visits few rows of a large table, so probabilities are computed where they are read.
    """

    def __init__(self, greedy: MarkovPolicy, available: BoolArray, epsilon: float) -> None:
        self.mix: tuple[ActionArray, BoolArray, float] = greedy.actions, available, epsilon
        self.H, self.S, self.A = available.shape
        self._seed = 0

    def shares(self, h: int, s: int) -> FloatArray:
        """Return the action probabilities (A,) at stage `h` in state `s`."""
        action, available, epsilon = self.mix
        chances = np.empty(self.A)
        explore(action[h, s], available[h, s], epsilon, chances)
        return chances

    @cached_property
    def probabilities(self) -> FloatArray:  # type: ignore[override]
        """The action probabilities (H, S, A), read-only."""
        chances = np.empty((self.H, self.S, self.A))
        action, available, epsilon = self.mix
        explore_table(action, available, epsilon, chances)
        return read_only(chances)


class QLearning(Learner):
    """Q-learning: the target of an update is the reward plus the greedy value of the next state."""

    name, label, colour = "q-learning", "Q-learning", "#CC79A7"
    tuned = "learning_rate"
    stored: ClassVar[tuple[str, ...]] = ("Q", "visits", "actions", "t")
    on_policy = False

    def __init__(
        self, task: Task, rng: np.random.Generator, learning_rate: float = 0.1, optimistic_start: float = 0.0,
        epsilon: tuple[float, float] | None = None, discount: float | None = None,
    ) -> None:  # fmt: skip
        super().__init__(task, rng)
        self.learning_rate = number(learning_rate, "learning_rate", 0.0, 1.0, "(]")
        self.discount = task.update_discount(discount)
        begin = number(optimistic_start, "optimistic_start")
        self.first, self.last = epsilon_ends(epsilon, LOW if begin > 0.0 else FALLING)
        self.available = task.available
        self.Q = np.where(self.available, begin, -np.inf)
        self.visits = np.zeros(self.Q.shape, np.int64)
        self.actions = self.available.argmax(axis=2).astype(action_dtype(task.A))
        self.t = 0
        self._policy = MarkovPolicy(self.actions)

    @property
    def epsilon(self) -> float:
        """The share of random actions in the next episode."""
        return falling(self.first, self.last, self.t, self.task.episodes)

    def plan(self) -> StochasticPolicy:
        """Return the greedy actions, mixed with uniformly random ones at the rate epsilon."""
        return EpsilonGreedy(self._policy, self.available, self.epsilon)

    def observe(self, episode: Episode) -> None:
        """Update the table of every stage."""
        update = self.learning_rate, self.discount, self.on_policy
        if td_episode(self.Q, self.visits, self.actions, update, *episode[:3]):
            self._policy = MarkovPolicy(self.actions)
        self.t += 1

    def evaluated(self) -> MarkovPolicy:
        """Return the greedy policy."""
        return self._policy

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        super().restore(state)
        self._policy = MarkovPolicy(self.actions)


def epsilon_ends(given: tuple[float, float] | None, otherwise: tuple[float, float]) -> tuple[float, float]:
    """Return the first and the last share of random actions: the pair that is given, else `otherwise`."""
    if given is None:
        return otherwise
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        raise bad_type("epsilon", given, "be a pair (first, last)")
    first, last = (number(x, "epsilon", 0.0, 1.0) for x in given)
    return first, last


def falling(first: float, last: float, t: int, episodes: int) -> float:
    """Return the share of random actions in episode t of a run, on a straight line from `first` to `last`."""
    return first + (last - first) * min(1.0, t / max(1, episodes - 1))
