"""Progress at a terminal: an estimate before long work, and a progress bar after two seconds."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from bqrl.cli.output import paper
from bqrl.study.watch import Watch

if TYPE_CHECKING:
    from collections.abc import Mapping

    from bqrl.mdp.grid import Grid
    from bqrl.mdp.model import MDP

QUIET_SECONDS = 2.0
# Measured on two cores of 2024, in seconds for one outcome in one column of a sweep; good to a factor of three.
SWEEP, PUSH, FRACTION = 1e-9, 1.5e-9, 2e-6
SWEEPS = {"buffered": 30, "ball": 5, "mean": 12}  # of a plain sweep, for each level


def forecast(mdp: MDP, levels: int, beta: float, settings: Mapping[str, Any]) -> tuple[float, int] | None:
    """About how many seconds and bytes the target planner will need; None for planners without such a rule."""
    from bqrl.mdp.find_grid import rounded
    from bqrl.planners.evaluate import BRACKET_POINTS
    from bqrl.planners.target import MAX_BYTES, exact_grid, sweep_bytes

    if settings["planner"] != "target":
        return None
    points = settings["points"]
    columns = exact_grid(mdp, settings["max_bytes"] or MAX_BYTES) if points is None else None
    passes = 1
    if columns is None:
        columns, passes = rounded(mdp, max(2, points or BRACKET_POINTS)), 2
    work = sum(mdp.stage(h).successor.size * int(columns.size[h]) for h in range(mdp.H))
    if settings["arithmetic"] == "rational":
        return FRACTION * work * levels, 400 * columns.cells * mdp.S
    sweeps = passes
    for asked, kind in ((beta > 0.0, "buffered"), (settings["radius"], "ball"), (settings["secondary"], "mean")):
        if asked:
            sweeps = (sweeps if sweeps > passes else 0) + passes * levels * SWEEPS[kind]
    pushes = levels + 1
    return (SWEEP * sweeps + PUSH * pushes / mdp.A) * work, sweep_bytes(mdp, columns) * (2 if beta > 0.0 else 1)


def evaluation_seconds(mdp: MDP, columns: Grid) -> float:
    """About how many seconds the evaluation of one policy takes."""
    return PUSH * sum(mdp.stage(h).successor.size * int(columns.size[h]) for h in range(mdp.H)) / mdp.A


def in_words(seconds: float, size: int) -> str:
    """A forecast for people.

    >>> in_words(41.3, 1_300_000_000), in_words(400.0, 2_000_000)
    ('about 40 s, 1.2 GiB', 'about 7 min, 2 MiB')
    """
    if seconds < 90:
        time = f"{float(f'{seconds:.1g}'):.0f} s"
    else:
        time = f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
    memory = f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{max(1, round(size / 2**20))} MiB"
    return f"about {time}, {memory}"


class ProgressBar(Watch):
    """A progress bar on stderr that appears after two seconds and leaves no trace; silent without a terminal."""

    def __init__(self) -> None:
        self.console = paper(error=True)
        self.silent = not self.console.is_terminal
        self._bar: Any = None
        self._task: Any = None
        self._lock = threading.Lock()
        self._shown = self._over = False
        self._timer = threading.Timer(QUIET_SECONDS, self._show)
        self._timer.daemon = True

    def __enter__(self) -> ProgressBar:
        if not self.silent:
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=self.console, transient=True)
            self._task = self._bar.add_task("planning", total=None)
            self._timer.start()
        return self

    def __exit__(self, *fault: object) -> None:
        self._timer.cancel()
        with self._lock:
            self._over = True
            if self._shown:
                self._bar.stop()

    def _show(self) -> None:
        with self._lock:
            if not self._over:
                self._bar.start()
                self._shown = True

    def say(self, text: str) -> None:
        """One line, if there is a terminal."""
        if not self.silent:
            self.console.print(text, style="dim")

    def phase(self, text: str, total: int | None = None) -> None:
        """What is being done now, and of how many steps."""
        if self._bar is not None:
            self._bar.reset(self._task, description=text, total=total)

    def tick(self, *_: object) -> None:
        """One more step is done."""
        if self._bar is not None:
            self._bar.advance(self._task)
