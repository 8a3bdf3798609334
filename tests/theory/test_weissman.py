import numpy as np
import pytest
from scipy.stats import binom

from bqrl.theory import weissman, weissman_radius


def test_weissman_and_its_radius_are_inverse():
    for S, n, delta in ((2, 10, 0.1), (7, 500, 0.01), (3000, 10**6, 0.5)):
        assert weissman(n, weissman_radius(n, S, delta), S) == pytest.approx(delta)
    assert weissman(5, 0.1, 1) == 0.0
    assert weissman(5, 0.0, 3) == weissman(1, 1e-9, 3) == 1.0
    assert weissman_radius(5, 1, 0.1) == 0.0


def test_weissman_bounds_the_true_probability_of_two_outcomes():
    # ||p_hat - p||_1 = 2 |k/n - p| with k binomial: the exact tail beside the bound.
    for n, p in ((10, 0.5), (40, 0.2), (200, 0.03)):
        k = np.arange(n + 1)
        off = 2 * np.abs(k / n - p)
        for eps in (0.05, 0.2, 0.5, 1.0):
            assert binom.pmf(k, n, p)[off >= eps - 1e-12].sum() <= weissman(n, eps, 2) + 1e-12


def test_weissman_bounds_the_simulated_tail():
    # 20 000 draws: a frequency exceeds its expectation by 0.02 with probability below exp(-16) (Hoeffding).
    p, n = np.array([0.5, 0.3, 0.1, 0.1]), 50
    rng = np.random.default_rng(1)
    off = np.abs(rng.multinomial(n, p, size=20_000) / n - p).sum(axis=1)
    for eps in (0.3, 0.4, 0.5):
        assert (off >= eps).mean() <= weissman(n, eps, 4) + 0.02
