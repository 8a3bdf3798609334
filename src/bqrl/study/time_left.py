"""How far a study is, and how much time is left."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any

from bqrl.study.runs import RunSpec, Timing
from bqrl.study.workers import Workers

EVIDENCE_SECONDS = 3.0  # of an unfinished run before its pace says something


@dataclass(slots=True)
class Job:
    """A generator of batches of runs, and how far it is."""

    label: str
    kind: str  # jobs of the same kind have the same cost per episode
    steps: Generator[Any, None, Any]
    total_runs: int
    total_episodes: int
    phase: str = ""
    best: str = ""
    runs: int = 0  # finished ones
    episodes: int = 0  # of finished runs
    missing: set[str] = field(default_factory=set)  # names of the runs that it waits for
    outcome: Any = None  # what the generator returned
    over: bool = False
    failed: bool = False


class Progress:
    """The progress of jobs that workers carry out."""

    def __init__(self, jobs: Iterable[Job], workers: Workers) -> None:
        self.jobs, self.workers, self.start = list(jobs), workers, time.perf_counter()
        self._cost: defaultdict[str, list[float]] = defaultdict(lambda: [0.0, 0.0])  # by kind: seconds, episodes

    def count(self, job: Job, run: RunSpec, timing: Timing | None) -> None:
        """Take note of a finished run of a job, and of its time if that is known."""
        job.runs += 1
        job.episodes += run.episodes
        if timing is not None:
            self._cost[job.kind][0] += timing.episode * run.episodes
            self._cost[job.kind][1] += run.episodes

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.perf_counter() - self.start

    def episodes(self) -> tuple[int, int]:
        """Episodes played, those of unfinished runs included as far as they are known, and episodes of all runs."""
        total = sum(job.total_episodes for job in self.jobs)
        return min(total, sum(job.episodes for job in self.jobs) + self.workers.played()), total

    def seconds_left(self) -> float | None:
        """Forecast of the remaining time; None as long as the finished work says nothing about the rest.

        Every kind of learner has its own cost per episode, measured without compilation. Before the first run of the only
        kind is finished, the pace of its unfinished runs stands in.
        """
        rest = [job for job in self.jobs if not (job.over or job.failed)]
        played = self.workers.played()
        if all(job.kind in self._cost for job in rest):
            cost = {job.kind: self._cost[job.kind][0] / self._cost[job.kind][1] for job in rest}
            left = sum((job.total_episodes - job.episodes) * cost[job.kind] for job in rest)
            ahead = played * min(cost.values(), default=0.0)  # which of the kinds is being played is not known
            return max(0.0, left - ahead) / self.workers.size
        if len({job.kind for job in rest}) == 1 and played and self.seconds > EVIDENCE_SECONDS:
            return (sum(job.total_episodes - job.episodes for job in rest) - played) * self.seconds / played
        return None
