"""About how long a plan will take, and how much memory, before the work begins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bqrl.mdp.find_grid import rounded
from bqrl.mdp.grid import Grid
from bqrl.mdp.model import MDP
from bqrl.planners.evaluate import BRACKET_POINTS
from bqrl.planners.target import MAX_BYTES, exact_grid, sweep_bytes
from bqrl.study.watch import in_words

# Measured on two cores of 2024, in seconds for one outcome in one column of a sweep; good to a factor of three.
SWEEP, PUSH, FRACTION = 1e-9, 1.5e-9, 2e-6
SWEEPS = {"beta": 30, "radius": 5, "secondary": 12}  # sweeps per level; else one sweep serves all levels


def forecast(mdp: MDP, settings: Mapping[str, Any]) -> tuple[float, int] | None:
    """About how many seconds and bytes the target planner will need; None for planners without such a rule."""
    if settings["planner"] != "target":
        return None
    points, levels = settings["points"], len(settings["tau"])
    exact = exact_grid(mdp, settings["max_bytes"] or MAX_BYTES) if points is None else None
    columns = exact or rounded(mdp, max(2, points or BRACKET_POINTS))
    outcomes = evaluation_seconds(mdp, columns) * mdp.A / PUSH
    if settings["arithmetic"] == "rational":
        return FRACTION * outcomes * levels, 400 * columns.cells * mdp.S
    sweeps = sum(levels * count for name, count in SWEEPS.items() if settings[name]) or 1
    seconds = SWEEP * outcomes * sweeps * (1 if exact else 2) + evaluation_seconds(mdp, columns) * (levels + 1)
    return seconds, sweep_bytes(mdp, columns) * (2 if settings["beta"] else 1)


def evaluation_seconds(mdp: MDP, columns: Grid) -> float:
    """About how many seconds the evaluation of one policy takes."""
    return PUSH / mdp.A * sum(mdp.stage(h).successor.size * int(columns.size[h]) for h in range(mdp.H))


def forecast_text(seconds: float, size: int) -> str:
    """A forecast for people.

    >>> forecast_text(41.3, 1_300_000_000), forecast_text(413.0, 2_000_000)
    ('about 40 s, 1.2 GiB', 'about 6 min 40 s, 2 MiB')
    """
    memory = f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{max(1, round(size / 2**20))} MiB"
    return f"about {in_words(float(f'{seconds:.1g}'))}, {memory}"
