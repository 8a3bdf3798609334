"""Shared options and console output of the commands."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from textwrap import fill
from typing import Annotated

import typer
from rich import box
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text
from typer import Option

from bqrl.results.page import PAGE, is_text
from bqrl.results.result import ResultTable, Shown, to_plain, write
from bqrl.results.words import display_table

PIPED_WIDTH = 140  # characters per line if the output is not a terminal
SPACE = 2  # characters between the columns of a table


def folder_option(given: str) -> Path:
    """Return the folder that an option names."""
    if not given.strip():
        raise typer.BadParameter("it is empty; name a folder")
    return Path(given)


@dataclass(frozen=True, kw_only=True)
class Command:
    """A command with the options that all commands share. Fields are options; `run` of a subclass executes the command."""

    out: Annotated[Path | None, Option(metavar="DIR", parser=folder_option, help="Folder for the result's files.")] = (
        None
    )
    as_json: Annotated[bool, Option("--json", help="Print one JSON document and nothing else.")] = False

    def conclude(self, shown: Shown) -> None:
        """Write the result to --out, print the JSON document or the header, tables and lines, and report what was left out."""
        result = shown.result
        if self.out is not None and result is not None:
            write(result, self.out)
        if self.as_json:
            typer.echo(json.dumps(to_plain(shown.document), indent=2, allow_nan=False))  # ASCII works in every pipe
        else:
            show(shown.header, shown.tables, shown.lines)
        if self.out is not None and result is not None:
            if not self.as_json:
                after = "" if find_spec("jinja2") else ' after: pip install "bqrl[plots]"'
                hint = f"`bqrl report {self.out}` creates a page from it{after}"
                hint = f"open {PAGE} first" if PAGE in result.files else hint
                typer.echo(f"Wrote {self.out}; {hint}.")
            warn(*result.left_out)


def warn(*lines: str) -> None:
    """Print lines to standard error."""
    for line in lines:
        typer.echo(f"bqrl: {line}", err=True)


def at_terminal() -> bool:
    """Whether standard output is a terminal."""
    return sys.stdout is not None and sys.stdout.isatty()


def column_widths(columns: Sequence[Sequence[str]], room: int) -> list[int]:
    """Column widths that fit into `room` and break no word; the widest column is narrowed first. Empty if none fit."""
    widths = [max(map(cell_len, column)) for column in columns]
    least = [max(cell_len(word) for text in column for word in (*text.split(), "")) for column in columns]
    while sum(widths) > room and widths != least:
        widths[max(range(len(widths)), key=lambda i: (widths[i] > least[i], widths[i]))] -= 1
    return widths if sum(widths) <= room else []


def show(header: str = "", tables: Sequence[ResultTable] = (), lines: Sequence[str] = ()) -> None:
    """Print a header, tables with captions, and sentences, without markup: a name may look like markup."""
    console = Console(markup=False, highlight=False, emoji=False, width=None if at_terminal() else PIPED_WIDTH)
    if header:
        console.print(header, style="italic", soft_wrap=True)
    filled = [(table, *display_table(table)) for table in tables if table.rows]
    for table, titles, rows in filled:
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
        console.print(end="\n" if lines or table is not filled[-1][0] else "")
    for line in lines:
        console.print(fill(line, console.width, break_on_hyphens=False), soft_wrap=True)
