import json
from itertools import pairwise

import pytest
from helpers import colours_of
from small_theory import SMALL, datasets, small_theory, theory_of, with_second_level

from bqrl import theory
from bqrl.papers.ucb_bqrl.theory.bounds import BOUNDS
from bqrl.results.words import number


@pytest.fixture
def found():
    return small_theory("bounds")


def test_regret_stays_under_its_bounds(found):
    rows = found["tables"]["bounds"]
    assert len(rows) == 2 * 3  # numbers of episodes by statements
    for row in rows:
        assert 0.0 <= row["regret"] <= row["regret_most"]
        assert row["optimistic"] == 1.0
        assert row["regret"] <= row["buffering_of_the_optimum"] + row["model"] + 1e-9
        assert row["holds"]
        assert row["regret_most"] <= row["trivial"] <= row["bound"] or row["informative"]
        assert row["bound"] == pytest.approx(row["bound_buffering"] + row["bound_statistical"])
    total = {(row["episodes"], row["statement"]): row["bound"] for row in rows}
    assert all(total[T, "ours"] <= total[T, "theorem 1"] for T in (20, 60))


def test_lines_are_the_bounds_of_the_problem(found):
    proven = theory.RegretBounds(theory_of(SMALL).problems["hard"].model, 0.5, delta=0.05, support=2)
    lines = found["tables"]["bounds_lines"]
    assert lines[0]["episodes"] == 20
    assert all(one["episodes"] < two["episodes"] for one, two in pairwise(lines))
    for row in lines[::20]:
        assert row["theorem_1"] == pytest.approx(proven(row["episodes"], "theorem 1").total)
        assert row["ours"] == pytest.approx(proven(row["episodes"], "ours").total)
        assert row["trivial"] == row["episodes"] * 3.0


def test_bounds_become_informative_where_they_say(found):
    proven = theory.RegretBounds(theory_of(SMALL).problems["hard"].model, 0.5, delta=0.05, support=2)
    for row in found["tables"]["bounds"][:3]:
        T, statement = int(row["informative_from"]), row["statement"]
        assert proven(T, statement).informative
        assert not proven(T - 1, statement).informative
    assert found["cases"][0]["margin"] == pytest.approx(0.0625)


def test_the_headline_of_the_bounds_follows_the_numbers(found):
    assert BOUNDS.headline(found).startswith("Regret stays under every bound, ")
    assert "times below ours at T = 60; ours is informative from " in BOUNDS.headline(found)
    rows = found["tables"]["bounds"]
    assert f" {number(rows[-1]['ratio'], 2)} times below" in BOUNDS.headline(found)
    for row in rows:
        row["ratio"] = None  # no run has lost anything
    assert BOUNDS.headline(found).startswith("Regret stays under every bound; ")
    next(row for row in rows if row["statement"] == "ours")["holds"] = False
    assert BOUNDS.headline(found) == "Regret exceeds our bound on hard, τ = 0.5"


def test_bounds_are_drawn_with_the_trivial_one(found):
    chart = BOUNDS.charts(found, "title")["bounds"]
    lines, measured = found["tables"]["bounds_lines"], found["tables"]["bounds"][::3]
    names = ["Theorem 1", "Corollary 1", "our bound", "trivial: T H", "measured"]
    assert list(colours_of(chart.to_dict())) == names
    drawn = datasets(chart)[0]
    for k, name in enumerate(("theorem_1", "corollary_1", "ours", "trivial")):
        assert [float(row["y"]) for row in drawn if row["k"] == str(k)] == pytest.approx(
            [row[name] for row in lines], rel=1e-5
        )
    points = [row for row in drawn if row["k"] == "4"]
    assert [int(row["x"]) for row in points] == [20, 60]
    for column, name in (("y", "regret"), ("low", "regret"), ("high", "regret_most")):
        assert [float(row[column]) for row in points] == pytest.approx([row[name] for row in measured], rel=1e-5)


def test_regret_that_is_zero_has_no_place_on_a_logarithmic_axis(found):
    for row in found["tables"]["bounds"][:3]:
        row["regret"] = 0.0
    drawn = datasets(BOUNDS.charts(found, "title")["bounds"])[0]
    assert [int(row["x"]) for row in drawn if row["k"] == "4"] == [60]


def test_one_problem_at_two_levels_is_two_cases(found):
    chart = BOUNDS.charts(with_second_level(found), "title")["bounds"]
    assert {row["which"] for row in datasets(chart)[0]} == {"0", "1"}
    assert "hard, τ = 0.25" in json.dumps(chart.to_dict(), ensure_ascii=False)


def test_bounds_that_are_never_informative_can_be_said(found):
    for row in found["tables"]["bounds"]:
        row["informative_from"] = None
    assert "1e90" in BOUNDS.headline(found)
