"""`bqrl reproduce`: the paper's numerical study, or any other study from its settings file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from bqrl.cli.output import Json, Out, paper

if TYPE_CHECKING:
    from bqrl.experiments.study import FailedRunsError
    from bqrl.experiments.workers import Workers

MAX_LISTED = 50  # failed runs; the log has all


def reproduce(
    quick: Annotated[bool, typer.Option("--quick", help="A first look in about a minute, marked as such.")] = False,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Processes on this machine; all cores unless given.")
    ] = None,
    cluster: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Run on the Dask scheduler at ADDRESS.")
    ] = None,
    study: Annotated[Path | None, typer.Option(metavar="FILE", help="Settings (.toml) of another study.")] = None,
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Run the paper's study: tuning, held-out runs, further seeds, tables, figures, a page. Continues where it stopped."""
    from bqrl.cli.study_watch import StudyWatch
    from bqrl.experiments.reproduce import paper_study
    from bqrl.experiments.reproduce import reproduce as carry_out
    from bqrl.experiments.settings import read_spec
    from bqrl.experiments.study import FailedRunsError
    from bqrl.reports.document import to_json
    from bqrl.reports.folder import make_folder
    from bqrl.reports.study_page import write_study

    if cluster is not None and workers is not None:
        raise ValueError(
            "--workers counts processes of this machine, --cluster uses those of another; give one of them"
        )
    settings = paper_study() if study is None else study
    name = "ucb_bqrl" if study is None else study.stem
    folder = out if out is not None else Path("results") / (f"{name}_quick" if quick else name)
    read_spec(settings, quick)  # what is wrong with it is said before a folder is made
    make_folder(folder)
    try:
        with StudyWatch(silent=as_json) as watch:
            found = carry_out(settings, folder, quick=quick, workers=_workers(workers, cluster), watch=watch)
            watch.say("drawing the figures and the page")
            page, left_out = write_study(folder)
            for line in left_out:
                watch.say(line)
    except KeyboardInterrupt:
        typer.echo(f"bqrl: stopped; finished runs are kept in {folder}, and the same command continues", err=True)
        raise
    except FailedRunsError as fault:
        _list_failures(fault, folder)
        raise typer.Exit(1) from None
    if as_json:
        typer.echo(to_json(found, ascii_only=True))
    else:
        tell(found, folder, page)


def _workers(workers: int | None, cluster: str | None) -> Workers:
    if cluster is not None:
        from bqrl.experiments.cluster import ClusterWorkers

        return ClusterWorkers(cluster)
    from bqrl.experiments.workers import LocalWorkers

    return LocalWorkers(workers)


def _list_failures(fault: FailedRunsError, folder: Path) -> None:
    from bqrl.experiments.log import LOG

    count = len(fault.failures)
    typer.echo(f"bqrl: {count} {'run' if count == 1 else 'runs'} failed; all others are kept in {folder}:", err=True)
    for one in fault.failures[:MAX_LISTED]:
        typer.echo(f"  {one.run}: {one.text}", err=True)
    if count > MAX_LISTED:
        typer.echo(f"  and {count - MAX_LISTED} more", err=True)
    typer.echo(
        f"bqrl: no tables were written; {folder / LOG} has the details, and the same command tries again", err=True
    )


def tell(found: dict[str, Any], folder: Path, page: Path) -> None:
    """Print what the study found, short."""
    from rich.table import Table

    from bqrl.experiments.run import in_words

    console = paper()
    if found["quick"]:
        console.print(found["mark"], style="bold")
    if found["comparison"]:
        table = Table(title="Printed numbers and ours (mean of the held-out seeds; mean and spread of further seeds)")
        for column in ("where", "tau", "learner", "measure", "printed", "ours", "further seeds"):
            table.add_column(
                column, justify="right" if column in ("tau", "printed", "ours", "further seeds") else "left"
            )
        for row in found["comparison"]:
            further = f"{row['further_mean']:.2f} ± {row['further_std']:.2f}" if "further_mean" in row else ""
            ours = "none" if row["ours"] is None else f"{row['ours']:.2f}" if further else f"{row['ours']}"
            printed = f"{row['printed']:.2f}" if further else f"{row['printed']:g}"
            table.add_row(row["where"], f"{row['level']:g}", row["label"], row["measure"], printed, ours, further)
        console.print(table)
    for key, levels in found["tuning"].items():
        for tau, one in levels.items():
            if one["at_edge"] is not None:
                console.print(f"{key}, tau {tau}: {one['told']}")
    session = found["session"]
    made, skipped = session["runs_made"], session["runs_skipped"]
    console.print(f"{made} runs made, {skipped} skipped because they were there; {in_words(session['seconds'])}.")
    console.print(
        f"Wrote {folder}; {page.name} shows it, results.json has every number with its reason.", soft_wrap=True
    )
