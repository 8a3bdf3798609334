import numpy as np
import pytest
from logged_problems import coin
from scipy.stats import binom

from bqrl.laws.law import Law
from bqrl.logs.fit import fit
from bqrl.logs.interval import quantile_interval


@pytest.mark.parametrize("tau", [0.05, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("n", [3, 20, 200])
def test_order_statistics_cover_the_quantile(tau, n):
    """Against the binomial law: the ends are the tightest that keep each tail at 0.025."""
    log = coin(n, n) | {"reward": np.arange(n, dtype=float)}
    found = fit(log, reward_range=(0, n)).logged(tau)
    tail = 0.025
    below = max((i for i in range(1, n + 1) if binom.cdf(i - 1, n, tau) <= tail), default=0)
    above = min((i for i in range(1, n + 1) if binom.sf(i - 1, n, tau) <= tail), default=n + 1)
    assert found["lower"] == (below - 1 if below else -np.inf)
    assert found["upper"] == (above - 1 if above <= n else np.inf)
    assert found["value"] == np.ceil(n * tau) - 1


def test_intervals_contain_the_true_median():
    """400 samples of 50: at confidence 0.9, fewer than 340 hits have probability below 0.001."""
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(400):
        found = quantile_interval(rng.random(50), 0.5, 0.9)
        hits += found["lower"] <= 0.5 <= found["upper"]
    assert hits >= 340


@pytest.mark.parametrize("n", [1, 7, 10, 30, 1000, 100_000])
@pytest.mark.parametrize("tau", [1e-13, 0.1 * 3, 0.3, 0.7, 1 / 3, 0.999])
def test_the_empirical_quantile_is_that_of_the_law_of_the_returns(n, tau):
    returns = np.random.default_rng(n).permutation(n).astype(float)
    assert quantile_interval(returns, tau, 0.9)["value"] == Law(returns, np.full(n, 1 / n)).quantile(tau)
