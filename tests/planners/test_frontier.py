from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from oracles import (
    LEVELS,
    achievable_laws,
    best_objective,
    exact_mean,
    exact_objective,
    mixture_optimum,
    random_mdp,
    small_mdps,
)
from planner_problems import THREE_TENTHS

import bqrl
from bqrl import MDP, evaluate, solve
from bqrl.errors import GridError
from bqrl.planners.frontier import frontier, plan_capped, plan_frontier

levels = st.sampled_from(LEVELS)
shares = st.sampled_from([Fraction(0), Fraction(1, 3), Fraction(1, 2), Fraction(1)])


@given(small_mdps(), levels, shares)
def test_best_law_is_the_best_of_all_policies_with_and_without_dominance(mdp, tau, share):
    laws = achievable_laws(mdp, cap=300)
    assume(laws is not None)
    beta = share * tau
    best = best_objective(laws, tau, beta)
    mean = max(exact_mean(law) for law in laws if exact_objective(law, tau, beta) == best)
    for dominance in (False, True):
        plan = plan_frontier(mdp, float(tau), float(beta), dominance=dominance)
        assert plan.value == pytest.approx(float(best), abs=1e-9)
        assert plan.mean == pytest.approx(float(mean), abs=1e-9)
        assert plan.value <= plan.upper
        if plan.certain:
            assert plan.upper == plan.value


def test_dominance_keeps_every_optimum_of_a_thousand_random_problems():
    rng, checked = np.random.default_rng(3), 0
    while checked < 1000:
        mdp = random_mdp(rng)
        try:
            full = frontier(mdp, max_laws=20_000)
        except ValueError:
            continue
        few = frontier(mdp, dominance=True)
        assert len(few) <= len(full)
        for tau in (0.1, 0.25, 0.5, 0.9):
            for beta in (0.0, tau / 3, tau):
                assert few.values(tau, beta).max() == pytest.approx(full.values(tau, beta).max(), abs=1e-9)
        checked += 1


def test_mixtures_beat_no_policy_at_cvar_and_none_loses_to_them():
    """The linear programme over all laws: never below the best law, and equal to it where beta = tau."""
    rng, checked = np.random.default_rng(4), 0
    while checked < 40:
        mdp = random_mdp(rng, horizon=3)
        laws = achievable_laws(mdp, cap=100)
        if laws is None:
            continue
        tau = LEVELS[int(rng.integers(len(LEVELS)))]
        for beta in (tau / 3, tau):
            best, mixed = float(best_objective(laws, tau, beta)), mixture_optimum(laws, tau, beta)
            assert mixed >= best - 1e-9
            if beta == tau:
                assert mixed == pytest.approx(best, abs=1e-9)
        checked += 1


def test_budgets_are_refused_before_memory_is_taken():
    mdp = bqrl.envs.make("AssetSelling")
    with pytest.raises(
        ValueError, match=r"within max_laws=\d+, got \d+ at stage \d, state \d+, action Continue; raise max_laws"
    ):
        frontier(mdp)
    mdp = MDP(np.full((2, 2, 2), 0.5), [[0, 1], [2, 5]], horizon=5)
    with pytest.raises(
        ValueError, match=r"got 64 at stage 3, .* raise max_laws, set dominance=True or use planner='target'"
    ):
        frontier(mdp, max_laws=50)
    with pytest.raises(ValueError, match=r"max_bytes=1000, got 1064 .* raise max_bytes or use planner='target'"):
        frontier(mdp, max_bytes=1_000, dominance=True)


def test_refusals_count_stages_from_1(monkeypatch):
    mdp = MDP(np.full((2, 2, 2), 0.5), [[0, 1], [2, 5]], horizon=5)
    with pytest.raises(ValueError, match="within max_bytes=1, got 176 at stage 5, state 0, action 0"):
        frontier(mdp, max_bytes=1)
    monkeypatch.setattr("bqrl.planners.frontier.MAX_SUMS", 0)
    with pytest.raises(ValueError, match=r"^stage 5 must have at most 0 sums of rewards with 6 decimals, got 4"):
        plan_capped(mdp, 0.3)


def test_no_exact_grid_is_refused_with_the_remedy():
    mdp = MDP([[[0.5, 0.5]], [[0.5, 0.5]]], [[0.0], [np.pi]], horizon=60, discount=0.97)
    with pytest.raises(GridError, match="use planner='target', which brackets"):
        plan_frontier(mdp, 0.5)


def test_ties_are_not_called_certain():
    coin = MDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[[0.0, 1.0]], [[0.0, 0.0]]], horizon=1)
    tied, clear = plan_frontier(coin, 0.5), plan_frontier(coin, 0.4)
    assert (tied.value, tied.certain, tied.upper) == (0.0, False, 1.0)
    assert (clear.value, clear.certain, clear.upper) == (0.0, True, 0.0)


