"""results.json: what a study found, number beside number, with reasons that are computed and not argued.

comparison      each printed number with ours, the difference, and what is known about its cause
held_out        last values on the held-out seeds by variant, level, learner and measure
luck            the same on further seeds; orderings come from there
tuning          every rung, the winners, and whether one sits on an edge of its grid
references      what gaps are measured against
settings        the whole study; versions and the code's fingerprint
session         times and counts: all that may differ between two runs of the same study
"""

from __future__ import annotations

import platform
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np

import bqrl
from bqrl.experiments.compare import comparison
from bqrl.experiments.measures import reference
from bqrl.experiments.scores import Scores
from bqrl.experiments.single import fingerprint
from bqrl.experiments.spec import MEASURES, Spec
from bqrl.experiments.study import Finished
from bqrl.experiments.tune import Tuned

FORMAT = "bqrl study 1"
MARK = "quick look: few episodes and seeds; these are not the numbers of the study"


def findings(finished: Finished, scores: Scores, files: Sequence[str]) -> dict[str, Any]:
    """Everything that results.json holds, as plain values."""
    spec = finished.spec
    return {
        "format": FORMAT,
        "study": spec.name,
        "title": spec.title,
        "quick": spec.quick,
        **({"mark": MARK} if spec.quick else {}),
        "comparison": comparison(finished, scores),
        "held_out": {
            variant or spec.problem.name: _ends(scores, variant, scores.shown(variant))
            for variant, _, _ in spec.problems()
        },
        "luck": {
            variant or spec.problem.name: _ends(scores, variant, scores.counted(variant))
            for variant, _, _ in spec.problems()
        },
        "orderings": {variant or spec.problem.name: _orderings(scores, variant) for variant, _, _ in spec.problems()},
        "final_policies": _policies(finished, scores),
        "tuning": _tunings(finished),
        "references": _references(spec),
        "settings": settings(spec),
        "versions": versions(),
        "files": sorted(files),
        "session": session(finished),
    }


def summary(values: Sequence[float]) -> dict[str, float]:
    """Mean and spread of some numbers."""
    x = np.array(values)
    return {
        "n": x.size,
        "mean": float(x.mean()),
        "std": float(x.std(ddof=1)),
        "error": float(x.std(ddof=1) / np.sqrt(x.size)),
        "min": float(x.min()),
        "median": float(np.median(x)),
        "max": float(x.max()),
    }


def _ends(scores: Scores, variant: str, seeds: Sequence[int]) -> dict[str, Any]:
    """Level, learner, measure: mean and spread of the last cumulative value over the seeds."""
    spec = scores.spec
    return {
        repr(tau): {
            entry.key: {
                measure: summary([scores.ends[variant, entry.key, tau][measure][seed] for seed in seeds])
                for measure in MEASURES
            }
            for entry in spec.learners
        }
        for tau in spec.levels
    }


def _orderings(scores: Scores, variant: str) -> dict[str, Any]:
    """Level, measure: learners from the smallest mean on, each with its distance to the next, seed by seed."""
    found: dict[str, Any] = {}
    seeds = scores.counted(variant)
    for tau in scores.spec.levels:
        for measure in MEASURES:
            by_learner = {
                entry.key: np.array([scores.ends[variant, entry.key, tau][measure][seed] for seed in seeds])
                for entry in scores.spec.learners
            }
            order = sorted(by_learner, key=lambda key: (round(float(by_learner[key].mean()), 9), key))
            rows = []
            for i, key in enumerate(order):
                row: dict[str, Any] = {"learner": key, "mean": float(by_learner[key].mean())}
                if i + 1 < len(order):
                    distance = by_learner[order[i + 1]] - by_learner[key]
                    error = float(distance.std(ddof=1) / np.sqrt(distance.size))
                    row |= {"to_next": float(distance.mean()), "to_next_error": error}
                    row["clear"] = bool(distance.mean() > 2.0 * error)
                rows.append(row)
            found.setdefault(repr(tau), {})[measure] = rows
    return found


