"""UCB-BQRL (Algorithm 1): count, take l1 balls around the empirical rows, plan optimistically for a buffered quantile.

    radius   eps_h(s, a) = c sqrt(log(2 S A T H / delta) / max{1, N_h(s, a)})        (Equation confset)
    plan     (P, pi) in argmax over the ball and over policies of Q^{beta_t}_tau      (Line 10)

The planner is a parameter: "target" bounds the whole ball and acts on the remaining need; "greedy" is the paper's
experiment (Algorithm 3 over six candidate kernels); "frontier" is EVI-BQ over the same candidates, for tiny problems.
Deviation: rows never visited are uniform over their known support, where the paper's formula gives a zero row.
Deviation: per row the support size takes the place of S in the theoretical constant; a known row has radius 0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from bqrl.laws.law import Margin
from bqrl.learners.counts import Counts
from bqrl.learners.protocol import Episode, Learner, Task
from bqrl.learners.replan import Replanner
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.policy import MarkovPolicy, Policy, policy_from_arrays
from bqrl.planners.confidence import candidate_kernels, constant_buffer, log_buffer, log_term, power_buffer, radius
from bqrl.planners.frontier import plan_frontier
from bqrl.planners.greedy import greedy_policies, optimistic_greedy
from bqrl.planners.target import guarantee_curve

PLANNERS = ("target", "greedy", "frontier")
CLEAR = 2.0  # standard errors that both margins must have before the adaptive buffer narrows
RANDOM_CANDIDATES = 4  # beside the empirical kernel and the directed one: the paper's six


class UCBBQRL(Learner):
    """Optimistic learning for the tau-quantile."""

    name = "ucb-bqrl"
    needs_rewards = True
    tuned = "c_conf"

    def __init__(
        self,
        task: Task,
        rng: np.random.Generator,
        *,
        planner: str = "target",
        c_conf: float | str = 0.008,
        buffer: str | float | Callable[[int], float] = "log",
        stationary: bool = False,
        replan_factor: float = 1.0,
    ) -> None:
        """A learner with its first plan still to make.

        `c_conf` multiplies the radius; "theory" takes the constant of the paper. `buffer` is "log" (the paper's
        tau / log(e + t)), "adaptive", "point" (no buffer), "power:0.5", a constant, or a function of the episode.
        `replan_factor` above 1 plans anew only once some row's count has grown by that factor since the last plan:
        2 saves most of the planning and costs regret in the early episodes.
        """
        super().__init__(task, rng)
        if task.model is None:
            raise ValueError("ucb-bqrl plans on a model, so it needs the reward function; learn on an MDP")
        if planner not in PLANNERS:
            raise ValueError(f"planner must be one of {', '.join(PLANNERS)}, got {planner!r}")
        if not (c_conf == "theory" or (isinstance(c_conf, (int, float)) and 0.0 <= c_conf < np.inf)):
            raise ValueError(f"c_conf must be 'theory' or a number from 0, got {c_conf!r}")
        if not replan_factor >= 1.0:
            raise ValueError(f"replan_factor must be at least 1, got {replan_factor}")
        self.planner, self.c_conf, self.replan_factor = planner, c_conf, float(replan_factor)
        self.counts = Counts(task.structure, stationary, task.model.reward)
        self.model = task.model if self.counts.M == 1 and task.model.stationary else task.model.staged()
        self.schedule, self.adaptive = read_buffer(buffer, task.tau)
        self.t = 0
        self.beta = task.tau
        self.margin = task.tau  # to which the adaptive buffer may narrow, as of the last look
        self._policy: Policy | None = None
        self._planned_visits = np.zeros_like(self.counts.visits)
        self._notes: dict[str, float] = {}
        self._half_unknown = 0.5 * (~self.counts.known & self.counts.available).reshape(self.counts.M, -1)
        self._log_term = log_term(task.S, task.A, task.episodes, task.H, task.delta)
        self._engine = _ENGINES[planner](self)

    # -- the protocol -----------------------------------------------------------------------------------------------

    def plan(self) -> Policy:
        """The optimistic policy for the next episode."""
        self.beta = self._next_beta()
        if self._policy is None or self._grown():
            self._policy, self._notes = self._engine.plan(self.counts.probability, self.half_radius(), self.beta)
            self._planned_visits = self.counts.visits.copy()
        return self._policy

    def observe(self, episode: Episode) -> None:
        """Count the episode."""
        self.counts.observe(episode)
        self.t += 1

    def notes(self) -> dict[str, float]:
        """beta_t, the optimistic value, and what the planner adds: its proven bound and gap, or the candidate that won."""
        return {"beta": self.beta} | self._notes

    def state(self) -> dict[str, Any]:
        """Return the counts, the buffer, and where the last search ended."""
        found = self.counts.state() | {
            "t": self.t,
            "beta": self.beta,
            "margin": self.margin,
            "planned_visits": self._planned_visits,
            "width": getattr(self._engine, "width", None) or 0.0,
        }
        if self._policy is not None and self.replan_factor > 1.0:
            found["policy_bqrl_policy"] = np.array(self._policy.kind)
            found |= {f"policy_{key}": value for key, value in self._policy.arrays().items()}
            found |= {f"planned_{key}": value for key, value in self._notes.items()}
        return found

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        self.counts.restore(state)
        self.t, self.beta, self.margin = int(state["t"]), float(state["beta"]), float(state["margin"])
        self._planned_visits = np.array(state["planned_visits"])
        if hasattr(self._engine, "width"):
            self._engine.width = float(state["width"]) or None
        inner = {k.removeprefix("policy_"): v for k, v in state.items() if k.startswith("policy_")}
        if inner:
            self._policy = policy_from_arrays(inner)
            prefix = "planned_"
            self._notes = {
                k.removeprefix(prefix): float(v) for k, v in state.items() if k.startswith(prefix) and v.ndim == 0
            }

    # -- pieces -----------------------------------------------------------------------------------------------------

    def _grown(self) -> bool:
        if self.replan_factor == 1.0:
            return True
        return bool(np.any(self.counts.visits > self.replan_factor * np.maximum(self._planned_visits, 1) - 1e-9))

    def _next_beta(self) -> float:
        wanted, tau = float(self.schedule(self.t)), self.task.tau
        if not (0.0 < wanted <= tau * (1 + 1e-12) or (wanted == 0.0 and self.t == 0) or (wanted == self.beta == 0.0)):
            raise ValueError(f"the buffer of episode {self.t} is {wanted:g}; it must lie in (0, tau] = (0, {tau:g}]")
        if self.t > 0 and wanted > self.beta * (1 + 1e-12) and not self.adaptive:
            raise ValueError(
                f"the buffer grows from {self.beta:g} to {wanted:g} at episode {self.t}; it must never grow"
            )
        if self.adaptive and self.t > 0:
            wanted = min(wanted, self.beta, self._adapted())
        return min(wanted, tau)

    def _adapted(self) -> float:
        """The estimated margin tau - W_0(x*) once the counts support it; until then tau, which narrows nothing.

        A shortfall near tau that is estimated from t episodes is known to about sqrt(tau (1 - tau) / t). Both that of the
        best target and that of the next one must be clear of tau by more: a narrow buffer on a doubtful target insists on
        what may be out of reach, which costs more than aiming one return lower.
        """
        tau, looks = self.task.tau, self.t & (self.t - 1) == 0 or self.t % 50 == 0
        if looks:
            margin = self._engine.margin(self.counts.probability)
            clear = CLEAR * np.sqrt(tau * (1.0 - tau) / self.t)
            self.margin = margin.below if min(margin) >= clear else tau
        return self.margin

    def half_radius(self) -> FloatArray:
        """Half the l1 radius of every row, shape (H, S*A); 0 where the row is known."""
        visits = self.counts.visits.reshape(self.counts.M, -1)
        if self.c_conf == "theory":
            sizes = self.counts.support_size.reshape(self.counts.M, -1)
            task = self.task
            # Pooled counts reach T * H, but for S * A rows instead of S * A * H: the same union, the same constant.
            eps = radius(visits, task.S, task.A, task.episodes, task.H, task.delta, np.maximum(sizes, 1))
            eps = np.where(visits == 0, 2.0, eps)  # the full simplex before the first visit (Algorithm 1)
        else:
            eps = float(self.c_conf) * np.sqrt(self._log_term / np.maximum(visits, 1))
        half = np.minimum(eps, 2.0) * self._half_unknown
        return half if half.shape[0] == self.task.H else np.repeat(half, self.task.H, axis=0)


class _TargetEngine:
    """Optimism over the whole ball, acting on the remaining need."""

    def __init__(self, learner: UCBBQRL) -> None:
        self.replanner, self.tau = Replanner(learner.model), learner.task.tau

    @property
    def width(self) -> float | None:
        """Where the last search ended."""
        return self.replanner.width

    @width.setter
    def width(self, value: float | None) -> None:
        self.replanner.width = value

    def plan(self, probability: FloatArray, half: FloatArray, beta: float) -> tuple[Policy, dict[str, float]]:
        """Return the optimistic policy and notes on it.

        The empirical kernel is in the ball, so what the policy attains there (`nominal`) is attained; the bound minus that
        is the planner's gap.
        """
        ball = half if half.any() else None
        if beta == 0.0:
            found = self.replanner.point(probability, self.tau, ball)
        else:
            found = self.replanner.window(probability, self.tau, beta, ball)
        gap = max(found.bound - found.nominal, 0.0)
        notes = {"optimistic": found.bound, "bound": found.bound, "nominal": found.nominal, "planner_gap": gap}
        return found.policy, notes | {"sweeps": found.sweeps}

    def margin(self, probability: FloatArray) -> Margin:
        """Return the margins of the best target under the empirical kernel."""
        found = self.replanner.point(probability, self.tau).margin
        assert found is not None
        return found


class _GreedyEngine:
    """The paper's experiment: Algorithm 3 over the empirical kernel, a directed and four random ones."""

    def __init__(self, learner: UCBBQRL) -> None:
        self.learner, self.tau = learner, learner.task.tau
        self.rows = learner.model.row_start.size - 1
        self.model = learner.model

    def plan(self, probability: FloatArray, half: FloatArray, beta: float) -> tuple[Policy, dict[str, float]]:
        """The greedy policy of the candidate with the largest value."""
        uniforms = self.learner.rng.random((RANDOM_CANDIDATES, self.rows, 2))
        rows = half if half.size == self.rows else half[:1]
        choice = optimistic_greedy(self.model, probability, rows.reshape(-1), self.tau, beta, uniforms)
        return MarkovPolicy(choice.actions), {"optimistic": choice.value, "candidate": float(choice.kernel)}

    def margin(self, probability: FloatArray) -> Margin:
        """Margins of the best target under the empirical kernel."""
        return guarantee_curve(self.model.with_probability(probability)).margin(self.tau)


