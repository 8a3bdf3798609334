"""A whole study: tune every learner, then run the winners on held-out seeds, on further seeds, and on variants.

One job is one learner trained for one level, or once for all levels if its training does not depend on the level:

    tuning        successive halving on the validation seeds
    final runs    the winner on the held-out seeds, on further seeds, and on every variant of the problem
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bqrl.study.runner import Batch, Engine, Job
from bqrl.study.runs import RunSpec
from bqrl.study.scores import Scores, criterion, reference
from bqrl.study.spec import Entry, Spec
from bqrl.study.store import Store
from bqrl.study.tune import Rung, Score, Tuned, halving
from bqrl.study.watch import Watch
from bqrl.study.workers import LocalWorkers, Workers

LOG = "study.log"


@dataclass(frozen=True, slots=True)
class Final:
    """A learner trained for one level: how it was tuned, and its final runs by variant and seed."""

    entry: Entry
    tau: float
    tuned: Tuned | None
    runs: dict[tuple[str, int], RunSpec]  # (variant or "", seed)


@dataclass(frozen=True, slots=True)
class Study:
    """A finished study."""

    spec: Spec
    finals: dict[tuple[str, float], Final]  # by the learner's key and the level at which it is scored
    scores: Scores
    tried: dict[tuple[str, float], list[tuple[float, list[Any]]]]  # values tuned over as many episodes as a final run
    session: dict[str, Any]  # times and counts: all that may differ between two executions of the same study

    def tunings(self) -> list[tuple[str, float, Tuned]]:
        """Every tuning with its learner and the level that it was made for."""
        found = {(key, final.tau): final.tuned for (key, _), final in self.finals.items() if final.tuned is not None}
        return [(key, tau, tuned) for (key, tau), tuned in found.items()]


def run_study(spec: Spec, folder: str | Path, workers: Workers | None = None, watch: Watch | None = None) -> Study:
    """Carry out what is missing of a study and score it.

    Parameters
    ----------
    spec
        The study.
    folder
        Stores every finished run, so that a second call continues.
    workers
        Who carries out the runs; processes on all cores by default. They are closed in any case.
    watch
        Who is informed of the progress.

    Returns
    -------
    The finished study. Raises FailedRunsError if runs failed; all others are stored.
    """
    workers = LocalWorkers() if workers is None else workers
    try:
        with Store(folder) as store, _Log(Path(folder) / LOG, Watch() if watch is None else watch) as log:
            store.say = log.say
            jobs = [_job(spec, entry, tau, store) for entry in spec.entries for tau in spec.training_levels(entry)]
            log.say(
                f"{spec.name}{' (quick run)' if spec.quick else ''}: {sum(job.total_runs for job in jobs)} runs,"
                f" {sum(job.total_episodes for job in jobs)} episodes, {workers.size} at a time"
            )
            engine = Engine(jobs, store, workers, log)
            engine.drive()
            log.say(f"{engine.made} runs made, {engine.skipped} skipped because they were finished before")
            return _score(spec, [job.outcome for job in jobs], store, engine)
    finally:
        workers.close()


def _job(spec: Spec, entry: Entry, tau: float, store: Store) -> Job:
    label = f"{entry.label}, tau {tau:g}" if entry.per_level else entry.label
    return Job(label, entry.key, _steps(spec, entry, tau, store), *spec.workload(entry))


def _steps(spec: Spec, entry: Entry, tau: float, store: Store) -> Generator[Batch, None, Final]:
    tuned, value, best = None, None, ""
    if entry.grid is not None:
        tuned = yield from _tuning(spec, entry, tau, store)
        value = tuned.winner.value
        best = f"{tuned.parameter} = {value:g}"
    runs = {
        (name, seed): spec.run(entry, tau, seed, value=value, problem=problem)
        for name, problem, seeds in spec.problems()
        for seed in seeds
    }
    yield Batch("final runs", list(runs.values()), best)
    return Final(entry, tau, tuned, runs)


def _tuning(spec: Spec, entry: Entry, tau: float, store: Store) -> Generator[Batch, None, Tuned]:
    plan, parameter = spec.tuning, entry.tuned
    assert plan is not None
    assert parameter is not None

    def runs(value: float, episodes: int) -> list[RunSpec]:
        return [spec.run(entry, tau, seed, value=value, episodes=episodes) for seed in plan.seeds]

    def score(value: float, episodes: int) -> tuple[Score, ...]:
        against = reference(spec.problem.build(), tau)
        return tuple(criterion(store.load(run), against, plan.tail) for run in runs(value, episodes))

    def batch(episodes: int, values: tuple[float, ...], before: Rung | None) -> Batch:
        ahead = None if before is None else before.ranked()[0]
        best = "" if ahead is None else f"{parameter} = {ahead.value:g} with a gap of {ahead.gap:.2f}"
        phase = f"tuning {len(values)} of {plan.points} over {episodes} episodes"
        return Batch(phase, [run for value in values for run in runs(value, episodes)], best)

    return (yield from halving(parameter, entry.values(plan.points), plan.rungs, batch, score))


def _score(spec: Spec, done: list[Final], store: Store, engine: Engine) -> Study:
    """Load every final run once and score it at the levels that it stands for."""
    scores, tried = Scores(spec), {}
    finals: dict[tuple[str, float], Final] = {}
    for final in done:
        levels = (final.tau,) if final.entry.per_level else spec.levels
        for variant, problem, seeds in spec.problems():
            for seed in seeds:
                record = store.load(final.runs[variant, seed])
                for tau in levels:
                    scores.add(variant, final.entry.key, tau, seed, record, problem.build())
        finals |= {(final.entry.key, tau): final for tau in levels}
        tried[final.entry.key, final.tau] = _tried(spec, final, store)
    return Study(spec, finals, scores, tried, _session(engine, finals, store))


def _tried(spec: Spec, final: Final, store: Store) -> list[tuple[float, list[Any]]]:
    """Every value that tuning tried for as long as a final run, with its records on the validation seeds."""
    if final.tuned is None or spec.tuning is None:
        return []
    values = [trial.value for rung in final.tuned.rungs if rung.episodes == spec.episodes for trial in rung.trials]
    runs = {value: [spec.run(final.entry, final.tau, s, value=value) for s in spec.tuning.seeds] for value in values}
    return [(value, [store.load(run) for run in runs[value]]) for value in values]


def _session(engine: Engine, finals: dict[tuple[str, float], Final], store: Store) -> dict[str, Any]:
    """Times and counts; runs of earlier sessions count with the time that they took then."""
    times = store.times()
    parts = {
        run.name: "variants" if variant else "final runs"
        for final in finals.values()
        for (variant, _), run in final.runs.items()
    }
    by_part: dict[str, float] = defaultdict(float)
    by_learner: dict[str, float] = defaultdict(float)
    episodes: dict[str, int] = defaultdict(int)
    for name, run in engine.used.items():
        if name in times:
            planner = dict(run.params).get("planner")
            learner = f"{run.learner} ({planner})" if planner else run.learner
            by_learner[learner] += times[name].core
            by_part[parts.get(name, "tuning")] += times[name].core
            episodes[learner] += run.episodes
    return {
        "seconds": engine.seconds,
        "workers": engine.workers.size,
        "runs": len(engine.used),
        "runs_made": engine.made,
        "runs_skipped": engine.skipped,
        "episodes": sum(run.episodes for run in engine.used.values()),
        "core_seconds": sum(by_part.values()),
        "core_seconds_by_part": dict(by_part),
        "core_seconds_by_learner": dict(by_learner),
        "milliseconds_per_episode": {key: 1e3 * by_learner[key] / episodes[key] for key in by_learner},
    }


class _Log(Watch):
    """Passes everything on to another watch, and writes it to the log with the time."""

    def __init__(self, path: Path, inner: Watch) -> None:
        self.inner = inner
        self._file = path.open("a", encoding="utf-8")

    def __enter__(self) -> _Log:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            self.say(f"stopped: {type(error).__name__}: {error}", detail=2)
        with suppress(OSError):
            self._file.close()

    def say(self, text: str, detail: int = 0) -> None:
        """A full disk must not end a study here: its results are elsewhere."""
        with suppress(OSError):
            self._file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n")
            self._file.flush()
        self.inner.say(text, detail)

    def show(self, state: Engine) -> None:
        self.inner.show(state)
