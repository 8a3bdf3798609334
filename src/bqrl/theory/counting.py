"""Weighted stage-wise counting bound (lemma of that name), evaluated on a run.

Let N_h^t(s, a) be the number of visits to a row before episode t. For weights w_h >= 0 and Lambda = sum_h w_h,

    sum_t sum_h w_h / sqrt(max{1, N_h^t(S_h^t, A_h^t)}) <= 2 Lambda sqrt(S A T).

The paper takes w_h = H - h - 1, hence Lambda = H (H - 1) / 2.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from itertools import count
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, numbers, whole
from bqrl.mdp.arrays import FloatArray, IntArray, read_only


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Counting:
    """The two sides of the counting lemma on one run."""

    total: float  # the left-hand side, summed over episodes and stages
    bound: float  # 2 Lambda sqrt(S A T)
    by_stage: FloatArray  # (H,)  contributions to `total`
    by_episode: FloatArray  # (T,)


def weighted_counting(states: Any, actions: Any, S: int, A: int, weights: Any = None) -> Counting:
    """Return the sum of w_h / sqrt(max{1, N}) along a run, and its bound (weighted stage-wise counting bound).

    The lemma requires separate counts per stage: counts pooled over the stages also grow within an episode.

    Parameters
    ----------
    states : array_like of int, shape (T, H) or (T, H + 1)
        States visited in each episode.
    actions : array_like of int, shape (T, H)
        Actions played in each episode.
    S, A : see `bqrl.theory`
    weights : array_like of shape (H,), optional
        Weights w_h; by default the paper's H - h - 1. `return_law_perturbation(...).weights` are the weights of a problem.

    Returns
    -------
    Counting

    Examples
    --------
    >>> found = weighted_counting([[0, 0], [0, 0]], [[0, 0], [0, 0]], S=1, A=1)
    >>> found.total, round(found.bound, 4)
    (2.0, 2.8284)
    """
    a, given = _as_indices(actions, "actions", whole(A, "A", 1)), np.asarray(states)
    if a.ndim != 2 or given.ndim != 2 or len(given) != len(a) or given.shape[1] not in (a.shape[1], a.shape[1] + 1):
        shapes = "have shape (T, H) or (T, H + 1) and actions (T, H)"
        raise bad_value("states", states, shapes, f"{given.shape} and {a.shape}")
    T, H = a.shape
    s = _as_indices(given[:, :H], "states", whole(S, "S", 1))  # the state after the last stage is not counted
    w = np.arange(H - 1.0, -1.0, -1.0) if weights is None else numbers(weights, "weights", 0.0)
    if w.shape != (H,):
        raise bad_value("weights", weights, f"be {H} numbers, one per stage", f"shape {w.shape}")
    terms = np.empty((T, H))
    for h in range(H):
        terms[:, h] = w[h] / np.sqrt(np.maximum(1, visits_before(s[:, h] * A + a[:, h])))
    return Counting(
        total=float(terms.sum()),
        bound=2.0 * float(w.sum()) * float(np.sqrt(S * A * T)),
        by_stage=read_only(terms.sum(axis=0)),
        by_episode=read_only(terms.sum(axis=1)),
    )


def _as_indices(value: Any, name: str, size: int) -> IntArray:
    """Return `value` as an array of whole numbers from 0 to size - 1."""
    found = np.asarray(value)
    if found.dtype.kind not in "iu":
        raise bad_type(name, value, "be an array of whole numbers", f"dtype {found.dtype}")
    if found.size and (found.min() < 0 or found.max() >= size):
        raise bad_value(name, value, f"be from 0 to {size - 1}", f"values from {found.min()} to {found.max()}")
    return found


def visits_before(rows: Any) -> IntArray:
    """Return the number of earlier occurrences of each entry of a sequence, e.g. [0, 0, 1, 2] for [5, 7, 5, 5]."""
    counts: defaultdict[int, count[int]] = defaultdict(count)  # each entry has its own counter
    return np.array([next(counts[row]) for row in np.asarray(rows).tolist()], np.int64)
