"""`bqrl report`: the page of a result folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument

from bqrl.cli.output import Command
from bqrl.results.page import PAGE, page
from bqrl.results.result import add_files, read


@dataclass(frozen=True, kw_only=True)
class Report(Command):
    """Make a self-contained page, report.html, from a result folder."""

    folder: Annotated[Path, Argument(metavar="DIR", help="A folder that a command wrote with --out.")]

    def run(self) -> None:
        """Make the page, in the folder itself or in that of --out."""
        content, folder = page(read(self.folder)).encode(), self.out or self.folder
        add_files(folder, {PAGE: content})
        self.conclude({"page": str(folder / PAGE)}, None, header=f"Wrote {folder / PAGE}")
