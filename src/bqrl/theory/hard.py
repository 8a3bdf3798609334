"""The hard family of Theorem 2: a bandit hidden in the first action of a two-state problem.

The first action leads to the paying state s1 with probability 1 - tau + rho if it is the best one and 1 - tau - rho
otherwise; both states absorb, and s1 pays 1 a stage. The return is 0 or H - 1, so the tau-quantile is H - 1 under the best
action and 0 under every other: a probability that moves by 2 rho moves the quantile from one end to the other.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.mdp.forms import FloatArray
from bqrl.mdp.model import MDP
from bqrl.theory.checks import as_number, open_share, whole


def hard_instance(tau: float, rho: float, A: int = 2, H: int = 2, best: int = 0) -> MDP:
    """The two-state problem of Theorem 2 (proof) whose plateau rho_tau and margin rho* both equal `rho`.

    `best` is the distinguished action, from 0. States are named low (the start) and high.

    >>> hard_instance(0.5, 0.05, A=3, H=4, best=2)
    MDP(H=4, S=2, A=3, start=0, 27 transitions)
    """
    tau, rho = _check_levels(tau, rho)
    A, H, best = whole(A, "A", 2), whole(H, "H", 2), whole(best, "best", 0)
    if best >= A:
        raise ValueError(f"best is action {best}, but actions run from 0 to {A - 1}")
    P = np.zeros((H, 2, A, 2))
    P[:, 0, :, 0] = P[:, 1, :, 1] = 1.0
    stay = np.where(np.arange(A) == best, tau - rho, tau + rho)
    P[0, 0, :, 0], P[0, 0, :, 1] = stay, 1.0 - stay
    rewards = np.zeros((H, 2, A))
    rewards[1:, 1] = 1.0
    return MDP(P, rewards, start=0, state_names=["low", "high"])


@dataclass(frozen=True, slots=True)
class LowerBound:
    """A bound from below on the expected regret of every learner, for the worst choice of the best action."""

    direct: float  # the bound as computed from the divergence itself
    rate: float  # constant * H * min(T, A / rho^2): the closed form, never above `direct`
    constant: float  # 21 tau (1 - tau) / 8192
    saturated_from: float  # episodes from which `direct` no longer grows


def hard_lower_bound(tau: float, rho: float, A: int, H: int, T: int) -> LowerBound:
    """What no learner can go below on the hard family: for some best action, E Reg_tau(T) >= c H min(T, A / rho^2).

    Corrected: Theorem 2 states c1 (H / rho) sqrt(A T) for every T >= c0 A / rho^2 with rho fixed. Bandit algorithms have
    logarithmic regret there (see `bandit_upper_bound`), so no constant c1 can do that for all T. What its proof gives is
    the same number at T = A / rho^2 and no more afterwards: the bound is flat from there on.

    Proof with constants. Let every arm be bad (mean 1 - tau - rho) under P_0, and arm a good under P_a. With
    kappa = kl(tau + rho, tau - rho) the divergence of P_0 from P_a is kappa E_0[N_a], where N_a counts the choices of a in
    the first n episodes. Pinsker: E_a[N_a] <= E_0[N_a] + n sqrt(kappa E_0[N_a] / 2). Averaged over the A arms, whose
    E_0[N_a] sum to n, by Jensen: some a has E_a[n - N_a] >= n (1 - 1/A - sqrt(kappa n / (2 A))). Each wrong choice costs
    H - 1, and regret only grows, so any n <= T gives a bound; `direct` takes the best n. For the closed form take
    n = min(T, floor(A / (8 kappa))): at least n / 4 choices are wrong. As rho <= min(tau, 1 - tau) / 8,
    kappa <= (2 rho)^2 / ((tau - rho)(1 - tau + rho)) <= 32 rho^2 / (7 tau (1 - tau)), so that A / (8 kappa) >= 3.5, the
    floor costs at most a quarter, and with H - 1 >= H / 2 the constant is (1/4)(3/4)(7 tau (1 - tau) / 256)(1/2).
    """
    tau, rho = _check_levels(tau, rho)
    A, H, T = whole(A, "A", 2), whole(H, "H", 2), whole(T, "T", 1)
    kappa = _divergence(tau + rho, tau - rho)
    spread = 1.0 - 1.0 / A
    peak = 8.0 * A * spread**2 / (9.0 * kappa)  # where n (spread - sqrt(kappa n / 2A)) is largest
    wrong = max(n * (spread - math.sqrt(kappa * n / (2.0 * A))) for n in {min(T, int(peak)), min(T, int(peak) + 1)})
    constant = 21.0 * tau * (1.0 - tau) / 8192.0
    return LowerBound((H - 1) * wrong, constant * H * min(float(T), A / rho**2), constant, peak)


def bandit_upper_bound(rho: float, A: int, H: int, T: int) -> float:
    """What UCB1 on the first action is proven to stay below on the hard family: logarithmic in T.

    Auer, Cesa-Bianchi and Fischer (2002), Theorem 1: an arm with gap 2 rho is chosen at most
    8 log(T) / (2 rho)^2 + 1 + pi^2 / 3 times in expectation; each choice costs H - 1. This is why the printed form of
    Theorem 2 cannot hold for all T.
    """
    rho = open_share(rho, "rho")
    A, H, T = whole(A, "A", 2), whole(H, "H", 2), whole(T, "T", 1)
    return (H - 1) * (A - 1) * (2.0 * math.log(T) / rho**2 + 1.0 + math.pi**2 / 3.0)


@dataclass(frozen=True, slots=True, eq=False)
class QuantileJumps:
    """Quantile functions of the hard family, ready to draw: Q is `values[i]` on (levels[i], levels[i + 1]].

    At its jump a curve still has the lower value (closed dot at 0, open dot at H - 1).
    """

    tau: float
    best: tuple[FloatArray, FloatArray]  # levels (0, tau - rho, 1) and values (0, H - 1)
    other: tuple[FloatArray, FloatArray]  # levels (0, tau + rho, 1) and values (0, H - 1)


def quantile_jumps(tau: float, rho: float, H: int = 2) -> QuantileJumps:
    """The picture of the paper's lower-bound construction: where the quantile of each action jumps, around tau."""
    tau, rho = _check_levels(tau, rho)
    values = np.array([0.0, whole(H, "H", 2) - 1.0])
    return QuantileJumps(
        tau, (np.array([0.0, tau - rho, 1.0]), values), (np.array([0.0, tau + rho, 1.0]), values.copy())
    )


