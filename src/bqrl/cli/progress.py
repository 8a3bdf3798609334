"""Progress on standard error: a display at a terminal, plain lines elsewhere where a command asks for them."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar as Bar
from rich.table import Table
from rich.text import Text

from bqrl.study.runner import Engine
from bqrl.study.watch import Watch, clock

QUIET_SECONDS = 2.0  # before the display appears


class ProgressBar(Watch):
    """Appears at a terminal after two seconds and leaves no trace; `lines` are also printed where there is no terminal."""

    def __init__(self, *, lines: bool = False, notices: Iterable[str] = ()) -> None:
        self.console = Console(stderr=True, markup=False, highlight=False, emoji=False)
        self.notices = [*notices]  # printed once runs begin
        self.lines = lines or self.console.is_terminal
        self.phase("starting")
        self.display = Live(get_renderable=self._render, console=self.console, refresh_per_second=10, transient=True)
        self._timer = threading.Timer(QUIET_SECONDS, self.display.start)
        self._timer.daemon = True

    def __enter__(self) -> ProgressBar:
        if self.console.is_terminal:
            self._timer.start()
        return self

    def __exit__(self, *fault: object) -> None:
        self._timer.cancel()
        if self.console.is_terminal:
            self._timer.join()  # the display may be starting
            self.display.stop()

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
        while self.notices:
            typer.echo(f"bqrl: {self.notices.pop(0)}", err=True)
        self.engine = engine

    def _render(self) -> Group:
        if self.engine is not None:
            return engine_display(self.engine)
        elapsed, left = time.monotonic() - self.begun, None
        if self.total and self.done and elapsed > QUIET_SECONDS:
            left = elapsed * (self.total - self.done) / self.done
        return _with_bar(f"{self.text}, {clock(elapsed, left)}", self.done, self.total)


def engine_display(state: Engine) -> Group:
    """The progress of an engine: a bar that counts episodes and, if there are several jobs, a table of them."""
    done, total = state.episodes()
    head = f"{100 * done / max(1, total):.0f} % of {total} episodes, {clock(state.seconds, state.seconds_left())}"
    if len(state.jobs) == 1:
        return _with_bar(f"{state.jobs[0].label}: {head}", done, total)
    jobs = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("learner", "now", "runs", "best so far"):
        jobs.add_column(title, no_wrap=True, overflow="ellipsis", justify="right" if title == "runs" else "left")
    for job in state.jobs:
        now = "failed" if job.failed else "finished" if job.over else job.phase
        style = "red" if job.failed else "dim" if job.over else ""
        jobs.add_row(Text(job.label), Text(now), f"{job.runs}/{job.total_runs}", Text(job.best), style=style)
    return _with_bar(head, done, total, jobs)


def _with_bar(text: str, done: int, total: int | None, *more: Any) -> Group:
    bar = Table.grid()  # a bar alone does not end its line
    bar.add_row(Bar(total=total, completed=done, width=60, pulse=total is None))
    return Group(Text(text), bar, *more)
