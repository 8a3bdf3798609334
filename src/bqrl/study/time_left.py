"""How far a study is, and how much time is left."""

from __future__ import annotations

import time
from collections.abc import Generator, Iterable
from dataclasses import dataclass, field
from typing import Any

from bqrl.study.runs import RunSpec, Timing
from bqrl.study.workers import Workers

EVIDENCE_SECONDS = 3.0  # of an unfinished run before its pace says something


@dataclass(slots=True, kw_only=True)
class Job:
    """A generator of batches of runs, and how far it is."""

    label: str
    steps: Generator[Any, None, Any]
    total_runs: int
    total_episodes: int
    phase: str = ""
    best: str = ""
    runs: int = 0  # finished ones
    episodes: int = 0  # of finished runs
    timed: int = 0  # episodes whose cost is known
    seconds: float = 0.0  # of these episodes, without compilation
    missing: set[str] = field(default_factory=set)  # names of the runs that it waits for
    outcome: Any = None  # what the generator returned
    over: bool = False
    failed: bool = False

    def count(self, run: RunSpec, timing: Timing | None) -> None:
        """Take note of a finished run, and of its time if that is known."""
        self.runs += 1
        self.episodes += run.episodes
        if timing is not None:
            self.timed += run.episodes
            self.seconds += timing.episode * run.episodes


class Progress:
    """The progress of jobs that workers carry out."""

    def __init__(self, jobs: Iterable[Job], workers: Workers) -> None:
        self.jobs, self.workers, self.start = list(jobs), workers, time.perf_counter()

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

        Every job has its own cost per episode. Before the first run of the only job is finished, the pace of its unfinished
        runs stands in.
        """
        rest = [job for job in self.jobs if not (job.over or job.failed)]
        left, played = [job.total_episodes - job.episodes for job in rest], self.workers.played()
        if all(job.timed for job in rest):
            costs = [job.seconds / job.timed for job in rest]
            total = sum(episodes * cost for episodes, cost in zip(left, costs, strict=True))
            ahead = played * min(costs, default=0.0)  # which of the jobs is being played is not known
            return max(0.0, total - ahead) / self.workers.size
        if len(rest) == 1 and played and self.seconds > EVIDENCE_SECONDS:
            return (left[0] - played) * self.seconds / played
        return None
