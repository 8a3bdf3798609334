"""What the commands share that play many runs: a folder of their own, and how to continue after an interruption."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from bqrl.cli.output import Command, folder_option, warn
from bqrl.errors import ArgumentError
from bqrl.results.result import RESULT
from bqrl.study.runner import FailedRunsError
from bqrl.study.store import LOG

OUT = "Folder for the result's files; by default results/STUDY, or results/STUDY_quick with --quick."


@dataclass(frozen=True, kw_only=True)
class StudyCommand(Command):
    """A command that always writes a folder, with its shared options."""

    out: Annotated[Path | None, Option(metavar="DIR", parser=folder_option, help=OUT)] = None
    quick: Annotated[
        bool, Option("--quick", help="Few, short runs (about a minute); the result is marked as quick.")
    ] = False

    def folder(self, name: str) -> Path:
        """The folder, by default results/NAME; raises ArgumentError for a quick run in the folder of a full run."""
        folder = self.out or Path("results") / (f"{name}_quick" if self.quick else name)
        full = False
        with suppress(OSError, ValueError, KeyError, TypeError):
            full = json.loads((folder / RESULT).read_bytes())["settings"]["quick"] is False
        if self.quick and full:
            raise ArgumentError(f"{folder} holds the results of a full run; give another folder for a quick run")
        return folder


@contextmanager
def explain_resuming(folder: Path | None) -> Iterator[None]:
    """Tell the user how to continue if the command is interrupted or runs fail; finished runs are stored in the folder."""
    try:
        yield
    except KeyboardInterrupt:
        if folder is not None:
            warn(f"stopped; finished runs are kept in {folder}, and the same command continues")
        raise
    except FailedRunsError as error:
        remedy = f"{folder}/{LOG} lists every failure, and the same command tries again"
        warn(str(error), f"no tables were written; {remedy}")
        raise typer.Exit(1) from None
