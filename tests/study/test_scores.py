"""Scores of finished runs against the exact optimum and the paper's reference."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from scipy import stats

import bqrl
from bqrl import CVaR
from bqrl.study.scores import MEASURES, Experiment, band_name, beats, late_return, mean_band
from bqrl.study.study import reference


@pytest.fixture(scope="module")
def record():
    mdp = bqrl.envs.make("AssetSelling", offers=6, horizon=4, start=2)
    return bqrl.learn(mdp, "q-learning", tau=0.3, episodes=50, seed=1)


def test_gaps_are_measured_against_the_references(record):
    against, quantile = reference(record.mdp, 0.3), record.quantile(0.3)
    found = {measure: MEASURES[measure][1](record, 0.3) for measure in ("capped", "exact", "expected")}
    np.testing.assert_allclose(found["exact"], against.optimum - quantile, atol=1e-12)
    np.testing.assert_allclose(found["capped"], np.maximum(against.capped - quantile, 0.0), atol=1e-12)
    np.testing.assert_allclose(found["expected"], against.best_mean - record.means(), atol=1e-12)
    assert MEASURES["gap"] == MEASURES["exact"]
    assert MEASURES["mean_regret"] == MEASURES["expected"]


def test_late_returns_are_those_of_the_last_episodes(record):
    assert late_return(record) == record.returns[-5:].mean()
    assert late_return(record, 0.2) == record.returns[-10:].mean()
    assert late_return(record, 1e-9) == record.returns[-1]
    assert late_return(record, 0.2, CVaR(0.1)) == record.returns[-10:].min()


def given(ends):
    """An experiment with these last values."""

    class Given(Experiment):
        def ends(self, measure):
            return ends

    return Given(problem=None, objective=bqrl.Quantile(0.5), episodes=1, seeds=(), learners=(), records={})


@pytest.mark.parametrize("largest", [False, True])
def test_orders_are_by_mean_and_say_what_is_clear_seed_by_seed(largest):
    values = {"b": [4.0, 6.0, 8.0], "a": [4.0, 6.0, 8.0], "near": [9.0, 2.0, 10.0], "far": [19.0, 21.0, 20.0]}
    arrays = {label: np.array(one) for label, one in values.items()}
    rows = given(arrays).order("return" if largest else "gap")
    assert [row["learner"] for row in rows] == (["far", "near", "a", "b"] if largest else ["a", "b", "near", "far"])
    for row, after in pairwise(rows):
        distance = abs(arrays[after["learner"]].mean() - arrays[row["learner"]].mean())
        assert row["to_next"] == pytest.approx(distance)
        error = (arrays[after["learner"]] - arrays[row["learner"]]).std(ddof=1) / np.sqrt(3.0)
        assert row["to_next_error"] == pytest.approx(error)
        assert row["clear"] == (distance > stats.t.ppf(0.975, 2) * error)
    assert {row["learner"]: row["clear"] for row in rows}["far" if largest else "near"] is True
    assert rows[-1]["to_next"] is None


def test_one_seed_orders_without_saying_what_is_clear():
    rows = given({"a": np.array([2.0]), "b": np.array([1.0])}).order("gap")
    assert [(row["learner"], row["to_next"], row["clear"]) for row in rows] == [("b", 1.0, None), ("a", None, None)]


def test_three_seeds_two_standard_errors_apart_are_not_clear():
    """With 3 seeds a distance of 2.6 standard errors has p = 0.12."""
    rows = given({"a": np.zeros(3), "b": np.array([2.0, 3.0, 7.0])}).order("gap")
    assert rows[0]["to_next"] > 2.0 * rows[0]["to_next_error"]
    assert rows[0]["clear"] is False
    assert stats.ttest_1samp([2.0, 3.0, 7.0], 0.0).pvalue > 0.05
    assert given({"a": np.zeros(3), "b": np.array([4.0, 5.0, 6.0])}).order("gap")[0]["clear"] is True


@pytest.mark.parametrize("seeds", [2, 3, 9, 20])
def test_bands_and_clear_distances_hold_for_any_number_of_seeds(seeds):
    """Of 20,000 experiments with normal values 95 % hold the mean, and 2.5 % find a learner clearly better that is not."""
    values = np.random.default_rng(0).normal(size=(seeds, 20_000))
    low, high = mean_band(values)
    assert np.mean((low <= 0.0) & (high >= 0.0)) == pytest.approx(0.95, abs=0.007)  # four standard errors
    wrong = [given({"a": np.zeros(seeds), "b": one}).order("gap")[0] for one in values.T[:2000]]
    found = [row["clear"] for row in wrong if row["learner"] == "a"]
    assert sum(found) / 2000 == pytest.approx(0.025, abs=0.014)
    assert band_name(seeds) == f"95 % confidence band of the mean, t interval over {seeds} seeds"


def test_one_seed_has_no_band():
    low, high = mean_band(np.array([[1.0, 2.0]]))
    assert low.tolist() == high.tolist() == [1.0, 2.0]
    assert band_name(1) == "one seed, so no band"


def test_equal_runs_have_a_band_of_width_zero():
    low, high = mean_band(np.full((7, 2), 0.1))
    assert np.all(low == 0.1)
    assert np.all(high == 0.1)


def test_the_probability_of_beating_counts_all_pairs():
    mine, other = np.array([1.0, 4.0]), np.array([2.0, 4.0, 9.0])
    assert beats(mine, other) == pytest.approx((3 + 0.5 + 1) / 6)
    assert beats(mine, other) + beats(other, mine) == pytest.approx(1.0)


def test_orders_and_probabilities_do_not_depend_on_the_unit():
    mdp = bqrl.envs.make("AssetSelling", offers=6, horizon=4, start=2)
    large = bqrl.compare(mdp, ["sarsa", "q-learning", "ucbvi"], tau=0.3, episodes=20, seeds=3, workers=1)

    def scaled(record):
        optimum = replace(record.optimum, points=1e-11 * record.optimum.points)
        return replace(record, points=1e-11 * record.points, optimum=optimum)

    records = {label: tuple(map(scaled, some)) for label, some in large.records.items()}
    small = replace(large, records=records, _cumulative={})
    assert [row["learner"] for row in small.order()] == [row["learner"] for row in large.order()]
    assert small.beats() == large.beats()


def test_one_seed_is_not_one_seeds():
    one = bqrl.compare(bqrl.envs.make("Bandit"), ["sarsa"], tau=0.5, episodes=1, seeds=1, workers=1)
    assert repr(one) == "Experiment(sarsa; 0.5-quantile, 1 episode, 1 seed)"
    assert ", 1 episode, mean return" in repr(one.records["sarsa"][0])


def test_the_band_of_a_gap_is_never_negative():
    values = np.array([[1.0, 10.0], [3.0, 11.0], [20.0, 12.0]])
    assert mean_band(values)[0][0] < 0.0
    assert mean_band(values, "gap")[0].tolist() == [0.0, mean_band(values)[0][1]]
    assert mean_band(values, "return")[0][0] < 0.0
