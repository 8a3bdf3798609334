"""Charts hold the numbers they are given, say what to see, and become images without a browser."""

import sys

import numpy as np
import pytest
from helpers import chart_values

import bqrl
from bqrl.results.charts import (
    MAX_POINTS,
    Curve,
    curves_chart,
    folded,
    image,
    learner_colours,
    thinned,
    tips,
)
from bqrl.results.plan_charts import law_chart
from bqrl.results.views import experiment_view


def test_thinning_keeps_the_ends_and_the_shape():
    x = np.linspace(0.0, 1.0, 50_000)
    y = np.where(x > 0.37, 1.0, 0.0)
    kept = thinned(x, y)
    assert kept.size <= MAX_POINTS
    assert (kept[0], kept[-1]) == (0, x.size - 1)
    assert np.abs(np.interp(x, x[kept], y[kept]) - y).mean() < 0.01
    assert thinned(x[:10], y[:10]).tolist() == list(range(10))


def test_curves_say_what_their_band_is():
    x = np.arange(1.0, 4.0)
    curves = [Curve("UCBVI", x, x, x - 1, x + 1), Curve("mine", x, x, x, x)]
    spec = curves_chart(curves, title="t", y_title="y", band="range of 3 seeds", references=[("best", 2.0)]).to_dict()
    assert spec["title"]["subtitle"] == ["Band: range of 3 seeds."]
    scale = spec["layer"][0]["encoding"]["color"]["scale"]
    assert dict(zip(scale["domain"], scale["range"], strict=True))["UCBVI"] == learner_colours(["UCBVI"])[0]


def test_a_thinned_curve_says_to_how_many_points():
    x = np.arange(1.0, 2001.0)
    spec = curves_chart([Curve("UCBVI", x, x, x, x)], title="t", y_title="y").to_dict()
    assert len(chart_values(spec, 0)) <= MAX_POINTS
    assert spec["title"]["subtitle"] == [f"Drawn through {MAX_POINTS} of 2000 points."]


def test_a_learner_has_one_colour_everywhere():
    names = ["UCB-BQRL", "UCBVI", "Thompson", "Q-learning", "SARSA", "PPO", "TRPO"]
    together = dict(zip(names, learner_colours(names), strict=True))
    assert len(set(together.values())) == len(names)
    for name in names:
        assert learner_colours([name]) == [together[name]]
    assert len(set(learner_colours([f"UCB-BQRL, c_conf={i}" for i in range(5)]))) == 5
    assert learner_colours(["ucb-bqrl", "ucb-bqrl (planner=greedy)"]) == learner_colours(
        ["UCB-BQRL", "UCB-BQRL, greedy planner"]
    )


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
    assert experiment_view(experiment, "regret").to_dict() != spec


@pytest.mark.parametrize(("kind", "start"), [("png", b"\x89PNG"), ("pdf", b"%PDF"), ("svg", b"<svg")])
def test_images_need_no_browser(kind, start):
    chart = law_chart({0.3: bqrl.Law([0.0, 1.0], [0.5, 0.5])}, {0.3: 0.0})
    assert image(chart, kind).startswith(start)
    assert kind == "pdf" or image(chart.to_dict(), kind) == image(chart, kind)


def test_without_altair_one_line_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    law = bqrl.Law([0.0], [1.0])
    with pytest.raises(
        ImportError, match=r'^charts need Altair and vl-convert; install them with: pip install "bqrl\[plots\]"$'
    ):
        law.chart()


def test_texts_are_folded_at_words():
    assert folded("one two three", 8) == ["one two", "three"]
    assert folded(["", ["a-very-long-word b"]], 8) == [[""], [["a-very-long-word", "b"]]]


def test_tooltips_have_a_title_and_may_have_a_format():
    plain, formatted = (tip.to_dict() for tip in tips(("x:Q", "return"), ("y:Q", "share", ".2f")))
    assert (plain["title"], "format" in plain) == ("return", False)
    assert (formatted["field"], formatted["title"], formatted["format"]) == ("y", "share", ".2f")
