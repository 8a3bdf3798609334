"""The memory and the time of a plan before it is made: what fits, what would fit if nothing does, and how long it takes.

The cost of a sweep is proportional to its steps: outcomes times columns, summed over the stages. `forecast` runs the loop of one
stage on a sample of the states, on this machine, with arrays of the size of the plan where they fit into 256 MiB, and multiplies
by the steps of the plan. Rows that share their expectations count as such, and so do states that cannot be met. Memory is
that of the arrays that the plan will allocate, beside the model.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.checks import bad_value, choice, number
from bqrl.display import in_words
from bqrl.errors import SizeError
from bqrl.loops.backward import sweep_rows, sweep_rows_threads
from bqrl.loops.layout import Moves, Part, Rows
from bqrl.loops.threads import run_loop
from bqrl.mdp.arrays import IntArray, read_only
from bqrl.mdp.find_grid import MAX_POINTS, MAX_SET, returns_grid, rounded_grid
from bqrl.mdp.grid import EMPTY, NO_JUMPS, Grid, Lattice, by_products
from bqrl.mdp.model import MDP, check_mdp
from bqrl.mdp.search import SWEEP_SECONDS
from bqrl.mdp.unstored import StepModel
from bqrl.planners.cluster import LOOP, NO_GOAL, STEP, Cluster, Pass, as_cluster, pass_bytes
from bqrl.planners.evaluate import BRACKET_POINTS
from bqrl.planners.on_demand import (
    PRECISIONS,
    Model,
    cells_of,
    check_tables,
    columns_of,
    goal_on,
    kernel_of,
    narrowed,
    narrows,
    on_demand_bytes,
    rows_of,
    table_bytes,
    values_bytes,
    widest,
)
from bqrl.planners.shared_rows import Kinds, kinds_of, shared_outcomes, taken_bytes
from bqrl.planners.sweep import sweep_bytes
from bqrl.policies.target import action_dtype

MAX_BYTES = 4 * 2**30
SAMPLE_BYTES = 2**28  # of the values of the next stage in a sample
SAMPLE_WORK = 30_000_000  # outcomes times columns of a sample
SHARED_SAMPLE = 4  # times as many if rows share their expectations, for both of their loops to use threads
LAW_SECONDS = 1e-9  # per outcome and column, for the laws of the policy and of the risk-neutral one
READ_SECONDS = 20e-9  # per outcome and stage, for what else is computed: moves, means, sums, the risk-neutral policy
TABLES, VALUES_FIRST = "tables", "values first"


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a sweep may use: memory, a folder for checkpoints, and the bits of a stored value."""

    max_bytes: float = MAX_BYTES
    folder: Path | None = None
    single: bool = False  # values in 32 bits
    # workers that share the sweep; max_bytes is then the limit of each of them and of this machine
    cluster: Cluster | None = None

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
    """Return the folder; raise ArgumentError if there is none or if it cannot be written to."""
    if not (isinstance(given, (str, Path)) and Path(given).is_dir()):
        raise bad_value(name, given, "be an existing folder", remedy="create it first, on a disk with enough space")
    try:
        with tempfile.TemporaryFile(dir=given):
            return Path(given)
    except OSError:
        raise bad_value(name, str(given), "be a folder that can be written to", remedy="give another one") from None


def exact_grid(mdp: MDP, max_bytes: float = MAX_BYTES, *, or_rounded: bool = False) -> Grid | None:
    """Return the exact grid of returns; None if there is none or if it does not fit (see `fits`)."""
    found = returns_grid(mdp, MAX_POINTS, MAX_SET)
    return found if found is not None and fits(mdp, found, max_bytes, or_rounded=or_rounded) else None


def fits(mdp: MDP, columns: Grid, max_bytes: float, *, or_rounded: bool, sweeps: int = 1, shared: bool = False) -> bool:
    """Return whether `sweeps` sweeps on these columns fit into `max_bytes`; without `or_rounded`, SizeError if not."""
    if not or_rounded:
        check_memory(mdp, columns, max_bytes, sweeps, shared=shared)
    return sweeps * sweep_bytes(mdp, columns, shared=shared) <= max_bytes


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


