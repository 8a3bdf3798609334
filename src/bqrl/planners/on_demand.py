"""Values first, policy on demand: exact plans whose action tables do not fit into memory.

One pass computes the values alone, two stages at a time, and keeps W_0(start, x) for every target x. A policy is extracted
when it is asked for, on the columns that its target can meet: a need n at stage h becomes n - r at stage h + 1, so one column
at stage 0 spreads to at most h times the range of the rewards, and the grid narrows towards the end. The pass with means and
actions runs on these columns only, about half of all, and gives the same bits, because columns do not depend on each other.
Both passes skip the states that cannot be reached at a stage, because those that can be reached do not lead to them.

Every policy still acts everywhere. If a need lies off these columns (rewards of another model, a need that a user chose), if a
state cannot be reached (another model, another start), or if the tables of these columns do not fit either, the tables come from
checkpoints: values and means of every k-th stage, in memory or in a folder. The stages between two checkpoints are then computed
again, together.
"""

from __future__ import annotations

import shutil
import tempfile
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from bqrl.display import in_words
from bqrl.errors import SizeError
from bqrl.laws.law import size_of
from bqrl.loops.layout import Goal
from bqrl.mdp.arrays import ActionArray, FloatArray, IntArray, read_only
from bqrl.mdp.grid import Grid, Lattice, any_products
from bqrl.mdp.model import MDP
from bqrl.mdp.search import Progress
from bqrl.mdp.unstored import StepModel
from bqrl.planners.step_kernel import StepKernel
from bqrl.planners.sweep import NO_TABLE, SHORTFALL, TIE_TOL, SharedSweep, StageKernel, at_start
from bqrl.policies.target import Near, StageTables, TargetPolicy, action_dtype

EXTRA = 1  # columns above the highest return: the cost is 1{n > 0}
LARGE_SWEEP = 1e6  # entries of a sweep that may take longer than two seconds
SINGLE = 2.0**-24  # relative error of a number stored in 32 bits
PRECISIONS = {"float64": np.float64, "float32": np.float32}

Model = MDP | StepModel
Tick = Callable[[int], None] | None
ValueArray = NDArray[Any]  # float64 or float32


def columns_of(grid: Grid) -> IntArray:
    """Return the number of columns of each stage, shape (H + 1,)."""
    return grid.size + EXTRA


def cells_of(mdp: Model, grid: Grid) -> IntArray:
    """Return the number of entries of each stage, shape (H + 1,): states times columns."""
    return columns_of(grid) * rows_of(mdp)


def rows_of(mdp: Model) -> IntArray:
    """Return the number of states of each stage, shape (H + 1,); a model without a table has those that can be met."""
    return mdp.count if isinstance(mdp, StepModel) else np.full(mdp.H + 1, mdp.S)


def kernel_of(mdp: Model, grid: Grid, h: int, *, counted: bool = True) -> StageKernel | StepKernel:
    """Return the function that fills one stage from the next; unless rewards are `counted`, means are those of a second cost."""
    if isinstance(mdp, StepModel):
        assert isinstance(grid, Lattice)
        return StepKernel(mdp, grid, h)
    return StageKernel(mdp, grid, h, mdp.probability, None, mdp.discount**h if counted else 0.0)


