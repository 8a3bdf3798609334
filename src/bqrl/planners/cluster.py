"""Sweeps on the machines of a Dask cluster: each worker has a block of every stage, with the bits of one machine.

Column c of stage h needs the columns c + drop - r of stage h + 1, for the rewards r of the stage in steps. A stage is cut in one
of two ways, into one block per worker:

    columns   every worker has all states of its columns, and receives the columns beside them, as many as the largest reward
              has steps. Borders are proportional, because the grid narrows towards the end. Memory falls with the workers.
    states    every worker has all columns of its states, and receives the whole next stage. For few columns and many states,
              rewards as wide as the grid, matrix products (cut where one machine cuts them) and sets of returns.

`choose_way` takes the cheaper one. Laws are pushed forward in blocks of sums. A block is one task of a Dask graph, which calls
the function of one machine (`StageKernel.run`, `push_stage`) on its part, so each number is the same sum in the same order.

The model is sent once to each worker. Blocks stay on their workers; only the columns beside a border, the values of the first
states and the actions are sent. If a worker is lost, Dask computes its blocks again from those before; a pass whose model was
lost begins again. Dask deserialises pickles, which can execute any code, from every member of the cluster: use it in trusted
networks only, and with TLS (`distributed.Security`) if others can reach the ports.
"""

from __future__ import annotations

import logging
import time
import uuid
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import suppress
from dataclasses import replace
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np

from bqrl.checks import bad_type
from bqrl.loops.layout import Goal, Moves, Rows
from bqrl.mdp.arrays import ActionArray, BoolArray, FloatArray, IntArray, read_only
from bqrl.mdp.grid import EMPTY, NO_JUMPS, Grid, Lattice, by_products
from bqrl.mdp.model import MDP
from bqrl.mdp.unstored import StepModel
from bqrl.planners.on_demand import PRECISIONS, Model, ValueArray, kept_in, kernel_of, narrows, rows_of, unit_range
from bqrl.planners.sweep import Found, at_start, product_states
from bqrl.policies.forward import SumRange, empty_masses, played_by_sum, push_stage, sums_of, sums_on
from bqrl.policies.markov import MarkovPolicy
from bqrl.policies.target import TargetPolicy, action_dtype
from bqrl.versions import fingerprint

CONNECT_SECONDS = 10  # to a cluster
LOOK_SECONDS = 5.0  # between two looks at its workers
PATIENCE = 60.0  # seconds without any worker after which a pass fails
ATTEMPTS = 3  # passes that may lose the model
COLUMNS, STATES = "columns", "states"
NO_GRID: Any = None  # workers have the grid already
NO_GOAL = Goal(mean_reward=EMPTY, weight=0.0, tie=0.0, mean_tie=0.0)

# The cost model: assumed seconds on one core and a network of 10 Gbit/s; only their ratios decide.
LOOP = 0.6e-9  # per outcome and column of the loop
STEP = 50e-9  # per outcome of a step function
SENT = 3.4e-9  # per byte: 2.4 to pack and unpack it, and 1 on a network of 1 GB/s

T = TypeVar("T")


class LostWorkersError(OSError):
    """No worker is left to carry out a call."""


class UnusableWorkerError(ImportError):
    """A worker has no bqrl, or one with other code."""


def connect(address: str, security: Any = None) -> Any:
    """Return a `distributed.Client` of the scheduler at `address`; `security` is by default that of Dask's settings."""
    try:
        from distributed import Client
        from distributed.comm.addressing import get_address_host_port
    except ImportError:
        raise ValueError('a cluster needs Dask; install it with: pip install "bqrl[cluster]"') from None
    for name in logging.root.manager.loggerDict:  # bqrl reports what matters itself
        if name.split(".")[0] == "distributed":
            logging.getLogger(name).setLevel(logging.CRITICAL)
    call: Any = Client  # it has no annotations
    try:
        host, port = get_address_host_port(address)
        if not (host and 0 < port < 65536):
            raise ValueError("expected tcp://HOST:PORT")
        return call(address, timeout=CONNECT_SECONDS, set_as_default=False, security=security)
    except Exception as error:  # Dask raises many kinds of errors
        why = " ".join(str(error).split())[:120] or type(error).__name__
        raise ConnectionError(
            f"no Dask scheduler answers at {address!r} ({why}); start one with `dask scheduler`"
        ) from None


