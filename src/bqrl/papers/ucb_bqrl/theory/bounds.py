"""Bounds: the regret of UCB-BQRL with theoretical radii, compared with Theorem 1, Corollary 1 and our bound.

Each number of episodes has separate runs, because the radii depend on it. The bounds are computed with a planner gap of zero.
A record holds the optimistic value minus the value under the empirical kernel, which at these radii is the whole optimism.
Therefore the model error, which contains the gap, is reported next to the statistical terms of the bounds.
"""

from __future__ import annotations

import math
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from bqrl import theory
from bqrl.papers.ucb_bqrl.theory import experiment as base
from bqrl.planners.solve import solve
from bqrl.results.charts import BLUE, GREEN, GREY, ORANGE, RED
from bqrl.results.words import list_words
from bqrl.study.settings import Count, Level, Settings

STATEMENTS = {"theorem 1": "Theorem 1", "corollary 1": "Corollary 1", "ours": "our bound"}
POINTS = 60  # episodes at which the bounds are drawn
POWERS = 300  # numbers of episodes are tried up to this power of two
NEVER = "at no number of episodes below 1e90"


class BoundsSettings(Settings):
    """Runs of several lengths, and the bounds for each length."""

    runs: Count
    episodes: Annotated[tuple[Count, ...], Field(min_length=1)]
    delta: Level
    cases: base.Cases
    params: base.Params


def _run(own: BoundsSettings, context: base.Context) -> dict[str, Any]:
    """Return the tables and facts of the experiment."""
    points, lines, cases = base.Rows(), base.Rows(), base.Rows()
    params = {**own.params, "delta": own.delta}
    for i, case in enumerate(own.cases):
        (mdp, head), named, tau = context.model(case), case.model_dump(), case.tau
        proven = theory.RegretBounds(mdp, tau, delta=own.delta)
        best, rho = solve(mdp, tau), theory.plateau_bounds(mdp, tau)
        context.watch.phase(f"bounds: {head['label']}, where each is informative")
        starts = {statement: float(informative_from(proven, statement)) for statement in STATEMENTS}
        context.watch.phase(f"bounds: {head['label']}", len(own.episodes) * own.runs)
        for k, T in enumerate(own.episodes):
            sums = []
            for one in context.records(own.runs, (2, i, k), mdp, "ucb-bqrl", tau, T, params):
                optimistic, beta = one.notes["optimistic"], one.notes["beta"]
                parts = theory.optimistic_decomposition(best.law, one.laws, optimistic, tau, beta)
                sums.append([one.gap(tau).sum(), parts.buffering.sum(), parts.model.sum(), parts.optimistic.mean()])
            regret, buffering, model, share = np.array(sums).T
            most = regret.max()
            measured = {
                "episodes": T, "runs": own.runs, "regret": regret.mean(), "regret_most": most, "model": model.mean(),
                "model_most": model.max(), "optimistic": share.min(), "buffering_of_the_optimum": buffering.mean(),
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
        cases.append({**head, "support": proven.support, "best": best.value, "margin": margin, "plateau": plateau})
    return {"tables": {"bounds": points, "bounds_lines": lines}, "delta": own.delta, "cases": cases}


def informative_from(bounds: theory.RegretBounds, statement: str) -> int | float:
    """Return the number of episodes from which the bound stays below the trivial T H r; inf if there is none.

    Powers of two are tried up to 2^300 (about 1e90); then bisection finds the last crossing.
    """
    idle = [k for k in range(POWERS) if not bounds(2**k, statement).informative]
    if not idle:
        return 1
    if idle[-1] + 1 >= POWERS:
        return math.inf
    low, high = 2 ** idle[-1], 2 ** (idle[-1] + 1)
    while high - low > max(1, low >> 40):
        middle = (low + high) // 2
        low, high = (low, middle) if bounds(middle, statement).informative else (middle, high)
    return high


def _headline(found: base.Found) -> str:
    """Return the main result as a sentence."""
    cases = base.by_case(found["cases"], found["tables"]["bounds"])
    over = {f"{STATEMENTS[row['statement']]} on {name}" for name, rows in cases for row in rows if not row["holds"]}
    if over:
        return f"Regret exceeds {list_words(sorted(over))}"
    ours = [rows[-1] for _, rows in cases]  # of the longest runs
    ratios = [row["ratio"] for row in ours if row["ratio"] is not None]
    below = f", {base.between(ratios)} times below ours at T = {ours[0]['episodes']}" if ratios else ""
    starts = [row["informative_from"] for row in ours if row["informative_from"] is not None]
    when = f"from {base.rough(min(starts))} episodes at the earliest" if starts else NEVER
    return f"Regret stays under every bound{below}; ours is informative {when}"


def _charts(found: base.Found, finding: str) -> dict[str, Any]:
    """Return a chart of the measured regret and its bounds, up to where the bounds become informative."""
    measured, proven = (base.by_case(found["cases"], found["tables"][name]) for name in ("bounds", "bounds_lines"))
    labels = {key.replace(" ", "_"): name for key, name in STATEMENTS.items()} | {"trivial": "trivial: T H"}
    colours = dict(zip((*labels.values(), "measured"), (ORANGE, RED, GREEN, GREY, BLUE), strict=True))
    curves = []
    for i, ((_, runs), (_, rows)) in enumerate(zip(measured, proven, strict=True)):
        curves += [base.curve(label, rows, "episodes", key, view=(i,)) for key, label in labels.items()]
        positive = [row for row in runs if row["statement"] == "ours" and row["regret"] > 0.0]
        curves.append(base.curve("measured", positive, "episodes", "regret", "regret", "regret_most", view=(i,)))
    note = "Band: from the mean to the largest regret of the runs. A bound is informative where it is below the trivial one."
    axes = "episodes T", "regret"
    return {"bounds": base.chart(finding, note, curves, *axes, log="xy", cases=measured, colours=colours)}


CAPTIONS = {"bounds": "Measured regret and its bounds.", "bounds_lines": "The bounds up to large numbers of episodes."}
NOTES = [
    "A bound that is not below the trivial one is vacuous: no learner can lose that much. Runs of that length only check that"
    " the bound is not violated.",
    "The bounds assume a planner gap of zero. The gap of the target planner is not measured; the table shows the mean model"
    " error, which contains this gap, next to the statistical terms.",
]
BOUNDS = base.TheoryExperiment(
    settings=BoundsSettings, run=_run, headline=_headline, charts=_charts, captions=CAPTIONS, notes=NOTES,
)  # fmt: skip