@dataclass(frozen=True, slots=True)
class Slope:
    """A power law y = factor * x^slope fitted on logarithms, with the standard error of the slope."""

    slope: float
    error: float
    factor: float


def loglog_slope(x: Any, y: Any, error: Any = None) -> Slope:
    """The exponent with which y grows in x, by least squares on logarithms.

    `error` holds standard errors of y: points then weigh by their relative precision and the slope's error follows from
    them; without it the scatter around the line gives it (three points at least).
    """
    a, b = (np.asarray(given, dtype=np.float64) for given in (x, y))
    least = 3 if error is None else 2
    if a.shape != b.shape or a.ndim != 1 or a.size < least:
        raise ValueError(f"x and y must be of one length, {least} or more, got shapes {a.shape} and {b.shape}")
    if not (np.all(a > 0.0) and np.all(b > 0.0)):
        raise ValueError("x and y must be positive for logarithms; leave out points at zero")
    if np.ptp(a) == 0.0:
        raise ValueError(f"x is {a[0]:g} everywhere; a slope needs two different values")
    weight = np.ones(a.size)
    if error is not None:
        sigma = np.asarray(error, dtype=np.float64)
        if sigma.shape != b.shape or not np.all(sigma > 0.0):
            raise ValueError("error must hold one positive standard error per point")
        weight = (b / sigma) ** 2
    u, v = np.log(a), np.log(b)
    centre = (weight @ u) / weight.sum()
    scale = weight @ (u - centre) ** 2
    slope = float(weight @ ((u - centre) * v) / scale)
    level = (weight @ (v - slope * u)) / weight.sum()
    spread = 1.0 if error is not None else float(np.sum((v - level - slope * u) ** 2)) / (a.size - 2)
    return Slope(slope, math.sqrt(spread / scale), math.exp(level))


def _check_levels(tau: Any, rho: Any) -> tuple[float, float]:
    tau = open_share(tau, "tau")
    rho = as_number(rho, "rho", "a number")
    most = min(tau, 1.0 - tau) / 8.0
    if not 0.0 < rho <= most * (1.0 + 1e-12):
        raise ValueError(f"rho must lie in (0, min(tau, 1 - tau)/8] = (0, {most:g}], got {rho:g}")
    return tau, rho


def _divergence(p: float, q: float) -> float:
    """Kullback-Leibler divergence of Bernoulli(p) from Bernoulli(q)."""
    return p * math.log(p / q) + (1.0 - p) * math.log((1.0 - p) / (1.0 - q))
