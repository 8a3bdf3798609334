"""The parts of a theory experiment, and functions that the experiments share.

The result of an experiment is plain data: its "tables", which are lists of rows by name, and further facts. The headline and
the charts (lines with bands) are made from this data alone, so they can also be made from a stored result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from bqrl.display import Watch, format_number
from bqrl.learners.record import Record
from bqrl.learners.run import learn
from bqrl.mdp.model import MDP
from bqrl.results.charts import Curve, Selector, lines
from bqrl.study.problems import Problem
from bqrl.study.settings import Different, Level, Settings, Text

RHO = "\N{GREEK SMALL LETTER RHO}"

Rows = list[dict[str, Any]]
Found = Mapping[str, Any]
Params = Annotated[dict[str, Any], Field(default_factory=dict)]
Levels = Annotated[tuple[Level, ...], Field(min_length=1)]
AtLeast3 = Annotated[int, Field(ge=3)]


class Case(Settings):
    """A problem and the level at which it is examined."""

    problem: Text
    tau: Level


Cases = Annotated[tuple[Case, ...], Field(min_length=1), Different]


class Context(NamedTuple):
    """The problems of a settings file, the seed from which the seeds of all runs are derived, and the progress display."""

    problems: Mapping[str, Problem]
    seed: int
    watch: Watch

    def model(self, case: Case) -> tuple[MDP, dict[str, Any]]:
        """Return the model of a case, and the columns that describe the case."""
        problem = self.problems[case.problem]
        mdp, head = problem.model, {"problem": case.problem, "label": problem.label or case.problem, "tau": case.tau}
        return mdp, {**head, "states": mdp.S, "actions": mdp.A, "horizon": mdp.H}

    def run_seed(self, *place: int) -> int:
        """Return the seed of the run at this place; adding a run does not change the seeds of others."""
        return int(np.random.SeedSequence(self.seed, spawn_key=place).generate_state(1, np.uint64)[0])

    def records(
        self, runs: int, place: Sequence[int], mdp: MDP, learner: str, tau: float, T: int, params: Found
    ) -> Iterator[Record]:
        """Yield the records of several runs of a learner, and report each when it is finished."""
        for j in range(runs):
            yield learn(mdp, learner, tau, T, self.run_seed(*place, j), progress=False, **params)
            self.watch.tick()


@dataclass(frozen=True, slots=True, kw_only=True)
class TheoryExperiment:
    """A theory experiment: its settings, its computation and its presentation."""

    settings: type[Settings]  # its table in a settings file
    run: Callable[[Any, Context], dict[str, Any]]  # from the settings to tables and facts
    headline: Callable[[Found], str]  # the main result, in one sentence without its full stop
    charts: Callable[[Found, str], dict[str, Any]]  # charts by name; the headline is their finding
    captions: Mapping[str, str]  # captions of its tables, in which {fact} is replaced by the fact
    notes: Sequence[str]  # further remarks for the reader


def rows_of(head: Mapping[str, Any], **columns: Iterable[Any]) -> Rows:
    """Return rows from columns of equal length; each row begins with the entries of `head`."""
    return [{**head, **dict(zip(columns, row, strict=True))} for row in zip(*columns.values(), strict=True)]


def by_case(cases: Sequence[Found], rows: Sequence[Found]) -> list[tuple[str, list[Found]]]:
    """Return the cases, named by problem and level, each with its rows."""
    named = [(f"{case['label']}, τ = {format_number(case['tau'])}", (case["problem"], case["tau"])) for case in cases]
    return [(name, [row for row in rows if (row["problem"], row["tau"]) == key]) for name, key in named]


def curve(label: str, rows: Sequence[Found], *columns: str, view: tuple[int, ...] = ()) -> Curve:
    """Return a line through rows; `columns` are the names of x, of y and, for a band, of its low and high ends."""
    arrays = [np.array([row[name] for row in rows], np.float64) for name in columns]
    return Curve(label, view=view, **dict(zip(("x", "y", "low", "high"), arrays, strict=False)))


def chart(
    finding: str, note: str, curves: Sequence[Curve], *axes: str, log: str = "", cases: Sequence[tuple[str, Any]] = (),
    **look: Any,
) -> Any:  # fmt: skip
    """Return a chart of lines, titled by its axes; axes in `log` are logarithmic. With `cases`, one is shown at a time."""
    look = {"scales": {axis: {"type": "log"} for axis in log}, **look}
    selectors = [Selector("which", "problem", [name for name, _ in cases])] if cases else []
    title = f"{axes[1][0].upper()}{axes[1][1:]} by {axes[0]}"
    return lines(curves, *axes, selectors=selectors, **look).chart(title, note, finding=finding)


def rough(x: float | None) -> str:
    """Return a number of episodes as text; None is infinity."""
    return "more than 1e90" if x is None else f"{x:,.0f}" if x < 1e6 else f"{x:.1e}"


def between(values: Sequence[float]) -> str:
    """Return the range of several numbers to two digits, such as "0.5 to 0.64"."""
    return " to ".join(dict.fromkeys(format_number(x, 2) for x in (min(values), max(values))))
