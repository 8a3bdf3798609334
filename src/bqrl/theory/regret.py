"""What UCB-BQRL is proven to lose in T episodes: Theorem 1, Corollary 1 and our sharper form, term by term.

With probability at least 1 - 2 delta, for a schedule beta_t in (0, tau] that never grows,

    Theorem 1     Reg_tau(T) <= 2 sum_t Delta_{beta_t} + (C / beta_{T-1}) H^2 (sqrt(S A T) + sqrt(T log(1/delta) / 2))
    Corollary 1   the same with beta_t = tau / log(e + t) and 2 H min(T, K_tau) in place of the first term
    ours          Reg_tau(T) <= sum_t [x* - max_pi Q^{beta_t}(pi)] + sum_t g_t
                                + (C / beta_{T-1}) 2 Lambda (sqrt(S A T) + sqrt(T log(1/delta) / 2))

with C = c sqrt(log(2 S A T H / delta)) = max{2, sqrt(2 log(S A T H (2^S - 2) / delta))}, Lambda = sum_h w_h the weights
`sharp_weights` of the perturbation lemma (at most H^2 / 2), and g_t the gap of the planner in episode t: its optimistic
value minus the buffered quantile of its policy under the kernel it chose.

Corrected: c is no universal constant: C grows like sqrt(1.39 S), so the true rate has another sqrt(S); the terms here carry
it. The first term is needed once and for the optimal policy only, because Q^beta <= Q: it vanishes when beta_t <= rho*,
never later than the paper's rho_tau. Confidence sets for adaptive data need a union over the number of visits in place of
the episode, with the same constant. Rewards on (s, a, s') have Lambda = H (H + 1) / 2, for which H^2 is too small: the
printed forms then use H (H + 1). Rewards of any range: everything but the probabilities scales with the reward span r of a stage.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.mdp.forms import FloatArray
from bqrl.mdp.model import MDP
from bqrl.planners.achievable import Frontier
from bqrl.planners.confidence import confidence_constant, log_term
from bqrl.planners.plan import check_levels
from bqrl.theory.buffering import achievable, largest_gaps, one_sided_gap
from bqrl.theory.checks import open_share, problem, whole
from bqrl.theory.perturbation import reward_spans, sharp_weights
from bqrl.theory.plateau import plateau_bounds
from bqrl.theory.schedule import LONGEST, Schedule, as_function, buffer_horizon, buffering_sum

MAX_SUMMED_LAWS = 5_000  # laws up to which Delta_beta is summed exactly


@dataclass(frozen=True, slots=True)
class RegretBound:
    """One bound on Reg_tau(T), its terms apart; it holds with probability at least `probability`."""

    statement: str
    T: int
    buffering: float  # what planning with a buffer costs
    counting: float  # what not knowing the kernel costs along the episodes played
    martingale: float  # what chance adds to that
    planner: float  # what an inexact planner adds
    trivial: float  # T H r: what no learner can exceed
    probability: float
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> float:
        """The bound."""
        return self.buffering + self.counting + self.martingale + self.planner

    @property
    def informative(self) -> bool:
        """Whether it says more than T H r."""
        return self.total < self.trivial


class RegretBounds:
    """The bounds of one problem, for any number of episodes: prepare once, call with a statement and T.

    `support` is the largest number of successors of a row that the learner knows to be possible; it replaces S in the
    confidence constant (2^k - 2 in place of 2^S - 2). `planner_gap` is g_t, one number or one for each episode.
    """

    def __init__(
        self, mdp: MDP, tau: float, *, delta: float = 0.05, schedule: Schedule = None, planner_gap: Any = 0.0,
        support: int | None = None,
    ) -> None:  # fmt: skip
        self.tau, _ = check_levels(tau, 0.0)
        self.mdp, self.delta, self.schedule = problem(mdp), open_share(delta, "delta"), schedule
        self.support = mdp.S if support is None else whole(support, "support", 1)
        self.beta = as_function(schedule, self.tau)
        self.gap_t = np.asarray(planner_gap, dtype=np.float64)
        if np.any(~(self.gap_t >= 0.0)) or self.gap_t.ndim > 1:
            raise ValueError("planner_gap must be a number, or one for each episode, and not negative")
        spans = reward_spans(mdp)
        self.span = float(spans.max())
        self.reach = float(2.0 * sharp_weights(mdp).sum())  # 2 Lambda
        self.printed_reach = self.span * mdp.H * (mdp.H if mdp.row_reward is not None else mdp.H + 1)
        self._made: dict[Any, Any] = {}

    def __call__(self, T: int, statement: str = "ours") -> RegretBound:
        """The bound for T episodes; `statement` is "theorem 1", "corollary 1" or "ours"."""
        if statement not in STATEMENTS:
            raise ValueError(f"statement must be one of {', '.join(map(repr, STATEMENTS))}, got {statement!r}")
        T, mdp = whole(T, "T", 1), self.mdp
        buffering, notes = STATEMENTS[statement](self, T)
        reach = self.reach if statement == "ours" else self.printed_reach
        level = log_term(mdp.S, mdp.A, T, mdp.H, self.delta)
        C = confidence_constant(mdp.S, mdp.A, T, mdp.H, self.delta, self.support) * math.sqrt(level)
        scale = C * reach / float(self.beta(float(T - 1)))
        gaps = self.gap_t
        if gaps.ndim and gaps.size < T:
            raise ValueError(f"planner_gap has {gaps.size} entries, fewer than the {T} episodes")
        planner = float(gaps[:T].sum()) if gaps.ndim else float(gaps) * T
        return RegretBound(
            statement, T, buffering, scale * math.sqrt(mdp.S * mdp.A * T),
            scale * math.sqrt(T * math.log(1.0 / self.delta) / 2.0), planner, T * mdp.H * self.span,
            1.0 - 2.0 * self.delta, notes,
        )  # fmt: skip

    def informative_from(self, statement: str = "ours") -> int | float:
        """The number of episodes from which the bound stays below the trivial T H r; infinite where it never does.

        Powers of two are tried up to 2^300, and the last crossing is found by bisection.
        """
        if self.schedule is not None and not callable(self.schedule) and np.ndim(self.schedule):
            raise ValueError("a listed schedule ends; give a function of the episode to ask for every T")
        if self.gap_t.ndim:
            raise ValueError("planner_gap must be one number to ask for every T")
        idle = [k for k in range(int(math.log2(LONGEST))) if not self(2**k, statement).informative]
        if not idle:
            return 1
        if idle[-1] + 1 >= int(math.log2(LONGEST)):
            return math.inf
        low, high = 2 ** idle[-1], 2 ** (idle[-1] + 1)
        while high - low > max(1, low >> 40):
            middle = (low + high) // 2
            low, high = (low, middle) if self(middle, statement).informative else (middle, high)
        return high

    # -- the first term of each statement ---------------------------------------------------------------------------

    def _theorem(self, T: int) -> tuple[float, tuple[str, ...]]:
        """Twice the sum of Delta_beta, over every achievable law where these are few."""
        rho = self._once("plateau", lambda: plateau_bounds(self.mdp, self.tau))
        laws = self._once("laws", self._laws)
        if laws is None:
            most = self.mdp.H * self.span
            note = f"too many laws: Delta_beta is taken as H r = {most:g} for beta > {rho.lower:.3g} ({rho.reason})"
            return 2.0 * most * self._paying(T, rho.lower), (note,)
        total = self._sum(lambda beta: largest_gaps(laws, self.tau, beta), T, rho.lower)
        return 2.0 * total, (f"Delta_beta over {len(laws)} achievable laws, zero from rho_tau = {rho.lower:.6g} down",)

    def _corollary(self, T: int) -> tuple[float, tuple[str, ...]]:
        """Corrected: 2 H K_tau as printed exceeds what T episodes can cost; only the first min(T, K_tau) of them pay."""
        if not (self.schedule is None or getattr(self.schedule, "kind", "") == "log"):
            raise ValueError("corollary 1 is about the logarithmic schedule; ask for 'theorem 1' with any other")
        rho = self._once("plateau", lambda: plateau_bounds(self.mdp, self.tau))
        note = f"K_tau = {self._paying(math.inf, rho.lower):.6g} from rho_tau >= {rho.lower:.3g} ({rho.reason})"
        return 2.0 * self.mdp.H * self.span * self._paying(T, rho.lower), (note,)

    def _ours(self, T: int) -> tuple[float, tuple[str, ...]]:
        """The sum of what the buffer takes from the best policy."""
        found = self._once("one-sided", lambda: one_sided_gap(self.mdp, self.tau))
        K = self._paying(math.inf, found.margin)
        note = f"no buffering cost from episode {K:.6g} on: rho* = {found.margin:.6g}"
        return self._sum(found.upper, T, found.margin), (note,)

    def _paying(self, T: float, rho: float) -> float:
        """Episodes before T whose buffer exceeds rho."""
        K = math.inf if rho <= 0.0 else self._once(("K", rho), lambda: buffer_horizon(self.tau, rho, self.schedule))
        return min(float(T), float(K))

    def _sum(self, gap: Callable[[FloatArray], FloatArray], T: int, rho: float) -> float:
        paying = int(self._paying(T, rho))
        if paying == 0:
            return 0.0
        key = ("sum", rho, paying)
        return float(self._once(key, lambda: buffering_sum(gap, self.tau, paying, self.schedule)))

    def _laws(self) -> Frontier | None:
        try:
            return achievable(self.mdp, MAX_SUMMED_LAWS)
        except ValueError:
            return None

    def _once(self, key: Any, make: Callable[[], Any]) -> Any:
        if key not in self._made:
            self._made[key] = make()
        return self._made[key]


STATEMENTS: dict[str, Callable[[RegretBounds, int], tuple[float, tuple[str, ...]]]] = {
    "theorem 1": RegretBounds._theorem,
    "corollary 1": RegretBounds._corollary,
    "ours": RegretBounds._ours,
}


def regret_bound(mdp: MDP, tau: float, T: int, statement: str = "ours", **options: Any) -> RegretBound:
    """The bound on Reg_tau(T) of UCB-BQRL on this problem, term by term; options as in `RegretBounds`."""
    return RegretBounds(mdp, tau, **options)(T, statement)
