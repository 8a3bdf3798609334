"""Robust plans for the objectives that need no search over buffers: the mean, the entropic value, a chance, utilities.

Each row of the kernel lies in an l1 ball (see uncertain.py). The mean and the entropic value have a recursion on values,

    V_h(s) = max_a min over the ball of phi( r + gamma V_{h+1}(s') ),

where phi is the mean or the certainty equivalent. Both rise with every value, so the worst law of a row depends on the order
of its values alone, and V_0 is a guarantee for every kernel of the balls. The other objectives are means of an increasing
function of the return: one sweep over needs, in which every expectation is the worst of its ball, gives the policy whose worst
mean is best, against kernels that may depend on the need; this only lowers the value. A chance is the function 1{g >= x}, and

    (1 - w) E G + w CVaR_tau(G)  =  max_z E u_z(G),    u_z(g) = (1 - w) g + w (z - (z - g)^+ / tau),

where every z gives a guarantee; a few z are tried, then those next to the best one.

The law of the first state may also be off by a mass `start_error`: the best first states then give it to the lowest return.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Annotated, Any

import numpy as np

from bqrl.checks import bad_value, number
from bqrl.laws.law import size_of
from bqrl.laws.objectives import Mean, Objective
from bqrl.loops.ball import worst_rows
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.find_grid import distinct_rewards, lattice, rounded_grid
from bqrl.mdp.grid import Lattice
from bqrl.mdp.model import MDP
from bqrl.planners.chance import Chance, plan_chance
from bqrl.planners.entropic import Entropic, certainty_equivalent, plan_entropic
from bqrl.planners.evaluate import BRACKET_POINTS, law_bracket
from bqrl.planners.expected import best_values, plan_mean
from bqrl.planners.facts import Guaranteed
from bqrl.planners.options import MaxBytes, Points, one_of
from bqrl.planners.plan import Plan
from bqrl.planners.room import MAX_BYTES, check_memory
from bqrl.planners.sweep import ROBUST, Sweep, rounding_error
from bqrl.planners.terminal import MeanCVaR, Utility, cost_sweep, plan_mean_cvar, plan_utility
from bqrl.planners.uncertain import half_radius, per_row, rounding_notes
from bqrl.policies.protocol import Policy

FIRST_TARGETS = 17  # values of z that are tried first

Missing = Annotated[FloatArray | None, per_row]


def share(value: Any, name: str, mdp: MDP) -> None:
    """Check a probability."""
    number(value, name, 0.0, 1.0)


def plan_robust(
    mdp: MDP, objective: Objective, radius: Any, attitude: Annotated[str, one_of("robust")], *, missing: Missing = None,
    start_error: Annotated[float, share] = 0.0, points: Points = None, max_bytes: MaxBytes = MAX_BYTES,
) -> Plan:  # fmt: skip
    """Return the plan with the best guarantee over all kernels of the balls; `missing` is as in `plan_uncertain`."""
    half = half_radius(mdp, radius)
    nominal = _nominal(mdp, objective, points, max_bytes)
    if not half.any() and start_error == 0.0:
        return replace(nominal, attitude=attitude)
    outside = np.zeros_like(half) if missing is None else np.where(half > 0.0, np.reshape(missing, half.shape), 0.0)
    notes: tuple[Any, ...] = ()
    exact = True
    if isinstance(objective, Mean | Entropic):
        value, policy = _backward(mdp, objective, half, outside, start_error)
    else:
        columns = lattice(mdp) if points is None else None
        exact = columns is not None
        columns = rounded_grid(mdp, points or BRACKET_POINTS) if columns is None else columns
        check_memory(mdp, columns, max_bytes, sweeps=2)
        value, policy = _Utilities(mdp, columns, half, outside, start_error).best(objective)
        notes = rounding_notes(columns)
    law, law_upper = law_bracket(mdp, policy)
    own = objective(law)
    value = min(value, own)  # the nominal kernel is in the ball
    bound = nominal.value if nominal.upper is None else nominal.upper
    return Plan(
        objective=objective, planner=nominal.planner, policy=policy, law=law, law_upper=law_upper, value=value,
        upper=max(value, bound), nominal=own, certain=True, exact=exact, attitude=attitude,
        facts=(Guaranteed(value=value, objective=objective), *notes),
    )  # fmt: skip


def _nominal(mdp: MDP, objective: Objective, points: int | None, max_bytes: float) -> Plan:
    """Return the best plan for the kernel of the model, whose value no guarantee exceeds."""
    if isinstance(objective, Mean):
        return plan_mean(mdp, objective)
    if isinstance(objective, Entropic):
        return plan_entropic(mdp, objective)
    plans: dict[type[Objective], Callable[..., Plan]] = {
        Chance: plan_chance, MeanCVaR: plan_mean_cvar, Utility: plan_utility
    }  # fmt: skip
    return plans[type(objective)](mdp, objective, points=points, max_bytes=max_bytes)


def lowest_return(mdp: MDP) -> float:
    """Return a lower bound on every return from every first state."""
    return float(sum(float(mdp.stage(h).reward.min()) * mdp.discount**h for h in range(mdp.H)))


def worst_first(mdp: MDP, worth: FloatArray, error: float, lowest: float) -> tuple[FloatArray, FloatArray]:
    """Return the worst law of the first state and what each is worth: the best first states give a mass `error` to `lowest`."""
    order = np.argsort(-worth, kind="stable")
    given = np.diff(np.minimum(np.cumsum(np.r_[0.0, mdp.mu[order]]), error))
    return np.r_[mdp.mu[order] - given, min(error, 1.0)], np.r_[worth[order], lowest]


# -- recursions on values ----------------------------------------------------------------------------------------------------


def _backward(
    mdp: MDP, objective: Mean | Entropic, half: FloatArray, missing: FloatArray, error: float
) -> tuple[float, Policy]:
    """Return the guarantee and the policy of the recursion."""

    def worths(h: int, value: FloatArray) -> FloatArray:
        stage = mdp.stage(h)
        rows, worth = np.flatnonzero(np.diff(stage.row_start)), np.full(mdp.S * mdp.A, -np.inf)
        gain, worst = stage.reward + mdp.discount * value[stage.successor], np.empty(stage.successor.size)
        worst_rows(stage.row_start, stage.probability, half[h], missing[h], gain, worst)
        worth[rows] = _aggregate(objective, mdp.discount**h, gain, worst, stage.row_start[rows])
        return worth

    size = size_of(distinct_rewards(mdp))
    value, policy = best_values(mdp, worths, size)
    lowest = lowest_return(mdp)
    law, worth = worst_first(mdp, value, error, lowest)
    found = float(_aggregate(objective, 1.0, worth, law, np.zeros(1, np.int64))[0])
    return found - rounding_error(mdp, ball=True) * max(size * mdp.H, abs(lowest)), policy


def _aggregate(
    objective: Mean | Entropic, worth: float, values: FloatArray, law: FloatArray, starts: Any
) -> FloatArray:
    """Return the mean or the certainty equivalent of every row; a unit of this stage is `worth` that many of the first."""
    if isinstance(objective, Entropic):
        return certainty_equivalent(objective.theta * worth, values, law, starts)
    return np.add.reduceat(law * values, starts)


# -- means of increasing functions of the return -------------------------------------------------------------------------------


class _Utilities:
    """Robust sweeps for functions of the return on one grid."""

    def __init__(self, mdp: MDP, columns: Lattice, half: FloatArray, missing: FloatArray, error: float) -> None:
        self.mdp, self.columns, self.half, self.error = mdp, columns, half, error
        self.missing = missing if missing.any() else None
        self.returns, self.lowest = columns.points(0), lowest_return(mdp)

    def best(self, objective: Objective) -> tuple[float, Policy]:
        """Return the guarantee and the policy for an objective."""
        if isinstance(objective, Chance):
            slack = 1e-12 * size_of(self.returns)
            return self._plan(lambda g: (g >= objective.target - slack).astype(np.float64))
        if isinstance(objective, Utility):
            return self._plan(lambda g: np.array([float(objective.f(x)) for x in g.tolist()]))
        assert isinstance(objective, MeanCVaR)
        return self._plan(partial(_mean_cvar, objective, self._target(objective)))

    def _target(self, objective: MeanCVaR) -> float:
        """Return the best z that a search finds: spread over the returns, then closer and closer to the best one."""
        last, found = self.returns.size - 1, dict[int, float]()
        wanted = set(np.linspace(0, last, FIRST_TARGETS).round().astype(int).tolist())
        stride = max(1, last // (FIRST_TARGETS - 1))
        while wanted:
            for i in wanted:
                function = partial(_mean_cvar, objective, float(self.returns[i]))
                found[i] = self._value(function, self._sweep(function, policy=False))
            best = max(found, key=lambda i: found[i])
            wanted = {max(0, best - stride), min(last, best + stride)} - set(found)
            if not wanted and stride > 1:
                stride = (stride + 1) // 2
                wanted = {max(0, best - stride), min(last, best + stride)} - set(found)
                if not wanted and stride > 1:
                    stride, wanted = 1, {max(0, best - 1), min(last, best + 1)} - set(found)
        return float(self.returns[best])

    def _plan(self, function: Callable[[FloatArray], FloatArray]) -> tuple[float, Policy]:
        done = self._sweep(function, policy=True)
        return self._value(function, done), done.policy(float(self.returns[-1]))

    def _scale(self, function: Callable[[FloatArray], FloatArray]) -> tuple[FloatArray, float]:
        """Return the function at every return, and its range."""
        worth = function(self.returns)
        if not np.isfinite(worth).all() or np.any(np.diff(worth) < 0.0):
            i = int(np.argmax(~np.isfinite(worth) | (np.diff(worth, append=worth[-1]) < 0.0)))
            got = f"{worth[i]:g} at the return {self.returns[i]:g}" + (
                f" and {worth[i + 1]:g} at {self.returns[i + 1]:g}" if i + 1 < worth.size else ""
            )
            rule = "be finite and never fall with the return for a robust plan, as the worst kernel follows the order of returns"
            raise bad_value("f", function, rule, got)
        return worth, float(worth[-1] - worth[0]) or 1.0

    def _sweep(self, function: Callable[[FloatArray], FloatArray], *, policy: bool) -> Sweep:
        """Return the sweep of costs in [0, 1] for the highest return as target: how far the function is below its maximum."""
        worth, scale = self._scale(function)
        cost = np.ascontiguousarray((worth[-1] - worth[::-1]) / scale)
        return cost_sweep(
            self.mdp, self.columns, cost, half=self.half, sense=ROBUST, missing=self.missing, policy=policy,
            keep=self.error > 0.0,
        )  # fmt: skip

    def _value(self, function: Callable[[FloatArray], FloatArray], done: Sweep) -> float:
        """Return the mean of the function that a sweep proves."""
        worth, scale = self._scale(function)
        column, cost = self.returns.size - 1, float(done.root[self.returns.size - 1])
        if self.error > 0.0:
            assert isinstance(done.values, tuple)
            missed = (worth[-1] - float(function(np.array([self.lowest]))[0])) / scale
            law, costs = worst_first(self.mdp, -done.values[0][:, column], self.error, -max(missed, 1.0))
            cost = -float(law @ costs)
        if cost > 0.0:
            cost += rounding_error(self.mdp, ball=True)
        return max(float(worth[-1]) - scale * cost, float(worth[0]) if self.error == 0.0 else -np.inf)


def _mean_cvar(objective: MeanCVaR, z: float, returns: FloatArray) -> FloatArray:
    """Return u_z of every return."""
    w = objective.weight
    return (1.0 - w) * returns + w * (z - np.maximum(z - returns, 0.0) / objective.tau)
