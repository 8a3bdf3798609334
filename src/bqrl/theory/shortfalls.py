"""The shortfall probabilities P_pi(G < x) that deterministic policies attain; `plateau` is computed from them.

From stage h, state s and need n, a row with outcome probabilities p_i attains every sum of p_i v_i, where v_i is any number
attained from its outcome i. A state attains what one of its rows attains. These sets contain far fewer numbers than there
are return laws, but they too may grow exponentially with the horizon. Policies observe states, actions and, where rewards
are random, rewards.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bqrl.checks import whole
from bqrl.errors import GridError, SizeError
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.grid import Grid
from bqrl.mdp.model import MDP
from bqrl.planners.target import exact_grid
from bqrl.theory.inputs import NO_GRID, as_problem, read_only

SAME = 1e-14  # probabilities closer than this are one number
MAX_VALUES = 200_000  # limit on the numbers stored per stage, and on those formed when two sets are added


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Shortfalls:
    """Attainable probabilities of ending below each target.

    Attributes
    ----------
    targets : ndarray
        The targets x.
    by_target : tuple of ndarray
        For each target the numbers P_pi(G < x) over deterministic policies, in increasing order.
    complete : bool
        Whether all attainable numbers are listed.
    """

    targets: FloatArray
    by_target: tuple[FloatArray, ...]
    complete: bool


def attainable_shortfalls(mdp: MDP, *, max_values: int = MAX_VALUES, keep: int | None = None) -> Shortfalls:
    """Every P_pi(G < x) that a deterministic policy attains, or a sample of these numbers.

    Parameters
    ----------
    mdp : MDP
        A problem with returns on an exact grid.
    max_values : int
        Limit on the numbers stored per stage; more raise a SizeError.
    keep : int, optional
        Store at most this many numbers per (stage, state, need), the smallest and the largest among them; the limit
        `max_values` does not apply then.

    Returns
    -------
    Shortfalls
        The numbers, per target.

    Examples
    --------
    >>> import bqrl
    >>> coin = bqrl.MDP([(0, 0, 0, 0.5, 1.0), (0, 0, 0, 0.5, 0.0)], horizon=1)
    >>> [v.tolist() for v in attainable_shortfalls(coin).by_target]
    [[0.0], [0.5]]
    """
    columns = exact_grid(as_problem(mdp))
    if columns is None:
        raise GridError(f"the set of shortfall probabilities {NO_GRID}")
    limit = whole(max_values, "max_values", 1)
    sets = _Sets(limit, None if keep is None else whole(keep, "keep", 2))
    after: list[list[FloatArray]] = [[np.zeros(1), np.ones(1)]] * mdp.S
    for h in range(mdp.H - 1, -1, -1):
        after = _stage(mdp, h, columns, after, sets)
    starts = np.flatnonzero(mdp.mu).tolist()
    by_target = [sets.combine([(mdp.mu[s], after[s][c]) for s in starts]) for c in range(int(columns.size[0]))]
    return Shortfalls(
        targets=read_only(columns.points(0)),
        by_target=tuple(read_only(values) for values in by_target),
        complete=not sets.thinned,
    )


def _stage(mdp: MDP, h: int, columns: Grid, after: list[list[FloatArray]], sets: _Sets) -> list[list[FloatArray]]:
    """The attained numbers of every state and need of stage h, given those of stage h + 1."""
    stage, last = mdp.stage(h), int(columns.size[h + 1])
    shift, jumps = columns.moves(mdp, h)
    here: list[list[FloatArray]] = [[]] * mdp.S
    stored = 0
    known: dict[tuple[int, bytes, bytes, bytes], FloatArray] = {}  # equal rows attain equal sets
    for s in np.flatnonzero(mdp.reachable[h]).tolist():
        here[s] = []
        for c in range(int(columns.size[h]) + 1):
            rows = []
            for a in np.flatnonzero(stage.available[s]).tolist():
                row = slice(stage.row_start[s * mdp.A + a], stage.row_start[s * mdp.A + a + 1])
                p, u, t = stage.probability[row], shift[row], stage.successor[row]
                key = (c, p.tobytes(), u.tobytes(), t.tobytes())
                if key not in known:
                    land = jumps[u, c] if jumps.size else np.clip(c + u, 0, last)
                    known[key] = sets.combine([(q, after[i][j]) for q, i, j in zip(p, t, land, strict=True) if q > 0.0])
                rows.append(known[key])
            here[s].append(sets.merge(np.concatenate(rows)))
            stored += here[s][-1].size
            sets.check(stored)
    return here


class _Sets:
    """Operations on finite sets of probabilities, stored as increasing arrays, within a budget."""

    def __init__(self, max_values: int, keep: int | None) -> None:
        self.max_values, self.keep, self.thinned = max_values, keep, False

    def combine(self, parts: list[tuple[float, FloatArray]]) -> FloatArray:
        """All sums of p_i v_i with one v_i from each part."""
        total = np.zeros(1)
        for p, values in parts:
            self.check(total.size * values.size)
            total = self.merge(np.add.outer(total, p * values).ravel())
        return total

    def merge(self, values: FloatArray) -> FloatArray:
        """The sorted distinct values; at most `keep` of them, spread evenly between the extremes."""
        values = np.sort(values)
        values = values[np.r_[True, np.diff(values) > SAME]]
        if self.keep is not None and values.size > self.keep:
            self.thinned = True
            values = values[np.linspace(0, values.size - 1, self.keep).round().astype(np.int64)]
        return values

    def check(self, size: int) -> None:
        """Raise SizeError if `size` numbers exceed the budget."""
        if self.keep is None and size > self.max_values:
            raise SizeError(
                f"the exact plateau requires more than max_values={self.max_values} numbers; raise max_values or use "
                "plateau_bounds(mdp, tau)",
                needed=size,
                limit=self.max_values,
            )
