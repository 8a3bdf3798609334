"""`Estimate`: an empirical model with confidence balls, and policies whose promise holds with a stated confidence.

With probability `confidence` every row of the true kernel lies in its l1 ball. On that event the robust sweep proves its
value for every kernel of the balls, hence for the true one:

    W_rob(x) < tau   implies   Q_tau(G) >= x,   for all levels and targets at once.

If the law of the first state is estimated too, it may differ from the frequencies by a mass of at most `start_error`, which
is subtracted from the level: W_rob(x) < tau - start_error.

The policy that wrote the log has a promise of its own, from its own returns, if these are independent (`interval`). Half of
the error probability belongs to it, and the other half to the balls, so that both promises hold at once with the stated
confidence, and the higher one may be chosen after both are seen. If the log is declared adaptive, the old policy has no
promise, and the balls take the whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NoReturn, cast

import numpy as np

from bqrl.checks import bad_value, number, whole
from bqrl.display import Charted, views
from bqrl.errors import ArgumentError, FileFormatError
from bqrl.laws.law import Law
from bqrl.laws.objectives import (
    LEVEL_SLACK,
    Buffered,
    Objective,
    Quantile,
    check_objective,
    quantile_objective,
)
from bqrl.logs.acceptability import Acceptability, acceptability
from bqrl.logs.archive import estimate_arrays, fields
from bqrl.logs.candidates import PLUG_IN, ROBUST_PLAN, Choice, Set, choose, usual_actions
from bqrl.logs.limits import next_target, shares
from bqrl.logs.observed import Observed, promised_levels
from bqrl.logs.posterior import PosteriorDraws, posterior_draws
from bqrl.logs.trials import contradicted
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.files import write_arrays
from bqrl.mdp.outcomes import REWARD
from bqrl.planners.chance import Chance
from bqrl.planners.evaluate import BRACKET_POINTS
from bqrl.planners.facts import (
    Drift,
    Fact,
    Guaranteed,
    LowersPromise,
    NothingToLearn,
    Promised,
    SamePromise,
    UncertainRow,
    UnknownStart,
    UntriedState,
    WorthMore,
)
from bqrl.planners.plan import Plan
from bqrl.planners.robust import lowest_return
from bqrl.planners.solve import solve
from bqrl.planners.uncertain import half_radius, robust_value
from bqrl.policies.protocol import Names, Policy

# Assumptions that mention stages; {} is replaced by the word for a stage.
BY_STAGE = "the next state and the reward depend only on the {}, state and action"
POOLED = "their law is the same in every {}"
MODEL = "model (not its first state and range of rewards)"  # name of the declaration that `gains` removes
INDEPENDENT = "the logged episodes are independent and follow one policy, which you keep"
COMPLETE = "are complete, and none is longer"  # assumptions with these words also concern the old policy
LOWERS = (
    "the promise is higher without it",
    "it allows more outcomes than the data show, and radii grow with their number",
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Estimate(Observed, Charted):
    """A model estimated from logged episodes, with confidence balls; made by `fit`.

    `estimate.solve(tau)` returns a plan whose value is promised with the stated confidence. `limits`, `reason` and `projection`
    show what limits the promise, `gains` what each declaration adds, and `rows()` the visits and radii. `Observed` describes
    the attributes that the log determines: `mdp`, `confidence`, `returns`, `tries`, `assumptions` and others.

    Attributes
    ----------
    refits : mapping of str to callable
        For each declaration, a function that fits the log again without it; empty if the estimate comes from a file.
    events : tuple of ndarray
        Counts of the events of each shared law; empty if rows share no noise or the estimate comes from a file.
    trials : mapping of str to callable
        For each step that may help, such as a further declaration, a function that fits the log as if it had been taken.

    Examples
    --------
    >>> import bqrl
    >>> log = {"episode": range(200), "state": [0] * 200, "action": [0] * 200, "reward": [1.0] * 200}
    >>> estimate = bqrl.fit(log, reward_range=(0, 1))
    >>> estimate.episodes, estimate.solve(tau=0.5).value
    (200, 1.0)
    """

    refits: Mapping[str, Callable[[], Estimate]] = field(default_factory=dict)
    events: tuple[IntArray, ...] = ()
    trials: Mapping[str, Callable[[], Estimate]] = field(default_factory=dict)
    _memo: dict[Any, Any] = field(default_factory=dict, repr=False)  # plans and limits by level

    # -- plans ---------------------------------------------------------------------------------------------------------

    def solve(
        self, objective: Objective | float | None = None, beta: float = 0.0, *, tau: float | None = None,
        at_least: float | None = None, **options: Any,
    ) -> Plan:  # fmt: skip
        """Return the new plan; its `value` is what its policy promises with the estimate's confidence.

        The promise is the highest of all policies, unless `at_least` asks for less. Of several policies that are proven to keep
        it, the plan has the one that is worth most in the empirical model; if every policy keeps it or there is none, the
        plug-in plan. The highest promise may cost much of that worth: a remark then names the plug-in plan and its own promise,
        and `at_least` selects it. You may choose after you see both, because all these promises hold at once.

        The old policy, the one that wrote the log, may promise more: the first of the `remarks` then says so and
        `details["old_promise"]` holds its promise, but `policy` and `value` remain those of the new plan, because a log does not
        tell how to play the old one.

        Parameters
        ----------
        objective : Objective or float
            `Quantile(0.1)`, `CVaR(0.1)`, `Mean()`, `Chance(100)` and so on, as in `bqrl.solve`; a number is the level of a
            quantile, as is `tau`. A `Utility` must never fall with the return.
        beta : float
            Buffer of a level, as in `bqrl.solve`.
        tau : float
            Level of a quantile.
        at_least : float, optional
            A promise that suffices, at most the highest one: the plan is worth most in the empirical model among the policies
            that are proven to keep it. `estimate.old_promise(tau)` asks for no more than the old policy promises. Requires a
            quantile without buffer.
        **options
            Options of the planner, such as `points`.

        Returns
        -------
        Plan
            `value` is the promise, -inf if there is none; the first of the `remarks` states it in words, and
            `nominal` is the policy's value in the empirical model.

        Examples
        --------
        >>> import bqrl
        >>> log = {"episode": range(200), "state": [0] * 200, "action": [0] * 200, "reward": [1.0] * 200}
        >>> bqrl.fit(log, reward_range=(0, 1)).solve(tau=0.5).remarks[0][:65]
        'With 95 % confidence, in half of all episodes you get at least 1,'
        """
        goal = check_objective(objective, tau, beta)
        if at_least is not None and not isinstance(goal, Quantile):
            raise bad_value("at_least", at_least, "be given for a quantile without buffer", goal.label)
        key = goal, None if at_least is None else number(at_least, "at_least")
        if options or key not in self._memo:
            plan = self._new_plan(*key, options)
            if options:
                return plan
            self._memo[key] = plan
        return cast(Plan, self._memo[key])

    def _require_range(self, goal: Objective) -> NoReturn:
        """Raise the error for an objective that depends on how low unseen rewards are."""
        rule = f"be given to fit for the {goal.label}, because an unseen outcome has no lowest reward otherwise"
        raise bad_value("reward_range", None, rule, "none")

    @property
    def _unlearnt(self) -> FloatArray:
        """The radii without any data, shape (H, S, A): 2, and 0 where rows are declared known."""
        return np.broadcast_to(np.where(self.balls.known, 0.0, 2.0), (self.mdp.H, self.mdp.S, self.mdp.A))

    def _new_plan(self, goal: Objective, at_least: float | None, options: dict[str, Any]) -> Plan:
        """Return the plan of `solve`."""
        plan = self._solve_robust(goal, *self._ball(1), self.start_error(), options)
        if at_least is not None and at_least > plan.value:
            highest = "this log promises nothing" if plan.value == -math.inf else f"be at most {plan.value:g}"
            raise bad_value("at_least", at_least, f"{highest}, the highest promise", remedy="lower it")
        plain = plan if self._is_exact else self.plug_in(goal, **options)
        chosen = self._choose(plan, plain, at_least)
        value = plan.value if at_least is None else max(at_least, self.promise_of(chosen.policy, goal))
        facts: list[Fact] = [self._promised(goal, value), *self._open_states()]
        facts += [] if self.drift is None else [Drift(p_value=self.drift)]
        facts += [*self._same_promise(plan, chosen, at_least), *self._worth_more(plan, plain, chosen)]
        facts += self._lowered(goal, plan.value)
        proofs = (note for note in plan.notes if not isinstance(note, Guaranteed))  # the promise replaces it
        self._name(chosen.policy)
        details = plan.details | {"estimate": self, "chosen": chosen.name, "old_promise": self.old_promise(goal)}
        return replace(
            plan, value=value, policy=chosen.policy, law=chosen.law, law_upper=chosen.law_upper, notes=(*facts, *proofs),
            nominal=goal(chosen.law), details=details,
        )  # fmt: skip

    def _choose(self, plan: Plan, plain: Plan, at_least: float | None) -> Choice:
        """Return the policy of the new plan, given the robust plan and the plug-in plan."""
        robust, plug_in = (
            Choice(name=name, policy=one.policy, law=one.law, law_upper=one.law_upper)
            for name, one in ((ROBUST_PLAN, plan), (PLUG_IN, plain))
        )
        if self._is_exact:  # the robust plan is the plug-in plan
            return robust
        if self.trivial(plan.value, plan.objective):
            return plug_in
        if not isinstance(plan.objective, Quantile):  # promises of other policies are proven for quantiles only
            return robust
        least = plan.value if at_least is None else at_least
        return choose(
            self._kernels(plan.tau), robust, plug_in, usual_actions(self.mdp, self.tries), plan.objective, least
        )

    def _kernels(self, tau: float) -> Set:
        """Return the kernels of the balls, with the level that remains for them."""
        radius, missing = self._ball(1)
        half = half_radius(self.mdp, radius)
        outside = None if missing is None else np.where(half > 0.0, missing.reshape(half.shape), 0.0)
        return Set(mdp=self.mdp, half=half, missing=outside, level=tau - self.start_error())

    def promise_of(self, policy: Any, tau: Objective | float, beta: float = 0.0) -> float:
        """Return what a policy is proven to guarantee for every kernel of the balls, hence with the estimate's confidence.

        Parameters
        ----------
        policy : Policy or Plan
            A policy for `estimate.mdp`.
        tau : Quantile, Buffered or float
            The objective, or the level of a quantile in (0, 1).
        beta : float
            Buffer of the level.

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
        played = policy.policy if isinstance(policy, Plan) else policy
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

    def _same_promise(self, plan: Plan, chosen: Choice, at_least: float | None) -> list[Fact]:
        """Return the fact that another policy than the robust plan is handed out."""
        if chosen.name == ROBUST_PLAN:
            return []
        useless = self.trivial(plan.value, plan.objective)
        return [
            SamePromise(
                name=chosen.name, objective=plan.objective, value=plan.objective(chosen.law), robust=plan.objective(plan.law),
                useless=useless, highest=None if at_least is None or useless else plan.value,
            )
        ]  # fmt: skip

    def _worth_more(self, plan: Plan, plain: Plan, chosen: Choice) -> list[Fact]:
        """Return the fact that the plug-in plan is worth more in the empirical model, but promises less; empty if not so."""
        value, least = plan.objective(plain.law), plan.objective(chosen.law)
        if not isinstance(plan.objective, Quantile) or value <= least:
            return []
        promise = self.promise_of(plain, plan.objective)
        if self.trivial(promise):
            return []
        return [WorthMore(objective=plan.objective, value=value, chosen=least, promise=promise)]

    def _lowered(self, goal: Objective, value: float) -> list[Fact]:
        """Return the fact that the declared support lowers the promise, as it may; empty if it does not."""
        if "support" not in self.refits:
            return []
        try:
            without = self.refits["support"]()._projected_value(goal, 1)
        except (ArgumentError, FileFormatError):  # the log cannot be fitted without it
            return []
        if without <= value:
            return []
        return [LowersPromise(declaration="support", objective=goal, value=value, without=without, why=LOWERS[1])]

    def plug_in(self, tau: Objective | float, beta: float = 0.0, **options: Any) -> Plan:
        """Return the plan that treats the empirical model as the true one; its value is not a promise."""
        plan = solve(self.mdp, tau, beta, **options)
        self._name(plan.policy)
        return plan

    def _name(self, policy: Policy) -> None:
        """Let a policy carry the names of states and actions, so that it can be played in another model that has them."""
        if self.mdp.state_names is not None and self.mdp.action_names is not None:
            policy.names = Names(self.mdp.state_names, self.mdp.action_names)

    def without_data(self, tau: Objective | float, beta: float = 0.0) -> float:
        """Return what the declarations guarantee for any observed frequencies: the promise if every radius were 2.

        Only rows that are declared known keep their radius 0. A promise that is not higher uses no data.

        Parameters
        ----------
        tau : Objective or float
            The objective, or the level of a quantile in (0, 1).
        beta : float
            Buffer of the level.

        Returns
        -------
        float
            -inf if nothing is guaranteed.
        """
        key = "without data", check_objective(tau, beta=beta)
        if key not in self._memo:
            self._memo[key] = self._solve_robust(key[1], self._unlearnt, None, self.start_error(), {}).value
        return cast(float, self._memo[key])

    def _uses_no_data(self, goal: Objective, value: float) -> bool:
        """Return whether a promise is not higher than the one without data."""
        least = self.without_data(goal)
        return value <= least + 1e-9 * max(1.0, abs(least)) if math.isfinite(least) else value == least

    def _solve_robust(
        self, goal: Objective, radius: FloatArray, missing: FloatArray | None, error: float, options: dict[str, Any]
    ) -> Plan:
        """Return the robust plan for these radii, unseen masses and error of the first state."""
        if self._has_misses and not isinstance(goal, Quantile | Chance):
            self._require_range(goal)
        ball = options | {"radius": radius, "attitude": "robust", "missing": missing}
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

    def trivial(self, value: float, objective: Objective | None = None) -> bool:
        """Return whether a promise, by default of a quantile, is useless: -inf or what the lowest possible return gives."""
        lowest = 0.0 if objective is not None and objective.probability else -math.inf
        if math.isfinite(self.floor):
            lowest = self.floor if objective is None else objective(Law([self.floor], [1.0]))
        return value == -math.inf or (math.isfinite(lowest) and value <= lowest + 1e-9 * max(1.0, abs(lowest)))

    def _promised(self, goal: Objective, value: float) -> Promised:
        """Return the promise as a fact, with its assumptions."""
        declare, none = "reward_range" if self._has_misses else "", value == -math.inf
        if self.start_error() >= getattr(goal, "tau", math.inf):
            declare = "start"
        return Promised(
            value=value, objective=goal, confidence=self.confidence, episodes=self.episodes, assumptions=self.assumptions,
            no_data=not none and self._uses_no_data(goal, value), start_estimated=self.start_atoms > 0,
            declare=declare if none else "", old=self.old_promise(goal),
            old_assumptions=(INDEPENDENT, *(text for text in self.assumptions if COMPLETE in text)),
        )  # fmt: skip

    def psa(
        self, policy: Any, draws: int = 1000, tau: float | None = None, *, prior: float = 1.0, seed: int | None = 0,
        points: int = BRACKET_POINTS,
    ) -> PosteriorDraws:  # fmt: skip
        """Return the quantile, mean and CVaR of a policy under kernels drawn from the posterior.

        This probabilistic sensitivity analysis is a statement about the posterior, which depends on the prior. It is not the
        promise, and it does not assume the worst.

        Parameters
        ----------
        policy : Plan, or a policy in any form that `evaluate` accepts
            The policy; with a plan of this estimate, the result also says in which share of the draws its promise holds.
        draws : int
            Number of kernels.
        tau : float, optional
            Level of the quantile and the CVaR; by default that of the plan.
        prior : float
            Total weight of the Dirichlet prior per row, spread evenly over its outcomes.
        seed : int or None
            Seed of the draws; None draws a fresh one.
        points : int
            Size of the rounded grid where no exact law fits.

        Returns
        -------
        PosteriorDraws
            One value of each measure per draw, with `rows()`, `chart()` and `sentence`.

        Examples
        --------
        >>> import bqrl
        >>> counts = {"state": [0, 0], "action": [0, 0], "next_state": [0, 0], "count": [98, 2], "reward": [1, 0]}
        >>> estimate = bqrl.fit_counts(counts, horizon=1)
        >>> estimate.psa(estimate.solve(tau=0.2), draws=200).share
        1.0
        """
        return posterior_draws(self, self.events, policy, draws, tau, prior, seed, points)

    def acceptability(
        self, policies: Mapping[str, Any], *, cost: str, effect: str = REWARD, thresholds: Sequence[float], draws: int = 1000,
        prior: float = 1.0, seed: int | None = 0, discounts: Mapping[str, float] | None = None,
    ) -> Acceptability:  # fmt: skip
        """Return how probable it is that each strategy is cost-effective, at several willingness-to-pay thresholds.

        In each model drawn from the posterior, the net benefit of a strategy at a threshold is threshold times its mean effect
        minus its mean cost. The cost-effectiveness acceptability curve is the share of the draws in which a strategy has the
        highest net benefit. Like `psa`, this is a statement about the posterior and not a promise.

        Parameters
        ----------
        policies : dict
            At least two strategies by name: plans, or policies in any form that `evaluate` accepts.
        cost, effect : str
            Names of outcomes of `estimate.mdp`; "reward" is its reward.
        thresholds : sequence of float
            Amounts that one unit of effect is worth, at least 0.
        draws : int
            Number of models.
        prior : float
            Total weight of the Dirichlet prior per row, spread evenly over its outcomes.
        seed : int or None
            Seed of the draws; None draws a fresh one. All strategies are evaluated in the same models.
        discounts : dict, optional
            Discounts of further outcomes by name; see `expected_outcomes`.

        Returns
        -------
        Acceptability
            With `rows()`, `chart()` and `sentence`.

        Examples
        --------
        >>> import bqrl
        >>> counts = {"state": ["s"] * 4, "action": ["old", "old", "new", "new"], "next_state": ["s", "Dead"] * 2}
        >>> years, costs = {"s": 1.0}, {("s", "old"): 0.0, ("s", "new"): 1000.0}
        >>> table = counts | {"count": [60, 40, 90, 10]}
        >>> estimate = bqrl.fit_counts(table, years, horizon=3, absorbing=["Dead"], outcomes={"cost": costs})
        >>> strategies = {"old": "always:old", "new": "always:new"}
        >>> found = estimate.acceptability(strategies, cost="cost", thresholds=[0, 20_000], draws=200)
        >>> [(row["threshold"], row["strategy"], row["probability"]) for row in found.rows() if row["best"]]
        [(0.0, 'old', 1.0), (20000.0, 'new', 1.0)]
        """
        return acceptability(self, self.events, policies, cost, effect, thresholds, draws, prior, seed, discounts)

    # -- what limits the promise -----------------------------------------------------------------------------------------

    def limits(self, tau: Objective | float, top: int = 10) -> list[dict[str, Any]]:
        """Return the rows whose uncertainty costs most, for the lowest target that is not promised.

        Parameters
        ----------
        tau : Quantile, Buffered or float
            The objective, or the level of a quantile in (0, 1).
        top : int
            Number of rows.

        Returns
        -------
        list of dict
            stage (from 1; None if pooled), state, action, visits, radius and `cost`: the row's share of the difference between
            the worst-case and the empirical probability of missing the target. The costs of all rows add up to it.
        """
        tau, _ = promised_levels(tau)
        costs, _, target = self._shares(tau)
        order = np.argsort(-costs, axis=None, kind="stable")[: whole(top, "top", 1)]
        rows = (tuple(map(int, np.unravel_index(q, costs.shape))) for q in order if costs.flat[q] > 0.0)
        radii = self.radii
        return [self._describe(row, radii) | {"cost": float(costs[row]), "target": target} for row in rows]

    def _shares(self, tau: float) -> tuple[FloatArray, FloatArray, float]:
        """Return the costs of rows, the probabilities of states, and the lowest target that is not promised."""
        if tau not in self._memo:
            radius, missing = self._ball(1)
            target = next_target(self.mdp, radius, tau - self.start_error(), missing)
            self._memo[tau] = *shares(self.mdp, radius, target, missing), target
        return cast(tuple[FloatArray, FloatArray, float], self._memo[tau])

    def reason(self, tau: Objective | float, stage: str = "stage", beta: float = 0.0) -> str | None:
        """Return one line on why no useful promise is possible, which names the decisive row; None if there is a useful promise.

        Parameters
        ----------
        tau : Quantile, Buffered or float
            The objective, or the level of a quantile in (0, 1).
        stage : str
            The word for a stage.
        beta : float
            Buffer of the promise.

        Returns
        -------
        str or None
            A promise is useful if it exceeds the lowest possible return and what is guaranteed without data.
        """
        found = self.obstacle(tau, beta)
        return None if found is None else str(views().remark(found, views().Words(title="", stage=stage)))

    def obstacle(self, tau: Objective | float, beta: float = 0.0) -> Fact | None:
        """Return the fact behind `reason`: what prevents a useful promise; None if there is a useful promise."""
        tau, beta = promised_levels(tau, beta)
        goal = quantile_objective(tau, beta)
        value = self.solve(goal).value
        if not self.trivial(value) and (not self._uses_no_data(goal, value) or self._is_exact):
            return None
        if self.start_error() >= tau:
            return UnknownStart(mass=self.start_error())
        costs, met, _ = self._shares(tau)
        rows = self.limits(tau, top=1)
        untried = np.broadcast_to(self._untried_states(), met.shape) * met  # such a state is entered once at most
        s = int(untried.sum(axis=0).argmax())
        h, entered = int(untried[:, s].argmax()), float(untried[:, s].sum())
        if entered > (rows[0]["cost"] if rows else 0.0):
            if self.uncounted[0 if self.mdp.stationary else h, s]:
                return self._open([s])
            place = None if self.mdp.stationary else h + 1
            return UntriedState(state=self.mdp.state_label(s), stage=place, probability=entered)
        if not rows:
            return NothingToLearn()
        row, worst = rows[0], costs.argmax()
        return UncertainRow(
            **{key: row[key] for key in ("state", "action", "stage", "visits", "radius")},
            observations=int(self.counts.flat[worst]), outcomes=int(self.balls.seen.flat[worst]),
            among=int(np.count_nonzero(costs > 0.0)) if row["cost"] < costs.sum() / 2.0 else 0,
        )  # fmt: skip

    @property
    def _is_exact(self) -> bool:
        """Whether every row is known exactly, so that there is nothing to learn from a log."""
        return not np.any(self.mdp.available & (self.radii > 0.0))

    def gains(self, tau: Objective | float, beta: float = 0.0) -> list[dict[str, Any]]:
        """Return what each declaration adds to the promise, found by fitting the log again without it.

        Parameters
        ----------
        tau : Objective or float
            The objective, or the level of a quantile in (0, 1).
        beta : float
            Buffer of the level.

        Returns
        -------
        list of dict
            `declaration`; `without` and `value`, the promise without it and with it; and `note`, the reason if the log
            cannot be fitted without it (`without` is then None) or if the promise is higher without it. The list is empty
            if nothing was declared, and for an estimate from a file. Each promise holds with the stated confidence; the
            higher of two promises need not, so choose the declarations before you see the promises.
        """
        goal = check_objective(tau, beta=beta)
        value = self.solve(goal).value if self.refits else math.nan
        found = []
        for name, refit in self.refits.items():
            try:
                without, note = refit()._projected_value(goal, 1), ""
            except (ArgumentError, FileFormatError) as fault:
                missing = isinstance(fault, ArgumentError) and fault.value is None
                without, note = None, f"it requires {fault.name}" if missing else str(fault)
            if without is not None and without > value:
                note = LOWERS[name in ("support", MODEL)]
            found.append({"declaration": name, "without": without, "value": value, "note": note})
        return found

    def helps(self, tau: Objective | float, beta: float = 0.0) -> list[dict[str, Any]]:
        """Return what would raise the promise, best first: further declarations, and events that could be recorded.

        The log is fitted again with each declaration that it does not contradict. These are projections: a declaration must be
        true before it is made, and it is not true because it helps.

        Parameters
        ----------
        tau : Objective or float
            The objective, or the level of a quantile in (0, 1).
        beta : float
            Buffer of the level.

        Returns
        -------
        list of dict
            `step`, in words; `value` and `with_it`, the promise of the new plan now and the projected one. Steps that do not
            raise the promise are left out; the list is empty for an estimate from a file.
        """
        goal = check_objective(tau, beta=beta)
        found, value = [], self.solve(goal).value if self.trials else math.nan
        for step, trial in self.trials.items():
            try:
                other = trial()
            except (ArgumentError, FileFormatError):  # the log contradicts it
                continue
            if not contradicted(self.mdp, other.mdp, (self.radii, other.radii), self.seen):
                projected = other._projected_value(goal, 1)
                if projected > value + (1e-9 * abs(value) if math.isfinite(value) else 0.0):
                    found.append({"step": step, "value": value, "with_it": projected})
        return sorted(found, key=lambda one: -float(one["with_it"]))

    def projection(
        self, tau: Objective | float, factors: tuple[int, ...] = (2, 4, 10), beta: float = 0.0
    ) -> list[dict[str, Any]]:
        """Return the promises that more data with the same frequencies would give; these are projections, not promises.

        Parameters
        ----------
        tau : Objective or float
            The objective, or the level of a quantile in (0, 1).
        factors : tuple of int
            Multiples of the number of episodes.
        beta : float
            Buffer.

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

    def _projected_value(self, goal: Objective, more: int) -> float:
        """Return the promise with `more` times as many episodes of the same frequencies."""
        return self._solve_robust(goal, *self._ball(more), self.start_error(more), {}).value

    # -- rows, words, files ----------------------------------------------------------------------------------------------

    def chart(self, tau: Objective | float | None = None, *, title: bool | str = True) -> Any:
        """Draw the visits and radii of the rows and, with a level, compare the promise with other plans.

        Requires the extra "plots".

        Parameters
        ----------
        tau : float, optional
            Level in (0, 1).
        title : bool or str
            Whether the chart has its title and subtitle; a text replaces them.

        Returns
        -------
        altair chart
        """
        return views().draw_chart(self, tau, title=title)

    def save(self, path: str | Path) -> None:
        """Write the estimate to an .npz file atomically."""
        write_arrays(path, estimate_arrays(self))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Estimate:
        """Return the estimate that the arrays of a saved estimate describe."""
        return cls(**fields(arrays))
