import csv
import io
import json

import pytest
from small_theory import small_theory

from bqrl.results.theory import VIEWS, drawings
from bqrl.results.theory_charts import (
    RHO,
    bounds_chart,
    buffer_chart,
    coverage_chart,
    growth_chart,
    hard_chart,
    knapsack_chart,
)


@pytest.fixture
def found():
    return small_theory()


def datasets(chart):
    """The embedded tables of a chart, as lists of rows of texts."""
    spec = chart.to_dict()
    sources = [layer.get("data") or spec["data"] for layer in spec.get("layer", [spec])]
    texts = [source["values"] if "values" in source else spec["datasets"][source["name"]] for source in sources]
    return [list(csv.DictReader(io.StringIO(text))) for text in texts]


def test_charts_carry_their_title_and_name_their_axes(found):
    drawn = drawings(found)
    assert list(drawn) == [stem for view in VIEWS.values() for stem in view.charts]
    for name, view in VIEWS.items():
        for stem, draw in view.charts.items():
            text = json.dumps(draw(found[name], f"title of {stem}").to_dict())
            assert f"title of {stem}" in text
            assert '"x": {' in text
            assert '"y": {' in text


def test_coverage_is_drawn_as_the_distribution_of_the_ratios(found):
    steps, marks, _, promise = datasets(coverage_chart(found["coverage"], "title"))
    selling = [(float(row["x"]), float(row["y"])) for row in steps if row["k"] == "1"]
    runs = [row for row in found["coverage"]["tables"]["coverage_runs"] if row["problem"] == "selling"]
    ratios = sorted(row["largest_ratio"] for row in runs)
    assert [x for x, _ in selling[1:-1]] == pytest.approx(ratios, rel=1e-5)
    assert [y for _, y in selling[1:-1]] == pytest.approx([k / 12 for k in range(1, 13)], rel=1e-5)
    assert (selling[0], selling[-1][1]) == ((0.0, 0.0), 1.0)
    shares = [case["share"] for case in found["coverage"]["tables"]["coverage"]]
    assert [float(row["y"]) for row in marks] == pytest.approx(shares, rel=1e-5)
    assert [float(row["y"]) for row in promise] == [0.95]


def test_bounds_are_drawn_with_the_trivial_one(found):
    chart = bounds_chart(found["bounds"], "title")
    drawn, points, _ = datasets(chart)
    assert all(
        name in json.dumps(chart.to_dict()) for name in ("Theorem 1", "Corollary 1", "our bound", "trivial: T H")
    )
    assert len(drawn) == 4 * len(found["bounds"]["tables"]["bounds_lines"])
    assert [int(row["x"]) for row in points] == [20, 60]


@pytest.mark.parametrize("draw", [bounds_chart, buffer_chart])
def test_one_problem_at_two_levels_is_two_cases(found, draw):
    one = found["bounds" if draw is bounds_chart else "buffer"]
    before = len(one["cases"])
    one["cases"].append({**one["cases"][0], "tau": 0.25})
    for rows in one["tables"].values():
        rows += [{**row, "tau": 0.25} for row in rows if row["problem"] == "hard"]
    chart = draw(one, "title")
    assert {row["which"] for row in datasets(chart)[0]} == {str(i) for i in range(before + 1)}
    assert "hard, τ = 0.25" in json.dumps(chart.to_dict(), ensure_ascii=False)


def test_regret_that_is_zero_has_no_place_on_a_logarithmic_axis(found):
    hard = found["hard"]
    hard["tables"]["hard"][0]["regret"] = 0.0
    hard["tables"]["hard_growth"][0]["regret"] = 0.0
    band, points, edges = datasets(hard_chart(hard, "title"))
    assert band == points
    assert len(points) == len(hard["tables"]["hard"]) - 1
    assert [float(row["x"]) for row in edges] == [16.0, 20.0] * 2
    _, points, edges, scale = datasets(growth_chart(hard, "title"))
    assert len(points) == len(hard["tables"]["hard_growth"]) - 1
    assert all(0.0 < float(row["low"]) <= float(row["y"]) <= float(row["high"]) for row in points)
    assert {row["bound"] for row in edges} == {"lower bound", "proven for UCB1", "always wrong"}
    assert float(scale[0]["x"]) == 512.0


def test_buffers_without_the_two_sided_gap_are_drawn(found):
    both = datasets(buffer_chart(found["buffer"], "title"))[0]
    assert {row["k"] for row in both} == {"0", "1"}
    for row in found["buffer"]["tables"]["buffer"]:
        row["two_sided"] = None
    gaps, _, rules, _ = datasets(buffer_chart(found["buffer"], "title"))
    assert {row["k"] for row in gaps} == {"0"}
    assert {row["edge"] for row in rules} == {f"margin {RHO}*", f"plateau {RHO}τ"}


def test_histories_are_drawn_once_and_open_supports_left_out(found):
    for row in found["knapsack"]["tables"]["knapsack"]:
        row["support"] = None if row["weights"] == "of 8 bits" else row["support"]
    (rows,) = datasets(knapsack_chart(found["knapsack"], "title"))
    assert [int(row["points"]) for row in rows if row["kind"] == "histories"] == [2**n for n in range(1, 9)]
    assert {row["kind"] for row in rows if row["weights"] == "of 8 bits"} == {"lattice"}
