"""Inventory has the published values of Puterman's example."""

import pytest

import bqrl
from bqrl.envs import make


@pytest.mark.parametrize(("stock", "value"), [(0, 67), (1, 129), (2, 194), (3, 227)])
def test_inventory_has_the_values_of_putermans_example(stock, value):
    demand = {0: 0.25, 1: 0.5, 2: 0.25}
    mdp = make("Inventory", capacity=3, horizon=3, start=stock, demand=demand)
    assert bqrl.solve(mdp, 0.5, planner="expected").law.mean() == pytest.approx(value / 16)
