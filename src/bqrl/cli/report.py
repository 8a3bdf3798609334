"""`bqrl report`: the page of a result folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from typer import Argument

from bqrl.cli.output import Command
from bqrl.results.report import report
from bqrl.results.result import Shown


@dataclass(frozen=True, kw_only=True)
class Report(Command):
    """Make a self-contained page, report.html, from a result folder."""

    folder: Annotated[Path, Argument(metavar="DIR", help="A folder that a command wrote with --out.")]

    def run(self) -> None:
        """Make the page, in the folder itself or in that of --out."""
        written = report(self.folder, self.out or self.folder)
        self.conclude(Shown({"page": str(written)}, header=f"Wrote {written}"))