# -- time -------------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Time and memory of `solve` for one quantile; made by `forecast`.

    Attributes
    ----------
    seconds : float
        Expected time on this machine with its present load.
    bytes : int
        Memory beside the model.
    way : str
        "tables" (the actions of all targets are kept), or "values first" (the policy is computed on demand).
    states, transitions, points : int
        Size of the problem and of the grid of returns.
    fits : bool
        Whether the plan fits into `max_bytes`.
    exact : bool
        Whether the grid is exact; otherwise the plan is a bracket.

    Examples
    --------
    >>> import bqrl
    >>> print(bqrl.forecast("SafeOrRisky"))
    about 1 s and 1 MB (1 state, 3 transitions, 31 returns; exact, tables)
    """

    seconds: float
    bytes: int
    way: str
    states: int
    transitions: int
    points: int
    fits: bool
    exact: bool

    @property
    def short(self) -> str:
        """Time and memory in words."""
        memory = f"{self.bytes / 1e9:.2g} GB" if self.bytes >= 1e9 else f"{max(1, round(self.bytes / 1e6))} MB"
        return f"about {in_words(self.seconds)} and {memory}"

    def __str__(self) -> str:
        what = "exact" if self.exact else "a bracket"
        sizes = ("state", self.states), ("transition", self.transitions), ("return", self.points)
        size = ", ".join(f"{n:,} {noun}{'s' * (n != 1)}" for noun, n in sizes)
        return f"{self.short} ({size}; {what}, {self.way})"


def forecast(
    mdp: MDP | StepModel | str, *, points: int | None = None, max_bytes: float = MAX_BYTES, folder: Any = None,
    precision: str = "float64",
) -> Forecast:  # fmt: skip
    """Return the expected time and memory of `solve(mdp, tau)` without making the plan; it takes about a second.

    Plans on the pairs that can be met (`pairs`) are not considered: they are chosen where they are far cheaper.

    Parameters
    ----------
    mdp : MDP, StepModel or str
        The problem.
    points, max_bytes, folder, precision
        As for `guarantee_curve`.

    Returns
    -------
    Forecast

    Examples
    --------
    >>> expected = forecast("SafeOrRisky")
    >>> expected.fits, expected.way, expected.points
    (True, 'tables', 31)
    """
    model = mdp if isinstance(mdp, StepModel) else check_mdp(mdp)
    room = check_room(max_bytes, folder, precision)
    if isinstance(model, StepModel):
        grid: Grid = model.grid
    else:
        exact = returns_grid(model, MAX_POINTS, MAX_SET) if points is None else None
        grid = rounded_grid(model, points or BRACKET_POINTS) if exact is None else exact
    return forecast_on(model, grid, room)


def forecast_on(model: Model, grid: Grid, room: Room) -> Forecast:
    """Return the forecast of a plan on a given grid."""
    tables = room.tables_fit(model, grid)
    values = not tables and isinstance(grid, Lattice) and room.values_fit(model, grid)
    outcomes = _outcomes_per_state(model)
    if tables or not isinstance(grid, Lattice):
        assert isinstance(model, MDP)
        swept, needed = grid, sweep_bytes(model, grid)
        seconds = _rate(model, grid, means=True) * sweep_steps(model, grid)
    else:
        swept, _ = narrowed(model, grid, int(grid.size[0]) // 2)
        needed = on_demand_bytes(model, grid, in_folder=room.folder is not None, precision=room.precision)
        seconds = _rate(model, swept, means=True) * sweep_steps(model, swept, met_only=True)
        seconds += _rate(model, grid, means=False) * sweep_steps(model, grid, met_only=True)
    seconds += LAW_SECONDS * outcomes / model.A * float(_met(model) @ columns_of(swept)[:-1])
    if isinstance(model, MDP):
        seconds += READ_SECONDS * outcomes * model.S * model.H
    if not grid.exact:
        seconds *= 1.5  # a pass for the upper bound
    loop = 0 if isinstance(model, StepModel) else 16 * model.successor.size  # moves of the columns, means of the rows
    if isinstance(model, MDP) and (kinds := _kinds(model, grid)) is not None:
        loop += taken_bytes(model, kinds, int(columns_of(grid).max()))
    masses = 16 * int((rows_of(model) * columns_of(grid)[::-1]).max())  # of the policy's law, beside its actions
    if room.folder is None:
        masses += np.dtype(action_dtype(model.A)).itemsize * int(_met(model) @ columns_of(swept)[:-1])
    return Forecast(
        seconds=seconds, bytes=max(int(needed), masses) + loop, states=model.S,
        transitions=int(outcomes * model.S), points=int(grid.size[0]),
        way=TABLES if tables or not isinstance(grid, Lattice) else VALUES_FIRST, fits=bool(tables or values),
        exact=grid.exact,
    )  # fmt: skip


def sweep_steps(model: Model, grid: Grid, *, met_only: bool = False) -> float:
    """Return the number of steps of a sweep over all states, or over those that can be met: outcomes times columns.

    A call of a step function counts as further columns.
    """
    states = _met(model) if met_only else rows_of(model)[:-1]
    return _visited_per_state(model, grid) * float(states @ (columns_of(grid)[:-1] + _called(model)))


def _called(model: Model) -> int:
    """Return the number of columns that take as long as a call of a step function."""
    return round(STEP / LOOP) if isinstance(model, StepModel) else 0


def _met(model: Model) -> IntArray:
    """Return the number of states that can be met at each stage, shape (H,)."""
    return (np.count_nonzero(model.reachable, axis=1) if isinstance(model, MDP) else rows_of(model))[:-1]


def _outcomes_per_state(model: Model) -> float:
    """Return the mean number of outcomes per state and stage."""
    if isinstance(model, StepModel):
        return float(model.A * model.max_outcomes)
    return model.successor.size / (model.S * len(model.available))


def _visited_per_state(model: Model, grid: Grid) -> float:
    """Return the mean number of outcomes per state that a sweep visits: fewer if rows share their expectations."""
    kinds = _kinds(model, grid)
    if kinds is None:
        return _outcomes_per_state(model)
    assert isinstance(model, MDP)
    return shared_outcomes(model, kinds, model.S) / model.S


def _kinds(model: Model, grid: Grid) -> Kinds | None:
    """Return the kinds of rows if rows share their expectations."""
    return kinds_of(model, grid, int(columns_of(grid).max())) if isinstance(model, MDP) else None


def _rate(model: Model, grid: Grid, *, means: bool) -> float:
    """Return the seconds per step of the largest stage, measured on a sample of its states."""
    per_state, cells = _outcomes_per_state(model), cells_of(model, grid)[:-1]
    if per_state * float(cells.sum()) < SAMPLE_WORK or not isinstance(grid, Lattice):
        return SWEEP_SECONDS  # a small problem, or a set of returns, which only small problems have
    h, layers = int(cells.argmax()), 2 if means else 1
    most = max(2, SAMPLE_BYTES // (8 * layers * model.S))
    n, n_next = (min(int(columns_of(grid)[i]), most) for i in (h, h + 1))
    kinds, per_state = _kinds(model, grid), _visited_per_state(model, grid)
    work = SAMPLE_WORK if kinds is None else SHARED_SAMPLE * SAMPLE_WORK
    count = int(min(rows_of(model)[h], max(1, work // (per_state * n))))
    if isinstance(model, MDP) and by_products(model, grid, model.stage(h)):
        count = model.S
    after = np.random.default_rng(0).random((int(rows_of(model)[h + 1]), layers * n_next))
    now = np.empty((count, layers * n))
    action = np.empty((count, n) if means else (0, 0), action_dtype(model.A))
    steps = count * per_state * (n + _called(model))
    if kinds is not None:  # the first states have more than their share of the expectations
        assert isinstance(model, MDP)
        steps = shared_outcomes(model, kinds, count) * n
    if isinstance(model, StepModel) or count == model.S or kinds is not None:
        run: Callable[[], None] = partial(kernel_of(model, grid, h).run, after, goal_on(grid), now, action)
    else:
        rows, moves = _sampled(model, grid, h, count)
        goal = goal_on(grid)._replace(mean_reward=np.zeros(count * model.A))
        given = rows, moves, None, goal, after, now, action, Part(np.arange(count), 0, n)
        run = partial(run_loop, rows.successor.size * n, sweep_rows, sweep_rows_threads, *given)
    times = []
    for _ in range(2):  # the first may include compilation
        begun = time.perf_counter()
        run()
        times.append(time.perf_counter() - begun)
    return min(times) / steps


def _sampled(mdp: MDP, grid: Lattice, h: int, count: int) -> tuple[Rows, Moves]:
    """Return the outcomes of states spread over a stage, and their moves."""
    stage, states = mdp.stage(h), np.linspace(0, mdp.S - 1, count).astype(np.int64)
    rows = (states[:, None] * mdp.A + np.arange(mdp.A)).reshape(-1)
    source, i = stage.outcomes_of(rows)
    start = np.searchsorted(source, np.arange(rows.size + 1))
    arrays = map(read_only, (start, stage.successor[i], stage.probability[i]))
    return Rows(*arrays), Moves(grid.drop(h) - grid.stage_units(mdp, h)[i], NO_JUMPS)
