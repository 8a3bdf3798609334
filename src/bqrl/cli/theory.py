"""`bqrl theory`: experiments that compare the theory with runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bqrl.cli.output import Json, Out, paper, print_json
from bqrl.cli.progress import ProgressBar
from bqrl.results.result import check_folder, read, write
from bqrl.results.theory import VIEWS, theory_result
from bqrl.study.papers import paper_file
from bqrl.study.settings import read_settings
from bqrl.study.theory_runs import run_theory
from bqrl.study.theory_spec import EXPERIMENTS, TheorySpec

ONLY = f"{', '.join(EXPERIMENTS[:-1])} or {EXPERIMENTS[-1]}; may be given several times."


def theory(
    only: Annotated[list[str] | None, typer.Option("--only", metavar="NAME", help=ONLY)] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few and short runs, about a minute; marked as such.")] = False,
    settings: Annotated[Path | None, typer.Option(metavar="FILE", help="Settings (.toml) of your own.")] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Compare the theory with runs: coverage, regret and its bounds, the hard family, buffers, possible returns."""
    spec = read_settings(paper_file("theory.toml") if settings is None else settings, TheorySpec, quick=quick)
    names = spec.chosen(only)
    folder = out if out is not None else Path("results") / (f"{spec.theory.name}_quick" if quick else spec.theory.name)
    check_folder(folder, [f"{stem}.csv" for name in names for stem in VIEWS[name].captions])
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
        console.print(f"{name}: {VIEWS[name].headline(found[name])}", style="bold", soft_wrap=True)
        for line in VIEWS[name].remarks(found[name]):
            console.print(f"  {line}", soft_wrap=True)
    console.print(f"Wrote {folder}; `bqrl report {folder}` makes a page of it.", soft_wrap=True)


def _stored(folder: Path, quick: bool) -> dict[str, Any]:
    """Experiments that the folder already holds; ValueError if a quick run would replace full ones."""
    try:
        there = read(folder)
    except (OSError, ValueError):
        return {}
    if there.kind != "theory":
        return {}
    if quick and not there.settings["quick"]:
        raise ValueError(f"{folder} holds the full experiments; give another folder for a quick run")
    experiments = there.details["experiments"] if there.settings["quick"] == quick else {}
    return {name: one for name, one in experiments.items() if "tables" in one}  # earlier versions stored no tables
