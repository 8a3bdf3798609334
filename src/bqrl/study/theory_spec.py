"""Settings of the theory experiments, as `read_settings(path, TheorySpec)` reads them.

[theory]          name, title, seed
[problems.KEY]    label, and one of: name with params, file, hard, transitions with rewards and horizon
[coverage] [bounds] [hard] [buffer] [knapsack]    one table per experiment, its keys as in the records below
[quick.NAME]      what a quick run replaces in the table of an experiment
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field, PlainValidator, ValidationInfo, model_validator

from bqrl.checks import choice
from bqrl.errors import ArgumentError
from bqrl.learners.run import Run
from bqrl.study.problems import Problem, problem_of
from bqrl.study.settings import Count, Level, Seed, Settings, Text
from bqrl.theory import hard_instance

EXPERIMENTS = ("coverage", "bounds", "hard", "buffer", "knapsack")

Rows = list[dict[str, Any]]
Found = dict[str, Any]  # what an experiment returns: "tables", rows by name, and its facts

AtLeast2 = Annotated[int, Field(ge=2)]
AtLeast3 = Annotated[int, Field(ge=3)]
Levels = Annotated[tuple[Level, ...], Field(min_length=1)]
Params = Annotated[dict[str, Any], Field(default_factory=dict)]


class Case(Settings):
    """A problem and the level at which it is examined."""

    problem: Text
    tau: Level


Cases = Annotated[tuple[Case, ...], Field(min_length=1)]


class LearnerSpec(Settings):
    """A learner with its parameters."""

    learner: Text
    label: Text
    params: Params


class CoverageSpec(Settings):
    """Many runs, and whether their confidence sets contain the true kernel throughout."""

    runs: Count
    episodes: Count
    delta: Level
    cases: Cases
    confidence: Level = 0.95
    params: Params


class BoundsSpec(Settings):
    """Runs of several lengths, and the bounds for each length."""

    runs: Count
    episodes: Annotated[tuple[Count, ...], Field(min_length=1)]
    delta: Level
    cases: Cases
    params: Params


class HardSpec(Settings):
    """The hard family for decreasing rho, and long runs at one rho."""

    tau: Level
    actions: AtLeast2
    horizon: AtLeast2
    rhos: Levels
    runs: Count
    learners: Annotated[tuple[LearnerSpec, ...], Field(min_length=1)]
    growth_rho: Level
    growth_factor: Annotated[float, Field(gt=1.0, lt=1e6)]
    growth_runs: AtLeast2
    growth_points: AtLeast3

    @model_validator(mode="after")
    def _check(self) -> HardSpec:
        """Build every problem and learner now, so that a mistake is reported before the first run."""
        for rho in (*self.rhos, self.growth_rho):
            mdp = hard_instance(self.tau, rho, self.actions, self.horizon)
        for one in self.learners:
            try:
                Run(mdp, one.learner, self.tau, 1, 0, **one.params)
            except TypeError as error:  # pydantic collects ValueErrors only
                raise ValueError(str(error)) from None
        return self


class BufferSpec(Settings):
    """Buffering gaps by buffer, and the episode from which each schedule avoids them."""

    points: AtLeast3
    powers: Levels
    cases: Cases


class KnapsackSpec(Settings):
    """Number of weights, which are packed one by one."""

    weights: Count


class TheoryTable(Settings):
    """The table [theory]."""

    name: Text = "theory"
    title: str = ""
    seed: Seed


def _problems(tables: Any, info: ValidationInfo) -> dict[str, Problem]:
    """The problems of a settings file, each built once to report mistakes early."""
    if not isinstance(tables, dict):
        raise ValueError("must be a table")
    found = {}
    for key, table in tables.items():
        try:
            found[key] = problem_of(table, (info.context or {}).get("folder", Path()), key)
            found[key].build()
        except (ValueError, TypeError) as error:
            raise ValueError(f"[problems.{key}] {error}") from None
    return found


class TheorySpec(Settings):
    """All settings of one file."""

    theory: TheoryTable
    problems: Annotated[dict[str, Problem], PlainValidator(_problems)] = Field(default_factory=dict)
    coverage: CoverageSpec | None = None
    bounds: BoundsSpec | None = None
    hard: HardSpec | None = None
    buffer: BufferSpec | None = None
    knapsack: KnapsackSpec | None = None
    quick: bool = False

    @model_validator(mode="after")
    def _check(self) -> TheorySpec:
        if not self.experiments:
            raise ValueError(f"no experiment is set; add one of the tables {', '.join(EXPERIMENTS)}")
        for name in ("coverage", "bounds", "buffer"):
            for case in getattr(getattr(self, name), "cases", ()):
                choice(case.problem, f"[{name}] problem", self.problems)
        return self

    @property
    def experiments(self) -> list[str]:
        """Names of the experiments that are set."""
        return [name for name in EXPERIMENTS if getattr(self, name) is not None]

    def chosen(self, only: Iterable[str] | None) -> list[str]:
        """Names of the experiments to run; all if `only` names none."""
        wanted = list(only or ())
        for name in wanted:
            choice(name, "experiment", EXPERIMENTS)
            if name not in self.experiments:
                message = f"the settings have no table [{name}]; add it, or choose from {', '.join(self.experiments)}"
                raise ArgumentError(message, name="experiment", value=name)
        return [name for name in self.experiments if not wanted or name in wanted]


def run_seed(root: int, *place: int) -> int:
    """The seed of the run at that place; adding a run never changes the seed of another.

    >>> run_seed(1, 0, 2) == run_seed(1, 0, 2) != run_seed(1, 0, 3)
    True
    """
    return int(np.random.SeedSequence(root, spawn_key=place).generate_state(1, np.uint64)[0])
