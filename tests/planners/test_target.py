from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from oracles import LEVELS, achievable_laws, best_objective, exact_mean, exact_quantile, random_mdp, small_mdps

import bqrl
from bqrl import MDP, TargetPolicy, evaluate, guarantee_curve, simulate, solve
from bqrl.mdp.find_grid import lattice, return_set
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
    if laws is None:
        return
    tau = data.draw(st.sampled_from(levels_at_atoms(laws)))
    best = float(best_objective(laws, tau))
    for planner in ("target", "frontier"):
        assert solve(mdp, float(tau), planner=planner).value == pytest.approx(best, abs=1e-9)


@given(small_mdps())
def test_the_curve_is_the_best_quantile_at_every_level(mdp):
    laws = achievable_laws(mdp, 200)
    if laws is None:
        return
    curve = guarantee_curve(mdp)
    for tau in levels_at_atoms(laws):
        assert curve(float(tau)) == pytest.approx(float(best_objective(laws, tau)), abs=1e-9)
    taus = np.linspace(0.01, 0.99, 37)
    assert np.array_equal(curve(taus), [curve(tau) for tau in taus])
    assert np.all(np.diff(curve(taus)) >= 0)


@given(small_mdps(), st.sampled_from([0.1, 0.25, 1 / 3, 0.5, 0.75, 0.9]))
def test_ties_go_to_the_best_mean_among_policies_of_the_smallest_shortfall(mdp, tau):
    laws = achievable_laws(mdp, 200)
    if laws is None:
        return
    plan = solve(mdp, tau)
    target = plan.policy.target
    short = [sum(p for x, p in law if float(x) < target - 1e-9) for law in laws]
    best = max(exact_mean(law) for law, s in zip(laws, short, strict=True) if s == min(short))
    assert plan.law.mean() == pytest.approx(float(best), abs=1e-9)
    assert plan.law.shortfall(target) == pytest.approx(float(min(short)), abs=1e-12)


def test_rational_levels_are_read_as_the_fractions_they_mean():
    for d in range(2, 40):
        for k in range(1, d):  # one action, a mass of exactly tau below 1: the quantile is 0
            game = MDP([(0, 0, 0, k / d, 0.0), (0, 0, 0, 1 - k / d, 1.0)], horizon=1)
            plan = solve(game, k / d, arithmetic="rational")
            assert (plan.value, plan.certain) == (0.0, True)


@given(small_mdps(), st.sampled_from(LEVELS))
def test_rational_arithmetic_decides_like_the_oracle(mdp, tau):
    laws = achievable_laws(mdp, 200)
    if laws is None or Fraction(repr(float(tau))) != tau:
        return
    plan = solve(mdp, float(tau), arithmetic="rational")
    assert plan.certain
    assert plan.value == pytest.approx(float(best_objective(laws, tau)), abs=1e-9)


def test_a_tie_with_the_level_is_not_certain_until_fractions_settle_it():
    mdp = MDP([[[0.8, 0.2]], [[0.0, 1.0]]], [[0.0], [1.0]], horizon=2)  # return 1 with probability 0.2, else 0
    plan = solve(mdp, 0.8)
    assert (plan.value, plan.certain) == (0.0, False)
    settled = solve(mdp, 0.8, arithmetic="rational")
    assert (settled.value, settled.certain) == (0.0, True)
    assert solve(mdp, 0.81).certain
    assert solve(mdp, 0.81).value == 1.0


def test_eight_tenths_do_not_pick_the_wrong_atom():
    mdp = MDP([(0, 0, 0, 0.1, float(r)) for r in range(10)], horizon=1)
    for k in range(1, 10):
        assert solve(mdp, k / 10).value == k - 1


@given(small_mdps(), st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9]))
def test_the_best_mean_among_optimal_policies_is_bracketed(mdp, tau):
    laws = achievable_laws(mdp, 200)
    if laws is None:
        return
    exact = Fraction(repr(tau))
    top = max(exact_quantile(law, exact) for law in laws)
    best = max(exact_mean(law) for law in laws if exact_quantile(law, exact) == top)
    plan = solve(mdp, tau, secondary="mean")
    assert plan.value == pytest.approx(float(top), abs=1e-9)
    assert plan.law.mean() <= float(best) + 1e-9
    assert plan.details["mean_bound"] >= float(best) - 1e-9
    assert plan.law.mean() >= solve(mdp, tau).law.mean() - 1e-9


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
            own = evaluate(mdp, plan.policy, max_atoms=0).quantile(tau)  # the policy's law, bracketed
            assert own.low >= plan.details["curve"](tau) - 1e-9  # keeps what the sweep promised
            assert own.low - 1e-9 <= plan.value <= own.high + 1e-9
        else:
            assert plan.value == evaluate(mdp, plan.policy).quantile(tau)
    curve = fine.details["curve"]
    narrow = 2 * mdp.H * curve.sweep.grid.step + 1e-9
    assert curve.ceiling(tau) - fine.value <= narrow
    assert fine.gap <= narrow or not fine.certain  # with a tie the next return stays open, however fine the grid


def test_a_wanted_gap_is_reached():
    mdp = bqrl.envs.make("AssetSelling").replace(discount=0.97)
    assert solve(mdp, 0.3, points=50, gap=1e-4).gap <= 1e-4


def test_dense_and_sparse_sweeps_agree():
    rng = np.random.default_rng(3)
    P = rng.dirichlet(np.full(40, 0.3), size=(3, 40, 2))
    P[P < 0.002] = 0
    P /= P.sum(axis=-1, keepdims=True)
    R = rng.integers(-2, 5, (3, 40, 2))
    dense = MDP(P, R)
    rows = [(h, s, a, t, P[h, s, a, t], float(R[h, s, a])) for h, s, a, t in zip(*np.nonzero(P), strict=True)]
    listed = MDP(
        [*rows[:-1], (*rows[-1][:4], rows[-1][4] / 2, rows[-1][5]), (*rows[-1][:4], rows[-1][4] / 2, rows[-1][5])]
    )
    by_outcome = MDP(P, np.broadcast_to(R[..., None], P.shape) + np.where(P > 0, 0.0, 0.5))
    roots = [sweep(mdp, lattice(mdp)).root for mdp in (dense, listed, by_outcome)]
    assert np.allclose(roots[0], roots[1], atol=1e-13)
    assert np.allclose(roots[0], roots[2], atol=1e-13)
    assert np.allclose(sweep(dense, lattice(dense), policy=False).root, roots[0], atol=1e-13)


@given(small_mdps())
def test_lattice_and_set_give_one_curve(mdp):
    a, b = lattice(mdp), return_set(mdp)
    on_lattice, on_set = sweep(mdp, a), sweep(mdp, b)
    for i, x in enumerate(b.points(0)):
        assert on_set.root[i] == pytest.approx(on_lattice.root[int(a.column(0, x))], abs=1e-12)


# -- asset selling: the numbers known in advance ------------------------------------------------------------------------


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
    assert plan.margin.below == pytest.approx(tau - closed_form_shortfall(offer), abs=1e-12)
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
