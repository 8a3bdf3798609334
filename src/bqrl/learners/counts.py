"""Visits of every transition, and the empirical kernel over the known support.

    P_hat(s' | s, a) = N(s, a, s') / N(s, a),   uniform over the row's known support while N(s, a) = 0;
    rows that are known exactly keep their probabilities.

Deviation: the paper divides by max(1, N), which leaves a row of zeros until its first visit; ours is a law from the start.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.checks import wrong
from bqrl.errors import EpisodeError
from bqrl.learners.counts_loops import Tally, count_episode, posterior_shapes
from bqrl.learners.protocol import Episode, stored_array
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.stage import Structure


class Counts:
    """Counts N_h(s, a, outcome), aligned with the outcomes of the known structure.

    M = H kernels are counted, one per stage, or M = 1 if the stages are pooled. The layout is that of a model: the outcomes
    of row q = (m * S + s) * A + a are row_start[q] .. row_start[q + 1]. With M = H it is the layout of `model.staged()`, with
    M = 1 that of `model`, so `model.staged().with_probability(counts.probability)` is the empirical model.

    Parameters
    ----------
    structure
        What is known of the problem.
    stationary
        Pool the counts of all stages. None pools them if the problem stores one kernel for all stages.
    reward
        The model's rewards (`task.model.reward`). They are needed only if some row lists a successor twice with different
        rewards, to distinguish the two outcomes.
    """

    row_start: IntArray  # (M*S*A + 1,)
    successor: Any  # (nnz,) int32
    seen: IntArray  # (nnz,)  N_h(s, a, outcome)
    visits: IntArray  # (M, S, A)  N_h(s, a)
    probability: FloatArray  # (nnz,)  P_hat; updated in place, so copy what must stay
    known: BoolArray  # (M, S, A)  rows known exactly
    available: BoolArray  # (M, S, A)
    support_size: IntArray  # (M, S, A)
    tally: Tally  # all of these, for the compiled loops

    def __init__(self, structure: Structure, stationary: bool | None = None, reward: FloatArray | None = None) -> None:
        self.structure = structure
        S, A, K = structure.S, structure.A, structure.available.shape[0]
        if stationary and K > 1:
            raise wrong("stationary", stationary, "be False or None for a problem that stores one kernel per stage")
        self.M = structure.H if stationary is not None and not stationary else K
        copies, nnz = self.M // K, structure.successor.size
        starts = structure.row_start
        self.row_start = np.r_[
            np.tile(starts[:-1], copies) + np.repeat(np.arange(copies) * nnz, starts.size - 1), copies * nnz
        ]
        self.successor = np.tile(structure.successor, copies)
        self.known = np.array(np.broadcast_to(structure.known, (self.M, S, A)))
        self.available = np.array(np.broadcast_to(structure.available, (self.M, S, A)))
        self.support_size = np.diff(self.row_start).reshape(self.M, S, A)
        self.rewards = self._distinguishing(reward), nnz if copies > 1 else 0  # see find_outcome
        sizes = self.support_size.reshape(-1)
        uniform = np.repeat(1.0 / np.maximum(sizes, 1), sizes)
        given = np.tile(structure.probability, copies)
        self._blank = np.where(np.isnan(given), uniform, given)
        self.seen = np.zeros(self.successor.size, np.int64)
        self.visits = np.zeros((self.M, S, A), np.int64)
        self.probability = self._blank.copy()
        self.tally = self._tally()

    def _distinguishing(self, reward: FloatArray | None) -> FloatArray:
        """Return the rewards if they are needed to distinguish outcomes, else an array without columns."""
        structure = self.structure
        rows = np.repeat(np.arange(structure.row_start.size - 1), np.diff(structure.row_start))
        pairs = rows * structure.S + structure.successor
        if np.unique(pairs).size == pairs.size:
            return np.zeros((1, 0))
        if reward is None:
            raise wrong(
                "reward", None, "be given if a row lists a successor twice, because only rewards distinguish the two"
            )
        return np.ascontiguousarray(reward)

    def _tally(self) -> Tally:
        """Return the counts for the compiled loops."""
        return Tally(
            row_start=self.row_start,
            successor=self.successor,
            seen=self.seen,
            visits=self.visits,
            probability=self.probability,
            known=self.known,
        )

    def observe(self, episode: Episode) -> None:
        """Count one episode; EpisodeError if it holds a transition outside the known support."""
        h = count_episode(tuple(self.tally), *self.rewards, *episode[:3])
        if h < self.structure.H:
            s, a, s_next = int(episode.states[h]), int(episode.actions[h]), int(episode.states[h + 1])
            rule = f"a possible successor of action {a} in state {s}"
            message = f"stage {h + 1}: expected {rule}, got state {s_next}; extend the support"
            raise EpisodeError(message, step=h, value=s_next)

    def units(self, rows: BoolArray | None = None) -> Units:
        """Return what a posterior draws: the given rows, by default all that exist and are not known."""
        return Units(self, self.available & ~self.known if rows is None else rows)

    def state(self) -> dict[str, Any]:
        """Return the counts, which determine everything else."""
        return {"seen": self.seen.copy()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state()` returned."""
        self.seen = np.maximum(stored_array(state, "seen", self.seen), 0)
        total = np.r_[0, np.cumsum(self.seen)]
        per_row = total[self.row_start[1:]] - total[self.row_start[:-1]]
        self.visits = per_row.reshape(self.visits.shape)
        sizes = self.support_size.reshape(-1)
        learned = np.repeat((per_row > 0) & ~self.known.reshape(-1), sizes)
        self.probability = np.where(learned, self.seen / np.repeat(np.maximum(per_row, 1), sizes), self._blank)
        self.tally = self._tally()


