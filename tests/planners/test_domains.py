"""The benchmark domains of the quantile-MDP literature, where their files are at hand."""

from pathlib import Path

import numpy as np
import pytest

import bqrl
from bqrl.mdp.find_grid import returns_grid

FOLDER = Path(__file__).parents[3] / "shared" / "domains"
STARTS = {"riverswim": 9, "machine": 1, "population": 44, "cliff": 37, "inventory2": 20}  # as the files count, from 1
pytestmark = pytest.mark.skipif(not FOLDER.is_dir(), reason="the domain files are not beside this checkout")


def load(name, horizon, discount=1.0):
    return bqrl.load(FOLDER / f"{name}.csv", horizon=horizon, start=str(STARTS[name]), discount=discount)


@pytest.mark.parametrize(
    ("name", "horizon"), [("riverswim", 20), ("machine", 20), ("population", 20), ("cliff", 20), ("inventory2", 3)]
)
def test_undiscounted_plans_are_exact(name, horizon):
    mdp = load(name, horizon)
    for tau in (0.1, 0.5):
        plan = bqrl.solve(mdp, tau)
        assert plan.exact
        assert plan.upper >= plan.value
        assert plan.law.quantile(tau) == plan.value
        # Hoeffding, 4000 draws: the share below the value misses its probability by 0.04 with chance below 0.0001.
        draws = bqrl.simulate(mdp, plan.policy, 4000, seed=3)
        short = plan.law.shortfall(plan.value)
        assert abs(np.mean(draws < plan.value - 1e-6) - short) < 0.04
        assert plan.value >= bqrl.solve(mdp, tau, planner="expected").value - 1e-9


def test_riverswim_uses_the_set_of_its_returns():
    found = returns_grid(load("riverswim", 100))
    assert found.kind == "set"
    assert int(found.size[0]) <= 5151  # sums of 100 rewards out of three; from this start some cannot occur


@pytest.mark.parametrize("name", ["riverswim", "machine", "cliff", "population"])
def test_discounted_plans_are_brackets_that_narrow(name):
    mdp = load(name, 100, discount=0.9)
    coarse, fine = (bqrl.solve(mdp, 0.1, points=points) for points in (500, 4000))
    for plan in (coarse, fine):
        assert not plan.exact
        assert plan.value <= plan.upper
    assert max(coarse.value, fine.value) <= min(coarse.upper, fine.upper) + 1e-9
    assert fine.gap <= coarse.gap + 1e-9
    draws = bqrl.simulate(mdp, fine.policy, 4000, seed=1)
    # The policy promises P(G < value) < 0.1; Hoeffding: 4000 draws show more than 0.14 with chance below 0.0001.
    assert np.mean(draws < fine.value - 1e-6) < 0.14
