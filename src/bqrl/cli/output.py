"""What commands share: where text goes, and the options that every command takes."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

if TYPE_CHECKING:
    from rich.console import Console


def _folder(given: str) -> Path:
    if not given.strip():
        raise typer.BadParameter("it is empty; name a folder")
    return Path(given)


Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", parser=_folder, help="Folder for the result's files.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
PIPED_WIDTH = 140  # columns where nobody's window limits them


def looked_at(stream: TextIO | None) -> bool:
    """Whether somebody sits at the other end."""
    return stream is not None and stream.isatty()


def paper(*, error: bool = False) -> Console:
    """A console that prints text as it stands: names may look like markup."""
    from rich.console import Console

    stream = sys.stderr if error else sys.stdout  # None where the caller has closed it
    width = None if looked_at(stream) else PIPED_WIDTH
    return Console(stderr=error, markup=False, highlight=False, emoji=False, width=width)


def say(console: Console, text: str, *, indent: str = "", style: str | None = None) -> None:
    """Print a sentence over as many lines as it takes, none with blanks at its end."""
    from rich.text import Text

    for line in Text(text).wrap(console, max(20, console.width - len(indent))):
        console.print(f"{indent}{line.plain.rstrip()}", style=style, soft_wrap=True)
