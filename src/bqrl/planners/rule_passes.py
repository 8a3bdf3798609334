"""Exact passes over rules without memory, the basis of the search in rules.py.

Fix a rule, a terminal cost c of the return, and let d_h(s, g) be the probability of being in state s with the sum g of
rewards before stage h, and C_h(s, g) the expected cost from there on under the rule:

    C_H(s, g) = c(g),    C_h(s, g) = E[ C_{h+1}(s', g + r) ]  under the rule's action.

Another action a at (h, s) changes the cost of the rule by sum_g d_h(s, g) (E_a[ C_{h+1} ] - C_h(s, g)), and d_h does not depend
on the actions of stage h or later. So the best actions of one stage, with all others fixed, are minima of known sums. A pass from
the last stage to the first with updated C never increases the cost; a forward pass then gives the new d. With c(g) = 1{g < x} the
cost is the probability of falling short of x.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bqrl.loops.layout import Moves, Rows
from bqrl.loops.rollout import push_mass
from bqrl.loops.rules import cost_rows, cost_rows_threads, pull_back
from bqrl.loops.threads import run_loop
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray, read_only
from bqrl.mdp.grid import NO_JUMPS, Grid, by_products, row_shift
from bqrl.mdp.model import MDP
from bqrl.policies.convert import average_actions
from bqrl.policies.forward import expected_rewards, stage_masses, sums_of
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.target import TargetPolicy

MAX_PASSES = 600  # backward passes of one search
MAX_WORK = 3e9  # elementary steps of one search, unless MIN_PASSES passes need more
MIN_PASSES = 12

Choose = Callable[[int, FloatArray, FloatArray, FloatArray, IntArray], IntArray]


class RulePasses:
    """The passes of one problem on one grid, and `left`, the elementary steps that the search may still make."""

    def __init__(
        self, mdp: MDP, grid: Grid, guide: TargetPolicy | None, tick: Callable[[int], None] | None = None
    ) -> None:
        self.mdp, self.grid, self.tick = mdp, grid, tick
        self.sums = sums_of(mdp, grid)
        self.moves = [self.sums.moves(h) for h in range(mdp.H)]
        self.allowed: BoolArray = np.stack([mdp.stage(h).available for h in range(mdp.H)])
        shares = self.allowed / np.maximum(self.allowed.sum(axis=2, keepdims=True), 1)
        averaged, alone = average_actions(mdp, shares), MarkovPolicy(np.zeros((mdp.H, mdp.S), np.int64))
        anyone = [mass for _, mass in stage_masses(averaged, alone, grid, self.sums)]
        self.low = [(mass > 0.0).argmax(axis=1) for mass in anyone]  # the sums that a state can have under any rule
        self.high = [np.where(m.any(axis=1), m.shape[1] - (m[:, ::-1] > 0.0).argmax(axis=1), 0) for m in anyone]
        self.values = self.sums.values(mdp.H)
        self.possible: IntArray = np.flatnonzero(anyone[-1].any(axis=0))  # columns of the possible returns
        # states that a rule does not meet are judged by what chance and the best policy meet there
        if guide is not None:
            guided = stage_masses(mdp, guide, grid, self.sums)
            anyone = [0.5 * (mass + other) for mass, (_, other) in zip(anyone, guided, strict=True)]
        self.anyone = anyone
        self.rewards = [mdp.discount**h * expected_rewards(mdp, h) for h in range(mdp.H)]
        self.dense = [by_products(mdp, grid, mdp.stage(h)) for h in range(mdp.H)]
        self._work = [self._stage_work(h) for h in range(mdp.H)]
        cells = sum(mass.size for mass in anyone) + 5_000 * mdp.H  # a stage costs some time even if it is small
        fast = sum(work // 8 if dense else work for work, dense in zip(self._work, self.dense, strict=True))
        self._forward, self._backward = 2 * cells + sum(self._work) // mdp.A, 4 * cells + fast
        self.left = float(min(MAX_PASSES * self._backward, max(MIN_PASSES * self._backward, MAX_WORK)))

    def _stage_work(self, h: int) -> int:
        """Return the number of elementary steps of a stage of a backward pass."""
        outcomes = np.diff(self.mdp.stage(h).row_start[:: self.mdp.A])
        return int((outcomes * (self.high[h] - self.low[h])).sum())

    def _spend(self, work: int) -> None:
        self.left -= work
        if self.tick is not None:
            self.tick(max(0, int(self.left)))

    def masses(self, actions: IntArray) -> list[FloatArray]:
        """Return the probability (S, sums) of state and sum before each stage and at the end under a rule."""
        self._spend(self._forward)
        found = [self.mdp.mu[:, None].copy()]
        for h in range(self.mdp.H):
            stage, mass = self.mdp.stage(h), found[-1]
            found.append(np.zeros((self.mdp.S, self.sums.count(h + 1))))
            rows = Rows(stage.row_start, stage.successor, stage.probability)
            markov = actions[h], np.zeros(mass.shape[1], np.int64)  # the action does not depend on the sum
            push_mass(rows, self.moves[h], *markov, mass, found[-1], (0, found[-1].shape[1]), True)
        return found

    def mean(self, actions: IntArray, masses: list[FloatArray]) -> float:
        """Return the mean return of a rule."""
        states = np.arange(self.mdp.S)
        paid = (m.sum(axis=1) @ r[states, a] for m, r, a in zip(masses, self.rewards, actions, strict=False))
        return float(f"{sum(paid):.12g}")  # equal means must tie

    def improve(self, actions: IntArray, masses: list[FloatArray], cost: FloatArray, choose: Choose) -> IntArray:
        """Return a rule from one pass from the last stage to the first.

        choose(h, costs, means, met, after) returns the actions of stage h: costs[0] (S, A) are the costs weighted with the
        masses of the rule and costs[1] with those of anyone, `means` the mean remaining returns, `met` the probabilities of
        the states, and `after` the actions chosen for the next stage.
        """
        self._spend(self._backward)
        S, found = self.mdp.S, actions.copy()
        after, value = np.broadcast_to(cost, (S, cost.size)).copy(), np.zeros(S)
        for h in range(self.mdp.H - 1, -1, -1):
            rows, moves, source, expected = self._rows(h, after, value)
            costs = np.zeros((2, S, self.mdp.A))
            arguments = rows, moves, masses[h], self.anyone[h], source, self.low[h], self.high[h], costs
            run_loop(0 if self.dense[h] else self._work[h], cost_rows, cost_rows_threads, *arguments)
            means = self.rewards[h] + expected.reshape(S, -1)
            following = found[min(h + 1, self.mdp.H - 1)]
            found[h] = choose(h, costs, means, masses[h].sum(axis=1), following)
            after = np.zeros(masses[h].shape)
            pull_back(rows, moves, found[h], source, self.low[h], self.high[h], after)
            value = means[np.arange(S), found[h]]
        return found

    def _rows(self, h: int, after: FloatArray, value: FloatArray) -> tuple[Rows, Moves, FloatArray, FloatArray]:
        """Return the rows of a stage, their moves, what they average, and the expected `value` of the successor of each row.

        Dense rows are multiplied first; then each has one outcome.
        """
        stage, rows = self.mdp.stage(h), self.mdp.S * self.mdp.A
        listed = np.flatnonzero(np.diff(stage.row_start))
        if self.dense[h]:
            product = self.mdp.dense(h) @ np.column_stack([after, value])
            start = np.concatenate(([0], np.cumsum(np.diff(stage.row_start) > 0)))
            moves = Moves(row_shift(self.mdp, self.moves[h], h)[listed], NO_JUMPS)
            rows_of_products = Rows(*map(read_only, (start, listed.astype(np.int32), np.ones(listed.size))))
            return rows_of_products, moves, product, product[:, -1]
        expected = np.zeros(rows)
        expected[listed] = np.add.reduceat(stage.probability * value[stage.successor], stage.row_start[listed])
        return Rows(stage.row_start, stage.successor, stage.probability), self.moves[h], after, expected
