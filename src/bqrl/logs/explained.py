"""What limits a promise and what would raise it: uncertain rows, missing declarations and more data, in words."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from bqrl.checks import whole
from bqrl.display import views
from bqrl.errors import ArgumentError, FileFormatError
from bqrl.laws.objectives import Objective, check_objective, quantile_objective
from bqrl.logs.limits import next_target, shares
from bqrl.logs.observed import promised_levels
from bqrl.logs.promises import Promises
from bqrl.logs.trials import Step, contradicted
from bqrl.mdp.arrays import FloatArray
from bqrl.planners.facts import Fact, LowersPromise, NothingToLearn, UncertainRow, UnknownStart, UntriedState

MODEL = "model (not its first state and range of rewards)"  # name of the declaration that `gains` removes
LOWERS = (
    "the promise is higher without it",
    "it allows more outcomes than the data show, and radii grow with their number",
)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True, repr=False)
class Explained(Promises):
    """Promises with what limits them; `Estimate` describes the fields."""

    refits: Mapping[str, Callable[[], Promises]] = field(default_factory=dict)
    trials: Mapping[Step, Callable[[], Promises]] = field(default_factory=dict)

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
            target = next_target(self.mdp, radius, tau - self.start_error(), missing, self._points)
            self._memo[tau] = *shares(self.mdp, radius, target, missing, self._points), target
        return cast(tuple[FloatArray, FloatArray, float], self._memo[tau])

    def reason(self, tau: Objective | float, stage: str = "stage", beta: float = 0.0) -> str | None:
        """Return one line on why no useful promise is possible, which names the decisive row; None if there is a useful promise.

        Parameters
        ----------
        tau, beta
            As for `solve`: an objective, or a level with its buffer.
        stage : str
            The word for a stage.

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
        value = self._highest(goal)
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

    def gains(self, tau: Objective | float, beta: float = 0.0) -> list[dict[str, Any]]:
        """Return what each declaration adds to the promise, found by fitting the log again without it.

        Parameters
        ----------
        tau, beta
            As for `solve`: an objective, or a level with its buffer.

        Returns
        -------
        list of dict
            `declaration`; `without` and `value`, the promise without it and with it; and `note`, the reason if the log
            cannot be fitted without it (`without` is then None) or if the promise is higher without it. The list is empty
            if nothing was declared, and for an estimate from a file. Each promise holds with the stated confidence; the
            higher of two promises need not, so choose the declarations before you see the promises.
        """
        goal = check_objective(tau, beta=beta)
        value = self._highest(goal) if self.refits else math.nan
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
        tau, beta
            As for `solve`: an objective, or a level with its buffer.

        Returns
        -------
        list of dict
            `step`, in words; `value` and `with_it`, the promise of the new plan now and the projected one; `assumes`, whether
            the step is a declaration, which must be true. Steps that do not raise the promise are left out; the list is empty
            for an estimate from a file.
        """
        goal = check_objective(tau, beta=beta)
        found, value = [], self._highest(goal) if self.trials else math.nan
        for step, trial in self.trials.items():
            try:
                other = trial()
            except (ArgumentError, FileFormatError):  # the log contradicts it
                continue
            if not contradicted(self.mdp, other.mdp, (self.radii, other.radii), self.seen):
                projected = other._projected_value(goal, 1)
                if projected > value + (1e-9 * abs(value) if math.isfinite(value) else 0.0):
                    found.append({"step": step.words, "value": value, "with_it": projected, "assumes": step.assumes})
        return sorted(found, key=lambda one: -float(one["with_it"]))

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
