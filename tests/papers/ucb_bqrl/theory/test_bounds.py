import json
import math
from itertools import pairwise

import pytest
from helpers import colours_of
from small_theory import SMALL, datasets, small_theory, theory_of, with_second_level

from bqrl import theory
from bqrl.display import format_number
from bqrl.papers.ucb_bqrl.theory.bounds import BOUNDS, informative_from
from bqrl.planners.confidence import power_buffer
from bqrl.theory import RegretBounds, hard_instance

HARD = hard_instance(0.5, 0.05, 2, 3)


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
    assert f" {format_number(rows[-1]['ratio'], 2)} times below" in BOUNDS.headline(found)
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


@pytest.mark.parametrize("statement", ["theorem 1", "corollary 1", "ours"])
def test_informative_from_is_where_the_bound_crosses_the_trivial_one(statement):
    bounds = RegretBounds(HARD, 0.5)
    T = informative_from(bounds, statement)
    assert not bounds(T - 1, statement).informative
    for later in (T, T + 1, 3 * T, 10**3 * T, 10**9 * T):
        assert bounds(later, statement).informative


def test_fast_buffers_never_become_informative():
    # T^a in the statistical term: a power of one half makes the bound linear, a smaller one does not.
    half, tenth, log = (
        RegretBounds(HARD, 0.5, schedule=beta) for beta in (power_buffer(0.5, 0.5), power_buffer(0.5, 0.1), None)
    )
    assert informative_from(half, "ours") == math.inf
    assert informative_from(log, "ours") < math.inf > informative_from(tenth, "ours")
