"""Rows that share their expectations: the bits of the plain loop."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bqrl
from bqrl.mdp.find_grid import lattice
from bqrl.mdp.grid import Lattice
from bqrl.planners import shared_rows
from bqrl.planners.on_demand import goal_on, narrowed, values_first
from bqrl.planners.shared_rows import kinds_of
from bqrl.planners.sweep import StageKernel, sweep


@pytest.fixture
def small(monkeypatch):
    """Share rows in small problems, in narrow blocks of columns."""
    for name, value in (("THREADS_FROM", 0), ("SEARCH_COLUMNS", 0), ("NARROW", 1)):
        monkeypatch.setattr(shared_rows, name, value)
    return monkeypatch


def inventory(seed: int, *, holes: bool = False) -> bqrl.MDP:
    """A shop whose stock after an order decides; some orders may be impossible in some states."""
    rng = np.random.default_rng(seed)
    room, most, demands, H = (int(rng.integers(a, b)) for a, b in ((9, 14), (4, 7), (9, 13), (2, 5)))
    price, cost = rng.integers(0, 4, 2)
    chances = rng.integers(1, 4, demands).astype(float)

    def step(stock, order, demand):
        level = min(stock + order, room)
        return max(level - demand, 0), int(price) * min(level, demand) - int(cost) * order

    def orders(stock):
        return range(most - (stock + seed) % 2)

    noise = dict(enumerate(chances / chances.sum()))
    return bqrl.from_step(step, orders if holes else range(most), noise, H, int(rng.integers(0, room)))


@pytest.mark.parametrize("holes", [False, True])
@pytest.mark.parametrize("block", [1, 2000, 2**28])
def test_shared_rows_have_the_bits_of_the_plain_loop(small, holes, block):
    small.setattr(shared_rows, "_block_width", lambda *given: max(1, block // 100))
    shared = 0
    for seed in range(30):
        mdp = inventory(seed, holes=holes)
        grid, rng = lattice(mdp), np.random.default_rng(seed)
        kinds = shared_rows._find_kinds(mdp, shared_rows.ByUnits(grid))
        shared += kinds is not None
        for h in range(mdp.H):
            for layers, kind in ((1, np.float64), (1, np.float32), (2, np.float64)):
                begin = int(rng.integers(0, mdp.S))
                end = int(rng.integers(begin, mdp.S)) + 1
                columns, following = int(grid.size[h]) + 1, int(grid.size[h + 1]) + 1
                after = rng.integers(0, 3, (mdp.S, layers * following)).astype(kind) / 3
                results = []
                for found in (kinds, None):
                    small.setattr("bqrl.planners.sweep.kinds_of", lambda *given, found=found: found)
                    now = np.full((end - begin, layers * columns), 7.0, kind)
                    action = np.full((end - begin, columns) if layers == 2 else (0, 0), 7, np.int16)
                    StageKernel(mdp, grid, h, mdp.probability, None, 1.0).run(after, goal_on(grid), now, action, begin)
                    results.append((now, action))
                assert all(map(np.array_equal, *results))
    assert shared > 10


def test_plans_of_shared_rows_are_those_of_the_plain_loop(small):
    for seed in range(20):
        mdp = inventory(seed)
        grid = lattice(mdp)
        small.setattr(shared_rows, "SEARCH_COLUMNS", 0)
        found = sweep(mdp, grid), values_first(mdp, grid, max_bytes=1e9)
        small.setattr(shared_rows, "SEARCH_COLUMNS", 10**9)
        plain = sweep(mdp, grid)
        for one in found:
            assert np.array_equal(one.root, plain.root)
            target = float(grid.points(0)[seed % int(grid.size[0])])
            for mine, theirs in zip(one.policy(target).actions, plain.policy(target).actions, strict=True):
                assert np.array_equal(mine, theirs)


def test_kinds_are_found_once_for_a_grid_and_its_parts(small, monkeypatch):
    mdp = inventory(0)
    grid = lattice(mdp)
    assert isinstance(grid, Lattice)
    kinds = kinds_of(mdp, grid, 99)
    assert kinds is not None
    assert kinds.first.size == mdp.S  # one per stock after an order
    monkeypatch.setattr(np, "unique", None)
    assert kinds_of(mdp, narrowed(mdp, grid, 1)[0], 99) is kinds


@given(st.integers(0, 200))
def test_rows_of_one_kind_are_equal_but_for_a_constant_reward(seed):
    mdp = inventory(seed, holes=True)
    grid, stage = lattice(mdp), mdp.stage(0)
    kinds = shared_rows._find_kinds(mdp, shared_rows.ByUnits(grid))
    if kinds is None:
        return
    for q, k in zip(kinds.rows, kinds.of_row, strict=True):
        mine, other = (slice(*stage.row_start[[row, row + 1]]) for row in (q, kinds.first[k]))
        assert np.array_equal(stage.successor[mine], stage.successor[other])
        assert np.array_equal(stage.probability[mine], stage.probability[other])
        assert np.ptp(grid.units[0, mine] - grid.units[0, other]) == 0


def test_two_kinds_with_one_number_share_nothing(small):
    small.setattr(shared_rows, "_mix", lambda place, *others: np.zeros(place.size, np.uint64))
    assert kinds_of(inventory(0), lattice(inventory(0)), 99) is None


def test_blocks_that_do_not_fit_share_nothing(small):
    mdp = inventory(0)
    small.setattr(shared_rows, "block_bytes", lambda mdp: 8)
    assert kinds_of(mdp, lattice(mdp), 99) is None


def test_a_forecast_counts_the_block_and_samples_shared_rows(small):
    mdp = inventory(0)
    small.setattr("bqrl.planners.room.SAMPLE_WORK", 1)
    shared = bqrl.forecast(mdp)
    small.setattr(shared_rows, "SEARCH_COLUMNS", 10**9)
    plain = bqrl.forecast(mdp)
    small.setattr(shared_rows, "SEARCH_COLUMNS", 0)
    grid = lattice(mdp)
    kinds, columns = kinds_of(mdp, grid, 99), int(grid.size.max()) + 1
    assert shared.bytes - plain.bytes == 16 * kinds.first.size * (columns + kinds.beyond) < shared_rows.block_bytes(mdp)
    assert shared.seconds > 0.0
    assert shared.way == plain.way
