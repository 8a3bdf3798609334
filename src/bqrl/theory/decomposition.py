"""Where a run's regret comes from, and the sums that the proof of Theorem 1 bounds, for any run that is put in.

With V^t the optimistic value of episode t, pi* the optimal policy and everything else under the true kernel,

    x* - Q_tau(pi^t) = [x* - Q^beta(pi*)] + [Q^beta(pi*) - V^t] + [V^t - Q^beta(pi^t)] + [Q^beta(pi^t) - Q_tau(pi^t)].

The second bracket is not positive while the confidence set holds the true kernel (optimism), and the fourth never is.
Corrected: the paper bounds the fourth by Delta_beta, too; it is at most 0, so only the first remains of 2 Delta_beta.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.laws.law import Law
from bqrl.mdp.forms import FloatArray
from bqrl.planners.plan import check_levels
from bqrl.theory.checks import buffers, whole

ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Decomposition:
    """The four brackets of every episode (T,); they add up to `regret`."""

    regret: FloatArray
    buffering: FloatArray  # x* - Q^beta(pi*)
    optimism: FloatArray  # Q^beta(pi*) - V^t
    model: FloatArray  # V^t - Q^beta(pi^t)
    rest: FloatArray  # Q^beta(pi^t) - Q_tau(pi^t)

    @property
    def bound(self) -> FloatArray:
        """The one-sided bound on each episode's regret: buffering plus model error."""
        return self.buffering + self.model

    def paper_bound(self, gap: FloatArray | float) -> FloatArray:
        """The lemma's own bound 2 Delta_beta + model error, given Delta_beta of every episode."""
        return 2.0 * np.asarray(gap) + self.model

    @property
    def optimistic(self) -> Any:
        """In which episodes optimism held."""
        return self.optimism <= ROUNDING * np.maximum(1.0, np.abs(self.model))


def optimistic_decomposition(best: Law, laws: Sequence[Law], optimistic: Any, tau: float, betas: Any) -> Decomposition:
    """The brackets of a run: `best` is the law of pi*, `laws` those of the policies played, `optimistic` their V^t."""
    tau, _ = check_levels(tau, 0.0)
    V = np.asarray(optimistic, dtype=np.float64)
    if V.ndim != 1 or len(laws) != V.size:
        raise ValueError(f"laws and optimistic must have one entry per episode, got {len(laws)} and shape {V.shape}")
    beta = np.broadcast_to(buffers(betas, tau), V.shape)
    top = best.quantile(tau)
    point = np.array([law.quantile(tau) for law in laws])
    soft = np.array([law.buffered_quantile(tau, b) for law, b in zip(laws, beta.tolist(), strict=True)])
    star = np.array([best.buffered_quantile(tau, b) for b in beta.tolist()])
    return Decomposition(top - point, top - star, star - V, V - soft, soft - point)


@dataclass(frozen=True, slots=True, eq=False)
class Counting:
    """The stage-wise counting lemma on one run."""

    total: float  # sum over t, h of w_h / sqrt(max(1, N_h^t(S_h^t, A_h^t)))
    bound: float  # 2 Lambda sqrt(S A T)
    by_stage: FloatArray  # (H,) the sum of each stage
    by_episode: FloatArray  # (T,) the sum of each episode

    def scaled(self, factor: float) -> tuple[float, float]:
        """Sum and bound times `factor`, e.g. c sqrt(log(2 S A T H / delta)) for the radii themselves."""
        return self.total * factor, self.bound * factor


def weighted_counting(states: Any, actions: Any, S: int, A: int, weights: Any = None) -> Counting:
    """The sum of w_h / sqrt(max(1, N)) along a run beside its bound (lemma on weighted stage-wise counting).

    `states` (T, H) or (T, H + 1) and `actions` (T, H) are what was visited; N counts the visits of the stage before the
    episode. `weights` (H,) are w_h, by default the paper's H - h - 1 (`mismatch_weights` gives a problem's own).
    The lemma is about counts of each stage apart: counts pooled over stages lag within an episode.
    """
    a = np.asarray(actions)
    s = np.asarray(states)
    if a.ndim != 2 or s.ndim != 2 or len(s) != len(a) or s.shape[1] not in (a.shape[1], a.shape[1] + 1):
        raise ValueError(f"states and actions must be (T, H), states also (T, H + 1); got {s.shape} and {a.shape}")
    if s.dtype.kind not in "iu" or a.dtype.kind not in "iu":
        raise TypeError(f"states and actions must be whole numbers, got {s.dtype} and {a.dtype}")
    T, H = a.shape
    s, S, A = s[:, :H], whole(S, "S", 1), whole(A, "A", 1)
    if s.size and (s.min() < 0 or s.max() >= S or a.min() < 0 or a.max() >= A):
        raise ValueError(f"states must lie in 0 .. {S - 1} and actions in 0 .. {A - 1}")
    w = np.arange(H - 1.0, -1.0, -1.0) if weights is None else np.asarray(weights, dtype=np.float64)
    if w.shape != (H,) or np.any(w < 0.0):
        raise ValueError(f"weights must be {H} numbers of at least 0, got shape {w.shape}")
    terms = np.empty((T, H))
    for h in range(H):
        terms[:, h] = w[h] / np.sqrt(np.maximum(1, visits_before(s[:, h] * A + a[:, h])))
    bound = 2.0 * float(w.sum()) * float(np.sqrt(S * A * T))
    return Counting(float(terms.sum()), bound, terms.sum(axis=0), terms.sum(axis=1))


def visits_before(rows: Any) -> Any:
    """How often each entry of a sequence has occurred before, e.g. [5, 7, 5, 5] gives [0, 0, 1, 2]."""
    rows = np.asarray(rows)
    order = np.argsort(rows, kind="stable")
    ordered = rows[order]
    first = np.r_[True, ordered[1:] != ordered[:-1]][: rows.size]
    begin = np.maximum.accumulate(np.where(first, np.arange(rows.size), 0))
    count = np.empty(rows.size, np.int64)
    count[order] = np.arange(rows.size) - begin
    return count
