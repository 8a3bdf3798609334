"""Bounds: regret of UCB-BQRL with theoretical radii beside Theorem 1, Corollary 1 and our bound.

Each number of episodes has runs of its own, because the radii depend on it. The bounds are taken with a planner gap of zero.
A record holds the optimistic value minus the value under the empirical kernel, which at these radii is the whole optimism.
Therefore the model error, which contains the gap, is reported beside the statistical terms of the bounds.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from bqrl import theory
from bqrl.experiments import experiment as base
from bqrl.laws.law import Law
from bqrl.learners.record import Record
from bqrl.planners.solve import solve
from bqrl.results.charts import BLUE, GREEN, GREY, ORANGE, RED
from bqrl.results.words import listed, number
from bqrl.study.settings import Count, Level, Settings

STATEMENTS = {"theorem 1": "Theorem 1", "corollary 1": "Corollary 1", "ours": "our bound"}
POINTS = 60  # episodes at which the bounds are drawn


class BoundsSettings(Settings):
    """Runs of several lengths, and the bounds for each length."""

    runs: Count
    episodes: Annotated[tuple[Count, ...], Field(min_length=1)]
    delta: Level
    cases: base.Cases
    params: base.Params


def _run(own: BoundsSettings, context: base.Context) -> dict[str, Any]:
    points, lines, cases = base.Rows(), base.Rows(), base.Rows()
    params = {**own.params, "delta": own.delta}
    for i, case in enumerate(own.cases):
        (mdp, head), named, tau = context.model(case), case.model_dump(), case.tau
        support = int(np.diff(mdp.row_start).max())
        proven = theory.RegretBounds(mdp, tau, delta=own.delta, support=support)
        best, rho = solve(mdp, tau), theory.plateau_bounds(mdp, tau)
        context.watch.phase(f"bounds: {head['label']}, where each is informative")
        starts = {statement: float(proven.informative_from(statement)) for statement in STATEMENTS}
        context.watch.phase(f"bounds: {head['label']}", len(own.episodes) * own.runs)
        for k, T in enumerate(own.episodes):
            records = context.records(own.runs, (2, i, k), mdp, "ucb-bqrl", tau, T, params)
            regret, buffering, model, optimistic = np.array([_sums(one, best.law, tau) for one in records]).T
            most = regret.max()
            measured = {
                "episodes": T, "runs": own.runs, "regret": regret.mean(), "regret_most": most, "model": model.mean(),
                "model_most": model.max(), "optimistic": optimistic.min(), "buffering_of_the_optimum": buffering.mean(),
            }  # fmt: skip
            for statement, start in starts.items():
                bound = proven(T, statement)
                points.append({
                    **named, "statement": statement, **measured, "bound": bound.total, "bound_buffering": bound.buffering,
                    "bound_statistical": bound.counting + bound.martingale, "trivial": bound.trivial,
                    "informative": bound.informative, "ratio": bound.total / most if most > 0.0 else None,
                    "holds": most <= bound.total, "informative_from": start,
                })  # fmt: skip
        last = min(10.0 * max([*filter(math.isfinite, starts.values()), own.episodes[-1]]), 1e12)
        for T in np.unique(np.geomspace(own.episodes[0], last, POINTS).round()).astype(np.int64).tolist():
            totals = {name.replace(" ", "_"): proven(T, name).total for name in STATEMENTS}
            lines.append({**named, "episodes": T, **totals, "trivial": T * mdp.H * proven.span})
        margin, plateau = theory.optimal_margin(mdp, tau), [rho.lower, rho.upper]
        cases.append({**head, "support": support, "best": best.value, "margin": margin, "plateau": plateau})
    return {"tables": {"bounds": points, "bounds_lines": lines}, "delta": own.delta, "cases": cases}


def _sums(record: Record, best: Law, tau: float) -> list[float]:
    """Regret, buffering and model error summed over the episodes of a run, and the share of optimistic episodes."""
    optimistic, beta = record.notes["optimistic"], record.notes["beta"]
    found = theory.optimistic_decomposition(best, record.laws, optimistic, tau, beta)
    return [record.gap(tau).sum(), found.buffering.sum(), found.model.sum(), found.optimistic.mean()]


def _sentences(found: base.Found) -> list[str]:
    cases = base.by_case(found["cases"], found["tables"]["bounds"])
    remarks = []
    for name, rows in cases:
        last, starts = rows[-1], {STATEMENTS[row["statement"]]: base.rough(row["informative_from"]) for row in rows}
        remarks.append(
            f"{name}: regret {number(last['regret'], 3)} (largest {number(last['regret_most'], 3)}) after"
            f" {last['episodes']} episodes, at most {number(last['trivial'], 4)} possible; below the trivial bound from"
            f" {', '.join(f'{T} episodes ({bound})' for bound, T in starts.items())}."
        )
    if not any(row["informative"] for row in found["tables"]["bounds"]):
        remarks.append(
            "Every bound is vacuous at these numbers of episodes: it exceeds what any learner can lose. The experiment"
            " checks that no bound is violated, and by how far regret stays below it."
        )
    remarks.append(
        "The bounds assume a planner gap of zero. The gap of the target planner is not measured; the mean model error,"
        " which contains it, is in the table beside the statistical terms."
    )
    return [_headline(cases), *remarks]


def _headline(cases: list[tuple[str, list[base.Found]]]) -> str:
    over = {f"{STATEMENTS[row['statement']]} on {name}" for name, rows in cases for row in rows if not row["holds"]}
    if over:
        return f"Regret exceeds {listed(sorted(over))}"
    ours = [next(row for row in reversed(rows) if row["statement"] == "ours") for _, rows in cases]  # longest runs
    ratios = [row["ratio"] for row in ours if row["ratio"] is not None]
    below = f", {base.between(ratios)} times below ours at T = {ours[0]['episodes']}" if ratios else ""
    starts = [row["informative_from"] for row in ours if row["informative_from"] is not None]
    when = f"from {base.rough(min(starts))} episodes at the earliest" if starts else "beyond 1e90 episodes, if ever"
    return f"Regret stays under every bound{below}; ours is informative {when}"


def _charts(found: base.Found, title: str) -> dict[str, Any]:
    """Measured regret under the bounds, drawn up to where they become informative."""
    names = {name: {"y": key.replace(" ", "_")} for key, name in STATEMENTS.items()}
    names["trivial: T H"] = {"y": "trivial"}
    axes, look = (
        ("episodes T", "regret"),
        {"scales": base.LOG, "colours": dict(zip(names, (ORANGE, RED, GREEN, GREY), strict=True))},
    )
    drawn = base.case_lines(found, "bounds_lines", "episodes", names, *axes, **look)
    cases = base.by_case(found["cases"], found["tables"]["bounds"])
    runs = [
        [i, row["episodes"], row["regret"], row["regret"], row["regret_most"]]
        for i, (_, rows) in enumerate(cases)
        for row in rows
        if row["statement"] == "ours" and row["regret"] > 0.0
    ]
    points = base.intervals(base.marks(drawn, ["which", "x", "y", "low", "high"], runs), color=BLUE)
    note = "Blue: measured regret, mean to largest over the runs. A bound is informative where it lies below the trivial one."
    return {"bounds": drawn.chart([title] * len(cases), note, *points)}


BOUNDS = base.Experiment(BoundsSettings, _run, _sentences, _charts, {
    "bounds": "Measured regret beside the bounds.",
    "bounds_lines": "The bounds up to large numbers of episodes.",
})  # fmt: skip
