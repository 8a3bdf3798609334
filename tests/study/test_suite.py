"""Experiments on several problems side by side."""

import pytest

import bqrl
from bqrl.errors import ArgumentTypeError
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
    assert 0.0 < safe["sarsa"] <= 1.0 + 1e-12
    assert (lost["optimum"], lost["sarsa"], lost["psrl"]) == (-2.0, None, None)  # no share of a loss, and no such run
    with pytest.raises(ArgumentTypeError, match="experiments must hold experiments, as for x, got int"):
        Suite(experiments={"x": 3})


def test_a_suite_of_different_experiments_comes_back_from_its_arrays(parts):
    suite = Suite(experiments=parts)
    found = experiment_from_arrays(experiment_arrays(suite))
    assert found.rows() == suite.rows()
    assert curves_csv(found) == curves_csv(suite)
    assert curves_csv(suite).startswith(
        b"problem,learner,measure,episode,mean,low,high,seeds,objective,seed_numbers,versions\n"
    )
