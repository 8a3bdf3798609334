"""The engine: jobs ask for runs, workers carry them out, the store keeps them; what is there already is not repeated.

A job is a generator that yields a `Batch` of runs and is resumed once all of them are in the store, so that tuning can
decide from one batch what the next one is. Many jobs proceed at once, and none depends on the order of the others.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from bqrl.experiments.single import RunSpec
from bqrl.experiments.store import Store
from bqrl.experiments.workers import Event, Workers

LOOK_SECONDS = 0.25


class Batch(NamedTuple):
    """Runs that a job needs before it can go on."""

    phase: str  # what they are for
    runs: list[RunSpec]
    best: str = ""  # the best configuration so far


Steps = Generator[Batch, None, Any]


class Failure(NamedTuple):
    """A run that could not be finished."""

    run: RunSpec
    text: str


@dataclass(slots=True)
class Job:
    """A generator of batches and how far it is."""

    label: str
    kind: str  # jobs of the same kind cost the same for an episode
    steps: Steps
    total_runs: int
    total_episodes: int
    phase: str = ""
    best: str = ""
    runs: int = 0  # finished
    episodes: int = 0
    missing: set[str] = field(default_factory=set)  # names of the runs that it waits for
    failed: bool = False
    over: bool = False
    outcome: Any = None  # what the generator returned


class Watch:
    """Listens to a study; this one keeps silent."""

    def say(self, text: str) -> None:
        """A line that a person should read."""

    def step(self, text: str) -> None:
        """A line about how far things are, for where nothing else shows it."""

    def note(self, text: str) -> None:
        """A line for the log alone."""

    def show(self, state: Engine) -> None:
        """Called a few times a second with the state of things."""


class Engine:
    """Drives jobs to their end."""

    def __init__(self, jobs: Iterable[Job], store: Store, workers: Workers, watch: Watch) -> None:
        self.jobs, self.store, self.workers, self.watch = list(jobs), store, workers, watch
        self.begun = time.perf_counter()
        self.running: dict[str, tuple[RunSpec, int]] = {}  # by name: the run and the episodes it has done
        self.skipped = self.made = 0
        self.failures: list[Failure] = []
        self.used: dict[str, RunSpec] = {}  # every run that some job asked for
        self._waiting: defaultdict[str, list[Job]] = defaultdict(list)
        self._lost: dict[str, Failure] = {}
        self._cost: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])  # by kind: seconds, episodes

    def drive(self) -> list[Failure]:
        """Finish every job that can be finished; returns the runs that failed, each of which ends its jobs only."""
        for job in self.jobs:
            self._advance(job)
            self.watch.show(self)
        while self._waiting:
            for event in self.workers.wait(LOOK_SECONDS):
                self._take(event)
            self.watch.show(self)
        return self.failures

    def _advance(self, job: Job) -> None:
        """Let a job say what it needs next, until it needs something that is not there."""
        while not (job.missing or job.over or job.failed):
            try:
                batch = next(job.steps)
            except StopIteration as end:
                job.outcome, job.over = end.value, True
                self.watch.step(f"{job.label}: finished{f', {job.best}' if job.best else ''}{self._left()}")
                return
            job.phase, job.best = batch.phase, batch.best or job.best
            kept = [run for run in batch.runs if self._kept(run)]
            self.watch.step(
                f"{job.label}: {batch.phase}, {len(batch.runs)} runs"
                f"{f', {len(kept)} of them there already' if kept else ''}"
                f"{f'; so far {job.best}' if job.best else ''}{self._left()}"
            )
            for run in kept:
                self._count(job, run)
            self.skipped += len(kept)
            there = {run.name for run in kept}
            for run in batch.runs:
                if run.name not in there:
                    self._ask(job, run)

    def _kept(self, run: RunSpec) -> bool:
        self.used[run.name] = run
        return run.name not in self._waiting and run.name not in self._lost and self.store.has(run)

    def _ask(self, job: Job, run: RunSpec) -> None:
        name = run.name
        if name in self._lost:
            job.failed = True
            return
        job.missing.add(name)
        self._waiting[name].append(job)
        if len(self._waiting[name]) == 1:
            self.workers.submit(run)

    def _take(self, event: Event) -> None:
        run = event.run
        if run is None:
            self.watch.say(event.text)
        elif event.kind == "at":
            self.running[run.name] = (run, event.at)
        else:
            self.running.pop(run.name, None)
            jobs = self._waiting.pop(run.name)
            if event.kind == "done":
                self.store.save(run, event.content, event.took)
                self.made += 1
                cost = self._cost[jobs[0].kind]
                cost[0] += event.took.wall
                cost[1] += run.episodes
                self.watch.note(f"done in {event.took.wall:.2f} s: {run}")
            else:
                self._lost[run.name] = Failure(run, event.text)
                self.failures.append(self._lost[run.name])
                self.watch.say(f"failed: {run}: {event.text}")
                self.watch.note(event.trace)
            for job in jobs:
                job.missing.discard(run.name)
                job.failed |= event.kind == "failed"
                self._count(job, run)
            for job in jobs:
                self._advance(job)

    def _count(self, job: Job, run: RunSpec) -> None:
        job.runs += 1
        job.episodes += run.episodes

    # -- how far ----------------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Since the engine began."""
        return time.perf_counter() - self.begun

    def episodes(self) -> tuple[int, int]:
        """Episodes done, the running ones included, and in all."""
        done = sum(job.episodes for job in self.jobs) + sum(at for _, at in self.running.values())
        return done, sum(job.total_episodes for job in self.jobs)

    def seconds_left(self) -> float | None:
        """A forecast from what each kind of job has cost so far; None before anything is known."""
        spent, counted = (sum(cost[i] for cost in self._cost.values()) for i in (0, 1))
        if not counted:
            return None
        left = 0.0
        for job in self.jobs:
            if not (job.over or job.failed):
                seconds, episodes = self._cost.get(job.kind, (spent, counted))
                left += (job.total_episodes - job.episodes) * (seconds / episodes if episodes else spent / counted)
        return left / self.workers.size

    def _left(self) -> str:
        left = self.seconds_left()
        return "" if left is None else f" ({in_words(self.seconds)} gone, about {in_words(left)} left)"


def in_words(seconds: float) -> str:
    """A time as people say it.

    >>> in_words(3.2), in_words(75), in_words(4000)
    ('3 s', '1 min 15 s', '1 h 7 min')
    """
    if seconds < 59.5:
        return f"{seconds:.0f} s"
    if seconds < 3599.5:
        return "{} min {} s".format(*divmod(round(seconds), 60))
    return "{} h {} min".format(*divmod(round(seconds / 60), 60))
