"""The option has the price of its binomial tree."""

import math

import numpy as np
import pytest
from scipy.stats import norm

import bqrl
from bqrl.envs import make


def test_american_put_has_the_price_of_the_binomial_tree():
    steps, dt = 12, 1 / 12
    up, grow = math.exp(0.2 * math.sqrt(dt)), math.exp(0.05 * dt)
    p = (grow - 1 / up) / (up - 1 / up)
    value = [max(100 - 100 * up ** (2 * j - steps), 0.0) for j in range(steps + 1)]
    for n in reversed(range(steps)):
        held = [(p * value[j + 1] + (1 - p) * value[j]) / grow for j in range(n + 1)]
        value = [max(held[j], 100 - 100 * up ** (2 * j - n)) for j in range(n + 1)]
    mdp = make("AmericanPut")
    assert bqrl.solve(mdp, 0.5, planner="expected").law.mean() == pytest.approx(value[0], rel=1e-9)
    assert value[0] == pytest.approx(6.0, abs=0.1)


PUT = {"price": 1.0, "strike": 1.0, "rate": 0.0, "volatility": 0.3, "drift": -0.3, "steps": 9, "years": 0.9}


def test_the_best_mean_of_the_literatures_put_is_close_to_the_closed_form():
    # With a falling price and no interest the payoff grows in the mean, so waiting is best: a European put.
    spread, growth = 0.3 * math.sqrt(0.9), math.exp(-0.3 * 0.9)
    d = (math.log(growth) + spread**2 / 2) / spread
    closed = norm.cdf(spread - d) - growth * norm.cdf(-d)
    for substeps, distance in ((1, 2e-3), (20, 4e-4)):
        found = bqrl.solve(make("AmericanPut", **PUT, substeps=substeps), bqrl.Mean()).value
        assert found == pytest.approx(closed, abs=distance)


def test_quantile_and_cvar_of_the_literatures_put_by_optimal_stopping():
    n = 5
    up, growth = math.exp(0.3 * math.sqrt(0.1 / n)), math.exp(-0.3 * 0.1 / n)
    p = (growth - 1 / up) / (up - 1 / up)
    move = np.array([1.0])
    for _ in range(n):
        move = np.convolve(move, [1 - p, 0.0, p])
    levels = np.arange(-9 * n, 9 * n + 1)
    payoff = np.maximum(1.0 - up ** levels.astype(float), 0.0)

    def least(cost):
        """Least expected cost of the payoff at a stopping time among ten, the last of which is forced."""
        after = cost(payoff)
        for _ in range(9):
            held = np.correlate(np.pad(after, n, mode="edge"), move, mode="valid")
            after = np.minimum(cost(payoff), held)  # levels beyond the ends are never reached
        return after[levels.size // 2]

    mdp = make("AmericanPut", **PUT, substeps=n)
    for tau in (0.2, 0.5):
        quantile = max(x for x in payoff if least(lambda g, x=x: (g < x - 1e-12).astype(float)) < tau)
        cvar = max(z - least(lambda g, z=z: np.maximum(z - g, 0.0)) / tau for z in payoff)
        assert bqrl.solve(mdp, tau, pairs=True).value == pytest.approx(quantile, abs=1e-12)
        assert bqrl.solve(mdp, bqrl.CVaR(tau), pairs=True).value == pytest.approx(cvar, abs=1e-9)
