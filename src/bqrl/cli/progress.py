"""Progress on standard error: a display at a terminal, plain lines elsewhere where a command asks for them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from functools import partial

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar as Bar
from rich.table import Table
from rich.text import Text

from bqrl.cli.output import warn
from bqrl.study.runner import Engine, Watch, clock

QUIET_SECONDS = 2.0  # before the display appears


class ProgressBar(Watch, Live):
    """Appears at a terminal after two seconds and leaves no trace; `lines` are also printed where there is no terminal."""

    def __init__(self, *, lines: bool = False, notices: Iterable[str] = ()) -> None:
        self.notices = [*notices]  # printed once runs begin
        self.phase("starting")
        self.created = self.begun
        console = Console(stderr=True, markup=False, highlight=False, emoji=False)
        self.lines = lines or console.is_terminal
        Live.__init__(self, console=console, auto_refresh=console.is_terminal, refresh_per_second=10, transient=True)

    def say(self, text: str, detail: int = 0) -> None:
        """A line above the display, or in its place."""
        live = self.console.is_terminal
        if detail < 0 or (self.lines and detail <= (0 if live else 1)):
            self.console.print(text, soft_wrap=True, style="dim" if live else None)

    def phase(self, text: str, total: int | None = None) -> None:
        """What is being done now, and in how many steps."""
        self.engine: Engine | None = None
        self.text, self.total, self.done, self.begun = text, total, 0, time.monotonic()

    def tick(self, *_: object) -> None:
        """One more step is done."""
        self.done += 1

    def show(self, engine: Engine) -> None:
        """What is being done now: the runs of an engine, whose progress the display looks up by itself."""
        warn(*self.notices)
        self.notices, self.engine = [], engine

    def get_renderable(self) -> Table:
        """The display: one line with a bar for each part of the work."""
        table, cell = Table.grid(padding=(0, 2, 0, 0)), partial(Text, no_wrap=True, overflow="ellipsis")
        for text, done, total, state in self._parts() if time.monotonic() - self.created >= QUIET_SECONDS else ():
            table.add_row(cell(text), Bar(total=total, completed=done, width=10, pulse=total is None), cell(state))
        return table

    def _parts(self) -> Iterator[tuple[str, int, int | None, str]]:
        """The phase, or all runs of an engine and each of its jobs: text, steps done, number of steps, state."""
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
