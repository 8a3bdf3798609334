from fractions import Fraction

import pytest
from hypothesis import assume, given
from oracles import achievable_laws, small_mdps

from bqrl import MDP
from bqrl.errors import SizeError
from bqrl.theory import attainable_shortfalls


@given(small_mdps(states=2, horizon=3))
def test_attainable_shortfalls_are_those_of_the_laws(mdp):
    laws = achievable_laws(mdp)
    assume(laws is not None)
    found = attainable_shortfalls(mdp)
    assert found.complete
    for x, values in zip(found.targets, found.by_target, strict=True):
        listed = {float(sum((p for z, p in law if z < Fraction(x) - Fraction(1, 10**6)), Fraction(0))) for law in laws}
        distinct = sorted(listed)
        merged = [v for v, before in zip(distinct, [-1.0, *distinct], strict=False) if v - before > 1e-13]
        assert values == pytest.approx(merged, abs=1e-12)


@given(small_mdps(states=2, horizon=3))
def test_a_sample_contains_both_extremes_and_nothing_else(mdp):
    every, some = attainable_shortfalls(mdp), attainable_shortfalls(mdp, keep=2)
    assert some.targets.tolist() == every.targets.tolist()
    for few, many in zip(some.by_target, every.by_target, strict=True):
        assert few.size <= 2
        assert (few[0], few[-1]) == pytest.approx((many[0], many[-1]), abs=1e-12)
    if some.complete:
        assert [v.size for v in some.by_target] == [v.size for v in every.by_target]


def test_the_budget_is_checked():
    mdp = MDP([[[0.5, 0.5], [0.9, 0.1]], [[0.5, 0.5], [0.2, 0.8]]], [[0.0, 1.0], [2.0, 0.0]], horizon=3)
    with pytest.raises(SizeError) as error:
        attainable_shortfalls(mdp, max_values=5)
    assert error.value.limit == 5 < error.value.needed
    assert attainable_shortfalls(mdp, max_values=1000).complete
