"""The charts of a study hold the numbers of its scores, and say what their bands are."""

import sys
from dataclasses import replace

import numpy as np
import pytest
from helpers import colours_of
from small_study import SMALL, make

import bqrl
from bqrl.display import format_number
from bqrl.results import study_view
from bqrl.results.charts import BLUE, MAX_POINTS, PINK, SKY
from bqrl.results.learning_curves import learner_colours
from bqrl.results.study_view import StudyView, words_of
from bqrl.study.problems import problem_of
from bqrl.study.scores import Contender, band_name, mean_band
from bqrl.study.study import Study


@pytest.fixture(scope="module")
def view(study):
    return StudyView(study)


def numbers(rows, *keys, **where):
    chosen = [row for row in rows if all(float(row[key]) == value for key, value in where.items())]
    return np.array([[float(row[key]) for key in keys] for row in chosen])


def test_the_main_figure_draws_the_mean_and_the_mean_band_of_the_held_out_seeds(study, view, embedded):
    spec = view.charts()["figure2_tau0p5"].to_dict()
    drawn = numbers(embedded(spec, "low"), "x", "y", "low", "high", k=0)
    curves = study.experiments["", 0.5].part((1, 2)).values("ucb_bqrl", "capped")
    assert curves.shape == (2, 60)
    assert drawn[:, 0].tolist() == list(range(1, 61))
    assert np.allclose(drawn[:, 1], curves.mean(axis=0), rtol=1e-5)
    assert np.allclose(drawn[:, 2:].T, mean_band(curves), rtol=1e-5, atol=1e-12)
    said = " ".join(spec["title"]["subtitle"])
    assert f"Band: {band_name(2)}." in said


def test_every_chart_with_a_band_says_that_it_is_a_confidence_band(view):
    banded = 0
    for name, chart in view.charts().items():
        spec = chart.to_dict()
        marks = [layer["mark"]["type"] for layer in spec.get("layer", [])]
        said = " ".join(spec["title"]["subtitle"])
        assert ("area" in marks) == ("95 % confidence band of the mean, t interval over 2 seeds" in said), name
        banded += "area" in marks
    assert banded == 3  # two figures and every measure


def test_long_curves_are_thinned_and_say_to_how_many_points(view, monkeypatch, embedded):
    monkeypatch.setattr(study_view, "POINTS", 10)
    spec = view.charts()["figure2_tau0p5"].to_dict()
    assert len(numbers(embedded(spec, "low"), "x", k=0)) == 10
    assert "The curves cover all 60 episodes with 10 points." in " ".join(spec["title"]["subtitle"])
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


def test_every_choice_of_the_selectors_has_its_own_finding(view):
    spec = view.every_measure().to_dict()
    assert spec["usermeta"]["selectors"] == ["level", "measure", "problem"]
    assert spec["title"]["text"] == ["Every measure over the episodes"]
    titles = spec["usermeta"]["findings"]
    assert titles[1][0][1] == view.order(0.5, "exact", "geometric", shown=True)
    ends = view.last_values().to_dict()
    assert ends["usermeta"]["selectors"] == ["level", "measure", "problem"]
    assert ends["usermeta"]["findings"][0][2][1] == view.order(0.2, "expected", "geometric")
    # Held-out and further seeds may rank the learners differently, so every finding says on which seeds.
    assert titles[0][0][0].startswith("τ = 0.2, 2 held-out seeds: ")
    assert ends["usermeta"]["findings"][0][0][0].startswith("τ = 0.2, 3 further seeds: ")
    figure = view.charts()["figure1_tau0p2"].to_dict()["title"]
    assert len(figure["text"]) == 1  # the title says what is shown, in one line
    assert " ".join(figure["subtitle"]).startswith("τ = 0.2, 2 held-out seeds: ")


def test_the_headline_is_one_sentence_and_the_rest_folds_away(view):
    result = view.result(images=False)
    shown = [line.text for line in result.lines if not line.aside]
    assert len(shown) == 1 + view.spec.quick
    assert shown[-1].startswith("Smallest mean cumulative ")
    assert {line.text for line in result.lines if line.aside} == set(view.sentences()) - set(shown)
    assert all(len(spec["title"]["text"]) == 1 for spec in result.charts.values())


def test_a_list_with_one_option_is_not_shown(study):
    changed = {"study": study.spec.study.model_copy(update={"levels": (0.2,), "plot": ("expected",)}), "variants": {}}
    spec = StudyView(replace(study, spec=study.spec.model_copy(update=changed))).every_measure().to_dict()
    lists = {one["name"]: "bind" in one for one in spec["params"]}
    assert lists == {"level": False, "measure": True, "problem": False}
    assert np.shape(spec["usermeta"]["findings"]) == (1, 2, 1)
    assert "Problem: AssetSelling. Level: τ = 0.2. Band: " in " ".join(spec["title"]["subtitle"])


