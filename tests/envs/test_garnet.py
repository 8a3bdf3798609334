"""Garnet problems depend on their seed alone."""

import numpy as np
from zoo_checks import same_kernel

from bqrl.envs import make


def test_garnet_depends_on_its_seed_alone():
    rng = np.random.default_rng(7)
    P, R = np.zeros((12, 4, 12)), rng.integers(0, 5, (12, 4)).astype(float)
    for s in range(12):
        for a in range(4):
            P[s, a, rng.choice(12, 3, replace=False)] = rng.dirichlet(np.ones(3))
    rows = [(s, a, t, P[s, a, t], R[s, a]) for s, a, t in np.argwhere(P)]
    same_kernel(make("Garnet"), rows, 10, 0)
    assert not np.array_equal(make("Garnet", seed=8).probability, make("Garnet").probability)