def test_optimistic_choice_among_kernels():
    """The winner is the kernel with the best law; equal kernels tie towards the first; value is the policy's own in mdp."""
    mdp = MDP([[[0.5, 0.5], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]], [[0.0, 0.0], [1.0, 1.0]], horizon=3)
    better = mdp.probability.copy()
    better[:2] = 0.25, 0.75
    plan = plan_frontier(mdp, 0.3, 0.2, kernels=[mdp.probability, better, better])
    assert plan.details["kernel"] == int(np.argmax(plan.details["values"]))
    assert plan.attitude == "optimistic"
    assert plan.upper == max(plan.details["values"])
    assert plan.value == plan.nominal == pytest.approx(evaluate(mdp, plan.policy).buffered_quantile(0.3, 0.2))
    same = plan_frontier(mdp, 0.3, 0.2, kernels=[mdp.probability] * 3)
    alone = plan_frontier(mdp, 0.3, 0.2)
    assert same.details["kernel"] == 0
    assert same.value == same.upper == alone.value


@settings(max_examples=40)
@given(small_mdps(), st.integers(0, 10**6), levels)
def test_optimistic_choice_is_the_maximum_over_kernels(mdp, seed, tau):
    rng = np.random.default_rng(seed)
    kernels = [mdp.probability]
    for _ in range(2):
        weights = mdp.probability * rng.random(mdp.probability.size)
        rows = np.repeat(np.arange(mdp.row_start.size - 1), np.diff(mdp.row_start))
        kernels.append(weights / np.bincount(rows, weights)[rows])
    plan = plan_frontier(mdp, float(tau), 0.5 * float(tau), kernels=kernels, dominance=True)
    alone = [
        plan_frontier(mdp.with_probability(p), float(tau), 0.5 * float(tau), dominance=True).value for p in kernels
    ]
    assert plan.details["values"] == pytest.approx(alone, abs=1e-9)
    assert plan.details["kernel"] == next(k for k, v in enumerate(alone) if v >= max(alone) - 1e-9)


@pytest.mark.parametrize(("tau", "offer"), [(0.1, 13), (0.5, 22), (0.9, 24)])
def test_capped_reference_of_asset_selling(tau, offer):
    """Below the true optima 19, 23 and 24 at the first two levels: the cap keeps what the greedy planner keeps."""
    plan = plan_capped(bqrl.envs.make("AssetSelling"), tau)
    assert plan.value == pytest.approx(offer / 24, abs=1e-12)
    assert plan.details["reference"] == round(offer / 24, 6)
    assert plan.upper is None
    assert evaluate(bqrl.envs.make("AssetSelling"), plan.policy).quantile(tau) == plan.value


@given(small_mdps(), levels)
def test_capped_without_caps_is_the_frontier(mdp, tau):
    laws = achievable_laws(mdp, cap=150)
    assume(laws is not None)
    plan = plan_capped(mdp, float(tau), decimals=12, max_laws=10**6, max_combinations=10**6, dominance=False)
    assert plan.value == pytest.approx(float(best_objective(laws, tau)), abs=1e-9)
    assert plan.details["laws"] == len(laws)


@given(small_mdps(), levels, shares)
def test_capped_is_a_policy_of_the_problem_and_keeps_its_caps(mdp, tau, share):
    plan = plan_capped(mdp, float(tau), float(share * tau), max_laws=2, max_combinations=4)
    best = plan_frontier(mdp, float(tau), float(share * tau), dominance=True)
    assert plan.value <= best.upper + 1e-9
    assert evaluate(mdp, plan.policy).equals(plan.law)
    assert abs(plan.details["reference"] - plan.value) <= mdp.H * 1e-6
    assert all(len(laws.pmf) <= 2 for stage in plan.details["frontier"].stages for laws in stage if laws is not None)


def test_capped_works_without_a_lattice():
    mdp = MDP([[[0.5, 0.5], [1, 0]], [[0.5, 0.5], [0, 1]]], [[0.0, 0.3], [1.0, 0.1]], horizon=20, discount=0.9)
    plan = plan_capped(mdp, 0.3, decimals=2)
    assert not plan.exact
    assert plan.value == plan.law.quantile(0.3)
    assert plan.law_upper.quantile(0.3) - plan.value == pytest.approx(20 * 1e-2)


def test_capped_ranks_by_quantile_then_mean():
    """One law a frontier: the larger quantile stays, of equal quantiles the larger mean."""
    lotteries = [[(0.5, 0.0), (0.5, 4.0)], [(1.0, 1.0)], [(0.5, 1.0), (0.5, 2.0)]]
    mdp = MDP([(0, a, 0, p, r) for a, lottery in enumerate(lotteries) for p, r in lottery], horizon=1)
    for dominance in (False, True):
        at_low = plan_capped(mdp, 0.4, max_laws=1, dominance=dominance)
        at_high = plan_capped(mdp, 0.6, max_laws=1, dominance=dominance)
        assert at_low.policy.act(0, 0, -1) == 2, "quantile 1 like action 1, but the larger mean"
        assert at_high.policy.act(0, 0, -1) == 0
    with pytest.raises(ValueError, match="max_laws must be a whole number"):
        plan_capped(mdp, 0.5, max_laws=0)


def test_the_tie_of_another_kernel_stays_open():
    plan = solve(THREE_TENTHS, 0.3 + 1e-13, planner="frontier", kernels=[[0.5, 0.5], [0.3, 0.7]])
    assert (plan.upper, plan.certain) == (10.0, False)
