"""What a study is: a frozen `Spec` of everything that is to be run and compared."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.experiments.single import Problem, RunSpec

MEASURES = ("capped", "exact", "expected")


@dataclass(frozen=True, slots=True)
class Tuning:
    """Successive halving over a logarithmic grid."""

    points: int
    rungs: tuple[tuple[int, int], ...]  # (configurations, episodes)
    seeds: tuple[int, ...]
    level: float  # of learners that do not train for a level
    tail: float  # share of the last episodes whose mean return breaks ties


@dataclass(frozen=True, slots=True)
class Entry:
    """A learner of the study, with what is fixed about it and the range of what is tuned."""

    key: str
    learner: str
    label: str
    per_level: bool  # trained for every level by itself, or once for all
    params: tuple[tuple[str, Any], ...]
    grid: tuple[float, float] | None  # lowest and highest value of the tuned parameter; None: no tuning
    plot: bool  # a column of the main tables
    open: str  # what the printed source leaves open about it

    @property
    def tuned(self) -> str | None:
        """Name of the tuned parameter."""
        from bqrl.learners.run import find_learner

        return None if self.grid is None else getattr(find_learner(self.learner), "tuned", None)

    def values(self, points: int) -> tuple[float, ...]:
        """The grid, from low to high, to six digits."""
        assert self.grid is not None
        return tuple(float(f"{x:.6g}") for x in np.geomspace(*self.grid, points))


@dataclass(frozen=True, slots=True)
class Printed:
    """A number printed elsewhere: a measure at the last episode, or the threshold of a final policy."""

    what: str  # "end" or "threshold"
    level: float
    value: float
    where: str
    learner: str | None  # None: the smallest of `among`
    among: tuple[str, ...]
    measure: str


@dataclass(frozen=True, slots=True)
class Spec:
    """A whole study; settings.py says how a file spells it."""

    name: str
    title: str
    problem: Problem
    variants: tuple[tuple[str, Problem], ...]
    levels: tuple[float, ...]
    plot: tuple[str, ...]  # measure of the main table of each level
    episodes: int
    delta: float
    seeds: tuple[int, ...]  # held out: tables and figures
    luck_seeds: tuple[int, ...]  # further ones: how much is luck
    variant_seeds: tuple[int, ...]  # on the variants of the problem
    learners: tuple[Entry, ...]
    tuning: Tuning | None
    final_policy: str | None
    leave_out: tuple[str, ...]
    printed: tuple[Printed, ...]
    quick: bool

    def entry(self, key: str) -> Entry:
        """The learner of that key."""
        return next(entry for entry in self.learners if entry.key == key)

    def training_levels(self, entry: Entry) -> tuple[float, ...]:
        """Levels that the learner is trained for: each, or one that stands for all."""
        if entry.per_level:
            return self.levels
        return (self.tuning.level if self.tuning is not None else self.levels[0],)

    def run(
        self, entry: Entry, tau: float, seed: int, *, value: float | None = None, episodes: int | None = None,
        problem: Problem | None = None,
    ) -> RunSpec:  # fmt: skip
        """One run of a learner; `value` is that of its tuned parameter."""
        params = dict(entry.params)
        if value is not None:
            assert entry.tuned is not None
            params[entry.tuned] = value
        return RunSpec(
            self.problem if problem is None else problem, entry.learner, tuple(sorted(params.items())), tau,
            self.episodes if episodes is None else episodes, self.delta, seed,
        )  # fmt: skip

    def problems(self) -> Iterator[tuple[str, Problem, tuple[int, ...]]]:
        """The problem under the empty name, then its variants, each with the seeds of its final runs."""
        yield "", self.problem, self.seeds + self.luck_seeds
        for name, problem in self.variants:
            yield name, problem, self.variant_seeds

    def workload(self, entry: Entry) -> tuple[int, int]:
        """Runs and episodes of a learner trained for one level."""
        runs = sum(len(seeds) for _, _, seeds in self.problems())
        episodes = runs * self.episodes
        if entry.grid is not None and self.tuning is not None:
            for count, T in self.tuning.rungs:
                runs += count * len(self.tuning.seeds)
                episodes += count * len(self.tuning.seeds) * T
        return runs, episodes
