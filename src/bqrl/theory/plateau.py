"""Root-level left-plateau threshold (Definition 2), and the margin of the optimal policy.

    rho_pi  = tau - P(G_pi < Q_tau(G_pi))
    rho_tau = min over deterministic policies of rho_pi                                    (Definition 2)
    rho*    = tau - W_0(start, x*) = rho_pi of the optimal policy with the smallest shortfall

A buffer beta <= rho_pi does not change the value of pi. The paper requires the buffer to fall below rho_tau. It suffices
that it falls below rho* >= rho_tau (see `regret`), which one sweep computes.

P(G < x) is below tau exactly if x <= Q_tau(G), and it does not decrease in x. Hence

    rho_tau = tau - max{ P_pi(G < x) : pi deterministic, x real, P_pi(G < x) < tau },

so the numbers P_pi(G < x) of `shortfalls` determine rho_tau, and the return laws themselves are not needed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from bqrl.checks import number, whole
from bqrl.errors import GridError
from bqrl.laws.law import reaches
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.model import MDP
from bqrl.mdp.policy import Policy
from bqrl.planners.rational import read_rows
from bqrl.planners.target import exact_grid
from bqrl.theory.inputs import NO_GRID, as_problem, exact_curve, exact_law
from bqrl.theory.shortfalls import MAX_VALUES, attainable_shortfalls

MAX_CELLS = 300_000  # limit on (stage, state, need) cells for which sets of probabilities are computed


def optimal_margin(mdp: MDP, tau: float) -> float:
    """Margin of the optimum, rho* = tau - W_0(start, x*).

    Parameters
    ----------
    mdp : MDP
        A problem with returns on an exact grid.
    tau : float
        Quantile level in (0, 1).

    Returns
    -------
    float
        rho*, never smaller than `plateau(mdp, tau)`.

    Examples
    --------
    >>> import bqrl
    >>> round(optimal_margin(bqrl.envs.make("AssetSelling"), 0.1), 5)
    0.01541
    """
    tau = number(tau, "tau", 0.0, 1.0, "()")
    return exact_curve(mdp, "the margin").margin(tau).below


def plateau(mdp: MDP, tau: float, policy: Policy | None = None, *, max_values: int = MAX_VALUES) -> float:
    """The plateau rho_tau of a problem (Definition 2), or rho_pi of one policy.

    Parameters
    ----------
    mdp : MDP
        A problem with returns on an exact grid.
    tau : float
        Quantile level in (0, 1).
    policy : Policy, optional
        Compute rho_pi of this policy instead of the minimum over all deterministic policies.
    max_values : int
        Limit on the numbers stored per stage. Most problems beyond a few states and stages exceed it and raise a
        SizeError; `plateau_bounds` brackets rho_tau there.

    Returns
    -------
    float
        How far the level can fall below tau before the quantile of some deterministic policy (or of `policy`) changes.

    Examples
    --------
    >>> from bqrl import theory
    >>> round(plateau(theory.hard_instance(0.5, 0.05), 0.5), 12)
    0.05
    """
    tau = number(tau, "tau", 0.0, 1.0, "()")
    as_problem(mdp)
    if policy is not None:
        return exact_law(mdp, policy, "the plateau of a policy").margin(tau).below
    found = attainable_shortfalls(mdp, max_values=max_values)
    return tau - _largest_below(found.by_target, tau)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlateauBounds:
    """A bracket of rho_tau.

    Attributes
    ----------
    lower, upper : float
        Proven ends of the bracket.
    reason : str
        How each end was proven.
    """

    lower: float
    upper: float
    reason: str


def plateau_bounds(mdp: MDP, tau: float, *, keep: int = 32) -> PlateauBounds:
    """A bracket of the plateau rho_tau, for any problem that one sweep can solve.

    At most `keep` attainable probabilities are stored per (stage, state, need). Each of them is attained by a policy, which
    proves the upper end; it is never larger than rho*. If even the largest P(G < x) is below tau, the lower end follows
    from it. Otherwise it follows from arithmetic: every P(G < x) is a multiple of 1 / N, where N is the product of the
    common denominators of the stages, so a positive tau - P(G < x) is at least 1 / lcm(N, q) for tau = p / q. This bound is
    valid and often tiny: where many probabilities are attainable, some are close to any tau.

    Parameters
    ----------
    mdp : MDP
        A problem with returns on an exact grid.
    tau : float
        Quantile level in (0, 1).
    keep : int
        Probabilities stored per (stage, state, need), at least 2.

    Returns
    -------
    PlateauBounds
        The bracket and its proof.

    Examples
    --------
    >>> import bqrl
    >>> bounds = plateau_bounds(bqrl.envs.make("AssetSelling"), 0.1)
    >>> 0 < bounds.lower < bounds.upper < 1e-4
    True
    """
    tau, keep = number(tau, "tau", 0.0, 1.0, "()"), whole(keep, "keep", 2)
    columns = exact_grid(as_problem(mdp))
    if columns is None:
        raise GridError(f"the plateau {NO_GRID}")
    if columns.cells * mdp.S > MAX_CELLS:
        upper, low, source = optimal_margin(mdp, tau), 0.0, "rho*, attained by the optimal policy"
    else:
        found = attainable_shortfalls(mdp, keep=keep)
        upper = tau - _largest_below(found.by_target, tau)
        if found.complete:
            return PlateauBounds(lower=upper, upper=upper, reason="exact: every attainable P(G < x) was computed")
        source = f"attained by a policy, found among {keep} probabilities per need"
        # A target that every policy, or no policy, misses with probability below tau needs no arithmetic.
        undecided = any(reaches(float(v[0]), tau) and not reaches(float(v[-1]), tau) for v in found.by_target)
        low = 0.0 if undecided else upper
    if low > 0.0:
        return PlateauBounds(lower=low, upper=upper, reason=f"upper end: {source}; lower end: no P(G < x) lies between")
    N = common_denominator(mdp)
    least = float(Fraction(1, math.lcm(N, Fraction(repr(tau)).denominator)))
    unit = f"1/{N}" if N < 10**9 else f"about 1e-{math.ceil(math.log10(N))}"
    reason = f"upper end: {source}; lower end: every P(G < x) is a multiple of {unit}"
    return PlateauBounds(lower=min(least, upper), upper=upper, reason=reason)


def common_denominator(mdp: MDP) -> int:
    """N such that every event of an episode has a probability k / N; decimals are read as fractions, 0.1 as 1/10."""
    N = math.lcm(*(p.denominator for p in read_rows(mdp.mu, np.array([0, mdp.S]))))
    for h in range(mdp.H):
        stage = mdp.stage(h)
        if h == 0 or not mdp.stationary:
            divisor = np.array([p.denominator for p in read_rows(stage.probability, stage.row_start)], dtype=object)
        met = np.repeat(np.repeat(mdp.reachable[h], mdp.A), np.diff(stage.row_start))
        N *= math.lcm(*set(divisor[met]))
    return N


def _largest_below(by_target: Sequence[FloatArray], tau: float) -> float:
    """The largest attainable P(G < x) below tau."""
    every = np.concatenate(by_target)
    return float(every[reaches(every, tau)].max())
