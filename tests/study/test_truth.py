"""Published numbers beside certified optima: what a row says, and when their ratio is meaningful."""

import pytest

import bqrl
from bqrl.envs.published import Published
from bqrl.study.truth import TITLES, compare_published, spell_out


def entry(**facts):
    return Published(**{"problem": "Gambler", "objective": bqrl.Quantile(0.5)} | facts)


def test_a_row_has_the_optimum_of_the_planner_and_the_ratio_of_the_two():
    row = compare_published(entry(value=1.5, error=0.25, source="Someone 2020", seen="read"))
    plan = bqrl.solve("Gambler", 0.5)
    assert (row["value"], row["upper"], row["proven"]) == (plan.value, plan.upper, plan.certain)
    assert row["ratio"] == (1.5 / plan.value, 1.5 / plan.value)
    text = spell_out(row)
    assert list(text) == list(TITLES)
    assert (text["published"], text["optimum"], text["ratio"]) == ("1.5 \N{PLUS-MINUS SIGN} 0.25", "3", "50 %")


def test_a_bracket_shows_both_ends_of_optimum_and_ratio():
    row = compare_published(
        entry(problem="QuantileDomain", params={"domain": "machine"}, objective=bqrl.Quantile(0.25))
    )
    assert row["value"] < row["upper"]
    assert " to " in spell_out(row)["optimum"]
    shown = spell_out(row | {"value": 2.0, "upper": 4.0, "published": 1.0, "ratio": (0.25, 0.5)})
    assert (shown["optimum"], shown["ratio"]) == ("2 to 4", "25 to 50 %")


def test_the_mean_needs_no_law():
    row = compare_published(entry(objective=bqrl.Mean()))
    assert row["value"] == pytest.approx(bqrl.solve("Gambler", bqrl.Mean()).value, abs=1e-12)


@pytest.mark.parametrize("facts", [{}, {"value": -1.0}, {"value": 1.0, "objective": bqrl.Quantile(0.05)}])
def test_there_is_no_ratio_without_a_number_or_of_an_optimum_that_is_not_positive(facts):
    row = compare_published(entry(**facts))
    assert row["ratio"] is None
    assert spell_out(row)["ratio"] == "\N{EN DASH}"
