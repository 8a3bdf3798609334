"""Charts hold the numbers they are given, say what to see, and become images without a browser."""

import json
import re
import struct
import sys
import zlib
from xml.etree import ElementTree

import numpy as np
import pytest
from helpers import chart_values, colours_of

import bqrl
from bqrl.results.charts import (
    MAX_POINTS,
    STYLE,
    Curve,
    altair,
    curves_chart,
    fold_text,
    image,
    lines,
    styled,
    thin_line,
    tooltips,
)
from bqrl.results.plan_charts import law_chart
from bqrl.results.views import experiment_view
from bqrl.study.suite import Suite


def test_thinning_keeps_the_ends_and_the_shape():
    x = np.linspace(0.0, 1.0, 50_000)
    y = np.where(x > 0.37, 1.0, 0.0)
    kept = thin_line(x, y)
    assert kept.size <= MAX_POINTS
    assert (kept[0], kept[-1]) == (0, x.size - 1)
    assert np.abs(np.interp(x, x[kept], y[kept]) - y).max() == 0.0  # a jump stays a jump
    assert thin_line(x[:10], y[:10]).tolist() == list(range(10))


def test_curves_say_what_their_band_is():
    x = np.arange(1.0, 4.0)
    curves = [Curve("UCBVI", x, x, x - 1, x + 1), Curve("mine", x, x, x, x)]
    look = {"references": [("best", 2.0)], "colours": {"mine": "#111111", "other": "#222222", "UCBVI": "#333333"}}
    spec = curves_chart(curves, title="t", y_title="y", band="range of 3 seeds", **look).to_dict()
    assert spec["title"]["subtitle"] == ["Band: range of 3 seeds."]
    assert colours_of(spec) == {"UCBVI": "#333333", "mine": "#111111"}


def test_references_of_equal_value_share_a_label():
    references = [("best", 2.0), ("random", 2.0), ("worst", 1.0)]
    spec = curves_chart([Curve("x", *np.ones((2, 1)))], title="t", y_title="y", references=references).to_dict()
    assert [row["name"] for row in chart_values(spec, -1)] == ["best, random: 2", "worst: 1"]


def test_a_thinned_curve_says_how_many_points_are_drawn():
    x = np.arange(1.0, 2001.0)
    for y in (x, np.where(x > 700.0, 1.0, 0.0)):
        spec = curves_chart([Curve("UCBVI", x, y)], title="t", y_title="y").to_dict()
        count = len(chart_values(spec, 0))
        assert count <= MAX_POINTS
        assert spec["title"]["subtitle"] == [f"Shown in full, at {count:,} of 2,000 points."]


def test_a_line_of_steps_is_exact_as_long_as_its_steps_are_few():
    """Once, straight lines between thinned points drew ramps that no policy had."""
    x, rng = np.arange(1.0, 3001.0), np.random.default_rng(0)
    y = rng.random(380)[np.sort(rng.integers(380, size=3000))]
    spec = curves_chart([Curve("psrl", x, y)], title="t", y_title="y", step=True).to_dict()
    at, values = np.array([(row["x"], row["y"]) for row in chart_values(spec, 0)]).T
    assert spec["title"]["subtitle"] == [""]
    assert spec["layer"][0]["mark"]["interpolate"] == "step-after"
    assert np.allclose(values[np.searchsorted(at, x, side="right") - 1], y, rtol=1e-5)
    restless = curves_chart([Curve("psrl", x, rng.random(3000))], title="t", y_title="y", step=True).to_dict()
    assert restless["title"]["subtitle"] == [f"Shown in full, at {len(chart_values(restless, 0)):,} of 3,000 points."]


def test_charts_can_be_combined_and_lose_their_titles():
    """Once, every chart had a configuration, which only a whole figure may have."""
    alt = pytest.importorskip("altair")
    experiment = bqrl.compare("SafeOrRisky", ["ucbvi", "q-learning"], tau=0.5, episodes=10, seeds=2, workers=1)
    plan = bqrl.solve("SafeOrRisky", tau=0.1)
    charts = [
        experiment.chart(),
        experiment.chart("mean_regret", title=False),
        plan.law.chart(title="A law"),
        plan.chart(),
    ]
    for chart in charts:
        assert chart.config is alt.Undefined
        assert chart.usermeta is alt.Undefined
    spec = alt.vconcat(alt.hconcat(*charts[:3]), charts[3]).to_dict()
    assert image(spec, "svg").startswith(b"<svg")
    assert "title" in charts[0].to_dict()
    assert "title" not in charts[1].to_dict()
    assert charts[2].to_dict()["title"] == "A law"
    assert "title" not in str([part.to_dict().get("title") for part in plan.chart(title=False).hconcat])
    assert styled(charts[0])["config"] == STYLE
    own = charts[0].configure_axis(labelFontSize=20)
    assert styled(own)["config"]["axis"]["labelFontSize"] == 20
    assert styled(own)["config"]["legend"] == STYLE["legend"]