def as_cluster(given: Any) -> Cluster | None:
    """Return the cluster of an address or a `distributed.Client`; None for None."""
    if given is None or isinstance(given, Cluster):
        return given
    if isinstance(given, str):
        client = connect(given)
        try:
            found = Cluster(client)
        except BaseException:
            client.close(timeout=5)
            raise
        weakref.finalize(found, _close, client)
        return found
    if not (hasattr(given, "submit") and hasattr(given, "scheduler_info") and hasattr(given, "scatter")):
        raise bad_type("cluster", given, "be the address of a Dask scheduler or a distributed.Client")
    return Cluster(given)


def _close(client: Any) -> None:
    with suppress(Exception):  # the scheduler may be gone
        client.close(timeout=5)


class Part(NamedTuple):
    """A block of a stage: a range of its states and a range of its columns, on one worker."""

    owner: int
    rows: slice
    columns: slice

    @property
    def states(self) -> int:
        """Number of states."""
        return int(self.rows.stop - self.rows.start)

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.columns.stop - self.columns.start)


class Stage(NamedTuple):
    """The blocks of a stage and their tasks; the values after the last stage need no tasks."""

    h: int
    parts: list[Part]
    futures: list[Any]
    actions: list[Any]


class Block(NamedTuple):
    """The result of a task: values, followed by means if actions are computed, and the actions."""

    values: ValueArray
    actions: ActionArray


class Piece(NamedTuple):
    """Part of what a task reads: `columns` of a block or an array, which go to other rows and columns."""

    found: Any  # the future of a Block or of an array
    columns: slice
    to_rows: slice
    to_columns: slice


class Pass(NamedTuple):
    """A backward pass: the grid, the objective, the terminal row, and what to compute."""

    grid: Grid
    goal: Goal
    terminal: FloatArray  # (layers * columns,) values after the last stage, followed by means
    extra: int = 1
    means: bool = False
    precision: str = "float64"
    counted: bool = True  # whether rewards count towards the means

    @property
    def layers(self) -> int:
        """Numbers per state and column."""
        return 2 if self.means else 1

    def columns(self, h: int) -> int:
        """Return the number of columns of a stage."""
        return int(self.grid.size[h]) + self.extra


