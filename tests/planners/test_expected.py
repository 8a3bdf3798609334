import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import LEVELS, achievable_laws, exact_mean, small_mdps
from planner_problems import THREE_TENTHS
from scipy import sparse

import bqrl
from bqrl import MDP, Law, MarkovPolicy, evaluate, solve
from bqrl.planners import expected
from bqrl.planners.evaluate import Limits, law_bracket
from bqrl.planners.expected import best_mean, is_settled, plan_expected
from bqrl.planners.facts import RoundedLaw

levels = st.sampled_from(LEVELS)


@given(small_mdps())
def test_best_mean_is_the_best_of_all_policies(mdp):
    laws = achievable_laws(mdp, cap=200)
    assume(laws is not None)
    value, policy = best_mean(mdp)
    assert value == pytest.approx(float(max(exact_mean(law) for law in laws)), abs=1e-12)
    assert evaluate(mdp, policy).mean() == pytest.approx(value, abs=1e-12)


def test_the_best_mean_by_products_is_that_by_outcomes(monkeypatch):
    rng = np.random.default_rng(0)
    available = rng.random((6, 3)) < 0.8
    available[:, 0] = True
    mdp = MDP(
        rng.dirichlet(np.ones(6), (6, 3)), rng.integers(0, 5, (6, 3)), horizon=4, discount=0.9, available=available
    )
    amounts = rng.random((4, 18))
    by_outcomes = [best_mean(mdp), best_mean(mdp, amounts)]
    monkeypatch.setattr(expected, "DENSE_OUTCOMES", 0)
    monkeypatch.setattr("bqrl.mdp.grid.DENSE_FROM", 0.0)
    for (value, policy), (again, same) in zip(by_outcomes, [best_mean(mdp), best_mean(mdp, amounts)], strict=True):
        assert again == pytest.approx(value, rel=1e-13)
        assert np.array_equal(policy.actions, same.actions)


@given(small_mdps(), levels, st.sampled_from([0.0, 0.5, 1.0]))
def test_value_is_that_of_its_own_policy(mdp, tau, share):
    plan = plan_expected(mdp, float(tau), share * float(tau))
    law = evaluate(mdp, plan.policy)
    assert plan.value == plan.nominal == law.buffered_quantile(float(tau), share * float(tau))
    assert plan.upper is None
    assert plan.exact
    assert plan.mean == pytest.approx(plan.details["mean"], abs=1e-12)


def test_asset_selling():
    mdp = bqrl.envs.make("AssetSelling")
    value, policy = best_mean(mdp)
    assert value == pytest.approx(0.86398, abs=5e-6)
    found = [plan_expected(mdp, tau).value * 24 for tau in (0.1, 0.5, 0.9)]
    assert found == pytest.approx([17, 22, 24], abs=1e-9)
    continues = policy.actions[:, :25] == 1
    assert np.all(np.diff(continues.astype(int), axis=1) <= 0), "a threshold at every stage"
    assert not continues[-1].any(), "at the last stage an offer of 0 ties: the lower action is Stop"


def test_ties_go_to_the_lower_action():
    """Ten times 0.1 against 1: equal up to rounding, so the first action stays."""
    mdp = MDP([(0, 0, 0, 0.1, 1.0)] * 3 + [(0, 0, 0, 0.7, 1.0), (0, 1, 0, 1.0, 1.0 + 4e-16)], horizon=3)
    assert best_mean(mdp)[1].actions.max() == 0


def test_unavailable_actions_and_unreachable_states_are_left_alone():
    exists = np.array([[False, True], [True, False]])
    mdp = MDP([[[0.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 0.0]]], [[9, 1], [2, 9]], horizon=3, available=exists)
    value, policy = best_mean(mdp)
    assert value == 4.0
    assert policy.actions.tolist() == [[1, 0]] * 3


@given(small_mdps(plain=True), st.sampled_from([0.5, 0.9]))
def test_discount_is_backward_induction_on_discounted_rewards(mdp, discount):
    mdp = mdp.replace(discount=discount)
    value, policy = best_mean(mdp)
    assert evaluate(mdp, policy).mean() == pytest.approx(value, abs=1e-3)


def test_sparse_problem_without_a_grid_is_bracketed():
    rng = np.random.default_rng(0)
    S, A = 200, 3
    rows = np.repeat(np.arange(S * A), 4)
    kernel = sparse.csr_array((np.full(rows.size, 0.25), (rows, rng.integers(0, S, rows.size))), shape=(S * A, S))
    mdp = MDP(kernel, rng.random((S, A)), horizon=30, discount=0.95)
    plan = plan_expected(mdp, 0.2, 0.1)
    assert plan.law_upper is not None
    assert not plan.exact
    assert plan.value == plan.law.buffered_quantile(0.2, 0.1)
    assert plan.law.mean() <= plan.details["mean"] <= plan.law_upper.mean()
    assert isinstance(plan.policy, MarkovPolicy)


def test_settled_looks_at_both_sides_of_the_level():
    law = Law([0, 1], [0.5, 0.5])
    assert not is_settled(law, 0.5, 0.0, 1e-15)
    assert is_settled(law, 0.4, 0.0, 1e-15)
    assert not is_settled(Law([0, 1], [0.5 - 1e-13, 0.5 + 1e-13]), 0.5, 0.0, 1e-15), "only MASS_TOL decided"
    assert is_settled(law, 0.9, 1e-9, 1e-15), "all levels of the buffer lie in one atom"
    assert not is_settled(law, 0.5, 1e-9, 1e-15), "rounding over a tiny buffer"


@pytest.mark.parametrize("planner", ["target", "frontier", "greedy", "expected"])
def test_a_narrow_buffer_at_a_tie_is_not_certain(planner):
    assert not solve(THREE_TENTHS, 0.3 + 9e-13, beta=1e-5, planner=planner).certain
    assert solve(THREE_TENTHS, 0.35, beta=0.01, planner=planner).certain


def test_a_mean_needs_no_grid_so_a_large_law_is_bracketed(monkeypatch):
    mdp = bqrl.envs.make("MeanReversion", periods=4)
    exact = bqrl.solve(mdp, bqrl.Mean())
    assert exact.law_upper is None
    monkeypatch.setattr(expected, "LAW_MASSES", 1000)
    plan = bqrl.solve(mdp, bqrl.Mean())
    assert plan.value == exact.value == pytest.approx(plan.mean)
    assert plan.exact
    assert plan.law_upper is not None
    for tau in (0.1, 0.5, 0.9):
        assert plan.law.quantile(tau) <= exact.law.quantile(tau) <= plan.law_upper.quantile(tau)
    assert any(isinstance(note, RoundedLaw) for note in plan.notes)


def test_a_policy_without_memory_is_bracketed_where_its_exact_law_does_not_fit():
    mdp = bqrl.envs.make("MeanReversion", periods=3)
    _, policy = best_mean(mdp)
    whole, none = law_bracket(mdp, policy)
    low, high = law_bracket(mdp, policy, Limits(max_masses=10, max_atoms=10))
    assert none is None
    assert low.exact_mean == pytest.approx(whole.mean())
    assert low.quantile(0.3) <= whole.quantile(0.3) <= high.quantile(0.3)
