"""The model checker Storm as judge of the target sweep."""

import numpy as np
import pytest

from bqrl import MDP, guarantee_curve

pytest.importorskip(
    "stormpy", reason="Storm is not installed here (extra `storm`); no wheel for this Python or platform"
)


def integer_problem(rng):
    """A random problem with whole rewards, some negative, by row or by outcome, and coarse probabilities."""
    S, A, H = int(rng.integers(2, 5)), int(rng.integers(2, 4)), int(rng.integers(2, 6))
    counts = rng.integers(0, 4, (S, A, S)).astype(float)
    counts[..., 0] += counts.sum(axis=2) == 0
    shape = (S, A, S) if rng.random() < 0.5 and not S == A == H else (S, A)
    return MDP(counts / counts.sum(axis=2, keepdims=True), rng.integers(-1, 4, shape), horizon=H)


@pytest.mark.parametrize("seed", range(25))
def test_storm_agrees_on_the_chance_of_every_target(seed):
    from storm_oracle import storm_chances

    mdp = integer_problem(np.random.default_rng(seed))
    if mdp.reward.min() == mdp.reward.max():
        mdp = MDP(np.full((2, 1, 2), 0.5), [[0.0], [1.0]], horizon=3)
    curve = guarantee_curve(mdp)
    targets, chances = storm_chances(mdp)
    for x, chance in zip(targets, chances, strict=True):
        column = int(curve.sweep.grid.column(0, float(x)))
        ours = 1.0 - (curve.shortfall[column] if column < curve.points.size else 1.0)
        assert ours == pytest.approx(chance, abs=1e-9)
