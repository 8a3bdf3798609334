"""What the tests of named problems share."""

import numpy as np

import bqrl


def best(mdp, tau):
    """The best quantile."""
    return bqrl.solve(mdp, tau).value


def same_kernel(mdp, rows, horizon, start):
    """Assert that the model is that of the listed transitions."""
    other = bqrl.MDP(rows, horizon=horizon, start=start)
    assert (mdp.H, mdp.S, mdp.A) == (other.H, other.S, other.A)
    for field in ("mu", "row_start", "successor", "probability", "reward", "available", "known"):
        assert np.array_equal(getattr(mdp, field), getattr(other, field)), field
