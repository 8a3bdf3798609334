"""Constant buffering cost under a decreasing buffer (lemma of that name), for any schedule.

If a gap Delta_beta vanishes for beta <= rho, it costs nothing from the first episode K with beta_t <= rho on. Hence

    sum_{t < T} Delta_{beta_t} = sum_{t < min(T, K)} Delta_{beta_t},

with K = max(0, ceil(exp(tau / rho) - e)) for the paper's beta_t = tau / log(e + t).

`bqrl.theory` lists the forms of a schedule; `log_buffer`, `power_buffer` and `constant_buffer` make schedules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, number, numbers, whole
from bqrl.loops.tolerance import MASS_TOL
from bqrl.mdp.arrays import FloatArray
from bqrl.planners.confidence import Buffer, check_schedule, constant_buffer, log_buffer
from bqrl.theory.inputs import as_level

Schedule = Callable[[Any], Any] | Sequence[float] | float | None

EDGE = 1e-15  # rounding error of tau - (tau - rho)
ONE_BY_ONE = 4_096  # number of episodes summed one by one; later episodes are summed in blocks
BLOCKS = 128  # blocks per factor e in the number of episodes
PROBED = np.unique(np.r_[np.arange(64.0), 2.0 ** np.arange(6, 40)])  # episodes at which a given function is checked
LONGEST = 2.0**300  # largest number of episodes considered


def buffer_horizon(tau: float, rho: float, schedule: Schedule = None) -> int | float:
    """Return the first episode K from which every buffer is at most rho (K_tau of Corollary 1, for any schedule).

    Parameters
    ----------
    tau, rho, schedule : see `bqrl.theory`

    Returns
    -------
    int or float
        max(0, ceil(exp(tau / rho) - e)) for the logarithmic buffer, max(0, ceil((tau / rho)^(1/a) - 1)) for the power
        tau (t + 1)^-a; inf if the schedule does not fall to rho within 2^300 (about 1e90) episodes.

    Examples
    --------
    >>> buffer_horizon(0.5, 0.1)
    146
    """
    tau, rho = as_level(tau), number(rho, "rho")
    if not 0.0 < rho <= tau + MASS_TOL:
        raise bad_value("rho", rho, f"be in (0, tau] = (0, {tau:g}]", f"{rho:g}")
    beta, edge = as_function(schedule, tau), rho + EDGE
    if is_list(schedule):
        reached = np.flatnonzero(beta(np.arange(float(len(schedule)))) <= edge)  # type: ignore[arg-type]
        return int(reached[0]) if reached.size else math.inf
    if beta(0.0) <= edge:
        return 0
    low, high = 0.0, 1.0
    while beta(high) > edge:
        low, high = high, 2.0 * high
        if high > LONGEST:
            return math.inf
    while high - low > max(1.0, low * 2.0**-52):
        middle = np.floor((low + high) / 2.0)
        low, high = (low, middle) if beta(middle) <= edge else (middle, high)
    return int(high)


def buffering_sum(
    gap: Callable[[FloatArray], FloatArray], tau: float, T: int, schedule: Schedule = None, rho: float | None = None
) -> float:
    """Return the sum of gap(beta_t) over the episodes t < T (lemma on the constant buffering cost).

    Parameters
    ----------
    gap : callable
        Maps an array of buffers to their gaps. It must not decrease in beta.
    tau, T, schedule : see `bqrl.theory`
    rho : float, optional
        If given, the gap is zero for buffers up to rho, and the sum ends at `buffer_horizon`.

    Returns
    -------
    float
        The sum, exact up to 4,096 episodes. Later episodes are summed in blocks, each with its first and largest buffer, so
        the result is never too small, and too large by at most one percent.

    Examples
    --------
    >>> buffering_sum(lambda beta: beta, 0.5, 4, schedule=[0.5, 0.25, 0.125, 0.125])
    1.0
    """
    tau, T = as_level(tau), whole(T, "T", 1)
    beta = as_function(schedule, tau)
    if not callable(gap):
        raise bad_type("gap", gap, "be a function of an array of buffers")
    if rho is not None and number(rho, "rho", 0.0) > 0.0:
        T = int(min(T, buffer_horizon(tau, rho, schedule)))
    if T == 0:
        return 0.0
    if T <= ONE_BY_ONE or is_list(schedule):
        return float(gap(np.asarray(beta(np.arange(float(T))))).sum())
    tail = math.log(T / ONE_BY_ONE)
    edges = ONE_BY_ONE * np.exp(np.linspace(0.0, tail, 2 + int(BLOCKS * tail)))
    edges = np.unique(np.r_[np.arange(float(ONE_BY_ONE)), np.floor(edges[:-1]), float(T)])
    distinct, which = np.unique(beta(edges[:-1]), return_inverse=True)
    return float(gap(distinct)[which] @ np.diff(edges))


def as_function(schedule: Schedule, tau: float) -> Callable[[Any], Any]:
    """Return the schedule as a function of (arrays of) episodes that checks the buffers it returns."""
    if schedule is None:
        return log_buffer(tau)
    if not callable(schedule) and np.ndim(schedule) == 0:
        return constant_buffer(min(tau, number(schedule, "schedule", 0.0, tau + MASS_TOL, "(]")))
    if isinstance(schedule, Buffer):
        check_schedule(schedule, tau, 2)
        return schedule
    given = None if callable(schedule) else numbers(schedule, "schedule")

    def beta(t: Any) -> Any:
        episodes = np.atleast_1d(np.asarray(t, dtype=np.float64))
        if given is None:
            listed = [schedule(x) for x in episodes.tolist()]  # type: ignore[operator]
        elif (last := episodes.max(initial=0.0)) >= given.size:
            raise bad_value(
                "schedule", schedule, f"list a buffer for every episode up to {last:.0f}", f"{given.size} buffers"
            )
        else:
            listed = given[episodes.astype(np.int64)].tolist()
        checked = check_schedule(listed, tau, len(listed))
        return float(checked[0]) if np.ndim(t) == 0 else checked

    if given is None:
        beta(PROBED)
    return beta


def is_list(schedule: Schedule) -> bool:
    """Return whether the schedule is a list and therefore finite."""
    return schedule is not None and not callable(schedule) and np.ndim(schedule) > 0
