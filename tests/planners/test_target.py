from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import LEVELS, achievable_laws, best_objective, exact_mean, random_mdp, small_mdps
from planner_problems import NEARLY, RISKY

import bqrl
from bqrl import MDP, TargetPolicy, evaluate, guarantee_curve, simulate, solve
from bqrl.mdp.find_grid import lattice, return_set, rounded_grid
from bqrl.planners.facts import Tied
from bqrl.planners.sweep import sweep


def levels_at_atoms(laws):
    """Levels that hit the running masses of some laws exactly, and a few common ones."""
    found = set(LEVELS)
    for law in laws[:4]:
        mass = Fraction(0)
        for _, p in law:
            mass += p
            if 0 < mass < 1:
                found.add(mass)
    return sorted(found)


@pytest.mark.slow
def test_the_quantile_is_optimal_on_a_thousand_random_problems():
    rng, done = np.random.default_rng(2024), 0
    while done < 1000:
        mdp = random_mdp(rng)
        laws = achievable_laws(mdp, 200)
        if laws is None:
            continue
        levels = levels_at_atoms(laws)
        tau = levels[rng.integers(len(levels))]
        plan = solve(mdp, float(tau))
        assert plan.value == pytest.approx(float(best_objective(laws, tau)), abs=1e-9)
        done += 1


@given(small_mdps(), st.data())
def test_target_frontier_and_brute_force_agree(mdp, data):
    laws = achievable_laws(mdp, 200)
    assume(laws is not None)
    tau = data.draw(st.sampled_from(levels_at_atoms(laws)))
    best = float(best_objective(laws, tau))
    for planner in ("target", "frontier"):
        assert solve(mdp, float(tau), planner=planner).value == pytest.approx(best, abs=1e-9)


@given(small_mdps())
def test_the_curve_is_the_best_quantile_at_every_level(mdp):
    laws = achievable_laws(mdp, 200)
    assume(laws is not None)
    curve = guarantee_curve(mdp)
    for tau in levels_at_atoms(laws):
        assert curve(float(tau)) == pytest.approx(float(best_objective(laws, tau)), abs=1e-9)
    taus = np.linspace(0.01, 0.99, 37)
    assert np.array_equal(curve(taus), [curve(tau) for tau in taus])
    assert np.all(np.diff(curve(taus)) >= 0)


@given(small_mdps(), st.sampled_from([0.1, 0.25, 1 / 3, 0.5, 0.75, 0.9]))
def test_the_margins_of_the_curve_are_those_of_the_best_policies_for_both_targets(mdp, tau):
    laws = achievable_laws(mdp, 200)
    assume(laws is not None)
    curve = guarantee_curve(mdp)
    i = int(np.searchsorted(curve.points, curve(tau)))

    def shortfall(target):
        return float(min(sum(p for x, p in law if float(x) < target - 1e-9) for law in laws))

    above = shortfall(curve.points[i + 1]) if i + 1 < curve.points.size else 1.0
    assert curve.margin(tau) == pytest.approx((tau - shortfall(curve.points[i]), above - tau), abs=1e-12)


@given(small_mdps(), st.sampled_from([0.1, 0.25, 1 / 3, 0.5, 0.75, 0.9]))
def test_ties_go_to_the_best_mean_among_policies_of_the_smallest_shortfall(mdp, tau):
    laws = achievable_laws(mdp, 200)
    assume(laws is not None)
    plan = solve(mdp, tau)
    target = plan.policy.target
    short = [sum(p for x, p in law if float(x) < target - 1e-9) for law in laws]
    best = max(exact_mean(law) for law, s in zip(laws, short, strict=True) if s == min(short))
    assert plan.law.mean() == pytest.approx(float(best), abs=1e-9)
    assert plan.law.shortfall(target) == pytest.approx(float(min(short)), abs=1e-12)


@pytest.mark.parametrize("tau", [1e-13, 1e-12, 1e-11, 0.3])
def test_at_tiny_levels_every_planner_takes_the_highest_target_that_is_never_missed(tau):
    outcomes = [(0, 0, 0, 0.5, 1.0), (0, 0, 0, 0.5, 9.0), (0, 1, 0, 0.5, 2.0), (0, 1, 0, 0.5, 3.0)]
    mdp = MDP(outcomes, horizon=1)
    for planner in ("target", "greedy", "frontier", "capped-frontier"):
        assert solve(mdp, tau, planner=planner).value == 2.0


def test_eight_tenths_do_not_pick_the_wrong_atom():
    mdp = MDP([(0, 0, 0, 0.1, float(r)) for r in range(10)], horizon=1)
    for k in range(1, 10):
        assert solve(mdp, k / 10).value == k - 1


@given(small_mdps(), st.sampled_from([0.1, 0.5, 0.9]), st.floats(0.5, 0.99))
def test_brackets_hold_the_exact_optimum(mdp, tau, discount):
    mdp = mdp.replace(discount=discount)
    exact = solve(mdp, tau)
    assert exact.exact
    coarse, fine = solve(mdp, tau, points=20), solve(mdp, tau, points=2000)
    for plan in (coarse, fine):
        assert not plan.exact
        assert plan.value <= exact.value + 1e-9
        assert plan.upper >= exact.value - 1e-9
        assert plan.value >= plan.details["curve"](tau) - 1e-9
        if isinstance(plan.policy, TargetPolicy):  # else the risk-neutral policy did better
            lower, upper = (law.quantile(tau) for law in evaluate(mdp, plan.policy, max_atoms=0, bracket=True))
            assert lower >= plan.details["curve"](tau) - 1e-9  # keeps what the sweep promised
            assert lower - 1e-9 <= plan.value <= upper + 1e-9
        else:
            assert plan.value == evaluate(mdp, plan.policy).quantile(tau)
    curve = fine.details["curve"]
    narrow = 2 * mdp.H * curve.sweep.grid.step + 1e-9
    assert curve.ceiling(tau) - fine.value <= narrow
    assert fine.gap <= narrow or not fine.certain  # with a tie the next return stays open, however fine the grid


