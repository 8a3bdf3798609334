import numpy as np
import pytest
from logged_problems import coin
from scipy.stats import binom

from bqrl.laws.interval import lower_end, quantile_interval, share_interval
from bqrl.laws.law import Law
from bqrl.laws.objectives import CVaR, Mean
from bqrl.logs.fit import fit


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


def test_lower_ends_hold():
    """400 samples of 60: each end fails with probability 0.05 at most; more than 40 failures have probability below 0.0001."""
    rng, failures, nothing = np.random.default_rng(1), 0, 0
    for _ in range(400):
        lower = lower_end(CVaR(0.5), rng.random(60), 0.9, 0.0)
        failures += lower > 0.25  # the mean of the lower half
        nothing += lower == 0.0
    assert failures <= 40
    assert nothing == 0
    assert lower_end(CVaR(0.5), np.ones(9), 0.9, -np.inf) == -np.inf


def test_lower_ends_move_mass_to_the_floor():
    """100 returns of 1 and a mass of eps at 0: the CVaR at 0.5 is 1 - eps / 0.5."""
    eps = np.sqrt(np.log(40.0) / 200.0)
    assert lower_end(CVaR(0.5), np.ones(100), 0.95, 0.0) == pytest.approx(1.0 - eps / 0.5)
    cut = np.r_[np.ones(90), np.full(10, -np.inf)]  # returns that are not known
    assert lower_end(CVaR(0.5), cut, 0.95, 0.0) == pytest.approx(1.0 - (eps + 0.1) / 0.5)
    assert lower_end(Mean(), np.ones(100), 0.95, 0.0) == pytest.approx(1.0 - eps)


@pytest.mark.parametrize("n", [1, 7, 40])
def test_the_limits_of_a_share_are_the_tightest_that_keep_each_tail(n):
    """Against the binomial law: at a limit, the observed count or a more extreme one has probability 0.025."""
    for hits in range(n + 1):
        lower, upper = share_interval(hits, n, 0.95)
        assert lower == 0.0 if hits == 0 else binom.sf(hits - 1, n, lower) == pytest.approx(0.025)
        assert upper == 1.0 if hits == n else binom.cdf(hits, n, upper) == pytest.approx(0.025)
