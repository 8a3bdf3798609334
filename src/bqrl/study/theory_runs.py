"""The theory experiments: each returns its tables as rows, and facts beside them, as plain data.

`theory_hard` holds the experiment on the hard family.

Coverage: in what share of runs do the confidence sets contain the true kernel in all episodes? For every run the largest
ratio ||P_hat - P||_1 / f(N) over episodes and rows is recorded. The sets held throughout if it is at most 1, and the share of
runs with a ratio of at most m is the coverage of radii m times as wide.

Bounds: regret of UCB-BQRL with theoretical radii beside Theorem 1, Corollary 1 and our bound. Each number of episodes has runs
of its own, because the radii depend on it. The bounds are taken with a planner gap of zero. A record holds the optimistic value
minus the value under the empirical kernel, which at these radii is the whole optimism. Therefore the model error, which
contains the gap, is reported beside the statistical terms of the bounds.

Buffer: cost of a buffer by its width, where the cost vanishes, and from which episode each schedule avoids it.

Knapsack: number of possible returns and of lattice points as the horizon grows, and the hardness proof at work: the number of
subsets up to half the weight, counted by quantile decisions alone.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from bqrl import theory
from bqrl.laws.law import Law
from bqrl.learners.run import Run
from bqrl.learners.ucb_bqrl import UCBBQRL
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.model import MDP
from bqrl.planners.confidence import log_buffer, power_buffer
from bqrl.planners.solve import solve
from bqrl.study.runs import complete
from bqrl.study.theory_hard import hard
from bqrl.study.theory_spec import (
    BoundsSpec,
    BufferSpec,
    Case,
    CoverageSpec,
    Found,
    KnapsackSpec,
    Rows,
    TheorySpec,
    run_seed,
)
from bqrl.study.watch import Watch

ROUNDING = 1e-12
STATEMENTS = ("theorem 1", "corollary 1", "ours")
BOUND_POINTS = 60  # episodes at which the bounds are drawn
LEAST_SHARE = 1e-3  # of tau: smaller buffers are not examined


def run_theory(spec: TheorySpec, only: Iterable[str] | None = None, watch: Watch | None = None) -> dict[str, Found]:
    """Run theory experiments.

    Parameters
    ----------
    spec
        The settings.
    only
        Names of the experiments; all that are set by default.
    watch
        Receives the progress.

    Returns
    -------
    dict
        For each experiment its tables and facts as plain data, with the seconds it took.
    """
    found = {}
    for name in spec.chosen(only):
        start = time.perf_counter()
        found[name] = RUN[name](getattr(spec, name), spec, Watch() if watch is None else watch)
        found[name]["seconds"] = time.perf_counter() - start
    return found


def _case(spec: TheorySpec, case: Case) -> tuple[MDP, dict[str, Any]]:
    """The model of a case, and the columns that name it."""
    problem = spec.problems[case.problem]
    mdp = problem.build()
    size = {"states": mdp.S, "actions": mdp.A, "horizon": mdp.H}
    return mdp, {"problem": case.problem, "label": problem.label, "tau": case.tau, **size}


def _finite(x: float) -> float | None:
    """`x`, or None if it is infinite: JSON has no infinity."""
    return float(x) if math.isfinite(x) else None


# -- coverage -------------------------------------------------------------------------------------------------------------


def coverage(own: CoverageSpec, spec: TheorySpec, watch: Watch) -> Found:
    """Coverage of UCB-BQRL's theoretical confidence sets on every case, and the largest ratio of every run."""
    cases: Rows = []
    runs: Rows = []
    for i, case in enumerate(own.cases):
        mdp, head = _case(spec, case)
        watch.phase(f"coverage: {head['label']}", own.runs)
        ratios = np.empty(own.runs)
        for j in range(own.runs):
            seed = run_seed(spec.theory.seed, 1, i, j)
            ratios[j] = worst_ratio(mdp, case.tau, own.episodes, own.delta, seed, own.params)
            watch.tick()
        cases.append(head | coverage_numbers(ratios, own.delta, own.confidence))
        runs += [
            {"problem": case.problem, "tau": case.tau, "run": j, "largest_ratio": x, "inside": x <= 1.0 + ROUNDING}
            for j, x in enumerate(ratios.tolist())
        ]
    facts = {"delta": own.delta, "confidence": own.confidence, "episodes": own.episodes}
    return {"tables": {"coverage": cases, "coverage_runs": runs}, **facts}


