"""Exact return laws of the policies that a learner goes through, on one shared set of returns."""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.kernels.episode import law_of_table
from bqrl.kernels.replan import law_of_needs, play_needs
from bqrl.laws.law import Law
from bqrl.learners.protocol import Episode
from bqrl.mdp.find_grid import grid
from bqrl.mdp.forms import FloatArray, IntArray
from bqrl.mdp.grid import Lattice
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import MarkovPolicy, Policy, TargetPolicy
from bqrl.planners.evaluate import evaluate


class Scorer:
    """Laws of policies in one problem; an unchanged policy is not scored again.

    On a lattice with rewards by row a Markov policy is scored by one compiled call; everything else by `evaluate`.
    """

    def __init__(self, mdp: MDP) -> None:
        self.mdp = mdp
        found = grid(mdp)
        if found is None:
            raise ValueError(
                "the returns of this problem fit no exact grid, so its learners cannot be scored; "
                "round the rewards to a common step or drop the discount"
            )
        self.grid = found
        self.points = found.points(0)
        self.fast = found.uniform and mdp.row_reward is not None
        if self.fast:
            self._prepare()
        self.tracker = NeedTracker(mdp, found) if isinstance(found, Lattice) else None
        self._last: tuple[bytes, FloatArray] | None = None

    def _prepare(self) -> None:
        mdp, rows = self.mdp, self.mdp.S * self.mdp.A
        widest = int(self.grid.size.max())
        self._shift = np.zeros((mdp.H, rows), np.int64)
        for h in range(mdp.H):
            stage = mdp.stage(h)
            listed = np.flatnonzero(np.diff(stage.row_start))
            units = self.grid.stage_units(mdp, h)[stage.row_start[listed]]
            self._shift[h, listed] = units - self.grid.drop(h)
        self._same = first_equal_rows(mdp)
        self._law = np.zeros((2, mdp.S, widest))
        self._scratch = np.zeros((rows, widest))
        self._filled = np.zeros(rows, np.bool_)

    def law(self, policy: Policy) -> FloatArray:
        """Mass of every point of `points` under the policy."""
        if self.fast and isinstance(policy, MarkovPolicy):
            key = policy.actions.tobytes()
            if self._last is None or self._last[0] != key:
                mdp = self.mdp
                mass = law_of_table(
                    mdp.row_start, mdp.successor, mdp.probability, self._shift, self._same, mdp.mu, mdp.S, mdp.A,
                    self.grid.size, policy.actions, self._law, self._scratch, self._filled,
                )  # fmt: skip
                self._last = (key, mass)
            return self._last[1]
        if self.tracker is not None and isinstance(policy, TargetPolicy) and self.tracker.fits(policy):
            return self.tracker.law(policy)
        found = evaluate(self.mdp, policy)
        assert isinstance(found, Law)
        mass = np.zeros(self.points.size)
        np.add.at(
            mass, np.searchsorted(self.points, found.values - 1e-9 * max(1.0, np.ptp(self.points))), found.probabilities
        )
        return mass


class NeedTracker:
    """Target policies in one problem on a lattice, played and scored by compiled loops."""

    def __init__(self, mdp: MDP, columns: Lattice) -> None:
        self.mdp, self.grid = mdp, columns
        self._alike: Lattice | None = None
        widest = max(mdp.stage(h).successor.size for h in range(mdp.H))
        self._gain = np.zeros((mdp.H, widest), np.int64)
        for h in range(mdp.H):
            units = columns.stage_units(mdp, h)
            self._gain[h, : units.size] = units
        sums: Any = columns.sums(mdp)
        self._lowest_sum, self._count_sum = sums.lowest, sums.size
        self._work = np.zeros((2, mdp.S, int(sums.size.max())))
        self._first = int(sums.lowest[-1] - columns.lowest[0])  # where the final sums begin among the returns

    def fits(self, policy: TargetPolicy) -> bool:
        """Whether the policy's columns are those of this problem."""
        other = policy.grid
        if other is self.grid or other is self._alike:
            return True
        alike = (
            isinstance(other, Lattice)
            and other.step == self.grid.step
            and np.array_equal(other.size, self.grid.size)
            and np.array_equal(other.lowest, self.grid.lowest)
            and np.array_equal(other.offset, self.grid.offset)
        )
        if alike:
            self._alike = other  # type: ignore[assignment] # a learner's policies share one grid
        return alike

    def _target(self, policy: TargetPolicy) -> int:
        return int(policy.column(0, policy.target)) + int(self.grid.lowest[0])

    def law(self, policy: TargetPolicy, probability: FloatArray | None = None) -> FloatArray:
        """Mass of every return; under another kernel of the same structure where its `probability` is given."""
        mdp = self.mdp
        kernel = mdp.probability if probability is None else probability
        found = law_of_needs(
            mdp.row_start, mdp.successor, kernel, self._gain, mdp.mu, mdp.S, mdp.A, self._lowest_sum,
            self._count_sum, self.grid.lowest, self.grid.size, policy.extra, policy.table(), self._target(policy), self._work,
        )  # fmt: skip
        mass = np.zeros(int(self.grid.size[0]))
        mass[self._first : self._first + found.size] = found
        return mass

    def play(self, policy: TargetPolicy, u: FloatArray, episode: Episode) -> None:
        """One episode from the given uniforms."""
        mdp = self.mdp
        play_needs(
            mdp.row_start, mdp.successor, mdp.probability, mdp.reward, self._gain, mdp.mu, mdp.S, mdp.A, self.grid.lowest,
            self.grid.size, policy.extra, policy.table(), self._target(policy), u, *episode,
        )  # fmt: skip


def first_equal_rows(mdp: MDP) -> IntArray:
    """For every row the first row of its stage with the same successors and probabilities."""
    same = np.arange(mdp.row_start.size - 1)
    seen: dict[tuple[int, bytes, bytes], int] = {}
    per_stage = mdp.S * mdp.A
    for q in range(same.size):
        here = slice(int(mdp.row_start[q]), int(mdp.row_start[q + 1]))
        key = (q // per_stage, mdp.successor[here].tobytes(), mdp.probability[here].tobytes())
        same[q] = seen.setdefault(key, q)
    return same
