"""The charts of a study hold the numbers of its scores, and say what their bands are."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from helpers import colours_of

import bqrl
from bqrl.results import study_view
from bqrl.results.charts import BLUE, MAX_POINTS, PINK, SKY, learner_colours
from bqrl.results.study_view import StudyView
from bqrl.study.scores import Contender, band_name, bootstrap_band


@pytest.fixture(scope="module")
def view(study):
    return StudyView(study)


def numbers(rows, *keys, **where):
    chosen = [row for row in rows if all(float(row[key]) == value for key, value in where.items())]
    return np.array([[float(row[key]) for key in keys] for row in chosen])


def test_the_main_figure_draws_the_mean_and_the_bootstrap_band_of_the_held_out_seeds(study, view, embedded):
    spec = view.charts()["figure2_tau0p5"].to_dict()
    drawn = numbers(embedded(spec, "low"), "x", "y", "low", "high", k=0)
    curves = study.experiments["", 0.5].part((1, 2)).values("ucb_bqrl", "capped")
    assert curves.shape == (2, 60)
    assert drawn[:, 0].tolist() == list(range(1, 61))
    assert np.allclose(drawn[:, 1], curves.mean(axis=0), rtol=1e-5)
    assert np.allclose(drawn[:, 2:].T, bootstrap_band(curves), rtol=1e-5, atol=1e-12)
    said = " ".join(spec["title"]["subtitle"])
    assert said.startswith(f"Band: {band_name(2)}.")


def test_every_chart_with_a_band_says_that_it_is_a_bootstrap_band(view):
    banded = 0
    for name, chart in view.charts().items():
        spec = chart.to_dict()
        marks = [layer["mark"]["type"] for layer in spec.get("layer", [])]
        said = " ".join(spec["title"]["subtitle"])
        assert ("area" in marks) == (
            "percentile bootstrap over 2 seeds, narrower than a 95 % confidence band" in said
        ), name
        banded += "area" in marks
    assert banded == 3  # two figures and every measure


def test_long_curves_are_thinned_and_say_to_how_many_points(view, monkeypatch, embedded):
    monkeypatch.setattr(study_view, "POINTS", 10)
    spec = view.charts()["figure2_tau0p5"].to_dict()
    assert len(numbers(embedded(spec, "low"), "x", k=0)) == 10
    assert "Drawn through 10 of 60 episodes." in " ".join(spec["title"]["subtitle"])
    assert study_view.POINTS < MAX_POINTS


def test_a_learner_has_one_colour_in_all_charts_of_a_study(study):
    """Once, it depended on the label and on the other learners of the chart."""
    names = {"ucb_bqrl": "As published", "eps_q": "Plain Q", "target": "Ours"}
    entries = tuple(entry.model_copy(update={"label": names[entry.key]}) for entry in study.spec.learners.values())
    learners = {entry.key: entry for entry in entries}
    view = StudyView(replace(study, spec=study.spec.model_copy(update={"learners": learners})))
    expected = learner_colours(
        Contender(label=names[entry.key], learner=entry.learner, params=entry.params) for entry in entries
    )
    assert expected == {"As published": SKY, "Plain Q": PINK, "Ours": BLUE}
    charts = view.charts()
    for name in ("figure1_tau0p2", "figure2_tau0p5", "every_measure", "seeds", "promises"):
        drawn = colours_of(charts[name].to_dict())
        drawn.pop("exact optimum", None)
        assert drawn.items() <= expected.items(), name
        assert len(drawn) == (2 if name.startswith("figure") else 3), name


def test_the_map_shows_the_final_policy(study, view, embedded):
    spec = view.policy_map(0.2).to_dict()
    actions = study.picked[0.2].actions
    rows = embedded(spec, "a")
    assert len(rows) == 6 * 4  # offers by stages, "sold" left out
    for row in rows:
        assert row["a"] == ("Stop", "Continue")[actions[int(row["h"]) - 1, int(row["s"])]]
        assert float(row["part"]) == 1.0
    assert [tip["title"] for tip in spec["encoding"]["tooltip"]] == ["stage", "state", "action"]


def test_promises_are_those_of_the_final_policies(study, view, embedded):
    records = study.experiments["", 0.5].part((1, 2)).records["target"]
    laws = [bqrl.Law(record.points, record.pmf[record.law_of[-1]]) for record in records]
    dots = numbers(embedded(view.promises().to_dict(), "tau"), "y", k=2, tau=0.5)
    assert np.allclose(dots[:, 0], [law.quantile(0.5) for law in laws], rtol=1e-5)


def test_the_tuning_shows_every_trial_and_rings_the_winner(study, view, embedded):
    spec = view.tuning().to_dict()
    rows = embedded(spec, "search", "low")
    for i, tuned in enumerate(study.tunings.values()):
        trials = sorted((trial.value, trial.gap) for rung in tuned.rungs for trial in rung.trials)
        assert np.allclose(sorted(map(tuple, numbers(rows, "x", "y", search=i))), trials, rtol=1e-5)


def test_axes_of_cumulative_measures_suit_the_size_of_the_rewards(study):
    # With a fixed constant of 1, gaps in millions filled the last tenth of the axis.
    view = StudyView(study)
    assert view.scale == {"type": "symlog", "constant": 1.0}
    larger = bqrl.MDP(np.full((2, 1, 2), 0.5), np.array([[0.0], [1e6]]), horizon=2)
    parts = {place: replace(one, problem=larger) for place, one in study.experiments.items()}
    large = StudyView(replace(study, experiments=parts))
    assert large.every_measure().to_dict()["layer"][0]["encoding"]["y"]["scale"]["constant"] == 1e6
    assert large.last_values().to_dict()["layer"][0]["encoding"]["x"]["scale"]["constant"] == 1e6


def test_every_choice_of_the_selectors_has_its_own_title(view):
    spec = view.every_measure().to_dict()
    assert spec["usermeta"]["selectors"] == ["level", "measure", "problem"]
    titles = spec["usermeta"]["titles"]
    assert titles[1][0][1] == view.order(0.5, "exact", "geometric", shown=True)
    ends = view.last_values().to_dict()
    assert ends["usermeta"]["selectors"] == ["level", "measure", "problem"]
    assert ends["usermeta"]["titles"][0][2][1] == view.order(0.2, "expected", "geometric")
    # Held-out and further seeds may rank the learners differently, so every title says on which seeds.
    assert titles[0][0][0].startswith("τ = 0.2, 2 held-out seeds: ")
    assert ends["usermeta"]["titles"][0][0][0].startswith("τ = 0.2, 3 further seeds: ")
    assert " ".join(view.charts()["figure1_tau0p2"].to_dict()["title"]["text"]).startswith(
        "τ = 0.2, 2 held-out seeds: "
    )


def test_a_list_with_one_option_is_not_shown(study):
    changed = {"study": study.spec.study.model_copy(update={"levels": (0.2,), "plot": ("expected",)}), "variants": {}}
    spec = StudyView(replace(study, spec=study.spec.model_copy(update=changed))).every_measure().to_dict()
    lists = {one["name"]: "bind" in one for one in spec["params"]}
    assert lists == {"level": False, "measure": True, "problem": False}
    assert np.shape(spec["usermeta"]["titles"]) == (1, 2, 1)
    assert " ".join(spec["title"]["subtitle"]).startswith("Problem: AssetSelling. Level: τ = 0.2. Band: ")


def test_without_altair_the_study_has_no_charts_and_says_why(view, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    result = view.result()
    assert result.charts == {}
    assert result.left_out == ['charts need Altair and vl-convert; run: pip install "bqrl[plots]"']
    assert "orderings" in result.tables


def test_a_final_policy_that_depends_on_more_than_the_state_is_left_out_and_said(study):
    chosen = study.spec.final_policy.model_copy(update={"learner": "target"})
    spec = study.spec.model_copy(update={"final_policy": chosen})
    result = StudyView(replace(study, spec=spec, picked={})).result(images=False)
    assert result.left_out == ["the final policy of target is not written: it depends on more than the state"]
    assert not any("final_policy" in name for name in result.files)
