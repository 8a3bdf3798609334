"""The columns of a sweep: the exact grid of returns within a limit of memory, and the best column at a level."""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.errors import SizeError
from bqrl.laws.law import MASS_TOL
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.find_grid import MAX_POINTS, MAX_SET, returns_grid
from bqrl.mdp.grid import Grid
from bqrl.mdp.model import MDP

MAX_BYTES = 4 * 2**30


def best_column(shortfall: FloatArray, tau: Any) -> Any:
    """Return the column of the highest target reached at level(s) tau, given the shortfall of every target.

    The exact shortfall never decreases with the target; the running maximum removes decreases due to rounding. A target
    with a shortfall of exactly 0 is reached at every level (see `reaches`). The column is -1 if no target is reached.
    """
    grown = np.maximum.accumulate(shortfall)
    below = np.searchsorted(grown, np.asarray(tau) - MASS_TOL, side="left")
    return np.maximum(below, np.count_nonzero(grown == 0.0)) - 1


def exact_grid(mdp: MDP, max_bytes: float = MAX_BYTES, *, or_rounded: bool = False) -> Grid | None:
    """Return the exact grid of returns; None if there is none or if it does not fit (see `fits`)."""
    found = returns_grid(mdp, MAX_POINTS, MAX_SET)
    return found if found is not None and fits(mdp, found, max_bytes, or_rounded=or_rounded) else None


def fits(mdp: MDP, columns: Grid, max_bytes: float, *, or_rounded: bool, sweeps: int = 1) -> bool:
    """Return whether `sweeps` sweeps on these columns fit into `max_bytes`; without `or_rounded`, SizeError if not."""
    if not or_rounded:
        check_memory(mdp, columns, max_bytes, sweeps)
    return sweeps * sweep_bytes(mdp, columns) <= max_bytes


def sweep_bytes(mdp: MDP, columns: Grid) -> int:
    """Return the bytes of one sweep with its policy: four arrays with the values of a stage, and the actions of all stages."""
    stage = int(columns.size.max()) * mdp.S * 8
    return 4 * stage + 2 * columns.cells * mdp.S + columns.table_bytes


def check_memory(mdp: MDP, columns: Grid, max_bytes: float, sweeps: int = 1) -> None:
    """Raise SizeError if `sweeps` sweeps on these columns exceed `max_bytes`."""
    needed = sweeps * sweep_bytes(mdp, columns)
    if needed > max_bytes:
        got, limit = (f"{size / 2**30:.3g} GiB" for size in (needed, max_bytes))
        kind, other = ("an exact", "give points for a bracket") if columns.exact else ("a rounded", "use fewer points")
        raise SizeError(
            f"a plan for {mdp.S} states on {kind} grid of {columns.size[0]} returns must fit into max_bytes={limit}, got "
            f"{got}; {other}, shorten the horizon or raise max_bytes", needed=needed, limit=max_bytes, name="max_bytes",
        )  # fmt: skip
