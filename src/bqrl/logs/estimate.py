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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from bqrl.checks import bad_value, number
from bqrl.display import Charted, views
from bqrl.laws.objectives import Objective, Quantile, check_objective
from bqrl.logs.acceptability import Acceptability, acceptability
from bqrl.logs.archive import estimate_arrays, fields
from bqrl.logs.candidates import PLUG_IN, ROBUST_PLAN, Choice, choose, usual_actions
from bqrl.logs.explained import Explained
from bqrl.logs.posterior import PosteriorDraws, posterior_draws
from bqrl.mdp.arrays import IntArray
from bqrl.mdp.files import write_arrays
from bqrl.mdp.outcomes import REWARD
from bqrl.planners.evaluate import BRACKET_POINTS
from bqrl.planners.facts import Drift, Fact, Guaranteed, Promised, SamePromise, WorthMore
from bqrl.planners.plan import Plan

# Assumptions that mention stages; {} is replaced by the word for a stage.
BY_STAGE = "the next state and the reward depend only on the {}, state and action"
POOLED = "their law is the same in every {}"
INDEPENDENT = "the logged episodes are independent and follow one policy, which you keep"
COMPLETE = "are complete, and none is longer"  # assumptions with these words also concern the old policy,
BOUNDING = "rewards lie between", "the given model has"  # and if episodes were cut, those that begin like this


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Estimate(Explained, Charted):
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
    trials : mapping of Step to callable
        For each step that may help, such as a further declaration, a function that fits the log as if it had been taken.

    Examples
    --------
    >>> import bqrl
    >>> log = {"episode": range(200), "state": [0] * 200, "action": [0] * 200, "reward": [1.0] * 200}
    >>> estimate = bqrl.fit(log, reward_range=(0, 1))
    >>> estimate.episodes, estimate.solve(tau=0.5).value
    (200, 1.0)
    """

    events: tuple[IntArray, ...] = ()

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

    def _new_plan(self, goal: Objective, at_least: float | None, options: dict[str, Any]) -> Plan:
        """Return the plan of `solve`."""
        plan = self._robust_plan(goal, options)
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
        proofs = (note for note in plan.facts if not isinstance(note, Guaranteed))  # the promise replaces it
        self._name(chosen.policy)
        details = plan.details | {"estimate": self, "chosen": chosen.name, "old_promise": self.old_promise(goal)}
        return replace(
            plan, value=value, policy=chosen.policy, law=chosen.law, law_upper=chosen.law_upper, facts=(*facts, *proofs),
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
            self._kernels(plan.tau), robust, plan.details["shortfall"], plug_in, usual_actions(self.mdp, self.tries),
            plan.objective, least,
        )  # fmt: skip

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
        useful = None if self.trivial(promise) else promise
        return [WorthMore(objective=plan.objective, value=value, chosen=least, promise=useful)]

    def _promised(self, goal: Objective, value: float) -> Promised:
        """Return the promise as a fact, with its assumptions."""
        declare, none = "reward_range" if self._has_misses else "", value == -math.inf
        if self.start_error() >= getattr(goal, "tau", math.inf):
            declare = "start"
        return Promised(
            value=value, objective=goal, confidence=self.confidence, episodes=self.episodes, assumptions=self.assumptions,
            no_data=not none and self._uses_no_data(goal, value), start_estimated=self.start_atoms > 0,
            declare=declare if none else "", old=self.old_promise(goal),
            old_assumptions=(INDEPENDENT, *filter(self._concerns_old, self.assumptions)),
        )  # fmt: skip

    def _concerns_old(self, text: str) -> bool:
        """Return whether the promise of the old policy rests on an assumption, too."""
        return COMPLETE in text or (bool(self.cut.size) and text.startswith(BOUNDING))

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
            Level of the quantile and the CVaR; by default that of the plan, and 0.1 where there is none.
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
        draws, prior, seed
            As for `psa`. All strategies are evaluated in the same models.
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
