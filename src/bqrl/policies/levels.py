"""Policies whose memory is a quantile level: the paper's pi[mu, Gamma]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from bqrl.loops.tolerance import MASS_TOL
from bqrl.mdp.arrays import FloatArray, read_only
from bqrl.mdp.model import MDP
from bqrl.mdp.paid import Fault
from bqrl.policies.protocol import Policy
from bqrl.policies.target import TargetPolicy


class QuantileLevelPolicy(Policy):
    """The paper's pi[mu, Gamma]: the memory is a quantile level q that starts at tau and is a martingale.

    `curve.level_policy(tau)` makes it from a sweep: the level of need n is q = W_h(s, n) + margin, where W is the
    smallest probability of missing the need and margin = tau - W_0(start, x). mu acts for the largest need whose level
    is at most q; Gamma is the level of the need that remains. If several needs share a level, the largest one is
    followed, and a need whose level would exceed 1 is abandoned although it may still be met. In these cases the policy
    may differ from the target policy on which it is based and fall short more often, but never so often that its
    quantile decreases.

    Corrected: a level must lie in [0, 1], so q is clipped at 1. It is a martingale until the need is almost certainly
    missed, and in general a supermartingale.

    Attributes
    ----------
    tau, margin : float
        The level, and its distance above the shortfall of the target.
    targets : TargetPolicy
        The target policy on which it is based.
    shortfall : tuple of H + 1 ndarrays of shape (S, columns)
        W for each state and amount still needed.

    Examples
    --------
    >>> import bqrl
    >>> policy = bqrl.guarantee_curve(bqrl.envs.make("SafeOrRisky"), keep=True).level_policy(0.1)
    >>> policy.start()
    0.1
    """

    kind = "quantile-level"

    def __init__(self, targets: TargetPolicy, shortfall: Sequence[FloatArray], tau: float, margin: float) -> None:
        self.targets, self.shortfall = targets, tuple(map(read_only, shortfall))  # H + 1 arrays (S, columns)
        self.tau, self.margin = float(tau), float(margin)
        self.H, self.S = targets.H, targets.S

    def start(self, u: float | None = None) -> float:
        """Return the level tau."""
        return self.tau

    def _column(self, h: int, s: int, q: float) -> int:
        levels = self.shortfall[h][s] + self.margin
        if h == 0:  # tau if the first state is fixed; if it is random, each first state has its own level
            q = float(levels[self.targets.first_column])
        return max(0, int(np.searchsorted(levels, q + MASS_TOL, side="right")) - 1)

    def act(self, h: int, s: int, memory: Any) -> int:
        """Return the action mu_h(s, q)."""
        self._check(h, s, memory)
        return int(self.targets.actions[h][s, self._column(h, s, memory)])

    def next(self, memory: Any, h: int, s: int, action: int, reward: float, s_next: int) -> float:
        """Return Gamma_h(s, q, a, s_next), the level of the remaining need."""
        grid, column = self.targets.grid, self._column(h, s, memory)
        points = grid.points(h)
        if column >= points.size:
            return 1.0
        need = grid.reduced(float(points[column]), h, reward)
        after = grid.column(h + 1, need, self.targets.extra)
        return float(min(1.0, self.shortfall[h + 1][s_next, after] + self.margin))

    def reward_fault(self, mdp: MDP) -> Fault | None:
        """Return the fault of the target policy."""
        return self.targets.reward_fault(mdp)

    def arrays(self) -> dict[str, Any]:
        """Return the target policy, the shortfalls and the level."""
        flat = {f"target_{key}": value for key, value in self.targets.arrays().items()}
        flat |= {f"shortfall_{h}": table for h, table in enumerate(self.shortfall)}
        return flat | {"tau": np.array(self.tau), "margin": np.array(self.margin)}

    def __repr__(self) -> str:
        return f"QuantileLevelPolicy(tau={self.tau:g}, H={self.H}, S={self.S})"