def test_a_wanted_gap_is_reached():
    mdp = bqrl.envs.make("AssetSelling").replace(discount=0.97)
    assert solve(mdp, 0.3, points=50, gap=1e-4).gap <= 1e-4


@given(small_mdps())
def test_lattice_and_set_give_one_curve(mdp):
    a, b = lattice(mdp), return_set(mdp)
    on_lattice, on_set = sweep(mdp, a), sweep(mdp, b)
    for i, x in enumerate(b.points(0)):
        assert on_set.root[i] == pytest.approx(on_lattice.root[int(a.column(0, x))], abs=1e-12)


def closed_form_shortfall(x, offers=25, horizon=10, start=5):
    """min P(sold below offer x): wait for an offer of at least x, at most horizon - 1 draws."""
    return 0.0 if start >= x else (x / offers) ** (horizon - 1)


@pytest.mark.parametrize(("tau", "offer"), [(0.1, 19), (0.5, 23), (0.9, 24)])
def test_asset_selling_by_three_routes(tau, offer):
    mdp = bqrl.envs.make("AssetSelling")
    assert max(x for x in range(25) if closed_form_shortfall(x) < tau) == offer
    plan = solve(mdp, tau)
    assert plan.certain
    assert round(plan.value * 24) == offer
    assert plan.policy_margin.below == pytest.approx(tau - closed_form_shortfall(offer), abs=1e-12)
    draws = simulate(mdp, plan.policy, episodes=20_000, seed=1)
    # Hoeffding: P(share misses the shortfall by more than 0.015) <= 2 exp(-9) < 0.0003.
    assert abs(np.mean(draws < offer / 24 - 1e-9) - closed_form_shortfall(offer)) < 0.015


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
def test_asset_selling_stops_above_a_threshold_at_every_stage(tau):
    mdp = bqrl.envs.make("AssetSelling")
    policy = solve(mdp, tau).policy
    for h in range(10):
        rule = [policy.act(h, s, policy.target) for s in range(25)]
        assert rule == sorted(rule, reverse=True)  # Continue = 1 below, Stop = 0 above


def test_asset_selling_continues_more_at_higher_levels():
    mdp = bqrl.envs.make("AssetSelling")
    counts = []
    for tau in (0.1, 0.5, 0.9):
        policy = solve(mdp, tau).policy
        counts.append([sum(policy.act(h, s, policy.target) for s in range(25)) for h in range(9)])
    assert np.all(np.diff(np.array(counts), axis=0) >= 0)


def test_stopping_at_the_end_is_found_and_changes_nothing():
    free, forced = bqrl.envs.make("AssetSelling"), bqrl.envs.make("AssetSelling", stop_at_end=True)
    for tau in (0.05, 0.1, 0.5, 0.9):
        assert evaluate(free, solve(free, tau).policy).equals(evaluate(forced, solve(forced, tau).policy))


@pytest.mark.parametrize("options", [{}, {"points": 100}, {"radius": 0.2, "attitude": "optimistic"}])
def test_a_tie_leaves_the_next_return_open(options):
    plan = solve(NEARLY, 0.5, **options)
    assert not plan.certain
    assert plan.upper == pytest.approx(1.0, abs=0.02)
    assert any(isinstance(note, Tied) for note in plan.notes)


@pytest.mark.parametrize(
    "options",
    [{}, {"points": 50}, {"radius": 0.1, "attitude": "robust"}, {"radius": 0.1, "attitude": "optimistic"},
     {"arithmetic": "rational"}],
)  # fmt: skip
@pytest.mark.parametrize("tau", [1e-300, 1e-16, 1e-13, 1e-12])
def test_what_never_fails_is_reached_at_the_smallest_levels(options, tau):
    plan = solve(RISKY, tau, **options)  # always the second action: 1 at each stage
    assert plan.value == 2.0


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
    assert rounded_grid(mdp, 10).size.max() <= 42
    assert solve(mdp, 0.3, points=10).value == 1.0


@pytest.mark.filterwarnings("error")
def test_rewards_that_are_one_up_to_noise_and_chains_of_them():
    same = bqrl.MDP([(0, 0, 0, 0.5, 0.0), (0, 0, 0, 0.5, 1e-10)], horizon=2)
    assert solve(same, 0.9).value == pytest.approx(0.0, abs=1e-9)
    chain = bqrl.MDP([(0, 0, 0, 1 / 3000, x) for x in np.arange(3000) * 0.9e-9], horizon=1)
    assert solve(chain, 0.9).value == pytest.approx(2699 * 0.9e-9, abs=2e-9)


def test_a_coarse_grid_does_not_lose_to_the_risk_neutral_policy():
    mdp = bqrl.envs.make("AssetSelling").replace(discount=0.97)
    for tau in (0.05, 0.3, 0.7):
        assert solve(mdp, tau, points=15).value >= solve(mdp, tau, planner="expected").value - 1e-12
