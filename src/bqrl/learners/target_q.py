"""Q-learning on the augmented state (Baeuerle and Ott 2011): stage, state and the amount still needed to reach a target.

    J_h(s, a, n) += rate * ( min over a' of J_{h+1}(s', a', n - r) - J_h(s, a, n) ),   J_H(n) = max(n, 0) or 1{n > 0},

with max(n, 0) for CVaR and 1{n > 0} for a quantile. The target follows from the values at the start:

    CVaR        the z that maximises z - J_0(z) / tau
    quantile    the largest z with J_0(z) < tau

A need is chosen, not observed, so each transition updates every need at once (all n on the grid of possible returns). The
stage is known, too: if neither kernel nor rewards depend on it, each transition also updates every stage, unless there are
very many needs and stages (MAX_POOLED). Only the probabilities are learned from episodes. The transitions of an episode are
replayed backwards, so one pass carries values from its end to its start. The n-th update of J_h(s, a) has the rate
max(learning_rate, (H + 1) / (H + n)), as in Jin, Allen-Zhu, Bubeck and Jordan (2018), so that early values, which follow from
a poor table, are forgotten.

Episodes are played towards the present target or, in half of them, towards a random one, with random actions at the rate
epsilon, which falls linearly from 1 to 0.05.

Deviation: the grid of needs comes from the known rewards, and states in which nothing more can be collected are known; nothing
else of the model is used. If the returns have more than `needs` values, they are rounded down to a grid of about this size.
Deviation: actions that were not played are ignored by minima and by the policy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from bqrl.checks import number, whole
from bqrl.errors import SizeError
from bqrl.laws.objectives import CVaR, Objective, Quantile
from bqrl.learners.envelope import Exploring
from bqrl.learners.protocol import Episode, Learner, Task
from bqrl.learners.q_learning import FALLING, epsilon_ends, falling
from bqrl.learners.replan import MAX_COLUMNS, planning_grid
from bqrl.loops.target_q import need_episode
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.find_grid import rounded_grid
from bqrl.mdp.grid import Lattice
from bqrl.policies.target import TargetPolicy, action_dtype

RANDOM_TARGETS = 0.5  # share of the episodes
RENEWAL = 50  # the policy is renewed when it is older than t / RENEWAL episodes
MAX_NUMBERS = 2**28  # largest size of the table
MAX_POOLED = 2**25  # numbers of the table that an episode may visit if every transition counts for every stage


class TargetQ(Learner):
    """Q-learning for every need at once, for a quantile or CVaR.

    Parameters
    ----------
    task, rng
        See `Learner`.
    learning_rate
        Least rate of an update.
    epsilon
        First and last share of random actions; by default (1, 0.05).
    needs
        Largest number of needs on the grid; by default the grid on which other learners plan.

    Examples
    --------
    >>> import bqrl
    >>> record = bqrl.learn("SafeOrRisky", "target-q", objective=bqrl.CVaR(0.1), episodes=20, seed=1)
    """

    name, label, colour = "target-q", "Target Q-learning", "#4B4FCB"
    objectives: ClassVar[tuple[Callable[..., Objective], ...]] = (Quantile, CVaR)
    needs_rewards = True
    tuned = "learning_rate"
    stored: ClassVar[tuple[str, ...]] = ("J", "V", "visits", "table", "played", "target", "t", "made")

    def __init__(
        self, task: Task, rng: np.random.Generator, learning_rate: float = 0.002,
        epsilon: tuple[float, float] | None = None, needs: int = MAX_COLUMNS,
    ) -> None:  # fmt: skip
        super().__init__(task, rng)
        self.learning_rate = number(learning_rate, "learning_rate", 0.0, 1.0, "(]")
        self.first, self.last = epsilon_ends(epsilon, FALLING)
        self.grid = self._grid(whole(needs, "needs", 2))
        self.available = task.available
        H, M = task.H, int(self.grid.size.max())
        self._lowest = np.array([self.grid.points(h)[0] for h in range(H + 1)])
        self._places = self.grid.step, self.grid.size, self._lowest
        self._find_ends()
        self.J = self._table(M)
        self.V = self.J.min(axis=2)
        self.visits = np.where(self._ends[:, None], self.available, 0)
        self.table = np.repeat(self.available.argmax(axis=2)[:, :, None], M + 1, axis=2).astype(action_dtype(task.A))
        self.played = self.table.copy()  # the table of the current policy
        self.t, self.made = 0, 0
        self.target = np.array([self._target()])
        self._renew()

    def _find_ends(self) -> None:
        """Find the states in which nothing more can be collected, and whether transitions count for every stage."""
        model = self.task.require_model(self.name)
        visited = model.H**2 * model.A * int(self.grid.size.max())
        self._pooled = model.stationary and len(model.reward) == 1 and visited <= MAX_POOLED
        source = np.repeat(np.arange(model.row_start.size - 1), np.diff(model.row_start)) // model.A % model.S
        self._ends = np.ones(model.S, bool)
        self._ends[source[(model.successor != source) | model.reward.any(axis=0)]] = False

    def _grid(self, needs: int) -> Lattice:
        """Return the grid of needs: the one on which other learners plan, or a coarser one."""
        model = self.task.require_model(self.name)
        found = planning_grid(model)
        return found if found.size.max() <= needs else rounded_grid(model, needs)

    def _table(self, width: int) -> FloatArray:
        """Return the first costs, with `width` needs per row: those of the end where nothing more is collected, else 0."""
        J = self._zeros(width)
        for h, lowest in enumerate(self._lowest[:-1]):
            needs = lowest + self.grid.step * np.arange(width)
            J[h, self._ends] = np.maximum(needs, 0.0) if self._linear else needs > 0.5 * self.grid.step
        return J

    @property
    def _linear(self) -> bool:
        """Whether the final cost is max(n, 0), as for CVaR, or 1{n > 0}."""
        return not isinstance(self.task.objective, Quantile)

    def _zeros(self, width: int) -> FloatArray:
        """Return a table of zeros with `width` numbers per row."""
        task = self.task
        numbers = task.H * task.S * task.A * width
        if numbers > MAX_NUMBERS:
            raise SizeError(
                f"the learner {self.name} must have at most {MAX_NUMBERS} numbers in its table, got {numbers} for {task.H} "
                f"stages, {task.S} states, {task.A} actions and {width} columns; lower {self.columns}, or choose psrl",
                needed=numbers, limit=MAX_NUMBERS, name=self.columns,
            )  # fmt: skip
        return np.zeros((task.H, task.S, task.A, width))

    columns = "needs"  # the parameter that sets the width of the table

    @property
    def epsilon(self) -> float:
        """The share of random actions in the next episode."""
        return falling(self.first, self.last, self.t, self.task.episodes)

    def plan(self) -> Exploring:
        """Return the policy towards the present or a random target, with random actions."""
        target = self._policy.target
        if self.rng.random() < RANDOM_TARGETS:
            target = float(self.rng.choice(self.grid.points(0)))
        return Exploring(self._policy, np.array([target]), np.array([self.epsilon]), self.rng, self.available)

    def evaluated(self) -> TargetPolicy:
        """Return the policy towards the present target, without random actions."""
        return self._policy

    def notes(self) -> dict[str, float]:
        """Return the target."""
        return {"target": self._policy.target}

    def observe(self, episode: Episode) -> None:
        """Update the costs of all needs; renew the policy if it is old."""
        self._learn(episode)
        self.t += 1
        if self.t > self.made + self.made // RENEWAL:
            self.played, self.made = self._best_actions(), self.t
            self.target = np.array([self._target()])
            self._renew()

    def _learn(self, episode: Episode) -> None:
        """Update the table with one episode."""
        grid, H = self.grid, self.task.H
        left = [grid.reduced(self._lowest[h], h, episode.rewards) - self._lowest[h + 1] for h in range(H)]
        shift = np.rint(np.array(left) / grid.step).astype(np.int64)
        rule = self.learning_rate, self._linear, self._pooled
        need_episode(self.J, self.V, self.visits, self.table, self._places, rule, self._ends, shift, *episode[:2])

    def _best_actions(self) -> Any:
        """Return the best action for each stage, state and need, as a new array."""
        return self.table.copy()

    def _renew(self) -> None:
        """Make the policy of the table in `played` towards the target."""
        tables: list[Any] = [self.played[h, :, : self.grid.size[h] + 1] for h in range(self.task.H)]
        self._policy = TargetPolicy(self.grid, tables, self.target[0])

    def _first_states(self) -> tuple[IntArray, FloatArray]:
        """Return the first states that were visited and their probabilities."""
        met = np.flatnonzero(self.task.structure.mu * self.visits[0].any(axis=1))
        weight = self.task.structure.mu[met]
        return met, weight / weight.sum()

    def _target(self) -> float:
        """Return the best target by the costs at the first stage; the lowest return before the first episode."""
        z = self.grid.points(0)
        if self.made == 0:
            return float(z[0])
        met, weight = self._first_states()
        cost = weight @ self.V[0, met][:, : z.size]
        if not self._linear:
            return float(z[max(0, int(np.count_nonzero(np.maximum.accumulate(cost) < self.task.tau)) - 1)])
        return float(z[np.argmax(z - cost / self.task.tau)])

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        super().restore(state)
        self._renew()
