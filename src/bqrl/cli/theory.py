"""`bqrl theory`: experiments that show the theory at work."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from bqrl.cli.output import Json, Out, paper
from bqrl.cli.watch import ProgressBar


def theory(
    only: Annotated[
        list[str] | None,
        typer.Option(
            "--only", metavar="NAME", help="coverage, bounds, hard, buffer or knapsack; may be given several times."
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A first look in half a minute, marked as such.")] = False,
    settings: Annotated[Path | None, typer.Option(metavar="FILE", help="Settings (.toml) of your own.")] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Put the theory to the test: coverage, regret under its bounds, the hard family, buffers, possible returns."""
    from bqrl.experiments.theory import chosen, paper_theory, read_theory, run_theory
    from bqrl.reports.document import to_json
    from bqrl.reports.folder import make_folder
    from bqrl.reports.theory_folder import check_folder, theory_document, write_theory

    spec = read_theory(paper_theory() if settings is None else settings, quick)
    names = chosen(spec, only)
    folder = out if out is not None else Path("results") / (f"{spec.name}_quick" if quick else spec.name)
    kept = check_folder(make_folder(folder), quick)
    with ProgressBar() as watch:
        found = run_theory(spec, names, watch)
        watch.phase("drawing")
        content = theory_document(found, {"title": spec.title, "seed": spec.seed, "quick": quick})
        left_out = write_theory(content, folder, kept)
    for line in left_out:
        typer.echo(f"bqrl: {line}", err=True)
    if as_json:
        typer.echo(to_json(content, ascii_only=True))
    else:
        _tell(content, names, folder)


def _tell(content: dict[str, Any], names: list[str], folder: Path) -> None:
    console = paper()
    if content["mark"]:
        console.print(content["mark"], style="bold")
    for name in names:
        found = content["experiments"][name]
        console.print(f"{name}: {found['headline']}", style="bold", soft_wrap=True)
        for line in found["remarks"]:
            console.print(f"  {line}", soft_wrap=True)
    console.print(f"Wrote {folder}; `bqrl report {folder}` makes a page of it.", soft_wrap=True)
