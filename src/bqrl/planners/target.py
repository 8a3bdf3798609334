"""Quantile planning by following the amount still needed: the exact planner, for every tau at once.

On a finite support Q_tau(G) >= x exactly when P(G < x) < tau. Let W_h(s, n) be the smallest probability, over all
history-dependent policies, of collecting less than n from stage h on:

    W_H(s, n) = 1{n > 0},    W_h(s, n) = min_a sum_{s'} P_h(s' | s, a) W_{h+1}(s', n - r_h(s, a)).

One sweep gives W_0(start, x) for every x, hence the best quantile x*(tau) = max{x : W_0(start, x) < tau} for every tau
together with a policy that acts on (stage, state, remaining need). All terms are nonnegative, so W carries a relative
error of at most gamma = 2 H (k + 2) 2^-53: a target is reached for certain if W (1 + gamma) < tau and missed for certain
if W (1 - gamma) >= tau.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.laws.bracket import LawBracket
from bqrl.laws.functionals import MASS_TOL, Margin, reaches
from bqrl.laws.law import Law
from bqrl.mdp.find_grid import MAX_POINTS, MAX_SET, grid, rounded
from bqrl.mdp.forms import FloatArray
from bqrl.mdp.grid import Grid
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import MarkovPolicy, Policy, QuantileLevelPolicy, TargetPolicy
from bqrl.planners.evaluate import BRACKET_POINTS, evaluate
from bqrl.planners.expected import best_mean, settled
from bqrl.planners.plan import GAP_TOL, TIED, Plan, check_levels
from bqrl.planners.sweep import Sweep, rounding_error, sweep

MAX_BYTES = 4 * 2**30
NEUTRAL_WINS = "the risk-neutral policy has the best value that is proven on this grid"


@dataclass(frozen=True, slots=True, eq=False)
class GuaranteeCurve:
    """The best achievable tau-quantile for every tau, from one sweep; call it with a level.

    On a problem without an exact grid the values are proven lower ones and `upper` gives the proven upper ones.
    """

    mdp: MDP
    points: FloatArray  # (m,) the returns x in increasing order
    shortfall: FloatArray  # (m,) W_0(start, x): the smallest probability of ending below x
    sweep: Sweep
    error: float  # relative rounding error of `shortfall`
    optimistic: tuple[FloatArray, FloatArray] | None = None  # points and shortfalls of the sweep rounded up
    by_choice: bool = False  # bracketed because a size was asked for, though an exact grid fits

    @property
    def exact(self) -> bool:
        """Whether values are exact rather than bracketed."""
        return self.sweep.grid.exact

    def __call__(self, tau: float | FloatArray) -> Any:
        """Best quantile at level(s) tau."""
        levels = np.asarray(tau, dtype=np.float64)
        if np.any(~((levels > 0.0) & (levels < 1.0))):
            raise ValueError(f"tau must lie strictly between 0 and 1, got {tau}")
        best = self.points[self._column(levels)]
        return float(best) if levels.ndim == 0 else best

    def _column(self, tau: Any) -> Any:
        return best_column(self.shortfall, tau)

    def upper(self, tau: float) -> float:
        """Proven upper bound on the best quantile, rounding errors allowed for: the value where that is certain."""
        points, shortfall = self.optimistic or (self.points, self.shortfall)
        open_still = np.flatnonzero(np.maximum.accumulate(shortfall) * (1.0 - self.error) < tau)
        return max(self.ceiling(tau), float(points[open_still[-1]]))

    def ceiling(self, tau: float) -> float:
        """The upper bound where ties are decided as everywhere, by MASS_TOL: a finer grid narrows it to the value."""
        points, shortfall = self.optimistic or (self.points, self.shortfall)
        return max(float(self(tau)), float(points[np.flatnonzero(reaches(np.maximum.accumulate(shortfall), tau))[-1]]))

    def margin(self, tau: float) -> Margin:
        """By how much the best target is safe, tau - W(x*), and the next one out of reach, W(next) - tau.

        Above the highest return nothing is left to reach: the second number is then 1 - tau.
        """
        check_levels(tau, 0.0)
        i = int(self._column(tau))
        following = self.shortfall[i + 1] if i + 1 < self.points.size else 1.0
        return Margin(tau - float(self.shortfall[i]), float(following) - tau)

    def certain(self, tau: float) -> bool:
        """Whether rounding errors cannot have changed the answer at this level."""
        reached = bool(self.shortfall[self._column(tau)] * (1.0 + self.error) < tau)
        return reached and self.upper(tau) == self.ceiling(tau)

    def policy(self, tau: float) -> TargetPolicy:
        """A policy that attains the best quantile at this level."""
        return self.policy_for(float(self(tau)))

    def policy_for(self, target: float) -> TargetPolicy:
        """The policy that falls short of `target` with the smallest probability; ties by the best mean."""
        assert self.sweep.actions is not None
        return TargetPolicy(self.sweep.grid, self.sweep.actions, target, self.sweep.extra)

    def level_policy(self, tau: float) -> QuantileLevelPolicy:
        """A policy of the same quantile in the paper's scalar form; needs a curve made with `keep=True`."""
        if self.sweep.values is None:
            raise ValueError("the level form needs the shortfalls of every stage; make the curve with keep=True")
        return QuantileLevelPolicy(self.policy(tau), self.sweep.values, tau, self.margin(tau).below)

    @property
    def steps(self) -> tuple[FloatArray, FloatArray]:
        """Levels and values of the curve's steps: values[i] is the best quantile for tau in (levels[i], levels[i+1]]."""
        grown = np.maximum.accumulate(self.shortfall)
        last = np.r_[np.diff(grown) > MASS_TOL, True]  # of several targets with one shortfall the highest counts
        return grown[last], self.points[last]

    def __repr__(self) -> str:
        levels, values = self.steps
        kind = "exact" if self.exact else "bracketed"
        return f"GuaranteeCurve({levels.size} steps from {values[0]:.6g} to {values[-1]:.6g}, {kind})"


