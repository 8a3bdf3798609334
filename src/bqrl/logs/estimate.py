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
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from bqrl.checks import bad_value, exact_text, whole
from bqrl.display import Charted, count_of, views
from bqrl.errors import ArgumentError, FileFormatError
from bqrl.laws.interval import buffered_lower, quantile_interval
from bqrl.laws.law import Law
from bqrl.laws.objectives import (
    LEVEL_SLACK,
    Buffered,
    Objective,
    Quantile,
    check_objective,
    quantile_objective,
)
from bqrl.logs.archive import StoredEstimate, estimate_arrays, fields
from bqrl.logs.candidates import PLUG_IN, ROBUST_PLAN, Choice, Set, choose, usual_actions
from bqrl.logs.limits import next_target, shares
from bqrl.logs.posterior import PosteriorDraws, posterior_draws
from bqrl.logs.trials import contradicted
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.files import write_arrays
from bqrl.planners.evaluate import BRACKET_POINTS
from bqrl.planners.facts import (
    Fact,
    Guaranteed,
    LowersPromise,
    NothingToLearn,
    OpenStates,
    Promised,
    SamePromise,
    UncertainRow,
    UnknownStart,
    UntriedState,
)
from bqrl.planners.plan import Plan
from bqrl.planners.solve import solve
from bqrl.planners.uncertain import half_radius, robust_value

# Assumptions that mention stages; {} is replaced by the word for a stage.
BY_STAGE = "the next state and the reward depend only on the {}, state and action"
POOLED = "their law is the same in every {}"
MODEL = "model (not its first state and range of rewards)"  # name of the declaration that `gains` removes
INDEPENDENT = "the logged episodes are independent and follow one policy, which you keep"
COMPLETE = "are complete, and none is longer"  # assumptions with these words also concern the old policy
LOWERS = (
    "the promise is higher without it",
    "it allows more outcomes than the log shows, and radii grow with their number",
)


