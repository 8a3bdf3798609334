"""Buffering gap (lemma on the vanishing root-level buffering gap): the cost of a buffer to any policy and to the best one.

    Delta_beta = max over deterministic policies of Q_tau(G) - Q_tau^beta(G)        two-sided, as in Theorem 1
    x* - max over policies of Q_tau^beta(G)                                         one-sided, the cost to the best policy

The first is zero up to beta = rho_tau, the second up to beta = rho*; neither decreases in beta.

Corrected: Q_tau^beta <= Q_tau, so the buffered value of the policy played never exceeds its quantile. The paper's
decomposition contains 2 Delta_beta; one of the two terms can be dropped, and the other is needed for the optimal policy
only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.checks import whole
from bqrl.errors import SizeError
from bqrl.laws.law import Law
from bqrl.laws.objectives import LEVEL_SLACK
from bqrl.loops.tolerance import MASS_TOL
from bqrl.mdp.arrays import FloatArray, read_only
from bqrl.mdp.model import MDP, check_mdp
from bqrl.planners.achievable import Frontier
from bqrl.planners.frontier import MAX_LAWS, frontier
from bqrl.planners.solve import solve
from bqrl.theory.inputs import as_buffers, as_level, columns_of, exact_curve, exact_law


def buffering_gap(mdp: MDP, tau: float, beta: Any, *, max_laws: int = MAX_LAWS) -> Any:
    """Return Delta_beta, the largest loss of a deterministic policy through a buffer (lemma on the vanishing buffering gap).

    Parameters
    ----------
    mdp, tau, beta, max_laws : see `bqrl.theory`
        The number of achievable laws grows exponentially; `one_sided_gap` does not list them.

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
    """Return all achievable return laws; SizeError if they exceed the limits of the frontier."""
    limit = whole(max_laws, "max_laws", 1)
    mdp = check_mdp(mdp)
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
    """Return Delta_beta of each buffer, shape (n,)."""
    point = laws.values(tau)
    return np.array([max(0.0, float((point - laws.values(tau, beta)).max())) for beta in betas.tolist()])


def buffered_quantiles(law: Law, tau: float, betas: FloatArray) -> FloatArray:
    """Return Q_tau^beta of one law for n buffers, shape (n,); the integral of Q_u over u is piecewise linear."""
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
        """Return the proven upper ends (n,): for every buffer, the smallest gap of the policies found."""
        reached = np.max([buffered_quantiles(law, self.tau, beta) for law in self.laws], axis=0)
        return np.where(beta > self.margin + MASS_TOL, np.maximum(self.best - reached, 0.0), 0.0)

    def lower(self, beta: FloatArray) -> FloatArray:
        """Return the proven lower ends (n,); the gap does not decrease in beta, so bounds at smaller buffers are valid."""
        proven = np.maximum.accumulate(np.maximum(np.r_[0.0, self.best - self.bound], 0.0))
        return np.asarray(proven[np.searchsorted(self.solved, beta + MASS_TOL)])


def one_sided_gap(mdp: MDP, tau: float, betas: Any = None) -> OneSidedGap:
    """Return a bracket of the cost of a buffer to the best policy, which replaces 2 Delta_beta of Theorem 1.

    Parameters
    ----------
    mdp, tau : see `bqrl.theory`
    betas : float or array_like, optional
        Buffers at which the buffered problem is solved; there the bracket is as wide as the gap of the planner. By
        default up to eight buffers between rho* and tau. Buffers below 1e-9 are too small for the planner and are left out.

    Returns
    -------
    OneSidedGap
        The bracket; call its methods `lower` and `upper` with an array of buffers.

    Examples
    --------
    >>> from bqrl import theory
    >>> one_sided_gap(theory.hard_instance(0.5, 0.05, H=3), 0.5).upper(np.array([0.05, 0.1])).round(9).tolist()
    [0.0, 1.0]
    """
    tau, curve = as_level(tau), exact_curve(mdp, "the one-sided gap")
    margin = curve.margin(tau).below
    chosen = np.geomspace(margin, tau, 9)[1:] if betas is None else np.unique(as_buffers(betas, tau, "betas"))
    chosen = np.minimum(chosen[(chosen > margin + MASS_TOL) & (chosen >= LEVEL_SLACK)], tau)
    optimal = exact_law(mdp, curve.policy(tau), "the one-sided gap")
    laws, bound = [optimal], []
    for beta in chosen.tolist():
        plan = solve(mdp, tau, beta)
        assert plan.upper is not None
        bound.append(plan.upper)
        if plan.law_upper is None:
            laws.append(plan.law)
    return OneSidedGap(
        tau=tau, best=optimal.quantile(tau), margin=margin, solved=read_only(chosen), bound=read_only(np.array(bound)),
        laws=tuple(laws),
    )  # fmt: skip
