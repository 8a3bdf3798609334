"""Rows that share their expectations: decisions that leave the rest to the same chance.

A stock of 3 with an order of 2 and a stock of 5 with an order of 0 lead to the same successors with the same probabilities; the
rewards differ by a constant alone. Such rows move the columns of the next stage alike but for a constant shift, so that their
expectations are computed once and read at other columns:

    F(k, n) = E[V_{h+1}(s', n - r)] for one row of each kind k,    V_h(s, n) = min_a F(k(s, a), n - c(s, a)).

Each line is a call of the loop over a stage: the first with the kinds as states that have one action, the second with the kinds
as successors, one per row. Every expectation is the same sum in the same order, so the bits are those of the plain loop. F is
computed for one block of columns after the other.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from bqrl.loops.backward import sweep_rows, sweep_rows_threads
from bqrl.loops.layout import Goal, Moves, Part, Rows
from bqrl.loops.threads import THREADS_FROM, run_loop
from bqrl.mdp.arrays import ActionArray, FloatArray, IntArray, read_only
from bqrl.mdp.grid import NO_JUMPS, Grid, Lattice
from bqrl.mdp.model import MDP, per_model

BLOCK_BYTES = 2**29  # memory of the expectations of a block of columns; narrow blocks are slow
NARROW = 64  # columns of the narrowest block
SEARCH_COLUMNS = 5000  # columns of all stages that repay the search for kinds
BLOCK_OUTCOMES = 2**20  # outcomes that the search handles at once


class Kinds(NamedTuple):
    """Rows of a stage by kind: the rows of a kind differ by a constant reward alone."""

    rows: IntArray  # (listed,) the rows that have outcomes
    of_row: IntArray  # (listed,) their kinds
    first: IntArray  # (kinds,) one row of each kind
    beyond: int  # the range of the constants, in steps


class ByUnits:
    """A grid as a key: narrowed grids share the units of the whole one, and with them the kinds of rows."""

    def __init__(self, grid: Lattice) -> None:
        self.grid = grid

    def __hash__(self) -> int:
        return id(self.grid.units)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ByUnits) and other.grid.units is self.grid.units


def kinds_of(mdp: MDP, grid: Grid, columns: int) -> Kinds | None:
    """Return the kinds of the rows of every stage, or None if they would hardly shorten a sweep with that many columns.

    The stages must be alike: kinds of each stage would take more memory than the model.
    """
    if not (isinstance(grid, Lattice) and mdp.stationary and len(grid.units) == 1):
        return None
    if mdp.successor.size * columns <= THREADS_FROM or mdp.H * int(grid.size.max()) < SEARCH_COLUMNS:
        return None
    kinds = _find_kinds(mdp, ByUnits(grid))
    if kinds is None or kinds.beyond > columns:
        return None
    width = _block_width(mdp, kinds.first.size, kinds.beyond, 2)
    return kinds if width >= min(columns, max(NARROW, kinds.beyond)) else None


def shared_outcomes(mdp: MDP, kinds: Kinds, states: int) -> int:
    """Return how many outcomes a sweep visits per column in the first `states` states: those of their kinds, and one per row."""
    of_row = kinds.of_row[: np.searchsorted(kinds.rows, states * mdp.A)]
    start, chief = mdp.stage(0).row_start, kinds.first[np.unique(of_row)]
    return int((start[chief + 1] - start[chief]).sum()) + of_row.size


def block_bytes(mdp: MDP) -> int:
    """Return the memory that a block of columns may take: that of one number per outcome, if this is more."""
    return max(BLOCK_BYTES, 8 * mdp.successor.size)


def taken_bytes(mdp: MDP, kinds: Kinds, columns: int) -> int:
    """Return the memory that a block of at most so many columns takes."""
    return min(block_bytes(mdp), 16 * kinds.first.size * (columns + kinds.beyond))


def _block_width(mdp: MDP, kinds: int, beyond: int, layers: int) -> int:
    """Return how many columns fit into a block of the expectations of so many kinds, which need columns `beyond` these."""
    return block_bytes(mdp) // (8 * layers * kinds) - beyond


@per_model
def _find_kinds(mdp: MDP, key: ByUnits) -> Kinds | None:
    stage, units = mdp.stage(0), key.grid.units[0]
    counts = np.diff(stage.row_start)
    rows = np.flatnonzero(counts)
    start, counts, total = stage.row_start[rows], counts[rows], stage.successor.size
    if 4 * rows.size >= total:  # one outcome per row remains in any case
        return None

    def outcomes(begin: IntArray, size: IntArray) -> tuple[Any, ...]:
        """Return place, successor, probability and units above those of the row's first outcome, of rows' outcomes."""
        ends = np.cumsum(size)
        place = np.arange(ends[-1]) - np.repeat(ends - size, size)
        i = np.repeat(begin, size) + place
        return place, stage.successor[i], stage.probability[i], units[i] - np.repeat(units[begin], size)

    blocks, mixed = _blocks(counts), np.empty(rows.size, np.uint64)
    for part in blocks:
        numbers = _mix(*outcomes(start[part], counts[part]))
        mixed[part] = np.add.reduceat(numbers, np.cumsum(counts[part]) - counts[part])
    _, first, kind = np.unique(mixed, return_index=True, return_inverse=True)
    order = np.argsort(first)  # neighbours share successors, whose values are then still in the cache
    first, kind = first[order], np.argsort(order)[kind]
    if 2 * (int(counts[first].sum()) + 2 * rows.size) >= total or np.any(counts[first[kind]] != counts):
        return None
    for part in blocks:
        own, other = (outcomes(begin, counts[part]) for begin in (start[part], start[first[kind[part]]]))
        if not all(map(np.array_equal, own, other)):
            return None  # rows of two kinds have the same number
    constant = units[start] - units[start[first]][kind]
    return Kinds(rows, kind.astype(np.int32), rows[first], int(np.ptp(constant)))


def _blocks(counts: IntArray) -> list[slice]:
    """Return ranges of rows with about BLOCK_OUTCOMES outcomes each."""
    ends = np.cumsum(counts)
    edges = np.unique(np.r_[0, np.searchsorted(ends, np.arange(BLOCK_OUTCOMES, ends[-1], BLOCK_OUTCOMES)), counts.size])
    return [slice(begin, end) for begin, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)]


def _mix(place: IntArray, successor: IntArray, probability: FloatArray, units: IntArray) -> Any:
    """Return one number per outcome; their sums over two different rows rarely agree."""
    one, two, three = (np.uint64(x) for x in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9))
    found = probability.view(np.uint64) * one ^ successor.astype(np.uint64) * two ^ units.astype(np.uint64) * three
    for factor in (one, two):
        found = (found ^ (found >> np.uint64(31))) * factor + place.astype(np.uint64) * three
    return found ^ (found >> np.uint64(29))


def run_shared(
    mdp: MDP, kinds: Kinds, rows: Rows, drop: int, units: IntArray, goal: Goal, after: Any, now: Any, action: ActionArray,
    begin: int, states: IntArray,
) -> None:  # fmt: skip
    """Do the work of `sweep_rows` on `states`, counted from the state whose rows begin with number `begin`.

    `rows` holds all rows of the stage; an outcome of u `units` moves column c to c + `drop` - u.
    """
    layers, count = 2 if action.size else 1, goal.mean_reward.size
    n, asked = now.shape[1] // layers, np.zeros(len(now), bool)
    asked[states] = True
    first, last = np.searchsorted(kinds.rows, (begin, begin + count))
    listed = np.flatnonzero(asked[(kinds.rows[first:last] - begin) // mdp.A]) + first
    own, of_row, serves = kinds.rows[listed], kinds.of_row[listed], np.zeros(kinds.first.size, bool)
    serves[of_row] = True
    used, kind = np.flatnonzero(serves), (np.cumsum(serves, dtype=np.int32) - 1)[of_row]
    chief = kinds.first[used]  # the row whose expectations serve the kind
    offset = units[rows.start[chief]][kind] - units[rows.start[own]]
    low, beyond = int(offset.min()), int(np.ptp(offset))
    size = rows.start[chief + 1] - rows.start[chief]
    ends = np.cumsum(size)
    i = np.repeat(rows.start[chief] - ends + size, size) + np.arange(ends[-1])
    chance = Rows(*map(read_only, (np.r_[0, ends], rows.successor[i], rows.probability[i])))
    expected = goal._replace(mean_reward=np.zeros(used.size), weight=0.0)
    start = np.searchsorted(own, np.arange(begin, begin + count + 1))
    choice = Rows(*map(read_only, (start, kind, np.ones(kind.size))))
    width = min(n, _block_width(mdp, used.size, beyond, layers))
    buffer = np.empty(used.size * layers * (width + beyond), now.dtype)
    for c in range(0, n, width):
        w = min(width, n - c)
        between = buffer[: used.size * layers * (w + beyond)].reshape(used.size, -1)
        unused = np.empty((used.size, w + beyond) if action.size else (0, 0), action.dtype)
        shift, every = Moves(drop - units[i] + (low + c), NO_JUMPS), Part(np.arange(used.size), 0, w + beyond)
        given = chance, shift, None, expected, after, between, unused, every
        run_loop(i.size * w, sweep_rows, sweep_rows_threads, *given)
        given = choice, Moves(offset - (low + c), NO_JUMPS), None, goal, between, now, action, Part(states, c, w)
        run_loop(kind.size * w, sweep_rows, sweep_rows_threads, *given)
