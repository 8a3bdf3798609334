import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import achievable_laws, small_mdps, to_law

import bqrl
from bqrl import Utility
from bqrl.errors import ArgumentError, GridError

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
