"""What a theory experiment consists of, and what the experiments share.

What an experiment finds is plain data: its "tables", lists of rows by name, and facts beside them. The headline and the
charts, which are lines with bands, are made from this data alone, so a stored result serves as well as a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from bqrl.learners.record import Record
from bqrl.learners.run import learn
from bqrl.mdp.model import MDP
from bqrl.results.charts import Curve, Selector, lines
from bqrl.results.words import number
from bqrl.study.problems import Problem
from bqrl.study.runner import Watch
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
    """The problems of a settings file, the seed from which those of all runs follow, and who is informed."""

    problems: Mapping[str, Problem]
    seed: int
    watch: Watch

    def model(self, case: Case) -> tuple[MDP, dict[str, Any]]:
        """The model of a case, and the columns that describe it."""
        problem = self.problems[case.problem]
        mdp, head = problem.model, {"problem": case.problem, "label": problem.label or case.problem, "tau": case.tau}
        return mdp, {**head, "states": mdp.S, "actions": mdp.A, "horizon": mdp.H}

    def run_seed(self, *place: int) -> int:
        """The seed of the run at that place; adding a run does not change the seed of another."""
        return int(np.random.SeedSequence(self.seed, spawn_key=place).generate_state(1, np.uint64)[0])

    def records(
        self, runs: int, place: Sequence[int], mdp: MDP, learner: str, tau: float, T: int, params: Found
    ) -> Iterator[Record]:
        """Records of several runs of a learner, each reported when it is done."""
        for j in range(runs):
            yield learn(mdp, learner, tau, T, self.run_seed(*place, j), progress=False, **params)
            self.watch.tick()


@dataclass(frozen=True, slots=True, kw_only=True)
class Experiment:
    """A theory experiment."""

    settings: type[Settings]  # the keys of its table in a settings file
    run: Callable[[Any, Context], dict[str, Any]]  # from the settings to tables and facts
    headline: Callable[[Found], str]  # what was found, in one sentence without its full stop
    charts: Callable[[Found, str], dict[str, Any]]  # charts by name; the headline is their title
    captions: Mapping[str, str]  # of its tables, in which {fact} stands for a fact beside them
    notes: Sequence[str]  # what else a reader should know


def rows_of(head: Mapping[str, Any], **columns: Iterable[Any]) -> Rows:
    """Rows from columns of equal length, each row with the entries of `head` in front."""
    return [{**head, **dict(zip(columns, row, strict=True))} for row in zip(*columns.values(), strict=True)]


def by_case(cases: Sequence[Found], rows: Sequence[Found]) -> list[tuple[str, list[Found]]]:
    """The cases, named by problem and level, each with its rows."""
    named = [(f"{case['label']}, τ = {number(case['tau'])}", (case["problem"], case["tau"])) for case in cases]
    return [(name, [row for row in rows if (row["problem"], row["tau"]) == key]) for name, key in named]


def curve(label: str, rows: Sequence[Found], *columns: str, view: tuple[int, ...] = ()) -> Curve:
    """A line through rows; `columns` are those of x, of y and, for a band, of its low and high ends."""
    arrays = [np.array([row[name] for row in rows], np.float64) for name in columns]
    return Curve(label, view=view, **dict(zip(("x", "y", "low", "high"), arrays, strict=False)))


def chart(
    title: str, note: str, curves: Sequence[Curve], *axes: str, log: str = "", cases: Sequence[tuple[str, Any]] = (), **look: Any
) -> Any:  # fmt: skip
    """A chart of lines, the axes in `log` logarithmic; with `cases`, of one at a time, by the index in the view of a curve."""
    look = {"scales": {axis: {"type": "log"} for axis in log}, **look}
    selectors = [Selector("which", "problem", [name for name, _ in cases])] if cases else []
    return lines(curves, *axes, selectors=selectors, **look).chart([title] * len(cases) if cases else title, note)


def rough(x: float | None) -> str:
    """A number of episodes for people; None stands for infinity."""
    return "more than 1e90" if x is None else f"{x:,.0f}" if x < 1e6 else f"{x:.1e}"


def between(values: Sequence[float]) -> str:
    """The range of some numbers to two digits, such as "0.5 to 0.64"."""
    return " to ".join(dict.fromkeys(number(x, 2) for x in (min(values), max(values))))
