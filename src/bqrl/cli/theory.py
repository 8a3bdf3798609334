"""`bqrl theory`: experiments that put the theory to the test."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bqrl.cli.output import Json, Out, paper, print_json
from bqrl.cli.progress import ProgressBar
from bqrl.results.result import check_folder, read, write
from bqrl.results.theory import headline, remarks, theory_result
from bqrl.study.papers import paper_file
from bqrl.study.theory_runs import run_theory
from bqrl.study.theory_spec import read_theory


def theory(
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="NAME", help="coverage, bounds, hard, buffer or knapsack; may be given several times."
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="A first impression in half a minute, marked as such.")
    ] = False,
    settings: Annotated[Path | None, typer.Option(metavar="FILE", help="Settings (.toml) of your own.")] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Put the theory to the test: coverage, regret under its bounds, the hard family, buffers, possible returns."""
    spec = read_theory(paper_file("theory.toml") if settings is None else settings, quick)
    names = spec.chosen(only)
    folder = out if out is not None else Path("results") / (f"{spec.theory.name}_quick" if quick else spec.theory.name)
    check_folder(folder, [f"{name}.csv" for name in names])
    stored = _stored(folder, quick)
    with ProgressBar() as watch:
        found = run_theory(spec, names, watch)
        watch.phase("drawing")
        result, left_out = theory_result(spec, {**stored, **found})
        write(result, folder)
    for line in left_out:
        typer.echo(f"bqrl: {line}", err=True)
    if as_json:
        head = {"title": result.title, "settings": result.settings, "sentences": result.sentences}
        print_json({**head, **result.details})
        return
    console = paper()
    for name in names:
        console.print(f"{name}: {headline(name, found[name])}", style="bold", soft_wrap=True)
        for line in remarks(name, found[name]):
            console.print(f"  {line}", soft_wrap=True)
    console.print(f"Wrote {folder}; `bqrl report {folder}` makes a page of it.", soft_wrap=True)


def _stored(folder: Path, quick: bool) -> dict[str, Any]:
    """Experiments that the folder already holds; ValueError if a quick run would stand beside full ones."""
    try:
        there = read(folder)
    except (OSError, ValueError):
        return {}
    if there.kind != "theory":
        return {}
    if quick and not there.settings["quick"]:
        raise ValueError(f"{folder} holds the full experiments; give another folder for a quick run")
    return dict(there.details["experiments"]) if there.settings["quick"] == quick else {}
