"""`bqrl envs`: the named problems, their sizes and their certified optima."""

from __future__ import annotations

import sys
from importlib.resources import files
from typing import Annotated, Any

import typer

from bqrl.checks import choice
from bqrl.cli.output import Json, Out, is_terminal, print_json, show
from bqrl.envs import about, make
from bqrl.envs import names as known
from bqrl.planners.target import guarantee_curve, plan_from_curve
from bqrl.results.result import Result, Table, check_folder, write

LEVELS = (0.05, 0.1, 0.5)
LARGE = 2_000_000  # transitions times stages from which an optimum takes seconds: on request only


def envs(
    names: Annotated[
        list[str] | None, typer.Argument(metavar="[NAME]...", help="Problems to list; all unless given.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Compute the optima of large problems, too.")] = False,
    form: Annotated[
        str | None, typer.Option("--template", help="Print an example model that solve accepts: csv or json.")
    ] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """List the named problems: a table with certified optima at a terminal, one Gymnasium id per line when piped."""
    if form is not None:
        name = f"template.{choice(form, '--template', ('csv', 'json'))}"
        typer.echo(files("bqrl.cli").joinpath(name).read_text(encoding="utf-8"), nl=False)
        return

    listed, at_terminal = [about(name) for name in names or known()], is_terminal(sys.stdout)
    check_folder(out, ["problems.csv"])
    if as_json or out is not None or at_terminal:
        problems = [describe(problem.name, large=every or bool(names)) for problem in listed]
    if out is not None:
        rows = []
        for one in problems:
            best = {level["tau"]: level["value"] for level in one["optimum"]}
            row = {key: value for key, value in one.items() if key != "optimum"}
            rows.append(row | {f"optimum_{tau:g}": best.get(tau) for tau in LEVELS})
        table = Table(rows, {f"optimum_{tau:g}": f"best {tau:g}-quantile" for tau in LEVELS}, "The named problems.")
        details = {"problems": problems}
        write(
            Result(
                kind="problems",
                title="Named problems",
                settings={},
                tables={"problems": table},
                charts={},
                sentences=[],
                details=details,
            ),
            out,
        )
    if as_json:
        print_json(problems)
    elif at_terminal:
        show(table=_table(problems))
    else:
        typer.echo("\n".join(problem.id for problem in listed))


def describe(name: str, *, large: bool = True) -> dict[str, Any]:
    """Name, sizes, units, one line, and the best achievable quantiles of a problem.

    `optimum` holds one entry per level: the value, a proven upper bound, and whether rounding can have changed it. It is
    empty for large problems unless `large`, and for problems whose data are not installed; `missing` then says why.
    """
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
    plans = [plan_from_curve(curve, tau) for tau in LEVELS]
    found["optimum"] = [
        {"tau": plan.tau, "value": plan.value, "upper": plan.upper, "certain": plan.certain} for plan in plans
    ]
    return found


def _table(problems: list[dict[str, Any]]) -> Table:
    """The problems for people."""
    rows = []
    for one in problems:
        best = {level["tau"]: _value(level) for level in one["optimum"]}
        sizes = {"problem": one["name"], "states": one["states"], "actions": one["actions"], "stages": one["horizon"]}
        about_it = {"unit": one["unit"], "what it is about": one["missing"] or one["description"]}
        rows.append(sizes | {f"tau {tau:g}": best.get(tau) for tau in LEVELS} | about_it)
    return Table(rows)


def _value(level: dict[str, Any]) -> str:
    """The optimum, marked where it is only a lower value or where it ties with the level."""
    exact = level["upper"] is not None and level["upper"] <= level["value"] + 1e-9 * max(1.0, abs(level["value"]))
    return f"{'' if exact else '>= '}{level['value']:.4g}{'' if level['certain'] else ' ?'}"
