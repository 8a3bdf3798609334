"""The engine: jobs ask for runs, workers carry them out, the store keeps them; finished runs are not repeated.

A job is a generator that yields a `Batch` of runs and is resumed once all of them are in the store, so tuning can decide from one
batch what the next one is. Many jobs proceed at once, and none depends on the order of the others. Studies, comparisons and
single learners all run here.
"""

from __future__ import annotations

import traceback
from collections import deque
from collections.abc import Iterable
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from typing import Any, NamedTuple

from bqrl.study.runs import RunSpec, execute
from bqrl.study.store import Memory
from bqrl.study.time_left import Job, Progress
from bqrl.study.watch import Watch, clock
from bqrl.study.workers import LostWorkersError, Workers

LOOK_SECONDS = 0.25


class Batch(NamedTuple):
    """Runs that a job needs before it can go on."""

    phase: str  # what they are for
    runs: list[RunSpec]
    best: str = ""  # the best configuration so far


class FailedRunsError(RuntimeError):
    """Some runs could not be finished; all others are stored."""

    def __init__(self, failures: list[tuple[RunSpec, str]]) -> None:
        self.failures = failures  # runs and messages
        more = f" and {len(failures) - 1} more" if len(failures) > 1 else ""
        super().__init__("a run failed{}; all others are kept. First: {}: {}".format(more, *failures[0]))


class Engine(Progress):
    """Drives jobs to their end, and knows how far they are; with `strict` the first error of a run ends everything."""

    def __init__(
        self, jobs: Iterable[Job], store: Memory, workers: Workers, watch: Watch, *, strict: bool = False
    ) -> None:
        super().__init__(jobs, workers)
        self.store, self.watch, self.strict = store, watch, strict
        self.skipped = self.made = 0
        self.used: dict[str, RunSpec] = {}  # every run that some job asked for
        self._failures: dict[str, str] = {}  # messages by the name of the run
        self._times = store.times()
        self._queue: deque[str] = deque()
        self._running: dict[Future[Any], str] = {}
        self._asked: set[str] = set()  # kinds of which a run was queued

    def drive(self) -> None:
        """Finish every job; raises FailedRunsError at the end if runs failed, each of which stops its jobs only."""
        self.watch.show(self)
        for job in self.jobs:
            self._advance(job)
        while self._queue or self._running:
            for note in self.workers.notes():
                self.watch.say(note, detail=-1)
            while self._queue and len(self._running) < self.workers.capacity:
                name = self._queue.popleft()
                self._running[self.workers.submit(execute, self.used[name], self.store.packed)] = name
            for future in wait(self._running, LOOK_SECONDS, FIRST_COMPLETED).done:
                self._take(self._running.pop(future), future)
            self.watch.show(self)
        if self._failures:
            raise FailedRunsError([(self.used[name], message) for name, message in self._failures.items()])

    def _advance(self, job: Job) -> None:
        """Let a job say what it needs next, until it needs something that is not there."""
        while not (job.missing or job.over or job.failed):
            try:
                batch = next(job.steps)
            except StopIteration as end:
                job.outcome, job.over = end.value, True
                self.watch.say(f"{job.label}: finished{f', {job.best}' if job.best else ''}{self._left()}", detail=1)
                return
            job.phase, job.best = batch.phase, batch.best or job.best
            stored = sum([self._stored(job, run) for run in batch.runs])
            before = f", {stored} of them finished before" if stored else ""
            best = f"; so far {job.best}" if job.best else ""
            self.watch.say(f"{job.label}: {batch.phase}, {len(batch.runs)} runs{before}{best}{self._left()}", detail=1)

    def _stored(self, job: Job, run: RunSpec) -> bool:
        """Whether a run is finished; if not, the job waits for it."""
        name, first = run.name, job.kind not in self._asked
        self.used[name] = run
        if name in self._failures:
            job.failed = True
            return False
        if not any(name in other.missing for other in self.jobs):
            if self.store.has(run):
                self.skipped += 1
                self.count(job, run, self._times.get(name))
                return True
            # One run of each kind comes first, so that the cost of all is soon known.
            (self._queue.appendleft if first else self._queue.append)(name)
            self._asked.add(job.kind)
        job.missing.add(name)
        return False

    def _take(self, name: str, call: Future[Any]) -> None:
        """Store what a call returned, and resume the jobs that waited for it."""
        run, timing = self.used[name], None
        try:
            error = call.exception()
        except CancelledError as cancelled:
            error = cancelled
        if isinstance(error, (BrokenExecutor, CancelledError)):
            raise LostWorkersError(self.workers.lost)
        if error is None:
            content, timing = call.result()
            self.store.save(run, content, timing)
            self.made += 1
            self.watch.say(f"done in {timing.wall:.2f} s: {run}", detail=2)
        elif self.strict:
            raise error
        else:
            message = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            self._failures[name] = message
            self.watch.say(f"failed: {run}: {message}")
            self.watch.say("".join(traceback.format_exception(error)), detail=2)
        waiting = [job for job in self.jobs if name in job.missing]
        for job in waiting:
            job.missing.remove(name)
            job.failed |= error is not None
            self.count(job, run, timing)
        for job in waiting:
            self._advance(job)

    def _left(self) -> str:
        left = self.seconds_left()
        return "" if left is None else f" ({clock(self.seconds, left)})"
