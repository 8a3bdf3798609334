import numpy as np
import pytest

from bqrl.experiments.experiment import Context, between, by_case, column, rough, rows_of
from bqrl.study.watch import Watch


def test_seeds_of_all_places_differ():
    places = [(1, i, j) for i in range(20) for j in range(20)] + [
        (2, i, j, k) for i in range(5) for j in range(5) for k in (0, 1)
    ]
    context = Context({}, 3, Watch())
    assert len({context.run_seed(*place) for place in places}) == len(places)
    assert context.run_seed(1, 2) == Context({}, 3, Watch()).run_seed(1, 2) != Context({}, 4, Watch()).run_seed(1, 2)


def test_rows_have_the_head_in_front():
    rows = rows_of({"problem": "a"}, x=[1, 2], y=[3, 4])
    assert rows == [{"problem": "a", "x": 1, "y": 3}, {"problem": "a", "x": 2, "y": 4}]
    assert list(rows[0]) == ["problem", "x", "y"]
    assert column(rows, "y").tolist() == [3.0, 4.0]
    with pytest.raises(ValueError, match="shorter"):
        rows_of({}, x=[1, 2], y=np.zeros(1))


def test_cases_with_one_label_stay_apart():
    cases = [{"problem": key, "label": "same", "tau": 0.5} for key in "ab"]
    rows = [{"problem": "b", "tau": 0.5}, {"problem": "a", "tau": 0.25}]
    assert by_case(cases, rows) == [("same, τ = 0.5", []), ("same, τ = 0.5", rows[:1])]


def test_counts_are_rounded_for_people():
    assert [rough(x) for x in (9999, 10_000, 999_999, 1e6, 1e9)] == [
        "9999",
        "10,000",
        "1,000,000",
        "1 million",
        "1e+09",
    ]
    assert (rough(54, least=True), rough(1e91, least=True)) == ("at least 54", "more than 1e90")
    assert between([0.0123, 123.0]) == "0.012 to 120"
