from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import small_mdps

import bqrl
from bqrl import MDP, evaluate
from bqrl.learners.protocol import blank_model
from bqrl.learners.replan import Replanner, centred_window, planning_grid
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


@pytest.mark.parametrize("seed", [*range(60), 128])  # 128: a warm search alone finds another policy below the bound
def test_cold_and_warm_plans_agree_with_solve(seed):
    mdp, rng = wide_problem(seed), np.random.default_rng(seed)
    assert lattice(mdp).size[0] <= 2_000
    tau, beta = LEVELS[seed % len(LEVELS)]
    warm, coarse = Replanner(mdp, tolerance=0.0), Replanner(mdp)
    warm.window(near(mdp, rng), tau, beta)
    for kernel in (np.array(mdp.probability), near(mdp, rng), near(mdp, rng, 0.5), near(mdp, rng)):
        plan = bqrl.solve(mdp.with_probability(kernel), tau, beta=beta)
        slack = 1e-9 * max(1.0, abs(plan.upper))
        for replanner in (coarse, warm, Replanner(mdp, tolerance=0.0)):
            found = replanner.window(kernel, tau, beta)
            if replanner is coarse:
                assert -slack <= found.bound - plan.upper <= coarse.tolerance
                assert found.nominal <= plan.upper + slack
            else:
                assert found.bound == pytest.approx(plan.upper, abs=slack)
                assert found.nominal == pytest.approx(plan.value, abs=slack)
            assert plan.value <= found.bound + slack  # the plan loses at most its reported gap
            law = evaluate(mdp.with_probability(kernel), found.policy)
            assert law.buffered_quantile(tau, beta) == pytest.approx(found.nominal, abs=slack)


def test_a_learner_without_balls_agrees_with_solve():
    for seed in range(20):
        mdp = wide_problem(seed)
        tau, beta = LEVELS[seed % 4]
        run = Run(mdp, "ucb-bqrl", tau, 3, seed, c_conf=0.0, buffer=beta)
        for _ in range(3):
            kernel = np.array(run.learner.counts.probability)
            run.step()
            notes, plan = run.learner.notes(), bqrl.solve(run.learner.model.with_probability(kernel), tau, beta=beta)
            slack = 1e-9 * max(1.0, abs(plan.upper))
            assert notes["bound"] == pytest.approx(plan.upper, abs=slack)
            assert notes["nominal"] == pytest.approx(plan.value, abs=slack)


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
                assert found.bound == pytest.approx(fresh.bound, rel=1e-9, abs=1e-9)
    assert max(points) > 1_000
    assert np.mean(warm) <= min(2.5, 0.75 * np.mean(cold))


def sweeps_per_plan(name, tau, window, episodes):
    """The mean number of sweeps of all plans but the first, which starts cold."""
    record = bqrl.learn(name, "ucb-bqrl", tau=tau, episodes=episodes, seed=1, window=window, progress=False)
    return np.mean(record.notes["sweeps"][1:])


@pytest.mark.parametrize("window", ["lower", "centred"])
@pytest.mark.parametrize("name", ["RiverSwim", "Inventory", "MachineReplacement", "Gambler", "DeepSea"])
def test_learners_with_balls_take_at_most_four_sweeps_per_episode(name, window):
    assert sweeps_per_plan(name, 0.3, window, 60) <= 4.0


def test_first_episodes_take_at_most_four_sweeps_on_average_over_problems_and_levels():
    names = (
        "TreatmentChoice",
        "Portfolio",
        "Inventory",
        "MachineReplacement",
        "SafeOrRisky",
    )  # with the longest searches
    cases = product(names, (0.1, 0.5, 0.9), ("lower", "centred"))
    assert np.mean([sweeps_per_plan(*case, 25) for case in cases]) <= 4.0


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


def possible_returns(mdp):
    """Every return that can occur under some policy, by the outcomes of every stage."""
    here = {(int(s), 0.0) for s in np.flatnonzero(mdp.mu)}
    for h in range(mdp.H):
        stage, after = mdp.stage(h), set()
        for s, total in here:
            for i in range(stage.row_start[s * mdp.A], stage.row_start[(s + 1) * mdp.A]):
                after.add((int(stage.successor[i]), total + mdp.discount**h * float(stage.reward[i])))
        here = after
    return np.array([total for _, total in here])


@given(small_mdps())
def test_the_possible_returns_are_those_of_every_sequence_of_outcomes(mdp):
    staged = mdp.staged()
    points = lattice(staged).points(0)
    wanted = np.isclose(points[:, None], possible_returns(staged)).any(axis=1)
    assert np.array_equal(Replanner(staged).follower.possible, wanted)


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
    exact = replanner.window(staged.probability, tau, beta, half)
    every = WidthSearch(mdp=staged, grid=lattice(staged), tau=tau, beta=beta, half=half)
    table = [every.bound(float(d)) for d in range(lattice(staged).size[0])]
    targets = np.isclose(lattice(staged).points(0)[:, None], possible_returns(staged)).any(axis=1)
    least = np.min(table, axis=0)[targets].max()  # no other return can be the quantile of a policy
    assert exact.bound == pytest.approx(least, abs=1e-9)  # no lattice width is lower
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


@pytest.mark.parametrize("tau", [5e-324, 1e-300, 1e-12, 1.0 - 2.0**-53])
@pytest.mark.parametrize(("learner", "params"), [("psrl", {}), ("psrl", {"window": "lower"}), ("ucb-bqrl", {})])
def test_learners_accept_levels_next_to_zero_and_one(learner, params, tau):
    mdp = bqrl.envs.make("AssetSelling", offers=5, start=1, horizon=3)
    record = bqrl.learn(mdp, learner, tau, 3, 1, progress=False, **params)
    assert np.all(record.gap() >= 0.0)


def test_a_buffer_that_rounding_decides_is_none():
    mdp = bqrl.envs.make("AssetSelling", offers=5, start=1, horizon=3)
    planner, kernel = Replanner(mdp), np.array(mdp.probability)
    plain = planner.point(kernel, 0.3)
    found = planner.window(kernel, 0.3, 1e-12)
    assert (found.policy.target, found.nominal, found.bound) == (plain.policy.target, plain.nominal, plain.bound)
    assert planner.score(plain.policy, kernel, 0.3, 1e-12) == plain.nominal


@given(st.floats(1e-3, 1.0), st.floats(0.0, 1.0), st.integers(0, 10**7))
def test_the_centred_window_of_an_averaged_objective(tau, share, t):
    """It holds the levels of the objective, is [0, 1] for the mean, and narrows to the objective."""
    beta = share * tau
    level, buffer = centred_window(tau, t, beta)
    assert 0.0 <= level - buffer <= tau - beta + 1e-12
    assert tau - 1e-12 <= level <= 1.0
    wider, longer = centred_window(tau, t // 2, beta)
    assert wider >= level
    assert wider - longer <= level - buffer + 1e-12
    if beta == tau:
        assert level - buffer == pytest.approx(0.0, abs=1e-15)  # CVaR: the lower end does not move
    assert centred_window(1.0, t, 1.0) == (1.0, 1.0)
    assert centred_window(tau, 10**15, beta) == pytest.approx((tau, beta), abs=1e-6)
