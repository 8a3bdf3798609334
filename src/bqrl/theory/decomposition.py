"""Buffered optimistic decomposition of the regret of one episode (lemma of that name), evaluated on a run.

Let V^t be the optimistic value of episode t and pi* the optimal policy; all other values are under the true kernel. Then

    x* - Q_tau(pi^t) = [x* - Q^beta(pi*)] + [Q^beta(pi*) - V^t] + [V^t - Q^beta(pi^t)] + [Q^beta(pi^t) - Q_tau(pi^t)].

The second bracket is at most 0 while the confidence set contains the true kernel (optimism).

Corrected: the paper bounds the first and the fourth bracket by Delta_beta each. The fourth is at most 0, because
Q_tau^beta <= Q_tau, so only the first bracket remains of the term 2 Delta_beta.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, numbers
from bqrl.laws.law import Law
from bqrl.mdp.arrays import BoolArray, FloatArray, read_only
from bqrl.theory.inputs import as_buffers, as_level

ROUNDING = 1e-9  # relative to the scale of the returns


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Decomposition:
    """The four brackets of every episode, each of shape (T,); they add up to `regret`."""

    regret: FloatArray  # x* - Q_tau(pi^t)
    buffering: FloatArray  # x* - Q^beta(pi*)
    optimism: FloatArray  # Q^beta(pi*) - V^t
    model: FloatArray  # V^t - Q^beta(pi^t), the model error
    rest: FloatArray  # Q^beta(pi^t) - Q_tau(pi^t); at most 0
    scale: FloatArray  # largest absolute return or value in the comparison of `optimism`

    @property
    def bound(self) -> FloatArray:
        """The one-sided bound on the regret of each episode: buffering plus model error."""
        return self.buffering + self.model

    @property
    def optimistic(self) -> BoolArray:
        """Whether optimism held, per episode; differences below the rounding error of the returns do not count."""
        return np.asarray(self.optimism <= ROUNDING * self.scale)


def optimistic_decomposition(best: Law, laws: Sequence[Law], optimistic: Any, tau: float, betas: Any) -> Decomposition:
    """Return the four brackets of every episode of a run (buffered optimistic decomposition).

    Parameters
    ----------
    best : Law
        Return law of the optimal policy pi*.
    laws : sequence of Law
        True return laws of the policies played, one per episode.
    optimistic : array_like of shape (T,)
        Optimistic values V^t.
    tau, betas : see `bqrl.theory`
        One buffer, or one per episode.

    Returns
    -------
    Decomposition

    Examples
    --------
    >>> import bqrl
    >>> law = bqrl.Law([0, 1], [0.5, 0.5])
    >>> optimistic_decomposition(law, [law], [1.0], tau=0.6, betas=0.2).regret.tolist()
    [0.0]
    """
    tau, V = as_level(tau), numbers(optimistic, "optimistic")
    if not isinstance(best, Law):
        raise bad_type("best", best, "be a Law", type(best).__name__)
    if not isinstance(laws, Sequence) or not all(isinstance(law, Law) for law in laws):
        raise bad_type("laws", laws, "be a list of laws")
    if V.ndim != 1 or len(laws) != V.size:
        raise bad_value("optimistic", optimistic, f"have one entry per law ({len(laws)})", f"shape {V.shape}")
    beta = as_buffers(betas, tau, "betas")
    if beta.ndim and beta.shape != V.shape:
        raise bad_value("betas", betas, f"be a number or have one entry per episode ({V.size})", f"shape {beta.shape}")
    beta = np.broadcast_to(beta, V.shape)
    top = best.quantile(tau)
    point = np.array([law.quantile(tau) for law in laws])
    soft = np.array([law.buffered_quantile(tau, b) for law, b in zip(laws, beta.tolist(), strict=True)])
    star = np.array([best.buffered_quantile(tau, b) for b in beta.tolist()])
    return Decomposition(
        regret=read_only(top - point), buffering=read_only(top - star), optimism=read_only(star - V),
        model=read_only(V - soft), rest=read_only(soft - point),
        scale=read_only(np.maximum(np.abs(best.values).max(), np.abs(V))),
    )  # fmt: skip
