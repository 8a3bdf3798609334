"""The policy with the best mean among all policies with a given guarantee, and a proven bound on that mean.

    maximise E[G]  subject to  P(G < x) <= allowed,    allowed = tau - margin * (tau - W_0(start, x)).

x is the guarantee, by default the best one, and `margin` the share of the largest possible margin below the level that the
policy keeps: with 1 it keeps all of it, with 0 none. For a multiplier m >= 0 one sweep maximises E[G] - m P(G < x). Its value
gives an upper bound on the constrained optimum (by Lagrangian duality, also over randomized policies), and its policy is a
candidate. The multiplier moves along the convex hull of the pairs (shortfall, mean) until no new policy appears. Where one
policy does not attain the bound, a random draw between the two policies next to it comes as close as wanted.

Without an exact grid, policies come from returns rounded down, which proves their guarantee, and bounds from returns rounded
up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Annotated, Any

import numpy as np

from bqrl.checks import bad_type, bad_value, exact_text, number
from bqrl.display import format_number
from bqrl.errors import ArgumentError
from bqrl.laws.law import Law, reaches, size_of
from bqrl.laws.objectives import Quantile, check_levels
from bqrl.loops.tolerance import MASS_TOL
from bqrl.mdp.find_grid import rounded_grid
from bqrl.mdp.model import MDP
from bqrl.planners.earned import MetPairs
from bqrl.planners.evaluate import law_bracket
from bqrl.planners.expected import best_mean, is_settled
from bqrl.planners.facts import BestMean
from bqrl.planners.greedy import MEAN_TIE
from bqrl.planners.options import Gap, MaxBytes, Pairs, Points, Tick, one_of, switch
from bqrl.planners.plan import GAP_TOL, Plan
from bqrl.planners.room import MAX_BYTES, Room
from bqrl.planners.sweep import Sweep, rounding_error, sweep
from bqrl.planners.target import GuaranteeCurve, curve_at, plan_from_curve
from bqrl.policies.mixture import MixturePolicy
from bqrl.policies.protocol import Policy

MAX_SWEEPS = 40
SWEEP_SECONDS, STAGE_SECONDS = 3e-9, 1e-4  # of a sweep with one evaluation: per elementary step, and per stage
WORTH_SAYING = 0.02, 1e-3  # gain of a smaller margin: share of the mean that is lost, and of the size of the means
COIN_MARGIN = 1e-9  # a mixture stays this far below the level, because a shortfall of exactly tau misses the guarantee


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """A policy with its law, or a bracket on it, and its distance from the guarantee."""

    policy: Policy
    law: Law
    law_upper: Law | None
    short: float  # P(G < x), or a proven upper bound on it
    mean: float

    @classmethod
    def of(cls, mdp: MDP, policy: Policy, target: float) -> Candidate:
        """Evaluate a policy."""
        law, upper = law_bracket(mdp, policy)
        return cls(policy=policy, law=law, law_upper=upper, short=law.shortfall(target), mean=law.exact_mean)

    @classmethod
    def from_plan(cls, plan: Plan, target: float) -> Candidate:
        """Return the policy of a plan, which has been evaluated."""
        short = plan.law.shortfall(target)
        return cls(policy=plan.policy, law=plan.law, law_upper=plan.law_upper, short=short, mean=plan.mean)

    def score(self, multiplier: float) -> float:
        """Return E[G] - multiplier * P(G < x)."""
        return self.mean - multiplier * self.short


def plan_at_least(
    mdp: MDP, tau: float, *, at_least: Any = None, margin: float | None = None,
    secondary: Annotated[str | None, one_of("mean")] = None, randomized: Annotated[bool | None, switch] = None,
    points: Points = None, gap: Gap = None, pairs: Pairs = None, max_bytes: MaxBytes = MAX_BYTES, tick: Tick = None,
) -> Plan:  # fmt: skip
    """Return the plan with the best mean found among the policies with a guarantee; by default the best guarantee.

    `at_least` is a return, or a share of the best guarantee as text such as "98%". With `randomized` the policy may be a
    mixture of two. `details` holds the best mean of any policy ("best_mean") and the number of sweeps.
    """
    if secondary is not None and (at_least is not None or margin is not None):
        other = "at_least" if margin is None else "margin"
        raise ArgumentError(f"expected one of {other} and secondary='mean', got both; drop secondary", name="secondary")
    share = number(0.0 if margin is None else margin, "margin", 0.0, 1.0)
    tau, _ = check_levels(tau)
    curve = curve_at(mdp, tau, points=points, gap=gap, pairs=pairs, room=Room(max_bytes=max_bytes), tick=tick)
    base = plan_from_curve(curve, tau)
    if share == 1.0 and at_least is None:  # ties in the sweep go to the larger mean
        return replace(base, mean_upper=base.mean if curve.exact else None)
    target = base.value if at_least is None else guarantee_of(at_least, base.value)
    if 0.0 < target - base.value <= GAP_TOL * size_of(base.law.values):  # the best guarantee up to rounding
        target = base.value
    safe = Candidate.from_plan(base, target)
    if at_least is not None and target < base.value:
        safest = Candidate.of(mdp, curve.policy_for(target), target)
        safe = safest if safest.short < safe.short else safe
    if not reaches(safe.short, tau):
        rule = f"be at most {format_number(base.value, 12, -1)}, the best guarantee at level {tau:g}"
        raise bad_value("at_least", at_least, rule, exact_text(target))
    allowed = tau - share * (tau - safe.short)
    found = _search(mdp, curve, target, tau, allowed, safe)
    chosen, bound = found.safe, found.bound
    if randomized and found.free is not None:
        chosen = _mixed(found.safe, found.free, min(allowed, tau - COIN_MARGIN), target)
    value, left = chosen.law.quantile(tau), max(0.0, bound - chosen.mean)
    left = left if left > MEAN_TIE * size_of(chosen.law.values) else 0.0  # a rounding error is no gap
    note = BestMean(
        mean=chosen.mean, gap=left, best=found.best, guarantee=target, margin=share, safest=safe.mean,
        mixture=found.free is not None and not randomized,
    )  # fmt: skip
    certain = base.certain and is_settled(chosen.law, tau, 0.0, rounding_error(mdp))
    return replace(
        base, policy=chosen.policy, law=chosen.law, law_upper=chosen.law_upper, value=value, nominal=value, certain=certain,
        mean_upper=max(bound, chosen.mean), facts=(*base.facts, note),
        details=base.details | {"best_mean": found.best, "sweeps": found.sweeps, "guarantee": target},
    )  # fmt: skip


def smaller_margins(mdp: MDP, plan: Plan, seconds: float) -> dict[float, float]:
    """Return by share of the largest margin, half and none, the mean with the same guarantee: that of `solve(..., margin=share)`.

    Empty if the plan does not keep the largest margin, or if the mean gains little. Where the sweeps take more than about
    `seconds`, half is left out, and the mean with none is the best one found by then, or nan if not one sweep fits.
    """
    curve, fixed = plan.details.get("curve"), {"rule", "guarantee"} & set(plan.details)
    if not isinstance(plan.objective, Quantile) or plan.attitude != "nominal" or fixed:
        return {}
    if not isinstance(curve, GuaranteeCurve) or not isinstance(curve.sweep, Sweep | MetPairs):
        return {}
    safe, tau, best, means = Candidate.from_plan(plan, plan.value), plan.tau, best_mean(mdp)[0], dict[float, float]()
    least = max(WORTH_SAYING[0] * (best - safe.mean), WORTH_SAYING[1] * max(abs(best), abs(safe.mean)))
    if best - safe.mean < least or not reaches(safe.short, tau):
        return {}
    sweeps = 1 if curve.exact else 2  # one more for the bound
    left = int(seconds / (sweeps * (SWEEP_SECONDS * curve.work * mdp.A + STAGE_SECONDS * mdp.H)))
    for share in (0.0, 0.5):
        found = _search(mdp, curve, plan.value, tau, tau - share * (tau - safe.short), safe, min(left, MAX_SWEEPS))
        left -= found.sweeps
        if share == 0.0 and found.safe.mean - safe.mean < least:
            return {} if left > 0 else {0.0: math.nan}
        if left > 0 or share == 0.0:  # otherwise the search for half may have ended early
            means[share] = found.safe.mean
    none = max(means.values())
    return {0.5: means[0.5], 0.0: none} if 0.5 in means else {0.0: none}


def guarantee_of(given: Any, best: float) -> float:
    """Return a guarantee as a number, from a number or from a share of the best guarantee such as "98%"."""
    if not isinstance(given, str):
        return number(given, "at_least")
    text = given.strip().replace(",", "")
    try:
        if not text.endswith("%"):
            return number(float(text), "at_least")
        share = number(float(text[:-1]) / 100.0, "at_least", 0.0, 1.0)
    except ValueError:
        rule = "be a number, or a share of the best guarantee from 0% to 100%"
        raise bad_type("at_least", given, rule, remedy="write e.g. 19800 or 98%") from None
    if best < 0.0:
        text = f"be a number, because the best guarantee {format_number(best)} is negative"
        raise bad_value("at_least", given, text, remedy="a share of it would be more than it")
    return share * best


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The end of a search: the best feasible candidate, the infeasible one beyond it, and the proven bound on the mean."""

    safe: Candidate
    free: Candidate | None  # None if the feasible one is proven to be the best
    bound: float
    best: float  # mean of the risk-neutral policy
    sweeps: int


