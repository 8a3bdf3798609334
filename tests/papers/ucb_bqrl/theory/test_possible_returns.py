import pytest
from small_theory import datasets, small_theory

from bqrl.papers.ucb_bqrl.theory.possible_returns import KNAPSACK, knapsack_families
from bqrl.theory import support_growth


@pytest.fixture
def found():
    return small_theory("knapsack")


def test_supports_fit_histories_and_lattice_and_decisions_count(found):
    for one in found["families"]:
        assert one["counted"] == one["subsets"]
        assert one["decisions"] == len(one["weights"]) == 8
    for row in found["tables"]["knapsack"]:
        assert row["support"] <= min(row["histories"], row["lattice"])
    equal = [row["support"] for row in found["tables"]["knapsack"] if row["weights"] == "all equal"]
    assert equal == list(range(2, 10))


def test_lattice_stays_small_exactly_where_weights_do():
    data = {name: support_growth(w) for name, w in knapsack_families(14, 0).items()}
    assert data["all equal"].lattice[-1] == data["all equal"].support[-1] == 15
    assert data["up to 10"].lattice[-1] < 150 < data["up to 10"].histories[-1] == 2**14
    long = data["of 14 bits"]
    assert long.support[-1] > 0.5 * 2**14  # nearly every history ends at a sum of its own
    assert long.lattice[-1] > long.support[-1]


def test_histories_are_drawn_once_and_open_supports_left_out(found):
    table = found["tables"]["knapsack"]
    drawn = datasets(KNAPSACK.charts(found, "title")["knapsack"])[0]
    assert [int(row["y"]) for row in drawn if row["k"] == "0"] == [2**n for n in range(1, 9)]
    long = [row for row in table if row["weights"] == "of 8 bits"]
    for axis, name in (("y", "support"), ("low", "support"), ("high", "lattice")):
        assert [int(row[axis]) for row in drawn if row["k"] == "4"] == [row[name] for row in long]
    for row in long[5:]:
        row["support"] = None
    drawn = datasets(KNAPSACK.charts(found, "title")["knapsack"])[0]
    assert [int(row["x"]) for row in drawn if row["k"] == "4"] == [2, 3, 4, 5, 6]


def test_possible_returns_are_put_in_words(found):
    headline = KNAPSACK.headline(found)
    assert headline.startswith("Weights of 8 bits give ")
    assert "; weights up to 100 lie on a lattice of " in headline
    assert headline.endswith(" and all counts are right")
    found["families"][0]["counted"] += 1
    for row in found["tables"]["knapsack"]:
        row["support"] = None if row["weights"] == "of 8 bits" else row["support"]
    headline = KNAPSACK.headline(found)
    assert headline.endswith(" and NOT all counts are right")
    assert "too many returns to list from 256 histories" in headline
