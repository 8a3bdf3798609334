"""Regret on the hard family: how it grows as rho shrinks at T = A / rho^2, and how it continues from there.

The lower bound holds for the average over the best action, so each action is the best one in an equal number of runs. Runs with
the same best action and number meet the same randomness, whatever the learner.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.mdp.forms import FloatArray
from bqrl.study.theory_spec import HardSpec, LearnerSpec, TheorySpec, played, run_seed
from bqrl.study.watch import Watch
from bqrl.theory import bandit_upper_bound, hard_instance, hard_lower_bound, loglog_slope


def hard(spec: TheorySpec, watch: Watch) -> dict[str, Any]:
    """Regret of every learner by rho with its exponent, and its growth in long runs with the exponent there."""
    own = spec.hard
    assert own is not None
    tau, A, H = own.tau, own.actions, own.horizon
    lengths = [round(A / rho**2) for rho in own.rhos]
    T = round(own.growth_factor * A / own.growth_rho**2)
    looks = np.unique(np.geomspace(min(50, T), T, own.growth_points).round()).astype(np.int64)
    learners = []
    for one in own.learners:
        watch.phase(f"hard family: {one.label}", A * (own.runs * len(lengths) + own.growth_runs))
        points = []
        for k, (rho, length) in enumerate(zip(own.rhos, lengths, strict=True)):
            ends = _regrets(spec, own, one, rho, length, own.runs, (3, k), np.array([length]), watch)[:, :, 0]
            mean, error = average(ends)
            points.append({"rho": rho, "episodes": length, "regret": mean, "error": error})
        curves = _regrets(spec, own, one, own.growth_rho, T, own.growth_runs, (4,), looks, watch)
        learners.append(
            {
                "label": one.label,
                "learner": one.learner,
                "points": points,
                "slope": power_of_rho(points),
                "growth": {
                    "regret": [average(curves[:, :, j])[0] for j in range(looks.size)],
                    "error": [average(curves[:, :, j])[1] for j in range(looks.size)],
                    "slope": growth_exponent(looks, curves, A / own.growth_rho**2),
                },
            }
        )
    below = [hard_lower_bound(tau, rho, A, H, n) for rho, n in zip(own.rhos, lengths, strict=True)]
    return {
        "tau": tau, "actions": A, "horizon": H, "rhos": list(own.rhos), "episodes": lengths,
        "lower": [bound.direct for bound in below], "lower_rate": [bound.rate for bound in below],
        "most": [(H - 1.0) * n for n in lengths],
        "growth": {
            "rho": own.growth_rho,
            "scale": A / own.growth_rho**2,
            "episodes": looks.tolist(),
            "lower": [hard_lower_bound(tau, own.growth_rho, A, H, n).direct for n in looks.tolist()],
            "upper": [bandit_upper_bound(own.growth_rho, A, H, n) for n in looks.tolist()],
            "most": [(H - 1.0) * n for n in looks.tolist()],
        },
        "learners": learners,
    }  # fmt: skip


def _regrets(
    spec: TheorySpec, own: HardSpec, one: LearnerSpec, rho: float, T: int, runs: int, place: tuple[int, ...],
    looks: Any, watch: Watch,
) -> FloatArray:  # fmt: skip
    """Cumulative regret at the episodes `looks` (A, runs, looks), one block of runs for each best action."""
    found = np.empty((own.actions, runs, looks.size))
    for best in range(own.actions):
        mdp = hard_instance(own.tau, rho, own.actions, own.horizon, best)
        for j in range(runs):
            seed = run_seed(spec.theory.seed, *place, best, j)
            record = played(mdp, one.learner, own.tau, T, seed, **one.params)
            found[best, j] = np.cumsum(record.gap(own.tau))[looks - 1]
            watch.tick()
    return found


def average(regrets: FloatArray) -> tuple[float, float]:
    """Mean over best actions and runs (A, n), and its standard error with the actions as strata."""
    A, n = regrets.shape
    error = float(np.sqrt((regrets.var(axis=1, ddof=1) / n).sum()) / A) if n > 1 else 0.0
    return float(regrets.mean()), error


def power_of_rho(points: list[dict[str, Any]]) -> dict[str, float] | None:
    """The exponent a of regret ~ (1 / rho)^a with its standard error; None where too few regrets are positive.

    Runs at different rho are independent, so their errors give that of the exponent; if one of them is zero (all runs equal), the
    scatter around the line does.
    """
    positive = [point for point in points if point["regret"] > 0.0]
    x, y, error = ([point[name] for point in positive] for name in ("rho", "regret", "error"))
    if len(positive) < 2 or (min(error) <= 0.0 and len(positive) < 3):
        return None
    slope = loglog_slope(1.0 / np.array(x), y, error if min(error) > 0.0 else None)
    return {"slope": slope.slope, "error": slope.error}


def growth_exponent(looks: Any, curves: FloatArray, scale: float) -> dict[str, float] | None:
    """The exponent a of regret ~ T^a beyond `scale` episodes: 1 for a learner that is stuck, near 0 for logarithmic regret.

    Points of one run depend on each other, so the error is the jackknife's: each run is left out once.
    """
    beyond = looks >= scale
    if beyond.sum() < 3:
        return None
    n = curves.shape[1]
    late = curves[:, :, beyond]

    def slope(some: FloatArray) -> float:
        mean = some.mean(axis=1).mean(axis=0)
        return loglog_slope(looks[beyond], mean).slope if np.all(mean > 0.0) else np.nan

    whole = slope(late)
    left_out = np.array([slope(np.delete(late, j, axis=1)) for j in range(n)]) if n > 1 else np.zeros(1)
    if not np.isfinite(whole) or not np.all(np.isfinite(left_out)):
        return None
    error = float(np.sqrt((n - 1) / n * ((left_out - left_out.mean()) ** 2).sum()))
    return {"slope": float(whole), "error": error}