def _search(
    mdp: MDP, curve: GuaranteeCurve, target: float, tau: float, allowed: float, safe: Candidate, most: int = MAX_SWEEPS
) -> _Found:  # fmt: skip
    """Move the multiplier along the convex hull of the pairs (shortfall, mean) between a feasible and an infeasible policy."""
    limit = allowed + MASS_TOL
    best, neutral = best_mean(mdp)
    free, bound, sweeps, solve = Candidate.of(mdp, neutral, target), best, 0, penalised(mdp, curve, target)

    def feasible(one: Candidate) -> bool:
        return one.short <= limit and bool(reaches(one.short, tau))

    while not feasible(free) and sweeps < most:
        multiplier = max(free.mean - safe.mean, 0.0) / (free.short - safe.short)
        policy, dual = solve(multiplier)
        found = Candidate.of(mdp, policy, target)
        sweeps += 1
        bound = min(bound, dual + multiplier * allowed)
        settled = max(safe.score(multiplier), free.score(multiplier))
        if found.score(multiplier) <= settled + MEAN_TIE * size_of(found.law.values):
            break
        if feasible(found):
            safe = found
        else:
            free = found
    if feasible(free):
        return _Found(safe=free, free=None, bound=best, best=best, sweeps=sweeps)
    exhausted = bound - safe.mean <= MEAN_TIE * size_of(safe.law.values)
    return _Found(safe=safe, free=None if exhausted else free, bound=bound, best=best, sweeps=sweeps)


