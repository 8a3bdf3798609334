"""Do the confidence sets hold the true kernel in all episodes of a run as often as promised?

For every run the experiment keeps the largest ratio ||P_hat - P||_1 / f(N) over episodes and rows. The sets held throughout
where it is at most 1, and the share of runs with a ratio up to m is the coverage of radii m times as wide.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.experiments.theory.runs import Watch, run_seed
from bqrl.experiments.theory.settings import CoverageSpec, TheorySpec
from bqrl.learners.run import Run
from bqrl.learners.ucb_bqrl import UCBBQRL
from bqrl.mdp.forms import FloatArray
from bqrl.mdp.model import MDP
from bqrl.theory import coverage as share_of
from bqrl.theory import radius

ROUNDING = 1e-12


def coverage(spec: TheorySpec, watch: Watch) -> dict[str, Any]:
    """Coverage of UCB-BQRL's theoretical confidence sets on every case, and the ratio of every run."""
    own: CoverageSpec = spec.experiments["coverage"]
    cases = []
    for i, case in enumerate(own.cases):
        problem = spec.problem(case.problem)
        mdp = problem.build()
        watch.phase(f"coverage: {problem.label}", own.runs)
        ratios = np.empty(own.runs)
        for j in range(own.runs):
            seed = run_seed(spec.seed, 1, i, j)
            ratios[j] = worst_ratio(mdp, case.tau, own.episodes, own.delta, seed, dict(own.params))
            watch.tick()
        cases.append(
            {"problem": case.problem, "label": problem.label, "tau": case.tau, **sizes(mdp), **told(ratios, own)}
        )
    return {"delta": own.delta, "confidence": own.confidence, "episodes": own.episodes, "cases": cases}


def told(ratios: FloatArray, own: CoverageSpec) -> dict[str, Any]:
    """What the largest ratios of runs say about the promise."""
    found = share_of(ratios <= 1.0 + ROUNDING, own.delta, own.confidence)
    ordered = np.sort(ratios)
    needed = int(np.ceil((1.0 - own.delta) * ordered.size - ROUNDING))
    return {
        "runs": found.runs,
        "kept": int((ratios <= 1.0 + ROUNDING).sum()),
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


def sizes(mdp: MDP) -> dict[str, int]:
    """How large a problem is."""
    return {"states": mdp.S, "actions": mdp.A, "horizon": mdp.H}
