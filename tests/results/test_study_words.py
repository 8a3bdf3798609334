"""The words and tables of a study are those of its numbers."""

import numpy as np
import pytest

from bqrl.results.study_words import StudyWords
from bqrl.study.scores import MEASURES


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
        ends = np.array([study.scores.ends["", "eps_q", 0.5]["exact"][seed] for seed in seeds])
        assert row["tau0p5_mean"] == pytest.approx(ends.mean())
        assert row["tau0p5_std"] == pytest.approx(ends.std(ddof=1))
        assert len(tables[name].rows) == len(MEASURES) * 3
    assert "two standard errors" in tables["orderings"].caption


def test_the_title_of_a_curve_names_the_learner_that_ends_lowest(study, view):
    ends = {entry.label: study.scores.mean_curve("", entry.key, 0.5, "exact")[0][-1] for entry in study.spec.entries}
    least = min(ends.values())
    title = view.curve_title(0.5, "exact")
    assert title.startswith("τ = 0.5: ")
    first = title.split(" have " if " have " in title else " has ")[0]
    assert all((label in first) == (end - least < 0.005) for label, end in ends.items() if label != "UCB-BQRL")
    assert f"after 60 episodes, {least:.2f}" in title


def test_an_order_is_clear_only_if_the_seeds_say_so(view, monkeypatch):
    rows = [{"learner": "eps_q", "mean": 1.0, "clear": True}, {"learner": "ucb_bqrl", "mean": 2.0, "clear": None}]
    monkeypatch.setattr(type(view.scores), "ordering", lambda *_: rows)
    text = "τ = 0.5: eps_q has the smallest mean, 1.00; UCB-BQRL follows with 2.00, {} two standard errors away"
    assert view.order(0.5, "exact") == text.format("more than")
    rows[0]["clear"] = False
    assert view.order(0.5, "exact") == text.format("within")
    rows[1]["mean"] = 1.001
    assert view.order(0.5, "exact") == "τ = 0.5: eps_q and UCB-BQRL have the smallest mean, 1.00"


def test_the_settings_name_every_learner_and_what_is_tuned(study, view):
    settings = view.settings()
    assert settings["UCB-BQRL"] == (
        "ucb-bqrl (planner = greedy); tunes c_conf; trained for each level; left open in print: how the candidates are drawn"
    )
    assert settings["levels"] == [0.2, 0.5]
    assert {entry.label for entry in study.spec.entries} <= set(settings)