def backward(
    mdp: Model, grid: Lattice, goal: Goal, begin: int, end: int, after: ValueArray, *, means: bool, precision: str = "float64",
    met_only: bool = False,
) -> Iterator[tuple[int, ValueArray, ActionArray]]:  # fmt: skip
    """Yield stage, values and actions of the stages `end` - 1 to `begin`, from `after`, the values of stage `end`.

    With `means` the values of each row are followed by the means, and the actions are computed; otherwise they are empty. The
    arrays of values are reused two stages later. With `met_only` the rows of states that cannot be reached at a stage have no
    meaning: the states that can be reached do not lead to them.
    """
    layers, cells, rows = 2 if means else 1, cells_of(mdp, grid), rows_of(mdp)
    sizes = [int(cells[begin:end][::-1][parity::2].max(initial=0)) for parity in (0, 1)]  # of every second stage
    work = [np.empty(layers * size, PRECISIONS[precision]) for size in sizes]
    for h in range(end - 1, begin - 1, -1):
        now = work[(end - 1 - h) % 2][: layers * int(cells[h])].reshape(int(rows[h]), -1)
        action = np.zeros((len(now), now.shape[1] // 2) if means else (0, 0), action_dtype(mdp.A))
        states = np.flatnonzero(mdp.reachable[h]) if met_only and isinstance(mdp, MDP) else None
        kernel_of(mdp, grid, h).run(after, goal, now, action, 0, states)
        yield h, now, action
        after = now


def terminal(mdp: Model, *, means: bool, precision: str = "float64") -> ValueArray:
    """Return the values after the last stage, 1{n > 0}, followed by means of 0."""
    return np.tile(terminal_row(means=means).astype(PRECISIONS[precision]), (int(rows_of(mdp)[-1]), 1))


def terminal_row(*, means: bool) -> FloatArray:
    """Return the values of every state after the last stage."""
    return np.r_[SHORTFALL, np.zeros(SHORTFALL.size)] if means else SHORTFALL


def goal_on(grid: Grid) -> Goal:
    """Return the objective of a sweep on the whole grid: the smallest value, and the larger mean among ties."""
    tie = 1e-12 * size_of(grid.points(0)[[0, -1]])
    return Goal(mean_reward=NO_TABLE, weight=0.0, tie=TIE_TOL, mean_tie=tie)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OnDemand:
    """The values of a sweep at the root; policies are computed when they are asked for."""

    mdp: Model
    grid: Lattice
    root: FloatArray  # (columns,) W_0 of every target
    max_bytes: float
    folder: Path | None = None
    cluster: SharedSweep | None = None  # the workers that compute policies

    def policy(self, target: float) -> TargetPolicy:
        """Return the policy for `target`; its tables cover the columns that the target can meet, if they fit."""
        mdp, grid, near = self.mdp, self.grid, None
        narrow, first = narrowed(mdp, grid, int(grid.column(0, target, EXTRA)))
        if self.cluster is not None:
            if self.folder is None:
                check_tables(mdp, narrow, self.max_bytes)
            else:
                check_disk(self.folder, table_bytes(mdp, narrow))
            with stage_line(mdp, narrow, None) as say:
                found = self.cluster.backward(
                    mdp, narrow, goal_on(grid), terminal_row(means=True), means=True, folder=self.folder, tick=say
                )
            near = Near(read_only(first[:-1]), tuple(found.tables))
        elif policy_bytes(mdp, narrow, in_folder=self.folder is not None) <= self.max_bytes:
            folder = None if policy_bytes(mdp, narrow) <= self.max_bytes else self.folder
            if folder is not None:
                check_disk(folder, table_bytes(mdp, narrow))
            after, tables = terminal(mdp, means=True), list[ActionArray]()
            passes = backward(mdp, narrow, goal_on(grid), 0, mdp.H, after, means=True, met_only=True)
            with stage_line(mdp, narrow, None) as say:
                for h, _, action in passes:
                    tables.append(kept_in(folder, action))
                    if say is not None:
                        say(h)
            near = Near(read_only(first[:-1]), tuple(tables[::-1]), mdp.reachable if isinstance(mdp, MDP) else None)
        return TargetPolicy(grid, Checkpointed(mdp, grid, self.max_bytes, self.folder), target, EXTRA, near)


def values_first(
    mdp: Model, grid: Lattice, *, max_bytes: float, folder: Path | None = None, precision: str = "float64",
    cluster: SharedSweep | None = None, tick: Tick = None,
) -> OnDemand:  # fmt: skip
    """Return the values of the root, from one pass that keeps two stages of values in memory, here or on the workers."""
    if cluster is not None:
        row, goal = terminal_row(means=False), goal_on(grid)
        root = cluster.backward(mdp, grid, goal, row, means=False, precision=precision, tick=tick).root
        return OnDemand(mdp=mdp, grid=grid, root=root, max_bytes=max_bytes, folder=folder, cluster=cluster)
    after = terminal(mdp, means=False, precision=precision)
    passes = backward(mdp, grid, goal_on(grid), 0, mdp.H, after, means=False, precision=precision, met_only=True)
    for h, now, _ in passes:
        after = now
        if tick is not None:
            tick(h)
    return OnDemand(mdp=mdp, grid=grid, root=at_start(mdp.mu, after), max_bytes=max_bytes, folder=folder)


def narrowed(mdp: Model, grid: Lattice, column: int) -> tuple[Lattice, IntArray]:
    """Return the grid on the columns that can be met from one column of stage 0, and the first of these columns per stage.

    A narrowed grid is a uniform grid with another lowest point and another size: rewards move its columns as before. Moves beyond
    its ends are clipped exactly where those of the whole grid are.
    """
    first, last = _met_columns(mdp, grid, np.array([column]))[:, :, 0]
    lowest, size = grid.lowest + first, last - first + 1 - EXTRA
    return replace(grid, lowest=lowest, size=size), first


def widest(mdp: Model, grid: Lattice, *, in_folder: bool = False) -> Lattice:
    """Return the grid that is narrowed to the target whose policy needs the most memory, of up to a thousand targets."""
    columns = np.unique(np.linspace(0, columns_of(grid)[0] - 1, 1000).astype(np.int64))
    first, last = _met_columns(mdp, grid, columns)
    cells = rows_of(mdp)[:, None] * (last - first + 1)
    needed = 16 * (cells[1:] + cells[:-1]).max(axis=0)
    if not in_folder:
        needed += np.dtype(action_dtype(mdp.A)).itemsize * cells[:-1].sum(axis=0)
    return narrowed(mdp, grid, int(columns[needed.argmax()]))[0]


def _met_columns(mdp: Model, grid: Lattice, columns: IntArray) -> IntArray:
    """Return the first and the last columns that can be met from columns of stage 0, shape (2, H + 1, columns)."""
    full, ends = columns_of(grid), np.zeros((2, mdp.H + 1, columns.size), np.int64)
    first, last = ends
    first[0] = last[0] = columns
    for h in range(mdp.H + 1):
        if h > 0:
            (least, most), drop = unit_range(mdp, grid, h - 1), grid.drop(h - 1)
            first[h] = np.clip(first[h - 1] + drop - most, 0, full[h] - 1)
            last[h] = np.clip(last[h - 1] + drop - least, 0, full[h] - 1)
        first[h] = np.minimum(first[h], full[h] - 1 - EXTRA)  # a grid has at least one point and the columns above it
        last[h] = np.maximum(last[h], first[h] + EXTRA)
    first[-1], last[-1] = 0, full[-1] - 1
    return ends


def unit_range(mdp: Model, grid: Lattice, h: int) -> tuple[int, int]:
    """Return the smallest and the largest reward of a stage in steps."""
    if isinstance(mdp, StepModel) or (mdp.stationary and len(grid.units) == 1):
        return grid.unit_ends(grid.units, 0)  # of all stages
    return grid.unit_ends(grid.stage_units(mdp, h), h)


def kept_in(folder: Path | None, table: ActionArray) -> ActionArray:
    """Return a table of actions, read-only; with a folder it is read from a file there that has no name."""
    if folder is None:
        return read_only(table)
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(np.ascontiguousarray(table).data)
        file.flush()
        return read_only(np.memmap(file, table.dtype, "r", shape=table.shape))


class Checkpointed(StageTables):
    """Action tables on the whole grid, computed between two checkpoints when a stage is asked for.

    The checkpoints are made at the first use, every sqrt(8 H) stages: they then take about as much as the tables between two of
    them, which hold 2 bytes per entry instead of 16. Files in the folder have no name, so that nothing is left behind however
    the process ends.
    """

    def __init__(self, mdp: Model, grid: Lattice, max_bytes: float, folder: Path | None = None) -> None:
        self.mdp, self.grid, self.max_bytes, self.folder = mdp, grid, max_bytes, folder
        self.S, self.every = mdp.S, spacing(mdp.H)
        self.passes = 0  # stages computed so far
        self._goal = goal_on(grid)
        self._marks: dict[int, FloatArray | BinaryIO] | None = None
        self._begin, self._tables = -1, list[ActionArray]()

    def __len__(self) -> int:
        return self.mdp.H

    def __getitem__(self, h: Any) -> Any:
        if isinstance(h, slice):
            return [self[i] for i in range(*h.indices(len(self)))]
        if not -len(self) <= h < len(self):
            raise IndexError(f"the stage must be below {len(self)}, got {h}")
        h %= len(self)
        begin = h - h % self.every
        if begin != self._begin:
            self._tables = []  # free them first
            end = min(begin + self.every, self.mdp.H)
            tables = [read_only(action) for _, _, action in self._run(begin, end, self._values(end))]
            self._begin, self._tables = begin, tables[::-1]
        return self._tables[h - begin]

    def _run(self, begin: int, end: int, after: ValueArray) -> Iterator[tuple[int, ValueArray, ActionArray]]:
        for result in backward(self.mdp, self.grid, self._goal, begin, end, after, means=True):
            self.passes += 1
            yield result

    def _values(self, h: int) -> ValueArray:
        """Return values and means of the stage of a checkpoint."""
        if h == self.mdp.H:
            return terminal(self.mdp, means=True)
        if self._marks is None:
            self._marks = self._store()
        mark = self._marks[h]
        if isinstance(mark, np.ndarray):
            return mark
        after = np.empty((int(rows_of(self.mdp)[h]), 2 * int(columns_of(self.grid)[h])))
        mark.seek(0)
        if mark.readinto(after.reshape(-1).view(np.uint8)) != after.nbytes:  # type: ignore[attr-defined]
            raise OSError(f"the checkpoint of stage {h + 1} in {self.folder} is incomplete")
        return after

    def _store(self) -> dict[int, FloatArray | BinaryIO]:
        """Run all stages once, and keep the values and means of the checkpoints."""
        needed = checkpoint_bytes(self.mdp, self.grid, in_folder=self.folder is not None)
        if needed > self.max_bytes:
            raise too_large("the tables of all needs", needed, self.max_bytes, in_folder=self.folder is not None)
        if self.folder is not None:
            check_disk(self.folder, stored_bytes(self.mdp, self.grid))
        marks: dict[int, FloatArray | BinaryIO] = {}
        for h, now, _ in self._run(self.every, self.mdp.H, terminal(self.mdp, means=True)):
            if h % self.every:
                continue
            if self.folder is None:
                marks[h] = now.copy()
            else:
                file = tempfile.TemporaryFile(dir=self.folder)
                weakref.finalize(self, file.close)
                file.write(now.data)
                marks[h] = file
        return marks


def spacing(H: int) -> int:
    """Return the number of stages between two checkpoints."""
    return max(1, min(H, round((8 * H) ** 0.5)))


@contextmanager
def stage_line(mdp: Model, grid: Grid, tick: Tick) -> Iterator[Tick]:
    """Yield a function of the stage: `tick`, or for a large sweep a progress line with the stage and the time left."""
    cells = cells_of(mdp, grid)[:-1].astype(float)
    if tick is not None or cells.sum() < LARGE_SWEEP:
        yield tick
        return
    begun, left = time.monotonic(), np.r_[0.0, np.cumsum(cells) / cells.sum()]  # work before each stage
    with Progress("planning") as progress:
        yield lambda h: progress.say(
            f"stage {mdp.H - h} of {mdp.H}, {in_words((time.monotonic() - begun) * left[h] / max(1e-9, 1.0 - left[h]))} left"
        )


# -- memory ------------------------------------------------------------------------------------------------------------------


def narrows(mdp: Model, grid: Grid) -> bool:
    """Return whether values can be computed first: the grid is uniform, and no stage uses matrix products.

    The bits of a matrix product depend on the number of its columns.
    """
    return isinstance(mdp, StepModel) or (isinstance(grid, Lattice) and not any_products(mdp, grid))


def two_stages(mdp: Model, grid: Grid, bytes_per_entry: int) -> int:
    """Return the memory of the entries of two neighbouring stages, at most."""
    cells = cells_of(mdp, grid)
    return bytes_per_entry * int((cells[1:] + cells[:-1]).max())


def values_bytes(mdp: Model, grid: Grid, precision: str = "float64") -> int:
    """Return the memory of the pass for values alone."""
    return two_stages(mdp, grid, np.dtype(PRECISIONS[precision]).itemsize)


def policy_bytes(mdp: Model, grid: Grid, *, in_folder: bool = False) -> int:
    """Return the memory of a pass with means and the actions of all stages, which may be in a folder."""
    return two_stages(mdp, grid, 16) + (0 if in_folder else table_bytes(mdp, grid))


def table_bytes(mdp: Model, grid: Grid) -> int:
    """Return the memory of the actions of all stages."""
    return np.dtype(action_dtype(mdp.A)).itemsize * int(cells_of(mdp, grid)[:-1].sum())


def checkpoint_bytes(mdp: Model, grid: Grid, *, in_folder: bool) -> int:
    """Return the memory of tables from checkpoints: two stages, the tables between two checkpoints, and the checkpoints."""
    cells, every, item = cells_of(mdp, grid), spacing(mdp.H), np.dtype(action_dtype(mdp.A)).itemsize
    tables = item * max(int(cells[h : min(h + every, mdp.H)].sum()) for h in range(0, mdp.H, every))
    read = 16 * int(cells[every : mdp.H : every].max(initial=0)) if in_folder else stored_bytes(mdp, grid)
    return two_stages(mdp, grid, 16) + tables + read


def stored_bytes(mdp: Model, grid: Grid) -> int:
    """Return the size of the checkpoints."""
    every = spacing(mdp.H)
    return 16 * int(cells_of(mdp, grid)[every : mdp.H : every].sum())


def on_demand_bytes(mdp: Model, grid: Lattice, *, in_folder: bool, precision: str = "float64") -> int:
    """Return the memory of a plan for any target: the values first, then its policy."""
    narrow = widest(mdp, grid, in_folder=in_folder)
    policy = min(policy_bytes(mdp, narrow, in_folder=in_folder), checkpoint_bytes(mdp, grid, in_folder=in_folder))
    return max(values_bytes(mdp, grid, precision), policy)


def check_tables(mdp: Model, grid: Grid, limit: float) -> None:
    """Raise SizeError if the actions that workers send do not fit on the machine that receives them."""
    if table_bytes(mdp, grid) > limit:
        raise too_large("the actions of one policy", table_bytes(mdp, grid), limit, in_folder=True)


def check_disk(folder: Path, needed: int) -> None:
    """Raise SizeError if a disk has no room for the tables of a policy."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        got, wanted = (f"{size / 2**30:.3g} GiB" for size in (free, needed))
        raise SizeError(
            f"folder must be on a disk with {wanted} free, got {got} in {folder}; give a folder on another disk",
            needed=needed, limit=free, name="folder",
        )  # fmt: skip


def too_large(what: str, needed: float, limit: float, *, in_folder: bool) -> SizeError:
    """Return the error for tables that do not fit into `max_bytes`."""
    got, most = (f"{size / 2**30:.3g} GiB" for size in (needed, limit))
    remedy = "use fewer points or raise max_bytes" if in_folder else "give folder for checkpoints, or raise max_bytes"
    return SizeError(
        f"{what} must fit into max_bytes={most}, got {got}; {remedy}", needed=needed, limit=limit, name="max_bytes"
    )
