import numpy as np
import pytest

from bqrl.display import Watch
from bqrl.papers.ucb_bqrl.theory.experiment import Context, between, by_case, curve, rough, rows_of


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
    with pytest.raises(ValueError, match="shorter"):
        rows_of({}, x=[1, 2], y=np.zeros(1))


def test_cases_with_one_label_stay_apart():
    cases = [{"problem": key, "label": "same", "tau": 0.5} for key in "ab"]
    rows = [{"problem": "b", "tau": 0.5}, {"problem": "a", "tau": 0.25}]
    assert by_case(cases, rows) == [("same, τ = 0.5", []), ("same, τ = 0.5", rows[:1])]


def test_a_curve_takes_its_columns_from_rows():
    line = curve("a", [{"n": 1, "mean": 2.0, "most": 3.0}, {"n": 2, "mean": 4.0, "most": 5.0}], "n", "mean", view=(1,))
    assert (line.label, line.x.tolist(), line.y.tolist(), line.low, line.view) == (
        "a",
        [1.0, 2.0],
        [2.0, 4.0],
        None,
        (1,),
    )
    band = curve("a", [{"n": 1, "mean": 2.0, "most": 3.0}], "n", "mean", "mean", "most")
    assert (band.low.tolist(), band.high.tolist()) == ([2.0], [3.0])


def test_counts_are_rounded_for_people():
    assert [rough(x) for x in (54, 9999.0, 999_999, 1e6, 3.2e12)] == ["54", "9,999", "999,999", "1.0e+06", "3.2e+12"]
    assert rough(None) == "more than 1e90"
    assert between([0.0123, 123.4]) == "0.012 to 123"
    assert between([3.0, 3.0]) == "3"
