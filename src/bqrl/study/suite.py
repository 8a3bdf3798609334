"""Experiments on several problems side by side, and experiments and suites as arrays of one file."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from bqrl.checks import bad_type, choice
from bqrl.display import Charted, sheet_csv, views
from bqrl.learners.protocol import add_prefix, strip_prefix
from bqrl.learners.record import Record
from bqrl.mdp.arrays import damage_error
from bqrl.mdp.files.npz import model_arrays, read_stored
from bqrl.mdp.model import MDP
from bqrl.planners.solve import read_objective
from bqrl.study.scores import Contender, Experiment
from bqrl.versions import versions

MARKER = "bqrl_experiment"
FORMAT = 1


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Suite(Charted):
    """Experiments on several problems, by the names of the problems; made by `compare` with a list or a dict of problems.

    Parameters
    ----------
    experiments : mapping of str to Experiment
        One experiment per problem. They may have different objectives, learners, seeds and numbers of episodes, so that the
        results of several calls of `compare` can be put side by side.

    Examples
    --------
    >>> import bqrl
    >>> suite = bqrl.compare(["SafeOrRisky", "AssetSelling"], ["psrl"], tau=0.1, episodes=20, seeds=2, workers=1)
    >>> suite
    Suite(SafeOrRisky, AssetSelling; psrl)
    >>> suite["SafeOrRisky"].episodes, sorted(suite.shares()[0])
    (20, ['objective', 'optimum', 'problem', 'psrl', 'random'])
    """

    experiments: Mapping[str, Experiment]

    def __post_init__(self) -> None:
        for name, one in self.experiments.items():
            if not isinstance(one, Experiment):
                raise bad_type("experiments", one, f"hold experiments, as for {name}", type(one).__name__)

    def __getitem__(self, name: str) -> Experiment:
        return self.experiments[choice(name, "problem", self.experiments)]

    def __iter__(self) -> Iterator[str]:
        return iter(self.experiments)

    def __len__(self) -> int:
        return len(self.experiments)

    @property
    def labels(self) -> list[str]:
        """Labels of all learners, in the order of their appearance."""
        return list(dict.fromkeys(one.label for part in self.experiments.values() for one in part.learners))

    def _joined(self, rows: Callable[[Experiment], Sequence[Mapping[str, Any]]]) -> list[dict[str, Any]]:
        """Rows of all experiments with their problem and the same columns; None where one has no such column."""
        return same_columns([{"problem": name, **row} for name, one in self.experiments.items() for row in rows(one)])

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of all experiments (see `Experiment.rows`), each with its problem."""
        return self._joined(Experiment.rows)

    def shares(self) -> list[dict[str, Any]]:
        """Return one row per problem: how far each learner comes from random play to the certified optimum.

        Returns
        -------
        list of dict
            Problem, objective, optimum, the value of random play and, by the label of each learner, the share that the last
            policy reaches (see `Experiment.share`), as the mean over the seeds; None where a learner did not run.
        """
        found = []
        for name, one in self.experiments.items():
            row: dict[str, Any] = {"problem": name, "objective": one.objective.label, "optimum": None, "random": None}
            row |= {"optimum": one.optimum, "random": one.random} if one.known else {}
            reached = {each["learner"]: each.get("share") for each in one.rows()}
            found.append(row | {label: reached.get(label) for label in self.labels})
        return found

    def curves(self, measure: str = "gap", points: int = 200) -> list[dict[str, Any]]:
        """Return the learning curves of all experiments (see `Experiment.curves`), each with its problem."""
        return self._joined(lambda one: one.curves(measure, points))

    def figure(
        self, problems: Sequence[str] | None = None, *, columns: int = 3, measure: str | None = None, log: str = "",
        title: bool | str = True, width: int = 260, height: int = 200,
    ) -> Any:  # fmt: skip
        """Return the learning curves as one figure with a panel per problem and one legend.

        Parameters
        ----------
        problems
            Names of the problems, in the order of the panels; by default all.
        columns
            Panels per row.
        measure, log
            As in `Experiment.chart`.
        title
            Whether each panel has its problem as title; a text is the title of the figure.
        width, height
            Size of a panel in pixels.

        Returns
        -------
        altair.ConcatChart
            Write it with `bqrl.save(figure, "figure.pdf")`, or .svg, .png or .html.
        """
        names = (
            list(self.experiments) if problems is None else [choice(x, "problems", self.experiments) for x in problems]
        )
        parts = {name: self.experiments[name] for name in names}
        options = {"columns": columns, "measure": measure, "log": log, "title": title, "width": width, "height": height}
        return views().draw_figure(parts, **options)

    def chart(self, measure: str | None = None, *, log: str = "", title: bool | str = True) -> Any:
        """Return the figure of all problems."""
        return self.figure(measure=measure, log=log, title=title)

    def __repr__(self) -> str:
        return f"Suite({', '.join(self.experiments)}; {', '.join(self.labels)})"