def test_without_altair_the_study_has_no_charts_and_says_why(view, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    result = view.result()
    assert result.charts == {}
    (why,) = result.left_out
    assert 'pip install "bqrl[plots]"' in why
    assert "orderings" in result.tables


def test_a_final_policy_that_depends_on_more_than_the_state_is_left_out_and_said(study):
    chosen = study.spec.final_policy.model_copy(update={"learner": "target"})
    spec = study.spec.model_copy(update={"final_policy": chosen})
    result = StudyView(replace(study, spec=spec, picked={})).result(images=False)
    (why,) = result.left_out
    assert why.startswith("the final policy of target is not written")
    assert not any("final_policy" in name for name in result.files)


# -- sentences and tables ------------------------------------------------------------------------------------------------


def test_tables_of_last_values_hold_mean_and_standard_deviation_and_say_so(study, view):
    tables = view.tables()
    for name, seeds in (("held_out", (1, 2)), ("further_seeds", (3, 4, 5))):
        assert tables[name].caption.endswith("mean and sample standard deviation.")
        (row,) = [
            one
            for one in tables[name].rows
            if (one["measure"], one["learner"]) == ("gap to the exact optimum", "eps_q")
        ]
        ends = study.experiments["", 0.5].part(seeds).ends("exact")["eps_q"]
        assert row["tau0p5_mean"] == pytest.approx(ends.mean())
        assert row["tau0p5_std"] == pytest.approx(ends.std(ddof=1))
        assert len(tables[name].rows) == 3 * 3
    assert "at 95 % confidence" in tables["orderings"].caption


def test_the_order_of_shown_curves_is_that_of_the_held_out_seeds(study, view):
    ends = study.experiments["", 0.5].part((1, 2)).ends("exact")
    least = min(values.mean() for values in ends.values())
    text = view.order(0.5, "exact", shown=True)
    assert text.startswith("τ = 0.5, 2 held-out seeds: ")  # once the charts seemed to contradict each other
    assert view.order(0.5, "exact").startswith("τ = 0.5, 3 further seeds: ")
    assert view.order(0.5, "exact", "geometric").startswith("τ = 0.5, 2 seeds: ")
    first = text.removeprefix("τ = 0.5, 2 held-out seeds: ").split(" have " if " have " in text else " has ")[0]
    for key, label in view.labels.items():
        assert (label in first) == (format_number(ends[key].mean(), 4) == format_number(least, 4))
    assert f"{format_number(least, 4)} after 60 episodes" in text


def test_the_words_are_those_of_the_problem(view, tmp_path):
    assert (view.words.unit, view.words.stage) == ("share of the best offer", "stage")
    machine = problem_of({"name": "MachineReplacement"})
    words = words_of(machine)
    assert (words.unit, words.stage) == ("hundred dollars", "week")
    text = "# units: QALY\nstate,action,next_state,probability,reward\na,x,a,1,1\n"
    (tmp_path / "AssetSelling.csv").write_text(text)
    own = problem_of({"file": "AssetSelling.csv", "horizon": 2}, tmp_path)
    assert words_of(own).unit == "QALY"


def test_a_study_file_may_name_the_unit_and_the_stage(study):
    spec = study.spec
    named = spec.model_copy(update={"study": spec.study.model_copy(update={"unit": "EUR", "stage": "week"})})
    words = StudyView(replace(study, spec=named)).words
    assert (words.unit, words.stage) == ("EUR", "week")


def test_titles_and_sentences_of_a_study_have_units(study, monkeypatch):
    view = StudyView(study)
    view.words = replace(view.words, unit="EUR", stage="week")
    tables = view.tables()
    assert tables["held_out"].titles["tau0p5_mean"] == "τ = 0.5, mean (EUR)"
    assert tables["orderings"].titles["order"] == "smallest first (EUR)"
    assert tables["references"].titles["exact"] == "exact optimum (EUR)"
    assert " EUR after 60 episodes; then " in view.order(0.5, "exact")
    assert " EUR)" in view.reached()
    assert "in the first week" in view.policy_title(0.5)
    best = study.reference(0.5)
    monkeypatch.setattr(Study, "reference", lambda *_: replace(best, capped=0.25, optimum=0.5))
    assert "τ = 0.5: the capped reference is 0.25 EUR, the exact optimum 0.5 EUR." in view.sentences()


def test_orders_of_small_amounts_show_their_digits(tmp_path):
    # Gaps of a few millionths were all printed as 0.00.
    rewards = "[[1e-6, 0.0], [0.0, 3e-6]]"
    model = f"transitions = [[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.2, 0.8]]]\nrewards = {rewards}\nhorizon = 3\n"
    learners = '[learners.a]\nlearner = "q-learning"\n[learners.b]\nlearner = "sarsa"\n'
    head = '[study]\nname = "small"\nlevels = [0.5]\nepisodes = 20\nseeds = [1, 2]\n'
    (tmp_path / "tiny.toml").write_text(f"{head}[problem]\n{model}{learners}")
    small = make(tmp_path / "tiny.toml", tmp_path / "out")
    rows = StudyView(small).tables()["orderings"].rows
    for row, measure in zip(rows, small.spec.measures, strict=True):
        for place in small.ranked(0.5).order(measure):
            assert f"{place['learner']} {format_number(place['mean'])}" in row["order"]


def test_a_single_winner_lies_on_an_edge(study):
    first = dict([next(item for item in study.tunings.items() if item[1].edge is not None)])
    assert "1 of 1 winners of the tuning lies on an edge" in " ".join(
        StudyView(replace(study, tunings=first)).sentences()
    )


def test_one_further_seed_has_no_standard_deviation(study):
    one = study.spec.study.model_copy(update={"replication_seeds": study.spec.study.replication_seeds[:1]})
    view = StudyView(replace(study, spec=study.spec.model_copy(update={"study": one})))
    assert {row["tau0p5_std"] for row in view.tables()["further_seeds"].rows} == {None}


def test_the_optimum_is_reached_by_those_whose_final_policies_all_promise_it(study, view):
    best = study.reference(0.5).optimum
    for key, label in view.labels.items():
        promises = [record.quantile(0.5)[-1] for record in study.shown(0.5).records[key]]
        assert (label in view.reached().split("; ")[1]) == (min(promises) >= best - 1e-9)
    unreachable = replace(study.reference(0.5), optimum=2.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Study, "reference", lambda *_: unreachable)
        none = [f"no learner reaches it on every held-out seed at τ = {tau} (2)" for tau in (0.2, 0.5)]
        assert view.reached() == f"The exact optimum: {'; '.join(none)}"


def test_the_title_of_a_policy_lists_what_it_plays_first_in_the_states_that_are_shown(study):
    def title(first):
        picked = replace(study.picked[0.5], actions=np.array([first] * 4))
        return StudyView(replace(study, picked={0.5: picked})).policy_title(0.5)

    assert title([1] * 7) == "τ = 0.5: in the first stage the final policy plays Continue"
    assert title([1] * 6 + [0]).endswith("plays Continue")  # "sold" is not shown
    assert title([1] * 5 + [0, 0]).endswith("plays Continue and Stop")


def test_held_out_seeds_are_not_called_seeds_that_no_choice_was_made_on(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(
        SMALL.replace("replication_seeds = [3, 4, 5]\n", "").replace("variant_seeds = [1, 3]", "variant_seeds = [1, 2]")
    )
    tables = StudyView(make(path, tmp_path / "out", quick=True)).tables()
    assert "further_seeds" not in tables
    assert "on 2 held-out seeds" in tables["held_out"].caption
    for said in ("no choice", "further seeds"):
        assert not any(said in table.caption for table in tables.values())


def test_a_study_says_where_its_optimum_is_a_bracket(study):
    def widened(record):
        return replace(record, optimum=replace(record.optimum, error=0.25))

    experiments = {
        place: replace(one, records={key: tuple(map(widened, some)) for key, some in one.records.items()})
        for place, one in study.experiments.items()
    }
    view = StudyView(replace(study, experiments=experiments))
    said = "The proven lower value of the optimum is at most 0.25 below the optimum."
    assert said in view.sentences()
    assert view.tables()["references"].caption.endswith(said)
    assert view.tables()["references"].titles["exact"] == "proven lower value of the optimum"
    assert "exact optimum" not in str(view.tables()) + str(view.sentences()) + view.reached()


def test_the_settings_name_every_learner_and_what_is_tuned(study, view):
    settings = view.settings()
    own = settings["learners ucb_bqrl"]
    assert (own["learner"], own["params"], own["open"]) == (
        "ucb-bqrl", {"planner": "greedy"}, "how the candidates are drawn",
    )  # fmt: skip
    assert (settings["quick"], settings["study levels"], settings["study delta"]) == (False, (0.2, 0.5), 0.05)
    assert settings["problem"]["params"] == {"offers": 6, "horizon": 4, "start": 2}
    assert {f"learners {entry.key}" for entry in study.spec.learners.values()} <= set(settings)
