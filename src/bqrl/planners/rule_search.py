"""The search for the best rule of one kind: from many starts, with higher and higher targets; see rules.py."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from bqrl.laws.law import Law, reaches, size_of
from bqrl.laws.objectives import Buffered, Quantile
from bqrl.loops.tolerance import MASS_TOL
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.planners.plan import GAP_TOL
from bqrl.planners.rule_shapes import StageState

KICKS = 30  # searches from random changes of the best rule
POOL = 4  # rules that are polished
SHARES = (0.5, 0.25, 0.1)  # of the decisions that a random change concerns
RESERVE = 0.1  # share of the passes that is kept for polishing


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Found:
    """A rule, the start that led to it, and its score: scores compare as tuples, larger is better."""

    actions: IntArray
    start: str
    score: tuple[float, ...]


def search_rules(
    shape: StageState, objective: Quantile | Buffered, starts: Sequence[tuple[str, IntArray]], upper: float,
    share: int = 1,
) -> Found:  # fmt: skip
    """Return the best rule of one kind that was found; the search may use the passes left, divided by `share`."""
    passes, rng = shape.passes, np.random.default_rng(1)
    search = (
        _Buffered(shape, objective, upper) if isinstance(objective, Buffered) else _Quantiles(shape, objective, upper)
    )
    whole = passes.left / share
    later, passes.left = passes.left - whole, whole * (1.0 - RESERVE)
    pool = [search.found(shape.fit(actions), name) for name, actions in starts]
    pool.sort(key=lambda one: one.score, reverse=True)
    for one in list(pool):
        if passes.left > 0.0 and not search.done(pool):
            pool.append(search.climb(one))
    for i in range(KICKS):
        if passes.left > 0.0 and not search.done(pool):
            top = max(pool, key=lambda one: one.score)
            pool.append(search.jump(top, shape.kick(top.actions, SHARES[i % len(SHARES)], rng)))
    passes.left = max(passes.left, 0.0) + whole * RESERVE
    best = sorted(pool, key=lambda one: one.score, reverse=True)[:POOL]
    polished = [search.polish(one) for one in best if one.score[0] >= best[0].score[0]]
    passes.left = max(passes.left, 0.0) + later
    return max([*polished, *best], key=lambda one: (one.score, -_changes(shape, one.actions)))


def _changes(shape: StageState, actions: IntArray) -> int:
    """Return how often the action of a state differs from that of the stage before, where both can occur."""
    met = shape.mdp.reachable[:-1]
    return int(np.count_nonzero((actions[1:] != actions[:-1]) & met[1:] & met[:-1]))


class _Quantiles:
    """Search for the quantile: the score is the index of the return, minus its shortfall, and the mean."""

    def __init__(self, shape: StageState, objective: Quantile, upper: float) -> None:
        self.shape, self.tau = shape, objective.tau
        self.columns = shape.passes.possible
        returns = shape.passes.values[self.columns]
        self.highest = int(np.searchsorted(returns, upper + 1e-9 * size_of(returns), side="right")) - 1

    def found(self, actions: IntArray, start: str, masses: list[FloatArray] | None = None) -> Found:
        masses = self.shape.passes.masses(actions) if masses is None else masses
        below = np.concatenate(([0.0], np.cumsum(masses[-1].sum(axis=0))))[self.columns]
        reached = int(np.count_nonzero(reaches(below, self.tau))) - 1
        score = float(reached), -round(float(below[reached]), 12), self.shape.passes.mean(actions, masses)
        return Found(actions=actions, start=start, score=score)

    def done(self, pool: Sequence[Found]) -> bool:
        return max(one.score[0] for one in pool) >= self.highest

    def cost(self, target: int) -> FloatArray:
        return (np.arange(self.shape.passes.values.size) < self.columns[target]).astype(np.float64)

    def aim(self, one: Found, target: int) -> Found:
        """Return the rule after a search for one target."""
        actions, masses = self.shape.descend(one.actions, self.cost(target), self.tau - MASS_TOL)
        return self.found(actions, one.start, masses)

    def climb(self, one: Found) -> Found:
        """Raise the target after each success, faster and faster, and more slowly after each failure."""
        step = 1
        while one.score[0] < self.highest and self.shape.passes.left > 0.0:
            reached = int(one.score[0])
            target = min(reached + step, self.highest)
            tried = self.aim(one, target)
            one = tried if tried.score > one.score else one
            if tried.score[0] >= target:
                step *= 2
            elif tried.score[0] <= reached and step == 1:
                break
            else:
                step = max(1, step // 2)
        return one

    def jump(self, top: Found, actions: IntArray) -> Found:
        """Search for the return above that of the best rule from other actions."""
        tried = self.aim(replace(top, actions=actions), min(int(top.score[0]) + 1, self.highest))
        return self.climb(tried) if tried.score[0] > top.score[0] else tried

    def polish(self, one: Found) -> Found:
        """Return the rule with the least shortfall nearby, then the largest mean, then few changes between stages."""
        cost = self.cost(int(one.score[0]))
        actions, _ = self.shape.descend(one.actions, cost)
        actions, masses = self.shape.descend(actions, cost, polish=True)
        return self.found(actions, one.start, masses)


class _Buffered:
    """Search for a buffered quantile: the score is its value and the mean."""

    def __init__(self, shape: StageState, objective: Buffered, upper: float) -> None:
        self.shape, self.objective, self.upper = shape, objective, upper
        self.values = shape.passes.values
        self.returns = self.values[shape.passes.possible]
        self.slack = GAP_TOL * size_of(self.returns)

    def found(self, actions: IntArray, start: str, masses: list[FloatArray] | None = None) -> Found:
        masses = self.shape.passes.masses(actions) if masses is None else masses
        value = self.objective(Law(self.values, masses[-1].sum(axis=0)))
        return Found(actions=actions, start=start, score=(value, self.shape.passes.mean(actions, masses)))

    def done(self, pool: Sequence[Found]) -> bool:
        return max(one.score[0] for one in pool) >= self.upper - self.slack

    def costs(self, actions: IntArray) -> list[FloatArray]:
        """Return the costs clip(z - G, 0, z - y) for the quantiles z and y of a rule, and for the neighbours of z."""
        law = Law(self.values, self.shape.passes.masses(actions)[-1].sum(axis=0))
        tau, low = self.objective.tau, self.objective.tau - self.objective.beta
        y = law.quantile(low) if low > 0.0 else float(self.returns[0])
        at = int(np.searchsorted(self.returns, law.quantile(tau) - 1e-12 * size_of(self.returns)))
        near = {min(max(i, 0), self.returns.size - 1): None for i in (at, at + 1, at - 1)}
        levels = [float(self.returns[i]) for i in near]
        return [np.clip(z - self.values, 0.0, max(z - y, 0.0)) for z in levels if z > y] or [
            np.clip(levels[0] - self.values, 0.0, None)
        ]

    def climb(self, one: Found) -> Found:
        """Search with one cost after the other; begin again after every success."""
        better = True
        while better and self.shape.passes.left > 0.0 and not self.done([one]):
            better = False
            for cost in self.costs(one.actions):
                actions, masses = self.shape.descend(one.actions, cost)
                tried = self.found(actions, one.start, masses)
                if tried.score[0] > one.score[0] + 1e-3 * self.slack:
                    one, better = tried, True
                    break
        return one

    def jump(self, top: Found, actions: IntArray) -> Found:
        """Search from other actions."""
        return self.climb(self.found(actions, top.start))

    def polish(self, one: Found) -> Found:
        """Return a rule of at least the same value with a larger mean or fewer changes between stages, if one is near."""
        actions, masses = self.shape.descend(one.actions, self.costs(one.actions)[0], polish=True)
        tried = self.found(actions, one.start, masses)
        return (
            replace(tried, score=max(tried.score, one.score))
            if tried.score[0] >= one.score[0] - 1e-3 * self.slack
            else one
        )
