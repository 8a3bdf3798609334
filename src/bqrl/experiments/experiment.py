"""What a theory experiment consists of, and what the experiments share.

What an experiment finds is plain data: its "tables", lists of rows by name, and facts beside them. Sentences and charts are
made from this data alone, so a stored result serves as well as a run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field

from bqrl.learners.record import Record
from bqrl.learners.run import learn
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.model import MDP
from bqrl.results.charts import Curve, Lines, Selector, altair, chosen, csv_data, lines
from bqrl.results.words import number
from bqrl.study.problems import Problem
from bqrl.study.settings import Level, Settings, Text
from bqrl.study.watch import Watch

RHO = "\N{GREEK SMALL LETTER RHO}"
LOG = {"x": {"type": "log"}, "y": {"type": "log"}}  # scales of a chart

Rows = list[dict[str, Any]]
Found = Mapping[str, Any]
Params = Annotated[dict[str, Any], Field(default_factory=dict)]
Levels = Annotated[tuple[Level, ...], Field(min_length=1)]
AtLeast3 = Annotated[int, Field(ge=3)]


class Case(Settings):
    """A problem and the level at which it is examined."""

    problem: Text
    tau: Level


Cases = Annotated[tuple[Case, ...], Field(min_length=1)]


class Context(NamedTuple):
    """The problems of a settings file, the seed from which those of all runs follow, and who is informed."""

    problems: Mapping[str, Problem]
    seed: int
    watch: Watch

    def model(self, case: Case) -> tuple[MDP, dict[str, Any]]:
        """The model of a case, and the columns that describe it."""
        problem = self.problems[case.problem]
        mdp, head = problem.build(), {"problem": case.problem, "label": problem.label or case.problem, "tau": case.tau}
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


class Experiment(NamedTuple):
    """A theory experiment."""

    settings: type[Settings]  # the keys of its table in a settings file
    run: Callable[[Any, Context], dict[str, Any]]  # from the settings to tables and facts
    sentences: Callable[[Found], list[str]]  # the headline, without its full stop, and remarks
    charts: Callable[[Found, str], dict[str, Any]]  # charts by name; the headline is their title
    captions: Mapping[str, str]  # of its tables, in which {fact} stands for a fact beside them


def rows_of(head: Mapping[str, Any], **columns: Iterable[Any]) -> Rows:
    """Rows from columns of equal length, each row with the entries of `head` in front."""
    return [{**head, **dict(zip(columns, row, strict=True))} for row in zip(*columns.values(), strict=True)]


def by_case(cases: Sequence[Found], rows: Sequence[Found]) -> list[tuple[str, list[Found]]]:
    """The cases, named by problem and level, each with its rows."""
    return [
        (
            f"{case['label']}, τ = {number(case['tau'])}",
            [row for row in rows if (row["problem"], row["tau"]) == (case["problem"], case["tau"])],
        )
        for case in cases
    ]


def column(rows: Sequence[Found], name: str) -> FloatArray:
    """One column of some rows."""
    return np.array([row[name] for row in rows], dtype=np.float64)


def case_lines(
    found: Found, table: str, x: str, labels: Mapping[str, Mapping[str, str]], *titles: str, **more: Any
) -> Lines:
    """Lines of one case at a time. `labels` gives the columns of each line: y and, for a band, low and high.

    A line whose y is None is left out. `titles` are those of the axes, `more` further arguments of `charts.lines`.
    """
    cases = by_case(found["cases"], found["tables"][table])
    curves = [
        Curve(label, column(rows, x), **{part: column(rows, name) for part, name in columns.items()}, view=(i,))
        for i, (_, rows) in enumerate(cases)
        for label, columns in labels.items()
        if rows[0][columns["y"]] is not None
    ]
    return lines(curves, *titles, selectors=[Selector("which", "problem", [name for name, _ in cases])], **more)


def marks(drawn: Lines, columns: Sequence[str], rows: Iterable[Sequence[Any]], texts: Sequence[str] = ()) -> Any:
    """Data of a further layer, on those axes of the lines that it has columns for."""
    axes = {name: axis for name, axis in (("x", drawn.x), ("y", drawn.y)) if name in columns}
    return altair().Chart(csv_data(columns, rows, texts)).encode(**axes).transform_filter(chosen(drawn.selectors))


def intervals(points: Any, **colour: Any) -> list[Any]:
    """Layers of points (x, y) with lines from `low` to `high`."""
    rule = points.mark_rule(strokeWidth=2, **colour).encode(y=altair().Y("low:Q"), y2="high:Q")
    tooltip = ["x:Q", "y:Q", "low:Q", "high:Q"]
    return [rule, points.mark_point(filled=True, size=60, **colour).encode(tooltip=tooltip)]


def dashes(field: str, names: Iterable[str]) -> Any:
    """The dash pattern of a line: solid, dashed or dotted."""
    domain = list(names)
    scale = {"domain": domain, "range": [[1, 0], [6, 3], [2, 2]][: len(domain)]}
    legend = {"orient": "bottom", "symbolType": "stroke", "symbolSize": 900}  # long enough to show the pattern
    return altair().StrokeDash(f"{field}:N", title=None, scale=scale, legend=legend)


def rough(x: float | None, *, least: bool = False) -> str:
    """A count for people; `least` if it may be larger, None if it is infinite.

    >>> rough(146), rough(489529), rough(11018226), rough(3.2e12), rough(None)
    ('146', '490,000', '11 million', '3.2e+12', 'more than 1e90')
    """
    if x is None or x > 1e90:
        return "more than 1e90"
    rounded = float(f"{x:.2g}")
    text = number(x) if x < 1e4 else f"{int(rounded):,}" if x < 1e6 else f"{number(rounded / 1e6)} million"
    return ("at least " if least else "") + (f"{x:.2g}" if x >= 1e9 else text)


def between(values: Sequence[float]) -> str:
    """The range of some numbers to two digits.

    >>> between([0.5, 0.64]), between([3.0, 3.0])
    ('0.5 to 0.64', '3')
    """
    low, high = (number(float(f"{x:.2g}")) for x in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"
