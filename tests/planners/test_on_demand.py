"""Values first, policy on demand: the same bits as the sweep that keeps all its tables."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import random_mdp, small_mdps

import bqrl
from bqrl.errors import SizeError
from bqrl.mdp.find_grid import lattice, rounded_grid
from bqrl.mdp.grid import Lattice
from bqrl.planners.facts import StoredInSingle
from bqrl.planners.on_demand import (
    Checkpointed,
    columns_of,
    narrowed,
    narrows,
    on_demand_bytes,
    policy_bytes,
    spacing,
    unit_range,
    values_first,
    widest,
)
from bqrl.planners.sweep import rounding_error, sweep, sweep_bytes

LEVELS = st.sampled_from([0.1, 0.25, 0.5, 0.9])


def grid_of(mdp) -> Lattice:
    """The lattice of a problem, or a rounded grid if it has none."""
    return lattice(mdp) or rounded_grid(mdp, 40)


@given(small_mdps(), st.randoms(use_true_random=False))
def test_values_and_policies_have_the_bits_of_the_dense_sweep(mdp, random):
    grid = grid_of(mdp)
    dense, lazy = sweep(mdp, grid), values_first(mdp, grid, max_bytes=1e9)
    assert np.array_equal(lazy.root, dense.root)
    column = random.randrange(int(grid.size[0]))
    target = float(grid.points(0)[column])
    policy, expected = lazy.policy(target), dense.policy(target)
    assert policy.near is not None
    for h in range(mdp.H):
        width, met = policy.near.actions[h].shape[1], mdp.reachable[h]
        wanted = expected.actions[h][:, policy.near.first[h] :][:, :width]
        assert np.array_equal(policy.near.actions[h][met], wanted[met])
        assert np.array_equal(policy.actions[h], expected.actions[h])  # from checkpoints


@given(small_mdps(), LEVELS)
def test_a_plan_in_little_memory_is_the_plan_in_much(mdp, tau):
    full = bqrl.solve(mdp, tau)
    grid = lattice(mdp)
    if grid is None or "pairs" in full.details or not narrows(mdp, grid):
        return
    limit = on_demand_bytes(mdp, grid, in_folder=False)
    if limit >= sweep_bytes(mdp, grid):
        return
    plan = bqrl.solve(mdp, tau, max_bytes=limit, pairs=False)
    assert plan.details["curve"].sweep.max_bytes == limit  # values came first
    assert (plan.value, plan.upper, plan.certain, plan.exact) == (full.value, full.upper, full.certain, full.exact)
    assert plan.law.equals(full.law)


def test_the_memory_is_that_of_the_widest_target_not_of_the_middle_one(tmp_path):
    def step(stock, order, demand):
        return max(stock + order - demand, 0), 5 * min(stock + order, demand) - 2 * order

    mdp = bqrl.from_step(step, range(0, 11, 5), dict.fromkeys(range(5), 0.2), 8, 5)
    grid = lattice(mdp)
    most = max(policy_bytes(mdp, narrowed(mdp, grid, i)[0], in_folder=True) for i in range(int(grid.size[0]) + 1))
    assert policy_bytes(mdp, widest(mdp, grid, in_folder=True), in_folder=True) == most
    limit = on_demand_bytes(mdp, grid, in_folder=True)
    assert limit == most  # in the middle it is less
    assert policy_bytes(mdp, narrowed(mdp, grid, int(grid.size[0]) // 2)[0], in_folder=True) < most
    for tau in (0.02, 0.3, 0.7, 0.98):
        plan = bqrl.solve(mdp, tau, max_bytes=limit, folder=tmp_path, pairs=False)
        assert plan.value == bqrl.solve(mdp, tau).value


def walk(H=12, S=9, seed=0):
    """A walk with rewards of 0 to 2 steps."""
    rng = np.random.default_rng(seed)
    lines = []
    for s in range(S):
        for a in range(3):
            p = rng.dirichlet(np.ones(3))
            for i, q in enumerate(p):
                lines.append((s, a, (s + i - 1 + a) % S, q, float(rng.integers(0, 3))))
    return bqrl.MDP(lines, horizon=H)


def test_a_policy_acts_everywhere_from_checkpoints(tmp_path):
    mdp = walk()
    grid = lattice(mdp)
    dense = sweep(mdp, grid).policy(14.0)
    for folder in (None, tmp_path):
        policy = values_first(mdp, grid, max_bytes=1e9, folder=folder).policy(14.0)
        for h in (0, 7, 11, 3):
            for need in (-5.0, 0.0, 3.0, 14.0, 99.0):
                assert [policy.act(h, s, need) for s in range(mdp.S)] == [dense.act(h, s, need) for s in range(mdp.S)]
        assert list(tmp_path.iterdir()) == []  # files in the folder have no name
        other = walk(seed=3)  # another model: its needs leave the columns of the target
        law = bqrl.evaluate(other, policy, rewards="this model")
        assert law.equals(bqrl.evaluate(other, dense, rewards="this model"))
        played = bqrl.simulate(other.replace(start=4), policy, 50, seed=1, rewards="this model")
        assert np.array_equal(played, bqrl.simulate(other.replace(start=4), dense, 50, seed=1, rewards="this model"))


def test_states_that_cannot_be_met_are_not_computed_and_act_from_checkpoints():
    mdp = walk(S=40).replace(start=20)
    grid = lattice(mdp)
    dense, policy = sweep(mdp, grid).policy(14.0), values_first(mdp, grid, max_bytes=1e9).policy(14.0)
    far = np.flatnonzero(~mdp.reachable[3])
    assert 0 < far.size < mdp.S - 1
    assert not policy.near.actions[3][far].any()
    assert bqrl.evaluate(mdp, policy).equals(bqrl.evaluate(mdp, dense))
    assert policy.actions.passes == 0
    assert [policy.act(3, s, 9.0) for s in range(mdp.S)] == [dense.act(3, s, 9.0) for s in range(mdp.S)]
    needs = np.full(mdp.S, 9.0)
    assert np.array_equal(policy.act_many(3, np.arange(mdp.S), needs), dense.act_many(3, np.arange(mdp.S), needs))
    elsewhere = mdp.replace(start=0)  # where the policy meets other states
    assert bqrl.evaluate(elsewhere, policy).equals(bqrl.evaluate(elsewhere, dense))


def test_two_walks_through_all_stages_cost_two_sweeps_and_the_checkpoints():
    mdp = walk(H=40)
    tables = Checkpointed(mdp, lattice(mdp), 1e9)
    assert len(tables) == 40
    for _ in range(2):
        for h in range(40):
            assert tables[h].shape == (mdp.S, int(columns_of(tables.grid)[h]))
    assert tables.passes == (40 - spacing(40)) + 2 * 40
    assert np.array_equal(tables[-1], tables[39])
    assert len(tables[38:]) == 2
    with pytest.raises(IndexError, match="below 40, got 40"):
        tables[40]


def test_a_folder_takes_the_actions_that_do_not_fit(tmp_path):
    mdp = walk(H=40)
    grid = lattice(mdp)
    narrow, _ = narrowed(mdp, grid, 30)
    limit = policy_bytes(mdp, narrow, in_folder=True)
    assert limit < policy_bytes(mdp, narrow)
    policy = values_first(mdp, grid, max_bytes=limit, folder=tmp_path).policy(30.0)
    dense = sweep(mdp, grid).policy(30.0)
    assert policy.near is not None
    assert list(tmp_path.iterdir()) == []  # its files have no name
    assert bqrl.evaluate(mdp, policy).equals(bqrl.evaluate(mdp, dense))
    assert values_first(mdp, grid, max_bytes=limit).policy(30.0).near is None  # without a folder


def test_narrowed_columns_follow_the_target():
    mdp = walk(H=20)
    grid = lattice(mdp)
    narrow, first = narrowed(mdp, grid, 20)
    assert int(narrow.size[0]) == 1
    assert int(first[0]) == 20
    assert narrow.cells < 0.6 * grid.cells
    assert narrow.points(3)[0] == grid.points(3)[int(first[3])]
    assert policy_bytes(mdp, narrow) < policy_bytes(mdp, grid)


@given(mdp=small_mdps(), terminal=st.booleans())
def test_the_ends_of_the_rewards_of_every_stage_are_found_once(mdp, terminal):
    """Once a refusal passed over all transitions for every stage and block of every number of workers that it tried."""
    if terminal:  # rewards then differ by stage
        mdp = bqrl.MDP(
            [mdp.dense(h).reshape(mdp.S, mdp.A, mdp.S) for h in range(mdp.H)],
            np.arange(mdp.H * mdp.S * mdp.A).reshape(mdp.H, mdp.S, mdp.A) % 5,
            mdp.mu,
            available=np.broadcast_to(mdp.available, (mdp.H, mdp.S, mdp.A)),
            terminal=np.arange(mdp.S),
        )
    grid = lattice(mdp)
    if grid is None:
        return
    for h in (*range(mdp.H), 0):
        units = grid.stage_units(mdp, h)
        assert unit_range(mdp, grid, h) == (units.min(), units.max())
    assert len(grid._ends) == (1 if mdp.stationary and len(grid.units) == 1 else mdp.H)


def test_tables_that_do_not_fit_anywhere_are_refused_with_what_would():
    mdp = walk(H=60, S=30)
    grid = lattice(mdp)
    least = on_demand_bytes(mdp, grid, in_folder=True)
    assert least <= on_demand_bytes(mdp, grid, in_folder=False) < sweep_bytes(mdp, grid)
    with pytest.raises(SizeError, match=r"must fit into max_bytes=.*, got .*; give points.* for a bracket"):
        bqrl.solve(mdp, 0.1, max_bytes=least - 1, pairs=False)
    policy = values_first(mdp, grid, max_bytes=1.0).policy(60.0)
    assert policy.near is None
    with pytest.raises(SizeError, match=r"the tables of all needs must fit .* give folder for checkpoints"):
        policy.act(0, 0, 60.0)
    with pytest.raises(SizeError, match=r"computes its .* decisions on demand; raise max_bytes .*, or store"):
        policy.arrays()


@given(small_mdps(), LEVELS)
def test_shortfalls_in_32_bits_stay_within_their_stated_error(mdp, tau):
    grid = grid_of(mdp)
    exact, single = (values_first(mdp, grid, max_bytes=1e9, precision=p).root for p in ("float64", "float32"))
    curve = bqrl.guarantee_curve(mdp, points=40, precision="float32") if narrows(mdp, grid) else None
    error = rounding_error(mdp) + 1.001 * mdp.H * 2.0**-24
    assert np.all(np.abs(single - exact) <= error * exact + 1e-37)
    if curve is not None:
        best = bqrl.solve(mdp, tau).value
        assert curve.error >= error - rounding_error(mdp)
        assert curve(tau) <= best + 1e-9 * (1 + abs(best))
        assert curve.upper(tau) >= best - 1e-9 * (1 + abs(best))


def test_a_tie_that_32_bits_round_down_does_not_raise_the_curve():
    mdp = bqrl.from_step(lambda s, a, e: (0, e), [0], {0: 0.7, 1: 0.3}, 1, 0)
    curve = bqrl.guarantee_curve(mdp, precision="float32")
    assert curve.shortfall[1] < 0.7 - 1e-9  # a return below 1 has the probability 0.7
    assert (curve(0.7), curve.upper(0.7), curve.certain(0.7), curve.policy(0.7).target) == (0.0, 1.0, False, 0.0)
    assert (curve(0.71), curve.certain(0.71)) == (1.0, True)


def test_a_plan_from_32_bits_says_so():
    mdp = random_mdp(np.random.default_rng(4), plain=True)
    plan = bqrl.solve(mdp, 0.3, precision="float32")
    assert plan.notes == (StoredInSingle(error=plan.details["curve"].error),)
    assert plan.value <= bqrl.solve(mdp, 0.3).value <= plan.upper
    with pytest.raises(ValueError, match="precision must be"):
        bqrl.solve(mdp, 0.3, precision="float16")
    with pytest.raises(ValueError, match="folder must be an existing folder"):
        bqrl.guarantee_curve(mdp, folder="no such folder")


def test_a_disk_without_room_is_refused_before_the_pass_that_would_fill_it(tmp_path, monkeypatch):
    mdp = random_mdp(np.random.default_rng(4), plain=True)
    grid = lattice(mdp)
    monkeypatch.setattr("bqrl.planners.on_demand.shutil.disk_usage", lambda folder: SimpleNamespace(free=1))
    with pytest.raises(SizeError, match=r"folder must be on a disk with .* GiB free, got .*; give a folder on another"):
        bqrl.solve(mdp, 0.3, max_bytes=on_demand_bytes(mdp, grid, in_folder=True), folder=tmp_path, pairs=False)
    monkeypatch.setattr("bqrl.planners.on_demand.spacing", lambda H: 1)
    tables = Checkpointed(mdp, grid, 1e9, tmp_path)
    with pytest.raises(SizeError, match="folder must be on a disk"):
        tables[0]


def test_a_folder_that_cannot_be_written_to_is_refused_at_once(tmp_path, monkeypatch):
    def refuse(**given):
        raise PermissionError("denied")

    mdp = random_mdp(np.random.default_rng(4), plain=True)
    monkeypatch.setattr("bqrl.planners.room.tempfile.TemporaryFile", refuse)
    with pytest.raises(ValueError, match=r"folder must be a folder that can be written to, got .*; give another one"):
        bqrl.guarantee_curve(mdp, folder=tmp_path)
