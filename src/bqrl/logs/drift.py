"""Whether the logged actions change along the log, as those of a policy that learns do: a permutation test.

The promise of the old policy needs independent episodes of one policy. Then the order of the episodes tells nothing, and the
statistic below has the same law after any permutation of the episodes, however the actions depend on the history of their own
episode. The statistic is Pearson's chi-square of the actions in the first and in the second half of the log, summed over states.
"""

from __future__ import annotations

import numpy as np

from bqrl.logs.episodes import Episodes
from bqrl.mdp.arrays import BoolArray

LEVEL = 0.01  # probability of a false alarm
PERMUTATIONS = 199


def action_drift(log: Episodes) -> float | None:
    """Return the p-value of the test if it is at most LEVEL, else None."""
    pairs, pair = np.unique(log.state * len(log.actions) + log.action, return_inverse=True)
    group = np.unique(pairs // len(log.actions), return_inverse=True)[1]
    total = np.bincount(pair).astype(np.float64)
    in_state = np.bincount(group, total)
    if in_state.size == total.size:  # one action per state
        return None

    def statistic(early: BoolArray) -> float:
        first = np.bincount(pair[early[log.episode]], minlength=total.size)
        here = np.bincount(group, first)
        spread = (here * (in_state - here))[group]
        excess = (first * in_state[group] - here[group] * total) ** 2 / np.maximum(spread * total, 1.0)
        return float(excess[spread > 0.0].sum())

    early, rng = np.arange(log.T) < log.T // 2, np.random.default_rng(0)
    seen, higher = statistic(early), 0
    for _ in range(PERMUTATIONS):
        higher += statistic(rng.permutation(early)) >= seen * (1.0 - 1e-9)
        if (1 + higher) / (PERMUTATIONS + 1) > LEVEL:
            return None
    return (1 + higher) / (PERMUTATIONS + 1)