class _FrontierEngine(_GreedyEngine):
    """EVI-BQ (Algorithm 2) over the same candidates, its labels followed during the episode; for tiny problems."""

    def plan(self, probability: FloatArray, half: FloatArray, beta: float) -> tuple[Policy, dict[str, float]]:
        """The label policy of the candidate with the largest value."""
        uniforms = self.learner.rng.random((RANDOM_CANDIDATES, self.rows, 2))
        rows = half if half.size == self.rows else half[:1]
        retained = greedy_policies(self.model, probability[None], self.tau, beta).retained[0]
        kernels = candidate_kernels(self.model, probability, rows.reshape(-1), retained, uniforms)
        plan = plan_frontier(self.model, self.tau, beta, kernels=kernels)
        assert plan.upper is not None
        return plan.policy, {"optimistic": plan.upper, "candidate": float(plan.details["kernel"])}


_ENGINES: dict[str, Callable[[UCBBQRL], Any]] = {
    "target": _TargetEngine,
    "greedy": _GreedyEngine,
    "frontier": _FrontierEngine,
}


def read_buffer(buffer: str | float | Callable[[int], float], tau: float) -> tuple[Callable[[int], float], bool]:
    """The schedule that `buffer` names, and whether it adapts to the data."""
    if callable(buffer):
        return buffer, False
    if isinstance(buffer, (int, float)) and not isinstance(buffer, bool):
        return constant_buffer(float(buffer)), False
    if buffer in ("log", "adaptive"):
        return log_buffer(tau), buffer == "adaptive"
    if buffer == "point":
        return (lambda t: 0.0), False
    if isinstance(buffer, str) and buffer.startswith("power:"):
        try:
            return power_buffer(tau, float(buffer.removeprefix("power:"))), False
        except ValueError:
            pass
    raise ValueError(
        f"buffer must be 'log', 'adaptive', 'point', 'power:0.5', a number or a function of the episode, got {buffer!r}"
    )
