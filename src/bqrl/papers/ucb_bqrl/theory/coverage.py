"""Coverage: in what share of runs do the confidence sets of UCB-BQRL contain the true kernel in all episodes?

For every run the largest ratio ||P_hat - P||_1 / f(N) over episodes and rows is recorded. If the ratio is at most 1, the sets
contain the true kernel in all episodes. The share of runs with a ratio of at most m is the coverage of radii m times as wide.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl import theory
from bqrl.display import format_number, percent
from bqrl.learners.run import Run
from bqrl.learners.ucb_bqrl import UCBBQRL
from bqrl.mdp.arrays import BoolArray
from bqrl.mdp.model import MDP
from bqrl.papers.ucb_bqrl.theory import experiment as base
from bqrl.results.charts import GREY, PALETTE, Curve
from bqrl.results.words import list_words
from bqrl.study.settings import Count, Level, Settings

ROUNDING = 1e-12


class CoverageSettings(Settings):
    """Many runs, and whether their confidence sets contain the true kernel in all episodes."""

    runs: Count
    episodes: Count
    delta: Level
    cases: base.Cases
    confidence: Level = 0.95
    params: base.Params


def _run(own: CoverageSettings, context: base.Context) -> dict[str, Any]:
    """Return the tables and facts of the experiment."""
    cases, runs = base.Rows(), base.Rows()
    needed = int(np.ceil((1.0 - own.delta) * own.runs - ROUNDING))  # runs in which the sets must hold
    for i, case in enumerate(own.cases):
        mdp, head = context.model(case)
        seeds = [context.run_seed(1, i, j) for j in range(own.runs)]
        ratios = np.array([
            worst_ratio(mdp, case.tau, own.episodes, own.delta, seed, own.params)
            for seed in context.watch.track(seeds, f"coverage: {head['label']}")
        ])  # fmt: skip
        held = ratios <= 1.0 + ROUNDING
        found = coverage(held, own.delta, own.confidence)
        cases.append({
            **head, "runs": own.runs, "held": held.sum(), "share": found.share, "low": found.low, "high": found.high,
            "promised": found.promised, "refuted": found.refuted, "enough": np.sort(ratios)[needed - 1],
        })  # fmt: skip
        runs += base.rows_of(case.model_dump(), run=range(own.runs), largest_ratio=ratios, inside=held)
    facts = {"delta": own.delta, "confidence": own.confidence, "episodes": own.episodes}
    return {"tables": {"coverage": cases, "coverage_runs": runs}, **facts}


def worst_ratio(mdp: MDP, tau: float, episodes: int, delta: float, seed: int, params: dict[str, Any]) -> float:
    """Return the largest ratio of true l1 error to theoretical radius over all visited rows and episodes of a run."""
    run = Run(mdp, "ucb-bqrl", tau, episodes, seed, delta=delta, **params)
    learner = run.learner
    assert isinstance(learner, UCBBQRL)
    counts, task = learner.counts, learner.task
    rows = counts.units()  # the rows that are learned
    truth = rows.collect((mdp if counts.M == mdp.available.shape[0] else mdp.staged()).probability)
    row_of, worst = np.repeat(np.arange(rows.sizes.size), rows.sizes), 0.0
    while run.t < run.total:
        visits = rows.visits()
        error = np.bincount(row_of, np.abs(rows.collect(counts.probability) - truth))
        ratio = error / theory.radius(visits, task.S, task.A, task.episodes, task.H, delta, rows.sizes)
        worst = ratio.max(initial=worst, where=visits > 0)  # before its first visit a row's set is the whole simplex
        run.step()
    return float(worst)


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """Share of runs whose confidence sets contained the true kernel, with a confidence interval."""

    share: float  # observed
    low: float  # ends of the confidence interval for the true probability
    high: float
    promised: float  # 1 - delta

    @property
    def refuted(self) -> bool:
        """Whether the whole confidence interval lies below the stated probability."""
        return self.high < self.promised


def coverage(held: BoolArray, delta: float, confidence: float = 0.95) -> Coverage:
    """Return the share of runs that `held`, its exact binomial (Clopper-Pearson) interval, and the stated 1 - delta."""
    from scipy.stats import beta as beta_distribution  # slow to import, and used here only

    n, k, tail = held.size, int(held.sum()), (1.0 - confidence) / 2.0
    low = 0.0 if k == 0 else float(beta_distribution.ppf(tail, k, n - k + 1))
    high = 1.0 if k == n else float(beta_distribution.ppf(1.0 - tail, k + 1, n - k))
    return Coverage(share=k / n, low=low, high=high, promised=1.0 - delta)


def _headline(found: base.Found) -> str:
    """Return the main result as a sentence."""
    cases = found["tables"]["coverage"]
    worst, promised = min(cases, key=lambda case: case["share"]), percent(cases[0]["promised"])
    broken = [case["label"] for case in cases if case["refuted"]]
    held = f"at least {worst['held']} of" if worst["held"] < worst["runs"] else "all"
    return (
        f"The confidence sets held in {held} {worst['runs']} runs per problem"
        f" ({percent(found['confidence'])} confidence interval of the share {format_number(worst['low'], 4)} to"
        f" {format_number(worst['high'], 4)}){f', which refutes the promise on {list_words(broken)}' if broken else ''}; radii"
        f" {base.between([case['enough'] for case in cases])} times as wide would give the promised {promised}"
    )


def _charts(found: base.Found, finding: str) -> dict[str, Any]:
    """Return a chart of the share of runs whose sets hold, by the factor on the radii, with confidence intervals."""
    cases, runs = found["tables"]["coverage"], found["tables"]["coverage_runs"]
    curves, top = [], max(1.15, 1.05 * max(row["largest_ratio"] for row in runs))
    for name, rows in base.by_case(cases, runs):
        n, ratios = len(rows), sorted(row["largest_ratio"] for row in rows)
        held = [coverage(np.arange(n) < k, found["delta"], found["confidence"]) for k in (*range(n + 1), n)]
        share, low, high = np.array([(one.share, one.low, one.high) for one in held]).T
        curves.append(Curve(name, np.array([0.0, *ratios, top]), share, low, high))
    colours = dict(zip((one.label for one in curves), PALETTE, strict=False)) | {"promised": GREY}
    curves.append(Curve("promised", np.array([0.0, top]), np.full(2, cases[0]["promised"])))
    axes = ("factor on the theoretical radii", "share of runs inside in every episode")
    scales = {"x": {"domain": [0, top]}, "y": {"domain": [0, 1]}}
    note = (
        f"{cases[0]['runs']} runs of {found['episodes']} episodes per problem. Factor 1: the theoretical radii."
        f" Band: {percent(found['confidence'])} confidence interval at each factor."
    )
    return {"coverage": base.chart(finding, note, curves, *axes, scales=scales, colours=colours, step=True)}


CAPTIONS = {
    "coverage": "Share of runs in which the confidence sets contained the true kernel in all episodes; low and high: exact"
    " binomial (Clopper-Pearson) interval at confidence {confidence:g}.",
    "coverage_runs": "The largest ratio of l1 error to radius in every run.",
}
NOTE = "The radii are wide because they include a union bound over rows, visits and subsets of successors."
COVERAGE = base.TheoryExperiment(
    settings=CoverageSettings, run=_run, headline=_headline, charts=_charts, captions=CAPTIONS, notes=[NOTE],
)  # fmt: skip
