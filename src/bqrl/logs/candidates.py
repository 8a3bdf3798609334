"""Several policies that keep one promise: the choice of the one that is worth most in the empirical model.

The robust plan has the highest promise x of all policies, but it plans for the worst kernel and for nothing beyond x, so that
it may be poor in the model that the log suggests. Other policies may be proven to keep x as well: the plug-in plan, the most
frequent actions of the log, and robust plans for higher targets and smaller radii. Each is evaluated against every kernel of
the balls (planners/worst_case.py), and of those that keep x the one with the highest objective in the empirical model wins.

No further union bound is needed: with the stated confidence all rows of the true kernel lie in the balls at once, and on that
event every value that is proven for all kernels of the balls holds, for all policies and targets, however they were chosen.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from bqrl.laws.law import Law
from bqrl.laws.objectives import Objective
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.find_grid import rounded_grid
from bqrl.mdp.model import MDP
from bqrl.planners.evaluate import Limits, law_bracket
from bqrl.planners.sweep import ROBUST, best_column, rounding_error, sweep
from bqrl.planners.worst_case import FixedPolicy, fixed_policy
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.protocol import Policy
from bqrl.policies.stochastic import StochasticPolicy
from bqrl.policies.target import TargetPolicy

ROBUST_PLAN, PLUG_IN = "robust plan", "plug-in plan"
USUAL, BETWEEN = "most frequent logged actions", "less cautious plan"
SCALES = (1.0, 0.5, 0.25)  # of the radii, for plans between the robust one and the plug-in plan
TARGETS = 512  # of a finer grid, the targets of such plans are searched up to this resolution


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Set:
    """The kernels that a promise must hold for, and the level that remains for them."""

    mdp: MDP
    half: FloatArray  # (H, S*A)  half the radii
    missing: FloatArray | None  # (H, S*A)
    level: float
    points: int | None = None  # size of rounded grids where exact ones take too long

    def promise_of(self, policy: Policy) -> float:
        """Return the highest return that a policy is proven to reach, -inf if there is none."""
        fixed = self._fixed(policy)
        low, high = -1, fixed.returns.size
        while high - low > 1:  # the worst-case shortfall grows with the target
            i = (low + high) // 2
            low, high = (i, high) if self._reaches(fixed, float(fixed.returns[i])) else (low, i)
        return float(fixed.returns[low]) if low >= 0 else -np.inf

    def keeps(self, policy: Policy, target: float) -> bool:
        """Return whether a policy is proven to reach a target."""
        return self._reaches(self._fixed(policy), target)

    def law_of(self, policy: Policy) -> tuple[Law, Law | None]:
        """Return the law in the empirical model, or a proven lower and a proven upper one."""
        if self.points is None:
            return law_bracket(self.mdp, policy)
        return law_bracket(self.mdp, policy, Limits(points=self.points, max_points=0, max_set=0))

    def _fixed(self, policy: Policy) -> FixedPolicy:
        """Return a policy over states and sums."""
        rounds = self.points is not None and isinstance(policy, MarkovPolicy | StochasticPolicy)
        return fixed_policy(self.mdp, policy, rounded_grid(self.mdp, self.points or 0) if rounds else None)

    def _reaches(self, fixed: FixedPolicy, target: float) -> bool:
        """Return whether the largest probability of missing a target is below the level, rounding errors included."""
        (short,) = fixed.worst_costs(self.half, lambda g: (g[..., None] < target).astype(np.float64), self.missing)
        return bool(short == 0.0 or short + rounding_error(self.mdp, ball=True) < self.level)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Choice:
    """A policy that keeps the promise, with its law in the empirical model."""

    name: str
    policy: Policy
    law: Law
    law_upper: Law | None = None


def usual_actions(mdp: MDP, tries: IntArray) -> MarkovPolicy:
    """Return the most frequent action of the log in every state, the first available one where the log shows none."""
    counts = np.broadcast_to(np.where(mdp.available, tries, -1), (mdp.H, mdp.S, mdp.A))
    return MarkovPolicy(counts.argmax(axis=2))


def choose(
    kernels: Set, robust: Choice, shortfall: FloatArray, plug_in: Choice, usual: Policy, objective: Objective, least: float
) -> Choice:  # fmt: skip
    """Return the policy that keeps the promise `least` and is worth most in the empirical model; ties by the mean.

    The robust plan keeps it; so may the others. `shortfall` holds the robust values of its sweep.
    """
    best = robust
    for choice in _candidates(kernels, robust, shortfall, plug_in, usual, least):
        worth = objective(choice.law), choice.law.mean()
        if worth > (objective(best.law), best.law.mean()) and kernels.keeps(choice.policy, least):
            best = choice
    return best


def _candidates(
    kernels: Set, robust: Choice, shortfall: FloatArray, plug_in: Choice, usual: Policy, least: float
) -> Iterator[Choice]:  # fmt: skip
    """Yield the policies to compare, those that are often best in the empirical model first."""
    mdp, policy = kernels.mdp, robust.policy

    def choice(name: str, candidate: Policy) -> Choice:
        law, upper = kernels.law_of(candidate)
        return Choice(name=name, policy=candidate, law=law, law_upper=upper)

    yield plug_in
    yield choice(USUAL, usual)
    if not isinstance(policy, TargetPolicy):
        return
    targets = policy.grid.points(0)
    apart = 1 + targets.size // TARGETS
    for scale in SCALES:
        own, values = policy, shortfall
        if scale < 1.0:
            less = None if kernels.missing is None else scale * kernels.missing
            done = sweep(mdp, policy.grid, half=scale * kernels.half, sense=ROBUST, missing=less)
            own, values = done.policy(float(targets[0])), done.root[:-1]
        low = min(int(policy.grid.column(0, least)), targets.size - 1)  # a coarse grid may end below
        high = max(low, int(best_column(np.maximum.accumulate(values), kernels.level)))
        high = min(high + 1, targets.size - 1) if scale == 1.0 else high  # the robust plan itself is known
        while high - low >= apart:  # the highest target whose plan keeps the promise, by bisection
            middle = (low + high + 1) // 2
            if kernels.keeps(_towards(own, float(targets[middle])), least):
                low = middle
            else:
                high = middle - 1
        yield choice(BETWEEN, _towards(own, float(targets[low])))


def _towards(policy: TargetPolicy, target: float) -> TargetPolicy:
    """Return the policy of the same sweep for another target."""
    return TargetPolicy(policy.grid, policy.actions, target, policy.extra)