def same_columns(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with the columns of all of them; None where a row has no such column.

    >>> same_columns([{"a": 1}, {"b": 2}])
    [{'a': 1, 'b': None}, {'a': None, 'b': 2}]
    """
    columns = dict.fromkeys(chain.from_iterable(rows))
    return [{column: row.get(column) for column in columns} for row in rows]


def curves_csv(thing: Experiment | Suite) -> bytes:
    """Learning curves of all measures as CSV: mean, band and number of seeds, the seeds, and the versions of the software."""
    suite = thing if isinstance(thing, Suite) else Suite(experiments={"": thing})
    sheet = list[list[Any]]()
    for name, one in suite.experiments.items():
        facts = {"objective": one.objective.text, **one.made}
        for measure in ("gap", "mean_regret", "return") if one.known else ("return",):
            for row in one.curves(measure):
                if not sheet:
                    sheet.append(["problem", *row, *facts])
                sheet.append([name, *row.values(), *facts.values()])
    return sheet_csv(sheet)


# -- files -----------------------------------------------------------------------------------------------------------------


def experiment_arrays(thing: Experiment | Suite) -> dict[str, Any]:
    """Return an experiment or a suite as plain arrays: its records, its models, and a description as JSON."""
    parts = {"": thing} if isinstance(thing, Experiment) else thing.experiments
    described, arrays = [], dict[str, Any]()
    for i, (name, one) in enumerate(parts.items()):
        learners = [
            {"label": each.label, "learner": _name(each.learner), "params": each.params} for each in one.learners
        ]
        described.append({
            "name": name, "problem": one.problem if isinstance(one.problem, str) else None, "objective": one.objective.text,
            "episodes": one.episodes, "seeds": one.seeds, "learners": learners,
        })  # fmt: skip
        model = next((record.mdp for record in chain.from_iterable(one.records.values())), None)
        arrays |= {} if model is None else add_prefix(f"model_{i}_", model_arrays(model))
        for j, each in enumerate(one.learners):
            for k, record in enumerate(one.records[each.label]):
                arrays |= add_prefix(f"record_{i}_{j}_{k}_", record.arrays())
    head = {"format": FORMAT, "suite": isinstance(thing, Suite), "experiments": described, "versions": versions()}
    return {MARKER: np.array(json.dumps(head, default=str)), **arrays}


def _name(learner: Any) -> str:
    return learner if isinstance(learner, str) else getattr(learner, "__qualname__", type(learner).__name__)


def experiment_from_arrays(arrays: dict[str, Any]) -> Experiment | Suite:
    """Return the experiment or suite that arrays describe; FileFormatError if they describe none."""
    try:
        head = json.loads(str(arrays[MARKER]))
        if head["format"] != FORMAT:
            raise ValueError(f"format {head['format']} is not {FORMAT}")
        parts = {str(one["name"]): _part(one, i, arrays) for i, one in enumerate(head["experiments"])}
        return Suite(experiments=parts) if head["suite"] else parts[""]
    except (KeyError, IndexError, ValueError, TypeError, AttributeError) as fault:
        raise damage_error("an experiment", fault) from None


def _part(one: Mapping[str, Any], i: int, arrays: dict[str, Any]) -> Experiment:
    """Return the experiment with number `i` of a file."""
    stored, records = strip_prefix(f"model_{i}_", arrays), dict[str, tuple[Record, ...]]()
    model = MDP.from_table(**read_stored(stored)) if stored else None
    for j, each in enumerate(one["learners"]):
        found = [Record.from_arrays(strip_prefix(f"record_{i}_{j}_{k}_", arrays)) for k in range(len(one["seeds"]))]
        for record in found:
            record.mdp = model
        records[str(each["label"])] = tuple(found)
    return Experiment(
        problem=model if one["problem"] is None else str(one["problem"]), objective=read_objective(one["objective"]),
        episodes=int(one["episodes"]), seeds=tuple(map(int, one["seeds"])),
        learners=tuple(Contender(**each) for each in one["learners"]), records=records,
    )  # fmt: skip