def test_axes_may_be_logarithmic():
    experiment = bqrl.compare("SafeOrRisky", ["ucbvi", "q-learning"], tau=0.1, episodes=2000, seeds=2, workers=1)
    chart = experiment.chart(log="xy").to_dict()
    rows = chart_values(chart, 0)
    assert min(row["y"] for row in rows) > 0.0
    assert all(row["low"] > 0.0 for row in rows)
    assert sum(row["x"] <= 10.0 for row in rows) >= 10  # evenly spread on the axis
    assert chart["layer"][0]["encoding"]["x"]["scale"]["type"] == "log"
    assert chart["layer"][0]["encoding"]["x"]["axis"] == {"labelSeparation": 6}  # once 30 and 40 touched
    with pytest.raises(ValueError, match="log must be one of '', 'x', 'y', 'xy', got 'z'"):
        experiment.chart(log="z")


def test_a_figure_has_a_panel_per_problem_and_one_legend():
    names = ["SafeOrRisky", "AssetSelling"]
    suite = bqrl.compare(names, ["sarsa", "q-learning"], tau=0.5, episodes=10, seeds=2, workers=1)
    spec = suite.figure(names[::-1], columns=1, width=100, height=80).to_dict()
    assert [panel["title"] for panel in spec["concat"]] == names[::-1]
    assert (spec["columns"], spec["resolve"]["scale"]["color"]) == (1, "shared")
    assert {(panel["width"], panel["height"]) for panel in spec["concat"]} == {(100, 80)}
    assert "title" not in suite.figure(title=False).to_dict()["concat"][0]
    assert suite.figure(title="All").to_dict()["title"] == "All"
    svg = image(suite.figure(), "svg").decode()
    assert svg.count(">q-learning</text>") == 1
    assert len(suite["AssetSelling"].figure().to_dict()["concat"]) == 2
    with pytest.raises(ValueError, match="problems must be one of 'SafeOrRisky', 'AssetSelling', got 'none'"):
        suite.figure(["none"])


def test_a_logarithmic_axis_is_not_asked_for_zero():
    curve = Curve("a", np.arange(1.0, 4.0), np.arange(1.0, 4.0))
    for kind, expected in (("log", {"type": "log"}), ("symlog", {"type": "symlog", "zero": False})):
        spec = lines([curve], "x", "y", scales={"y": {"type": kind}}).chart("t", "").to_dict()
        assert spec["layer"][0]["encoding"]["y"]["scale"] == expected


def test_an_experiment_is_drawn_with_its_bands():
    experiment = bqrl.compare("AssetSelling", ["ucbvi", "q-learning"], tau=0.5, episodes=10, seeds=2, workers=1)
    spec = experiment.chart().to_dict()
    rows = chart_values(spec, 0)
    assert {row["k"] for row in rows} == {0, 1}
    assert spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["ucbvi", "q-learning"]
    last = [row["y"] for row in rows if row["x"] == 10.0]
    assert last == pytest.approx(
        [float(experiment.values(one.label)[:, -1].mean()) for one in experiment.learners], rel=1e-5
    )
    assert "2 seeds" in " ".join(spec["title"]["subtitle"])
    assert experiment_view(experiment, "mean_regret").to_dict() != spec


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<svg")])
def test_images_need_no_browser(kind, start):
    chart = law_chart({0.3: bqrl.Law([0.0, 1.0], [0.5, 0.5])}, {0.3: 0.0})
    assert image(chart, kind).startswith(start)
    assert kind == "pdf" or image(styled(chart), kind) == image(chart, kind)


def test_without_altair_one_line_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    law = bqrl.Law([0.0], [1.0])
    with pytest.raises(ImportError, match=r'^charts need Altair and vl-convert; run: pip install "bqrl\[plots\]"$'):
        law.chart()