class Units:
    """What a posterior draws: one law per row. Laws are written one after the other, in arrays of length sum(sizes).

    Parameters
    ----------
    counts
        The counts of the posterior.
    rows
        Rows to draw, shape (M, S, A); those with a single outcome are left out.
    """

    sizes: IntArray  # (units,)  entries of every law
    starts: IntArray  # (units,)  place of the first entry of every law
    place: IntArray  # (M*S*A,)  place of the first entry of a row's own law, -1 if the row has none

    def __init__(self, counts: Counts, rows: BoolArray) -> None:
        self.counts = counts
        sizes = np.diff(counts.row_start)
        drawn = rows.reshape(-1) & (sizes > 1)
        self.rows, self.outcomes = np.flatnonzero(drawn), np.flatnonzero(np.repeat(drawn, sizes))
        self.sizes = sizes[drawn]
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.place = np.where(drawn, np.cumsum(np.where(drawn, sizes, 0)) - sizes, -1)

    def seen(self) -> IntArray:
        """Return how often every entry was observed."""
        return self.counts.seen.take(self.outcomes)  # faster than an index

    def shapes(self, prior: FloatArray, divisor: float) -> FloatArray:
        """Return (prior + observations) / divisor for every entry: the parameters of Dirichlet laws."""
        found = np.empty(self.outcomes.size)
        posterior_shapes(self.counts.seen, self.outcomes, prior, divisor, found)
        return found

    def visits(self) -> IntArray:
        """Return the observations of every law, shape (units,)."""
        return self.counts.visits.reshape(-1)[self.rows]

    def collect(self, values: FloatArray) -> FloatArray:
        """Return a value per entry from one per outcome."""
        return values[self.outcomes]

    def normalised(self, draws: FloatArray, shapes: FloatArray) -> FloatArray:
        """Return gamma variates as laws; a law whose variates all underflow takes its posterior mean."""
        total = np.add.reduceat(draws, self.starts)
        draws = np.where(np.repeat(total > 0.0, self.sizes), draws, shapes)
        return draws / np.repeat(np.add.reduceat(draws, self.starts), self.sizes)

    def spread(self, laws: FloatArray, kernel: FloatArray) -> FloatArray:
        """Write the laws into the rows of the kernel, and return it."""
        kernel[self.outcomes] = laws
        return kernel
