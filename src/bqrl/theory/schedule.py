"""When a buffer schedule has sunk below a margin, and what it has cost until then.

A schedule is a `Buffer` of the planners (`log_buffer`, `power_buffer`, `constant_buffer`), any function of the episode, a
list with one buffer an episode, or None for the paper's tau / log(e + t). It must stay in (0, tau] and never grow.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bqrl.laws.law import MASS_TOL
from bqrl.mdp.forms import FloatArray
from bqrl.planners.confidence import Buffer, check_schedule, log_buffer
from bqrl.theory.checks import as_number, open_share, whole

Schedule = Callable[[Any], Any] | Sequence[float] | None

EDGE = 1e-15
ONE_BY_ONE = 4_096  # episodes whose buffers are looked at one by one; later ones in blocks
BLOCKS = 128  # blocks in which the number of episodes grows by the factor e
PROBED = np.unique(np.r_[np.arange(64.0), 2.0 ** np.arange(6, 40)])  # episodes at which a function must not have grown
LONGEST = 2.0**300  # episodes beyond which nothing is asked


def buffer_horizon(tau: float, rho: float, schedule: Schedule = None) -> int | float:
    """K: the first episode from which every buffer is at most rho (K_tau of Corollary 1, for any schedule).

    For the logarithmic buffer it is max(0, ceil(exp(tau / rho) - e)), for the powers tau (t + 1)^-a it is
    max(0, ceil((tau / rho)^(1/a) - 1)). Infinite where the schedule never gets there, or not within 2^300 episodes (1e90).

    >>> buffer_horizon(0.5, 0.1)
    146
    """
    tau = open_share(tau, "tau")
    rho = as_number(rho, "rho", "a number in (0, tau]")
    if not 0.0 < rho <= tau + MASS_TOL:
        raise ValueError(f"rho must lie in (0, tau] = (0, {tau:g}], got {rho:g}")
    beta = as_function(schedule, tau)
    if _listed(schedule):
        listed = check_schedule(schedule, tau, len(schedule))  # type: ignore[arg-type]
        reached = np.flatnonzero(_clear(listed, rho))
        return int(reached[0]) if reached.size else math.inf
    if _clear(beta(0.0), rho):
        return 0
    low, high = 0.0, 1.0
    while not _clear(beta(high), rho):
        low, high = high, 2.0 * high
        if high > LONGEST:
            return math.inf
    while high - low > max(1.0, low * 2.0**-52):
        middle = np.floor((low + high) / 2.0)
        low, high = (low, middle) if _clear(beta(middle), rho) else (middle, high)
    return int(high)


def _clear(beta: Any, rho: float) -> Any:
    """Whether a buffer is at most rho, up to the rounding of tau - (tau - rho)."""
    return beta <= rho + EDGE


def as_function(schedule: Schedule, tau: float) -> Callable[[Any], Any]:
    """The schedule as a function of (arrays of) episodes, which checks what it returns."""
    if schedule is None:
        return log_buffer(tau)
    if isinstance(schedule, Buffer):
        check_schedule(schedule, tau, 2)
        return schedule

    def beta(t: Any) -> Any:
        episodes = np.atleast_1d(np.asarray(t, dtype=np.float64))
        if callable(schedule):
            listed = np.array([schedule(x) for x in episodes.tolist()], dtype=np.float64)
        elif np.ndim(schedule) == 0:
            listed = np.full(episodes.shape, float(schedule))  # type: ignore[arg-type]
        else:
            if episodes.max() >= len(schedule):
                raise ValueError(
                    f"the schedule lists {len(schedule)} buffers, but episode {episodes.max():.0f} is asked for"
                )
            listed = np.asarray(schedule, dtype=np.float64)[episodes.astype(np.int64)]
        checked = check_schedule(listed.tolist(), tau, listed.size)
        return float(checked[0]) if np.ndim(t) == 0 else checked

    if callable(schedule):
        beta(PROBED)  # a function can only be asked here and there
    return beta


def buffering_sum(
    gap: Callable[[FloatArray], FloatArray], tau: float, T: int, schedule: Schedule = None, rho: float | None = None
) -> float:
    """Sum over t < T of gap(beta_t), for a gap that never falls as beta grows and is zero up to rho.

    Exact up to ONE_BY_ONE episodes; later episodes are taken in blocks that count by their first, largest buffer, so that
    the sum is never too small and at most 1 / BLOCKS of its tail too large, for any T.
    """
    T = whole(T, "T", 1)
    beta = as_function(schedule, tau)
    if rho is not None and rho > 0.0:
        T = int(min(T, buffer_horizon(tau, rho, schedule)))
    if T == 0:
        return 0.0
    if T <= ONE_BY_ONE or _listed(schedule):
        return float(gap(np.asarray(beta(np.arange(float(T))))).sum())
    tail = math.log(T / ONE_BY_ONE)
    edges = ONE_BY_ONE * np.exp(np.linspace(0.0, tail, 2 + int(BLOCKS * tail)))
    edges = np.unique(np.r_[np.arange(float(ONE_BY_ONE)), np.floor(edges[:-1]), float(T)])
    distinct, which = np.unique(beta(edges[:-1]), return_inverse=True)
    return float(gap(distinct)[which] @ np.diff(edges))


def _listed(schedule: Schedule) -> bool:
    """Whether the schedule is a list, which ends."""
    return schedule is not None and not callable(schedule) and np.ndim(schedule) > 0
