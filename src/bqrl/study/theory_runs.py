"""Confidence sets and regret bounds put to the test on small problems.

Coverage: do the confidence sets hold the true kernel in all episodes of a run as often as promised? For every run the largest
ratio ||P_hat - P||_1 / f(N) over episodes and rows is recorded. The sets held throughout if it is at most 1, and the share of
runs with a ratio up to m is the coverage of radii m times as wide.

Bounds: measured regret of UCB-BQRL with theoretical radii beside what is proven: Theorem 1, Corollary 1 and ours. Each number of
episodes has runs of its own, because the radii depend on it. The bounds are taken with a planner gap of zero: what a record says
of it (the bound minus the value under the empirical kernel) is at these radii all of the optimism. So the model error, which
contains the gap, is reported beside the statistical terms of the bounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from bqrl.laws.law import Law
from bqrl.learners.record import Record
from bqrl.learners.run import Run
from bqrl.learners.ucb_bqrl import UCBBQRL
from bqrl.mdp.forms import FloatArray
from bqrl.mdp.model import MDP
from bqrl.planners.solve import solve
from bqrl.study.theory_exact import buffer, knapsack
from bqrl.study.theory_hard import hard
from bqrl.study.theory_spec import BoundsSpec, Case, CoverageSpec, TheorySpec, played, run_seed, sizes
from bqrl.study.watch import Watch
from bqrl.theory import RegretBounds, optimal_margin, optimistic_decomposition, plateau_bounds, radius
from bqrl.theory import coverage as share_of

ROUNDING = 1e-12
STATEMENTS = ("theorem 1", "corollary 1", "ours")
DRAWN = 60  # points of a drawn bound


def run_theory(
    spec: TheorySpec, only: Iterable[str] | None = None, watch: Watch | None = None
) -> dict[str, dict[str, Any]]:
    """Run theory experiments.

    Parameters
    ----------
    spec
        The settings.
    only
        Names of the experiments; all that are set by default.
    watch
        Who is informed of the progress.

    Returns
    -------
    For each experiment its numbers as plain data, with the seconds it took.
    """
    found = {}
    for name in spec.chosen(only):
        begun = time.perf_counter()
        found[name] = RUN[name](spec, Watch() if watch is None else watch)
        found[name]["seconds"] = time.perf_counter() - begun
    return found


def coverage(spec: TheorySpec, watch: Watch) -> dict[str, Any]:
    """Coverage of UCB-BQRL's theoretical confidence sets on every case, and the ratio of every run."""
    own = spec.coverage
    assert own is not None
    cases = []
    for i, case in enumerate(own.cases):
        problem = spec.problems[case.problem]
        mdp = problem.build()
        watch.phase(f"coverage: {problem.label}", own.runs)
        ratios = np.empty(own.runs)
        for j in range(own.runs):
            seed = run_seed(spec.theory.seed, 1, i, j)
            ratios[j] = worst_ratio(mdp, case.tau, own.episodes, own.delta, seed, own.params)
            watch.tick()
        cases.append(
            {
                "problem": case.problem,
                "label": problem.label,
                "tau": case.tau,
                **sizes(mdp),
                **coverage_numbers(ratios, own),
            }
        )
    return {"delta": own.delta, "confidence": own.confidence, "episodes": own.episodes, "cases": cases}


def coverage_numbers(ratios: FloatArray, own: CoverageSpec) -> dict[str, Any]:
    """What the largest ratios of runs say about the promise."""
    found = share_of(ratios <= 1.0 + ROUNDING, own.delta, own.confidence)
    ordered = np.sort(ratios)
    needed = int(np.ceil((1.0 - own.delta) * ordered.size - ROUNDING))
    return {
        "runs": found.runs,
        "held": int((ratios <= 1.0 + ROUNDING).sum()),
        "share": found.share,
        "low": found.low,
        "high": found.high,
        "promised": found.promised,
        "refuted": found.refuted,
        "enough": float(ordered[needed - 1]),  # the factor on the radii with which the share of runs is as promised
        "ratios": ratios.tolist(),
    }


def worst_ratio(mdp: MDP, tau: float, episodes: int, delta: float, seed: int, params: dict[str, Any]) -> float:
    """The largest ratio of a run: true l1 error of a visited row over the theoretical radius, before every episode."""
    run = Run(mdp, "ucb-bqrl", tau, episodes, seed, delta=delta, **params)
    learner = run.learner
    assert isinstance(learner, UCBBQRL)
    counts, task = learner.counts, learner.task
    truth = mdp.probability if counts.M == mdp.available.shape[0] else mdp.staged().probability
    rows = np.repeat(np.arange(counts.row_start.size - 1), np.diff(counts.row_start))
    support = np.maximum(counts.support_size.reshape(-1), 1)
    open_rows = ~counts.known.reshape(-1) & (support > 1)
    worst = 0.0
    while run.t < run.total:
        visits = counts.visits.reshape(-1)
        seen = open_rows & (visits > 0)  # before its first visit a row's set is the whole simplex
        if seen.any():
            error = np.bincount(rows, np.abs(counts.probability - truth), support.size)
            reach = radius(visits, task.S, task.A, task.episodes, task.H, delta, support)
            worst = max(worst, float((error[seen] / reach[seen]).max()))
        run.step()
    return worst


def bounds(spec: TheorySpec, watch: Watch) -> dict[str, Any]:
    """Regret and bounds of every case, and from which number of episodes each bound says something."""
    own = spec.bounds
    assert own is not None
    cases = [_case(spec, own, i, case, watch) for i, case in enumerate(own.cases)]
    return {"delta": own.delta, "cases": cases}


def _case(spec: TheorySpec, own: BoundsSpec, i: int, case: Case, watch: Watch) -> dict[str, Any]:
    problem = spec.problems[case.problem]
    mdp = problem.build()
    support = int(np.diff(mdp.row_start).max())
    proven = RegretBounds(mdp, case.tau, delta=own.delta, support=support)
    best = solve(mdp, case.tau)
    assert isinstance(best.law, Law)
    watch.phase(f"bounds: {problem.label}", len(own.episodes) * own.runs)
    points = []
    for k, T in enumerate(own.episodes):
        runs = []
        for j in range(own.runs):
            options = own.params | {"delta": own.delta}
            record = played(mdp, "ucb-bqrl", case.tau, T, run_seed(spec.theory.seed, 2, i, k, j), **options)
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


RUN: dict[str, Callable[[TheorySpec, Watch], dict[str, Any]]] = {
    "coverage": coverage,
    "bounds": bounds,
    "hard": hard,
    "buffer": buffer,
    "knapsack": knapsack,
}