class Cluster:
    """The workers of a Dask cluster that share the stages of a sweep; made by `as_cluster`."""

    def __init__(self, client: Any) -> None:
        self.client, self.address = client, client.scheduler.address if client.scheduler else "?"
        self.workers = self._usable_workers()
        self._held: dict[int, tuple[Any, Any]] = {}  # the keys keep their things alive

    def __len__(self) -> int:
        return len(self.workers)

    def _usable_workers(self) -> list[str]:
        """Return the addresses of the workers; an error if there are none or if one has another bqrl or none."""
        expected = fingerprint()

        def code() -> str:  # sent by value: a worker may have another bqrl or none
            return str(import_module("bqrl.versions").fingerprint())

        begun = time.monotonic()
        while not (found := self.client.run(code, on_error="return")):
            if time.monotonic() - begun > CONNECT_SECONDS:
                raise LostWorkersError(f"the cluster at {self.address} has no workers; {self._add}")
            time.sleep(0.1)
        for worker, answer in found.items():
            if answer != expected:
                got = " ".join(str(answer).split())[:120]
                raise UnusableWorkerError(
                    f"the worker at {worker} must have bqrl {expected}, got {got}; install the same packages there"
                )
        return sorted(found)

    @property
    def _add(self) -> str:
        return f"add one with `dask worker {self.address} --nthreads 1`"

    def worker_bytes(self, mdp: Model, grid: Grid, *, means: bool, precision: str = "float64") -> int:
        """Return the memory of a backward pass on the worker that needs most."""
        return pass_bytes(mdp, Pass(grid, NO_GOAL, EMPTY, means=means, precision=precision), len(self.workers))

    # -- backward ----------------------------------------------------------------------------------------------------------

    def backward(
        self, mdp: Model, grid: Grid, goal: Goal, terminal: FloatArray, *, extra: int = 1, means: bool,
        precision: str = "float64", counted: bool = True, folder: Path | None = None, tick: Callable[[int], None] | None = None,
    ) -> Found:  # fmt: skip
        """Return the result of a backward pass; the arguments are those of `Pass`, and a folder for the tables of actions."""
        task = Pass(grid, goal, terminal, extra, means, precision, counted)
        return self._repeated(lambda: self._backward(mdp, task, folder, tick))

    def _backward(self, mdp: Model, task: Pass, folder: Path | None, tick: Callable[[int], None] | None) -> Found:
        count = len(self.workers)
        way, tables = choose_way(mdp, task, count), list[ActionArray]()
        held = self._hold(mdp), self._hold(task.grid, task.grid.units)
        after = Stage(mdp.H, cut(mdp, task, mdp.H, way, count), [], [])
        for h in range(mdp.H - 1, -1, -1):
            parts, cuts = cut(mdp, task, h, way, count), dict[Any, Any]()
            futures = [self._submit_block(held, mdp, task, h, part, after, cuts) for part in parts]
            sent = zip(parts, futures, strict=True) if task.means else ()
            actions = [self._submit(_actions_of, one, worker=part.owner) for part, one in sent]
            if after.futures:
                self._collect(mdp, after, tables, folder, tick)  # while the workers compute stage h
            after = Stage(h, parts, futures, actions)
        self._collect(mdp, after, tables, folder, tick)
        return Found(at_start(mdp.mu[mdp.mu > 0.0], self._first_rows(mdp, task, after)), tables[::-1])

    def _submit_block(
        self, held: tuple[Any, Any], mdp: Model, task: Pass, h: int, part: Part, after: Stage, cuts: dict[Any, Any]
    ) -> Any:
        """Submit the task of one block of stage `h`, given the blocks of the next stage."""
        needed, lowest = needed_of(mdp, task, h, part), None
        pieces = self._pieces(needed, after, task.layers, cuts)
        if isinstance(task.grid, Lattice):
            lowest = tuple(int(task.grid.lowest[i]) + at.columns.start for i, at in ((h, part), (h + 1, needed)))
        last = _columns_of(task.terminal, needed.columns, task.layers) if h + 1 == mdp.H else EMPTY
        return self._submit(
            _run_block, *held, task._replace(grid=NO_GRID, terminal=last), h, part, needed, lowest,
            [piece[1:] for piece in pieces], *[piece.found for piece in pieces], worker=part.owner,
        )  # fmt: skip

    def _pieces(self, needed: Part, after: Stage, layers: int, cuts: dict[Any, Any]) -> list[Piece]:
        """Return the pieces of blocks that cover `needed`; those of other workers are cut where they are, once per stage."""
        pieces = []
        for i, (part, future) in enumerate(zip(after.parts, after.futures, strict=bool(after.futures))):
            rows, columns = _overlap(part.rows, needed.rows), _overlap(part.columns, needed.columns)
            if rows is None or columns is None:
                continue
            found, own = future, _within(columns, part.columns)
            if part.owner != needed.owner:
                if (i, own.start, own.stop) not in cuts:
                    cuts[i, own.start, own.stop] = self._submit(_cut_columns, future, own, layers, worker=part.owner)
                found, own = cuts[i, own.start, own.stop], slice(0, own.stop - own.start)
            pieces.append(Piece(found, own, _within(rows, needed.rows), _within(columns, needed.columns)))
        return pieces

    def _collect(
        self, mdp: Model, stage: Stage, tables: list[ActionArray], folder: Path | None, tick: Callable[[int], None] | None,
    ) -> None:  # fmt: skip
        """Wait for the blocks of a stage; add its table of actions to `tables` if there are any."""
        self._wait(stage.futures)
        if stage.actions:
            shape = stage.parts[-1].rows.stop, stage.parts[-1].columns.stop
            table = np.empty(shape, action_dtype(mdp.A))
            for part, found in zip(stage.parts, self._results(stage.actions), strict=True):
                table[part.rows, part.columns] = found
            tables.append(kept_in(folder, table))
        if tick is not None:
            tick(stage.h)

    def _first_rows(self, mdp: Model, task: Pass, stage: Stage) -> FloatArray:
        """Return the rows of the first states from the blocks of stage 0."""
        met, width = np.flatnonzero(mdp.mu), task.columns(0)
        rows = np.empty((met.size, task.layers, width))
        taken = [(part, one, _inside(met, part)) for part, one in zip(stage.parts, stage.futures, strict=True)]
        taken = [(part, one, here) for part, one, here in taken if here.any()]
        sent = [
            self._submit(_rows_of, one, met[here] - part.rows.start, worker=part.owner) for part, one, here in taken
        ]
        for (part, _, here), found in zip(taken, self._results(sent), strict=True):
            rows[here, :, part.columns] = found.reshape(len(found), task.layers, part.width)
        return rows.reshape(met.size, -1)

    # -- forward -----------------------------------------------------------------------------------------------------------

    def forward(self, mdp: MDP, policy: MarkovPolicy | TargetPolicy, grid: Lattice) -> tuple[FloatArray, FloatArray]:
        """Return the final sums and their masses under a policy, from masses in blocks of sums."""
        return self._repeated(lambda: self._forward(mdp, policy, grid))

    def _forward(self, mdp: MDP, policy: MarkovPolicy | TargetPolicy, grid: Lattice) -> tuple[FloatArray, FloatArray]:
        sums = sums_on(mdp, grid) if grid.exact else sums_of(mdp, grid)
        count, every = len(self.workers), slice(0, mdp.S)
        assert isinstance(sums, SumRange)
        held, before = (self._hold(mdp), self._hold(grid, grid.units)), Stage(0, [Part(0, every, slice(0, 1))], [], [])
        for h in range(mdp.H):
            drop, here, cuts = int(sums.lowest[h] - sums.lowest[h + 1]), Stage(h + 1, [], [], []), dict[Any, Any]()
            (least, most), (action, column) = unit_range(mdp, grid, h), played_by_sum(mdp, policy, h, sums)
            for owner, columns in enumerate(_ranges(sums.count(h + 1), count)):
                if columns.start == columns.stop:
                    continue
                begin = min(max(columns.start - drop - most, 0), sums.count(h) - 1)
                end = max(min(columns.stop - drop - least, sums.count(h)), begin + 1)
                part, needed = Part(owner, every, columns), Part(owner, every, slice(begin, end))
                pieces, own = self._pieces(needed, before, 1, cuts), column[begin:end]
                table = np.ascontiguousarray(action[:, int(own.min()) : int(own.max()) + 1])
                sent = self.client.scatter((table, own - int(own.min())), workers=[self.workers[owner]], hash=False)
                task = self._submit(
                    _push_block, *held, h, sent, drop + begin - columns.start, (needed.width, part.width),
                    [piece[1:] for piece in pieces], *[piece.found for piece in pieces], worker=owner,
                )  # fmt: skip
                here.parts.append(part)
                here.futures.append(task)
            self._wait(before.futures)
            before = here
        alone = sums.count(mdp.H) == 1
        last = [
            self._submit(_column_sums, one, alone, worker=part.owner)
            for part, one in zip(before.parts, before.futures, strict=True)
        ]
        return sums.values(mdp.H), np.concatenate(self._results(last))

    # -- Dask --------------------------------------------------------------------------------------------------------------

    def _hold(self, thing: Any, key: Any = None) -> Any:
        """Return the future of a thing that every worker has; things with the same `key` are sent once."""
        key = thing if key is None else key
        if isinstance(thing, (MDP, StepModel)) and id(key) not in self._held:
            self._held = {}  # one problem at a time
        if id(key) not in self._held:
            self._held[id(key)] = key, self.client.scatter(thing, broadcast=True, hash=False)
        return self._held[id(key)][1]

    def _submit(self, function: Callable[..., Any], *arguments: Any, worker: int) -> Any:
        return self.client.submit(
            function, *arguments, key=f"bqrl{function.__name__}-{uuid.uuid4().hex}", workers=[self.workers[worker]],
            allow_other_workers=True, pure=False,
        )  # fmt: skip

    def _wait(self, futures: Sequence[Any]) -> None:
        """Wait until the futures are finished; raise the error of one that failed."""
        from distributed import TimeoutError, wait

        seen = time.monotonic()
        call: Any = wait  # it has no annotations
        while futures:
            try:
                with self.client.as_current():
                    call(list(futures), timeout=LOOK_SECONDS)
                break
            except TimeoutError:
                if self.client.status not in ("running", "connecting"):
                    raise LostWorkersError(f"the cluster at {self.address} was lost; solve again") from None
                with suppress(OSError, TimeoutError):
                    if self.client.nthreads():
                        seen = time.monotonic()
                if time.monotonic() - seen > PATIENCE:
                    raise LostWorkersError(f"the cluster at {self.address} has no workers; {self._add}") from None
        for future in futures:
            if future.status == "error":
                future.result()  # raises
            if future.status in ("cancelled", "lost"):
                raise CancelledError

    def _results(self, futures: Sequence[Any]) -> list[Any]:
        self._wait(futures)
        return list(self.client.gather(list(futures)))

    def _repeated(self, run: Callable[[], T]) -> T:
        """Run a pass; run it again if the model was lost together with the workers that had it."""
        for _ in range(ATTEMPTS):
            try:
                return run()
            except CancelledError:
                if self.client.status not in ("running", "connecting"):
                    raise LostWorkersError(f"the cluster at {self.address} was lost; solve again") from None
                self._held = {}
                self.workers = self._usable_workers()
        raise LostWorkersError(f"the cluster at {self.address} lost the model {ATTEMPTS} times; solve again")


