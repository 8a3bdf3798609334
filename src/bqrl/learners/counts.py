"""Counts of every transition, and the empirical kernel over the known support.

    P_hat(s' | s, a) = N(s, a, s') / N(s, a),   uniform over the row's known support while N(s, a) = 0;
    rows that are known exactly keep their probabilities.

Deviation: the paper divides by max(1, N), so a row that was never visited is zero; here it is a probability law from the start.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.checks import bad_value
from bqrl.errors import EpisodeError
from bqrl.learners.protocol import Episode, stored_array
from bqrl.loops.counts import Tally, count_episode, posterior_shapes
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.stage import Structure


class Counts:
    """Counts N_h(s, a, outcome), aligned with the outcomes of the known structure.

    There are M = H kernels, one per stage, or M = 1 if the stages are pooled. The layout is that of a model: the outcomes of
    row q = (m * S + s) * A + a are row_start[q] .. row_start[q + 1]. With M = H it is the layout of `model.staged()`, and
    `model.staged().with_probability(counts.probability)` is the empirical model. With M = 1 it is the layout of `model`.

    Parameters
    ----------
    structure
        The known structure of the problem.
    stationary
        Whether to pool the counts of all stages. By default they are pooled if the problem stores one kernel for all stages.
    reward
        Rewards of the model (`task.model.reward`). They are required only if a row lists a successor twice with different
        rewards, to distinguish the two outcomes.
    """

    row_start: IntArray  # (M*S*A + 1,)
    successor: Any  # (nnz,) int32
    seen: IntArray  # (nnz,)  N_h(s, a, outcome)
    visits: IntArray  # (M, S, A)  N_h(s, a)
    probability: FloatArray  # (nnz,)  P_hat; updated in place, so copy it to keep it
    known: BoolArray  # (M, S, A)  rows known exactly
    available: BoolArray  # (M, S, A)
    support_size: IntArray  # (M, S, A)
    tally: Tally  # all of these, for the compiled loops

    def __init__(self, structure: Structure, stationary: bool | None = None, reward: FloatArray | None = None) -> None:
        self.structure = structure
        S, A, K = structure.S, structure.A, structure.available.shape[0]
        if stationary and K > 1:
            raise bad_value("stationary", stationary, "be False or None for a problem that stores one kernel per stage")
        self.M = structure.H if stationary is not None and not stationary else K
        copies, nnz = self.M // K, structure.successor.size
        starts = structure.row_start
        self.row_start = np.r_[
            np.tile(starts[:-1], copies) + np.repeat(np.arange(copies) * nnz, starts.size - 1), copies * nnz
        ]
        self.successor = np.tile(structure.successor, copies)
        self.known = np.array(np.broadcast_to(structure.known, (self.M, S, A)), order="C")
        self.available = np.array(np.broadcast_to(structure.available, (self.M, S, A)), order="C")
        self.support_size = np.diff(self.row_start).reshape(self.M, S, A)
        self.rewards = self._distinguishing_rewards(reward), nnz if copies > 1 else 0  # see find_outcome
        sizes = self.support_size.reshape(-1)
        uniform = np.repeat(1.0 / np.maximum(sizes, 1), sizes)
        given = np.tile(structure.probability, copies)
        self._blank = np.where(np.isnan(given), uniform, given)
        self.seen = np.zeros(self.successor.size, np.int64)
        self.visits = np.zeros((self.M, S, A), np.int64)
        self.probability = self._blank.copy()
        self.tally = self._tally()

    def _distinguishing_rewards(self, reward: FloatArray | None) -> FloatArray:
        """Return the rewards if they are needed to distinguish outcomes, else an array without columns."""
        structure = self.structure
        rows = np.repeat(np.arange(structure.row_start.size - 1), np.diff(structure.row_start))
        pairs = rows * structure.S + structure.successor
        if np.unique(pairs).size == pairs.size:
            return np.zeros((1, 0))
        if reward is None:
            raise bad_value(
                "reward", None, "be given if a row lists a successor twice, because only rewards distinguish the two"
            )
        return np.ascontiguousarray(reward)

    def _tally(self) -> Tally:
        """Return the counts for the compiled loops."""
        return Tally(
            row_start=self.row_start, successor=self.successor, seen=self.seen, visits=self.visits,
            probability=self.probability, known=self.known,
        )  # fmt: skip

    def observe(self, episode: Episode) -> None:
        """Count one episode; EpisodeError if it holds a transition outside the known support."""
        h = count_episode(tuple(self.tally), *self.rewards, *episode[:3])
        if h < episode.actions.size:
            s, a, s_next = int(episode.states[h]), int(episode.actions[h]), int(episode.states[h + 1])
            rule = f"a possible successor of action {a} in state {s}"
            message = f"stage {h + 1}: expected {rule}, got state {s_next}; extend the support"
            raise EpisodeError(message, step=h, value=s_next)

    def units(self, rows: BoolArray | None = None) -> Units:
        """Return the laws that a posterior draws: those of the given rows, by default of all available rows not known exactly."""
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
    """The laws that a posterior draws, one per row, stored one after the other in arrays of length sum(sizes).

    Parameters
    ----------
    counts
        The counts on which the posterior is based.
    rows
        Rows to draw, shape (M, S, A); rows with a single outcome are not drawn.
    """

    sizes: IntArray  # (units,)  number of entries of every law
    starts: IntArray  # (units,)  index of the first entry of every law
    place: IntArray  # (M*S*A,)  index of the first entry of the law of each row, -1 if the row is not drawn

    def __init__(self, counts: Counts, rows: BoolArray) -> None:
        self.counts = counts
        sizes = np.diff(counts.row_start)
        drawn = rows.reshape(-1) & (sizes > 1)
        self.rows, self.outcomes = np.flatnonzero(drawn), np.flatnonzero(np.repeat(drawn, sizes))
        self.sizes = sizes[drawn]
        self.starts = np.cumsum(self.sizes) - self.sizes
        self.place = np.where(drawn, np.cumsum(np.where(drawn, sizes, 0)) - sizes, -1)

    def seen(self) -> IntArray:
        """Return the number of observations of every entry."""
        return self.counts.seen.take(self.outcomes)  # faster than an index

    def shapes(self, prior: FloatArray, divisor: float) -> FloatArray:
        """Return (prior + observations) / divisor for every entry: the parameters of Dirichlet laws."""
        found = np.empty(self.outcomes.size)
        posterior_shapes(self.counts.seen, self.outcomes, prior, divisor, found)
        return found

    def visits(self) -> IntArray:
        """Return the number of observations of every law, shape (units,)."""
        return self.counts.visits.reshape(-1)[self.rows]

    def collect(self, values: FloatArray) -> FloatArray:
        """Return the value of every entry, given the value of every outcome."""
        return values[self.outcomes]

    def normalise(self, draws: FloatArray, shapes: FloatArray) -> FloatArray:
        """Return the laws from gamma variates; a law whose variates all underflow is set to its posterior mean."""
        total = np.add.reduceat(draws, self.starts)
        draws = np.where(np.repeat(total > 0.0, self.sizes), draws, shapes)
        return draws / np.repeat(np.add.reduceat(draws, self.starts), self.sizes)

    def spread(self, laws: FloatArray, kernel: FloatArray) -> FloatArray:
        """Return the kernel after writing the laws into its rows."""
        kernel[self.outcomes] = laws
        return kernel
