"""Coverage: in what share of runs do the confidence sets of UCB-BQRL contain the true kernel in all episodes?

For every run the largest ratio ||P_hat - P||_1 / f(N) over episodes and rows is recorded. The sets contain the true kernel
throughout if it is at most 1, and the share of runs with a ratio of at most m is the coverage of radii m times as wide.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl import theory
from bqrl.experiments import experiment as base
from bqrl.learners.run import Run
from bqrl.learners.ucb_bqrl import UCBBQRL
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.model import MDP
from bqrl.results.charts import Curve, by_label, lines
from bqrl.results.words import listed, number, percent
from bqrl.study.settings import Count, Level, Settings

ROUNDING = 1e-12


class CoverageSettings(Settings):
    """Many runs, and whether their confidence sets contain the true kernel throughout."""

    runs: Count
    episodes: Count
    delta: Level
    cases: base.Cases
    confidence: Level = 0.95
    params: base.Params


def _run(own: CoverageSettings, context: base.Context) -> dict[str, Any]:
    cases, runs = base.Rows(), base.Rows()
    for i, case in enumerate(own.cases):
        mdp, head = context.model(case)
        seeds = [context.run_seed(1, i, j) for j in range(own.runs)]
        ratios = np.array([
            worst_ratio(mdp, case.tau, own.episodes, own.delta, seed, own.params)
            for seed in context.watch.track(seeds, f"coverage: {head['label']}")
        ])  # fmt: skip
        cases.append(head | coverage_numbers(ratios, own.delta, own.confidence))
        inside = ratios <= 1.0 + ROUNDING
        runs += base.rows_of(case.model_dump(), run=range(own.runs), largest_ratio=ratios, inside=inside)
    facts = {"delta": own.delta, "confidence": own.confidence, "episodes": own.episodes}
    return {"tables": {"coverage": cases, "coverage_runs": runs}, **facts}


def coverage_numbers(ratios: FloatArray, delta: float, confidence: float) -> dict[str, Any]:
    """Observed coverage from the largest ratios of the runs; `enough`: the factor on the radii that gives 1 - delta."""
    held = ratios <= 1.0 + ROUNDING
    found = theory.coverage(held, delta, confidence)
    needed = int(np.ceil((1.0 - delta) * ratios.size - ROUNDING))
    return {
        "runs": found.runs, "held": held.sum(), "share": found.share, "low": found.low, "high": found.high,
        "promised": found.promised, "refuted": found.refuted, "enough": np.sort(ratios)[needed - 1],
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


def _sentences(found: base.Found) -> list[str]:
    cases = found["tables"]["coverage"]
    share, promised = min(case["share"] for case in cases), percent(cases[0]["promised"])
    held = "in every run" if share == 1.0 else f"in at least {percent(round(share, 4))} of runs"
    enough = base.between([case["enough"] for case in cases])
    headline = f"The confidence sets held {held}; radii {enough} times as wide would give the promised {promised}"
    broken = [case["label"] for case in cases if case["refuted"]]
    if broken:
        headline = f"The confidence sets hold in fewer runs than the promised {promised} on {listed(broken)}"
    level = percent(found["confidence"])
    remarks = [
        f"{case['label']}: in {case['held']} of {case['runs']} runs the sets contained the true kernel in all"
        f" {found['episodes']} episodes; {level} confidence interval of the share {number(case['low'], 4)} to"
        f" {number(case['high'], 4)}, promised {number(case['promised'])}."
        for case in cases
    ]
    note = "The radii include a union over rows, visits and subsets of successors, which makes them wide."
    return [headline, *remarks, note]


def _charts(found: base.Found, title: str) -> dict[str, Any]:
    """Share of runs whose sets hold, by the factor on the radii; the theoretical radii are at 1."""
    cases, runs = found["tables"]["coverage"], found["tables"]["coverage_runs"]
    curves, top = [], max(1.15, 1.05 * max(row["largest_ratio"] for row in runs))
    for name, rows in base.by_case(cases, runs):
        ratios = np.sort(base.column(rows, "largest_ratio"))
        curves.append(Curve(name, np.r_[0.0, ratios, top], np.r_[np.arange(ratios.size + 1) / ratios.size, 1.0]))
    titles = ("factor on the theoretical radii", "share of runs inside in every episode")
    drawn = lines(curves, *titles, scales={"x": {"domain": [0, top]}, "y": {"domain": [0, 1]}}, step=True)
    label, colour = by_label([curve.label for curve in curves])
    beside = 1.0 + 0.02 * (np.arange(len(cases)) - (len(cases) - 1) / 2)
    ends = [[k, beside[k], case["share"], case["low"], case["high"]] for k, case in enumerate(cases)]
    points = (
        base.marks(drawn, ["k", "x", "y", "low", "high"], ends).transform_calculate(line=label).encode(color=colour)
    )
    promise = base.marks(drawn, ["y"], [[cases[0]["promised"]]]).mark_rule(strokeDash=[4, 2])
    note = (
        f"{cases[0]['runs']} runs of {found['episodes']} episodes per problem. At 1: the theoretical radii, with"
        f" {found['confidence']:.0%} intervals. Dashed: the promise, {cases[0]['promised']:g}."
    )
    return {"coverage": drawn.chart(title, note, *base.intervals(points), promise)}


COVERAGE = base.Experiment(CoverageSettings, _run, _sentences, _charts, {
    "coverage": "Share of runs in which the confidence sets contained the true kernel throughout; low and high: exact"
    " binomial (Clopper-Pearson) interval at confidence {confidence:g}.",
    "coverage_runs": "The largest ratio of l1 error to radius in every run.",
})  # fmt: skip
