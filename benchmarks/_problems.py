"""Random problems of a given size for the benchmarks."""

from __future__ import annotations

import numpy as np
import scipy.sparse

from bqrl.mdp.model import MDP


def dense(S: int, A: int, H: int, top: int, seed: int = 0) -> MDP:
    """Every successor possible, whole rewards 0 .. top by (s, a): H * top + 1 lattice points."""
    rng = np.random.default_rng(seed)
    P = rng.random((S, A, S))
    return MDP(P / P.sum(axis=2, keepdims=True), _rewards(rng, (S, A), top), horizon=H)


def sparse(S: int, A: int, k: int, H: int, top: int, *, by_outcome: bool = False, near: int = 0, seed: int = 0) -> MDP:
    """`k` successors a row (or a few less), anywhere, or at most `near` states away; rewards by (s, a) or by outcome."""
    rng = np.random.default_rng(seed)
    rows = S * A
    successor = rng.integers(0, S, (rows, k))
    if near:
        successor = (np.repeat(np.arange(S), A)[:, None] + rng.integers(-near, near + 1, (rows, k))) % S
    if S <= 2000 and not near:
        successor = np.argsort(rng.random((rows, S)), axis=1)[:, :k]
    weight = rng.random((rows, k)) + 0.1
    if by_outcome:
        flat = np.sort(successor, axis=1)
        keep = np.c_[np.ones(rows, bool), np.diff(flat, axis=1) > 0]
        weight = np.where(keep, weight, 0.0)
        weight /= weight.sum(axis=1, keepdims=True)
        q = np.repeat(np.arange(rows), k)[keep.ravel()]
        reward = _rewards(rng, (q.size,), top)
        listed = np.c_[q // A, q % A, flat.ravel()[keep.ravel()], weight.ravel()[keep.ravel()], reward]
        return MDP([(int(s), int(a), int(t), p, r) for s, a, t, p, r in listed], horizon=H)
    kernel = scipy.sparse.csr_matrix(
        (weight.ravel(), successor.ravel(), np.arange(0, rows * k + 1, k)), shape=(rows, S)
    )
    kernel.sum_duplicates()
    kernel.data /= np.repeat(np.asarray(kernel.sum(axis=1)).ravel(), np.diff(kernel.indptr))
    return MDP(kernel, _rewards(rng, (S, A), top), horizon=H)


def _rewards(rng: np.random.Generator, shape: tuple[int, ...], top: int) -> np.ndarray:
    rewards = rng.integers(0, top + 1, shape).astype(float)
    rewards.flat[:2] = 0.0, float(top)
    return rewards
