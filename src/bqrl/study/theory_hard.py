"""The theory experiment on the hard family: regret at T = A / rho^2 for decreasing rho, and in long runs.

The lower bound holds for the average over the best action, so each action is the best one in an equal number of runs. Runs
with the same best action and number use the same random numbers for every learner.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bqrl import theory
from bqrl.learners.run import Run
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.study.runs import complete
from bqrl.study.theory_spec import Found, HardSpec, LearnerSpec, Rows, TheorySpec, run_seed
from bqrl.study.watch import Watch


def hard(own: HardSpec, spec: TheorySpec, watch: Watch) -> Found:
    """Regret of every learner by rho with its exponent, and its growth in long runs with the exponent there."""
    A, H, scale = own.actions, own.horizon, own.actions / own.growth_rho**2
    T = round(own.growth_factor * scale)
    at = np.unique(np.geomspace(min(50, T), T, own.growth_points).round()).astype(np.int64)
    points: Rows = []
    growth: Rows = []
    slopes: Rows = []
    for one in own.learners:
        watch.phase(f"hard family: {one.label}", A * (own.runs * len(own.rhos) + own.growth_runs))
        here: Rows = []
        for k, rho in enumerate(own.rhos):
            n = round(A / rho**2)
            mean, error = average(_regrets(spec, own, one, rho, own.runs, (3, k), np.array([n]), watch)[:, :, 0])
            below = theory.hard_lower_bound(own.tau, rho, A, H, n)
            here.append(
                {"learner": one.label, "rho": rho, "episodes": n, "regret": mean, "error": error}
                | {"lower_bound": below.direct, "lower_rate": below.rate, "most": (H - 1.0) * n}
            )
        curves = _regrets(spec, own, one, own.growth_rho, own.growth_runs, (4,), at, watch)
        for j, n in enumerate(at.tolist()):
            mean, error = average(curves[:, :, j])
            below, above = (
                theory.hard_lower_bound(own.tau, own.growth_rho, A, H, n),
                theory.bandit_upper_bound(own.growth_rho, A, H, n),
            )
            growth.append(
                {"learner": one.label, "episodes": n, "regret": mean, "error": error}
                | {"lower_bound": below.direct, "ucb1_upper_bound": above, "most": (H - 1.0) * n}
            )
        exponents = {"inverse_rho": power_of_rho(here), "episodes": growth_exponent(at, curves, scale)}
        row: dict[str, Any] = {"learner": one.label}
        for name, (slope, error_of) in exponents.items():
            row |= {f"exponent_of_{name}": slope, f"exponent_of_{name}_error": error_of}
        slopes.append(row)
        points += here
    facts = {"tau": own.tau, "actions": A, "horizon": H, "growth_rho": own.growth_rho, "scale": scale}
    return {"tables": {"hard": points, "hard_growth": growth, "hard_slopes": slopes}, **facts}


def _regrets(
    spec: TheorySpec, own: HardSpec, one: LearnerSpec, rho: float, runs: int, place: tuple[int, ...], at: IntArray,
    watch: Watch,
) -> FloatArray:  # fmt: skip
    """Cumulative regret after each number of episodes `at`, shape (A, runs, len(at)); the first axis is the best action."""
    found = np.empty((own.actions, runs, at.size))
    for best in range(own.actions):
        mdp = theory.hard_instance(own.tau, rho, own.actions, own.horizon, best)
        for j in range(runs):
            seed = run_seed(spec.theory.seed, *place, best, j)
            record = complete(Run(mdp, one.learner, own.tau, int(at[-1]), seed, **one.params))[0]
            found[best, j] = np.cumsum(record.gap(own.tau))[at - 1]
            watch.tick()
    return found


def average(regrets: FloatArray) -> tuple[float, float]:
    """Mean over best actions and runs (A, n), and its standard error with the actions as strata."""
    A, n = regrets.shape
    error = float(np.sqrt((regrets.var(axis=1, ddof=1) / n).sum()) / A) if n > 1 else 0.0
    return float(regrets.mean()), error


def power_of_rho(points: Sequence[dict[str, Any]]) -> tuple[float, float] | tuple[None, None]:
    """The exponent a of regret ~ (1 / rho)^a with its standard error; None where too few regrets are positive.

    Runs at different rho are independent, so the error of the exponent follows from theirs; if one of them is zero (all runs
    equal), it follows from the scatter around the line.
    """
    positive = [point for point in points if point["regret"] > 0.0]
    x, y, error = ([point[name] for point in positive] for name in ("rho", "regret", "error"))
    if len(positive) < 2 or (min(error) <= 0.0 and len(positive) < 3):
        return None, None
    fit = theory.loglog_slope(1.0 / np.array(x), y, error if min(error) > 0.0 else None)
    return fit.slope, fit.error


def growth_exponent(at: IntArray, curves: FloatArray, scale: float) -> tuple[float, float] | tuple[None, None]:
    """The exponent a of regret ~ T^a beyond `scale` episodes: 1 for a learner that is stuck, near 0 for logarithmic regret.

    Points of one run are dependent, so the error is that of the jackknife over runs.
    """
    beyond = at >= scale
    if beyond.sum() < 3:
        return None, None
    n, late = curves.shape[1], curves[:, :, beyond]

    def slope(some: FloatArray) -> float:
        mean = some.mean(axis=1).mean(axis=0)
        return theory.loglog_slope(at[beyond], mean).slope if np.all(mean > 0.0) else np.nan

    whole = slope(late)
    left_out = np.array([slope(np.delete(late, j, axis=1)) for j in range(n)]) if n > 1 else np.zeros(1)
    if not np.isfinite(whole) or not np.all(np.isfinite(left_out)):
        return None, None
    return float(whole), float(np.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum()))
