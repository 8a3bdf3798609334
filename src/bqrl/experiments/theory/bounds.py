"""Measured regret of UCB-BQRL with theoretical radii beside what is proven: Theorem 1, Corollary 1 and ours.

Each number of episodes has runs of its own, for the radii depend on it. The bounds are taken with a planner gap of zero: what
a record says of it (the bound minus the value under the empirical kernel) is at these radii all of the optimism. So the model
error that the gap enters is reported beside the bounds' statistical terms.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.experiments.theory.coverage import sizes
from bqrl.experiments.theory.runs import Watch, played, run_seed
from bqrl.experiments.theory.settings import BoundsSpec, Case, TheorySpec
from bqrl.laws.law import Law
from bqrl.learners.record import Record
from bqrl.planners.solve import solve
from bqrl.theory import RegretBounds, optimal_margin, optimistic_decomposition, plateau_bounds

STATEMENTS = ("theorem 1", "corollary 1", "ours")
DRAWN = 60  # points of a drawn bound


def bounds(spec: TheorySpec, watch: Watch) -> dict[str, Any]:
    """Regret and bounds of every case, and from which number of episodes each bound says something."""
    own: BoundsSpec = spec.experiments["bounds"]
    cases = [_case(spec, own, i, case, watch) for i, case in enumerate(own.cases)]
    return {"delta": own.delta, "cases": cases}


def _case(spec: TheorySpec, own: BoundsSpec, i: int, case: Case, watch: Watch) -> dict[str, Any]:
    problem = spec.problem(case.problem)
    mdp = problem.build()
    support = int(np.diff(mdp.row_start).max())
    proven = RegretBounds(mdp, case.tau, delta=own.delta, support=support)
    best = solve(mdp, case.tau)
    watch.phase(f"bounds: {problem.label}", len(own.episodes) * own.runs)
    points = []
    for k, T in enumerate(own.episodes):
        runs = []
        for j in range(own.runs):
            options = dict(own.params) | {"delta": own.delta}
            record = played(mdp, "ucb-bqrl", case.tau, T, run_seed(spec.seed, 2, i, k, j), **options)
            runs.append(parts(record, best.law, case.tau))
            watch.tick()
        points.append(_point(T, runs, proven))
    watch.phase(f"bounds: {problem.label}, where each says something")
    starts = {statement: proven.informative_from(statement) for statement in STATEMENTS}
    finite = [T for T in starts.values() if np.isfinite(T)]
    last = min(10.0 * max([*finite, own.episodes[-1]]), 1e12)
    grid = np.unique(np.geomspace(own.episodes[0], last, DRAWN).round()).astype(np.int64).tolist()
    drawn = {statement: [proven(T, statement).total for T in grid] for statement in STATEMENTS}
    rho = plateau_bounds(mdp, case.tau)
    return {
        "problem": case.problem, "label": problem.label, "tau": case.tau, **sizes(mdp), "support": support,
        "best": best.value, "margin": optimal_margin(mdp, case.tau), "plateau": [rho.lower, rho.upper], "points": points,
        "informative_from": {name: float(T) for name, T in starts.items()},
        "episodes": grid, "bounds": drawn, "trivial": [T * mdp.H * proven.span for T in grid],
    }  # fmt: skip


def parts(record: Record, best: Law, tau: float) -> dict[str, float]:
    """Sums over a run: its regret, what the buffer costs, the model error, and in what share of episodes optimism held."""
    found = optimistic_decomposition(best, record.laws, record.notes["optimistic"], tau, record.notes["beta"])
    return {
        "regret": float(record.gap(tau).sum()),
        "buffering": float(found.buffering.sum()),
        "model": float(found.model.sum()),
        "optimistic": float(np.mean(found.optimistic)),
    }


def _point(T: int, runs: list[dict[str, float]], proven: RegretBounds) -> dict[str, Any]:
    regret = [run["regret"] for run in runs]
    point: dict[str, Any] = {
        "episodes": T,
        "runs": len(runs),
        "regret": float(np.mean(regret)),
        "regret_most": max(regret),
        "buffering": float(np.mean([run["buffering"] for run in runs])),
        "model": float(np.mean([run["model"] for run in runs])),
        "model_most": max(run["model"] for run in runs),
        "optimistic": min(run["optimistic"] for run in runs),
        "bounds": {},
    }
    for statement in STATEMENTS:
        bound = proven(T, statement)
        point["bounds"][statement] = {
            "total": bound.total,
            "buffering": bound.buffering,
            "statistical": bound.counting + bound.martingale,
            "trivial": bound.trivial,
            "informative": bound.informative,
            "ratio": bound.total / point["regret_most"] if point["regret_most"] > 0.0 else None,
            "holds": max(regret) <= bound.total,
        }
    return point
