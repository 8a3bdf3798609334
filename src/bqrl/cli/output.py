"""What every command takes, how it ends, and text on terminals and in pipes."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import Annotated, Any

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text
from typer import Option

from bqrl.errors import ArgumentError
from bqrl.results.page import PAGE, is_text
from bqrl.results.result import RESULT, Result, Table, plain, write
from bqrl.results.words import displayed

PIPED_WIDTH = 140  # columns where no window limits them
SPACE = 2  # between the columns of a table
OUT = "Folder for the result's files; by default results/NAME of the study, results/NAME_quick with --quick."


def _folder(given: str) -> Path:
    if not given.strip():
        raise typer.BadParameter("it is empty; name a folder")
    return Path(given)


@dataclass(frozen=True, kw_only=True)
class Command:
    """What every command takes and how it ends. Fields are options, and `run` of a subclass carries the command out."""

    out: Annotated[Path | None, Option(metavar="DIR", parser=_folder, help="Folder for the result's files.")] = None
    as_json: Annotated[bool, Option("--json", help="Print one JSON document and nothing else.")] = False

    def conclude(
        self, document: Any, result: Result | None, *, header: str = "", tables: Sequence[Table] = (), lines: Sequence[str] = ()
    ) -> None:  # fmt: skip
        """Write the result to --out, print the document or show header, tables and lines, and say what was left out."""
        if self.out is not None and result is not None:
            write(result, self.out)
        if self.as_json:
            print_json(document)
        else:
            show(header, tables, lines)
        if self.out is not None and result is not None:
            if not self.as_json:
                after = "" if find_spec("jinja2") else ' after: pip install "bqrl[plots]"'
                hint = f"`bqrl report {self.out}` creates a page from it{after}"
                hint = f"open {PAGE} first" if PAGE in result.files else hint
                typer.echo(f"Wrote {self.out}; {hint}.")
            warn(*result.left_out)


@dataclass(frozen=True, kw_only=True)
class StudyCommand(Command):
    """What commands take that always write a folder."""

    out: Annotated[Path | None, Option(metavar="DIR", parser=_folder, help=OUT)] = None
    quick: Annotated[bool, Option("--quick", help="Few and short runs, about a minute; marked as such.")] = False

    def folder(self, name: str) -> Path:
        """The folder, by default that of the study's name; refuses a quick run in the folder of a full one."""
        folder = self.out or Path("results") / (f"{name}_quick" if self.quick else name)
        full = False
        with suppress(OSError, ValueError, KeyError, TypeError):
            full = json.loads((folder / RESULT).read_bytes())["settings"]["quick"] is False
        if self.quick and full:
            raise ArgumentError(f"{folder} holds the results of a full run; give another folder for a quick run")
        return folder


def warn(*lines: str) -> None:
    """Print lines on standard error."""
    for line in lines:
        typer.echo(f"bqrl: {line}", err=True)


def print_json(document: Any) -> None:
    """Print one JSON document in ASCII, which every terminal and pipe can carry."""
    typer.echo(json.dumps(plain(document), indent=2, allow_nan=False))


def at_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def column_widths(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """Widths of the columns of a table that break no word, short columns widened first; empty if there is no room."""
    least = [max(cell_len(word) for text in column for word in (*text.split(), "")) for column in columns]
    more = [max(map(cell_len, column)) - width for column, width in zip(columns, least, strict=True)]
    spare = room - sum(least)
    for i in sorted(range(len(columns)), key=more.__getitem__) if spare >= 0 else ():
        more[i] = min(more[i], spare)
        spare -= more[i]
    return [*map(sum, zip(least, more, strict=True))] if spare >= 0 else []


def show(header: str = "", tables: Sequence[Table] = (), lines: Sequence[str] = ()) -> None:
    """Print a header, tables under their captions, and sentences, all as they stand: names may look like markup."""
    console = Console(markup=False, highlight=False, emoji=False, width=None if at_terminal() else PIPED_WIDTH)
    if header:
        console.print(header, style="italic", soft_wrap=True)
    filled = [table for table in tables if table.rows]
    for table in filled:
        titles, rows = displayed(table)
        if table.caption:
            console.print(fill(table.caption, console.width), style="italic", soft_wrap=True)
        grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
        columns = [*zip(titles, *rows, strict=True)]
        widths = column_widths(columns, console.width - SPACE * (len(columns) - 1))
        for (title, *cells), width in zip(columns, widths, strict=False):
            grid.add_column(title, justify="left" if is_text(cells) else "right", width=width)
        for row in rows:
            grid.add_row(*map(Text, row))
        if widths:
            console.print(grid)
        else:
            console.print(*("\n".join(map(": ".join, zip(titles, row, strict=True))) for row in rows), sep="\n\n")
        console.print(end="\n" if lines or table is not filled[-1] else "")
    for line in lines:
        console.print(fill(line, console.width, break_on_hyphens=False), soft_wrap=True)
