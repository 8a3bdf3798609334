"""Ties, tolerances and degenerate problems: where a planner must not say more than it knows."""

import numpy as np
import pytest

import bqrl
from bqrl import evaluate, simulate, solve
from bqrl.laws.bracket import LawBracket
from bqrl.mdp.find_grid import lattice, rounded
from bqrl.planners.widths import WidthSearch

FAIR = bqrl.MDP([(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.5, 1.0)], horizon=1)
NEARLY = bqrl.MDP([(0, 0, 0, 0.5 - 1e-13, 0.0), (0, 0, 0, 0.5 + 1e-13, 1.0)], horizon=1)
THREE_TENTHS = bqrl.MDP([(0, 0, 0, 0.3, 0.0), (0, 0, 0, 0.7, 10.0)], horizon=1)
RISKY = bqrl.MDP(
    [(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.25, 1.0), (0, 0, 0, 0.25, 2.0), (0, 1, 0, 0.75, 1.0), (0, 1, 0, 0.25, 3.0)],
    horizon=2,
)


@pytest.mark.parametrize("options", [{}, {"points": 100}, {"radius": 0.2, "attitude": "optimistic"}])
def test_a_tie_leaves_the_next_return_open(options):
    plan = solve(NEARLY, 0.5, **options)
    assert not plan.certain
    assert plan.upper == pytest.approx(1.0, abs=0.02)
    assert any("ties" in note for note in plan.notes)


def test_a_tie_in_the_ball_leaves_the_next_return_open():
    plan = solve(FAIR, 0.5, radius=1e-12, attitude="optimistic")
    assert (plan.value, plan.upper, plan.certain) == (0.0, 1.0, False)


def test_the_tie_of_another_kernel_stays_open():
    plan = solve(THREE_TENTHS, 0.3 + 1e-13, planner="frontier", kernels=[[0.5, 0.5], [0.3, 0.7]])
    assert (plan.upper, plan.certain) == (10.0, False)


@pytest.mark.parametrize("planner", ["target", "frontier", "greedy", "expected"])
def test_a_narrow_buffer_at_a_tie_is_not_certain(planner):
    assert not solve(THREE_TENTHS, 0.3 + 9e-13, beta=1e-5, planner=planner).certain
    assert solve(THREE_TENTHS, 0.35, beta=0.01, planner=planner).certain


def test_rational_margins_are_about_the_value():
    plan = solve(THREE_TENTHS, 0.3 + 1e-13, arithmetic="rational")
    assert plan.value == 10.0
    assert plan.margin == pytest.approx((1e-13, 0.7 - 1e-13), abs=1e-15)


@pytest.mark.parametrize(
    "options",
    [{}, {"points": 50}, {"radius": 0.1, "attitude": "robust"}, {"radius": 0.1, "attitude": "optimistic"},
     {"arithmetic": "rational"}],
)  # fmt: skip
@pytest.mark.parametrize("tau", [1e-300, 1e-16, 1e-13, 1e-12])
def test_what_never_fails_is_reached_at_the_smallest_levels(options, tau):
    plan = solve(RISKY, tau, **options)  # always the second action: 1 at each stage
    assert plan.value == 2.0


def test_a_margin_that_is_met_exactly_leaves_a_policy():
    mdp = bqrl.MDP([(0, 0, 0, 0.63, 0.0), (0, 0, 0, 0.37, 1.0)], horizon=1)
    assert solve(mdp, 0.7, secondary="mean", margin=0.07).value == 1.0
    assert solve(THREE_TENTHS, 0.3 + 1.5e-12, secondary="mean").value == 10.0


@pytest.mark.parametrize("beta", [1e-13, 1e-11, 1e-8, 1e-3])
def test_a_robust_buffered_value_never_exceeds_the_robust_quantile(beta):
    plan = solve(RISKY, 0.6, beta=beta, radius=0.2, attitude="robust")
    assert plan.value == pytest.approx(2.0, abs=1e-9)
    assert plan.value <= solve(RISKY, 0.6, radius=0.2, attitude="robust").value


@pytest.mark.parametrize("attitude", ["robust", "optimistic"])
@pytest.mark.parametrize(("beta", "points"), [(0.0, None), (0.1, None), (0.0, 30)])
def test_radius_zero_is_the_nominal_plan(attitude, beta, points):
    mdp = bqrl.envs.make("AssetSelling")
    plan, nominal = (
        solve(mdp, 0.3, beta, radius=0.0, attitude=attitude, points=points),
        solve(mdp, 0.3, beta, points=points),
    )
    assert (plan.value, plan.upper, plan.nominal) == (nominal.value, nominal.upper, nominal.nominal)
    assert plan.attitude == attitude


