"""All settings of a study file as a frozen `Spec`.

[study]            name, title, unit, stage, levels (of quantiles) or objectives (such as "cvar:0.1"), episodes, delta, seeds,
                   replication_seeds, variant_seeds, plot
[problem]          name and the builder's parameters; or file with horizon, start, discount
[tuning]           points, rungs, seeds, level, tail
[learners.KEY]     learner, label, per_level, params, grid, plot, open; KEY names the columns of the tables;
                   the learner is a name, "module:Class" or "file.py:Class", which may lie in the folder of the study file
[variants.KEY]     parameters of the problem to change; the final configurations also run there
[final_policy]     learner, leave_out: whose final policy is written, and which states are left out
[quick.study]      settings that a quick run replaces; also [quick.tuning]
"""

from __future__ import annotations

from functools import cached_property, partial
from itertools import combinations
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import AfterValidator, Field, PrivateAttr, ValidationInfo, model_validator

from bqrl.checks import choice
from bqrl.laws.objectives import Objective, Quantile
from bqrl.learners.code import learner_code
from bqrl.learners.registry import find_learner
from bqrl.learners.run import DELTA
from bqrl.planners.solve import read_objective
from bqrl.study.problems import Problem, ProblemField
from bqrl.study.settings import Count, Different, Level, Line, Positive, Seed, Settings, Text, check_distinct, try_all
from bqrl.study.store import RunSpec

Levels = Annotated[tuple[Level, ...], Different]
Seeds = Annotated[tuple[Seed, ...], Different]
Measure = Literal["capped", "exact", "expected"]
Key = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_]{0,59}$")]  # names columns and files


class Tuning(Settings):
    """Successive halving over a logarithmic grid."""

    points: Annotated[int, Field(ge=2)]
    rungs: Annotated[tuple[tuple[Count, Count], ...], Field(min_length=1)]  # (configurations, episodes)
    seeds: Annotated[Seeds, Field(min_length=1)]
    level: Level = 0.5  # level at which a learner is tuned if it does not train for a level
    tail: Level = 0.1  # share of the last episodes whose mean return breaks ties

    @model_validator(mode="after")
    def _check(self) -> Tuning:
        counts = [count for count, _ in self.rungs]
        if counts[0] != self.points or counts != sorted(counts, reverse=True):
            raise ValueError(f"rungs must begin with all {self.points} points and never grow, got {counts}")
        return self


class Entry(Settings):
    """A learner of the study: its fixed parameters and the range of the tuned one."""

    learner: Text
    label: Line = ""
    per_level: bool = False  # trained for every level separately, or once for all
    params: dict[str, Any] = Field(default_factory=dict)
    grid: tuple[Positive, Positive] | None = None  # lowest and highest value of the tuned parameter; None: no tuning
    plot: bool = True  # a column of the main tables
    open: str = ""  # what the published source leaves open about it
    key: Annotated[str, Field(max_length=0)] = ""  # its name in the settings; set by the study, never in a file
    _maker: Any = PrivateAttr()  # the name of a learner of the library, else the class
    _code: str = PrivateAttr()  # digest of the code of a learner that is not part of the library

    @model_validator(mode="after")
    def _check(self, info: ValidationInfo) -> Entry:
        found = find_learner(self.learner, *(info.context or {}).get("folders", ()))
        self._maker, self._code = found if ":" in self.learner else self.learner, learner_code(found)
        if self.grid is not None:
            if not self.grid[0] < self.grid[1]:
                raise ValueError(f"grid must be [lowest, highest], got {list(self.grid)}")
            if self.tuned is None:
                raise ValueError(
                    f"grid must be absent for {self.learner}, which has no parameter to tune, got {self.grid}"
                )
            if self.tuned in self.params:
                raise ValueError(
                    f"params must not set {self.tuned}, which is tuned, got {self.params}; drop it or grid"
                )
        return self

    @property
    def tuned(self) -> str | None:
        """Name of the tuned parameter."""
        return None if self.grid is None else getattr(find_learner(self._maker), "tuned", None)

    def values(self, points: int) -> tuple[float, ...]:
        """The grid, from low to high, to six digits."""
        assert self.grid is not None
        return tuple(float(f"{x:.6g}") for x in np.geomspace(*self.grid, points))


def _add_keys(learners: dict[str, Entry]) -> dict[str, Entry]:
    """The learners, each with its key and a label that no other learner has."""
    check_distinct([one.label or key for key, one in learners.items()])
    return {key: one.model_copy(update={"key": key, "label": one.label or key}) for key, one in learners.items()}


class StudyTable(Settings):
    """The table [study]."""

    name: Text
    title: Line = ""
    unit: Text | None = None  # unit of returns; by default that of the problem
    stage: Text | None = None  # name of a stage; by default that of the problem
    levels: Levels = ()  # quantile levels
    objectives: Annotated[tuple[Text, ...], Different] = ()  # in place of levels; no two have the same level
    plot: tuple[Measure, ...] = ()  # measure of the main table of each level; by default "exact"
    episodes: Count
    delta: Level = DELTA
    seeds: Annotated[Seeds, Field(min_length=2)]  # held-out seeds, for tables and figures
    replication_seeds: Seeds = ()  # further seeds, which show the variation between seeds
    variant_seeds: Seeds = ()  # seeds of the runs on the variants of the problem

    @model_validator(mode="after")
    def _check(self) -> StudyTable:
        if bool(self.levels) == bool(self.objectives):
            raise ValueError(f"expected levels or objectives, got {'both' if self.levels else 'neither'}")
        goals = self.goals
        for text, goal in zip(self.objectives, goals, strict=False):
            if not hasattr(goal, "tau"):
                raise ValueError(f"objectives: each must have a level, which names its tables, got {text}")
        check_distinct([goal.tau for goal in goals])
        if self.plot and len(self.plot) != len(goals):
            given = f"{len(self.plot)} for {len(goals)} levels"
            raise ValueError(f"plot must name one measure per level, got {given}")
        if "capped" in self.plot and self.objectives:
            raise ValueError("plot: the capped reference exists for quantiles only, got 'capped' with objectives")
        return self

    @property
    def goals(self) -> tuple[Any, ...]:
        """The objectives, each with a level `tau`."""
        return tuple(map(read_objective, self.objectives)) or tuple(map(Quantile, self.levels))