# -- how a stage is cut ----------------------------------------------------------------------------------------------------


def choose_way(mdp: Model, task: Pass, workers: int) -> str:
    """Return the cheaper way to cut the stages of a pass.

    Per stage, with T outcomes, S states, M columns, W workers and rewards that span R steps, `columns` costs
    LOOP T M / W + P T + 8 SENT S min(R, M), and `states` LOOP T M / W + P T / W + 8 SENT S M (W - 1) / W, where P is what an
    outcome costs before the loop: STEP for a step function. The moves of stored models are prepared by every worker either way.
    """
    if not isinstance(task.grid, Lattice) or not narrows(mdp, task.grid):
        return STATES
    rows, by_columns, by_states = rows_of(mdp), 0.0, 0.0
    for h in range(mdp.H):
        least, most = unit_range(mdp, task.grid, h)
        M, S, sent = task.columns(h), int(rows[h + 1]), 8 * SENT * task.layers
        outcomes = (
            int(rows[h]) * mdp.A * mdp.max_outcomes if isinstance(mdp, StepModel) else mdp.stage(h).successor.size
        )
        before = STEP * outcomes if isinstance(mdp, StepModel) else 0.0
        by_columns += LOOP * outcomes * M / min(workers, M) + before + sent * S * min(most - least, M)
        by_states += LOOP * outcomes * M / workers + before / workers + sent * S * M * (workers - 1) / workers
    return COLUMNS if by_columns <= by_states else STATES


