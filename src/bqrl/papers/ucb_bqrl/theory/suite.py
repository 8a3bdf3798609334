"""The theory experiments of a settings file: its contents, how the experiments are run, and their result.

[theory]          name, title, seed
[problems.KEY]    label, and one of: name with params, file, hard, transitions with rewards and horizon
[EXPERIMENT]      one table per experiment, with the fields of its settings class
[quick.NAME]      the settings of an experiment that a quick run replaces

To add an experiment, write one file and add an entry to EXPERIMENTS.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field, create_model, model_validator

from bqrl.checks import choice
from bqrl.display import Watch
from bqrl.papers.ucb_bqrl.theory.bounds import BOUNDS
from bqrl.papers.ucb_bqrl.theory.buffer_cost import BUFFER
from bqrl.papers.ucb_bqrl.theory.coverage import COVERAGE
from bqrl.papers.ucb_bqrl.theory.experiment import RHO, Context, Found
from bqrl.papers.ucb_bqrl.theory.hard_family import HARD
from bqrl.papers.ucb_bqrl.theory.possible_returns import KNAPSACK
from bqrl.results.charts import with_charts
from bqrl.results.result import Result, ResultTable, read, to_plain
from bqrl.study.problems import ProblemField
from bqrl.study.settings import Line, Seed, Settings, Text
from bqrl.versions import versions

EXPERIMENTS = {"coverage": COVERAGE, "bounds": BOUNDS, "hard": HARD, "buffer": BUFFER, "knapsack": KNAPSACK}
QUICK = "Quick run: few and short runs; these are not the numbers of the full experiments."
TITLES = {"tau": "τ", "rho": RHO}  # titles of columns


class TheoryTable(Settings):
    """The table [theory]."""

    name: Text = "theory"
    title: Line = ""
    seed: Seed


class TheorySettings(Settings):
    """The settings of one file; `FILE` adds the tables of the experiments."""

    theory: TheoryTable
    problems: dict[str, ProblemField] = Field(default_factory=dict)
    quick: bool = False

    @model_validator(mode="after")
    def _check(self) -> TheorySettings:
        if not self.experiments:
            raise ValueError(f"no experiment is set; add one of the tables {', '.join(EXPERIMENTS)}")
        for name, own in self.experiments.items():
            for case in getattr(own, "cases", ()):
                choice(case.problem, f"{name}.cases: problem", self.problems)
        return self

    @property
    def experiments(self) -> dict[str, Settings]:
        """Settings of the experiments that the file contains, by name."""
        return {name: own for name in EXPERIMENTS if (own := getattr(self, name)) is not None}

    def chosen(self, only: Iterable[str] | None) -> list[str]:
        """Return the names of the experiments to run; all if `only` is None or empty."""
        wanted = [choice(name, "experiment", self.experiments) for name in only or self.experiments]
        return [name for name in self.experiments if name in wanted]


_tables: dict[str, Any] = {name: (one.settings | None, None) for name, one in EXPERIMENTS.items()}
FILE: type[TheorySettings] = create_model("TheoryFile", __base__=TheorySettings, **_tables)


def run_theory(spec: TheorySettings, only: Iterable[str] | None = None, watch: Watch | None = None) -> dict[str, Found]:
    """Return the tables, facts and seconds of the experiments in `only` (by default all), as plain data."""
    found: dict[str, Found] = {}
    context = Context(spec.problems, spec.theory.seed, Watch() if watch is None else watch)
    for name in spec.chosen(only):
        start = time.perf_counter()
        one = to_plain(EXPERIMENTS[name].run(spec.experiments[name], context))
        found[name] = {**one, "seconds": time.perf_counter() - start}
    return found


def stored_experiments(folder: Path, quick: bool) -> dict[str, Found]:
    """Return the experiments stored in the folder, if they are of the same kind of run (quick or full)."""
    try:
        there = read(folder)
    except (OSError, ValueError):
        return {}
    if there.kind != "theory" or there.settings["quick"] != quick:
        return {}
    return dict(there.details["experiments"])


def theory_result(spec: TheorySettings, found: Mapping[str, Found]) -> Result:
    """Return the results of the experiments as a Result."""
    data = {name: found[name] for name in EXPERIMENTS if name in found}
    tables, sentences, draw = {}, [QUICK] * spec.quick, []
    for name, one in data.items():
        own = EXPERIMENTS[name]
        headline = own.headline(one)
        sentences += [f"{name.capitalize()}. {headline}.", *own.notes]
        draw.append(partial(own.charts, one, headline))
        for stem, caption in own.captions.items():
            tables[stem] = ResultTable(one["tables"][stem], titles=TITLES, caption=caption.format(**one))
    seconds = sum(one["seconds"] for one in data.values())
    result = Result(
        kind="theory", title=(spec.theory.title or spec.theory.name) + (" (quick run)" if spec.quick else ""),
        settings=spec.theory.model_dump(exclude={"title"}) | {"quick": spec.quick, "experiments": list(data)},
        tables=tables, sentences=sentences, details={"experiments": data, "seconds": seconds, "versions": versions()},
    )  # fmt: skip
    return with_charts(result, lambda: {stem: chart for charts in draw for stem, chart in charts().items()})
