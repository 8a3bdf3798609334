"""`bqrl report`: the page of a result folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from bqrl.cli.output import Json, Out, print_json


def report(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="A folder that solve, learn, compare, theory or reproduce wrote.")
    ],
    out: Out = None,
    as_json: Json = False,
) -> None:
    """Make a self-contained page, report.html, from a result folder."""
    from bqrl.results.page import PAGE, page
    from bqrl.results.result import add_files, check_folder, read
    from bqrl.results.result import write_file as write_one

    result = read(folder)
    if out is None:
        check_folder(folder, [PAGE])
        add_files(folder, {PAGE: page(result).encode()})
    else:
        write_one(out, PAGE, page(result).encode())
    place = (folder if out is None else out) / PAGE
    if as_json:
        print_json({"page": str(place)})
    else:
        typer.echo(f"wrote {place}")
