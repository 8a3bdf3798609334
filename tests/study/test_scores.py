"""Scores of finished runs against the exact optimum and the paper's reference."""

from itertools import pairwise

import numpy as np
import pytest

import bqrl
from bqrl.study.scores import by_episode, criterion, reference


@pytest.fixture(scope="module")
def record():
    mdp = bqrl.envs.make("AssetSelling", offers=6, horizon=4, start=2)
    return bqrl.learn(mdp, "q-learning", tau=0.3, episodes=50, seed=1)


def test_references_are_those_of_the_planners(record):
    against = reference(record.mdp, 0.3)
    assert against.exact == bqrl.solve(record.mdp, 0.3).value
    assert against.capped == bqrl.solve(record.mdp, 0.3, planner="capped-frontier").value
    assert against.best_mean == pytest.approx(bqrl.solve(record.mdp, 0.3, planner="expected").law.mean())
    shortfall = 0.3 - against.margin
    assert 0.0 <= shortfall < 0.3
    assert bqrl.guarantee_curve(record.mdp)(shortfall + 1e-9) >= against.exact


def test_measures_are_those_of_the_record(record):
    against = reference(record.mdp, 0.3)
    np.testing.assert_allclose(by_episode(record, "exact", against), record.gap(0.3), atol=1e-12)
    np.testing.assert_allclose(by_episode(record, "capped", against), record.gap(0.3, "capped"), atol=1e-12)
    np.testing.assert_allclose(by_episode(record, "expected", against), record.expected_regret(), atol=1e-12)
    score = criterion(record, against, 0.2)
    assert score.gap == pytest.approx(record.gap(0.3, "capped").sum())
    assert score.tail == pytest.approx(record.returns[-10:].mean())


def test_orderings_are_by_mean_and_say_what_is_clear(finished):
    scores = finished[0].scores
    for measure in ("capped", "exact", "expected"):
        rows = scores.ordering("", 0.5, measure)
        seeds = finished[0].spec.ranking_seeds()
        ends = {row["learner"]: scores.final("", row["learner"], 0.5, measure, seeds) for row in rows}
        for row, after in pairwise(rows):
            distance = ends[after["learner"]] - ends[row["learner"]]
            assert row["to_next"] == pytest.approx(distance.mean())
            error = distance.std(ddof=1) / np.sqrt(distance.size)
            assert row["clear"] == (distance.mean() > 2.0 * error)


def test_mean_curves_of_equal_runs_have_no_spread(finished):
    mean, spread = finished[0].scores.mean_curve("", "target", 0.5, "exact")
    curves = np.array(finished[0].scores.curves["", "target", 0.5]["exact"])
    np.testing.assert_allclose(mean, curves.mean(axis=0))
    np.testing.assert_allclose(spread, curves.std(axis=0, ddof=1), atol=1e-12)
