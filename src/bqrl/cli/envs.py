"""`bqrl envs`: the named problems, their sizes and their certified optima."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Argument, Option

from bqrl.checks import choice
from bqrl.cli.output import Command, at_terminal
from bqrl.display import count_of, format_number
from bqrl.envs import about, make, names
from bqrl.envs.published import ENTRIES
from bqrl.errors import ArgumentError
from bqrl.planners.curve import guarantee_curve
from bqrl.planners.plan import GAP_TOL
from bqrl.progress import ProgressBar
from bqrl.results.result import Result, ResultTable, Shown, check_folder
from bqrl.study.truth import TITLES as HEADINGS
from bqrl.study.truth import compare_published, spell_out
from bqrl.versions import software

LEVELS = {f"optimum_{tau:g}": tau for tau in (0.05, 0.1, 0.5)}  # by column
LARGE = 2_000_000  # transitions times stages; above this, optima take seconds and are computed on request only
TITLES = {
    "name": "problem", "states": "states", "actions": "actions", "horizon": "stages",
    **{key: f"tau {tau:g}" for key, tau in LEVELS.items()}, "unit": "unit", "description": "what it is about",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Envs(Command):
    """List the named problems: a table with certified optima at a terminal, one Gymnasium id per line when piped."""

    names: Annotated[list[str] | None, Argument(metavar="NAME", help="Problems to list; by default all.")] = None
    every: Annotated[bool, Option("--all", help="Compute the optima of large problems, too.")] = False
    truth: Annotated[
        bool,
        Option("--truth", help="Published numbers beside certified optima; takes about a minute, minutes with --all."),
    ] = False
    files: Annotated[
        Path | None,
        Option(metavar="DIR", help="With --truth: folder with cliff.csv, population.csv and inventory2.csv."),
    ] = None
    template: Annotated[str | None, Option(help="Print an example model that solve accepts: csv or json.")] = None

    def run(self) -> None:
        """List the problems, compare them with published numbers, or print a template."""
        if self.template is not None:
            name = f"template.{choice(self.template, '--template', ('csv', 'json'))}"
            if self.as_json or self.out or self.names or self.every or self.truth or self.files:
                raise ArgumentError(f"--template must be the only option; write bqrl envs --template {self.template}")
            typer.echo(files("bqrl.cli").joinpath(name).read_text(encoding="utf-8"), nl=False)
            return
        listed, terminal = [about(name) for name in self.names or names()], at_terminal()
        if self.truth:
            self._compare_published({one.name for one in listed})
            return
        if self.files is not None:
            raise ArgumentError("--files must be given with --truth")
        check_folder(self.out, "problems", ["problems.csv"])
        wanted = self.as_json or terminal or self.out is not None
        problems = [describe(one.name, large=self.every or bool(self.names)) for one in listed if wanted]
        titles = {key: f"best {tau:g}-quantile" for key, tau in LEVELS.items()}
        rows = [_row(one, lambda level: level["value"]) for one in problems]
        tables = {"problems": ResultTable(rows, titles=titles, caption="The named problems.")}
        result = Result(kind="problems", title="Named problems", tables=tables, details={"problems": problems})
        rows = [
            _row(one, mark_optimum) | {"description": one["missing"] or one["description"]}
            for one in problems
            if terminal
        ]
        table = ResultTable([{key: row[key] for key in TITLES} for row in rows], titles=TITLES)
        self.conclude(Shown(problems, result, tables=[table], lines=[one.id for one in listed if not terminal]))

    def _compare_published(self, problems: set[str]) -> None:
        """Print published numbers beside certified optima."""
        check_folder(self.out, "truth", ["truth.csv"])
        folder = None if self.files is None else str(self.files)
        asked = [entry for entry in ENTRIES if entry.problem in problems]
        quick = [entry for entry in asked if (self.every or not entry.slow) and (folder or not entry.files)]
        with ProgressBar() as watch:
            rows = [compare_published(entry, folder) for entry in watch.track(quick, "certified optima")]
        said, made = "Published numbers and certified optima.", {"versions": software()}
        table = ResultTable([spell_out(row) for row in rows], titles=HEADINGS, caption=said, made=made)
        result = Result(kind="truth", title="Published numbers", tables={"truth": table}, details={"truth": rows})
        left_out = len(asked) - len(quick)
        note = f"{count_of('row', left_out)} left out; --all adds those that take minutes, --files DIR those that need files."
        self.conclude(Shown(rows, result, tables=[table], lines=[note] if left_out else []))


def describe(name: str, *, large: bool = True) -> dict[str, Any]:
    """Facts about a problem: name, sizes, units, description, and best quantiles, or why these are `missing`."""
    problem = about(name)
    found: dict[str, Any] = {
        "name": problem.name, "id": problem.id, "states": None, "actions": None, "horizon": None, "transitions": None,
        "unit": problem.unit, "stage": problem.stage, "description": problem.summary, "optimum": [], "missing": None,
    }  # fmt: skip
    try:
        mdp = make(name)
    except FileNotFoundError as fault:
        return found | {"missing": str(fault)}
    found |= {"states": mdp.S, "actions": mdp.A, "horizon": mdp.H, "transitions": int(mdp.successor.size)}
    if mdp.successor.size * mdp.H > LARGE and not large:
        return found | {"missing": f"large problem; bqrl envs {problem.name} computes its optima"}
    curve = guarantee_curve(mdp)
    summaries = (curve.plan(tau).summary() for tau in LEVELS.values())
    facts = ("tau", "value", "upper", "proven", "fragile")
    return found | {"optimum": [{key: one[key] for key in facts} for one in summaries]}


def _row(problem: dict[str, Any], value: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """A problem as one row of the table; `value` converts the optimum of a level."""
    best = {level["tau"]: value(level) for level in problem["optimum"]}
    facts = {key: fact for key, fact in problem.items() if key != "optimum"}
    return facts | {key: best.get(tau) for key, tau in LEVELS.items()}


def mark_optimum(level: dict[str, Any]) -> str:
    """The optimum as text: ">=" marks a lower bound, "?" an optimum that is not proven."""
    exact = level["upper"] is not None and level["upper"] <= level["value"] + GAP_TOL * max(1.0, abs(level["value"]))
    return f"{'' if exact else '>= '}{format_number(level['value'], 4)}{'' if level['proven'] else ' ?'}"
