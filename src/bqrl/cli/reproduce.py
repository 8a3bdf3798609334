"""`bqrl reproduce`: the paper's numerical study, or any other study from its settings file."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from bqrl.cli.output import Json, Out, paper, print_json, show_table
from bqrl.cli.progress import ProgressBar
from bqrl.results.page import PAGE, page
from bqrl.results.result import Result, Table, add_files, check_folder, write
from bqrl.results.study_view import StudyView
from bqrl.study.cluster import ClusterWorkers
from bqrl.study.papers import paper_file, paper_view
from bqrl.study.runner import FailedRunsError
from bqrl.study.spec import read_spec
from bqrl.study.study import LOG, run_study
from bqrl.study.tables import file_name, level_name
from bqrl.study.watch import in_words
from bqrl.study.workers import LocalWorkers

MAX_LISTED = 50  # failed runs; the log has all


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
    name = "ucb_bqrl" if study is None else settings.stem
    folder = out if out is not None else Path("results") / (f"{name}_quick" if quick else name)
    levels = [f"{file_name(spec.problem.name)}_tau{level_name(tau)}_plot.csv" for tau in spec.levels]
    check_folder(folder, [PAGE, *levels])
    _check_quick(folder, quick)
    pool = LocalWorkers(workers) if cluster is None else ClusterWorkers(cluster)
    try:
        with ProgressBar(lines=not as_json) as watch:
            finished = run_study(spec, folder, pool, watch)
            watch.phase("drawing the charts and the page")
            view = paper_view().View if settings.resolve() == own.resolve() else StudyView
            result = view(finished).result()
            left_out = result.left_out
            write(result, folder)
            try:
                add_files(folder, {PAGE: page(result).encode()})
            except ImportError as error:
                left_out = [str(error)]
            for line in left_out:
                watch.say(line)
    except KeyboardInterrupt:
        typer.echo(f"bqrl: stopped; finished runs are kept in {folder}, and the same command continues", err=True)
        raise
    except FailedRunsError as error:
        _list_failures(error, folder)
        raise typer.Exit(1) from None
    if as_json:
        print_json({"settings": result.settings, "sentences": result.sentences, **result.details})
    else:
        _show(result, folder)


def _check_quick(folder: Path, quick: bool) -> None:
    """Refuse a quick run in the folder of a whole study."""
    try:
        whole = json.loads((folder / "result.json").read_bytes())["settings"]["quick"] is False
    except (OSError, ValueError, KeyError, TypeError):
        return
    if quick and whole:
        raise ValueError(f"{folder} holds the results of a whole study; give another folder for a quick run")


def _list_failures(error: FailedRunsError, folder: Path) -> None:
    """Print one line per failed run."""
    count = len(error.failures)
    lines = [f"bqrl: {count} {'run' if count == 1 else 'runs'} failed; all others are kept in {folder}:"]
    lines += [f"  {one.run}: {one.message}" for one in error.failures[:MAX_LISTED]]
    lines += [f"  and {count - MAX_LISTED} more"] if count > MAX_LISTED else []
    lines += [f"bqrl: no tables were written; {folder / LOG} has the details, and the same command tries again"]
    typer.echo("\n".join(lines), err=True)


def _show(result: Result, folder: Path) -> None:
    """Print what the study found, in short."""
    console = paper()
    if "printed_numbers" in result.tables:
        console.print("Printed numbers and ours (mean of the held-out seeds; mean and spread of further seeds)")
        show_table(console, Table([_numbers(row) for row in result.tables["printed_numbers"].rows]))
        console.print()
    for sentence in result.sentences:
        console.print(str(sentence))
    session: dict[str, Any] = result.details["session"]
    console.print(
        f"{session['runs_made']} runs made, {session['runs_skipped']} skipped because they were finished before;"
        f" {in_words(session['seconds'])}."
    )
    console.print(
        f"Wrote {folder}; open report.html first. result.json has every number with its reason.", soft_wrap=True
    )


def _numbers(row: Mapping[str, Any]) -> dict[str, str]:
    """A printed number beside ours, for a table."""
    threshold = row["further_mean"] is None  # a whole number, without spread
    digits = "g" if threshold or row["ours"] is None else ".2f"
    ours = "none" if row["ours"] is None else f"{row['ours']:{digits}}"
    further = "" if threshold else f"{row['further_mean']:.2f} ± {row['further_std']:.2f}"
    head = {"where": row["where"], "tau": f"{row['level']:g}", "learner": row["label"]}
    return head | {"printed": f"{row['printed']:{digits}}", "ours": ours, "further seeds": further}
