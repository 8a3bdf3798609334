"""The engine: jobs request runs, workers carry them out, the store keeps them; finished runs are not repeated.

A job is a generator that yields a `Batch` of runs and is resumed once all of them are finished, so tuning can choose the next
batch from the results of the last. Many jobs proceed at once, and no job depends on the order of the others. A `Watch` receives
progress reports.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, CancelledError, Future, wait
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from bqrl.display import Watch, clock, count_of
from bqrl.learners.record import Record
from bqrl.planners.cluster import LostWorkersError, UnusableWorkerError
from bqrl.study.store import RunSpec, Store, Timing, execute
from bqrl.study.workers import Workers

LOOK_SECONDS = 0.25
EVIDENCE_SECONDS = 3.0  # time after which the pace of an unfinished run counts

T = TypeVar("T")


def described(error: BaseException) -> str:
    """Message of an error, with the note of a run on the episode in which a custom learner raised it."""
    notes = [note for note in getattr(error, "__notes__", ()) if note.startswith("in episode ")]
    return " ".join([str(error), *(f"({note})" for note in notes[:1])])


class Batch(NamedTuple):
    """Runs that a job needs before it can continue."""

    phase: str  # purpose of the runs
    runs: list[RunSpec]
    best: str = ""  # the best configuration so far


@dataclass(slots=True, kw_only=True)
class Job:
    """Batches of runs, one after the other, and their progress."""

    label: str
    steps: Iterator[Any]  # batches; a generator can choose the next one from earlier results
    total_runs: int
    total_episodes: int
    phase: str = ""
    best: str = ""
    runs: int = 0  # finished runs
    episodes: int = 0  # episodes of finished runs
    timed: int = 0  # episodes whose cost is known
    seconds: float = 0.0  # time of these episodes, without compilation
    missing: int = 0  # number of runs that the job waits for
    outcome: Any = None  # return value of the generator `steps`
    over: bool = False
    failed: bool = False

    def count(self, run: RunSpec, timing: Timing | None) -> None:
        """Count a finished run, and its time if known."""
        self.runs += 1
        self.episodes += run.episodes
        if timing is not None:
            self.timed += run.episodes
            self.seconds += timing.episode * run.episodes


def seconds_left(jobs: Sequence[Job], played: int, elapsed: float, workers: int) -> float | None:
    """Forecast of the remaining time; None if the finished work does not allow one.

    Every job has its own cost per episode. If only one job is left and none of its runs is finished, the pace of its unfinished
    runs is used: `played` episodes so far.
    """
    rest = [job for job in jobs if not (job.over or job.failed)]
    left = [job.total_episodes - job.episodes for job in rest]
    if all(job.timed for job in rest):
        costs = [job.seconds / job.timed for job in rest]
        total = sum(episodes * cost for episodes, cost in zip(left, costs, strict=True))
        ahead = played * min(costs, default=0.0)  # their job is not known, so they count at the lowest cost
        return max(0.0, total - ahead) / workers
    if len(rest) == 1 and played and elapsed > EVIDENCE_SECONDS:
        return (left[0] - played) * elapsed / played
    return None


class FailedRunsError(RuntimeError):
    """Some runs could not be finished; all others are stored."""

    def __init__(self, failures: list[tuple[RunSpec, str]]) -> None:
        self.failures = failures  # runs and messages
        count = count_of("run", len(failures))
        super().__init__("{} failed; all others are kept. First: {}: {}".format(count, *failures[0]))


class Engine:
    """Runs jobs to completion and tracks their progress.

    Without a store the records stay in memory. With `strict` the first error of a run is raised at once.
    """

    def __init__(
        self, jobs: list[Job], store: Store | None, workers: Workers, watch: Watch, *, strict: bool = False
    ) -> None:
        self.jobs, self.store, self.workers, self.watch, self.strict = jobs, store, workers, watch, strict
        self.records: dict[str, Record] = {}  # by the name of the run, unless there is a store
        self.used: dict[str, RunSpec] = {}  # every run that some job asked for
        self.skipped = self.made = 0
        self._say = watch.say if store is None else store.say
        self._start = time.perf_counter()
        self._failures: dict[str, str] = {}  # messages by the name of the run
        self._times = {} if store is None else store.times()
        self._waiting: dict[str, list[Job]] = {}  # by the name of the run that they wait for
        self._queue: deque[str] = deque()
        self._running: dict[Future[Any], str] = {}

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.perf_counter() - self._start

    def episodes(self) -> tuple[int, int]:
        """Episodes played (including those of unfinished runs, as far as they are known), and episodes of all runs."""
        total = sum(job.total_episodes for job in self.jobs)
        return min(total, sum(job.episodes for job in self.jobs) + self.workers.played()), total

    def seconds_left(self) -> float | None:
        """Forecast of the remaining time."""
        return seconds_left(self.jobs, self.workers.played(), self.seconds, self.workers.size)

    def drive(self) -> None:
        """Finish every job. A failed run stops only the jobs that need it; FailedRunsError is raised at the end."""
        self.watch.show(self)
        for job in self.jobs:
            self._advance(job)
        while self._queue or self._running:
            for note in self.workers.notes():
                self._say(note, detail=-1)
            while self._queue and len(self._running) < self.workers.capacity:
                name = self._queue.popleft()
                self._running[self.workers.submit(execute, self.used[name])] = name
            for future in wait(self._running, LOOK_SECONDS, FIRST_COMPLETED).done:
                self._take(self._running.pop(future), future)
            self.watch.show(self)
        if self._failures:
            raise FailedRunsError([(self.used[name], message) for name, message in self._failures.items()])

    def load(self, run: RunSpec) -> Record:
        """The record of a finished run."""
        return self.records[run.name] if self.store is None else self.store.load(run)

    def _advance(self, job: Job) -> None:
        """Resume a job until it waits for runs, or is over."""
        while not (job.missing or job.over or job.failed):
            try:
                job.phase, runs, best = next(job.steps)
            except StopIteration as end:
                job.outcome, job.over, said = end.value, True, "finished"
            else:
                job.best, before = best or job.best, self.skipped
                for run in runs:
                    self._ask(job, run)
                stored = f", {self.skipped - before} of them finished before" if self.skipped > before else ""
                said = f"{job.phase}, {len(runs)} runs{stored}"
            said += f"; best: {job.best}" if job.best else ""
            self._say(f"{job.label}: {said} ({clock(self.seconds, self.seconds_left())})", detail=1)

    def _ask(self, job: Job, run: RunSpec) -> None:
        """Count a run of a job if it is finished; otherwise queue it and let the job wait."""
        name, first = run.name, not (job.runs or job.missing)
        self.used[name] = run
        if name in self._failures:
            job.failed = True
        elif name in self._waiting:
            self._waiting[name].append(job)
            job.missing += 1
        elif name in self.records or (self.store is not None and self.store.has(run)):
            self.skipped += 1
            job.count(run, self._times.get(name))
        else:  # start with the first run of each job, so that the cost of all jobs is soon known
            (self._queue.appendleft if first else self._queue.append)(name)
            self._waiting[name] = [job]
            job.missing += 1

    def _take(self, name: str, call: Future[Any]) -> None:
        """Store what a call returned, and resume the jobs that waited for it."""
        run, timing, waiting = self.used[name], None, self._waiting.pop(name)
        try:
            arrays, timing = call.result()
        except CancelledError:
            raise LostWorkersError(self.workers.lost) from None
        except UnusableWorkerError as error:
            message = f"a worker cannot carry out runs: {error}; install the same packages there"
            raise LostWorkersError(message) from None
        except Exception as error:
            if self.strict:
                raise
            message = " ".join(f"{type(error).__name__}: {described(error)}".split())[:300]
            self._failures[name] = message
            self._say(f"failed: {run}: {message}")
            self._say(traceback.format_exc(), detail=2)
        else:
            if self.store is None:
                self.records[name] = Record.from_arrays(arrays)
            else:
                self.store.save(run, arrays, timing)
            self.made += 1
        for job in waiting:
            job.missing -= 1
            job.failed |= name in self._failures
            job.count(run, timing)
        for job in waiting:
            self._advance(job)
