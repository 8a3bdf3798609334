"""Buffering gap (lemma on the vanishing root-level buffering gap): what a buffer costs every policy, and the best one.

    Delta_beta = max over deterministic policies of Q_tau(G) - Q_tau^beta(G)        two-sided, as in Theorem 1
    x* - max over policies of Q_tau^beta(G)                                         one-sided, the cost to the best policy

Both are zero for small beta (up to rho_tau and rho*, respectively), and neither decreases in beta.

Corrected: Q_tau^beta <= Q_tau, so the buffered value of the policy played never exceeds its quantile. The paper's
decomposition contains 2 Delta_beta; one of the two terms can be dropped, and the other is needed for the optimal policy
only.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.checks import whole
from bqrl.errors import SizeError
from bqrl.kernels.tolerance import MASS_TOL
from bqrl.laws.law import Law
from bqrl.mdp.arrays import FloatArray, read_only
from bqrl.mdp.model import MDP
from bqrl.planners.achievable import Frontier
from bqrl.planners.confidence import log_buffer, power_buffer
from bqrl.planners.frontier import MAX_LAWS, frontier
from bqrl.planners.solve import solve
from bqrl.planners.target import GuaranteeCurve
from bqrl.theory.inputs import as_buffers, as_level, columns_of, exact_curve, exact_law
from bqrl.theory.plateau import PlateauBounds, plateau_bounds
from bqrl.theory.schedule import Schedule, buffer_horizon


def buffering_gap(mdp: MDP, tau: float, beta: Any, *, max_laws: int = MAX_LAWS) -> Any:
    """Delta_beta: the largest loss that a buffer causes to any deterministic policy.

    Parameters
    ----------
    mdp, tau, beta : see `bqrl.theory`
    max_laws : int
        Limit on the number of return laws. The gap is the maximum over all achievable laws, which grow exponentially in
        number; beyond the limit a SizeError is raised. `one_sided_gap` has no such limit.

    Returns
    -------
    float or ndarray
        The exact gap of each buffer; zero for beta up to `plateau(mdp, tau)`.

    Examples
    --------
    >>> from bqrl import theory
    >>> buffering_gap(theory.hard_instance(0.5, 0.05, H=3), 0.5, [0.05, 0.1]).round(9).tolist()
    [0.0, 1.0]
    """
    tau = as_level(tau)
    betas = as_buffers(beta, tau)
    gaps = largest_gaps(achievable(mdp, max_laws), tau, betas.ravel()).reshape(betas.shape)
    return float(gaps) if gaps.ndim == 0 else gaps


def achievable(mdp: MDP, max_laws: int = MAX_LAWS) -> Frontier:
    """Every achievable return law; SizeError if they exceed the limits of the frontier."""
    limit = whole(max_laws, "max_laws", 1)
    columns_of(mdp, "the buffering gap")
    try:
        return frontier(mdp, max_laws=limit)
    except SizeError as error:
        message = (
            f"the list of achievable return laws must have at most max_laws={limit} laws, got more or too many for the memory;"
            " raise max_laws, or use plateau_bounds or one_sided_gap, which need no list"
        )
        raise SizeError(message, needed=error.needed, limit=error.limit, name="max_laws") from error


def largest_gaps(laws: Frontier, tau: float, betas: FloatArray) -> FloatArray:
    """Delta_beta of each buffer, shape (n,)."""
    point = laws.values(tau)
    return np.array([max(0.0, float((point - laws.values(tau, beta)).max())) for beta in betas.tolist()])


def buffered_quantiles(law: Law, tau: float, betas: FloatArray) -> FloatArray:
    """Q_tau^beta of one law for many buffers, shape (n,), from the integral of Q_u, which is linear between atoms."""
    mass = np.r_[0.0, law.running]
    area = np.r_[0.0, np.cumsum(law.values * law.probabilities)]
    return np.asarray((np.interp(tau, mass, area) - np.interp(tau - betas, mass, area)) / betas)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OneSidedGap:
    """x* - max_pi Q_tau^beta(G_pi), bracketed for every buffer by the solutions at a few buffers."""

    tau: float
    best: float  # x*, the best tau-quantile
    margin: float  # rho*; the gap is zero for buffers up to this value
    solved: FloatArray  # (n,)  increasing buffers at which the buffered problem was solved
    bound: FloatArray  # (n,)  proven upper bound on the best buffered quantile at each of them
    laws: tuple[Law, ...]  # return laws of the policies found; the first is that of the optimal policy

    def upper(self, beta: FloatArray) -> FloatArray:
        """Proven upper ends (n,): the smallest gap of the policies found, each evaluated with every buffer."""
        reached = np.max([buffered_quantiles(law, self.tau, beta) for law in self.laws], axis=0)
        return np.where(beta > self.margin + MASS_TOL, np.maximum(self.best - reached, 0.0), 0.0)

    def lower(self, beta: FloatArray) -> FloatArray:
        """Proven lower ends (n,): the gap does not decrease in beta, so bounds at smaller buffers remain valid."""
        proven = np.maximum.accumulate(np.maximum(np.r_[0.0, self.best - self.bound], 0.0))
        return np.asarray(proven[np.searchsorted(self.solved, beta + MASS_TOL)])


def one_sided_gap(mdp: MDP, tau: float, betas: Any = None, *, curve: GuaranteeCurve | None = None) -> OneSidedGap:
    """What a buffer costs the best policy, bracketed for every buffer.

    Parameters
    ----------
    mdp, tau : see `bqrl.theory`
    betas : float or array_like, optional
        Buffers at which the buffered problem is solved; there the bracket is as wide as the gap of the planner. By
        default eight buffers between rho* and tau.
    curve : GuaranteeCurve, optional
        The curve of `mdp`, if it is already known.

    Returns
    -------
    OneSidedGap
        Call `lower` and `upper` with an array of buffers.

    Examples
    --------
    >>> from bqrl import theory
    >>> one_sided_gap(theory.hard_instance(0.5, 0.05, H=3), 0.5).upper(np.array([0.05, 0.1])).round(9).tolist()
    [0.0, 1.0]
    """
    tau, curve = as_level(tau), exact_curve(mdp, "the one-sided gap", curve)
    margin = curve.margin(tau).below
    chosen = np.geomspace(margin, tau, 9)[1:] if betas is None else np.unique(as_buffers(betas, tau, "betas"))
    chosen = np.minimum(chosen[chosen > margin + MASS_TOL], tau)
    optimal = exact_law(mdp, curve.policy(tau), "the one-sided gap")
    laws, bound = [optimal], []
    for beta in chosen.tolist():
        plan = solve(mdp, tau, beta)
        assert plan.upper is not None
        bound.append(plan.upper)
        if plan.law_upper is None:
            laws.append(plan.law)
    return OneSidedGap(
        tau=tau,
        best=optimal.quantile(tau),
        margin=margin,
        solved=read_only(chosen),
        bound=read_only(np.array(bound)),
        laws=tuple(laws),
    )


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class GapProfile:
    """Both buffering gaps as functions of the buffer, and the episode from which each schedule avoids them."""

    tau: float
    beta: FloatArray  # (n,)  buffers, increasing
    two_sided: FloatArray | None  # (n,)  Delta_beta; None if there are too many return laws
    one_sided: tuple[FloatArray, FloatArray]  # (n,) each: proven lower and upper ends of the one-sided gap
    plateau: PlateauBounds  # bracket of rho_tau
    margin: float  # rho*
    clears: dict[str, tuple[float, float]]  # per schedule, first episodes with beta_t <= plateau.upper and <= margin


def gap_profile(
    mdp: MDP,
    tau: float,
    betas: Any = None,
    schedules: Mapping[str, Schedule] | None = None,
    *,
    max_laws: int = MAX_LAWS,
) -> GapProfile:
    """Both buffering gaps for a range of buffers, with the plateau, the margin and the horizon of each schedule.

    Parameters
    ----------
    mdp, tau, max_laws : see `bqrl.theory`
    betas : array_like, optional
        Buffers in (0, tau]; by default 33 from below the margin to tau.
    schedules : mapping, optional
        Named schedules; by default the logarithmic one and the powers 1/4 and 1/2.

    Returns
    -------
    GapProfile

    Examples
    --------
    >>> from bqrl import theory
    >>> gap_profile(theory.hard_instance(0.5, 0.05), 0.5).clears["power 1/2"]
    (99.0, 99.0)
    """
    tau, curve = as_level(tau), exact_curve(mdp, "the buffering gap")
    rho, margin = plateau_bounds(mdp, tau), curve.margin(tau).below
    if betas is None:
        betas = np.minimum(np.geomspace(max(min(rho.upper, margin) / 2.0, tau / 1e3), tau, 33), tau)
    beta = np.unique(as_buffers(betas, tau, "betas"))
    one = one_sided_gap(mdp, tau, beta, curve=curve)
    try:
        two = read_only(largest_gaps(achievable(mdp, max_laws), tau, beta))
    except SizeError:
        two = None
    if schedules is None:
        schedules = {"log": log_buffer(tau), "power 1/4": power_buffer(tau, 0.25), "power 1/2": power_buffer(tau, 0.5)}
    clears = {
        name: (float(buffer_horizon(tau, rho.upper, schedule)), float(buffer_horizon(tau, margin, schedule)))
        for name, schedule in schedules.items()
    }
    return GapProfile(
        tau=tau,
        beta=read_only(beta),
        two_sided=two,
        one_sided=(read_only(one.lower(beta)), read_only(one.upper(beta))),
        plateau=rho,
        margin=margin,
        clears=clears,
    )
