"""The best mean among all policies with the best quantile."""

from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from oracles import (
    achievable_laws,
    exact_mean,
    exact_quantile,
    small_mdps,
)
from planner_problems import THREE_TENTHS

import bqrl
from bqrl import solve
from bqrl.errors import GridError


@given(small_mdps(), st.sampled_from([0.1, 0.3, 0.5, 0.7, 0.9]))
def test_the_best_mean_among_optimal_policies_is_bracketed(mdp, tau):
    laws = achievable_laws(mdp, 200)
    assume(laws is not None)
    exact = Fraction(repr(tau))
    top = max(exact_quantile(law, exact) for law in laws)
    best = max(exact_mean(law) for law in laws if exact_quantile(law, exact) == top)
    plan = solve(mdp, tau, secondary="mean")
    assert plan.value == pytest.approx(float(top), abs=1e-9)
    assert plan.law.mean() <= float(best) + 1e-9
    assert plan.details["mean_bound"] >= float(best) - 1e-9
    assert plan.law.mean() >= solve(mdp, tau).law.mean() - 1e-9
    assert plan.details["best_mean"] == pytest.approx(float(max(map(exact_mean, laws))))


def test_the_note_says_among_which_policies_the_mean_is_best():
    """Once "at most 13.4 below the best possible" was read as the best mean of all policies, 2,089 higher."""
    sure, lottery = (0, 0, 0, 1.0, 10.0), [(0, 1, 0, 0.5, 0.0), (0, 1, 0, 0.5, 100.0)]
    plan = solve(bqrl.MDP([sure, *lottery], horizon=1), 0.4, secondary="mean")
    said = "mean 10, at most 32.1 below the best mean among policies with this guarantee; the best mean of all policies is 50"
    assert (plan.remarks[-1], plan.details["best_mean"]) == (said, 50.0)
    plan = solve(bqrl.MDP([sure, (0, 1, 0, 1.0, 5.0)], horizon=1), 0.4, secondary="mean")
    assert (
        plan.remarks[-1] == "mean 10, the best among policies with this guarantee; the best mean of all policies is 10"
    )
    pump = Path(__file__).parents[2] / "examples" / "pump.csv"
    plan = solve(bqrl.load(pump, horizon=12, start="1"), 0.1, secondary="mean")
    said = "mean 103.771, at most 0.081 below the best mean among policies with this guarantee; the best mean of all policies is "
    assert plan.remarks[-1].startswith(said)


def test_a_margin_that_is_met_exactly_leaves_a_policy():
    mdp = bqrl.MDP([(0, 0, 0, 0.63, 0.0), (0, 0, 0, 0.37, 1.0)], horizon=1)
    assert solve(mdp, 0.7, secondary="mean", margin=0.07).value == 1.0
    assert solve(THREE_TENTHS, 0.3 + 1.5e-12, secondary="mean").value == 10.0


def test_a_rounded_grid_does_not_pass_a_worse_quantile_off_as_the_best():
    # On five points both actions reach the target 0.8; the first has the better quantile, the second the better mean.
    mdp = bqrl.MDP([(0, 0, 0, 1.0, 0.9), (0, 1, 0, 0.5, 0.8), (0, 1, 0, 0.5, 3.0)], horizon=1)
    assert solve(mdp, 0.4, secondary="mean").value == 0.9
    with pytest.raises(
        GridError, match="requires an exact grid of returns, got points=5, which rounds them; omit points"
    ):
        solve(mdp, 0.4, secondary="mean", points=5)
