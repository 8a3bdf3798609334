"""The words and tables of a study are those of its numbers."""

from dataclasses import replace

import numpy as np
import pytest
from small_study import SMALL, make

from bqrl.results.study_words import StudyWords, words_of
from bqrl.results.words import number
from bqrl.study.problems import problem_of
from bqrl.study.study import Study


@pytest.fixture(scope="module")
def view(study):
    return StudyWords(study)


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
    assert "two standard errors" in tables["orderings"].caption


def test_the_order_of_shown_curves_is_that_of_the_held_out_seeds(study, view):
    ends = study.experiments["", 0.5].part((1, 2)).ends("exact")
    least = min(values.mean() for values in ends.values())
    text = view.order(0.5, "exact", shown=True)
    assert text.startswith("τ = 0.5, 2 held-out seeds: ")  # once the charts seemed to contradict each other
    assert view.order(0.5, "exact").startswith("τ = 0.5, 3 further seeds: ")
    assert view.order(0.5, "exact", "geometric").startswith("τ = 0.5, 2 seeds: ")
    first = text.removeprefix("τ = 0.5, 2 held-out seeds: ").split(" have " if " have " in text else " has ")[0]
    for key, label in view.labels.items():
        assert (label in first) == (number(ends[key].mean(), 4) == number(least, 4))
    assert f"{number(least, 4)} after 60 episodes" in text


def test_the_words_are_those_of_the_problem(view, tmp_path):
    assert (view.words.unit, view.words.stage) == ("share of the best offer", "stage")
    machine = problem_of({"name": "MachineReplacement"})
    words = words_of(machine, machine.model)
    assert (words.unit, words.stage) == ("hundred dollars", "week")
    text = "# units: QALY\nstate,action,next_state,probability,reward\na,x,a,1,1\n"
    (tmp_path / "AssetSelling.csv").write_text(text)
    own = problem_of({"file": "AssetSelling.csv", "horizon": 2}, tmp_path)
    assert words_of(own, own.model).unit == "QALY"


def test_a_study_file_may_name_the_unit_and_the_stage(study):
    spec = study.spec
    named = spec.model_copy(update={"study": spec.study.model_copy(update={"unit": "EUR", "stage": "week"})})
    words = StudyWords(replace(study, spec=named)).words
    assert (words.unit, words.stage) == ("EUR", "week")


def test_titles_and_sentences_of_a_study_have_units(study, monkeypatch):
    view = StudyWords(study)
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
    rows = StudyWords(small).tables()["orderings"].rows
    for row, measure in zip(rows, small.spec.measures, strict=True):
        for place in small.ranked(0.5).order(measure):
            assert f"{place['learner']} {number(place['mean'])}" in row["order"]


def test_a_single_winner_lies_on_an_edge(study):
    first = dict([next(item for item in study.tunings.items() if item[1].edge is not None)])
    assert "1 of 1 winners of the tuning lies on an edge" in " ".join(
        StudyWords(replace(study, tunings=first)).sentences()
    )


def test_one_further_seed_has_no_standard_deviation(study):
    one = study.spec.study.model_copy(update={"replication_seeds": study.spec.study.replication_seeds[:1]})
    view = StudyWords(replace(study, spec=study.spec.model_copy(update={"study": one})))
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
        return StudyWords(replace(study, picked={0.5: picked})).policy_title(0.5)

    assert title([1] * 7) == "τ = 0.5: in the first stage the final policy plays Continue"
    assert title([1] * 6 + [0]).endswith("plays Continue")  # "sold" is not shown
    assert title([1] * 5 + [0, 0]).endswith("plays Continue and Stop")


def test_held_out_seeds_are_not_called_seeds_that_no_choice_was_made_on(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(
        SMALL.replace("replication_seeds = [3, 4, 5]\n", "").replace("variant_seeds = [1, 3]", "variant_seeds = [1, 2]")
    )
    tables = StudyWords(make(path, tmp_path / "out", quick=True)).tables()
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
    view = StudyWords(replace(study, experiments=experiments))
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
