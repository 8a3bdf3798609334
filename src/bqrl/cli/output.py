"""What commands share: the options that every command takes, and where text goes."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TextIO

import typer
from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from bqrl.errors import ArgumentError
from bqrl.results.result import Result, Table, plain
from bqrl.results.words import displayed


def _folder(given: str) -> Path:
    if not given.strip():
        raise typer.BadParameter("it is empty; name a folder")
    return Path(given)


Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", parser=_folder, help="Folder for the result's files.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
Title = Annotated[str | None, typer.Option("--title", help="Title of tables, charts and the page.")]
Unit = Annotated[str | None, typer.Option("--unit", help="Unit of the returns, such as EUR or QALY.")]
StageName = Annotated[str | None, typer.Option("--stage-name", help="What one stage is called, such as year.")]
PIPED_WIDTH = 140  # columns where no window limits them


def column_names(text: str | None) -> dict[str, str] | None:
    """Headers by role from the option --columns "state=from,next_state=to"."""
    if text is None:
        return None
    pairs = [[part.strip() for part in pair.partition("=")] for pair in text.split(",")]
    wrong = next(("".join(pair) for pair in pairs if not all(pair)), None)
    if wrong is not None:
        raise ArgumentError(
            f"--columns must hold ROLE=HEADER pairs, got {wrong[:60]!r}; write e.g. state=from,next_state=to",
            name="columns",
        )
    return {role: header for role, _, header in pairs}


def is_terminal(stream: TextIO | None) -> bool:
    """Whether the stream is a terminal."""
    return stream is not None and stream.isatty()


def paper(*, error: bool = False) -> Console:
    """A console that prints text as it stands: names may look like markup."""
    stream = sys.stderr if error else sys.stdout  # None if the caller has closed it
    width = None if is_terminal(stream) else PIPED_WIDTH
    return Console(stderr=error, markup=False, highlight=False, emoji=False, width=width)


def say(console: Console, text: str, *, indent: str = "", style: str | None = None) -> None:
    """Print a sentence over as many lines as it takes, without trailing blanks."""
    for line in Text(text).wrap(console, max(20, console.width - len(indent))):
        console.print(f"{indent}{line.plain.rstrip()}", style=style, soft_wrap=True)


def show_table(console: Console, table: Table, bold: str = "") -> None:
    """Print a table, or, on a screen that is too narrow for it, one line per number."""
    titles, cells = displayed(table)
    columns = list(zip(titles, zip(*cells, strict=True), strict=True))
    widths = [max(map(len, [title, *column])) for title, column in columns]
    if _across(widths) > console.width:  # titles over several lines
        widths = [max(map(len, [*title.split(), *column])) for title, column in columns]
    if _across(widths) > console.width:
        for i, row in enumerate(cells):
            lines = [f"{title}: {cell}" for title, cell in zip(titles, row, strict=True)]
            console.print(*([""] if i else []), *lines, sep="\n")
        return
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for (title, column), width in zip(columns, widths, strict=True):
        words = any(cell[:1].isalpha() and cell not in ("yes", "no") for cell in column)
        style = "bold" if bold and title.startswith(bold) else None
        grid.add_column(title, justify="left" if words else "right", style=style, header_style="bold", width=width)
    for row in cells:
        grid.add_row(*map(Text, row))
    console.print(grid)


def _across(widths: Sequence[int]) -> int:
    return sum(widths) + 2 * (len(widths) - 1)


def print_json(document: Any) -> None:
    """Print one JSON document in ASCII, which every terminal and pipe can carry."""
    typer.echo(json.dumps(plain(document), indent=2, allow_nan=False))


def finish(result: Result, out: Path, *, quiet: bool) -> None:
    """Say where the files are, and what was left out."""
    if not quiet:
        paper().print(f"Wrote {out}; `bqrl report {out}` makes a page of it.", soft_wrap=True)
    for line in result.left_out:
        typer.echo(f"bqrl: {line}", err=True)
