"""What every command takes, how it ends, and text on terminals and in pipes."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text
from typer import Option

from bqrl.errors import ArgumentError
from bqrl.results.page import PAGE, is_text
from bqrl.results.result import RESULT, Result, Table, plain, write
from bqrl.results.words import displayed

PIPED_WIDTH = 140  # columns where no window limits them
TEXT_WIDTH = 24  # columns that a text needs at least, if it is broken into lines


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
        self, document: Any, result: Result | None, *, header: str = "", table: Table | None = None, lines: Sequence[str] = ()
    ) -> None:  # fmt: skip
        """Write the result to --out, print the document or show header, table and lines, and say what was left out."""
        if self.out is not None and result is not None:
            write(result, self.out)
        if self.as_json:
            print_json(document)
        else:
            show(header, table, lines)
        if self.out is not None and result is not None:
            if not self.as_json:
                hint = f"open {PAGE} first" if PAGE in result.files else f"`bqrl report {self.out}` makes a page of it"
                typer.echo(f"Wrote {self.out}; {hint}.")
            warn(*result.left_out)


class Note(str):
    """A remark, which is printed in grey and indented."""


def study_folder(out: Path | None, name: str, *, quick: bool) -> Path:
    """The folder of a study, by default results/NAME; refuses a quick run in the folder of a full one."""
    folder = out if out is not None else Path("results") / (f"{name}_quick" if quick else name)
    full = False
    with suppress(OSError, ValueError, KeyError, TypeError):
        full = json.loads((folder / RESULT).read_bytes())["settings"]["quick"] is False
    if quick and full:
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


def show(header: str = "", table: Table | None = None, lines: Sequence[str] = ()) -> None:
    """Print a header, a table and sentences as they stand: names may look like markup."""
    console = Console(markup=False, highlight=False, emoji=False, width=None if at_terminal() else PIPED_WIDTH)
    if header:
        console.print(header, style="italic", soft_wrap=True)
    if table is not None and table.rows:
        _show_table(console, table)
        console.print(end="\n" if lines else "")
    for line in lines:
        indent, style = ("  ", "dim") if isinstance(line, Note) else ("", None)
        for part in Text(line).wrap(console, max(20, console.width - len(indent))):
            console.print(f"{indent}{part.plain.rstrip()}", style=style, soft_wrap=True)


def _show_table(console: Console, table: Table) -> None:
    """Print a table, or, on a screen that is too narrow for it, one line per number."""
    titles, rows = displayed(table)
    columns = list(zip(titles, zip(*rows, strict=True), strict=True))
    room = console.width - 2 * (len(columns) - 1)
    widths = [max(map(len, [title, *cells])) for title, cells in columns]
    if sum(widths) > room:  # titles over several lines, and the longest text, too
        widths = [max(map(len, [*title.split(), *cells])) for title, cells in columns]
        longest = widths.index(max(widths))
        widths[longest] = min(widths[longest], max(TEXT_WIDTH, widths[longest] + room - sum(widths)))
    if sum(widths) > room:
        records = ["\n".join(map(": ".join, zip(titles, row, strict=True))) for row in rows]
        console.print(*records, sep="\n\n")
        return
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0), header_style="bold")
    for (title, cells), width in zip(columns, widths, strict=True):
        grid.add_column(title, justify="left" if is_text(cells) else "right", width=width)
    for row in rows:
        grid.add_row(*map(Text, row))
    console.print(grid)