class FinalPolicy(Settings):
    """The table [final_policy]."""

    learner: str
    leave_out: tuple[str, ...] = ()


class Spec(Settings):
    """A whole study."""

    study: StudyTable
    problem: ProblemField
    tuning: Tuning | None = None
    learners: Annotated[dict[Key, Entry], Field(min_length=1), Different, AfterValidator(_add_keys)]
    variants: Annotated[dict[Key, dict[str, Any]], Different] = Field(default_factory=dict)
    final_policy: FinalPolicy | None = None
    quick: bool = False

    @model_validator(mode="after")
    def _check(self) -> Spec:
        """Check rules that concern several tables; the last check starts every learner on every problem."""
        study, tuning = self.study, self.tuning
        if self.final_policy is not None:
            choice(self.final_policy.learner, "final_policy.learner", self.learners)
            mdp, left_out = self.problem.model, self.final_policy.leave_out
            states = [mdp.state_label(s) for s in range(mdp.S)]
            if {choice(state, "final_policy.leave_out", states) for state in left_out} == set(states):
                raise ValueError("final_policy.leave_out must leave some state, got all of them")
        if self.variants and len(study.variant_seeds) < 2:
            raise ValueError("study.variant_seeds must be a list of at least 2 seeds: the study has variants")
        seeds = {"study.seeds": study.seeds, "study.replication_seeds": study.replication_seeds}
        seeds |= {} if tuning is None else {"tuning.seeds": tuning.seeds}
        for one, two in combinations(seeds, 2):
            for seed in set(seeds[one]) & set(seeds[two]):
                raise ValueError(f"{two} must not repeat {one}, got {seed} in both")
        for key, entry in self.learners.items():
            if entry.grid is not None and tuning is None:
                raise ValueError(f"learners.{key}.grid needs a table [tuning]")
        try_all((f"variants.{name}", partial(self.problem.changed, change)) for name, change in self.variants.items())
        try_all(
            (f"learners.{entry.key}", self.run(entry, self.levels[0], 0, value=value, problem=problem).start)
            for entry in self.learners.values()
            for _, problem, _ in self.problems
            for value in entry.grid or (None,)
        )
        return self

    @property
    def levels(self) -> tuple[float, ...]:
        """Levels of the objectives, by which tables and files are named."""
        return tuple(self.goals)

    @property
    def goals(self) -> dict[float, Objective]:
        """What learners are trained and scored for, by level."""
        return {goal.tau: goal for goal in self.study.goals}

    @property
    def episodes(self) -> int:
        """Episodes of a final run."""
        return self.study.episodes

    @property
    def plot(self) -> tuple[str, ...]:
        """Measure of the main table of each level."""
        return self.study.plot or ("exact",) * len(self.levels)

    @property
    def measures(self) -> tuple[str, ...]:
        """The measures; "capped" only if the main table of some level shows it. Tuning uses the first measure."""
        return ("capped",) * ("capped" in self.plot) + ("exact", "expected")

    def training_levels(self, entry: Entry) -> tuple[float, ...]:
        """Levels that the learner is trained for: every level, or one for all."""
        if entry.per_level:
            return self.levels
        return (self.tuning.level if self.tuning is not None else self.levels[0],)

    def run(self, entry: Entry, tau: float, seed: int, *, value: float | None = None, **changes: Any) -> RunSpec:
        """One run of a learner; `value` is that of its tuned parameter, `changes` are another problem or length."""
        params = entry.params if value is None else {**entry.params, str(entry.tuned): value}
        fixed = {"problem": self.problem, "episodes": self.episodes, "delta": self.study.delta, **changes}
        fixed |= {"learner": entry._maker, "own_code": entry._code}
        return RunSpec(params=params, objective=self.goals.get(tau, Quantile(tau)), seed=seed, **fixed)

    @cached_property
    def problems(self) -> list[tuple[str, Problem, tuple[int, ...]]]:
        """The problem under the empty name, then its variants, each with the seeds of its final runs."""
        first = "", self.problem, self.study.seeds + self.study.replication_seeds
        changed = {name: self.problem.changed(change) for name, change in self.variants.items()}
        return [first, *((name, problem, self.study.variant_seeds) for name, problem in changed.items())]

    def ranking_seeds(self, variant: str = "") -> tuple[int, ...]:
        """Seeds that decide rankings: those not used for any choice, if there are any."""
        return self.study.variant_seeds if variant else (self.study.replication_seeds or self.study.seeds)

    def workload(self, entry: Entry) -> tuple[int, int]:
        """Runs and episodes of a learner trained for one level."""
        batches = [(len(seeds), self.episodes) for _, _, seeds in self.problems]
        if entry.grid is not None and self.tuning is not None:
            batches += [(count * len(self.tuning.seeds), episodes) for count, episodes in self.tuning.rungs]
        return sum(runs for runs, _ in batches), sum(runs * episodes for runs, episodes in batches)
