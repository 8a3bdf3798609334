"""Progress on standard error: a display at a terminal, plain lines elsewhere where a command asks for them."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar as Bar
from rich.table import Table
from rich.text import Text

from bqrl.cli.output import warn
from bqrl.study.runner import Engine
from bqrl.study.watch import Watch, clock

QUIET_SECONDS = 2.0  # before the display appears


class ProgressBar(Watch):
    """Appears at a terminal after two seconds and leaves no trace; `lines` are also printed where there is no terminal."""

    def __init__(self, *, lines: bool = False, notices: Iterable[str] = ()) -> None:
        self.console = Console(stderr=True, markup=False, highlight=False, emoji=False)
        self.live = self.console.is_terminal
        self.lines, self.notices = lines or self.live, [*notices]  # notices are printed once runs begin
        self.phase("starting")
        self.created = self.begun
        self.display = Live(get_renderable=self._render, console=self.console, refresh_per_second=10, transient=True)

    def __enter__(self) -> ProgressBar:
        if self.live:
            self.display.start()
        return self

    def __exit__(self, *fault: object) -> None:
        self.display.stop()

    def say(self, text: str, detail: int = 0) -> None:
        """A line above the display, or in its place."""
        if detail < 0 or (self.lines and detail <= (0 if self.live else 1)):
            self.console.print(text, soft_wrap=True, style="dim" if self.live else None)

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

    def _render(self) -> Text | Group:
        now, left = time.monotonic(), None
        if now - self.created < QUIET_SECONDS:
            return Text()
        if self.engine is not None:
            return engine_display(self.engine)
        if self.total and self.done and now - self.begun > QUIET_SECONDS:
            left = (now - self.begun) * (self.total - self.done) / self.done
        return _with_bar(f"{self.text}, {clock(now - self.begun, left)}", self.done, self.total)


def engine_display(state: Engine) -> Group:
    """The progress of an engine: a bar that counts episodes, and a table of its jobs."""
    done, total = state.episodes()
    jobs = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("learner", "now", "runs", "best so far"):
        jobs.add_column(title, no_wrap=True, overflow="ellipsis")
    for job in state.jobs:
        now = "failed" if job.failed else "finished" if job.over else job.phase
        jobs.add_row(*map(Text, (job.label, now, f"{job.runs}/{job.total_runs}", job.best)))
    share = f"{100 * done / max(1, total):.0f} % of {total} episodes"
    return _with_bar(f"{share}, {clock(state.seconds, state.seconds_left())}", done, total, jobs)


def _with_bar(text: str, done: int, total: int | None, *more: Any) -> Group:
    bar = Table.grid()  # a bar alone does not end its line
    bar.add_row(Bar(total=total, completed=done, width=60, pulse=total is None))
    return Group(Text(text), bar, *more)
