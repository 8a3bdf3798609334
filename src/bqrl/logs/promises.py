"""What is proven for every kernel of the balls, hence promised with the stated confidence; see `estimate`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn, cast

import numpy as np

from bqrl.checks import bad_type, bad_value, whole
from bqrl.laws.law import Law
from bqrl.laws.objectives import LEVEL_SLACK, Buffered, Objective, Quantile, check_objective, quantile_objective
from bqrl.logs.candidates import Set
from bqrl.logs.limits import coarse_points
from bqrl.logs.observed import Observed, promised_levels
from bqrl.mdp.arrays import FloatArray
from bqrl.planners.chance import Chance
from bqrl.planners.plan import Plan
from bqrl.planners.robust import lowest_return
from bqrl.planners.solve import solve
from bqrl.planners.uncertain import half_radius, robust_value
from bqrl.policies.convert import bind
from bqrl.policies.protocol import Names, Policy
from bqrl.policies.stochastic import StochasticPolicy


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Promises(Observed):
    """What a log shows, and what every kernel of its balls guarantees."""

    _memo: dict[Any, Any] = field(default_factory=dict, repr=False)  # plans and limits by level

    def promise_of(self, policy: Any, tau: Objective | float, beta: float = 0.0) -> float:
        """Return what a policy is proven to guarantee for every kernel of the balls, hence with the estimate's confidence.

        Parameters
        ----------
        policy : Plan, or a policy in any form that `evaluate` accepts
            The policy, which follows names if it comes from another model; one that draws its actions must be a
            `StochasticPolicy` for `estimate.mdp`.
        tau, beta
            As for `solve`: an objective, or a level with its buffer.

        Returns
        -------
        float
            -inf if nothing is promised. Such promises hold for all policies at once, so the policy may be chosen after the
            log was seen.

        Examples
        --------
        >>> import bqrl
        >>> log = {"episode": range(200), "state": [0] * 200, "action": [0] * 200, "reward": [1.0] * 200}
        >>> estimate = bqrl.fit(log, reward_range=(0, 1))
        >>> estimate.promise_of(estimate.plug_in(0.5), tau=0.5)
        1.0
        """
        tau, beta = promised_levels(tau, beta)
        goal = quantile_objective(tau, beta)
        key = "promise of the plug-in plan", goal
        if policy is None or policy is not self._memo.get(("plug-in", goal)):
            return self._proven(self._bound(policy), tau, beta)
        if key not in self._memo:
            self._memo[key] = self._proven(cast(Plan, policy).policy, tau, beta)
        return cast(float, self._memo[key])

    def _bound(self, policy: Any) -> Policy:
        """Return a policy in the numbering of the empirical model."""
        played = policy.policy if isinstance(policy, Plan) else policy
        if isinstance(played, StochasticPolicy):
            return played
        problem, found = bind(self.mdp, policy)
        if problem is not self.mdp:
            raise bad_type(
                "policy", policy, "choose one action in every situation", remedy="or pass a StochasticPolicy"
            )
        return found

    def _proven(self, played: Policy, tau: float, beta: float) -> float:
        """Return what a policy is proven to guarantee for every kernel of the balls."""
        kernels = self._kernels(tau)
        if kernels.level <= (LEVEL_SLACK if beta > 0.0 else 0.0):
            return -math.inf
        if beta == 0.0:
            value = kernels.promise_of(played)
        else:
            inner = min(beta, kernels.level)
            value = robust_value(self.mdp, played, kernels.level, inner, kernels.half, kernels.missing)
            value = self._with_worst(value, inner, beta)
        return -math.inf if self._below_all(value) else value

    def plug_in(self, tau: Objective | float, beta: float = 0.0, **options: Any) -> Plan:
        """Return the plan that treats the empirical model as the true one; its value is not a promise."""
        key = "plug-in", check_objective(tau, beta=beta)
        if options or key not in self._memo:
            plan = solve(self.mdp, key[1], **self._sized(options))
            self._name(plan.policy)
            if options:
                return plan
            self._memo[key] = plan
        return cast(Plan, self._memo[key])

    def without_data(self, tau: Objective | float, beta: float = 0.0) -> float:
        """Return what the declarations guarantee for any observed frequencies: the promise if every radius were 2.

        Only rows that are declared known keep their radius 0. A promise that is not higher uses no data.

        Parameters
        ----------
        tau, beta
            As for `solve`: an objective, or a level with its buffer.

        Returns
        -------
        float
            -inf if nothing is guaranteed.
        """
        key = "without data", check_objective(tau, beta=beta)
        if key not in self._memo:
            self._memo[key] = self._solve_robust(key[1], self._unlearnt, None, self.start_error(), {}).value
        return cast(float, self._memo[key])

    def projection(
        self, tau: Objective | float, factors: tuple[int, ...] = (2, 4, 10), beta: float = 0.0
    ) -> list[dict[str, Any]]:
        """Return the promises that more data with the same frequencies would give; these are projections, not promises.

        Parameters
        ----------
        tau, beta
            As for `solve`: an objective, or a level with its buffer.
        factors : tuple of int
            Multiples of the number of episodes.

        Returns
        -------
        list of dict
            factor, episodes (transitions, for a table of counts), value.
        """
        goal = check_objective(tau, beta=beta)
        return [
            {"factor": more, f"{self._unit}s": self._size * more, "value": self._projected_value(goal, more)}
            for more in (whole(factor, "factors", 1) for factor in factors)
        ]

    def trivial(self, value: float, objective: Objective | None = None) -> bool:
        """Return whether a promise, by default of a quantile, is useless: -inf or what the lowest possible return gives."""
        lowest = 0.0 if objective is not None and objective.probability else -math.inf
        if math.isfinite(self.floor):
            lowest = self.floor if objective is None else objective(Law([self.floor], [1.0]))
        return value == -math.inf or (math.isfinite(lowest) and value <= lowest + 1e-9 * max(1.0, abs(lowest)))

    def _projected_value(self, goal: Objective, more: int) -> float:
        """Return the promise with `more` times as many episodes of the same frequencies."""
        return self._solve_robust(goal, *self._ball(more), self.start_error(more), {}).value

    def _highest(self, goal: Objective) -> float:
        """Return the highest promise of all policies."""
        return self._robust_plan(goal, {}).value

    def _robust_plan(self, goal: Objective, options: dict[str, Any]) -> Plan:
        """Return the robust plan for the kernels of the balls."""
        key = "robust", goal
        if options or key not in self._memo:
            plan = self._solve_robust(goal, *self._ball(1), self.start_error(), options)
            if options:
                return plan
            self._memo[key] = plan
        return cast(Plan, self._memo[key])

    def _solve_robust(
        self, goal: Objective, radius: FloatArray, missing: FloatArray | None, error: float, options: dict[str, Any]
    ) -> Plan:
        """Return the robust plan for these radii, unseen masses and error of the first state."""
        if self._has_misses and not isinstance(goal, Quantile | Chance):
            self._require_range(goal)
        ball = self._sized(options) | {"radius": radius, "attitude": "robust", "missing": missing}
        if not isinstance(goal, Quantile | Buffered):
            asked = goal
            if isinstance(goal, Chance) and self._has_misses:  # unseen outcomes miss also the lowest targets
                asked = Chance(max(goal.target, self.lowest))
            plan = solve(self.mdp, asked, start_error=error, **ball)
            value = plan.value
        elif (level := goal.tau - error) <= (LEVEL_SLACK if goal.beta > 0.0 else 0.0):
            plan, value = self.plug_in(goal, **options), -math.inf
        else:
            inner = min(goal.beta, level)
            plan = solve(self.mdp, level, inner, **ball)
            value = self._with_worst(plan.value, inner, goal.beta)
            value = -math.inf if self._below_all(value) else value
        details = plan.details | {"confidence": self.confidence, "assumptions": self.assumptions, "start_error": error}
        return replace(plan, objective=goal, value=value, nominal=goal(plan.law), attitude="robust", details=details)

    def _require_range(self, goal: Objective) -> NoReturn:
        """Raise the error for an objective that depends on how low unseen rewards are."""
        rule = f"be given to fit for the {goal.label}, because an unseen outcome has no lowest reward otherwise"
        raise bad_value("reward_range", None, rule, "none")

    def _with_worst(self, value: float, inner: float, beta: float) -> float:
        """Return a buffered quantile whose levels below the start error contribute the lowest return."""
        return (inner * value + (beta - inner) * lowest_return(self.mdp)) / beta if beta > inner else value

    def _below_all(self, value: float) -> bool:
        """Return whether a value lies below all returns that are possible without an unseen outcome."""
        return self._has_misses and value < self.lowest - 1e-9 * abs(self.lowest)

    def _ball(self, more: int) -> tuple[FloatArray, FloatArray | None]:
        """Return the radii and the bounds on unseen mass of the rows, shape (H, S, A), with `more` times as many episodes."""
        shape = (self.mdp.H, self.mdp.S, self.mdp.A)
        missing = self.balls.missing(more)
        unseen = None if missing is None else np.broadcast_to(missing, shape)
        return np.broadcast_to(self.balls.radii(more), shape), unseen

    @property
    def _unlearnt(self) -> FloatArray:
        """The radii without any data, shape (H, S, A): 2, and 0 where rows are declared known."""
        return np.broadcast_to(np.where(self.balls.known, 0.0, 2.0), (self.mdp.H, self.mdp.S, self.mdp.A))

    def _kernels(self, tau: float) -> Set:
        """Return the kernels of the balls, with the level that remains for them."""
        radius, missing = self._ball(1)
        half = half_radius(self.mdp, radius)
        outside = None if missing is None else np.where(half > 0.0, missing.reshape(half.shape), 0.0)
        return Set(mdp=self.mdp, half=half, missing=outside, level=tau - self.start_error(), points=self._points)

    def _uses_no_data(self, goal: Objective, value: float) -> bool:
        """Return whether a promise is not higher than the one without data."""
        least = self.without_data(goal)
        return value <= least + 1e-9 * max(1.0, abs(least)) if math.isfinite(least) else value == least

    @property
    def _is_exact(self) -> bool:
        """Whether every row is known exactly, so that there is nothing to learn from a log."""
        return not np.any(self.mdp.available & (self.radii > 0.0))

    def _name(self, policy: Policy) -> None:
        """Let a policy carry the names of states and actions, so that it can be played in another model that has them."""
        if self.mdp.state_names is not None and self.mdp.action_names is not None:
            policy.names = Names(self.mdp.state_names, self.mdp.action_names)

    @property
    def _points(self) -> int | None:
        """The number of points to which returns are rounded because a finer grid would take too long; else None."""
        if "points" not in self._memo:
            self._memo["points"] = coarse_points(self.mdp)
        return cast("int | None", self._memo["points"])

    def _sized(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options of a planner, with a number of points where an exact grid would take too long."""
        return options if "points" in options or self._points is None else options | {"points": self._points}