def _policies(finished: Finished, scores: Scores) -> dict[str, Any]:
    """Level: which held-out run was picked for show, and the errors by which it was."""
    found = {}
    for tau in finished.spec.levels:
        seed = scores.picked(tau)
        if seed is not None:
            errors = {str(one): scores.errors[tau][one] for one in finished.spec.seeds}
            named = {key: {"quantile_error": q, "buffered_error": b} for key, (q, b) in errors.items()}
            found[repr(tau)] = {"learner": finished.spec.final_policy, "seed": seed, "errors": named}
    return found


def _tunings(finished: Finished) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for (key, _), final in finished.finals.items():
        if final.tuned is not None:
            found.setdefault(key, {})[repr(final.tau)] = tuning(final.tuned)
    return found


def tuning(tuned: Tuned) -> dict[str, Any]:
    """The trace of a tuning as plain values."""
    winner = tuned.winner
    told = f"the winner is inside the grid: {tuned.parameter} = {winner.value:g}"
    if tuned.at_edge is not None:
        flat = tuned.flat_at_edge
        told = f"the winner is the {tuned.at_edge} value of the grid, {tuned.parameter} = {winner.value:g}; " + (
            "the value beside it does as well up to chance: the criterion is flat there" if flat
            else "the criterion is not flat there: a wider grid may do better" if flat is False
            else "the value beside it was dropped before they could be compared"
        )  # fmt: skip
    return {
        "parameter": tuned.parameter,
        "values": list(tuned.values),
        "winner": winner.value,
        "winner_place": winner.place,
        "at_edge": tuned.at_edge,
        "flat_at_edge": tuned.flat_at_edge,
        "told": told,
        "rungs": [
            {
                "episodes": rung.episodes,
                "trials": [
                    {
                        "value": trial.value,
                        "gap": trial.gap,
                        "gaps": [score.gap for score in trial.scores],
                        "tail": trial.tail,
                    }
                    for trial in rung.trials
                ],
            }
            for rung in tuned.rungs
        ],
    }


def _references(spec: Spec) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for variant, problem, _ in spec.problems():
        for tau in spec.levels:
            one = asdict(reference(problem, tau))
            found.setdefault(variant or spec.problem.name, {})[repr(tau)] = {k: v for k, v in one.items() if k != "tau"}
    return found


def settings(spec: Spec) -> dict[str, Any]:
    """The study as plain values, without the place of a model file."""
    found = asdict(spec)
    found["problem"] = spec.problem.identity()
    found["variants"] = {name: problem.identity() for name, problem in spec.variants}
    found["learners"] = {
        entry.key: asdict(entry) | {"params": dict(entry.params), "tuned": entry.tuned} for entry in spec.learners
    }
    return found


def versions() -> dict[str, str]:
    """What the numbers may depend on."""
    import numba

    return {
        "bqrl": bqrl.__version__,
        "code": fingerprint(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "system": f"{platform.system()} {platform.machine()}",
    }


def session(finished: Finished) -> dict[str, Any]:
    """How long things took; runs of earlier sessions count with the time that they took then."""
    engine, times = finished.engine, finished.store.times()
    final_runs = {
        run.name for final in finished.finals.values() for (variant, _), run in final.runs.items() if not variant
    }
    variant_runs = {
        run.name for final in finished.finals.values() for (variant, _), run in final.runs.items() if variant
    }
    by_learner: dict[str, float] = defaultdict(float)
    by_part: dict[str, float] = defaultdict(float)
    episodes: dict[str, int] = defaultdict(int)
    for name, run in engine.used.items():
        planner = dict(run.params).get("planner")
        learner = f"{run.learner} ({planner})" if planner else run.learner
        part = "final runs" if name in final_runs else "variants" if name in variant_runs else "tuning"
        if name in times:
            by_learner[learner] += times[name].core
            by_part[part] += times[name].core
            episodes[learner] += run.episodes
    return {
        "seconds": engine.seconds,
        "workers": engine.workers.size,
        "runs": len(engine.used),
        "runs_made": engine.made,
        "runs_skipped": engine.skipped,
        "runs_timed": sum(name in times for name in engine.used),
        "episodes": sum(run.episodes for run in engine.used.values()),
        "core_seconds": sum(by_part.values()),
        "core_seconds_by_part": dict(by_part),
        "core_seconds_by_learner": dict(by_learner),
        "milliseconds_an_episode": {key: 1e3 * by_learner[key] / episodes[key] for key in by_learner},
    }
