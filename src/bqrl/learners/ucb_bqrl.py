"""UCB-BQRL (Algorithm 1): l1 balls around the empirical rows, and optimistic plans for a buffered quantile.

    radius   eps_h(s, a) = c sqrt(log(2 S A T H / delta) / max{1, N_h(s, a)})        (Equation confset)
    plan     (P, pi) in argmax over the ball and over policies of Q^{beta_t}_tau      (Line 10)

With a small constant c the learner stays with the first plan that looks good. With c near 1 it explores for thousands of
episodes if plans visit many rows. With the target planner and pooled counts, c therefore falls with the visits n of the row,

    c = c_0 + (1 / sqrt(H) - c_0) / (1 + n / log(e + t)),      c_0 = 0.008.

The radius of a rarely visited row is about as large as its error (the errors of H independent rows add up like sqrt(H)), and a
frequently visited row has a small radius. Counts per stage have H times as many rows, and a run may be too short to explore all
of them: with fewer than ENOUGH transitions per unknown probability, the default is the constant c_0.

The planner is a parameter: "target" bounds the whole ball and acts on the remaining need; "greedy" is the experiment of the
paper (Algorithm 3 over six candidate kernels); "frontier" is EVI-BQ over the same candidates, for tiny problems.
Deviation: rows that were never visited are uniform over their known support; the paper's formula gives a zero row.
Deviation: the support size of a row replaces S in the theoretical constant; a known row has radius 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import numpy as np

from bqrl.checks import bad_value, choice, number, one_line
from bqrl.errors import ArgumentError, FileFormatError
from bqrl.laws.law import Margin
from bqrl.laws.objectives import LEVEL_SLACK, Buffered, Mean, Quantile, averaged_levels
from bqrl.learners.protocol import Episode, Learner, Task, add_prefix, stored_array, strip_prefix
from bqrl.learners.replan import Replanner, centred_window
from bqrl.learners.shared_counts import counts_of
from bqrl.mdp.arrays import FloatArray
from bqrl.planners.confidence import candidate_kernels, constant_buffer, log_buffer, log_term, power_buffer, radius
from bqrl.planners.curve import guarantee_curve
from bqrl.planners.frontier import plan_frontier
from bqrl.planners.greedy import greedy_policies, optimistic_greedy
from bqrl.policies.files import policy_from_arrays
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.protocol import Policy

WINDOWS = ("lower", "centred")
CLEAR = 2.0  # the adaptive buffer narrows when both margins exceed this number of standard errors
MULTIPLIERS = ("visits", "theory")
SMALL = 0.008  # multiplier of the radius of frequently visited rows; chosen on asset selling
ENOUGH = 100  # transitions per unknown probability; its standard error is then at most 0.05
RANDOM_CANDIDATES = 4  # the paper has six candidates: these, the empirical kernel and the directed one


class UCBBQRL(Learner):
    """Optimistic learning for a quantile, a buffered quantile, CVaR or the mean.

    Parameters
    ----------
    task, rng
        See `Learner`.
    planner
        "target", "greedy" or "frontier".
    c_conf
        Multiplier c of the radius: a number, "visits" (falls with the visits of the row, see above) or "theory" (the constant
        of the paper). By default "visits" with the target planner if counts are pooled or the run has at least 100 transitions
        per unknown probability, else 0.008.
    window
        "lower" averages the quantiles over [tau - beta_t, tau], as in the paper; "centred" over [tau - b_t, tau + b_t] with
        b_t = 4 sqrt(tau (1 - tau) / (t + 1)), cut at 0 and 1. If the objective itself averages [tau - beta, tau], the lower
        window is [tau - max(beta, beta_t), tau]: for CVaR it is the objective from the first episode on. The centred window
        moves both ends outwards (see `replan.centred_window`).
    buffer
        beta_t of the lower window: "log" (tau / log(e + t), as in the paper), "adaptive", "point" (no buffer), "power:0.5", a
        constant, or a function of the episode. Buffers below 1e-9, the smallest that planners accept, are replaced by 1e-9.
    stationary
        Whether to pool the counts of all stages; by default if the problem stores one kernel for all stages.
    replan_factor
        If above 1, plan only when the count of some row has grown by this factor since the last plan. The factor 2 saves most
        of the planning time and costs regret in early episodes.
    """

    name, label, colour = "ucb-bqrl", "UCB-BQRL", "#0072B2"
    variants: ClassVar[Mapping[str, str]] = {"greedy": "#56B4E9"}
    objectives = (Quantile, Buffered, Mean)
    needs_rewards = True
    tuned = "c_conf"

    def __init__(
        self, task: Task, rng: np.random.Generator, *, planner: str = "target", c_conf: float | str | None = None,
        window: str = "lower", buffer: str | float | Callable[[int], float] = "log", stationary: bool | None = None,
        replan_factor: float = 1.0,
    ) -> None:  # fmt: skip
        super().__init__(task, rng)
        model = task.require_model(self.name)
        self.planner, self.window = choice(planner, "planner", _PLANNERS), choice(window, "window", WINDOWS)
        self.replan_factor = number(replan_factor, "replan_factor", 1.0)
        self.counts = counts_of(task, stationary)
        if c_conf is None:
            c_conf = "visits" if planner == "target" and self._explorable() else SMALL
        if isinstance(c_conf, str) and c_conf not in MULTIPLIERS:
            raise bad_value("c_conf", c_conf, "be 'visits', 'theory' or a number")
        self.c_conf = c_conf if isinstance(c_conf, str) else number(c_conf, "c_conf", 0.0)
        self.model = model if self.counts.M == 1 and model.stationary else model.staged()
        self.tau, self.least = averaged_levels(task.objective)  # the objective: quantiles over [tau - least, tau]
        self.schedule, self.adaptive = read_buffer(buffer, self.tau)
        self.t = 0
        self.level, self.beta = self.tau, self.tau
        self.margin = self.tau  # last estimate of the margin, to which the adaptive buffer may narrow
        self._policy: Policy | None = None
        self._planned_visits = np.zeros_like(self.counts.visits)
        self._notes: dict[str, float] = {}
        self._half_unknown = 0.5 * (~self.counts.known & self.counts.available).reshape(self.counts.M, -1)
        self._log_term = log_term(task.S, task.A, task.episodes, task.H, task.delta)
        self._replanner = Replanner(self.model, tolerance=0.0) if planner == "target" else None

    def plan(self) -> Policy:
        """Return the optimistic policy for the next episode."""
        if self.window == "centred":
            self.level, self.beta = centred_window(self.tau, self.t, self.least)
        else:
            self.beta = self._next_beta()
        if self._policy is None or self._must_replan():
            self._policy, self._notes = _PLANNERS[self.planner](self, self.half_radius())
            self._planned_visits = self.counts.visits.copy()
        return self._policy

    def observe(self, episode: Episode) -> None:
        """Count the episode."""
        self.counts.observe(episode)
        self.t += 1

    def notes(self) -> dict[str, float]:
        """Return beta_t, the optimistic value, and notes of the planner: its proven bound and gap, or the best candidate."""
        return {"beta": self.beta} | self._notes

    def state(self) -> dict[str, Any]:
        """Return the counts, the buffer, and the width at which the last search ended."""
        found = self.counts.state() | {
            "t": self.t, "beta": self.beta, "margin": self.margin, "planned_visits": self._planned_visits,
            "width": np.nan if self._replanner is None or self._replanner.width is None else self._replanner.width,
        }  # fmt: skip
        if self._policy is not None and self.replan_factor > 1.0:
            found |= add_prefix("policy_", self._policy.file_arrays()) | add_prefix("planned_", self._notes)
        return found

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        self.counts.restore(state)
        self.t, self.beta, self.margin = int(state["t"]), float(state["beta"]), float(state["margin"])
        tau, fixed = self.tau, self.window == "lower" and not self.adaptive
        least = max(min(self.schedule(max(self.t - 1, 0)), tau) if fixed else 0.0, self.least)
        if self.window == "lower" and not least <= self.beta * (1 + 1e-12) <= tau * (1 + 1e-9):
            raise FileFormatError(f"beta must be a buffer in [{least:g}, {tau:g}], got {self.beta:g}")
        self._planned_visits = stored_array(state, "planned_visits", self._planned_visits)
        if self._replanner is not None:
            self._replanner.width = None if np.isnan(state["width"]) else float(state["width"])
        inner = strip_prefix("policy_", state)
        if inner:
            self._policy = policy_from_arrays(inner)
            self._notes = {name: float(v) for name, v in strip_prefix("planned_", state).items() if v.ndim == 0}

    def _explorable(self) -> bool:
        """Return whether the run is long enough to explore all rows: always if the counts of all stages are pooled."""
        counts, task = self.counts, self.task
        if counts.M == 1:
            return True
        met = task.require_model(self.name).reachable[:-1, :, None]
        unknown = counts.units(counts.available & ~counts.known & met).sizes - 1
        return bool(task.episodes * task.H >= ENOUGH * unknown.sum())

    def _must_replan(self) -> bool:
        """Return whether the count of some row has grown by `replan_factor` since the last plan."""
        if self.replan_factor == 1.0:
            return True
        return bool(np.any(self.counts.visits > self.replan_factor * np.maximum(self._planned_visits, 1) - 1e-9))

    def _next_beta(self) -> float:
        """Return the buffer of the next episode; ArgumentError if the schedule is invalid there."""
        wanted, tau = number(self.schedule(self.t), f"the buffer of episode {self.t}"), self.tau
        if wanted == self.least == 0.0 and (self.t == 0 or self.beta == 0.0):
            return 0.0
        if not 0.0 <= wanted <= tau * (1 + 1e-12):
            raise ArgumentError(
                f"the buffer of episode {self.t} must be in (0, tau] = (0, {tau:g}], got {wanted:g}",
                name="buffer", value=wanted,
            )  # fmt: skip
        if self.t > 0 and wanted > max(self.beta, self.least) * (1 + 1e-12) and not self.adaptive:
            raise ArgumentError(
                f"the buffer must not increase, got {self.beta:g} and then {wanted:g} in episode {self.t}",
                name="buffer", value=wanted,
            )  # fmt: skip
        if self.adaptive and self.t > 0:
            wanted = min(wanted, self.beta, self._adapted_margin())
        return min(max(wanted, self.least, LEVEL_SLACK), tau)

    def _adapted_margin(self) -> float:
        """Return the estimated margin tau - W_0(x*) once the counts support it; before that tau, which has no effect.

        A shortfall near tau that is estimated from t episodes has a standard error of about sqrt(tau (1 - tau) / t). The
        shortfalls of the best target and of the next one must both differ from tau by more than CLEAR standard errors. With
        a narrow buffer, an uncertain target may be out of reach, which costs more than a target one return lower.
        """
        tau, looks = self.tau, self.t & (self.t - 1) == 0 or self.t % 50 == 0
        if looks:
            margin = self._margins()
            clear = CLEAR * np.sqrt(tau * (1.0 - tau) / self.t)
            self.margin = margin.below if min(margin) >= clear else tau
        return self.margin

    def _margins(self) -> Margin:
        """Return the margins of the best target under the empirical kernel."""
        kernel, tau = self.counts.probability, self.tau
        if self._replanner is None:
            return guarantee_curve(self.model.with_probability(kernel)).margin(tau)
        found = self._replanner.point(kernel, tau).margin
        assert found is not None
        return found

    def half_radius(self) -> FloatArray:
        """Return half the l1 radius of every row, shape (H, S*A); 0 if the row is known."""
        visits = self.counts.visits.reshape(self.counts.M, -1)
        if self.c_conf == "theory":
            sizes = self.counts.support_size.reshape(self.counts.M, -1)
            task = self.task
            # Pooled counts reach T * H, with S * A rows instead of S * A * H: the union bound and the constant are the same.
            eps = radius(visits, task.S, task.A, task.episodes, task.H, task.delta, np.maximum(sizes, 1))
            eps = np.where(visits == 0, 2.0, eps)  # the whole simplex before the first visit (Algorithm 1)
        else:
            c: Any = self.c_conf
            if c == "visits":
                first = max(self.task.H**-0.5, SMALL)
                c = SMALL + (first - SMALL) / (1.0 + visits / math.log(math.e + self.t))
            eps = c * np.sqrt(self._log_term / np.maximum(visits, 1))
        half = np.minimum(eps, 2.0) * self._half_unknown
        return half if half.shape[0] == self.task.H else np.repeat(half, self.task.H, axis=0)


Planned = tuple[Policy, dict[str, float]]  # a policy and its notes


def _plan_target(learner: UCBBQRL, half: FloatArray) -> Planned:
    """Return the target policy that is optimistic over the whole ball.

    `nominal` is the value of the policy under the empirical kernel, which lies in the ball; the bound minus `nominal` is the
    gap of the planner.
    """
    replanner, kernel, ball = learner._replanner, learner.counts.probability, half if half.any() else None
    assert replanner is not None
    if learner.beta == 0.0:
        found = replanner.point(kernel, learner.level, ball)
    else:
        found = replanner.window(kernel, learner.level, learner.beta, ball)
    gap = max(found.bound - found.nominal, 0.0)
    notes = {"optimistic": found.bound, "bound": found.bound, "nominal": found.nominal, "planner_gap": gap}
    return found.policy, notes | {"sweeps": found.sweeps}


def _candidate_inputs(learner: UCBBQRL, half: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return half the radius of every row of the model, and the uniforms of the random candidates."""
    rows = learner.model.row_start.size - 1
    return (half if half.size == rows else half[:1]).reshape(-1), learner.rng.random((RANDOM_CANDIDATES, rows, 2))


