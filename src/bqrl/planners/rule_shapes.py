"""The kinds of rules without memory among which rules.py searches, each with its local search for one terminal cost.

    stage-state   an action per stage and state: a pass chooses every action of a stage anew
    threshold     per stage, actions that never fall (or never rise) along an order of the states: the best such choice of a
                  stage is found by dynamic programming along the order
    state         one action per state for all stages: single changes, evaluated exactly, the most promising ones first

Every search returns a rule whose cost is not above that of the rule with which it began.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from bqrl.checks import bad_value
from bqrl.loops.rules import monotone_choice
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.planners.rule_passes import RulePasses

TIE_TOL = 1e-13  # costs whose relative difference is at most this tie
COST_TOL = 1e-13  # smaller decreases of the cost, relative to the largest cost, do not count
MAX_ROUNDS = 40  # passes of one search
STALE = 3  # passes without a decrease after which a search ends


class StageState:
    """Rules with an action per stage and state; the other kinds restrict these."""

    def __init__(self, passes: RulePasses) -> None:
        self.passes, self.mdp = passes, passes.mdp
        self.size = max(1.0, max(float(np.abs(r).max()) for r in passes.rewards))
        self.free: BoolArray = passes.allowed
        self.anyone = np.stack([mass.sum(axis=1) for mass in passes.anyone[:-1]])  # (H, S)

    def fit(self, actions: IntArray) -> IntArray:
        """Return the actions, with an available one where they have none."""
        given = np.take_along_axis(self.free, actions[:, :, None], axis=2)[:, :, 0]
        return np.where(given, actions, self.free.argmax(axis=2))

    def kick(self, actions: IntArray, share: float, rng: np.random.Generator) -> IntArray:
        """Return the rule with random actions in about this share of the cells."""
        drawn = np.argmax(rng.random(self.free.shape) * self.free, axis=2)
        return self.fit(np.where(rng.random(actions.shape) < share, drawn, actions))

    def descend(
        self, actions: IntArray, cost: FloatArray, goal: float = -np.inf, *, polish: bool = False
    ) -> tuple[IntArray, list[FloatArray]]:
        """Return the rule after passes until nothing changes; with `polish`, ties go to the mean, then to fewer changes."""
        choose = self._settle if polish else self._explore
        masses = self.passes.masses(actions)
        value, least, stale = float(masses[-1].sum(axis=0) @ cost), np.inf, 0
        slack = COST_TOL * float(np.abs(cost).max())
        for _ in range(MAX_ROUNDS):
            stale = 0 if value < least - slack else stale + 1
            least = min(value, least)
            if value < goal or stale > STALE or self.passes.left <= 0.0:
                break
            self.current = actions
            found = self.passes.improve(actions, masses, cost, choose)
            if np.array_equal(found, actions):
                break
            actions, masses = found, self.passes.masses(found)
            value = float(masses[-1].sum(axis=0) @ cost)
        return actions, masses

    def _explore(self, h: int, costs: FloatArray, means: FloatArray, met: FloatArray, after: IntArray) -> IntArray:
        """Break ties by the costs of anyone's masses, then by the mean, then keep the action."""
        return self._choose(h, costs[0], costs[1], -means, self.current[h], met)

    def _settle(self, h: int, costs: FloatArray, means: FloatArray, met: FloatArray, after: IntArray) -> IntArray:
        """Break ties by the mean, in states that the rule never meets after the costs of anyone's masses, then by `after`."""
        return self._choose(h, costs[0], np.where(met[:, None] > 0.0, 0.0, costs[1]), -means, after, met)

    def _choose(
        self, h: int, first: FloatArray, second: FloatArray, third: FloatArray, kept: IntArray, met: FloatArray
    ) -> IntArray:
        """Return per state the action that is least in the three criteria, in their order; then `kept`."""
        open_to = self.free[h]
        for criterion, slack in ((first, 0.0), (second, 0.0), (third, 1e-12 * self.size)):
            masked = np.where(open_to, criterion, np.inf)
            least = masked.min(axis=1, keepdims=True)
            open_to = open_to & (masked <= least + TIE_TOL * np.abs(least) + slack)
        stays = np.take_along_axis(open_to, kept[:, None].astype(np.int64), axis=1)[:, 0]
        return np.where(stays, kept, open_to.argmax(axis=1))


