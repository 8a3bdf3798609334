"""`bqrl report`: the page of a result folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from bqrl.cli.output import Command, print_json
from bqrl.results.folder import Folder
from bqrl.results.page import PAGE, page
from bqrl.results.result import add_files, read

GENERATED = 160  # bytes in which a page of ours names its generator


@dataclass(frozen=True, kw_only=True)
class Report(Command):
    """Make a self-contained page, report.html, from a result folder."""

    folder: Annotated[Path, typer.Argument(metavar="DIR", help="A folder that a command wrote with --out.")]

    def run(self) -> None:
        """Make the page, in the folder itself or in that of --out."""
        result = read(self.folder)
        if self.out is None:
            Folder(self.folder).check([PAGE])
            add_files(self.folder, {PAGE: page(result).encode()})
        else:
            Folder(self.out).write_one(PAGE, page(result).encode(), GENERATED)
        place = (self.out or self.folder) / PAGE
        if self.as_json:
            print_json({"page": str(place)})
        else:
            typer.echo(f"Wrote {place}")
