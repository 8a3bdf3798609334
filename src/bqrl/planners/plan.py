"""The result of a planner: a policy, its value, and a proven bound on its distance from the optimum."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value
from bqrl.display import Charted, format_number, views
from bqrl.laws.law import MASS_TOL, Law, Margin, size_of
from bqrl.laws.objectives import LEVEL_SLACK, Buffered, Objective, Quantile
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.find_grid import ROUNDING
from bqrl.mdp.model import MDP
from bqrl.planners.facts import Fact, Tied
from bqrl.planners.outlook import Outlook, outlook_of
from bqrl.policies.protocol import Policy

FRAGILE = 0.01  # with a smaller margin, moving 1 % of the probability mass to worse outcomes changes the quantile
GAP_TOL = 1e-9  # objective values this close, relative to the size of the returns, are equal


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Plan(Charted):
    """A policy for an objective and what is proven about it; made by `solve` and `Estimate.solve`.

    `print(plan)` shows the numbers, `plan.chart()` the law of the return, and `plan.compare(other)` strategies side by side.
    Values have the unit of the rewards.

    Attributes
    ----------
    objective : Objective
        What is maximised: a record such as `Quantile(0.1)`. `tau` and `beta` are its level and its buffer, if it has them.
    planner : str
        Name of the planner.
    policy : Policy
        The policy.
    law : Law
        Law of its return in the given problem; if `law_upper` is not None, a proven lower bound on that law.
    law_upper : Law or None
        A proven upper bound on the law in first-order dominance; None if `law` is exact.
    value : float
        Objective value of `policy`. If `exact` is False, a proven lower bound on it; if `attitude` is "robust", the
        value that is guaranteed under every kernel in the ball.
    upper : float or None
        Proven upper bound on the optimum over all policies; None if the planner proves none.
    nominal : float
        Objective value of `policy` in the given problem; a proven lower bound on it unless `law_exact`.
    mean_upper : float or None
        Proven upper bound on the mean of all policies with the guarantee of the plan; None unless `solve` was called with
        `at_least` or `margin`.
    certain : bool
        True if floating-point error cannot have changed the answer; shown as `proven`. For errors in the probabilities of
        the model see `fragile`.
    exact : bool
        False if `value` and `upper` are a bracket computed on rounded returns.
    attitude : str
        "nominal", "optimistic" or "robust".
    seconds : float
        Running time of `solve`.
    units : str or None
        Unit of the returns, if the problem has one.
    mdp : MDP or None
        The problem; None if the plan was made by a planner directly instead of `solve`.
    facts : tuple of Fact
        What the planner found, such as `Bracketed(points=1000)`; part of `notes`.
    later : callable or None
        Function of the plan that returns further facts; it is called when `notes` are read.
    details : dict
        Further results that depend on the planner, such as the number of sweeps, the guarantee curve or the frontier.

    Examples
    --------
    >>> import bqrl
    >>> plan = bqrl.solve(bqrl.envs.make("SafeOrRisky"), tau=0.1)
    >>> plan.value, plan.upper, plan.certain
    (12.0, 12.0, True)
    """

    objective: Objective
    planner: str
    policy: Policy
    law: Law
    law_upper: Law | None = None
    value: float
    upper: float | None
    nominal: float
    mean_upper: float | None = None
    certain: bool
    exact: bool
    attitude: str = "nominal"
    seconds: float = 0.0
    units: str | None = None
    mdp: MDP | None = None
    facts: tuple[Fact, ...] = ()
    later: Callable[[Plan], tuple[Fact, ...]] | None = None
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def by_level(self) -> bool:
        """Whether the objective is a quantile, buffered or not: only then has the plan a margin."""
        return isinstance(self.objective, Quantile | Buffered)

    @property
    def tau(self) -> float:
        """Level of the objective; nan if it has none."""
        return float(getattr(self.objective, "tau", math.nan))

    @property
    def beta(self) -> float:
        """Buffer of the objective: 0 for a quantile, nan if it has none."""
        return float(getattr(self.objective, "beta", math.nan))

    @property
    def law_exact(self) -> bool:
        """Whether `law` is exact; otherwise `law` and `nominal` are proven lower bounds."""
        return self.law_upper is None

    @property
    def gap(self) -> float | None:
        """The largest possible distance of `value` from the optimum; None if the planner proves no upper bound."""
        return None if self.upper is None else max(0.0, self.upper - self.value)

    @property
    def policy_margin(self) -> Margin:
        """How far the level can fall and rise before the quantile x of this policy changes.

        These are tau - P(G < x) and P(G <= x) - tau under the policy's own law. `GuaranteeCurve.margin` instead uses,
        for each target, the policy that is best for that target.
        """
        if not self.by_level:
            return Margin(math.nan, math.nan)
        if self.beta == 0.0 and self.attitude == "nominal" and self.law_exact:
            return Margin(self.tau - self.law.shortfall(self.value), float(self.law.cdf(self.value)) - self.tau)
        return self.law.margin(self.tau)

    @property
    def fragile(self) -> bool | None:
        """Whether an error of the probabilities below FRAGILE (0.01) could break the promise.

        The promise x breaks if P(G < x) rises by `policy_margin.below`. It is not fragile if P(G < x) = 0, because then no
        outcome listed in the model falls short. None if the plan has no exact margin: with a buffer, a ball or a bracket.
        """
        if self.beta != 0.0 or self.attitude != "nominal" or not (self.exact and self.law_exact):
            return None
        return bool(self.policy_margin.below < min(FRAGILE, self.tau - MASS_TOL))

    @property
    def mean(self) -> float:
        """Mean return of the policy; exact even if the law is only bracketed."""
        return self.law.exact_mean

    @property
    def notes(self) -> tuple[Fact, ...]:
        """Facts about the result: those of the planner, and those that are computed when they are read."""
        return self.facts if self.later is None else (*self.facts, *self.later(self))

    @property
    def remarks(self) -> list[str]:
        """The `notes` in words, one text per fact."""
        return views().remarks(self) if self.notes else []

    def compare(self, *others: Any, tau: Any = None, below: float | None = None) -> Any:
        """Return this plan beside other strategies of the same problem, as `bqrl.strategies` does.

        Parameters
        ----------
        *others : Plan, or any form of a policy that `evaluate` accepts
            The other strategies.
        tau : float or list of float, optional
            Levels; by default those of the plans, else 0.1.
        below : float, optional
            Adds the chance of a return below this limit.

        Returns
        -------
        Strategies
            One row per strategy; it prints as a table.

        Examples
        --------
        >>> import bqrl
        >>> plan = bqrl.solve("SafeOrRisky", tau=0.1)
        >>> [row["strategy"] for row in plan.compare(bqrl.solve("SafeOrRisky", tau=0.1, planner="expected"), "random").rows()]
        ['target', 'expected', 'random']
        """
        if self.mdp is None:
            raise bad_type("plan", self, "know its problem", "one made by a planner", remedy="make it with solve")
        if not others:
            raise bad_value("others", others, "name at least one other strategy", "none")
        plans = [self, *(one for one in others if isinstance(one, Plan))]
        names, given = iter(plan_names(plans)), {}
        given[next(names)] = self
        for i, one in enumerate(others, start=2):
            given[next(names) if isinstance(one, Plan) else one if isinstance(one, str) else f"strategy {i}"] = one
        levels = list(dict.fromkeys(plan.tau for plan in plans if not math.isnan(plan.tau))) or [0.1]
        return views().strategies(self.mdp, given, levels if tau is None else tau, below=below)

    def outlook(self, mdp: MDP, *, stage: int, state: Any, earned: float = 0.0, drawn: int | None = None) -> Outlook:
        """Return what to do now, the chance of the target from here, and what can still be guaranteed.

        Parameters
        ----------
        mdp, stage, state, earned, drawn
            As for `bqrl.outlook`.

        Returns
        -------
        Outlook

        Examples
        --------
        >>> import bqrl
        >>> mdp = bqrl.envs.make("SafeOrRisky")
        >>> bqrl.solve(mdp, tau=0.1).outlook(mdp, stage=1, state=0).guarantee
        12.0
        """
        target = float(getattr(self.policy, "target", math.nan)) if self.objective.probability else self.value
        return outlook_of(mdp, self.policy, target, self.tau, stage, state, earned, drawn)

    def summary(self) -> dict[str, Any]:
        """Return the numbers of the plan, ready for JSON."""
        names = "planner attitude value upper gap nominal exact law_exact fragile".split()
        levels = {name: getattr(self.objective, name, None) for name in ("tau", "beta")}
        return {"objective": self.objective.label, **levels, **{name: getattr(self, name) for name in names}} | {
            "proven": self.certain, "margin": self.policy_margin._asdict() if self.by_level else None, "mean": self.mean,
            "policy": self.policy.kind, "seconds": self.seconds, "notes": self.remarks,
        }  # fmt: skip

    def rows(self) -> list[dict[str, Any]]:
        """Return one row with the numbers of `summary`."""
        flat = {key: value for key, value in self.summary().items() if key not in ("margin", "notes")}
        margins = {f"margin_{side}": distance for side, distance in self.policy_margin._asdict().items()}
        return [flat | (margins if self.by_level else {})]

    def __str__(self) -> str:
        nominal, least = self.attitude == "nominal", "" if self.law_exact else "at least "
        lines = [f"{self.objective.label} by {self.planner}" + ("" if nominal else f", {self.attitude}")]
        lines.append(
            f"  value    {format_number(self.value, 6, -1)}" + ("" if self.exact else "  (proven lower bound)")
        )
        if self.upper is not None:
            optimal = nominal and equal_values(self.value, self.upper, self.law)
            lines.append(f"  upper    {format_number(self.upper, 6, 1)}" + ("  (optimal)" if optimal else ""))
        if not nominal:
            lines.append(
                f"  nominal  {least}{format_number(self.nominal, 6, -1)}  (the same policy in the model as given)"
            )
        if self.law_exact and self.by_level:
            below, above = self.policy_margin
            lines.append(f"  margin   {below:.3g} below, {above:.3g} above the level {self.tau:g}")
        if self.fragile is not None:
            lines.append(f"  fragile  {f'yes: {fragility(self.policy_margin.below)}' if self.fragile else 'no'}")
        lines.append(f"  proven   {'yes' if self.certain else f'no: {views().remark(Tied())}'}")
        bracketed = "" if self.law_exact else "  (the law of the return is bracketed)"
        lines.append(f"  mean     {self.mean:.6g}{bracketed}")
        lines.append(f"  policy   {self.policy!r}")
        lines.append(f"  time     {self.seconds:.3g} s")
        lines += [f"  note     {note}" for note in self.remarks]
        return "\n".join(lines)

    def __repr__(self) -> str:
        upper = "" if self.upper is None else f", upper={self.upper:.6g}"
        return (
            f"Plan({self.objective.label}: value={self.value:.6g}{upper}, {self.policy.kind} policy by {self.planner})"
        )


def plan_names(plans: Sequence[Plan]) -> list[str]:
    """Return a unique name per plan: its planner, its objective, or both, with a number if these are equal too."""
    planners = [f"{'' if one.attitude == 'nominal' else f'{one.attitude} '}{one.planner}" for one in plans]
    objectives = [one.objective.label for one in plans]
    both = list(map(", ".join, zip(planners, objectives, strict=True)))
    numbered = [f"{i}. {name}" for i, name in enumerate(both, start=1)]
    return next(names for names in (planners, objectives, both, numbered) if len(set(names)) == len(names))


def fragility(below: float) -> str:
    """Return the meaning of a small margin below the level, in words."""
    error = "the smallest error" if below <= MASS_TOL else f"an error of {format_number(below, 2, 1)}"
    return f"{error} in the probability of falling short would change it"


def level_error(law: Law, tau: float, beta: float, gamma: float) -> float:
    """Return a bound on the error of a buffered quantile if the masses have a relative error of `gamma`.

    The bound includes MASS_TOL if tau or tau - beta may have been treated as equal to a step of the distribution function.
    """
    distances = np.abs(law.running[:-1] - np.array([[tau - beta], [tau]]))
    taken = MASS_TOL if np.any(distances <= 2 * MASS_TOL) else 0.0
    return (gamma + taken) * float(np.ptp(_averaged_values(law, tau, beta, gamma))) / beta


def is_steady(law: Law, tau: float, beta: float, gamma: float) -> bool:
    """Return whether errors in the masses change a buffered quantile by at most GAP_TOL times the averaged values' size."""
    return level_error(law, tau, beta, gamma) <= GAP_TOL * size_of(_averaged_values(law, tau, beta, gamma))


def _averaged_values(law: Law, tau: float, beta: float, gamma: float) -> FloatArray:
    """Return the values that a buffered quantile averages, and the neighbours that errors in the masses may add."""
    slack = max(LEVEL_SLACK, 2.0 * gamma)
    first, last = np.searchsorted(law.running, [tau - beta - slack, tau + slack])
    return law.values[first : last + 1]


def equal_values(value: float, upper: float, law: Law) -> bool:
    """Return whether two values differ by at most GAP_TOL times the value or ROUNDING times the largest return."""
    return abs(upper - value) <= max(GAP_TOL * abs(value), ROUNDING * size_of(law.values))
