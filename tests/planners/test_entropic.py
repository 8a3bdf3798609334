import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import achievable_laws, small_mdps, to_law

import bqrl
from bqrl import Entropic, Law
from bqrl.errors import ArgumentError


@given(small_mdps(), st.sampled_from([0.05, 1.0, 5.0, 60.0, -1.0]))
def test_the_best_entropic_value_is_that_of_brute_force(mdp, theta):
    laws, objective = achievable_laws(mdp), Entropic(theta)
    assume(laws is not None)
    best = max(objective(to_law(law)) for law in laws)
    plan = bqrl.solve(mdp, objective)
    assert plan.value == pytest.approx(best, abs=1e-10)
    assert objective(bqrl.evaluate(mdp, plan.policy)) == pytest.approx(best, abs=1e-10)


@pytest.mark.parametrize("theta", [0.7, -0.7])
def test_with_a_discount_the_value_is_that_of_the_discounted_return(theta):
    rng = np.random.default_rng(3)
    mdp = bqrl.MDP(rng.dirichlet(np.ones(2), (2, 2)), rng.integers(0, 3, (2, 2)), horizon=5, discount=0.5)
    plan = bqrl.solve(mdp, Entropic(theta))
    assert plan.value == pytest.approx(Entropic(theta)(bqrl.evaluate(mdp, plan.policy)), abs=1e-9)


def test_closed_forms():
    assert Entropic(2.0)(Law.point(3.0)) == 3.0
    coin = Law([0.0, 1.0], [0.5, 0.5])
    assert Entropic(1.0)(coin) == pytest.approx(-np.log((1.0 + np.exp(-1.0)) / 2.0))
    assert Entropic(1e-6)(coin) == pytest.approx(0.5, abs=1e-6)
    assert Entropic(5000.0)(Law([-1000.0, 1000.0], [0.5, 0.5])) == pytest.approx(-1000.0, abs=1e-3)
    with pytest.raises(ArgumentError, match="theta must not be 0"):
        Entropic(0.0)
