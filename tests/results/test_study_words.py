"""The words and tables of a study are those of its numbers."""

import pytest

from bqrl.results.study_words import StudyWords


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
    assert text.startswith("τ = 0.5: ")
    first = text.split(" have " if " have " in text else " has ")[0]
    assert all((label in first) == (ends[key].mean() - least < 0.005) for key, label in view.labels.items())
    assert f"after 60 episodes, {least:.2f} on average over 2 seeds" in text
    assert "on average over 3 seeds" in view.order(0.5, "exact")
    assert "on average over 2 seeds" in view.order(0.5, "exact", "geometric")


def test_the_settings_name_every_learner_and_what_is_tuned(study, view):
    settings = view.settings()
    assert settings["UCB-BQRL"] == (
        "ucb-bqrl (planner = greedy); tunes c_conf; trained for each level; left open in print: how the candidates are drawn"
    )
    assert settings["levels"] == [0.2, 0.5]
    assert {entry.label for entry in study.spec.entries} <= set(settings)
