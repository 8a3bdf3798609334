"""`bqrl report`: a page from a result folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bqrl.cli.output import Json, Out


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder that solve, learn, compare, theory or reproduce wrote.")
    ],
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Make a self-contained page, report.html, from a result folder."""
    from bqrl.experiments.store import RUNS
    from bqrl.reports.document import to_json
    from bqrl.reports.folder import make_folder, try_folder
    from bqrl.reports.page import write_page
    from bqrl.reports.study_page import RESULTS, write_study

    if out is not None:
        try_folder(out)
    if (folder / RESULTS).is_file():  # a study: its figures are drawn anew, too
        page, left_out = write_study(folder, None if out is None else make_folder(out))
        for line in left_out:
            typer.echo(f"bqrl: {line}", err=True)
    elif (folder / RUNS).is_dir():
        raise FileNotFoundError(f"the study in {folder} is not finished; the command that began it continues it")
    else:
        page = write_page(folder, out)
    typer.echo(to_json({"page": str(page)}, ascii_only=True) if as_json else f"wrote {page}")