def _plan_greedy(learner: UCBBQRL, half: FloatArray) -> Planned:
    """Return the policy of Algorithm 3 over the empirical, a directed and four random kernels, as in the paper."""
    rows, uniforms = _candidate_inputs(learner, half)
    kernel, level, beta = learner.counts.probability, learner.level, learner.beta
    found = optimistic_greedy(learner.model, kernel, rows, level, beta, uniforms)
    return MarkovPolicy(found.actions), {"optimistic": found.value, "candidate": float(found.kernel)}


def _plan_frontier(learner: UCBBQRL, half: FloatArray) -> Planned:
    """Return the label policy of EVI-BQ (Algorithm 2) over the same candidate kernels; for tiny problems."""
    rows, uniforms = _candidate_inputs(learner, half)
    model, kernel, level, beta = learner.model, learner.counts.probability, learner.level, learner.beta
    retained = greedy_policies(model, kernel[None], level, beta).retained[0]
    plan = plan_frontier(model, level, beta, kernels=candidate_kernels(model, kernel, rows, retained, uniforms))
    assert plan.upper is not None
    return plan.policy, {"optimistic": plan.upper, "candidate": float(plan.details["kernel"])}


_PLANNERS: dict[str, Callable[[UCBBQRL, FloatArray], Planned]] = {
    "target": _plan_target,
    "greedy": _plan_greedy,
    "frontier": _plan_frontier,
}


def read_buffer(buffer: str | float | Callable[[int], float], tau: float) -> tuple[Callable[[int], float], bool]:
    """Return the schedule that `buffer` names, and whether it adapts to the data."""
    if callable(buffer):
        return buffer, False
    if isinstance(buffer, (int, float)) and not isinstance(buffer, bool):
        return constant_buffer(buffer), False
    if buffer in ("log", "adaptive"):
        return log_buffer(tau), buffer == "adaptive"
    if buffer == "point":
        return (lambda t: 0.0), False
    if isinstance(buffer, str) and buffer.startswith("power:"):
        try:
            return power_buffer(tau, float(buffer.removeprefix("power:"))), False
        except ValueError:
            pass
    raise ArgumentError(
        f"buffer must be 'log', 'adaptive', 'point', 'power:0.5', a number or a function of the episode, got {one_line(buffer)}",
        name="buffer", value=buffer,
    )  # fmt: skip
