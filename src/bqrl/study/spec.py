"""What a study is: every setting of a study file as a frozen `Spec`.

[study]            name, title, levels, episodes, delta, seeds, replication_seeds, variant_seeds, plot
[problem]          name and the builder's parameters; or file with horizon, start, discount
[tuning]           points, rungs, seeds, level, tail
[learners.KEY]     learner, label, per_level, params, grid, plot, open; KEY names the columns of the tables
[variants.KEY]     parameters of the problem to change; the final configurations run there, too
[final_policy]     learner, leave_out: whose final policy is written, and which states are left out
[quick.study]      settings that a quick run replaces; [quick.tuning] likewise
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, PlainValidator, ValidationInfo, model_validator

from bqrl.checks import choice
from bqrl.learners.run import find_learner
from bqrl.study.problems import Problem, frozen, problem_of
from bqrl.study.runs import RunSpec
from bqrl.study.settings import Count, Level, Positive, Seed, Settings, Text, read_settings


def _problem(table: Any, info: ValidationInfo) -> Problem:
    return problem_of(table, (info.context or {}).get("folder", Path()))


ProblemField = Annotated[Problem, PlainValidator(_problem)]
Seeds = tuple[Seed, ...]
Key = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_]*$")]  # names columns and files


class Tuning(Settings):
    """Successive halving over a logarithmic grid."""

    points: Annotated[int, Field(ge=2)]
    rungs: Annotated[tuple[tuple[Count, Count], ...], Field(min_length=1)]  # (configurations, episodes)
    seeds: Annotated[Seeds, Field(min_length=1)]
    level: Level = 0.5  # for learners that do not train for a level
    tail: Level = 0.1  # share of the last episodes whose mean return breaks ties

    @model_validator(mode="after")
    def _check(self) -> Tuning:
        counts = [count for count, _ in self.rungs]
        if counts[0] != self.points or counts != sorted(counts, reverse=True):
            raise ValueError(f"rungs must begin with all {self.points} points and never grow, got {counts}")
        return self


class Entry(Settings):
    """A learner of the study: what is fixed about it and the range of what is tuned."""

    learner: Text
    label: str = ""
    per_level: bool = False  # trained for every level separately, or once for all
    params: dict[str, Any] = Field(default_factory=dict)
    grid: tuple[Positive, Positive] | None = None  # lowest and highest value of the tuned parameter; None: no tuning
    plot: bool = True  # a column of the main tables
    open: str = ""  # what the published source leaves open about it
    key: Annotated[str, Field(max_length=0)] = ""  # its name in the settings; set by the study, never in a file

    @model_validator(mode="after")
    def _check(self) -> Entry:
        tuned = getattr(find_learner(self.learner), "tuned", None)
        if self.grid is not None:
            if not self.grid[0] < self.grid[1]:
                raise ValueError(f"grid must be [lowest, highest], got {list(self.grid)}")
            if tuned is None:
                raise ValueError(f"grid must be absent: {self.learner} has no parameter to tune")
            if tuned in self.params:
                raise ValueError(f"{tuned} is both in params and tuned; drop it from params")
        return self

    @property
    def tuned(self) -> str | None:
        """Name of the tuned parameter."""
        return None if self.grid is None else getattr(find_learner(self.learner), "tuned", None)

    def values(self, points: int) -> tuple[float, ...]:
        """The grid, from low to high, to six digits."""
        assert self.grid is not None
        return tuple(float(f"{x:.6g}") for x in np.geomspace(*self.grid, points))


class StudyTable(Settings):
    """The table [study]."""

    name: Text
    title: str = ""
    levels: Annotated[tuple[Level, ...], Field(min_length=1)]
    plot: tuple[Literal["capped", "exact", "expected"], ...] = ()  # measure of the main table of each level
    episodes: Count
    delta: Level = 0.05
    seeds: Annotated[Seeds, Field(min_length=2)]  # held out: tables and figures
    replication_seeds: Seeds = ()  # further ones: how large the variation between seeds is
    variant_seeds: Seeds = ()  # on the variants of the problem

    @model_validator(mode="after")
    def _check(self) -> StudyTable:
        for name in ("levels", "seeds", "replication_seeds", "variant_seeds"):
            values = getattr(self, name)
            if len(set(values)) < len(values):
                raise ValueError(f"{name} must differ, got {list(values)}")
        if self.plot and len(self.plot) != len(self.levels):
            raise ValueError(
                f"plot must name one measure per level, got {len(self.plot)} for {len(self.levels)} levels"
            )
        return self


class FinalPolicy(Settings):
    """The table [final_policy]."""

    learner: str
    leave_out: tuple[str, ...] = ()


class Spec(Settings):
    """A whole study."""

    study: StudyTable
    problem: ProblemField
    tuning: Tuning | None = None
    learners: Annotated[dict[Key, Entry], Field(min_length=1)]
    variants: dict[Key, dict[str, Any]] = Field(default_factory=dict)
    final_policy: FinalPolicy | None = None
    quick: bool = False
    renamed: ClassVar = {"study": {"luck_seeds": "replication_seeds"}}

    @model_validator(mode="after")
    def _check(self) -> Spec:
        for name, keys in (("learners", self.learners), ("variants", self.variants)):
            if len({key.lower() for key in keys}) < len(keys):  # some file systems do not tell A from a
                raise ValueError(f"[{name}] keys must differ in more than upper and lower case, got {', '.join(keys)}")
        if self.final_policy is not None:
            choice(self.final_policy.learner, "[final_policy] learner", self.learners)
        if self.variants and len(self.study.variant_seeds) < 2:
            raise ValueError("[study] variant_seeds must be a list of at least 2 seeds: the study has variants")
        lists = {"[study] seeds": self.study.seeds, "[study] replication_seeds": self.study.replication_seeds}
        lists |= {"[tuning] seeds": self.tuning.seeds} if self.tuning else {}
        seen: dict[int, str] = {}
        for name, seeds in lists.items():
            for seed in seeds:
                if seed in seen:
                    raise ValueError(f"{name} must not repeat {seen[seed]}, got {seed} in both")
                seen[seed] = name
        for key, entry in self.learners.items():
            if entry.grid is not None and self.tuning is None:
                raise ValueError(f"[learners.{key}] grid needs a table [tuning]")
        problems = [self._started(entry, problem) for entry in self.entries for _, problem, _ in self.problems()]
        found = list(dict.fromkeys(message for message in problems if message))
        if found:
            raise ValueError("; ".join(found))
        return self

    def _started(self, entry: Entry, problem: Problem) -> str:
        """What is wrong with the settings of a learner, or an empty text."""
        try:
            problem.build()
        except (ValueError, TypeError) as error:
            return f"[problem] {error}"
        try:
            for value in entry.grid or (None,):
                self.run(entry, self.levels[0], 0, value=value, problem=problem).start()
        except (ValueError, TypeError) as error:
            return f"[learners.{entry.key}] {error}"
        return ""

    @property
    def name(self) -> str:
        """Name of the study."""
        return self.study.name

    @property
    def levels(self) -> tuple[float, ...]:
        """Quantile levels."""
        return self.study.levels

    @property
    def episodes(self) -> int:
        """Episodes of a final run."""
        return self.study.episodes

    @property
    def plot(self) -> tuple[str, ...]:
        """Measure of the main table of each level."""
        return self.study.plot or ("capped",) * len(self.levels)

    @cached_property
    def entries(self) -> tuple[Entry, ...]:
        """The learners in the order of the file, each with its key and label."""
        return tuple(
            entry.model_copy(update={"key": key, "label": entry.label or key}) for key, entry in self.learners.items()
        )

    def entry(self, key: str) -> Entry:
        """The learner of that key."""
        return next(entry for entry in self.entries if entry.key == key)

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
            problem=self.problem if problem is None else problem,
            learner=entry.learner,
            params=frozen(params),
            tau=tau,
            episodes=self.episodes if episodes is None else episodes,
            delta=self.study.delta,
            seed=seed,
        )

    def problems(self) -> Iterator[tuple[str, Problem, tuple[int, ...]]]:
        """The problem under the empty name, then its variants, each with the seeds of its final runs."""
        yield "", self.problem, self.study.seeds + self.study.replication_seeds
        for name, change in self.variants.items():
            yield name, self.problem.changed(change), self.study.variant_seeds

    def shown_seeds(self, variant: str = "") -> tuple[int, ...]:
        """Seeds whose curves are in the tables."""
        return self.study.variant_seeds if variant else self.study.seeds

    def ranking_seeds(self, variant: str = "") -> tuple[int, ...]:
        """Seeds that decide orderings: those that no choice was made on, where there are such."""
        return self.study.variant_seeds if variant else (self.study.replication_seeds or self.study.seeds)

    def workload(self, entry: Entry) -> tuple[int, int]:
        """Runs and episodes of a learner trained for one level."""
        runs = sum(len(seeds) for _, _, seeds in self.problems())
        episodes = runs * self.episodes
        if entry.grid is not None and self.tuning is not None:
            for count, T in self.tuning.rungs:
                runs += count * len(self.tuning.seeds)
                episodes += count * len(self.tuning.seeds) * T
        return runs, episodes


def read_spec(path: str | Path, quick: bool = False) -> Spec:
    """The study in a TOML file, with the settings of the quick run if `quick`; ValueError lists every mistake on one line."""
    return read_settings(path, Spec, quick=quick)