def best_column(shortfall: FloatArray, tau: Any) -> Any:
    """Return the column of the highest target that level(s) tau reach, given the shortfall of every target.

    The shortfall grows with the target, so the targets reached come first; rounding must not bring one back. A shortfall
    of exactly 0 reaches its target at every level (`reaches`).
    """
    grown = np.maximum.accumulate(shortfall)
    below = np.searchsorted(grown, np.asarray(tau) - MASS_TOL, side="left")
    return np.maximum(below, np.count_nonzero(grown == 0.0)) - 1


def guarantee_curve(
    mdp: MDP,
    *,
    points: int | None = None,
    max_bytes: int = MAX_BYTES,
    keep: bool = False,
    tick: Callable[[int], None] | None = None,
) -> GuaranteeCurve:
    """The best achievable quantile for every tau, with the policies that attain it, from one sweep.

    Without an exact grid (a discount, rewards without a common step) the sweep runs twice, on returns rounded down and
    rounded up to about `points` points, and the curve is a proven bracket.
    """
    exact = exact_grid(mdp, max_bytes)
    if exact is not None and points is None:
        done = sweep(mdp, exact, keep=keep, tick=tick)
        return GuaranteeCurve(mdp, exact.points(0), done.root[:-1], done, rounding_error(mdp))
    size = BRACKET_POINTS if points is None else points
    low, high = rounded(mdp, size), rounded(mdp, size, up=True)
    check_memory(mdp, low, max_bytes)
    done = sweep(mdp, low, keep=keep, tick=tick)
    above = sweep(mdp, high, policy=False)
    optimistic = (high.points(0), above.root[:-1])
    by_choice = exact is not None
    return GuaranteeCurve(mdp, low.points(0), done.root[:-1], done, rounding_error(mdp), optimistic, by_choice)


def plan_target(mdp: MDP, tau: float, *, points: int | None = None, gap: float | None = None, **options: Any) -> Plan:
    """The best policy for the tau-quantile; without an exact grid a bracket, of `points` points or of width `gap`."""
    begun = time.perf_counter()
    tau, _ = check_levels(tau, 0.0)
    curve = guarantee_curve(mdp, points=points, **options)
    if not curve.exact and gap is not None:
        curve = _narrow(mdp, tau, gap, curve, options)
    return plan_from_curve(curve, tau).with_time(time.perf_counter() - begun)


def _narrow(mdp: MDP, tau: float, gap: float, curve: GuaranteeCurve, options: dict[str, Any]) -> GuaranteeCurve:
    while (width := curve.ceiling(tau) - curve(tau)) > gap:
        curve = guarantee_curve(mdp, points=finer(curve.points.size, width / gap), **options)
    return curve