def pass_bytes(mdp: Model, task: Pass, workers: int) -> int:
    """Return the memory of a pass on the worker that needs most: a block, what it needs of the next stage, and a copy of that."""
    way, most = choose_way(mdp, task, workers), 0
    for h in range(mdp.H):
        for part in cut(mdp, task, h, way, workers):
            needed = needed_of(mdp, task, h, part)
            most = max(most, part.states * part.width + 2 * needed.states * needed.width)
    return most * task.layers * np.dtype(PRECISIONS[task.precision]).itemsize


def cut(mdp: Model, task: Pass, h: int, way: str, workers: int) -> list[Part]:
    """Return the blocks of a stage; a stage with few columns or states has fewer blocks than there are workers."""
    S, M = int(rows_of(mdp)[h]), task.columns(h)
    if way == COLUMNS:
        found = [Part(j, slice(0, S), columns) for j, columns in enumerate(_ranges(M, workers))]
    else:
        unit = 1
        if h < mdp.H and isinstance(mdp, MDP) and by_products(mdp, task.grid, mdp.stage(h)):
            unit = product_states(mdp, task.layers * task.columns(h + 1))
        found = [Part(j, states, slice(0, M)) for j, states in enumerate(_ranges(S, workers, unit))]
    return [part for part in found if part.rows.stop > part.rows.start and part.columns.stop > part.columns.start]


def needed_of(mdp: Model, task: Pass, h: int, part: Part) -> Part:
    """Return the part of the next stage that a block needs: all its states, and the columns to which rewards move."""
    states, last = slice(0, int(rows_of(mdp)[h + 1])), task.columns(h + 1) - 1
    if part.columns == slice(0, task.columns(h)) or not isinstance(task.grid, Lattice):
        return Part(part.owner, states, slice(0, last + 1))
    least, most = unit_range(mdp, task.grid, h)
    first = min(max(part.columns.start + task.grid.drop(h) - most, 0), last)
    end = max(min(part.columns.stop - 1 + task.grid.drop(h) - least, last), first)
    return Part(part.owner, states, slice(first, end + 1))


