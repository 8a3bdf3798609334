import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import small_mdps

import bqrl
from bqrl import MDP, evaluate
from bqrl.learners.protocol import blank_model
from bqrl.learners.replan import PLAN_TOL, Replanner, centred_window, planning_grid
from bqrl.learners.run import Run
from bqrl.mdp.find_grid import lattice
from bqrl.planners.sweep import sweep
from bqrl.planners.uncertain import half_radius
from bqrl.planners.widths import WidthSearch

LEVELS = [(0.1, 0.02), (0.3, 0.1), (0.5, 0.5), (0.9, 0.2), (1.0, 0.4)]


def wide_problem(seed):
    """A random problem whose returns have up to 2,000 grid points."""
    rng = np.random.default_rng(seed)
    S, A, H = int(rng.integers(2, 7)), int(rng.integers(2, 4)), int(rng.integers(2, 8))
    P = np.zeros((S, A, S))
    for s in range(S):
        for a in range(A):
            successors = rng.choice(S, int(rng.integers(1, min(S, 4) + 1)), replace=False)
            P[s, a, successors] = rng.dirichlet(np.ones(successors.size))
    top = int(rng.choice([3, 20, 100, 250]))
    return MDP(P, rng.integers(-top // 4, top + 1, (S, A)).astype(float), horizon=H)


def near(mdp, rng, size=0.02):
    """A kernel that differs a little from that of the problem, on the same outcomes."""
    p = np.array(mdp.probability) * np.exp(size * rng.normal(size=mdp.probability.size))
    rows = np.repeat(np.arange(mdp.row_start.size - 1), np.diff(mdp.row_start))
    return p / np.bincount(rows, p, mdp.row_start.size - 1)[rows]


@pytest.mark.parametrize("seed", range(60))
def test_cold_and_warm_plans_agree_with_solve(seed):
    mdp, rng = wide_problem(seed), np.random.default_rng(seed)
    assert lattice(mdp).size[0] <= 2_000
    tau, beta = LEVELS[seed % len(LEVELS)]
    warm, coarse = Replanner(mdp, tolerance=0.0), Replanner(mdp)
    warm.window(near(mdp, rng), tau, beta)
    for kernel in (np.array(mdp.probability), near(mdp, rng), near(mdp, rng, 0.5)):
        plan = bqrl.solve(mdp.with_probability(kernel), tau, beta=beta)
        scale = max(1.0, abs(plan.upper))
        cold = Replanner(mdp, tolerance=0.0).window(kernel, tau, beta)
        assert cold.nominal == pytest.approx(plan.value, abs=1e-9 * scale)  # the same search as that of solve
        for replanner in (coarse, warm, None):
            found = cold if replanner is None else replanner.window(kernel, tau, beta)
            excess = coarse.tolerance if replanner is coarse else 1e-9 * scale
            assert -1e-9 * scale <= found.bound - plan.upper <= excess
            assert plan.value <= found.bound + 1e-9 * scale  # the plan loses at most its reported gap
            assert found.nominal <= plan.upper + 1e-9 * scale
            law = evaluate(mdp.with_probability(kernel), found.policy)
            assert law.buffered_quantile(tau, beta) == pytest.approx(found.nominal, abs=1e-9 * scale)


def test_a_learner_without_balls_agrees_with_solve_up_to_its_tolerance():
    for seed in range(20):
        mdp = wide_problem(seed)
        tau, beta = LEVELS[seed % 4]
        run = Run(mdp, "ucb-bqrl", tau, 3, seed, c_conf=0.0, buffer=beta)
        for _ in range(3):
            kernel = np.array(run.learner.counts.probability)
            run.step()
            notes, plan = run.learner.notes(), bqrl.solve(run.learner.model.with_probability(kernel), tau, beta=beta)
            slack = 1e-9 * max(1.0, abs(plan.upper))
            assert -slack <= notes["bound"] - plan.upper <= PLAN_TOL * np.ptp(lattice(mdp).points(0)) + slack
            assert plan.value - notes["planner_gap"] - slack <= notes["nominal"] <= plan.upper + slack


@pytest.mark.parametrize("radius", [0.0, 0.02, 0.3])
def test_warm_searches_take_few_sweeps_and_fewer_than_cold_ones(radius):
    warm, cold, points = [], [], []
    for seed in range(40):
        mdp, rng = wide_problem(seed), np.random.default_rng(seed)
        tau, beta = LEVELS[seed % len(LEVELS)]
        half = half_radius(mdp, radius) if radius else None
        replanner = Replanner(mdp)
        replanner.window(np.array(mdp.probability), tau, beta, half)
        points.append(lattice(mdp).size[0])
        for kernel in (near(mdp, rng), near(mdp, rng)):
            found, fresh = replanner.window(kernel, tau, beta, half), Replanner(mdp).window(kernel, tau, beta, half)
            warm.append(found.sweeps)
            cold.append(fresh.sweeps)
            if radius:
                assert found.bound == pytest.approx(fresh.bound, abs=1e-9 * max(1.0, abs(fresh.bound)))
    assert max(points) > 1_000
    assert np.mean(warm) <= min(2.5, 0.75 * np.mean(cold))


@pytest.mark.parametrize("window", ["lower", "centred"])
@pytest.mark.parametrize("name", ["RiverSwim", "Inventory", "MachineReplacement", "Gambler", "DeepSea"])
def test_learners_with_balls_take_at_most_four_sweeps_per_episode(name, window):
    record = bqrl.learn(name, "ucb-bqrl", tau=0.3, episodes=60, seed=1, window=window, progress=False)
    assert np.mean(record.notes["sweeps"][1:]) <= 4.0


def deep_sea(N=8, prize=100.0, cost=1.0, success=0.95):
    """Only N moves to the right in a row reach the prize, and each has its cost; a failed move leads left."""
    rows = []
    for s in range(N):
        left, right = max(s - 1, 0), min(s + 1, N - 1)
        rows += [(s, 0, left, 1.0, 0.0), (s, 1, left, 1.0 - success, -cost)]
        rows.append((s, 1, right, success, (prize if s == N - 1 else 0.0) - cost))
    return MDP(rows, horizon=N)


def test_deep_sea_with_uniform_rows_is_planned_as_solve_plans_it():
    model = blank_model(deep_sea())
    plan = bqrl.solve(model, 0.5, beta=0.5)
    found = Replanner(model, tolerance=0.0).window(np.array(model.probability), 0.5, 0.5)
    assert found.bound == pytest.approx(plan.upper, abs=1e-9)
    assert found.nominal == pytest.approx(plan.value, abs=1e-9)
    assert evaluate(model, found.policy).buffered_quantile(0.5, 0.5) == pytest.approx(plan.value, abs=1e-9)


@given(small_mdps(), st.sampled_from([0.0, 0.1, 0.6]), st.integers(1, 4))
def test_sweeps_of_the_layout_are_the_planner_s(mdp, radius, width):
    staged = mdp.staged()
    grid, half = lattice(staged), half_radius(mdp, np.full((mdp.H, mdp.S, mdp.A), radius))
    layout = Replanner(staged).layout
    cost = np.arange(width + 1.0)
    found = sweep(staged, grid, cost, extra=width, half=half, layout=layout)
    wanted = sweep(staged, grid, cost, extra=width, half=half, keep=True)  # stage by stage
    assert np.allclose(found.root, wanted.root, atol=1e-12)


@given(
    small_mdps(),
    st.sampled_from([(0.3, 0.1), (0.5, 0.5), (0.9, 0.2)]),
    st.sampled_from([0.0, 0.2, 0.7]),
    st.sampled_from([None, 0.0, 1.0, 3.0, 50.0]),
)
def test_the_search_bounds_the_whole_ball(mdp, levels, radius, width):
    tau, beta = levels
    staged = mdp.staged()
    half = half_radius(mdp, np.full((mdp.H, mdp.S, mdp.A), radius))
    replanner = Replanner(staged)
    replanner.width = width
    bound = replanner.window(staged.probability, tau, beta, half).bound
    every = WidthSearch(mdp=staged, grid=lattice(staged), tau=tau, beta=beta, half=half)
    table = [every.bound(float(d)) for d in range(lattice(staged).size[0])]
    assert bound == pytest.approx(np.min(table, axis=0).max(), abs=1e-9)  # no lattice width is lower
    found = replanner.point(staged.probability, tau, half)
    plan = bqrl.solve(mdp, tau, radius=2 * half.reshape(mdp.H, mdp.S, mdp.A), attitude="optimistic")
    assert found.policy.target == pytest.approx(plan.policy.target)
    assert found.bound == pytest.approx(plan.upper)
    assert evaluate(mdp, found.policy).quantile(tau) <= found.bound + 1e-9


@pytest.mark.parametrize(("radius", "target"), [(0.0, 2.0), (0.2, 3.0)])
def test_the_bound_of_a_point_plan_leaves_a_tie_open_as_solve_does(radius, target):
    mdp = MDP([(0, 0, 0, 0.1, float(r)) for r in range(10)], horizon=1)
    half = half_radius(mdp, np.full((1, 1, 1), radius)) if radius else None
    found = Replanner(mdp).point(np.array(mdp.probability), 0.3, half)
    plan = bqrl.solve(mdp, 0.3, radius=radius, attitude="optimistic")
    assert not plan.certain  # the next target is missed with probability 0.3
    assert found.policy.target == plan.policy.target == target
    assert found.bound == plan.upper == target + 1.0


@given(small_mdps(), st.sampled_from([0.1, 0.3, 0.5, 0.75, 1.0]))
def test_the_margins_of_a_point_plan_are_those_of_the_curve(mdp, tau):
    margin = Replanner(mdp).point(np.array(mdp.probability), tau).margin
    assert margin == pytest.approx(bqrl.guarantee_curve(mdp).margin(tau), abs=1e-12)


def test_a_fine_grid_is_replaced_by_a_rounded_one():
    mdp = MDP(np.ones((1, 2, 1)), [[0.0, np.sqrt(2)]], horizon=3)
    assert planning_grid(mdp).size[0] <= 2_100
    policy = Replanner(mdp).window(np.array(mdp.probability), 0.5, 0.1).policy
    assert evaluate(mdp, policy).mean() == pytest.approx(3 * np.sqrt(2))


@pytest.mark.parametrize("tau", [0.05, 0.3, 0.5, 0.9])
def test_the_centred_window_is_cut_at_0_and_1(tau):
    assert centred_window(tau, 0) == (1.0, 1.0) or tau in (0.05, 0.9)
    for t in (0, 10, 100, 10_000):
        level, buffer = centred_window(tau, t)
        b = 4 * np.sqrt(tau * (1 - tau) / (t + 1))
        assert level == pytest.approx(min(1.0, tau + b))
        assert level - buffer == pytest.approx(max(0.0, tau - b))
        assert 0.0 < buffer <= level <= 1.0
