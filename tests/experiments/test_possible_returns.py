import pytest
from small_theory import datasets, small_theory

from bqrl.experiments.possible_returns import KNAPSACK


@pytest.fixture
def found():
    return small_theory("knapsack")


def test_supports_fit_histories_and_lattice_and_decisions_count(found):
    for one in found["families"]:
        assert one["counted"] == one["subsets"]
        assert one["decisions"] <= 9
    for row in found["tables"]["knapsack"]:
        assert row["support"] <= min(row["histories"], row["lattice"])
    equal = [row["support"] for row in found["tables"]["knapsack"] if row["weights"] == "all equal"]
    assert equal == list(range(2, 10))


def test_histories_are_drawn_once_and_open_supports_left_out(found):
    for row in found["tables"]["knapsack"]:
        row["support"] = None if row["weights"] == "of 8 bits" else row["support"]
    (rows,) = datasets(KNAPSACK.charts(found, "title")["knapsack"])
    assert [int(row["points"]) for row in rows if row["kind"] == "histories"] == [2**n for n in range(1, 9)]
    assert {row["kind"] for row in rows if row["weights"] == "of 8 bits"} == {"lattice"}


def test_possible_returns_are_put_in_words(found):
    headline, counts, _ = KNAPSACK.sentences(found)
    assert headline.startswith("Weights of 8 bits give ")
    assert counts.endswith(": all counts are right.")
    found["families"][0]["counted"] += 1
    for row in found["tables"]["knapsack"]:
        row["support"] = None if row["weights"] == "of 8 bits" else row["support"]
    headline, counts, _ = KNAPSACK.sentences(found)
    assert counts.endswith(": NOT all counts are right.")
    assert "too many returns to list from 256 histories" in headline
