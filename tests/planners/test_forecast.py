"""Forecasts of time and memory: what they say, and that memory is that of the arrays."""

import tracemalloc

import numpy as np
import pytest

import bqrl
from bqrl.mdp.find_grid import lattice
from bqrl.planners.on_demand import on_demand_bytes, stage_line
from bqrl.planners.room import forecast, sweep_bytes


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
    assert said[1] == "stage 30 of 30, a second left"
    mine = lambda h: None  # noqa: E731
    with stage_line(large, lattice(large), mine) as say:
        assert say is mine
