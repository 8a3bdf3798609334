"""`bqrl reproduce`: the paper's numerical study, or any other study from its settings file."""

from __future__ import annotations

import warnings
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from bqrl.cli.output import Json, Out, conclude, study_folder
from bqrl.cli.progress import ProgressBar
from bqrl.results.page import PAGE, page
from bqrl.results.result import Table, check_folder
from bqrl.results.study_view import StudyView
from bqrl.study.cluster import ClusterWorkers
from bqrl.study.papers import paper_file, paper_view
from bqrl.study.runner import FailedRunsError
from bqrl.study.spec import read_spec
from bqrl.study.store import LOG
from bqrl.study.study import run_study
from bqrl.study.watch import in_words
from bqrl.study.workers import LocalWorkers

MAX_LISTED = 50  # failed runs; the log has all
SHOWN = {
    "where": "where", "level": "level", "label": "label", "printed": "printed", "ours": "ours", "ours_std": "ours_std",
    "further seeds": "further_mean", "further seeds_std": "further_std",
}  # fmt: skip


def reproduce(
    quick: Annotated[
        bool, typer.Option("--quick", help="A first impression in about a minute, marked as such.")
    ] = False,
    workers: Annotated[int | None, typer.Option(help="Processes on this machine; all cores unless given.")] = None,
    cluster: Annotated[
        str | None,
        typer.Option(metavar="ADDRESS", help="Run on the Dask scheduler at ADDRESS (trusted networks only)."),
    ] = None,
    study: Annotated[Path | None, typer.Option(metavar="FILE", help="Settings (.toml) of another study.")] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Run the paper's study: tuning, held-out runs, further seeds, tables, charts, a page. Continues where it stopped."""
    if cluster is not None and workers is not None:
        raise ValueError("--workers counts processes of this machine, --cluster uses those of another; give only one")
    own = paper_file("study.toml")
    settings = own if study is None else study
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DeprecationWarning)
        spec = read_spec(settings, quick)
    for notice in caught:
        typer.echo(f"bqrl: {notice.message}", err=True)
    folder = study_folder(out, "ucb_bqrl" if study is None else settings.stem, quick=quick)
    view = paper_view().View if settings.resolve() == own.resolve() else StudyView
    check_folder(folder, [PAGE, *view.files(spec)])
    pool = LocalWorkers(workers) if cluster is None else ClusterWorkers(cluster)
    try:
        with ProgressBar(lines=not as_json) as watch:
            finished = run_study(spec, folder, pool, watch)
            watch.phase("drawing the charts and the page")
            result = view(finished).result()
            try:
                result = replace(result, files={**result.files, PAGE: page(result).encode()})
            except ImportError as error:
                result = replace(result, left_out=[*result.left_out, str(error)])
        printed = result.tables.get("printed_numbers", Table([]))
        session = finished.session
        done = f"{session['runs_made']} runs made, {session['runs_skipped']} skipped because they were finished before"
        conclude(
            {"settings": result.settings, "sentences": result.sentences, **result.details},
            lambda _: result,
            folder,
            as_json=as_json,
            header=printed.caption,
            table=Table([{name: row[key] for name, key in SHOWN.items()} for row in printed.rows], printed.titles),
            lines=[*(line.text for line in result.lines), f"{done}; {in_words(session['seconds'])}."],
        )
    except KeyboardInterrupt:
        typer.echo(f"bqrl: stopped; finished runs are kept in {folder}, and the same command continues", err=True)
        raise
    except FailedRunsError as error:
        _list_failures(error, folder)
        raise typer.Exit(1) from None


def _list_failures(error: FailedRunsError, folder: Path) -> None:
    """Print one line per failed run."""
    count = len(error.failures)
    lines = [f"bqrl: {count} {'run' if count == 1 else 'runs'} failed; all others are kept in {folder}:"]
    lines += [f"  {run}: {message}" for run, message in error.failures[:MAX_LISTED]]
    lines += [f"  and {count - MAX_LISTED} more"] if count > MAX_LISTED else []
    lines += [f"bqrl: no tables were written; {folder / LOG} has the details, and the same command tries again"]
    typer.echo("\n".join(lines), err=True)
