import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import achievable_laws, small_mdps, to_law

import bqrl
from bqrl import Chance


@given(small_mdps(), st.integers(0, 100), st.sampled_from([0.0, 0.04, -0.03, 100.0, -100.0]))
def test_the_best_chance_is_that_of_brute_force(mdp, which, shift):
    laws = achievable_laws(mdp)
    assume(laws is not None)
    laws = [to_law(law) for law in laws]
    support = sorted({x for law in laws for x in law.values})
    objective = Chance(float(support[which % len(support)]) + shift)
    plan = bqrl.solve(mdp, objective)
    best = max(objective(law) for law in laws)
    assert plan.value == pytest.approx(best, abs=1e-12)
    assert plan.upper == pytest.approx(best, abs=1e-12)
    assert objective(bqrl.evaluate(mdp, plan.policy)) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_with_a_discount_the_chance_is_bracketed(seed):
    rng = np.random.default_rng(seed)
    mdp = bqrl.MDP(rng.dirichlet(np.ones(3), (3, 2)), rng.random((3, 2)), horizon=8, discount=0.9)
    for target in (1.5, 2.5, 3.5):
        coarse, fine = (bqrl.solve(mdp, Chance(target), points=points) for points in (60, 3000))
        assert not coarse.exact
        assert coarse.value <= fine.upper + 1e-12
        assert fine.value <= coarse.upper + 1e-12
        assert fine.gap <= 0.1
        returns = bqrl.simulate(mdp, fine.policy, 4000, seed=1)
        assert np.mean(returns >= target) >= fine.value - 0.04


def test_a_chance_is_a_probability_without_unit():
    plan = bqrl.solve(bqrl.MDP([[[1.0]]], [[2.0]], horizon=3, units="EUR"), Chance(6.0))
    assert (plan.value, plan.units) == (1.0, None)
    assert "with probability 1" in plan._repr_html_()
