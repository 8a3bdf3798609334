"""The progress of a study: a live display at a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from bqrl.cli.output import paper
from bqrl.study.watch import Watch, in_words

if TYPE_CHECKING:
    from rich.console import Group

    from bqrl.study.runner import Engine

REFRESH_SECONDS = 0.5


class StudyWatch(Watch):
    """Shows the state of every learner, the time left, and the best configurations so far."""

    def __init__(self, *, silent: bool = False) -> None:
        self.console = paper(error=True)
        self.silent = silent
        self.live: Any = None
        self._shown = 0.0

    def __enter__(self) -> StudyWatch:
        if not self.silent and self.console.is_terminal:
            from rich.live import Live

            self.live = Live(console=self.console, auto_refresh=False, transient=True)
            self.live.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self.live is not None:
            self.live.stop()

    def say(self, text: str) -> None:
        """A line above the display."""
        if not self.silent:
            self.console.print(text, soft_wrap=True)

    def step(self, text: str) -> None:
        """A line where there is no display."""
        if self.live is None:
            self.say(text)

    def show(self, state: Engine) -> None:
        """Refresh the display."""
        if self.live is not None and time.monotonic() - self._shown > REFRESH_SECONDS:
            self._shown = time.monotonic()
            self.live.update(display(state), refresh=True)


def display(state: Engine) -> Group:
    """The state of a study."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.table import Table
    from rich.text import Text

    done, total = state.episodes()
    left = state.seconds_left()
    head = f"{100 * done / max(1, total):.0f} % of {total} episodes, {in_words(state.seconds)} elapsed"
    head += ", measuring" if left is None else f", about {in_words(left)} left"
    jobs = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("learner", "now", "runs", "best so far"):
        jobs.add_column(title, no_wrap=True, overflow="ellipsis", justify="right" if title == "runs" else "left")
    for job in state.jobs:
        now = "failed" if job.failed else "finished" if job.over else job.phase
        style = "red" if job.failed else "dim" if job.over else ""
        jobs.add_row(Text(job.label), Text(now), f"{job.runs}/{job.total_runs}", Text(job.best), style=style)
    bar = Table.grid()  # a bar alone does not end its line
    bar.add_row(ProgressBar(total=max(1, total), completed=done, width=60))
    return Group(Text(head), bar, jobs)