def test_texts_are_folded_at_words():
    assert fold_text("one two three", 8) == ["one two", "three"]
    assert fold_text(["", ["a-very-long-word b"]], 8) == [[""], [["a-very-long-word", "b"]]]


def test_tooltips_have_a_title_and_may_have_a_format():
    assert [tip.to_dict() for tip in tooltips("x:Q")] == [{"field": "x", "type": "quantitative"}]
    plain, formatted = (tip.to_dict() for tip in tooltips(("x:Q", "return"), ("y:Q", "share", ".2f")))
    assert (plain["title"], "format" in plain) == ("return", False)
    assert (formatted["field"], formatted["title"], formatted["format"]) == ("y", "share", ".2f")


@pytest.mark.parametrize(("size", "texts"), [(1e-200, {"0", "2e-200"}), (1e200, {"0", "2e+200"}), (1e6, {"2,000,000"})])
def test_labels_of_axes_are_short_at_any_size_of_the_returns(size, texts):
    drawn = lines([Curve("a", np.array([0.0, 1.0]), np.array([0.0, 2.0 * size]))], "x", "y").chart("t", "")
    labels = set(re.findall(r"<text[^>]*>([^<]*)<", image(drawn, "svg").decode()))
    assert texts <= labels
    assert max(map(len, labels)) <= 11


def facts_of(content, kind):
    """The facts that a file of a chart states about itself, read by its format's own rules."""
    if kind == "svg":
        return json.loads(ElementTree.fromstring(content).find("{http://www.w3.org/2000/svg}metadata").text)
    if kind == "png":
        place, found = 8, {}
        while place < len(content):
            (size,) = struct.unpack(">I", content[place : place + 4])
            chunk = content[place + 4 : place + 8 + size]
            assert struct.unpack(">I", content[place + 8 + size : place + 12 + size]) == (zlib.crc32(chunk),)
            if chunk[:4] == b"iTXt":
                key, text = chunk[4:].split(bytes(5))
                found[key.decode()] = text.decode()
            place += size + 12
        return found
    if kind == "pdf":
        start = int(re.search(rb"startxref\s+(\d+)\s+%%EOF\s*$", content)[1])
        number, place, info, before = map(
            int,
            re.match(
                rb"xref\n(\d+) 1\n(\d{10}) 00000 n\r\n.*/Info (\d+) 0 R /Prev (\d+)", content[start:], re.S
            ).groups(),
        )
        assert (number, content[before : before + 4]) == (info, b"xref")
        stored = re.match(rb"%d 0 obj\n<< (.*?) >>\nendobj" % number, content[place:])[1]
        texts = dict(re.findall(r"/(\w+) <(\w+)>", stored.decode()))
        names = {"Producer": "Software", "Subject": "Description"}
        return {names[key]: bytes.fromhex(text).decode("utf-16") for key, text in texts.items()}
    return json.loads(content)["usermeta"]


@pytest.mark.parametrize("kind", ["svg", "png", "pdf", "json"])
def test_a_saved_chart_names_its_seeds_and_versions(tmp_path, kind):
    learners = [("größe <&>", "sarsa", {})]
    one = bqrl.compare("SafeOrRisky", learners, tau=0.1, episodes=4, seeds=[3, 8], workers=1)
    two = bqrl.compare("SafeOrRisky", learners, tau=0.1, episodes=4, seeds=[5], workers=1)
    figure = Suite(experiments={"a": one, "b": two}).figure()
    said = "größe <&>; 0.1-quantile, 4 episodes, seeds {}"
    for chart, seeds in ((one.chart(title=False), ["3 8"]), (figure, ["3 8", "5"])):
        bqrl.save(chart, tmp_path / f"chart.{kind}")
        found = facts_of((tmp_path / f"chart.{kind}").read_bytes(), kind)
        assert found["Description"] == "; ".join(map(said.format, seeds))
        assert found["Software"].startswith(f"bqrl {bqrl.__version__}, code ")
    altair().hconcat(one.chart(), two.chart()).to_dict()  # charts with descriptions can be combined


def test_a_chart_without_runs_names_its_versions(tmp_path):
    bqrl.save(bqrl.Law([0.0, 1.0], [0.5, 0.5]).chart(), tmp_path / "law.svg")
    assert list(facts_of((tmp_path / "law.svg").read_bytes(), "svg")) == ["Software"]