def coverage_numbers(ratios: FloatArray, delta: float, confidence: float) -> dict[str, Any]:
    """Observed coverage from the largest ratios of the runs; `enough`: the factor on the radii that gives 1 - delta."""
    held = ratios <= 1.0 + ROUNDING
    found = theory.coverage(held, delta, confidence)
    needed = int(np.ceil((1.0 - delta) * ratios.size - ROUNDING))
    return {
        "runs": found.runs, "held": int(held.sum()), "share": found.share, "low": found.low, "high": found.high,
        "promised": found.promised, "refuted": found.refuted, "enough": float(np.sort(ratios)[needed - 1]),
    }  # fmt: skip


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
            reach = theory.radius(visits, task.S, task.A, task.episodes, task.H, delta, support)
            worst = max(worst, float((error[seen] / reach[seen]).max()))
        run.step()
    return worst


# -- bounds ---------------------------------------------------------------------------------------------------------------


def bounds(own: BoundsSpec, spec: TheorySpec, watch: Watch) -> Found:
    """Regret and bounds of every case, and the number of episodes from which each bound is informative."""
    points: Rows = []
    lines: Rows = []
    cases: Rows = []
    for i, case in enumerate(own.cases):
        mdp, head = _case(spec, case)
        support = int(np.diff(mdp.row_start).max())
        proven = theory.RegretBounds(mdp, case.tau, delta=own.delta, support=support)
        best, rho = solve(mdp, case.tau), theory.plateau_bounds(mdp, case.tau)
        watch.phase(f"bounds: {head['label']}, where each is informative")
        starts = {statement: proven.informative_from(statement) for statement in STATEMENTS}
        watch.phase(f"bounds: {head['label']}", len(own.episodes) * own.runs)
        for k, T in enumerate(own.episodes):
            point = _measured(spec, own, case, mdp, best.law, (2, i, k), T, watch)
            points += [
                {"problem": case.problem, "tau": case.tau, "statement": statement}
                | point | _bound_columns(proven, T, statement, point["regret_most"])
                | {"informative_from": _finite(start)}
                for statement, start in starts.items()
            ]  # fmt: skip
        last = min(10.0 * max([*(T for T in starts.values() if math.isfinite(T)), own.episodes[-1]]), 1e12)
        for T in np.unique(np.geomspace(own.episodes[0], last, BOUND_POINTS).round()).astype(np.int64).tolist():
            totals = {name.replace(" ", "_"): proven(T, name).total for name in STATEMENTS}
            lines.append(
                {"problem": case.problem, "tau": case.tau, "episodes": T, **totals, "trivial": T * mdp.H * proven.span}
            )
        extra = {"best": best.value, "margin": theory.optimal_margin(mdp, case.tau), "plateau": [rho.lower, rho.upper]}
        cases.append(head | {"support": support} | extra)
    return {"tables": {"bounds": points, "bounds_lines": lines}, "delta": own.delta, "cases": cases}


def _measured(
    spec: TheorySpec, own: BoundsSpec, case: Case, mdp: MDP, best: Law, place: tuple[int, ...], T: int, watch: Watch
) -> dict[str, Any]:
    """Means and extremes, over the runs, of sums over T episodes; optimism: its smallest share of episodes."""
    runs = []
    for j in range(own.runs):
        seed = run_seed(spec.theory.seed, *place, j)
        record = complete(Run(mdp, "ucb-bqrl", case.tau, T, seed, **own.params | {"delta": own.delta}))[0]
        found = theory.optimistic_decomposition(
            best, record.laws, record.notes["optimistic"], case.tau, record.notes["beta"]
        )
        sums = [float(one.sum()) for one in (record.gap(case.tau), found.buffering, found.model)]
        runs.append([*sums, float(np.mean(found.optimistic))])
        watch.tick()
    regret, buffering, model, optimistic = zip(*runs, strict=True)
    return {
        "episodes": T, "runs": len(runs), "regret": float(np.mean(regret)), "regret_most": max(regret),
        "model": float(np.mean(model)), "model_most": max(model), "optimistic": min(optimistic),
        "buffering_of_the_optimum": float(np.mean(buffering)),
    }  # fmt: skip


