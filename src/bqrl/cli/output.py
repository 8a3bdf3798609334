"""What commands share: the options that every command takes, and how a command ends."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, Literal, TextIO

import typer
from rich import box
from rich.console import Console
from rich.table import Table as Grid
from rich.text import Text

from bqrl.cli.progress import ProgressBar
from bqrl.results.page import PAGE, is_text
from bqrl.results.result import RESULT, Result, Table, plain, write
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
TEXT_WIDTH = 24  # columns that a text needs at least, if it is broken into lines


def is_terminal(stream: TextIO | None) -> bool:
    """Whether the stream is a terminal."""
    return stream is not None and stream.isatty()


def study_folder(out: Path | None, name: str, *, quick: bool) -> Path:
    """The folder of a study, by default results/NAME; refuses a quick run in the folder of a full one."""
    folder = out if out is not None else Path("results") / (f"{name}_quick" if quick else name)
    full = False
    with suppress(OSError, ValueError, KeyError, TypeError):
        full = json.loads((folder / RESULT).read_bytes())["settings"]["quick"] is False
    if quick and full:
        raise ValueError(f"{folder} holds the results of a full run; give another folder for a quick run")
    return folder


class Note(str):
    """A remark, which is printed in grey and indented."""

    __slots__ = ()


def conclude(
    document: Any, result: Callable[[ProgressBar], Result], out: Path | None, *, as_json: bool,
    header: str = "", table: Table | None = None, lines: Sequence[str] = (),
) -> None:  # fmt: skip
    """End a command: write the folder, print the document or show header, table and lines, and say what was left out."""
    made = None
    if out is not None:
        with ProgressBar() as watch:
            watch.phase("drawing")
            made = result(watch)
            watch.phase("writing")
            write(made, out)
    if as_json:
        print_json(document)
    else:
        show(header, table, lines)
    if made is None:
        return
    if not as_json:
        hint = f"open {PAGE} first" if PAGE in made.files else f"`bqrl report {out}` makes a page of it"
        typer.echo(f"Wrote {out}; {hint}.")
    for line in made.left_out:
        typer.echo(f"bqrl: {line}", err=True)


def print_json(document: Any) -> None:
    """Print one JSON document in ASCII, which every terminal and pipe can carry."""
    typer.echo(json.dumps(plain(document), indent=2, allow_nan=False))


def show(header: str = "", table: Table | None = None, lines: Sequence[str] = ()) -> None:
    """Print a header, a table and sentences as they stand: names may look like markup."""
    width = None if is_terminal(sys.stdout) else PIPED_WIDTH
    console = Console(markup=False, highlight=False, emoji=False, width=width)
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
    titles, cells = displayed(table)
    columns = list(zip(titles, zip(*cells, strict=True), strict=True))
    widths = [max(map(len, [title, *column])) for title, column in columns]
    if _excess(widths, console) > 0:  # titles over several lines
        widths = [max(map(len, [*title.split(), *column])) for title, column in columns]
    if _excess(widths, console) > 0:  # the longest text over several lines
        longest = widths.index(max(widths))
        widths[longest] = max(TEXT_WIDTH, widths[longest] - _excess(widths, console))
    if _excess(widths, console) > 0:
        for i, row in enumerate(cells):
            lines = [f"{title}: {cell}" for title, cell in zip(titles, row, strict=True)]
            console.print(*([""] if i else []), *lines, sep="\n")
        return
    grid = Grid(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for (title, column), width in zip(columns, widths, strict=True):
        side: Literal["left", "right"] = "left" if is_text(column) else "right"
        style = "bold" if title.startswith("quantile") else None
        grid.add_column(title, justify=side, style=style, header_style="bold", width=width)
    for row in cells:
        grid.add_row(*map(Text, row))
    console.print(grid)


def _excess(widths: Sequence[int], console: Console) -> int:
    """By how many columns a table is too wide."""
    return sum(widths) + 2 * (len(widths) - 1) - console.width
