"""The progress display of long calls, on standard error: of the commands, of `learn` and of `compare`."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar as Bar
from rich.table import Table as Grid
from rich.text import Text

from bqrl.checks import flag
from bqrl.display import Watch, clock

QUIET_SECONDS = 2.0  # before progress is shown


def progress_bar(shown: bool | None) -> AbstractContextManager[Watch]:
    """Return the display for the argument `progress` of a call; None shows it if standard error is a terminal."""
    wanted = sys.stderr.isatty() if shown is None else flag(shown, "progress")
    return ProgressBar() if wanted else nullcontext(Watch())


class ProgressBar(Watch, Live):
    """Progress at a terminal: transient, shown after two seconds. With `lines`, reports are printed without a terminal, too."""

    def __init__(self, *, lines: bool = False, notices: Iterable[str] = ()) -> None:
        self.notices = [*notices]  # printed once runs begin
        self.phase("starting")
        self.created = self.begun
        console = Console(stderr=True, markup=False, highlight=False, emoji=False)
        self.lines = lines or console.is_terminal
        Live.__init__(self, console=console, auto_refresh=console.is_terminal, refresh_per_second=10, transient=True)

    def say(self, text: str, detail: int = 0) -> None:
        """Print a line above the display, or instead of it if there is no terminal."""
        live = self.console.is_terminal
        if detail < 0 or (self.lines and detail <= (0 if live else 1)):
            self.console.print(text, soft_wrap=True, style="dim" if live else None)

    def phase(self, text: str, total: int | None = None) -> None:
        """Begin a phase of `total` steps."""
        self.engine: Any = None
        self.text, self.total, self.done, self.begun = text, total, 0, time.monotonic()

    def tick(self, *_: object) -> None:
        """Count one more step."""
        self.done += 1

    def show(self, engine: Any) -> None:
        """Show the runs of an engine; the display looks up their progress."""
        for notice in self.notices:
            print(f"bqrl: {notice}", file=sys.stderr)
        self.notices, self.engine = [], engine

    def get_renderable(self) -> Grid:
        """The display: one line with a bar per part of the work."""
        table, cell = Grid.grid(padding=(0, 2, 0, 0)), partial(Text, no_wrap=True, overflow="ellipsis")
        for text, done, total, state in self._parts() if time.monotonic() - self.created >= QUIET_SECONDS else ():
            table.add_row(cell(text), Bar(total=total, completed=done, width=10, pulse=total is None), cell(state))
        return table

    def _parts(self) -> Iterator[tuple[str, int, int | None, str]]:
        """Lines of the display (text, steps done, number of steps, state): the phase, or an engine and each of its jobs."""
        if self.engine is None:
            seconds, left = time.monotonic() - self.begun, None
            if self.total and self.done and seconds > QUIET_SECONDS:
                left = seconds * (self.total - self.done) / self.done
            yield self.text, self.done, self.total, clock(seconds, left)
            return
        done, total = self.engine.episodes()
        yield f"{total} episodes", done, total, clock(self.engine.seconds, self.engine.seconds_left())
        for job in self.engine.jobs:
            now = "failed" if job.failed else "finished" if job.over else job.phase
            best = f"; best so far: {job.best}" if job.best else ""
            yield job.label, job.runs, job.total_runs, f"{job.runs}/{job.total_runs} runs, {now}{best}"