def _bound_columns(proven: theory.RegretBounds, T: int, statement: str, most: float) -> dict[str, Any]:
    """One bound at T episodes beside the largest regret."""
    bound = proven(T, statement)
    return {
        "bound": bound.total, "bound_buffering": bound.buffering, "bound_statistical": bound.counting + bound.martingale,
        "trivial": bound.trivial, "informative": bound.informative, "ratio": bound.total / most if most > 0.0 else None,
        "holds": most <= bound.total,
    }  # fmt: skip


# -- without runs ---------------------------------------------------------------------------------------------------------


def buffer(own: BufferSpec, spec: TheorySpec, watch: Watch) -> Found:
    """The buffering gaps of every case with plateau and margin, and the episode from which each schedule is below them."""
    watch.phase("buffering gaps", len(own.cases))
    gaps: Rows = []
    clears: Rows = []
    cases: Rows = []
    for case in own.cases:
        mdp, head = _case(spec, case)
        tau, named = case.tau, {"problem": case.problem, "tau": case.tau}
        schedules = {"log": log_buffer(tau)} | {f"power {a:g}": power_buffer(tau, a) for a in own.powers}
        edges = np.array([theory.plateau_bounds(mdp, tau).upper, theory.optimal_margin(mdp, tau)])
        least = max(edges.min() / 2.0, LEAST_SHARE * tau)
        betas = np.geomspace(least, tau, own.points)
        betas = np.minimum(np.r_[betas, edges[edges > least]], tau)  # with the corners of the curves
        found = theory.gap_profile(mdp, tau, betas, schedules)
        two = [None] * found.beta.size if found.two_sided is None else found.two_sided.tolist()
        columns = (found.beta.tolist(), two, found.one_sided[0].tolist(), found.one_sided[1].tolist())
        names = ("beta", "two_sided", "one_sided_low", "one_sided_high")
        gaps += [named | dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        rho = found.plateau
        for schedule, (at_plateau, at_margin) in found.clears.items():
            margin = {"margin": found.margin, "episodes_until_margin": _finite(at_margin)}
            plateau = {"plateau_low": rho.lower, "plateau_high": rho.upper}
            until = {"episodes_until_plateau_high": _finite(at_plateau)}
            clears.append(named | {"schedule": schedule} | margin | plateau | until)
        cases.append(head | {"plateau_reason": rho.reason})
        watch.tick()
    return {"tables": {"buffer": gaps, "buffer_clears": clears}, "cases": cases}


def knapsack(own: KnapsackSpec, spec: TheorySpec, watch: Watch) -> Found:
    """Support and lattice of every family of weights by horizon, and the number of subsets from quantile decisions."""
    weights = theory.knapsack_families(own.weights, run_seed(spec.theory.seed, 5))
    watch.phase("possible returns", len(weights))
    sizes: Rows = []
    families: Rows = []
    for name, w in weights.items():
        growth, law, capacity = theory.support_growth(w), theory.knapsack_law(w, lattice=False), sum(w) // 2
        columns = (growth.horizon, growth.histories, growth.support, growth.lattice)
        names = ("horizon", "histories", "support", "lattice")
        sizes += [{"weights": name} | dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
        asked: list[Any] = []

        def decide(*question: Any, law: Any = law, asked: list[Any] = asked) -> bool:
            asked.append(question)
            return bool(law.decide(*question))

        counted = theory.count_subsets(w, capacity, decide=decide)
        subsets = law.running[bisect_right(law.sums, capacity) - 1]
        numbers = {"capacity": capacity, "counted": counted, "decisions": len(asked), "subsets": subsets}
        families.append({"label": name, "weights": w} | numbers)
        watch.tick()
    return {"tables": {"knapsack": sizes}, "weights": own.weights, "families": families}


RUN: dict[str, Callable[[Any, TheorySpec, Watch], Found]] = {
    "coverage": coverage, "bounds": bounds, "hard": hard, "buffer": buffer, "knapsack": knapsack,
}  # fmt: skip
