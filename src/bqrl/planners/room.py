"""The memory of a sweep: what fits, and what to change if nothing does."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bqrl.checks import bad_value, choice, number
from bqrl.errors import SizeError
from bqrl.mdp.find_grid import MAX_POINTS, MAX_SET, returns_grid
from bqrl.mdp.grid import EMPTY, Grid, Lattice
from bqrl.mdp.model import MDP
from bqrl.mdp.unstored import StepModel
from bqrl.planners.cluster import NO_GOAL, Cluster, Pass, as_cluster, pass_bytes
from bqrl.planners.on_demand import (
    PRECISIONS,
    Model,
    check_tables,
    narrows,
    on_demand_bytes,
    table_bytes,
    values_bytes,
    widest,
)

MAX_BYTES = 4 * 2**30


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a sweep may use: memory, a folder for checkpoints, and the bits of a stored value."""

    max_bytes: float = MAX_BYTES
    folder: Path | None = None
    single: bool = False  # values in 32 bits
    cluster: Cluster | None = (
        None  # workers that share the sweep; max_bytes is then the limit of each of them and of this machine
    )

    @property
    def precision(self) -> str:
        """Name of the type of stored values."""
        return "float32" if self.single else "float64"

    def tables_fit(self, mdp: Model, columns: Grid) -> bool:
        """Return whether a sweep with all its action tables fits and is what was asked for."""
        if self.single or isinstance(mdp, StepModel):
            return False
        return sweep_bytes(mdp, columns) <= self.max_bytes

    def values_fit(self, mdp: Model, columns: Grid) -> bool:
        """Return whether values can be computed first and a policy on demand."""
        if not isinstance(columns, Lattice) or not narrows(mdp, columns):
            return False
        needed = on_demand_bytes(mdp, columns, in_folder=self.folder is not None, precision=self.precision)
        return needed <= self.max_bytes

    def check(self, mdp: Model, columns: Grid) -> None:
        """Raise SizeError if neither the tables nor the values fit; name what would."""
        if self.cluster is not None and self._check_workers(mdp, columns, self.cluster):
            return
        if self.tables_fit(mdp, columns):
            return
        if not isinstance(columns, Lattice) or not narrows(mdp, columns):
            if self.single:
                rule = "be 'float64' if rows are dense or returns are a set"
                raise bad_value("precision", "float32", rule, remedy="omit it")
            assert isinstance(mdp, MDP)
            check_memory(mdp, columns, self.max_bytes)
            return
        needed, least = (
            on_demand_bytes(mdp, columns, in_folder=in_folder, precision=self.precision)
            for in_folder in (self.folder is not None, True)
        )
        if needed > self.max_bytes:
            raise _too_large(mdp, columns, needed, self.max_bytes, folder_helps=least <= self.max_bytes)

    def _check_workers(self, mdp: Model, columns: Grid, cluster: Cluster) -> bool:
        """Return whether workers share the sweep; raise SizeError if their blocks do not fit."""
        if self.single and not narrows(mdp, columns):
            return False
        means = not narrows(mdp, columns)
        needed = cluster.worker_bytes(mdp, columns, means=means, precision=self.precision)
        if needed > self.max_bytes:
            got, limit = (f"{size / 2**30:.3g} GiB" for size in (needed, self.max_bytes))
            raise SizeError(
                f"the blocks of each of {len(cluster)} workers must fit into max_bytes={limit}, got {got}; add workers, raise "
                "max_bytes or use fewer points", needed=needed, limit=self.max_bytes, name="max_bytes",
            )  # fmt: skip
        if means:
            check_tables(mdp, columns, self.max_bytes)
        elif self.folder is None and isinstance(columns, Lattice):
            check_tables(mdp, widest(mdp, columns), self.max_bytes)
        return True


def check_room(max_bytes: Any, folder: Any, precision: Any, cluster: Any = None) -> Room:
    """Return the checked limits of a sweep; this connects to a cluster."""
    choice(precision, "precision", PRECISIONS)
    limit = number(max_bytes, "max_bytes", 0.0, ends="(]")
    place = None if folder is None else existing_folder(folder)
    return Room(max_bytes=limit, folder=place, single=precision == "float32", cluster=as_cluster(cluster))