@pytest.mark.parametrize("beta", [0.0, 0.2])
@pytest.mark.parametrize("options", [{}, {"points": 10}])
def test_a_constant_return_needs_no_grid(beta, options):
    plan = solve(bqrl.MDP([(0, 0, 0, 1.0, 1.0)], horizon=3, discount=0.9), 0.5, beta=beta, **options)
    assert plan.value == pytest.approx(2.71)
    assert plan.gap == pytest.approx(0.0, abs=1e-12)


def test_a_rounded_grid_stays_small_where_what_differs_cancels_out():
    rows = [(0, 0, 0, 1, 0.5, 0.0), (0, 0, 0, 2, 0.5, 1.0), (0, 1, 0, 1, 1.0, 0.0), (0, 2, 0, 2, 1.0, 0.0)]
    rows += [(1, 0, 0, 0, 1.0, 0.0), (1, 1, 0, 1, 1.0, 1.0), (1, 2, 0, 2, 1.0, 0.0)]
    mdp = bqrl.MDP(rows, horizon=2)
    assert rounded(mdp, 10).size.max() <= 42
    assert solve(mdp, 0.3, points=10).value == 1.0


@pytest.mark.filterwarnings("error")
def test_rewards_that_are_one_up_to_noise_and_chains_of_them():
    same = bqrl.MDP([(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.5, 1e-10)], horizon=2)
    assert solve(same, 0.9).value == pytest.approx(0.0, abs=1e-9)
    chain = bqrl.MDP([(0, 0, 0, 1 / 3000, x) for x in np.arange(3000) * 0.9e-9], horizon=1)
    assert solve(chain, 0.9).value == pytest.approx(2699 * 0.9e-9, abs=2e-9)


@pytest.mark.parametrize("attitude", [None, "robust", "optimistic"])
@pytest.mark.parametrize("base", [0.1, 5.1, 127.3, 1000.1])
def test_a_policy_on_a_rounded_grid_counts_rewards_as_its_plan_did(attitude, base):
    ball = {} if attitude is None else {"radius": 0.05, "attitude": attitude}
    for seed in range(12):
        rng = np.random.default_rng(seed)
        mdp = bqrl.MDP(
            rng.dirichlet(np.ones(2), (2, 2)), base + rng.integers(0, 90, (2, 2, 2)) / 7, horizon=3, discount=0.9
        )
        plan = solve(mdp, 0.3, points=2000, **ball)
        columns = plan.policy.grid
        for h in range(mdp.H):
            counted = columns.base[h] + columns.stage_units(mdp, h) * columns.step
            np.testing.assert_allclose(
                -columns.reduced(0.0, h, mdp.stage(h).reward), counted, rtol=0, atol=1e-9 * columns.step
            )
        own = evaluate(mdp, plan.policy).quantile(0.3)  # followed return by return, as it is executed
        assert plan.nominal == own
        assert attitude == "optimistic" or own >= plan.value - 1e-12


def test_a_law_rounded_up_is_bracketed_from_above():
    rng = np.random.default_rng(0)
    mdp = bqrl.MDP(rng.dirichlet(np.ones(6), (6, 2)), rng.random((6, 2, 6)), horizon=12, discount=0.95)
    plan = solve(mdp, 0.3, radius=0.01, attitude="optimistic", points=200)
    assert isinstance(plan.law, LawBracket)
    returns = simulate(mdp, plan.policy, 20_000)
    assert plan.law.mean().low < returns.mean() < plan.law.mean().high
    assert plan.value < np.quantile(returns, 0.3)


def test_a_coarse_grid_does_not_lose_to_the_risk_neutral_policy():
    mdp = bqrl.envs.make("AssetSelling").replace(discount=0.97)
    for tau in (0.05, 0.3, 0.7):
        assert solve(mdp, tau, points=15).value >= solve(mdp, tau, planner="expected").value - 1e-12


def test_tables_beyond_the_limit_are_forgotten_and_swept_for_again():
    mdp = bqrl.envs.make("AssetSelling")
    kept, short = (WidthSearch(mdp, lattice(mdp), 0.1, 0.06, max_bytes=limit) for limit in (2**30, 2**15))
    assert kept.upper() == short.upper()
    tables = [sum(done.actions is not None for done in search.sweeps.values()) for search in (kept, short)]
    assert tables[1] < tables[0] == len(kept.sweeps)
    assert kept.policy(3.0, 19).law.mean() == short.policy(3.0, 19).law.mean()


def test_a_plan_is_compared_with_a_plan():
    with pytest.raises(TypeError, match="compare needs another plan, got int"):
        solve(FAIR, 0.3).compare(3)
