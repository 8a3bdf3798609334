"""The objects of the library show themselves: charts, small HTML, rows and frames."""

import sys
import types

import pytest

import bqrl

MODEL = bqrl.envs.make("AssetSelling")


@pytest.fixture(scope="module")
def objects():
    curve = bqrl.guarantee_curve(MODEL)
    plan = bqrl.solve(MODEL, 0.1)
    record = bqrl.learn(MODEL, "ucbvi", 0.1, 20, 0)
    return {"model": MODEL, "curve": curve, "plan": plan, "law": plan.law, "record": record, "policy": plan.policy,
            "comparison": plan.compare(bqrl.solve(MODEL, 0.5))}  # fmt: skip


@pytest.mark.parametrize("name", ["model", "curve", "plan", "law", "record", "policy", "comparison"])
def test_a_notebook_shows_a_small_table(objects, name):
    html = objects[name]._repr_html_()
    assert html.startswith("<table>")
    assert len(html) < 5_000
    assert "<script" not in html


def test_names_in_a_notebook_are_text():
    plan = bqrl.solve(MODEL, 0.1)
    assert "&lt;b&gt;" in bqrl.results.views.facts_html("<b>", {"<i>": "<u>"})
    assert "In 9" not in plan._repr_html_()
    assert "in 9 of 10 runs at least 0.7917" in plan._repr_html_()


@pytest.mark.parametrize("name", ["curve", "plan", "law", "record"])
def test_each_has_a_chart(objects, name):
    spec = objects[name].chart().to_dict()
    assert spec["$schema"].endswith(".json")
    assert len(str(spec)) < 200_000


def test_charts_of_other_plans():
    for options in ({"beta": 0.1}, {"planner": "greedy"}, {"points": 100}, {"radius": 0.1, "attitude": "robust"}):
        bqrl.solve(MODEL, 0.1, **options).chart().to_dict()


def test_rows_hold_the_numbers(objects):
    law, record = objects["law"], objects["record"]
    assert sum(row["probability"] for row in law.rows()) == pytest.approx(1.0)
    assert objects["curve"].rows()[-1]["value"] == 1.0
    assert [row["gap"] for row in record.rows()] == record.gap().tolist()
    assert record.rows()[0]["episode"] == 1
    assert objects["plan"].rows()[0]["value"] == objects["plan"].value
    outcomes = objects["model"].rows()
    rows = {(row["state"], row["action"]) for row in outcomes}
    assert sum(row["probability"] for row in outcomes) == pytest.approx(len(rows))


def test_frames_where_pandas_is_installed(objects, monkeypatch):
    made = []
    pandas = types.ModuleType("pandas")
    pandas.DataFrame = lambda rows: made.append(rows) or "frame"
    monkeypatch.setitem(sys.modules, "pandas", pandas)
    for name in ("model", "curve", "plan", "law", "record"):
        assert objects[name].to_frame() == "frame"
        assert made[-1] == objects[name].rows()
    assert objects["policy"].to_frame(MODEL, min_probability=0.1) == "frame"
    assert made[-1] == objects["policy"].table(MODEL, min_probability=0.1)
    assert objects["comparison"].to_frame() == "frame"
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="to_frame needs pandas; install it with: pip install pandas"):
        objects["law"].to_frame()