def promised_levels(given: Objective | float, beta: float = 0.0) -> tuple[float, float]:
    """Return level and buffer of an objective, given as a record or as a level; only these can be promised from a log."""
    goal = check_objective(given, beta=beta)
    if not isinstance(goal, Quantile | Buffered):
        remedy = "CVaR(1.0) is the mean" if goal.name == "mean" else "plan for it with estimate.mdp"
        raise bad_value("objective", goal, "be a Quantile or Buffered for a promise", goal.label, remedy=remedy)
    return goal.tau, goal.beta


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Estimate(StoredEstimate, Charted):
    """A model estimated from logged episodes, with confidence balls; made by `fit`.

    `estimate.solve(tau)` returns a plan whose value is promised with the stated confidence. `limits`, `reason` and `projection`
    show what limits the promise, `gains` what each declaration adds, and `rows()` the visits and radii.

    Attributes
    ----------
    mdp : MDP
        The empirical model. Unless a model was given, two states are added after those of the log: "(end)" absorbs
        complete episodes, and outcomes that the log does not show lead to "(unseen)". A state without any usable action
        has a single action, with the worst outcome.
    balls : Balls
        Visits and numbers of outcomes of the rows, from which the radii are computed.
    confidence : float
        Probability with which all promises hold.
    assumptions : tuple of str
        The assumptions on which the promises rest.
    returns : ndarray of shape (n,)
        Discounted returns of the n logged episodes that were not cut off.
    episodes, steps : int
        Episodes and steps of the log.
    tries : ndarray of shape (1 or H, S, A)
        Steps of the log that count towards each row: a step without a known successor does not.
    uncounted : ndarray of shape (1 or H, S)
        Steps of the log in each state that count towards no row.
    start_atoms : int
        Number of first states if their law is estimated; 0 if it is known.
    floor, lowest : float
        The lowest possible return, -inf if unseen outcomes count as a return below all others; the lowest of the others.
    added : tuple of int
        Indices of the states "(end)" and "(unseen)"; empty if a model was given.
    adaptive : bool
        Whether the log was declared adaptive, so that the policy that wrote it has no promise.
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

    @property
    def counts(self) -> IntArray:
        """Observations behind every row, shape (1 or H, S, A): its tries or, if rows share noise, those of its law."""
        return self.balls.visits

    @property
    def counted(self) -> int:
        """Number of steps that count towards a row."""
        return int(self.tries.sum())

    @property
    def seen(self) -> BoolArray:
        """Which rows the log shows, shape (1 or H, S, A)."""
        return self.tries > 0

    @property
    def radii(self) -> FloatArray:
        """l1 radius of every row, shape (1 or H, S, A); 2 where nothing is known, 0 where the row is known exactly."""
        return self.balls.radii()

    @property
    def logging_policy(self) -> FloatArray:
        """Frequencies of the logged actions, shape (1 or H, S, A); NaN in states that the log does not show."""
        totals = self.tries.sum(axis=2, keepdims=True)
        return np.where(totals > 0, self.tries / np.maximum(totals, 1), np.nan)

    def start_error(self, more: int = 1) -> float:
        """Return a bound on the total-variation distance between the true law of the first state and the observed frequencies.

        It is 0 if the law is known. `more` multiplies the number of episodes, for projections.
        """
        if not self.start_atoms:
            return 0.0
        T, d = self.episodes * more, self.start_atoms
        level = d * math.log(2.0) + math.log(d * (d + 1.0)) - math.log(self.balls.delta)
        return min(1.0, d / T + math.sqrt(level / (2.0 * T)))

    # -- plans ---------------------------------------------------------------------------------------------------------

    def solve(
        self, objective: Objective | float | None = None, beta: float = 0.0, *, tau: float | None = None, **options: Any
    ) -> Plan:
        """Return the new plan; its `value` is what its policy promises with the estimate's confidence.

        The promise is the highest of all policies. Of several policies that are proven to keep it, the plan has the one that
        is worth most in the empirical model; if every policy keeps it or there is none, the plug-in plan. The old policy, the
        one that wrote the log, may promise more: the first of the `remarks` then says so and `details["old_promise"]` holds
        its promise, but `policy` and `value` remain those of the new plan, because a log does not tell how to play the old one.

        Parameters
        ----------
        objective : Quantile, Buffered or float
            `Quantile(0.1)`, `CVaR(0.1)` or `Buffered(0.1, 0.03)`; a number is the level of a quantile, as is `tau`.
        beta : float
            Buffer of a level, as in `bqrl.solve`.
        tau : float
            Level of a quantile.
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
        tau, beta = promised_levels(check_objective(objective, tau, beta))
        if options or (tau, beta) not in self._memo:
            plan = self._solve_robust(tau, beta, *self._ball(1), self.start_error(), options)
            chosen = self._choose(plan, options)
            facts: list[Fact] = [self._promised(tau, beta, plan.value), *self._open_states()]
            facts += [*self._same_promise(plan, chosen), *self._lowered(tau, beta, plan.value)]
            proofs = (note for note in plan.notes if not isinstance(note, Guaranteed))  # the promise replaces it
            details = plan.details | {
                "estimate": self,
                "chosen": chosen.name,
                "old_promise": self.old_promise(tau, beta),
            }
            plan = replace(
                plan, policy=chosen.policy, law=chosen.law, law_upper=chosen.law_upper, notes=(*facts, *proofs),
                nominal=plan.objective(chosen.law), details=details,
            )  # fmt: skip
            if options:
                return plan
            self._memo[tau, beta] = plan
        return cast(Plan, self._memo[tau, beta])

    def _choose(self, plan: Plan, options: dict[str, Any]) -> Choice:
        """Return the policy of the new plan, given the robust plan."""
        robust = Choice(name=ROBUST_PLAN, policy=plan.policy, law=plan.law, law_upper=plan.law_upper)
        if self._is_exact:  # the robust plan is the plug-in plan
            return robust
        if self.trivial(plan.value):
            plain = self.plug_in(plan.tau, plan.beta, **options)
            return Choice(name=PLUG_IN, policy=plain.policy, law=plain.law, law_upper=plain.law_upper)
        if plan.beta > 0.0:  # the planner has compared several policies
            return robust
        usual = usual_actions(self.mdp, self.tries)
        return choose(self._kernels(plan.tau), plan, self.plug_in(plan.tau, **options), usual, plan.objective)

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

    def _same_promise(self, plan: Plan, chosen: Choice) -> list[Fact]:
        """Return the fact that another policy than the robust plan is handed out."""
        if chosen.name == ROBUST_PLAN:
            return []
        values = {"value": plan.objective(chosen.law), "robust": plan.objective(plan.law)}
        return [SamePromise(name=chosen.name, objective=plan.objective, useless=self.trivial(plan.value), **values)]

    def _lowered(self, tau: float, beta: float, value: float) -> list[Fact]:
        """Return the fact that the declared support lowers the promise, as it may; empty if it does not."""
        if "support" not in self.refits:
            return []
        try:
            without = self.refits["support"]()._projected_value(tau, beta, 1)
        except (ArgumentError, FileFormatError):  # the log cannot be fitted without it
            return []
        if without <= value:
            return []
        return [LowersPromise(declaration="support", value=value, without=without, why=LOWERS[1])]

    def plug_in(self, tau: Objective | float, beta: float = 0.0, **options: Any) -> Plan:
        """Return the plan that treats the empirical model as the true one; its value is not a promise."""
        return solve(self.mdp, tau, beta, **options)

    def without_data(self, tau: Objective | float, beta: float = 0.0) -> float:
        """Return what the declarations guarantee for any observed frequencies: the promise if every radius were 2.

        Only rows that are declared known keep their radius 0. A promise that is not higher uses no data.

        Parameters
        ----------
        tau : Quantile, Buffered or float
            The objective, or the level of a quantile in (0, 1).
        beta : float
            Buffer of the level.

        Returns
        -------
        float
            -inf if nothing is guaranteed.
        """
        tau, beta = promised_levels(tau, beta)
        if ("without data", tau, beta) not in self._memo:
            radius = np.broadcast_to(np.where(self.balls.known, 0.0, 2.0), (self.mdp.H, self.mdp.S, self.mdp.A))
            plan = self._solve_robust(tau, beta, radius, None, self.start_error(), {})
            self._memo["without data", tau, beta] = plan.value
        return cast(float, self._memo["without data", tau, beta])

    def _uses_no_data(self, tau: float, beta: float, value: float) -> bool:
        """Return whether a promise is not higher than the one without data."""
        least = self.without_data(tau, beta)
        return value <= least + 1e-9 * max(1.0, abs(least)) if math.isfinite(least) else value == least

    def _solve_robust(
        self, tau: float, beta: float, radius: FloatArray, missing: FloatArray | None, error: float,
        options: dict[str, Any],
    ) -> Plan:  # fmt: skip
        """Return the robust plan for these radii, unseen masses and error of the first state."""
        if beta > 0.0 and self._has_misses:
            rule = "be given to fit for a buffered quantile, because an unseen outcome has no lowest reward otherwise"
            raise bad_value("reward_range", None, rule, "none")
        level = tau - error
        if level <= (LEVEL_SLACK if beta > 0.0 else 0.0):
            plan = self.plug_in(tau, beta, **options)
            value = -math.inf
        else:
            inner = min(beta, level)
            plan = solve(self.mdp, level, inner, radius=radius, attitude="robust", missing=missing, **options)
            value = plan.value
            value = self._with_worst(value, inner, beta)
            value = -math.inf if self._below_all(value) else value
        law = plan.law
        objective = quantile_objective(tau, beta)
        nominal = objective(law)
        details = plan.details | {"confidence": self.confidence, "assumptions": self.assumptions, "start_error": error}
        return replace(plan, objective=objective, value=value, nominal=nominal, attitude="robust", details=details)

    def _with_worst(self, value: float, inner: float, beta: float) -> float:
        """Return a buffered quantile whose levels below the start error contribute the lowest return."""
        return (inner * value + (beta - inner) * self._worst_return()) / beta if beta > inner else value

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
    def _has_misses(self) -> bool:
        """Whether unseen outcomes are modelled by a return below all others."""
        return bool(self.added) and self.floor == -math.inf

    def _worst_return(self) -> float:
        """Return the lowest return of the model."""
        paid = [float(self.mdp.stage(h).reward.min()) * self.mdp.discount**h for h in range(self.mdp.H)]
        return float(np.sum(paid))

    def trivial(self, value: float) -> bool:
        """Return whether a promise is useless: it is -inf or the lowest possible return."""
        lowest = self.floor + 1e-9 * max(1.0, abs(self.floor)) if math.isfinite(self.floor) else -math.inf
        return value == -math.inf or value <= lowest

    def _promised(self, tau: float, beta: float, value: float) -> Promised:
        """Return the promise as a fact, with its assumptions."""
        declare = "reward_range" if self._has_misses else ""
        if self.start_error() >= tau:
            declare = "start"
        none = value == -math.inf
        return Promised(
            value=value, objective=quantile_objective(tau, beta), confidence=self.confidence, episodes=self.episodes,
            assumptions=self.assumptions, no_data=not none and self._uses_no_data(tau, beta, value),
            start_estimated=self.start_atoms > 0, declare=declare if none else "", old=self.old_promise(tau, beta),
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
        value = self.solve(tau, beta).value
        if not self.trivial(value) and (not self._uses_no_data(tau, beta, value) or self._is_exact):
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

    def _untried_states(self) -> BoolArray:
        """Return the states of the log in which no action was tried and no row is known, shape (1 or H, S)."""
        if not self.added:
            return np.zeros(self.counts.shape[:2], bool)
        mdp, first = self.mdp, self.mdp.row_start[:-1].reshape(self.counts.shape)[:, :, 0]
        first = np.minimum(first, mdp.successor.size - 1)
        lowest = self.lowest - 1e-9 * abs(self.lowest)
        reward = mdp.reward[0][first] if len(mdp.reward) == 1 else mdp.reward[np.arange(mdp.H)[:, None], first]
        lost = (mdp.successor[first] == self.added[1]) | (self._has_misses & (reward < lowest))
        lost[:, list(self.added)] = False
        return np.asarray(lost & (self.counts.sum(axis=2) == 0))

    @property
    def _is_exact(self) -> bool:
        """Whether every row is known exactly, so that there is nothing to learn from a log."""
        return not np.any(self.mdp.available & (self.radii > 0.0))

    def _open_states(self) -> list[OpenStates]:
        """Return the fact that the log shows states without any recorded successor, such as death; empty if there are none."""
        states = np.flatnonzero(np.any(self._untried_states() & (self.uncounted > 0), axis=0)).tolist()
        return [self._open(states)] if states else []

    def _open(self, states: list[int]) -> OpenStates:
        """Return the fact that no step in these states has a recorded successor."""
        names = tuple(self.mdp.state_label(s) for s in states)
        return OpenStates(states=names, steps=int(self.uncounted[:, states].sum()))

    def gains(self, tau: Objective | float, beta: float = 0.0) -> list[dict[str, Any]]:
        """Return what each declaration adds to the promise, found by fitting the log again without it.

        Parameters
        ----------
        tau : Quantile, Buffered or float
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
        tau, beta = promised_levels(tau, beta)
        value = self.solve(tau, beta).value if self.refits else math.nan
        found = []
        for name, refit in self.refits.items():
            try:
                without, note = refit()._projected_value(tau, beta, 1), ""
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
        tau : Quantile, Buffered or float
            The objective, or the level of a quantile in (0, 1).
        beta : float
            Buffer of the level.

        Returns
        -------
        list of dict
            `step`, in words; `value` and `with_it`, the promise of the new plan now and the projected one. Steps that do not
            raise the promise are left out; the list is empty for an estimate from a file.
        """
        tau, beta = promised_levels(tau, beta)
        found, value = [], self.solve(tau, beta).value if self.trials else math.nan
        for step, trial in self.trials.items():
            try:
                other = trial()
            except (ArgumentError, FileFormatError):  # the log contradicts it
                continue
            if not contradicted(self.mdp, other.mdp, (self.radii, other.radii), self.seen):
                projected = other._projected_value(tau, beta, 1)
                if projected > value + (1e-9 * abs(value) if math.isfinite(value) else 0.0):
                    found.append({"step": step, "value": value, "with_it": projected})
        return sorted(found, key=lambda one: -float(one["with_it"]))

    def projection(
        self, tau: Objective | float, factors: tuple[int, ...] = (2, 4, 10), beta: float = 0.0
    ) -> list[dict[str, Any]]:
        """Return the promises that more data with the same frequencies would give; these are projections, not promises.

        Parameters
        ----------
        tau : Quantile, Buffered or float
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
        tau, beta = promised_levels(tau, beta)
        return [
            {"factor": more, f"{self._unit}s": self._size * more, "value": self._projected_value(tau, beta, more)}
            for more in (whole(factor, "factors", 1) for factor in factors)
        ]

    def _projected_value(self, tau: float, beta: float, more: int) -> float:
        """Return the promise with `more` times as many episodes of the same frequencies."""
        return self._solve_robust(tau, beta, *self._ball(more), self.start_error(more), {}).value

    def logged(self, tau: Objective | float, beta: float = 0.0) -> dict[str, float]:
        """Return the objective of the old policy, the one that wrote the log, with an interval for independent episodes.

        Parameters
        ----------
        tau : Quantile, Buffered or float
            The objective, or the level of a quantile in (0, 1).
        beta : float
            Buffer of the level.

        Returns
        -------
        dict
            value, lower and upper. Each end fails with probability (1 - confidence) / 2 at most, and `lower` is the promise
            of the old policy. Episodes that were cut off may have any return, which widens the interval; the value is NaN if
            it depends on their returns, because complete episodes may differ from the others. An end is infinite if there
            are too few complete episodes or the log is adaptive; with a buffer, the upper one always is, and the lower one is
            without a lowest return.
        """
        tau, beta = promised_levels(tau, beta)
        if not self.episodes:
            raise ArgumentError("expected logged episodes, got a table of counts, which no policy logged", name="log")
        if not self.returns.size:
            message = "expected a complete episode, got only truncated ones, whose returns are unknown"
            raise ArgumentError(f"{message}; declare ends as terminal", name="ends")
        cut_off = np.full(self.episodes - self.returns.size, math.inf)  # their returns may be anything
        lowest = np.r_[self.returns, -cut_off]
        if beta > 0.0:
            law = Law(self.returns, np.full(self.returns.size, 1.0 / self.returns.size))
            value = math.nan if cut_off.size else law.buffered_quantile(tau, beta)
            lower, upper = buffered_lower(lowest, tau, beta, self.confidence, self.floor), math.inf
        else:
            low, high = (
                quantile_interval(given, tau, self.confidence) for given in (lowest, np.r_[self.returns, cut_off])
            )
            value = low["value"] if low["value"] == high["value"] else math.nan
            lower, upper = low["lower"], high["upper"]
        if self.adaptive:
            lower, upper = -math.inf, math.inf
        return {"value": value, "lower": lower, "upper": upper}

    def old_promise(self, tau: Objective | float, beta: float = 0.0) -> float:
        """Return the promise of the old policy, the lower end of `logged`; -inf if it has none.

        It holds together with the promise of the new plan with the stated confidence, so the higher one may be chosen.

        Examples
        --------
        >>> import bqrl
        >>> log = {"episode": range(200), "state": [0] * 200, "action": [0] * 200, "reward": [1.0] * 200}
        >>> bqrl.fit(log, reward_range=(0, 1)).old_promise(tau=0.5)
        1.0
        """
        return self.logged(tau, beta)["lower"] if self.returns.size else -math.inf

    # -- rows, words, files ----------------------------------------------------------------------------------------------

    def _describe(self, row: tuple[int, ...], radii: FloatArray) -> dict[str, Any]:
        """Return one row as a dict of words and numbers."""
        k, s, a = row
        return {
            "stage": None if self.mdp.stationary else k + 1, "state": self.mdp.state_label(s),
            "action": self.mdp.action_label(a), "visits": int(self.tries[row]), "radius": float(radii[row]),
        }  # fmt: skip

    def rows(self) -> list[dict[str, Any]]:
        """Return one dict per row seen in the log: stage (from 1; None if pooled), state, action, visits, radius and outcomes."""
        radii = self.radii
        return [
            self._describe((k, s, a), radii) | {"outcomes": int(self.balls.outcomes[k, s, a])}
            for k, s, a in np.argwhere(self.seen).tolist()
        ]

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

    def coverage(self) -> dict[str, Any]:
        """Return how much the log shows: numbers of episodes, steps and rows, and the median visits of the rows seen."""
        n = self.tries[self.seen]
        states = self.mdp.S - len(self.added)
        return {
            "episodes": self.episodes, "steps": self.steps, "counted_steps": self.counted,
            "rows_seen": int(n.size), "rows": int(self.counts.shape[0] * states * self.mdp.A),
            "median_visits": float(np.median(n)) if n.size else 0.0,
            "rows_without_information": int(np.count_nonzero(self.radii[self.seen] >= 2.0)),
        }  # fmt: skip

    def __str__(self) -> str:
        seen = self.coverage()
        lines = [
            f"Estimate from {self.data_words()}, horizon {self.mdp.H}",
            f"  rows seen     {seen['rows_seen']} of {seen['rows']}, median visits {seen['median_visits']:g}",
            f"  too few       {seen['rows_without_information']} seen rows have radius 2: too few visits to be useful",
            f"  confidence    {exact_text(self.confidence)}",
            *(f"  assumes that  {text}" for text in self.assumptions),
        ]
        return "\n".join(lines)

    def __repr__(self) -> str:
        seen = count_of("row", int(self.seen.sum()))
        return f"Estimate({count_of(self._unit, self._size)}, {seen} seen, confidence={exact_text(self.confidence)})"

    @property
    def _unit(self) -> str:
        return "episode" if self.episodes else "transition"

    @property
    def _size(self) -> int:
        return self.episodes or self.steps

    def data_words(self, words: Any = None) -> str:
        """Return what the estimate was made from, such as "200 episodes, 600 steps", in the words of a result if given."""
        count = count_of if words is None else words.count
        steps = f", {count('step', self.steps)}" if self.episodes else ""
        return f"{count(self._unit, self._size)}{steps}"

    def save(self, path: str | Path) -> None:
        """Write the estimate to an .npz file atomically."""
        write_arrays(path, estimate_arrays(self))

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Estimate:
        """Return the estimate that the arrays of a saved estimate describe."""
        return cls(**fields(arrays))
