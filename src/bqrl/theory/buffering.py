"""What a buffer costs: for every policy (the paper's Delta_beta), and for the best one alone.

    Delta_beta = max over deterministic policies of Q_tau(G) - Q_tau^beta(G)       two-sided, as in Theorem 1
    x* - max over policies of Q_tau^beta(G)                                        one-sided: what regret really pays

Both are zero for small beta (up to rho_tau and rho*), and neither falls as beta grows.
Corrected: since Q_tau^beta <= Q_tau always, the buffered value of the policy played is never above its quantile, so the
second of the two terms 2 Delta_beta in the paper's decomposition can be dropped, and the first is needed for the
optimal policy only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.laws.law import MASS_TOL, Law
from bqrl.mdp.forms import FloatArray
from bqrl.mdp.model import MDP
from bqrl.planners.achievable import Frontier
from bqrl.planners.buffered import plan_buffered
from bqrl.planners.confidence import log_buffer, power_buffer
from bqrl.planners.frontier import MAX_LAWS, frontier
from bqrl.planners.plan import check_levels
from bqrl.planners.target import GuaranteeCurve, guarantee_curve, plan_from_curve
from bqrl.theory.checks import buffers, problem
from bqrl.theory.plateau import PlateauBounds, plateau_bounds
from bqrl.theory.schedule import Schedule, buffer_horizon


def buffering_gap(mdp: MDP, tau: float, beta: Any, *, max_laws: int = MAX_LAWS) -> Any:
    """Delta_beta: the most that a buffer takes from any deterministic policy, for a number or an array of buffers.

    Exact, through every achievable law; ValueError where there are more than `max_laws`. It is zero for beta up to
    `plateau(mdp, tau)`, and `one_sided_gap` bounds what regret really pays at any size.
    """
    tau, _ = check_levels(tau, 0.0)
    betas = buffers(beta, tau)
    gaps = largest_gaps(achievable(mdp, max_laws), tau, betas.ravel()).reshape(betas.shape)
    return float(gaps) if gaps.ndim == 0 else gaps


def achievable(mdp: MDP, max_laws: int = MAX_LAWS) -> Frontier:
    """Every achievable law; a budget that does not suffice is an error that says what to use instead."""
    try:
        return frontier(problem(mdp), max_laws=max_laws)
    except ValueError as fault:
        reason = str(fault).split(";")[0]
        raise ValueError(
            f"the buffering gap goes through every achievable law: {reason}; plateau_bounds(mdp, tau) brackets where it "
            "vanishes and one_sided_gap needs no frontier"
        ) from None


def largest_gaps(laws: Frontier, tau: float, betas: FloatArray) -> FloatArray:
    """Delta_beta of every buffer (n,)."""
    point = laws.values(tau)
    return np.array([max(0.0, float((point - laws.values(tau, beta)).max())) for beta in betas.tolist()])


def buffered_quantiles(law: Law, tau: float, betas: FloatArray) -> FloatArray:
    """Q_tau^beta of one law for many buffers (n,): differences of the integral of Q_u, which is linear between atoms."""
    mass = np.r_[0.0, law.running]
    area = np.r_[0.0, np.cumsum(law.values * law.probabilities)]
    return np.asarray((np.interp(tau, mass, area) - np.interp(tau - betas, mass, area)) / betas)


@dataclass(frozen=True, slots=True, eq=False)
class OneSidedGap:
    """x* - max_pi Q_tau^beta(G_pi), bracketed for any buffer by the laws and bounds found at a few."""

    tau: float
    best: float  # x*
    margin: float  # rho*: the gap is zero up to here
    solved: FloatArray  # increasing buffers at which the buffered problem was solved
    bound: FloatArray  # proven upper bound on the best buffered quantile at each
    laws: tuple[Law, ...]  # of the policies found, the optimal one first

    def upper(self, beta: FloatArray) -> FloatArray:
        """Proven upper ends (n,): the policies found, each with every buffer."""
        reached = np.max([buffered_quantiles(law, self.tau, beta) for law in self.laws], axis=0)
        return np.where(beta > self.margin + MASS_TOL, np.maximum(self.best - reached, 0.0), 0.0)

    def lower(self, beta: FloatArray) -> FloatArray:
        """Proven lower ends (n,): a gap never falls as the buffer grows, so those solved below a buffer hold for it."""
        proven = np.maximum.accumulate(np.maximum(np.r_[0.0, self.best - self.bound], 0.0))
        return np.asarray(proven[np.searchsorted(self.solved, beta + MASS_TOL)])


def one_sided_gap(mdp: MDP, tau: float, betas: Any = None, *, curve: GuaranteeCurve | None = None) -> OneSidedGap:
    """What a buffer takes from the best policy, for every buffer at once; exact at `betas` up to the planner's gap.

    The buffered problem is solved at each of `betas` (by default eight from rho* to tau); between them the bracket uses the
    policies found there. Needs no frontier.
    """
    tau, _ = check_levels(tau, 0.0)
    curve = guarantee_curve(problem(mdp)) if curve is None else curve
    if not curve.exact:
        raise ValueError("the one-sided gap needs returns on an exact grid; round the rewards or drop the discount")
    margin = curve.margin(tau).below
    chosen = np.geomspace(margin, tau, 9)[1:] if betas is None else np.unique(buffers(betas, tau))
    chosen = np.minimum(chosen[chosen > margin + MASS_TOL], tau)
    best = plan_from_curve(curve, tau)
    laws, bound = [best.law], []
    for beta in chosen.tolist():
        plan = plan_buffered(mdp, tau, beta)
        assert plan.upper is not None
        bound.append(plan.upper)
        if plan.law_upper is None:
            laws.append(plan.law)
    return OneSidedGap(tau, best.value, margin, chosen, np.array(bound), tuple(laws))


@dataclass(frozen=True, slots=True, eq=False)
class GapProfile:
    """Buffering gaps against the buffer, ready to draw, and the episode from which each schedule is clear of them."""

    tau: float
    beta: FloatArray  # (n,) increasing
    two_sided: FloatArray | None  # (n,) Delta_beta; None where there are too many laws
    one_sided: tuple[FloatArray, FloatArray]  # (n,) proven lower and upper ends
    plateau: PlateauBounds  # rho_tau
    margin: float  # rho*
    clears: dict[str, tuple[float, float]]  # schedule -> episodes until below rho_tau (its upper end), and below rho*


def gap_profile(
    mdp: MDP,
    tau: float,
    betas: Any = None,
    schedules: Mapping[str, Schedule] | None = None,
    *,
    max_laws: int = MAX_LAWS,
) -> GapProfile:
    """Both gaps for a range of buffers with the plateau and the margin, and when each schedule clears them.

    By default 33 buffers from below the margin to tau, the logarithmic schedule and two powers.
    """
    tau, _ = check_levels(tau, 0.0)
    curve = guarantee_curve(problem(mdp))
    rho, margin = plateau_bounds(mdp, tau), curve.margin(tau).below
    if betas is None:
        betas = np.minimum(np.geomspace(max(min(rho.upper, margin) / 2.0, tau / 1e3), tau, 33), tau)
    beta = np.unique(buffers(betas, tau))
    one = one_sided_gap(mdp, tau, beta, curve=curve)
    try:
        two = largest_gaps(achievable(mdp, max_laws), tau, beta)
    except ValueError:
        two = None
    if schedules is None:
        schedules = {"log": log_buffer(tau), "power 1/4": power_buffer(tau, 0.25), "power 1/2": power_buffer(tau, 0.5)}
    clears = {
        name: (float(buffer_horizon(tau, rho.upper, given)), float(buffer_horizon(tau, margin, given)))
        for name, given in schedules.items()
    }
    return GapProfile(tau, beta, two, (one.lower(beta), one.upper(beta)), rho, margin, clears)