def existing_folder(given: Any, name: str = "folder") -> Path:
    """Return the folder; raise ArgumentError if there is none."""
    if not (isinstance(given, (str, Path)) and Path(given).is_dir()):
        raise bad_value(name, given, "be an existing folder", remedy="create it first, on a disk with enough space")
    return Path(given)


def exact_grid(mdp: MDP, max_bytes: float = MAX_BYTES, *, or_rounded: bool = False) -> Grid | None:
    """Return the exact grid of returns; None if there is none or if it does not fit (see `fits`)."""
    found = returns_grid(mdp, MAX_POINTS, MAX_SET)
    return found if found is not None and fits(mdp, found, max_bytes, or_rounded=or_rounded) else None


def fits(mdp: MDP, columns: Grid, max_bytes: float, *, or_rounded: bool, sweeps: int = 1, shared: bool = False) -> bool:
    """Return whether `sweeps` sweeps on these columns fit into `max_bytes`; without `or_rounded`, SizeError if not."""
    if not or_rounded:
        check_memory(mdp, columns, max_bytes, sweeps, shared=shared)
    return sweeps * sweep_bytes(mdp, columns, shared=shared) <= max_bytes


def sweep_bytes(mdp: MDP, columns: Grid, *, shared: bool = False) -> int:
    """Return the bytes of one sweep with its policy: four arrays with the values of a stage, and the actions of all stages.

    The values of a `shared` sweep are on the workers of a cluster.
    """
    stage = 0 if shared else int(columns.size.max()) * mdp.S * 8
    return 4 * stage + 2 * columns.cells * mdp.S + columns.table_bytes


def check_memory(mdp: MDP, columns: Grid, max_bytes: float, sweeps: int = 1, *, shared: bool = False) -> None:
    """Raise SizeError if `sweeps` sweeps on these columns exceed `max_bytes`."""
    needed = sweeps * sweep_bytes(mdp, columns, shared=shared)
    if needed > max_bytes:
        raise _too_large(mdp, columns, needed, max_bytes)


def _too_large(mdp: Model, columns: Grid, needed: int, max_bytes: float, *, folder_helps: bool = False) -> SizeError:
    """Return the error for a plan that does not fit, with what would fit."""
    got, limit = (f"{size / 2**30:.3g} GiB" for size in (needed, max_bytes))
    points = int(0.9 * max_bytes / needed * int(columns.size[0]))
    digits = 10 ** max(0, len(str(points)) - 2)
    fewer = f"={points // digits * digits}" if points >= 100 else ""
    kind, other = "a rounded", f"use fewer points{fewer}"
    if isinstance(mdp, StepModel):
        kind, other = "an exact", "give precision='float32' for values in half the memory, bound the states"
    elif columns.exact:
        kind, other = "an exact", f"give points{fewer} for a bracket"
    other = f"give folder for its checkpoints, with which it fits, {other}" if folder_helps else other
    if isinstance(columns, Lattice) and narrows(mdp, columns):
        actions = table_bytes(mdp, widest(mdp, columns))
        share = values_bytes(mdp, columns) / 2  # of the larger of two stages, which the workers divide
        counts = (2**i for i in range(1, 10) if actions <= max_bytes and share <= max_bytes * 2**i)
        task = Pass(columns, NO_GOAL, EMPTY)
        workers = next((count for count in counts if pass_bytes(mdp, task, count) <= max_bytes), None)
        if workers is not None:
            other += f", give cluster with {workers} workers of that size"
    return SizeError(
        f"a plan for {mdp.S} states on {kind} grid of {columns.size[0]} returns must fit into max_bytes={limit}, got "
        f"{got}; {other}, shorten the horizon or raise max_bytes", needed=needed, limit=max_bytes, name="max_bytes",
    )  # fmt: skip
