"""Theorem 1, Corollary 1 and a sharper form: upper bounds on the regret of UCB-BQRL, term by term.

With probability at least 1 - 2 delta, for a non-increasing schedule beta_t in (0, tau],

    Theorem 1     Reg_tau(T) <= 2 sum_t Delta_{beta_t} + (C / beta_{T-1}) H^2 (sqrt(S A T) + sqrt(T log(1/delta) / 2))
    Corollary 1   the same with beta_t = tau / log(e + t) and 2 H min(T, K_tau) as first term
    ours          Reg_tau(T) <= sum_t [x* - max_pi Q^{beta_t}(pi)] + sum_t g_t
                                + (C / beta_{T-1}) 2 Lambda (sqrt(S A T) + sqrt(T log(1/delta) / 2))

where C = c sqrt(log(2 S A T H / delta)) = max{2, sqrt(2 log(S A T H (2^k - 2) / delta))}; Lambda = sum_h w_h, at most
H^2 / 2, is the sum of the weights `sharp_weights` of the perturbation lemma; and g_t is the gap of the planner in episode t,
that is, its optimistic value minus the buffered quantile of its policy under the kernel it chose.

Corrected: c is not a universal constant. C grows like sqrt(1.39 k), so the rate contains another factor sqrt(k), which the
terms here include. The paper has k = S; here k is the largest number of outcomes of a row, as in the learner's balls: few
of the S states may be possible, and random rewards can give a row more than S outcomes. Because Q^beta <= Q, the first term
is needed once, and for the optimal policy only; it vanishes when beta_t <= rho*, never later than with the paper's rho_tau.
For adaptively collected data the confidence sets need a union over the number of visits instead of the episodes, with the
same constant. If rewards depend on (s, a, s'), Lambda can be as large as H (H + 1) / 2, and H^2 is too small: the printed
forms then use H (H + 1). For rewards of any range all terms scale with the largest reward span r of a stage; the
probability does not change.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np

from bqrl.checks import bad_value, choice, number, numbers, whole
from bqrl.errors import SizeError
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.model import MDP, check_mdp
from bqrl.planners.confidence import confidence_constant, log_term, most_outcomes
from bqrl.theory.buffering import achievable, largest_gaps, one_sided_gap
from bqrl.theory.inputs import as_level
from bqrl.theory.perturbation import reward_spans, sharp_weights
from bqrl.theory.plateau import PlateauBounds, plateau_bounds
from bqrl.theory.schedule import Schedule, as_function, buffer_horizon, buffering_sum

MAX_SUMMED_LAWS = 5_000  # number of laws up to which Delta_beta is summed exactly
STATEMENTS = {"theorem 1": "_theorem", "corollary 1": "_corollary", "ours": "_ours"}  # methods for the buffering term


@dataclass(frozen=True, slots=True, kw_only=True)
class RegretBound:
    """An upper bound on Reg_tau(T), term by term."""

    statement: str  # one of STATEMENTS
    T: int
    buffering: float  # cost of planning with a buffer
    counting: float  # cost of the unknown kernel along the episodes played
    martingale: float  # deviation of that cost from its expectation
    planner: float  # cost of an inexact planner
    trivial: float  # T H r, an upper bound on the regret of every learner
    probability: float  # the bound holds with at least this probability
    notes: tuple[str, ...] = ()  # how the buffering term was computed

    @property
    def total(self) -> float:
        """The bound: the sum of its terms."""
        return self.buffering + self.counting + self.martingale + self.planner

    @property
    def informative(self) -> bool:
        """Whether the bound is smaller than the trivial T H r."""
        return self.total < self.trivial


class _BufferCost(NamedTuple):
    """The buffering term of a statement."""

    total: Callable[[float], float]  # the cost of the first n episodes
    until: float  # the first episode from which there is no cost
    note: str  # how the term was computed


class RegretBounds:
    """The regret bounds of one problem for any number of episodes; an instance is called with T and a statement.

    Parameters
    ----------
    mdp, tau, delta, schedule : see `bqrl.theory`
        The confidence sets and the martingale term may each fail with probability `delta`.
    planner_gap : float or array_like
        The gaps g_t: one number, or one per episode.
    support : int, optional
        Largest number k of outcomes of a row that the learner considers possible; by default that of `mdp`.

    Examples
    --------
    >>> from bqrl import theory
    >>> bounds = RegretBounds(theory.hard_instance(0.5, 0.05, H=3), 0.5)
    >>> bounds(1000).total < bounds(1000, "theorem 1").total
    True
    """

    def __init__(
        self, mdp: MDP, tau: float, *, delta: float = 0.05, schedule: Schedule = None, planner_gap: Any = 0.0,
        support: int | None = None,
    ) -> None:  # fmt: skip
        self.mdp = mdp = check_mdp(mdp)
        self.tau = as_level(tau)
        self.delta, self.schedule = number(delta, "delta", 0.0, 1.0, "()"), schedule
        self.support = most_outcomes(mdp) if support is None else whole(support, "support", 1)
        self.beta = as_function(schedule, self.tau)
        self.gaps = numbers(planner_gap, "planner_gap")
        if np.any(self.gaps < 0.0) or self.gaps.ndim > 1:
            raise bad_value("planner_gap", planner_gap, "be a number of at least 0, or one per episode")
        self.span = float(reward_spans(mdp).max())
        self.reach = float(2.0 * sharp_weights(mdp).sum())  # 2 Lambda
        self.printed_reach = self.span * mdp.H * (mdp.H if mdp.row_reward is not None else mdp.H + 1)

    def __call__(self, T: int, statement: str = "ours") -> RegretBound:
        """Return the bound for T episodes; `statement` is "theorem 1", "corollary 1" or "ours"."""
        T, mdp = whole(T, "T", 1), self.mdp
        cost: _BufferCost = getattr(self, STATEMENTS[choice(statement, "statement", STATEMENTS)])
        level = log_term(mdp.S, mdp.A, T, mdp.H, self.delta)
        C = confidence_constant(mdp.S, mdp.A, T, mdp.H, self.delta, self.support) * math.sqrt(level)
        reach = self.reach if statement == "ours" else self.printed_reach
        scale = C * reach / float(self.beta(float(T - 1)))
        if self.gaps.ndim and self.gaps.size < T:
            raise bad_value("planner_gap", self.gaps, f"have one entry per episode ({T})", self.gaps.size)
        return RegretBound(
            statement=statement, T=T, buffering=cost.total(min(T, cost.until)),
            counting=scale * math.sqrt(mdp.S * mdp.A * T),
            martingale=scale * math.sqrt(T * math.log(1.0 / self.delta) / 2.0),
            planner=float(self.gaps[:T].sum()) if self.gaps.ndim else float(self.gaps) * T, trivial=T * mdp.H * self.span,
            probability=1.0 - 2.0 * self.delta, notes=(cost.note,),
        )  # fmt: skip

    @cached_property
    def _theorem(self) -> _BufferCost:
        """Twice the sum of Delta_beta; if there are too many laws, Delta_beta is bounded by H r."""
        rho, most = self._plateau, self.mdp.H * self.span
        try:
            laws = achievable(self.mdp, MAX_SUMMED_LAWS)
        except SizeError:
            note = f"too many laws: Delta_beta is bounded by H r = {most:g} for beta > {rho.lower:.3g} ({rho.reason})"
            return _BufferCost(lambda n: 2.0 * most * n, self._horizon(rho.lower), note)
        note = f"Delta_beta over {len(laws)} achievable laws, zero up to rho_tau = {rho.lower:.6g}"
        total = self._gap_sum(lambda beta: 2.0 * largest_gaps(laws, self.tau, beta))
        return _BufferCost(total, self._horizon(rho.lower), note)

    @cached_property
    def _corollary(self) -> _BufferCost:
        """2 H r times the number of costly episodes.

        Corrected: the printed term 2 H K_tau can exceed the cost of T episodes; only the first min(T, K_tau) are costly.
        """
        if not (self.schedule is None or getattr(self.schedule, "kind", "") == "log"):
            rule = "be the logarithmic one for 'corollary 1'"
            raise bad_value("schedule", self.schedule, rule, remedy="use 'theorem 1'")
        rho, most = self._plateau, self.mdp.H * self.span
        K = self._horizon(rho.lower)
        note = f"K_tau = {K:.6g} for rho_tau >= {rho.lower:.3g} ({rho.reason})"
        return _BufferCost(lambda n: 2.0 * most * n, K, note)

    @cached_property
    def _ours(self) -> _BufferCost:
        """The sum of the one-sided gaps."""
        found = one_sided_gap(self.mdp, self.tau)
        K = self._horizon(found.margin)
        note = f"no buffering cost from episode {K:.6g} on: rho* = {found.margin:.6g}"
        return _BufferCost(self._gap_sum(found.upper), K, note)

    @cached_property
    def _plateau(self) -> PlateauBounds:
        return plateau_bounds(self.mdp, self.tau)

    def _horizon(self, rho: float) -> float:
        """Return the first episode from which no buffer exceeds rho."""
        return math.inf if rho <= 0.0 else buffer_horizon(self.tau, rho, self.schedule)

    def _gap_sum(self, gap: Callable[[FloatArray], FloatArray]) -> Callable[[float], float]:
        """Return the sum of a gap over the first n episodes as a cached function of n."""
        return cache(lambda n: buffering_sum(gap, self.tau, n, self.schedule) if n else 0.0)


def regret_bound(mdp: MDP, tau: float, T: int, statement: str = "ours", **options: Any) -> RegretBound:
    """Return a bound on Reg_tau(T) for one problem, term by term: Theorem 1, Corollary 1 or the sharper form.

    Parameters
    ----------
    mdp, tau, T : see `bqrl.theory`
    statement : {"theorem 1", "corollary 1", "ours"}
        Which bound.
    **options
        `delta`, `schedule`, `planner_gap` and `support`, as in `RegretBounds`.

    Returns
    -------
    RegretBound

    Examples
    --------
    >>> from bqrl import theory
    >>> regret_bound(theory.hard_instance(0.5, 0.05, H=3), 0.5, T=1000).trivial
    3000.0
    """
    return RegretBounds(mdp, tau, **options)(T, statement)
