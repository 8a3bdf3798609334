"""The model checker Storm as a second opinion on the sweep: max P(G >= x) for every target x."""

import numpy as np
import pytest
from storm_oracle import storm_chances

from bqrl import MDP, guarantee_curve, solve

pytest.importorskip(
    "stormpy",
    minversion="2.0",
    reason="Storm is not installed here (extra `storm`); no wheel for this Python or platform",
)


def whole_rewards(rng):
    """A problem with whole rewards, negative ones too: by (s, a), by (s, a, s_next) or random, stationary or not."""
    S, A, H = int(rng.integers(2, 5)), int(rng.integers(2, 4)), int(rng.integers(2, 6))
    K = H if rng.random() < 0.5 else 1
    low = int(rng.integers(-2, 1))
    if rng.random() < 0.3:
        listed = []
        for k in range(K):
            for q in range(S * A):
                p = rng.dirichlet(np.ones(int(rng.integers(1, 4))))
                for share in p:
                    line = (q // A, q % A, int(rng.integers(S)), share, float(rng.integers(low, low + 4)))
                    listed.append((k, *line) if K > 1 else line)
        return MDP(listed, horizon=H)
    P = rng.integers(0, 4, (K, S, A, S)) + np.eye(S)[rng.integers(0, S, (K, S, A))]  # small counts, zeros among them
    available = rng.random((K, S, A)) < 0.85
    available[..., 0] = True
    P = np.where(available[..., None], P / P.sum(axis=3, keepdims=True), 0.0)
    R = rng.integers(low, low + 4, (K, S, A, S) if rng.random() < 0.5 else (K, S, A)).astype(float)
    if K == 1:
        P, R, available = P[0], R[0], available[0]
    return MDP(P, R, start=int(rng.integers(S)), horizon=H, available=available)


@pytest.mark.parametrize("seed", range(40))
def test_storm_agrees_on_every_target(seed):
    mdp = whole_rewards(np.random.default_rng(seed))
    curve = guarantee_curve(mdp)
    targets, chances = storm_chances(mdp)
    ours = dict(zip(curve.points.tolist(), (1.0 - curve.shortfall).tolist(), strict=True))
    for x, chance in zip(targets.tolist(), chances, strict=True):
        # Below the lowest return the grid needs no point: any target there is reached for certain.
        wanted = ours.get(float(x), 1.0 if x < curve.points[0] else 0.0)
        assert wanted == pytest.approx(chance, abs=1e-9), (mdp, x)


@pytest.mark.parametrize("seed", range(40, 50))
def test_the_best_quantile_is_the_highest_target_that_storm_finds_likely_enough(seed):
    mdp = whole_rewards(np.random.default_rng(seed))
    targets, chances = storm_chances(mdp)
    for tau in (0.1, 0.37, 0.5, 0.9):
        if np.abs(1.0 - chances - tau).min() > 1e-9:  # a tie is decided by exact arithmetic elsewhere
            assert solve(mdp, tau).value == targets[np.flatnonzero(1.0 - chances < tau)[-1]]
