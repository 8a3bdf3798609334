"""Theorem 2, the information-theoretic lower bound: its hard family of problems, and a lower bound on the regret there.

The family hides a bandit in the first action of a two-state problem. The first action leads to the paying state s1 with
probability 1 - tau + rho if it is the distinguished action, and 1 - tau - rho otherwise. Both states are absorbing
afterwards, and s1 pays 1 per stage. The return is 0 or H - 1, so the tau-quantile is H - 1 under the distinguished action and
0 under every other action: a change of 2 rho in one probability moves the quantile from one end of its range to the other.

Here rho lies in (0, min(tau, 1 - tau) / 8], and A and H are at least 2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.checks import bad_value, number, whole
from bqrl.mdp.model import MDP
from bqrl.theory.inputs import as_level


def hard_instance(tau: float, rho: float, A: int = 2, H: int = 2, best: int = 0) -> MDP:
    """Return the two-state problem in the proof of Theorem 2, whose plateau rho_tau and margin rho* both equal `rho`.

    Parameters
    ----------
    tau, rho, A, H : see `bqrl.theory` and the head of this file
    best : int
        Index of the distinguished action.

    Returns
    -------
    MDP
        The problem, with states named "low" (the start) and "high".

    Examples
    --------
    >>> hard_instance(0.5, 0.05, A=3, H=4, best=2)
    MDP(H=4, S=2, A=3, start=0, 27 transitions)
    """
    tau, rho = _check_levels(tau, rho)
    A, H = whole(A, "A", 2), whole(H, "H", 2)
    best = whole(best, "best", 0, A - 1)
    P = np.zeros((H, 2, A, 2))
    P[:, 0, :, 0] = P[:, 1, :, 1] = 1.0
    stay = np.where(np.arange(A) == best, tau - rho, tau + rho)
    P[0, 0, :, 0], P[0, 0, :, 1] = stay, 1.0 - stay
    rewards = np.zeros((H, 2, A))
    rewards[1:, 1] = 1.0
    return MDP(P, rewards, start=0, state_names=["low", "high"])


@dataclass(frozen=True, slots=True, kw_only=True)
class LowerBound:
    """A lower bound on the expected regret of every learner, for the worst choice of the distinguished action."""

    direct: float  # computed from the Kullback-Leibler divergence
    rate: float  # constant * H * min(T, A / rho^2), never larger than `direct`
    constant: float  # 21 tau (1 - tau) / 8192
    saturated_from: float  # number of episodes from which `direct` no longer grows


def hard_lower_bound(tau: float, rho: float, A: int, H: int, T: int) -> LowerBound:
    """Return a lower bound on the regret of every learner on the hard family: E Reg_tau(T) >= c H min(T, A / rho^2).

    Corrected: Theorem 2 states c1 (H / rho) sqrt(A T) for every T >= c0 A / rho^2 with rho fixed. Bandit algorithms have
    logarithmic regret there, so no constant c1 > 0 is valid for all T. The proof yields the same order at T = A / rho^2; for
    larger T the bound is constant.

    Parameters
    ----------
    tau, rho, A, H, T : see `hard_instance`

    Returns
    -------
    LowerBound
        The bound, for at least one choice of the distinguished action.

    Notes
    -----
    Proof with constants. Let every arm be bad (mean 1 - tau - rho) under P_0, and let arm a alone be good under P_a. Let
    kappa = kl(tau + rho, tau - rho), and let N_a count the choices of a in the first n episodes. The divergence of P_0 from
    P_a is kappa E_0[N_a], and Pinsker's inequality gives E_a[N_a] <= E_0[N_a] + n sqrt(kappa E_0[N_a] / 2). The numbers
    E_0[N_a] sum to n; averaging over the A arms and Jensen's inequality show that some a has
    E_a[n - N_a] >= n (1 - 1/A - sqrt(kappa n / (2 A))). Each wrong choice costs H - 1, and regret does not decrease in T, so
    every n <= T gives a bound; `direct` uses the best n.

    For the closed form let n = min(T, floor(A / (8 kappa))); then at least n / 4 choices are wrong. Since
    rho <= min(tau, 1 - tau) / 8, kappa <= (2 rho)^2 / ((tau - rho)(1 - tau + rho)) <= 32 rho^2 / (7 tau (1 - tau)). Hence
    A / (8 kappa) >= 3.5, rounding down loses at most a quarter, and with H - 1 >= H / 2 the constant is
    (1/4)(3/4)(7 tau (1 - tau) / 256)(1/2).

    Examples
    --------
    >>> bound = hard_lower_bound(0.5, 0.05, A=3, H=4, T=10**6)
    >>> bound.rate <= bound.direct, bound.direct == hard_lower_bound(0.5, 0.05, 3, 4, 10**9).direct
    (True, True)
    """
    tau, rho = _check_levels(tau, rho)
    A, H, T = whole(A, "A", 2), whole(H, "H", 2), whole(T, "T", 1)
    p, q = tau + rho, tau - rho
    kappa = p * math.log(p / q) + (1.0 - p) * math.log((1.0 - p) / (1.0 - q))  # kl(p, q)
    spread = 1.0 - 1.0 / A
    peak = 8.0 * A * spread**2 / (9.0 * kappa)  # maximises n (spread - sqrt(kappa n / 2A))
    wrong_choices = max(
        n * (spread - math.sqrt(kappa * n / (2.0 * A))) for n in {min(T, int(peak)), min(T, int(peak) + 1)}
    )
    constant = 21.0 * tau * (1.0 - tau) / 8192.0
    rate = constant * H * min(float(T), A / rho**2)
    return LowerBound(direct=(H - 1) * wrong_choices, rate=rate, constant=constant, saturated_from=peak)


def _check_levels(tau: Any, rho: Any) -> tuple[float, float]:
    """Return tau and rho as floats, with rho in (0, min(tau, 1 - tau) / 8]."""
    tau, rho = as_level(tau), number(rho, "rho")
    most = min(tau, 1.0 - tau) / 8.0
    if not 0.0 < rho <= most * (1.0 + 1e-12):
        raise bad_value("rho", rho, f"be in (0, min(tau, 1 - tau) / 8] = (0, {most:g}]", f"{rho:g}")
    return tau, rho
