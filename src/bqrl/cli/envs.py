"""`bqrl envs`: the named problems."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from bqrl.cli.output import Json, Out, looked_at, paper
from bqrl.cli.template import template


def envs(
    form: Annotated[
        str | None, typer.Option("--template", help="Print an example model that solve accepts: csv or json.")
    ] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """List the named problems: a table at a terminal, one Gymnasium id per line when piped."""
    if form is not None:
        typer.echo(template(form), nl=False)
        return
    from bqrl.envs import names

    if not (as_json or out is not None or looked_at(sys.stdout)):
        for name in names():
            typer.echo(gymnasium_id(name))
        return
    from bqrl.reports.document import to_json
    from bqrl.reports.tables import problem_table

    problems = [describe(name) for name in names()]
    if out is not None:
        from bqrl.mdp.atomic import write_whole
        from bqrl.reports.folder import make_folder

        write_whole(make_folder(out) / "envs.json", (to_json(problems) + "\n").encode())
    if as_json:
        typer.echo(to_json(problems, ascii_only=True))
    elif looked_at(sys.stdout):
        paper().print(problem_table(problems))
    else:
        for problem in problems:
            typer.echo(problem["id"])


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
