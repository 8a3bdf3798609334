"""Return laws and single episodes of the policies of a learner, by compiled loops on arrays prepared once."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from bqrl.loops.ball import possible_sums, push_optimistic
from bqrl.loops.layout import Dynamics, Tables
from bqrl.loops.rollout import play_tables, push_stages
from bqrl.mdp.arrays import ActionArray, BoolArray, FloatArray, IntArray, read_only
from bqrl.mdp.grid import Grid, Lattice
from bqrl.mdp.model import MDP
from bqrl.planners.sweep import Layout, Sweep
from bqrl.policies.forward import SumRange, push_forward, sums_on
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.target import TargetPolicy


class Follower:
    """Return laws and episodes of Markov and target policies on one uniform grid; its arrays are prepared once."""

    def __init__(self, layout: Layout) -> None:
        self.layout, self.mdp, self.grid = layout, layout.mdp, layout.grid
        sums = sums_on(self.mdp, self.grid)
        H = self.mdp.H
        assert isinstance(sums, SumRange)
        self._work = np.empty((2, self.mdp.S, int(sums.size.max())))
        stages, self._kernel = layout.stages, np.array(self.mdp.probability)
        self._sums = sums.lowest, sums.size, stages.gain - np.diff(sums.lowest)[:, None]
        self.dynamics = Dynamics(
            start=stages.start, successor=stages.successor, probability=self._kernel,
            reward=np.array(self.mdp.reward), gain=stages.gain, lowest=stages.lowest, mu=stages.mu, A=stages.A,
        )  # fmt: skip
        self._markov = read_only(np.arange(H + 1) * self.mdp.S)
        self._alike: Grid = self.grid

    def fits(self, policy: object) -> bool:
        """Return whether the policy is Markov or a target policy on the columns of this grid."""
        if isinstance(policy, MarkovPolicy):
            return True
        if not isinstance(policy, TargetPolicy):
            return False
        if policy.grid is not self._alike and self.grid.same_columns(policy.grid):
            self._alike = policy.grid  # the policies of a learner share one grid
        return policy.grid is self._alike

    def _tables(self, policy: MarkovPolicy | TargetPolicy) -> tuple[ActionArray, IntArray, int]:
        """Return the action tables of all stages, where each begins, and the target in steps."""
        if isinstance(policy, MarkovPolicy):
            return policy.actions.reshape(-1), self._markov, 0
        return *policy.tables, policy.first_column + int(self.grid.lowest[0])

    def law(self, policy: MarkovPolicy | TargetPolicy, probability: FloatArray | None = None) -> FloatArray:
        """Return the mass of every point of stage 0; `probability` is another kernel on the same outcomes."""
        kernel = self._kernel if probability is None else probability
        stages, tables = tuple(self.layout.stages), self._tables(policy)
        return push_stages(stages, self._sums, kernel, *tables, self._work)

    @cached_property
    def possible(self) -> BoolArray:
        """Whether each point of stage 0 can be a return, under any policy and any kernel with the same outcomes."""
        return possible_sums(tuple(self.layout.stages), self._sums, self._work)

    def optimistic_law(self, done: Sweep, target: float, half: FloatArray, probability: FloatArray) -> FloatArray:
        """Return the law of the sweep's policy under the kernel of the ball that attains the value of the optimistic sweep."""
        assert done.values is not None
        if isinstance(done.values, Tables):
            values = done.values.flat
        else:  # a large problem is swept stage by stage
            values = np.concatenate([value.reshape(-1) for value in done.values])
        stages, (*tables, steps) = tuple(self.layout.stages), self._tables(done.policy(target))
        return push_optimistic(
            stages, self._sums, probability, half.reshape(-1), values, tuple(tables), steps, self._work
        )

    def play(
        self, policy: MarkovPolicy | TargetPolicy, u: FloatArray, states: IntArray, actions: IntArray,
        rewards: FloatArray,
    ) -> None:  # fmt: skip
        """Play one episode with the given uniforms: one for the first state, one per stage."""
        play_tables(tuple(self.dynamics), *self._tables(policy), u, states, actions, rewards)


def law_on_points(mdp: MDP, policy: TargetPolicy, columns: Lattice) -> FloatArray:
    """Return the law of a policy as the mass of every point of stage 0 of a uniform grid."""
    sums = sums_on(mdp, columns)
    assert isinstance(sums, SumRange)
    first = int(sums.lowest[-1] - columns.lowest[0])
    mass = np.zeros(int(columns.size[0]))
    found = push_forward(mdp, policy, columns)[1]
    mass[first : first + found.size] = found
    return mass
