"""The memory of a sweep: which way fits, and what is said if none does."""

import numpy as np
import pytest

import bqrl
from bqrl.errors import SizeError
from bqrl.mdp.find_grid import lattice, rounded_grid
from bqrl.planners.on_demand import on_demand_bytes
from bqrl.planners.room import Room, check_memory, check_room, exact_grid, sweep_bytes


def chain(H=80, S=12):
    """A ring on which a step pays 0 to 6."""
    lines = [
        (s, a, (s + a + d) % S, 0.5, float(3 * a * d + (s + d) % 4)) for s in range(S) for a in (0, 1) for d in (0, 1)
    ]
    return bqrl.MDP(lines, horizon=H)


def test_room_takes_the_tables_if_they_fit_then_the_values():
    mdp = chain()
    grid = lattice(mdp)
    tables, values = sweep_bytes(mdp, grid), on_demand_bytes(mdp, grid, in_folder=False)
    assert values < tables
    assert Room(max_bytes=tables).tables_fit(mdp, grid)
    assert not Room(max_bytes=tables - 1).tables_fit(mdp, grid)
    assert not Room(max_bytes=tables, single=True).tables_fit(mdp, grid)
    assert Room(max_bytes=values).values_fit(mdp, grid)
    assert not Room(max_bytes=values - 1).values_fit(mdp, grid)
    Room(max_bytes=values).check(mdp, grid)
    with pytest.raises(SizeError) as caught:
        Room(max_bytes=values - 1).check(mdp, grid)
    assert caught.value.needed == values


def test_the_points_that_the_error_names_do_fit():
    mdp = chain()
    with pytest.raises(SizeError, match=r"give points=\d+ for a bracket") as caught:
        bqrl.solve(mdp, 0.1, max_bytes=200_000, pairs=False)
    points = int(str(caught.value).split("points=")[1].split(" ")[0])
    plan = bqrl.solve(mdp, 0.1, max_bytes=200_000, points=points)
    assert plan.value <= bqrl.solve(mdp, 0.1).value <= plan.upper


def test_a_folder_is_named_only_if_it_helps(tmp_path):
    # A reward of the first stage spans all returns, so every column can be met, and checkpoints are the larger part.
    H, rewards = 600, np.zeros((600, 4, 1, 4))
    rewards[0, :, :, :] = np.array([0.0, 99.0, 198.0, 297.0])
    rewards[1:] = np.array([0.0, 0.0, 0.0, 1.0])
    mdp = bqrl.MDP(np.full((H, 4, 1, 4), 0.25), rewards)
    grid = lattice(mdp)
    least = on_demand_bytes(mdp, grid, in_folder=True)
    assert least < on_demand_bytes(mdp, grid, in_folder=False)
    with pytest.raises(SizeError, match="give folder for its checkpoints, with which it fits"):
        bqrl.guarantee_curve(mdp, max_bytes=least)
    curve = bqrl.guarantee_curve(mdp, max_bytes=least, folder=tmp_path)
    assert curve(0.1) == bqrl.guarantee_curve(mdp)(0.1)
    policy = curve.policy(0.1)
    assert policy.near is not None  # its tables are in the folder
    assert bqrl.evaluate(mdp, policy).quantile(0.1) == curve(0.1)
    assert list(tmp_path.iterdir()) == []


def test_limits_of_other_planners_stay():
    mdp = chain(H=5)
    grid = rounded_grid(mdp, 50)
    check_memory(mdp, grid, sweep_bytes(mdp, grid))
    with pytest.raises(SizeError, match=r"a rounded grid of .* use fewer points"):
        check_memory(mdp, grid, sweep_bytes(mdp, grid), sweeps=2)
    assert exact_grid(mdp, 1.0, or_rounded=True) is None
    assert exact_grid(mdp).same_columns(lattice(mdp))


@pytest.mark.parametrize(("name", "value"), [("max_bytes", 0.0), ("precision", "half"), ("folder", 3)])
def test_bad_limits_are_named(name, value):
    given = {"max_bytes": 1e6, "folder": None, "precision": "float64"} | {name: value}
    with pytest.raises((ValueError, TypeError), match=name):
        check_room(**given)


def test_dense_rows_refuse_32_bits():
    mdp = bqrl.envs.make("AssetSelling")
    with pytest.raises(ValueError, match="precision must be 'float64' if rows are dense"):
        bqrl.guarantee_curve(mdp, precision="float32")


def test_a_grid_that_exceeds_the_memory_is_refused_with_its_size():
    mdp = bqrl.envs.make("SafeOrRisky")
    grid = exact_grid(mdp)
    assert exact_grid(mdp, 1.0, or_rounded=True) is None
    with pytest.raises(SizeError) as caught:
        check_memory(mdp, grid, 10.0)
    assert caught.value.needed == sweep_bytes(mdp, grid)
