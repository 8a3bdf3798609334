"""The target sweep in exact fractions."""

from fractions import Fraction

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import (
    LEVELS,
    achievable_laws,
    best_objective,
    small_mdps,
)
from planner_problems import THREE_TENTHS

from bqrl import MDP, solve


def test_rational_levels_are_read_as_the_fractions_they_mean():
    for d in range(2, 40):
        for k in range(1, d):  # one action, a mass of exactly tau below 1: the quantile is 0
            game = MDP([(0, 0, 0, k / d, 0.0), (0, 0, 0, 1 - k / d, 1.0)], horizon=1)
            plan = solve(game, k / d, arithmetic="rational")
            assert (plan.value, plan.certain) == (0.0, True)


@given(small_mdps(), st.sampled_from(LEVELS))
def test_rational_arithmetic_decides_like_the_oracle(mdp, tau):
    laws = achievable_laws(mdp, 200)
    assume(laws is not None and Fraction(repr(float(tau))) == tau)
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


def test_rational_margins_are_about_the_value():
    plan = solve(THREE_TENTHS, 0.3 + 1e-13, arithmetic="rational")
    assert plan.value == 10.0
    assert plan.policy_margin == pytest.approx((1e-13, 0.7 - 1e-13), abs=1e-15)


@pytest.mark.parametrize("unit", [1.0, 1e-8, 1e-18])
def test_tiny_rewards_still_break_ties_by_the_mean(unit):
    mdp = MDP(
        [(0, 0, 0, 0.5, 1.0 * unit), (0, 0, 0, 0.5, 2.0 * unit), (0, 1, 0, 0.5, unit), (0, 1, 0, 0.5, 4.0 * unit)],
        horizon=1,
    )
    plan = solve(mdp, 0.3, arithmetic="rational")
    assert plan.value == unit
    assert plan.mean / unit == pytest.approx(2.5)  # rewards of 1e-8 were read as 0


@pytest.mark.parametrize(("reward", "rounded"), [(3.3, 1.1 + 2.2), (1000 / 3, 333.33333333333337)])
def test_rewards_that_differ_by_rounding_tie_at_any_size(reward, rounded):
    assert reward != rounded
    plan = solve(MDP([(0, 0, 0, 1.0, reward), (0, 1, 0, 1.0, rounded)], horizon=1), 0.5, arithmetic="rational")
    assert plan.policy.actions[0].max() == 0
