"""`bqrl theory`: experiments that compare the theory with runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bqrl.cli.output import Json, Out, conclude, study_folder
from bqrl.cli.progress import ProgressBar
from bqrl.experiments.suite import EXPERIMENTS, FILE, run_theory, stored_experiments, theory_result
from bqrl.results.result import chart_files, check_folder
from bqrl.study.papers import paper_file
from bqrl.study.settings import read_settings

*FIRST, LAST = EXPERIMENTS
ONLY = f"{', '.join(FIRST)} or {LAST}; may be given several times."


def theory(
    only: Annotated[list[str] | None, typer.Option("--only", metavar="NAME", help=ONLY)] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Few and short runs, about a minute; marked as such.")] = False,
    settings: Annotated[Path | None, typer.Option(metavar="FILE", help="Settings (.toml) of your own.")] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Compare the theory with runs: coverage, regret and its bounds, the hard family, buffers, possible returns."""
    spec = read_settings(paper_file("theory.toml") if settings is None else settings, FILE, quick=quick)
    names = spec.chosen(only)
    folder = study_folder(out, spec.theory.name, quick=quick)
    stems = [stem for name in names for stem in EXPERIMENTS[name].captions]  # charts have the names of tables
    check_folder(folder, [*(f"{stem}.csv" for stem in stems), *chart_files(stems)])
    stored = stored_experiments(folder, quick)
    with ProgressBar() as watch:
        found = run_theory(spec, names, watch)
        watch.phase("drawing")
        result = theory_result(spec, {**stored, **found})
    head = {"title": result.title, "settings": result.settings, "sentences": result.sentences}
    document = {**head, **result.details}
    conclude(document, lambda _: result, folder, as_json=as_json, lines=[line.text for line in result.lines])
