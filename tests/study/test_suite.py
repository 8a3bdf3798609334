"""Experiments on several problems side by side."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

import bqrl
from bqrl.errors import ArgumentTypeError
from bqrl.policies.shares import uniform
from bqrl.study.suite import Suite, curves_csv, experiment_arrays, experiment_from_arrays

GIVEN = {"episodes": 6, "seeds": 2, "workers": 1}


@pytest.fixture(scope="module")
def parts():
    return {
        "safe": bqrl.compare("SafeOrRisky", ["sarsa", "psrl"], objective=bqrl.CVaR(0.2), **GIVEN),
        "lost": bqrl.compare(
            bqrl.MDP([[[1.0], [1.0]]], [[-1.0, -2.0]], horizon=2), ["sarsa"], tau=0.5, **GIVEN
        ),
    }  # fmt: skip


def test_results_of_several_calls_are_put_side_by_side(parts):
    suite = Suite(experiments=parts)
    assert (list(suite), len(suite), suite.labels) == (["safe", "lost"], 2, ["sarsa", "psrl"])
    rows = suite.rows()
    assert [row["objective"] for row in rows] == ["CVaR at 0.2", "CVaR at 0.2", "0.5-quantile"]
    assert len({tuple(row) for row in rows}) == 1  # the same columns
    safe, lost = suite.shares()
    random = bqrl.CVaR(0.2)(bqrl.evaluate("SafeOrRisky", uniform(bqrl.envs.make("SafeOrRisky"))))
    for row in rows[:2]:
        assert row["random"] == safe["random"] == random
        assert row["share"] == safe[row["learner"]] == (row["value"] - random) / (row["optimum"] - random)
    assert (lost["optimum"], lost["random"], lost["psrl"]) == (-2.0, -3.0, None)  # two steps; there is no such run
    assert lost["sarsa"] == rows[2]["value"] + 3.0
    with pytest.raises(ArgumentTypeError, match="experiments must hold experiments, as for x, got int"):
        Suite(experiments={"x": 3})


@given(st.floats(-4.0, 4.0))
def test_a_share_of_a_loss_is_the_way_from_random_play_to_the_optimum(parts, value):
    one = parts["lost"]
    assert one.share(value) == value + 3.0
    assert (one.share(one.random), one.share(one.optimum)) == (0.0, 1.0)
    assert one.share(one.random + 1e-15) == 0.0  # rounding noise, which tables would show as 1e-16


def test_there_is_no_share_where_random_play_is_optimal_or_the_kernel_unknown():
    idle = bqrl.compare(bqrl.MDP([[[1.0], [1.0]]], [[1.0, 1.0]], horizon=2), ["sarsa"], tau=0.5, **GIVEN)
    unknown = bqrl.compare("CartPole-v1", ["sarsa"], tau=0.5, horizon=3, bins=[[0.0]] * 4, **GIVEN)
    assert (idle.share(2.0), idle.rows()[0]["share"], unknown.share(2.0)) == (None, None, None)
    assert "share" not in unknown.rows()[0]
    row = Suite(experiments={"unknown": unknown}).shares()[0]
    assert (row["optimum"], row["random"], row["sarsa"]) == (None, None, None)


def test_a_suite_of_different_experiments_comes_back_from_its_arrays(parts):
    suite = Suite(experiments=parts)
    found = experiment_from_arrays(experiment_arrays(suite))
    assert found.rows() == suite.rows()
    assert curves_csv(found) == curves_csv(suite)
    assert curves_csv(suite).startswith(
        b"problem,learner,measure,episode,mean,low,high,seeds,objective,seed_numbers,versions\n"
    )
