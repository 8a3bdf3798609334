"""The three kinds of grid: columns, needs, sums of rewards, and arrays for files."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import small_mdps

from bqrl import MDP
from bqrl.errors import FileFormatError
from bqrl.mdp.find_grid import lattice, return_set, returns_grid, rounded_grid
from bqrl.mdp.grid import drop_close, grid_from_arrays, merge_close, whole_steps

COIN = MDP([(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.5, 1.5), (0, 1, 0, 1.0, -0.5)], horizon=4)
GRIDS = [lattice(COIN), return_set(COIN), rounded_grid(COIN, 30), rounded_grid(COIN, 30, up=True)]


def test_snapping_before_rounding():
    worth = np.array([0.3, 0.29, 0.31])
    assert whole_steps(worth, 0.0, 0.1, up=False).tolist() == [3, 2, 3]
    assert whole_steps(worth, 0.0, 0.1, up=True).tolist() == [3, 3, 4]
    assert whole_steps(worth, np.nextafter(0.3, 1.0), 1e-9, up=False)[0] == 0  # the base itself, but for rounding


@given(small_mdps(), st.floats(-3, 15))
def test_the_column_of_a_need_is_the_first_point_that_covers_it(mdp, need):
    found = returns_grid(mdp)
    points = found.points(0)
    column = int(found.column(0, need))
    assert column == points.size or points[column] >= need - 2e-3 * max(found.step, 1e-9)
    assert column == 0 or points[column - 1] < need


@given(small_mdps(), st.integers(0, 3))
def test_a_reward_reduces_the_need_by_as_much(mdp, choice):
    found = (lattice(mdp), return_set(mdp), returns_grid(mdp), rounded_grid(mdp, 40))[choice]
    for h in range(mdp.H):
        for reward in np.unique(mdp.stage(h).reward):
            need = float(found.points(h)[-1])
            assert found.reduced(need, h, float(reward)) == pytest.approx(need - reward, abs=found.error + 1e-9)


@pytest.mark.parametrize("found", GRIDS, ids=lambda found: found.kind)
def test_a_grid_comes_back_from_its_arrays(found):
    again = grid_from_arrays(found.arrays())
    assert type(again) is type(found)
    for h in range(COIN.H + 1):
        assert np.array_equal(again.points(h), found.points(h))
    needs = np.linspace(-4.0, 8.0, 41)
    assert np.array_equal(again.column(1, needs), found.column(1, needs))
    assert np.array_equal(again.reduced(needs, 1, 1.5), found.reduced(needs, 1, 1.5))


def test_an_unknown_kind_of_grid_is_refused():
    with pytest.raises(FileFormatError, match="expected a grid of kind"):
        grid_from_arrays(GRIDS[0].arrays() | {"kind": np.array("tree")})


def test_merged_values_differ_by_more_than_the_slack():
    assert merge_close(np.array([0.0, 1e-12, 1.0, 1.0 + 1e-12]), 1e-9).tolist() == [0.0, 1.0]
    chain = np.array([0.0, 0.6, 1.2, 1.8, 5.0])  # each value is near the next, but the first and the third are not
    assert drop_close(chain, 1.0).tolist() == [0.0, 1.2, 5.0]