def _ranges(n: int, count: int, unit: int = 1) -> list[slice]:
    """Return `count` ranges of about equal size that cover 0 .. n - 1, with borders at multiples of `unit`."""
    borders = [min(n, round(i * n / count / unit) * unit) for i in range(count)] + [n]
    return [slice(begin, end) for begin, end in pairwise(borders)]


def _overlap(one: slice, other: slice) -> slice | None:
    begin, end = max(one.start, other.start), min(one.stop, other.stop)
    return slice(begin, end) if begin < end else None


def _within(part: slice, whole: slice) -> slice:
    """Return the place of a range within another."""
    return slice(part.start - whole.start, part.stop - whole.start)


def _inside(states: IntArray, part: Part) -> BoolArray:
    return (states >= part.rows.start) & (states < part.rows.stop)


# -- tasks, which workers carry out ------------------------------------------------------------------------------------------

Layout = list[tuple[slice, slice, slice]]  # of pieces


def _run_block(
    mdp: Model, grid: Grid, task: Pass, h: int, part: Part, needed: Part, lowest: tuple[int, int] | None, layout: Layout,
    *found: Any,
) -> Block:  # fmt: skip
    """Return a block of stage `h`, from pieces of the next stage or from the terminal row."""
    _use_own_threads()
    after = np.empty((needed.states, task.layers * needed.width), PRECISIONS[task.precision])
    if task.terminal.size:
        after[:] = task.terminal
    _fill(after, task.layers, layout, found)
    if lowest is not None:
        assert isinstance(grid, Lattice)
        moved: IntArray = grid.lowest.copy()
        moved[h : h + 2] = lowest
        grid = replace(grid, lowest=moved)
    now = np.empty((part.states, task.layers * part.width), after.dtype)
    action = np.empty((part.states, part.width) if task.means else (0, 0), action_dtype(mdp.A))
    kernel_of(mdp, grid, h, counted=task.counted).run(after, task.goal, now, action, part.rows.start)
    return Block(now, action)


def _push_block(
    mdp: MDP, grid: Lattice, h: int, sent: tuple[ActionArray, IntArray], shift: int, widths: tuple[int, int], layout: Layout,
    *found: Any,
) -> FloatArray:  # fmt: skip
    """Return the masses of a block of sums after stage `h`, from pieces of the masses before it."""
    _use_own_threads()
    mass = np.zeros((mdp.S, widths[0]))
    if not layout:
        mass[:, 0] = mdp.mu
    _fill(mass, 1, layout, found)
    stage, out = mdp.stage(h), empty_masses(mdp.S, widths[1])
    moves = Moves(grid.stage_units(mdp, h) + shift, NO_JUMPS)
    rows = Rows(stage.row_start, stage.successor, stage.probability)
    push_stage(rows, moves, read_only(sent[0]), np.array(sent[1]), mass, out)
    return out


def _fill(out: ValueArray, layers: int, layout: Layout, found: Sequence[Any]) -> None:
    """Copy pieces to their places; values are followed by means."""
    to = out.reshape(len(out), layers, -1)
    for (columns, to_rows, to_columns), piece in zip(layout, found, strict=True):
        values = piece.values if isinstance(piece, Block) else piece
        to[to_rows, :, to_columns] = values.reshape(len(values), layers, -1)[:, :, columns]


def _cut_columns(found: Any, columns: slice, layers: int) -> ValueArray:
    """Return some columns of a block, values followed by means."""
    return _columns_of(found.values if isinstance(found, Block) else found, columns, layers)


def _columns_of(values: ValueArray, columns: slice, layers: int) -> ValueArray:
    shape = values.shape[:-1]
    return np.ascontiguousarray(values.reshape(*shape, layers, -1)[..., columns]).reshape(*shape, -1)


def _actions_of(block: Block) -> ActionArray:
    return block.actions


def _rows_of(block: Block, rows: IntArray) -> FloatArray:
    return block.values[rows].astype(np.float64)


def _column_sums(mass: FloatArray, alone: bool) -> FloatArray:
    """Return the sum of every column over the states, added in their order; NumPy adds a column that is alone in pairs."""
    if mass.shape[1] == 1 and not alone:
        return np.repeat(mass, 2, axis=1).sum(axis=0)[:1]
    return mass.sum(axis=0)


def _use_own_threads() -> None:
    """Let compiled loops use as many threads as the worker has."""
    from distributed import get_worker

    call: Any = get_worker  # it has no annotations
    numba.set_num_threads(min(call().state.nthreads, numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
