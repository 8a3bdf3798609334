"""Parts of a model as callers see them: the arrays of one stage, and the structure that learners may know."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """Views of one stage; row = s*A + a has the outcomes row_start[row] to row_start[row + 1] - 1."""

    row_start: IntArray  # (S*A + 1,)
    successor: NDArray[np.int32]  # (n,)
    probability: FloatArray  # (n,)
    reward: FloatArray  # (n,)
    row_reward: FloatArray | None  # (S, A) if all outcomes of each row have the same reward
    available: BoolArray  # (S, A)

    def outcomes_of(self, rows: IntArray, *, listed: bool = False) -> tuple[IntArray, IntArray]:
        """Return the outcomes of the given rows as positions in `rows` and indices; those of probability 0 only if `listed`."""
        counts = self.row_start[rows + 1] - self.row_start[rows]
        whose = np.repeat(np.arange(rows.size), counts)
        i = np.repeat(self.row_start[rows] - np.cumsum(counts) + counts, counts) + np.arange(whose.size)
        if listed:
            return whose, i
        happens = self.probability[i] > 0.0
        return whose[happens], i[happens]


@dataclass(frozen=True, slots=True, kw_only=True)
class Structure:
    """The part of a kernel that a learner may know: possible successors, and rows that are known exactly."""

    H: int
    S: int
    A: int
    mu: FloatArray  # (S,)
    row_start: IntArray  # (K*S*A + 1,)
    successor: NDArray[np.int32]  # (nnz,)
    available: BoolArray  # (K, S, A)
    known: BoolArray  # (K, S, A)
    probability: FloatArray  # (nnz,)  NaN in rows that are not known

    @property
    def support_size(self) -> IntArray:
        """Number of possible outcomes of every row, shape (K, S, A)."""
        return np.diff(self.row_start).reshape(self.available.shape)
