import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import achievable_laws, small_mdps, to_law

import bqrl
from bqrl import MeanCVaR, Utility
from bqrl.errors import ArgumentError, GridError


def test_a_problem_with_one_return_has_a_plan():
    mdp = bqrl.MDP([[[1.0]]], [[2.0]], horizon=3)
    for objective in (bqrl.MeanCVaR(0.1, 0.5), bqrl.Utility(lambda x: x * x)):
        plan = bqrl.solve(mdp, objective)
        assert plan.value == plan.upper == objective(plan.law)


@given(small_mdps(), st.sampled_from([0.1, 0.3, 0.5, 1.0]), st.sampled_from([0.0, 0.2, 0.5, 1.0]))
def test_the_best_sum_is_that_of_brute_force(mdp, tau, weight):
    laws, objective = achievable_laws(mdp), MeanCVaR(tau, weight)
    assume(laws is not None)
    best = max(objective(to_law(law)) for law in laws)
    plan = bqrl.solve(mdp, objective)
    assert plan.value == pytest.approx(best, abs=1e-10)
    assert plan.upper == pytest.approx(best, abs=1e-10)


def test_its_ends_are_the_mean_and_cvar():
    mdp = bqrl.envs.make("AssetSelling")
    assert bqrl.solve(mdp, MeanCVaR(0.1, 0.0)).value == pytest.approx(bqrl.solve(mdp, bqrl.Mean()).value, abs=1e-12)
    assert bqrl.solve(mdp, MeanCVaR(0.1, 1.0)).value == pytest.approx(bqrl.solve(mdp, bqrl.CVaR(0.1)).value, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_with_a_discount_the_sum_is_bracketed(seed):
    rng = np.random.default_rng(seed)
    mdp = bqrl.MDP(rng.dirichlet(np.ones(3), (3, 2)), rng.random((3, 2)), horizon=8, discount=0.9)
    coarse, fine = (bqrl.solve(mdp, MeanCVaR(0.2, 0.5), points=points) for points in (50, 3000))
    assert coarse.value <= fine.upper + 1e-12
    assert fine.value <= coarse.upper + 1e-12
    assert fine.gap < coarse.gap


FUNCTIONS = (lambda x: math.sin(3.0 * x), lambda x: min(x, 1.0), lambda x: float(x >= 1.0), lambda x: -((x - 1.0) ** 2))


@given(small_mdps(), st.sampled_from(FUNCTIONS))
def test_the_best_mean_utility_is_that_of_brute_force(mdp, f):
    laws, objective = achievable_laws(mdp), Utility(f)
    assume(laws is not None)
    best = max(objective(to_law(law)) for law in laws)
    plan = bqrl.solve(mdp, objective)
    assert plan.value == pytest.approx(best, abs=1e-10)
    assert objective(bqrl.evaluate(mdp, plan.policy)) == pytest.approx(best, abs=1e-10)


def test_without_a_lattice_it_must_be_increasing():
    rng = np.random.default_rng(0)
    mdp = bqrl.MDP(rng.dirichlet(np.ones(2), (2, 2)), rng.random((2, 2)), horizon=6, discount=0.9)
    with pytest.raises(GridError, match="state that it is increasing"):
        bqrl.solve(mdp, Utility(math.sqrt))
    coarse, fine = (bqrl.solve(mdp, Utility(math.sqrt, increasing=True), points=points) for points in (40, 4000))
    assert coarse.value <= fine.upper + 1e-12
    assert fine.value <= coarse.upper + 1e-12
    assert fine.gap < coarse.gap


def test_a_function_that_is_not_finite_is_refused():
    with pytest.raises(ArgumentError, match=r"f must be finite on every possible return, got f\(10\) = inf"):
        bqrl.solve("SafeOrRisky", Utility(lambda x: math.inf if x == 10.0 else x))


def test_a_weight_of_0_or_1_is_called_the_mean_or_cvar():
    """Plans of CVaR for continuous states once spoke of "0 mean + 1 CVaR"."""
    labels = [bqrl.MeanCVaR(0.1, weight).label for weight in (0.0, 0.25, 1.0)]
    assert labels == ["mean", "0.75 mean + 0.25 CVaR at 0.1", "CVaR at 0.1"]
