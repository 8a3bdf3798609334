"""Candidate kernels of the paper's experiment."""

import numpy as np

from bqrl.loops.candidates import Outcomes, fill_candidates


def test_candidates_are_kernels_within_the_balls():
    rng = np.random.default_rng(1)
    S, A, k, H = 3, 2, 3, 2
    probability = rng.dirichlet(np.ones(k), S * A).reshape(-1)
    known = np.arange(S * A) == 2
    reward = rng.random((1, probability.size))
    outcomes = Outcomes(np.arange(0, S * A * k + 1, k), np.tile(np.arange(S), S * A), reward, known, 1.0, S * A)
    retained, half, out = rng.random((H + 1, S)), np.full(S * A, 0.15), np.empty((6, probability.size))
    fill_candidates(outcomes, probability, half, retained, rng.random((4, S * A, 2)), out)
    rows = out.reshape(6, S * A, k)
    assert np.array_equal(out[0], probability)
    assert np.array_equal(rows[:, 2], np.tile(rows[0, 2], (6, 1)))  # a known row does not move
    assert np.allclose(rows.sum(axis=2), 1.0)
    assert rows.min() >= 0.0
    assert np.abs(rows - rows[0]).sum(axis=2).max() <= 0.3 + 1e-12
    worth = H * reward[0] + retained[1:].sum(axis=0)[outcomes.successor]
    gain = ((out[1] - out[0]) * worth).reshape(S * A, k).sum(axis=1)
    assert np.all(gain[~known] > 0.0)  # the directed candidate raises the retained value of every row
