"""Sweeps on clusters of two and four processes: the bits of one machine, also if workers are killed in the middle."""

import json
import os
import signal
import sys
from itertools import count

import numpy as np
import pytest
from dask_processes import ENVIRONMENT, WORKER, start, start_scheduler, stop
from oracles import random_mdp

import bqrl
from bqrl.cli.commands import run
from bqrl.errors import SizeError
from bqrl.mdp.find_grid import lattice, rounded_grid
from bqrl.planners import cluster as module
from bqrl.planners.cluster import COLUMNS, STATES, Pass, as_cluster, choose_way, cut, needed_of
from bqrl.planners.on_demand import goal_on, terminal_row, values_first
from bqrl.planners.sweep import sweep
from bqrl.planners.widths import clipped_cost

distributed = pytest.importorskip("distributed")


@pytest.fixture(scope="module", params=[2, pytest.param(4, marks=pytest.mark.nightly)])
def client(request):
    with (
        distributed.LocalCluster(
            n_workers=request.param,
            threads_per_worker=1,
            host="127.0.0.1",
            silence_logs=50,
            dashboard_address="127.0.0.1:0",  # a free port: two processes may run these tests at once
        ) as local,
        distributed.Client(local, set_as_default=False) as found,
    ):
        yield found


def inventory(stored):
    """Stock of 0 to 60 units, so that the step function is defined inside: workers receive it by value."""

    def step(stock, order, demand):
        level = np.minimum(stock + order, 60)
        sold = np.minimum(level, demand)
        return level - sold, 5 * sold - 2 * order

    noise = dict.fromkeys(range(10), 0.1)
    return bqrl.from_step(step, range(0, 21, 5), noise, 6, 20, vectorized=True, stored=stored)


def garnet(S=60, A=3, H=7, k=3, top=4, seed=0, **options):
    """Rewards of 0 to `top` steps by outcome, on k successors anywhere."""
    rng = np.random.default_rng(seed)
    lines = []
    for s in range(S):
        for a in range(A):
            chances = rng.dirichlet(np.ones(k))
            for t, p in zip(rng.choice(S, k, replace=False), chances, strict=True):
                lines.append((s, a, int(t), p, float(rng.integers(0, top + 1))))
    return bqrl.MDP(lines, horizon=H, **options)


def dense(S=40, A=3, H=4):
    rng = np.random.default_rng(1)
    return bqrl.MDP(rng.dirichlet(np.ones(S), size=(S, A)), rng.integers(0, 6, (S, A)).astype(float), horizon=H)


PROBLEMS = {
    "rewards by outcome": garnet,
    "several first states": lambda: garnet(start=np.arange(60) / 1770),
    "a discount, so a bracket": lambda: garnet(H=4, discount=0.9),
    "a step function": lambda: inventory(False),
    "its table": lambda: inventory(True),
    "matrix products": dense,
    "a set of returns": lambda: bqrl.envs.make("AssetSelling"),
}


def same_law(one, other):
    return np.array_equal(one.values, other.values) and np.array_equal(one.probabilities, other.probabilities)


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_cluster_gives_the_bits_of_one_machine(client, name):
    mdp = PROBLEMS[name]()
    points = {"points": 60} if name.endswith("bracket") else {}
    here, there = (bqrl.guarantee_curve(mdp, **points, **more) for more in ({}, {"cluster": client}))
    assert np.array_equal(here.shortfall, there.shortfall)
    if here.optimistic is not None:
        assert np.array_equal(here.optimistic[1], there.optimistic[1])
    one, other = (bqrl.solve(mdp, tau=0.2, pairs=False, **points, **more) for more in ({}, {"cluster": client}))
    assert (one.value, one.upper, one.certain, one.notes) == (other.value, other.upper, other.certain, other.notes)
    assert same_law(one.law, other.law)
    for h in range(mdp.H):
        expected, found, first = one.policy.actions[h], None, 0
        if other.policy.near is None:
            found = other.policy.actions[h]
        else:
            found, first = other.policy.near.actions[h], int(other.policy.near.first[h])
        assert np.array_equal(found, expected[:, first : first + found.shape[1]])
    assert same_law(bqrl.evaluate(mdp, one.policy), bqrl.evaluate(mdp, one.policy, cluster=client))


@pytest.mark.parametrize("way", [COLUMNS, STATES])
def test_both_ways_to_cut_have_the_bits_of_one_machine(client, way, monkeypatch):
    monkeypatch.setattr(module, "choose_way", lambda *_: way)
    shared, cost = as_cluster(client), clipped_cost(2.5)
    for seed in range(3):
        mdp = random_mdp(np.random.default_rng(seed), plain=seed % 2 == 0)
        grid = lattice(mdp) or rounded_grid(mdp, 40)
        for options in ({}, {"cost": cost, "extra": cost.size - 1}, {"policy": False}):
            one, other = sweep(mdp, grid, **options), sweep(mdp, grid, **options, cluster=shared)
            assert np.array_equal(one.root, other.root)
            if one.tables is not None:
                assert np.array_equal(one.mean, other.mean)
                assert all(map(np.array_equal, one.actions, other.actions))
        single = [
            values_first(mdp, grid, max_bytes=1e9, precision="float32", **more).root
            for more in ({}, {"cluster": shared})
        ]
        assert np.array_equal(*single)


