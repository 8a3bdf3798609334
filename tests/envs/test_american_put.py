"""The option has the price of its binomial tree."""

import math

import pytest

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
