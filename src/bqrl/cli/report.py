"""`bqrl report`: the page of a result folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bqrl.cli.output import Json, Out, print_json
from bqrl.results.folder import Folder
from bqrl.results.page import PAGE, page
from bqrl.results.result import add_files, check_folder, read

GENERATED = 160  # bytes in which a page of ours names its generator


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder that solve, learn, compare, theory or reproduce wrote.")
    ],
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Make a self-contained page, report.html, from a result folder."""
    result = read(folder)
    if out is None:
        check_folder(folder, [PAGE])
        add_files(folder, {PAGE: page(result).encode()})
    else:
        Folder(out).write_one(PAGE, page(result).encode(), GENERATED)
    place = (folder if out is None else out) / PAGE
    if as_json:
        print_json({"page": str(place)})
    else:
        typer.echo(f"wrote {place}")
