"""The charts of a study hold the numbers of its scores, and say what their bands are."""

import numpy as np
import pytest

from bqrl.results import study_charts
from bqrl.results.charts import MAX_POINTS
from bqrl.results.study import StudyView
from bqrl.study.compare import bootstrap_band


def numbers(rows, *keys, **where):
    chosen = [row for row in rows if all(float(row[key]) == value for key, value in where.items())]
    return np.array([[float(row[key]) for key in keys] for row in chosen])


def test_the_main_figure_draws_the_mean_and_the_bootstrap_band_of_the_held_out_seeds(study, embedded):
    spec = study_charts.figure_curves(study, 0.5, "capped", "t").to_dict()
    drawn = numbers(embedded(spec, "low"), "x", "y", "low", "high", k=0)
    curves = np.array(study.scores.curves["", "ucb_bqrl", 0.5]["capped"])
    assert curves.shape == (2, 60)
    assert drawn[:, 0].tolist() == list(range(1, 61))
    assert np.allclose(drawn[:, 1], curves.mean(axis=0), rtol=1e-5)
    assert np.allclose(drawn[:, 2:].T, bootstrap_band(curves), rtol=1e-5, atol=1e-12)
    said = " ".join(spec["title"]["subtitle"])
    assert said.startswith("Band: 95 % confidence band of the mean, percentile bootstrap over 2 seeds.")


def test_every_chart_with_a_band_says_that_it_is_a_bootstrap_band(study):
    banded = 0
    for name, chart in StudyView(study).charts().items():
        spec = chart.to_dict()
        marks = [layer["mark"]["type"] for layer in spec.get("layer", [])]
        said = " ".join(spec["title"]["subtitle"])
        assert ("area" in marks) == ("95 % confidence band of the mean, percentile bootstrap over" in said), name
        banded += "area" in marks
    assert banded == 3  # two figures and every measure


def test_long_curves_are_thinned_and_say_to_how_many_points(study, monkeypatch, embedded):
    monkeypatch.setattr(study_charts, "POINTS", 10)
    spec = study_charts.figure_curves(study, 0.5, "capped", "t").to_dict()
    assert len(numbers(embedded(spec, "low"), "x", k=0)) == 10
    assert "Drawn through 10 of 60 episodes." in " ".join(spec["title"]["subtitle"])
    assert study_charts.POINTS < MAX_POINTS


def test_the_map_shows_the_final_policy(study, embedded):
    spec = study_charts.policy_map(study, 0.2, "offer", "t", "n").to_dict()
    actions = study.scores.policies[0.2][study.scores.picked(0.2)]
    rows = embedded(spec, "a")
    assert len(rows) == 6 * 4  # offers by stages, "sold" left out
    for row in rows:
        assert row["a"] == ("Stop", "Continue")[actions[int(row["h"]) - 1, int(row["s"])]]
        assert float(row["part"]) == 1.0


def test_promises_and_laws_are_those_of_the_final_policies(study, embedded):
    laws = study_charts.final_laws(study, "target", 0.5)
    dots = numbers(embedded(study_charts.promises(study, "t").to_dict(), "tau"), "y", k=2, tau=0.5)
    assert np.allclose(dots[:, 0], [law.quantile(0.5) for law in laws], rtol=1e-5)
    mixed = study_charts.mixed_law(study, "target", 0.5)
    assert mixed.mean() == pytest.approx(np.mean([law.mean() for law in laws]))
    lines = embedded(study_charts.return_laws(study, ["a", "b"]).to_dict(), "low")
    drawn = numbers(lines, "x", "y", k=2, level=1)
    assert np.allclose(drawn[1:], np.c_[mixed.values, mixed.running], rtol=1e-5)


def test_the_tuning_shows_every_trial_and_rings_the_winner(study, embedded):
    names = [f"{key} {tau}" for key, tau, _ in study.tunings()]
    spec = study_charts.tuning(study, names, names).to_dict()
    rows = embedded(spec, "search", "low")
    for i, (_, _, tuned) in enumerate(study.tunings()):
        trials = sorted((trial.value, trial.gap) for rung in tuned.rungs for trial in rung.trials)
        assert np.allclose(sorted(map(tuple, numbers(rows, "x", "y", search=i))), trials, rtol=1e-5)
