"""`bqrl envs`: the named problems."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import typer

from bqrl.cli.output import Json, Out, looked_at, paper, print_json

if TYPE_CHECKING:
    from bqrl.results.result import Table


def envs(out: Out = None, as_json: Json = False) -> None:
    """List the named problems: a table at a terminal, one Gymnasium id per line when piped."""
    from bqrl.envs import names

    if not (as_json or out is not None or looked_at(sys.stdout)):
        for name in names():
            typer.echo(gymnasium_id(name))
        return
    from bqrl.results.result import Result, Table, check_folder, write

    if out is not None:
        check_folder(out, ["problems.csv"])
    problems = [describe(name) for name in names()]
    titles = {"name": "problem", "horizon": "stages", "description": "what it is about", "id": "Gymnasium id"}
    order = ("name", "states", "actions", "horizon", "description", "id")
    table = Table([{key: problem[key] for key in order} for problem in problems], titles, "The named problems.")
    if out is not None:
        write(
            Result("problems", "Named problems", {}, {"problems": table}, {}, [], details={"problems": problems}), out
        )
    if as_json:
        print_json(problems)
    elif looked_at(sys.stdout):
        show_problems(table)
    else:
        for problem in problems:
            typer.echo(problem["id"])


def show_problems(table: Table) -> None:
    """Print the problems; the description may take several lines."""
    from rich import box
    from rich.table import Table as Grid

    grid = Grid(box=box.SIMPLE_HEAD, pad_edge=False)
    for key in table.columns:
        number = key in ("states", "actions", "horizon")
        grid.add_column(
            table.titles.get(key, key),
            justify="right" if number else "left",
            style="bold" if key == "name" else None,
            no_wrap=key in ("name", "id"),
        )
    for row in table.rows:
        grid.add_row(*map(str, row.values()))
    paper().print(grid)


def gymnasium_id(name: str) -> str:
    """The id under which Gymnasium knows a named problem."""
    return f"bqrl/{name}-v0"


def describe(name: str) -> dict[str, Any]:
    """Name, sizes and one line about a problem."""
    import inspect

    from bqrl.envs import make
    from bqrl.envs.registry import ENVS

    mdp = make(name)
    told = inspect.getdoc(inspect.getmodule(ENVS[name])) or inspect.getdoc(ENVS[name]) or ""
    return {
        "name": name,
        "id": gymnasium_id(name),
        "states": mdp.S,
        "actions": mdp.A,
        "horizon": mdp.H,
        "description": told.split("\n\n")[0].replace("\n", " "),
    }