@pytest.mark.parametrize("goal", [bqrl.CVaR(0.2), bqrl.Chance(14.0)])
def test_other_objectives_share_their_sweeps(client, goal):
    mdp = garnet()
    one, other = bqrl.solve(mdp, goal), bqrl.solve(mdp, goal, cluster=client)
    assert (one.value, one.upper, one.certain) == (other.value, other.upper, other.certain)
    assert same_law(one.law, other.law)


def test_the_command_line_plans_on_a_cluster(client, capsys):
    answers = []
    for more in ([], ["--cluster", client.scheduler.address]):
        assert run(["solve", "SafeOrRisky", "--tau", "0.1", "--json", *more]) == 0
        answers.append(json.loads(capsys.readouterr().out)["levels"])
    for level in (*answers[0], *answers[1]):
        for name in ("seconds", "smaller_margins", "choice"):  # smaller margins are searched on one machine only
            level.pop(name, None)
    assert answers[0] == answers[1]


@pytest.mark.slow
@pytest.mark.parametrize("all_of_them", [False, True], ids=["one worker", "all workers"])
def test_workers_killed_in_the_middle_change_nothing(client, all_of_them):
    mdp = garnet(H=9)
    expected = bqrl.guarantee_curve(mdp)
    processes, stages = list(client.run(os.getpid).values()), count()

    def tick(h):
        if next(stages) == 3:
            for pid in processes if all_of_them else processes[:1]:
                os.kill(pid, signal.SIGKILL)

    found = bqrl.guarantee_curve(mdp, cluster=client, tick=tick)
    assert np.array_equal(found.shortfall, expected.shortfall)
    assert set(client.run(os.getpid).values()) != set(processes)


def test_the_blocks_of_a_stage_cover_it_once_and_need_a_border_of_the_largest_reward():
    mdp = garnet(H=12)
    grid = lattice(mdp)
    task = Pass(grid, goal_on(grid), terminal_row(means=False))
    for way in (COLUMNS, STATES):
        for h in range(mdp.H):
            covered = np.zeros((mdp.S, task.columns(h)), int)
            for part in cut(mdp, task, h, way, 4):
                covered[part.rows, part.columns] += 1
                needed = needed_of(mdp, task, h, part)
                assert needed.states == mdp.S
                if way == COLUMNS:
                    assert needed.width <= part.width + 4
            assert np.all(covered == 1)


def test_the_cheaper_way_is_chosen():
    def way(mdp, workers=4):
        grid = mdp.grid if isinstance(mdp, bqrl.StepModel) else lattice(mdp)
        return choose_way(mdp, Pass(grid, goal_on(grid), terminal_row(means=False)), workers)

    assert way(garnet(H=20)) == COLUMNS  # narrow rewards
    assert way(garnet(H=1, top=50)) == STATES  # one reward spans the grid
    assert way(dense()) == STATES  # matrix products
    assert way(inventory(False)) == STATES  # each worker calls the step function for its own states only


def test_memory_per_worker_falls_with_the_number_of_workers():
    class Some(module.Cluster):
        def __init__(self, workers):
            self.workers = [""] * workers

    mdp = garnet(S=20, H=60)
    grid = lattice(mdp)
    sizes = [Some(n).worker_bytes(mdp, grid, means=False) for n in (1, 2, 4, 8)]
    assert sizes[0] >= 1.8 * sizes[1] >= 3.2 * sizes[2] >= 5.5 * sizes[3]


def test_blocks_that_do_not_fit_are_refused_with_what_would(client):
    with pytest.raises(
        SizeError, match=r"the blocks of each of \d workers must fit into max_bytes=.*, got .*; add workers"
    ):
        bqrl.guarantee_curve(garnet(), cluster=client, max_bytes=100)


def test_arguments_that_do_not_fit_are_one_line(client, monkeypatch):
    with pytest.raises(
        TypeError, match=r"^cluster must be the address of a Dask scheduler or a distributed.Client, got 7"
    ):
        bqrl.solve("SafeOrRisky", tau=0.1, cluster=7)
    with pytest.raises(ValueError, match="keep must be False with a cluster"):
        bqrl.guarantee_curve("SafeOrRisky", keep=True, cluster=client)
    monkeypatch.setattr(module, "CONNECT_SECONDS", 1)
    with pytest.raises(ConnectionError, match=r"^no Dask scheduler answers at 'tcp://127.0.0.1:9' .*`dask scheduler`$"):
        bqrl.solve("SafeOrRisky", tau=0.1, cluster="tcp://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ValueError, match=r"^a cluster needs Dask; install it with: pip install \"bqrl\[cluster\]\"$"):
        bqrl.solve("SafeOrRisky", tau=0.1, cluster="tcp://127.0.0.1:9")


def test_workers_without_bqrl_or_no_workers_are_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "CONNECT_SECONDS", 3)
    address, scheduler = start_scheduler(tmp_path)
    worker = None
    try:
        with pytest.raises(
            OSError, match=rf"^the cluster at {address} has no workers; add one with `dask worker {address}"
        ):
            bqrl.evaluate("SafeOrRisky", "always:Safe", cluster=address)
        (tmp_path / "bqrl.py").write_text("raise ImportError('no bqrl here')")
        worker = start("worker", address, *WORKER, environment=ENVIRONMENT | {"PYTHONPATH": str(tmp_path)})
        monkeypatch.setattr(module, "CONNECT_SECONDS", 30)
        with pytest.raises(ImportError, match=r"must have bqrl .*, got no bqrl here; install the same packages there"):
            bqrl.solve("SafeOrRisky", tau=0.1, cluster=address)
    finally:
        for process in (worker, scheduler):
            if process is not None:
                stop(process)