class Threshold(StageState):
    """Rules whose actions never fall along the order of the states; `actions` is the order of the actions, falling or rising."""

    def __init__(self, passes: RulePasses, states: IntArray, actions: IntArray) -> None:
        super().__init__(passes)
        self.actions = actions
        choices = passes.allowed.sum(axis=2)
        decides = passes.mdp.reachable[:-1] & (choices > 1)  # a state without a choice breaks no order
        self.order = [states[decides[h][states]] for h in range(self.mdp.H)]
        equal, row = np.zeros((1, self.mdp.S, self.mdp.A)), np.zeros(self.mdp.S, np.int64)
        blocked = (h for h in range(self.mdp.H) if not self._monotone(h, equal, np.ones(1), row))
        self.blocked = next(blocked, None)  # the first stage at which the available actions allow no threshold

    def fit(self, actions: IntArray) -> IntArray:
        """Return the monotone actions that differ least from the given ones, states weighted by their probability."""
        found = super().fit(actions)
        for h in range(self.mdp.H):
            differ = (np.arange(self.mdp.A) != found[h][:, None]) * (self.anyone[h][:, None] + 1e-9)
            self._monotone(h, differ[None], np.full(1, 1e-15), found[h])
        return found

    def _choose(
        self, h: int, first: FloatArray, second: FloatArray, third: FloatArray, kept: IntArray, met: FloatArray
    ) -> IntArray:
        found: IntArray = super()._choose(h, first, second, third, kept, met)  # for states without a choice
        weight = (met + 1e-6 * self.anyone[h])[:, None]
        costs = np.stack([first, second, weight * third, (np.arange(self.mdp.A) != kept[:, None]).astype(np.float64)])
        scale = np.abs(costs[:3]).max(axis=2).sum(axis=1)
        self._monotone(h, costs, np.append(1e-13 * scale, 0.5), found)
        return found

    def _monotone(self, h: int, costs: FloatArray, tolerance: FloatArray, out: IntArray) -> bool:
        """Fill in the best monotone actions of a stage, where states have a choice; return whether there are any."""
        order, ranked = self.order[h], np.ascontiguousarray(costs[:, :, self.actions])
        allowed, chosen = np.ascontiguousarray(self.free[h][:, self.actions]), np.zeros(self.mdp.S, np.int64)
        found = bool(monotone_choice(order, ranked, allowed, tolerance, chosen))
        out[order] = self.actions[chosen[order]]
        return found


class State(StageState):
    """Rules with one action per state for all stages."""

    def __init__(self, passes: RulePasses) -> None:
        super().__init__(passes)
        met = self.mdp.reachable[:-1, :, None]
        always: BoolArray = np.all(passes.allowed | ~met, axis=0)
        stuck = np.flatnonzero(~always.any(axis=1))
        if stuck.size:
            rule = (
                f"be 'stage-state' here, because no action is available in state {self.mdp.state_label(int(stuck[0]))}"
            )
            raise bad_value("rule", "state", f"{rule} at all stages")
        self.free = np.broadcast_to(always, passes.allowed.shape)

    def fit(self, actions: IntArray) -> IntArray:
        """Return per state the action that has the most weight over the stages."""
        votes = np.zeros((self.mdp.S, self.mdp.A))
        for h in range(self.mdp.H):
            np.add.at(votes, (np.arange(self.mdp.S), actions[h]), self.anyone[h] + 1e-12)
        return np.tile(np.where(self.free[0], votes, -1.0).argmax(axis=1), (self.mdp.H, 1))

    def kick(self, actions: IntArray, share: float, rng: np.random.Generator) -> IntArray:
        """Return the rule with random actions in about this share of the states."""
        drawn = np.argmax(rng.random(self.free[0].shape) * self.free[0], axis=1)
        return np.tile(np.where(rng.random(self.mdp.S) < share, drawn, actions[0]), (self.mdp.H, 1))

    def descend(
        self, actions: IntArray, cost: FloatArray, goal: float = -np.inf, *, polish: bool = False
    ) -> tuple[IntArray, list[FloatArray]]:
        """Return the rule after single changes, each evaluated exactly, until none decreases the cost or the work is done."""
        masses = self.passes.masses(actions)
        value, mean = float(masses[-1].sum(axis=0) @ cost), self.passes.mean(actions, masses)
        slack, moved = COST_TOL * float(np.abs(cost).max()), True
        while moved and value >= goal and self.passes.left > 0.0:
            moved = False
            for s, a in self._promising(actions, masses, cost):
                if a == actions[0, s]:
                    continue
                tried = actions.copy()
                tried[:, s] = a
                there = self.passes.masses(tried)
                cheaper, richer = float(there[-1].sum(axis=0) @ cost), self.passes.mean(tried, there)
                less = cheaper < value - slack
                if less or (cheaper <= value and richer > mean + 1e-12 * self.size):
                    actions, masses, value, mean, moved = tried, there, cheaper, richer, True
                if value < goal or self.passes.left <= 0.0:
                    break
        return actions, masses

    def _promising(self, actions: IntArray, masses: list[FloatArray], cost: FloatArray) -> Sequence[tuple[int, int]]:
        """Return states and actions by the first-order change of the cost, the sum of the changes of single stages."""
        change, states = np.zeros((self.mdp.S, self.mdp.A)), np.arange(self.mdp.S)

        def gather(h: int, costs: FloatArray, means: FloatArray, met: FloatArray, after: IntArray) -> IntArray:
            kept: IntArray = actions[h]
            change[:] += costs[0] - costs[0][states, kept][:, None]
            return kept

        self.passes.improve(actions, masses, cost, gather)
        usable = self.free[0] & np.any(self.mdp.reachable[:-1, :, None], axis=0)
        listed = np.argwhere(usable)
        ranked = listed[np.argsort(change[usable], kind="stable")]
        return [(int(s), int(a)) for s, a in ranked]