def finer(points: int, excess: float) -> int:
    """Points of the next grid when a bracket is `excess` times wider than wanted: the width shrinks like 1 / points."""
    return int(np.ceil(points * min(max(1.2 * excess, 1.5), 8.0)))


def plan_from_curve(curve: GuaranteeCurve, tau: float) -> Plan:
    """The plan at one level, its policy evaluated in the problem itself."""
    policy: Policy = curve.policy(tau)
    law = evaluate(curve.mdp, policy)
    if curve.exact:
        return _exact_plan(curve, tau, policy, as_law(law))
    proven = curve(tau) if isinstance(law, LawBracket) else as_law(law).quantile(tau)
    neutral, mean_law = risk_neutral(curve.mdp, int(curve.points.size))
    if as_law(mean_law).quantile(tau) > proven:  # a coarse grid may know less of its own policy
        policy, law, proven = neutral, mean_law, as_law(mean_law).quantile(tau)
    value = max(proven, as_law(law).quantile(tau))
    own = f"known within {curve.sweep.grid.error:.3g}" if isinstance(law, LawBracket) else "exact"
    notes = [f"{why_rounded(curve.by_choice)}: bracket on {curve.points.size} points; the policy's own law is {own}"]
    if policy is neutral:
        notes.append(NEUTRAL_WINS)
    certain = curve.certain(tau) and (policy is not neutral or settled(as_law(law), tau, 0.0, curve.error))
    if not certain:
        notes.append(TIED)
    upper = max(curve.upper(tau), value)
    return Plan(
        tau, 0.0, "target", policy, law, value, upper, value, certain, False, notes=tuple(notes),
        details={"curve": curve},
    )  # fmt: skip


def _exact_plan(curve: GuaranteeCurve, tau: float, policy: Policy, law: Law) -> Plan:
    notes: tuple[str, ...] = ()
    value = law.quantile(tau)
    certain = curve.certain(tau) and value == float(curve(tau))
    upper = value if certain else max(value, curve.upper(tau))
    if upper - value <= GAP_TOL * max(1.0, abs(value)):  # what ties are targets that are one up to rounding
        certain = True
    if not certain:
        remedy = "; arithmetic='rational' settles it" if curve.mdp.discount == 1.0 else ""
        notes = (f"{TIED}{remedy}",)
    return Plan(
        tau, 0.0, "target", policy, law, value, upper, value, certain, True, notes=notes, details={"curve": curve}
    )  # fmt: skip


def why_rounded(by_choice: bool) -> str:
    """Why a plan is a bracket."""
    return "a grid of so many points was asked for" if by_choice else "no exact grid of returns fits"


def risk_neutral(mdp: MDP, points: int) -> tuple[MarkovPolicy, Law | LawBracket]:
    """The policy of the best mean, and its law on at least so many points where it has no exact one; kept for later."""
    size = max(points, BRACKET_POINTS)
    key = ("risk-neutral", size)
    if key not in mdp._cache:
        policy = best_mean(mdp)[1]
        mdp._cache[key] = policy, evaluate(mdp, policy, points=size)
    kept: tuple[MarkovPolicy, Law | LawBracket] = mdp._cache[key]
    return kept


def exact_grid(mdp: MDP, max_bytes: int = MAX_BYTES) -> Grid | None:
    """The exact grid of returns, or None where it does not exist or a sweep on it would not fit into `max_bytes`."""
    found = grid(mdp, MAX_POINTS, MAX_SET)
    return found if found is not None and sweep_bytes(mdp, found) <= max_bytes else None


def sweep_bytes(mdp: MDP, columns: Grid) -> int:
    """Memory of one sweep with policy: four value arrays of a stage and the actions of all stages."""
    stage = int(columns.size.max()) * mdp.S * 8
    return 4 * stage + 2 * columns.cells * mdp.S + columns.table_bytes


def check_memory(mdp: MDP, columns: Grid, max_bytes: int) -> None:
    """ValueError where a sweep on these columns would not fit."""
    wanted = sweep_bytes(mdp, columns)
    if wanted > max_bytes:
        raise ValueError(
            f"a sweep over {columns.cells} points and {mdp.S} states needs about {wanted / 2**30:.3g} GiB, "
            f"the limit is {max_bytes / 2**30:.3g} GiB; take fewer points or a shorter horizon, or raise max_bytes"
        )


def as_law(law: Law | LawBracket) -> Law:
    """The law itself, or the proven lower one."""
    return law if isinstance(law, Law) else law.lower