def penalised(mdp: MDP, curve: GuaranteeCurve, target: float) -> Callable[[float], tuple[Policy, float]]:
    """Return a function of the multiplier m: the policy with the largest E[G] - m P(G < x), and a bound on this maximum."""
    done = curve.sweep
    if isinstance(done, MetPairs):
        pairs = done

        def on_pairs(multiplier: float) -> tuple[Policy, float]:
            def cost(returns: Any) -> Any:
                return multiplier * (returns < target - pairs.slack) - returns

            return pairs.policy(target, cost), -float(pairs.least_costs(cost(pairs.final)[:, None])[0])

        return on_pairs
    columns, high = done.grid, None
    if not curve.exact:
        high = rounded_grid(mdp, max(2, curve.points.size), up=True)

    def on_grid(multiplier: float) -> tuple[Policy, float]:
        cost = np.array([0.0, multiplier])
        found = sweep(mdp, columns, cost, weight=1.0)
        if high is None:
            return found.policy(target), -float(found.root[columns.column(0, target)])
        above = sweep(mdp, high, cost, weight=1.0)
        # The maximum never rises with the target, so a target that is rounded down gives a bound.
        place = max(0, int(np.searchsorted(high.points(0), target, side="right")) - 1)
        return found.policy(target), -float(above.root[place])

    return on_grid


def _mixed(safe: Candidate, free: Candidate, aim: float, target: float) -> Candidate:
    """Return the random draw between two policies whose shortfall is `aim`, or the first if it has more already."""
    share = (aim - safe.short) / (free.short - safe.short)
    if share <= 0.0 or free.mean <= safe.mean:
        return safe
    weights = [1.0 - share, share]
    law = Law.mixture([safe.law, free.law], weights)
    upper = None
    if safe.law_upper is not None or free.law_upper is not None:
        upper = Law.mixture([safe.law_upper or safe.law, free.law_upper or free.law], weights)
    policy = MixturePolicy([safe.policy, free.policy], weights)
    return Candidate(policy=policy, law=law, law_upper=upper, short=law.shortfall(target), mean=law.exact_mean)
