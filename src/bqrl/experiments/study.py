"""The protocol of a study: tune every learner, run the winners on held-out and further seeds, and on variants.

One job is one learner trained for one level (or once for all levels, where its training does not depend on the level):

    tuning        successive halving on the validation seeds
    final runs    the winner on the held-out seeds, on further seeds, and on every variant of the problem
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from bqrl.experiments.measures import criterion, reference
from bqrl.experiments.run import Batch, Engine, Failure, Job, Watch
from bqrl.experiments.single import RunSpec
from bqrl.experiments.spec import Entry, Spec
from bqrl.experiments.store import FolderLock, Store
from bqrl.experiments.tune import Score, Tuned, halving
from bqrl.experiments.workers import LocalWorkers, Workers


@dataclass(frozen=True, slots=True)
class Final:
    """A learner trained for one level: how it was tuned, and its final runs by problem and seed."""

    entry: Entry
    tau: float
    tuned: Tuned | None
    runs: dict[tuple[str, int], RunSpec]  # (variant or "", seed)


@dataclass(frozen=True, slots=True)
class Finished:
    """A study whose runs are all in the store."""

    spec: Spec
    store: Store
    finals: dict[tuple[str, float], Final]  # by the learner's key and the level that it is scored at
    engine: Engine

    def runs(self) -> list[RunSpec]:
        """Every run of the study."""
        return list(self.engine.used.values())


class FailedRunsError(RuntimeError):
    """Some runs could not be finished; all the others are kept."""

    def __init__(self, failures: list[Failure]) -> None:
        self.failures = failures
        first = failures[0]
        more = f" and {len(failures) - 1} more" if len(failures) > 1 else ""
        super().__init__(f"a run failed{more}; the others are kept. First: {first.run}: {first.text}")


def run_study(spec: Spec, folder: str | Path, workers: Workers | None = None, watch: Watch | None = None) -> Finished:
    """Carry out what is missing of a study; the folder keeps every finished run, so a second call continues.

    The workers (default: processes on all cores) are closed in any case. FailedRunsError where runs failed.
    """
    watch = Watch() if watch is None else watch
    workers = LocalWorkers() if workers is None else workers
    try:
        store = Store(folder, watch.say)
        lock = FolderLock(store.folder)
        try:
            jobs = [_job(spec, entry, tau, store) for entry in spec.learners for tau in spec.training_levels(entry)]
            total = sum(job.total_runs for job in jobs)
            watch.say(
                f"{spec.name}{' (quick look)' if spec.quick else ''}: {total} runs,"
                f" {sum(job.total_episodes for job in jobs)} episodes, {workers.size} at a time"
            )
            engine = Engine(jobs, store, workers, watch)
            failures = engine.drive()
        finally:
            lock.release()
    finally:
        workers.close()
    watch.say(f"{engine.made} runs made, {engine.skipped} skipped because they were there")
    if failures:
        raise FailedRunsError(failures)
    finals = {}
    for job in jobs:
        final: Final = job.outcome
        for tau in (final.tau,) if final.entry.per_level else spec.levels:
            finals[final.entry.key, tau] = final
    return Finished(spec, store, finals, engine)


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

    def run(value: float, episodes: int, seed: int) -> RunSpec:
        return spec.run(entry, tau, seed, value=value, episodes=episodes)

    def score(value: float, episodes: int) -> tuple[Score, ...]:
        against = reference(spec.problem, tau)
        return tuple(criterion(store.load(run(value, episodes, seed)), against, plan.tail) for seed in plan.seeds)

    search = halving(parameter, entry.values(plan.points), plan.rungs, score)
    while True:
        try:
            episodes, values, before = next(search)
        except StopIteration as end:
            tuned: Tuned = end.value
            return tuned
        best = ""
        if before is not None:
            ahead = before.ranked()[0]
            best = f"{parameter} = {ahead.value:g} with a gap of {ahead.gap:.2f}"
        yield Batch(
            f"tuning {len(values)} of {plan.points} over {episodes} episodes",
            [run(value, episodes, seed) for value in values for seed in plan.seeds],
            best,
        )
