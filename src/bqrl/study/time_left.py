"""How far jobs are, and how much time the rest of them will take."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from bqrl.study.runs import RunSpec, Timing

EVIDENCE_SECONDS = 3.0  # of an unfinished run before its pace says something


@dataclass(slots=True, kw_only=True)
class Job:
    """Batches of runs, one after the other, and how far they are."""

    label: str
    steps: Iterator[Any]  # batches; a generator can decide from one what the next is
    total_runs: int
    total_episodes: int
    phase: str = ""
    best: str = ""
    runs: int = 0  # finished ones
    episodes: int = 0  # of finished runs
    timed: int = 0  # episodes whose cost is known
    seconds: float = 0.0  # of these episodes, without compilation
    missing: int = 0  # runs that it waits for
    outcome: Any = None  # what a generator returned
    over: bool = False
    failed: bool = False

    def count(self, run: RunSpec, timing: Timing | None) -> None:
        """Take note of a finished run, and of its time if that is known."""
        self.runs += 1
        self.episodes += run.episodes
        if timing is not None:
            self.timed += run.episodes
            self.seconds += timing.episode * run.episodes


def seconds_left(jobs: Sequence[Job], played: int, elapsed: float, workers: int) -> float | None:
    """Forecast of the remaining time; None as long as the finished work says nothing about the rest.

    Every job has its own cost per episode. Before the first run of the only job is finished, the pace of its unfinished runs,
    of which `played` episodes are known, stands in.
    """
    rest = [job for job in jobs if not (job.over or job.failed)]
    left = [job.total_episodes - job.episodes for job in rest]
    if all(job.timed for job in rest):
        costs = [job.seconds / job.timed for job in rest]
        total = sum(episodes * cost for episodes, cost in zip(left, costs, strict=True))
        ahead = played * min(costs, default=0.0)  # which of the jobs is being played is not known
        return max(0.0, total - ahead) / workers
    if len(rest) == 1 and played and elapsed > EVIDENCE_SECONDS:
        return (left[0] - played) * elapsed / played
    return None
