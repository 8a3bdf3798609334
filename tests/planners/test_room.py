"""Time and memory of a plan before it is made: which way fits, what is said if none does, and what a forecast says."""

import tracemalloc

import numpy as np
import pytest

import bqrl
from bqrl.errors import SizeError
from bqrl.mdp.find_grid import lattice, rounded_grid
from bqrl.planners.on_demand import narrowed, on_demand_bytes, stage_line, values_first
from bqrl.planners.room import Room, check_memory, check_room, exact_grid, forecast, sweep_steps
from bqrl.planners.sweep import sweep, sweep_bytes


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


def ring(S=3000, H=30, A=3):
    """A ring with rewards of 0 to 4: large enough for a sample."""
    rng = np.random.default_rng(0)
    s, a, k = (x.reshape(-1) for x in np.meshgrid(np.arange(S), np.arange(A), np.arange(3), indexing="ij"))
    rewards = rng.integers(0, 5, s.size).astype(float)
    frame = {
        "state": s,
        "action": a,
        "next_state": (s + a + 7 * k) % S,
        "probability": np.full(s.size, 1 / 3),
        "reward": rewards,
    }
    return bqrl.MDP(frame, horizon=H)


@pytest.fixture(scope="module")
def large():
    """The ring, built once."""
    return ring()


def test_a_forecast_names_size_way_and_memory(large):
    grid = lattice(large)
    found = forecast(large)
    assert (found.states, found.transitions, found.points) == (3000, 27000, int(grid.size[0]))
    assert (found.way, found.fits, found.exact) == ("tables", True, True)
    assert found.seconds > 0.0
    assert str(found).startswith(f"{found.short} (3,000 states, 27,000 transitions, 121 returns; exact, tables)")
    small = forecast(large, max_bytes=on_demand_bytes(large, grid, in_folder=False))
    assert (small.way, small.fits) == ("values first", True)
    assert not forecast(large, max_bytes=1e5).fits
    assert not forecast(large, points=50).exact


@pytest.mark.parametrize("limited", [False, True])
def test_the_memory_of_a_plan_is_within_a_factor_of_two_of_its_forecast(large, limited):
    grid = lattice(large)
    limit = on_demand_bytes(large, grid, in_folder=False) if limited else sweep_bytes(large, grid)
    expected = forecast(large, max_bytes=limit)
    tracemalloc.start()
    try:
        bqrl.solve(large, 0.1, max_bytes=limit, pairs=False)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert 0.5 * expected.bytes < peak < 2.0 * expected.bytes


def counted_steps(monkeypatch):
    """The list to which every call of a loop of a backward pass adds its number of steps."""
    steps = []

    def count(work, serial, threads, *given):
        steps.append(work)
        serial(*given)

    for place in ("sweep", "shared_rows", "step_kernel"):
        monkeypatch.setattr(f"bqrl.planners.{place}.run_loop", count)
    monkeypatch.setattr("bqrl.loops.plain._left_to_numpy", 0)  # in a fresh process NumPy would do the first work
    return steps


def test_a_forecast_counts_the_steps_of_both_passes_over_the_states_that_can_be_met(large, monkeypatch):
    grid, steps = lattice(large), counted_steps(monkeypatch)
    assert large.reachable[:-1].mean() < 0.6
    found = values_first(large, grid, max_bytes=1e9)
    assert sum(steps) == pytest.approx(sweep_steps(large, grid, met_only=True))
    steps.clear()
    found.policy(60.0)
    assert sum(steps) == pytest.approx(sweep_steps(large, narrowed(large, grid, 60)[0], met_only=True))
    steps.clear()
    sweep(large, grid)
    assert sum(steps) == pytest.approx(sweep_steps(large, grid))


def test_a_forecast_counts_shared_rows_once(monkeypatch):
    """It once took the time of a sample of shared rows for that of all outcomes."""
    for name, value in (("THREADS_FROM", 0), ("SEARCH_COLUMNS", 0)):
        monkeypatch.setattr(f"bqrl.planners.shared_rows.{name}", value)

    def step(stock, order, demand):
        level = np.minimum(stock + order, 60)
        return np.maximum(level - demand, 0), 3 * np.minimum(level, demand) - order

    mdp = bqrl.from_step(step, range(12), dict.fromkeys(range(8), 0.125), 9, 20, vectorized=True)
    grid, steps = lattice(mdp), counted_steps(monkeypatch)
    assert mdp.reachable[:-1].mean() < 0.9
    values_first(mdp, grid, max_bytes=1e9)
    assert sum(steps) == pytest.approx(sweep_steps(mdp, grid, met_only=True), rel=0.2)
    assert sum(steps) < 0.4 * mdp.successor.size * int(grid.size[:-1].sum())


def test_models_without_a_table_and_names_are_forecast_too():
    step = lambda s, a, e: (np.clip(s + a - e, 0, 9), a * e)  # noqa: E731
    model = bqrl.from_step(step, [0, 1], {0: 0.5, 1: 0.5}, 4, 3, vectorized=True, stored=False)
    assert forecast(model).way == "values first"
    assert forecast("SafeOrRisky").fits
    with pytest.raises(TypeError, match="mdp must be an MDP"):
        forecast(3)


def test_a_progress_line_tells_stage_and_time_left(large, monkeypatch):
    said = []
    monkeypatch.setattr("bqrl.mdp.search.Progress.say", lambda self, text: said.append(text))
    with stage_line(large, lattice(large), None) as say:
        say(29)
        say(0)
    assert said[0].startswith("stage 1 of 30, ")
    assert said[1] == "stage 30 of 30, 1 s left"
    mine = lambda h: None  # noqa: E731
    with stage_line(large, lattice(large), mine) as say:
        assert say is mine
