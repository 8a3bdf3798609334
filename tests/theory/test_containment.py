import math

import numpy as np
import pytest
from scipy.stats import binom

from bqrl.theory import confidence_constant, radius, weissman


def test_constant_and_radius_in_closed_form():
    S, A, T, H, delta = 4, 3, 1000, 5, 0.1
    L = math.log(2 * S * A * T * H / delta)
    c = math.sqrt(2 * math.log(S * A * T * H * (2**S - 2) / delta)) / math.sqrt(L)
    assert confidence_constant(S, A, T, H, delta) == pytest.approx(c)
    assert radius(50, S, A, T, H, delta) == pytest.approx(c * math.sqrt(L / 50))
    assert radius(0, S, A, T, H, delta) == radius(1, S, A, T, H, delta) >= 2.0
    assert math.isfinite(confidence_constant(1, A, T, H, delta))
    assert radius([3, 3], S, A, T, H, delta, support=[1, 2]).tolist() == [0.0, radius(3, S, A, T, H, delta, 2)]


def test_constant_is_not_universal():
    large, larger = (
        confidence_constant(S, 2, 100, 5, 0.1) ** 2 * math.log(2 * S * 1000 / 0.1) / S for S in (500, 5000)
    )
    assert large == pytest.approx(2 * math.log(2), abs=0.1)  # c^2 log(2SATH/delta) grows like 1.39 S
    assert larger == pytest.approx(2 * math.log(2), abs=0.02)


def test_adaptive_data_stay_in_the_sets_as_often_as_promised():
    # A row is visited again while its estimate looks good: given N = n its draws are not independent. 300 runs at
    # delta = 0.2: the promise holds, so the exact binomial test refutes it with probability below 0.025.
    delta, T, A = 0.2, 60, 3
    p = np.array([[0.5, 0.3, 0.2]] * A)
    rng = np.random.default_rng(11)
    contained = []
    for _ in range(300):
        counts, fine = np.zeros((A, 3)), True
        for _ in range(T):
            n = counts.sum(axis=1)
            estimate = counts / np.maximum(1, n)[:, None]
            a = int((estimate[:, 0] + 0.3 * (n == 0) + 0.01 * rng.random(A)).argmax())
            counts[a] += rng.multinomial(1, p[a])
            n = counts.sum(axis=1)
            off = np.abs(counts / np.maximum(1, n)[:, None] - p).sum(axis=1)
            fine &= bool(np.all(off[n > 0] <= radius(n, 3, A, T, 1, delta)[n > 0]))
        contained.append(fine)
    assert binom.cdf(sum(contained), len(contained), 1 - delta) > 0.025  # the exact test does not refute it


def test_weissman_in_closed_form():
    for S, n, delta in ((2, 10, 0.1), (7, 500, 0.01), (3000, 10**6, 0.5)):
        eps = math.sqrt(2.0 * (math.log(2**S - 2) - math.log(delta)) / n)
        assert weissman(n, eps, S) == pytest.approx(delta)
    assert weissman(5, 0.1, 1) == 0.0
    assert weissman(5, 0.0, 3) == weissman(1, 1e-9, 3) == 1.0


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
