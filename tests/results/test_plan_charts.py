"""Charts of plans hold the curve, the law and the policy that they are given."""

import re

import numpy as np
import pytest
from helpers import chart_values

import bqrl
from bqrl.results.charts import image
from bqrl.results.plan_charts import (
    FAINT,
    MAX_BARS,
    MAX_LEGEND,
    MAX_STAGES,
    MAX_STATES,
    Steps,
    curve_chart,
    law_chart,
    plan_charts,
    policy_chart,
)
from bqrl.results.words import Words

WORDS = Words(title="x", unit="EUR", stage="week")


def test_the_guarantee_curve_holds_every_step():
    mdp = bqrl.envs.make("AssetSelling")
    curve = bqrl.guarantee_curve(mdp)
    spec = curve_chart(curve, [bqrl.solve(mdp, 0.1)], words=WORDS).to_dict()
    rows = chart_values(spec, 0)
    for tau in (0.05, 0.1, 0.31, 0.5, 0.9):
        assert max(row["y"] for row in rows if row["x"] < tau) == pytest.approx(curve(tau), rel=1e-5)
    assert spec["layer"][0]["encoding"]["y"]["title"] == "guaranteed return (EUR)"
    assert spec["title"]["text"] == ["What can be guaranteed"]
    assert "tau" in [param["name"] for param in spec["params"]]


def test_the_mark_of_a_large_promise_has_no_exponent():
    mdp = bqrl.MDP(np.ones((1, 1, 1)), np.array([[125_000.0]]), horizon=1)
    spec = curve_chart(bqrl.guarantee_curve(mdp), [bqrl.solve(mdp, 0.1)]).to_dict()
    assert spec["layer"][-1]["encoding"]["text"]["field"] == "text"
    assert [row["text"] for row in chart_values(spec, -1)] == ["125,000"]


def test_a_bracket_is_drawn_as_a_band_and_said():
    low, high = Steps(np.array([0.0, 0.5]), np.array([1.0, 2.0])), Steps(np.array([0.0, 0.4]), np.array([1.5, 2.5]))
    band = low.curve("x", high)
    assert [*zip(band.low, band.high, strict=True)] == [(1.0, 1.5), (1.0, 2.5), (2.0, 2.5), (2.0, 2.5)]
    curve = bqrl.guarantee_curve(bqrl.envs.make("AssetSelling"), points=30)
    spec = curve_chart(curve).to_dict()
    for tau in (0.05, 0.1, 0.31, 0.5, 0.9):
        row = max((row for row in chart_values(spec, 0) if row["x"] < tau), key=lambda row: row["x"])
        assert (row["low"], row["high"]) == pytest.approx((curve(tau), curve.ceiling(tau)), rel=1e-5)
    assert "from rounding the returns" in " ".join(spec["title"]["subtitle"])


def test_the_bars_of_a_law_sum_to_one_and_split_at_the_promise():
    law = bqrl.Law([0.0, 1.0, 2.0], [0.25, 0.25, 0.5])
    spec = law_chart({0.3: law}, {0.3: 1.0}, neutral=bqrl.Law([2.0], [1.0]), words=WORDS).to_dict()
    mine = [row for row in chart_values(spec, 0) if row["policy"] == "best"]
    assert sum(row["share"] for row in mine) == pytest.approx(1.0)
    assert [(row["kind"], row["share"]) for row in mine] == [
        ("below the promise", 0.25), ("at least the promise", 0.25), ("at least the promise", 0.5)
    ]  # fmt: skip
    assert spec["layer"][0]["encoding"]["x"]["title"] == "return (EUR)"


def test_a_promise_below_every_return_is_within_the_axis_and_a_promise_of_nothing_is_not_drawn():
    law = bqrl.Law([1.0, 2.0], [0.5, 0.5])  # of a robust plan, in the model as given
    spec = law_chart({0.1: law}, {0.1: -3.0}).to_dict()
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == [-3.0, 2.5]
    none = law_chart({0.1: law}, {0.1: -np.inf}).to_dict()
    assert none["layer"][0]["encoding"]["x"]["scale"]["domain"] == [0.5, 2.5]
    assert len(none["layer"]) == 1


def test_a_law_alone_has_no_promise():
    spec = bqrl.Law([0.0, 1.0], [0.5, 0.5]).chart().to_dict()
    assert {row["kind"] for row in chart_values(spec, 0)} == {"at least the promise"}
    assert len(spec["layer"]) == 1
    assert spec["title"]["subtitle"] == [""]


def test_a_wide_law_is_thinned_and_its_rare_ends_are_said():
    law = bqrl.Law(np.r_[-1e6, np.arange(5000.0)], np.r_[1e-9, np.full(5000, (1 - 1e-9) / 5000)])
    spec = law_chart({0.1: law}, {0.1: 500.0}).to_dict()
    rows = chart_values(spec, 0)
    assert len(rows) <= MAX_BARS + 1  # one bar is split at the promise
    assert sum(row["share"] for row in rows) == pytest.approx(1.0, abs=1e-4)
    assert sum(row["share"] for row in rows if row["kind"] == "below the promise") == pytest.approx(0.1, abs=1e-3)
    assert "all returns beyond them" in " ".join(spec["title"]["subtitle"])


def test_sixty_steps_are_not_shifted():
    """Once, edges lay on the returns, and the bar of the promise was left of it."""
    law = bqrl.Law(np.arange(61) / 10, np.full(61, 1 / 61))
    spec = law_chart({0.3: law}, {0.3: 2.3}, words=WORDS).to_dict()
    rows = chart_values(spec, 0)
    for row in rows:
        reached = row["kind"] == "at least the promise"
        inside = [x for x in law.values if row["from"] < x < row["to"] and (x >= 2.3 - 1e-9) == reached]
        assert row["share"] == pytest.approx(len(inside) / 61, rel=1e-4)
    assert {round(row["to"] - row["from"], 6) for row in rows} == {0.2}
    assert (
        " ".join(spec["title"]["subtitle"])
        == "Dashed line: the promise of the planned policy. Each bar is 0.2 EUR wide."
    )


@pytest.mark.parametrize("count", [1, 2, 59, 60, 61, 120, 500])
def test_each_return_lies_within_its_bar_and_bars_are_few(count):
    values = 0.1 * np.arange(count) - 3.0
    law = bqrl.Law(values, np.full(count, 1.0 / count))
    spec = law_chart({0.3: law}, {}).to_dict()
    rows = chart_values(spec, 0)
    assert len(rows) <= MAX_BARS
    assert ("wide" in " ".join(spec["title"]["subtitle"])) == (count > MAX_BARS)
    for row in rows:
        inside = (values > row["from"]) & (values < row["to"])
        if 3.0 < count < 100:  # no rare ends
            assert row["share"] == pytest.approx(inside.sum() / count, rel=1e-5)
        assert not np.isclose(values, row["from"]).any()


def test_returns_that_differ_by_rounding_share_a_bar():
    law, other = bqrl.Law([0.1 + 0.2, 1.0], [0.5, 0.5]), bqrl.Law([0.3, 1.0], [0.5, 0.5])
    spec = law_chart({0.3: law}, {}, neutral=other).to_dict()
    assert len({row["from"] for row in chart_values(spec, 0)}) == 2
    assert spec["title"]["subtitle"] == [""]


def test_over_a_ball_the_mark_is_what_is_guaranteed():
    """Once, with a buffer, it was the quantile in the model as given."""
    mdp = bqrl.envs.make("AssetSelling", offers=6, horizon=4, start=2)
    plan = bqrl.solve(mdp, 0.4, beta=0.2, radius=0.2, attitude="robust")
    assert plan.value < plan.law.quantile(0.4)
    drawn = plan_charts([plan], bqrl.guarantee_curve(mdp))
    for chart, layer, key in ((drawn["guarantee_curve"], -1, "y"), (drawn["return_law"], -1, "from")):
        (mark,) = chart_values(chart.to_dict(), layer)
        assert mark[key] == pytest.approx(plan.value, rel=1e-5)
    nominal = bqrl.solve(mdp, 0.4, beta=0.2)
    (mark,) = chart_values(plan_charts([nominal], None)["return_law"].to_dict(), -1)
    assert mark["from"] == pytest.approx(nominal.law.quantile(0.4), rel=1e-5)


def test_a_map_without_visits_tells_no_probabilities():
    shares = np.eye(2)[np.zeros((2, 3), dtype=int)]
    for visits, expected in ((True, ["h", "s", "a", "part", "met"]), (False, ["h", "s", "a"])):
        spec = policy_chart({0.1: shares}, ["a", "b", "c"], ["stay", "go"], visits=visits).to_dict()
        assert [tip["field"] for tip in spec["encoding"]["tooltip"]] == expected


def test_the_legend_of_a_map_has_the_actions_of_its_cells():
    shares = np.zeros((40, 1, 50))
    shares[np.arange(40), 0, np.arange(40)] = 1.0
    stages = (["a"], [str(a) for a in range(50)])
    color = policy_chart({0.1: shares[:20]}, *stages).to_dict()["encoding"]["color"]
    assert color["scale"]["domain"] == [str(a) for a in range(20)]
    assert color["legend"]["symbolLimit"] == MAX_LEGEND  # Vega says how many entries are left out


def test_the_map_shows_the_action_played_most_often():
    shares = np.zeros((2, 3, 2))
    shares[0, 0, 1] = 1.0
    shares[1, 1] = (0.25, 0.75)
    spec = policy_chart({0.1: shares}, ["a", "b", "c"], ["stay", "go"], words=WORDS).to_dict()
    rows = chart_values(spec)
    assert [(row["h"], row["s"], row["a"], row["part"]) for row in rows] == [(1, "a", "go", 1.0), (2, "b", "go", 0.75)]
    assert spec["encoding"]["x"]["title"] == "week"
    assert spec["encoding"]["y"]["scale"]["domain"] == ["a", "b"]  # names from top to bottom, numbers upwards
    numbered = policy_chart({0.1: shares}, ["1", "2", "3"], ["stay", "go"]).to_dict()
    assert numbered["encoding"]["y"]["scale"]["domain"] == ["2", "1"]


def test_a_map_of_a_policy_that_depends_on_the_earned_is_not_called_a_rule():
    """Once the map was followed as a rule, which gave 17,620 where 20,160 was promised."""
    fixed = np.eye(2)[np.zeros((2, 3), dtype=int)]
    mixed = np.array([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [1.0 - 1e-9, 1e-9]]])
    rule, often = (policy_chart({0.1: shares}, ["a", "b", "c"], ["stay", "go"]).to_dict() for shares in (fixed, mixed))
    assert rule["title"]["text"] == ["What the policy does"]
    assert "rule" not in " ".join(rule["title"]["subtitle"])
    title, note = (" ".join(often["title"][key]) for key in ("text", "subtitle"))
    assert title == "What the policy does most often"
    assert note.startswith(f"{FAINT.format('action')} ")
    assert "not a rule to follow; the table of decisions (policy) is." in note
    parts = [row["part"] for row in chart_values(often)]
    assert parts[0] == 1.0 > parts[1]  # faint, however rare the other action is
    beside = policy_chart({0.1: fixed[:, :2]}, ["a", "b"], ["stay", "go"], neutral=mixed).to_dict()
    assert FAINT.format("action") in " ".join(beside["title"]["subtitle"])
    assert beside["title"]["text"] == ["What the policy does"]  # the plan is a rule, though others on the page are not


def test_a_large_map_is_cut_and_says_so():
    shares = np.random.default_rng(0).random((100, 80, 12))
    spec = policy_chart({0.1: shares}, [str(s) for s in range(80)], [str(a) for a in range(12)], words=WORDS).to_dict()
    assert len(chart_values(spec)) == MAX_STATES * MAX_STAGES
    said = " ".join(spec["title"]["subtitle"])
    assert f"The {MAX_STATES} states met most often of 80." in said
    assert f"{MAX_STAGES} of 100 weeks." in said


def test_marks_of_a_buffered_plan_are_called_its_quantile():
    """Once "the promise", beside a sentence on another number."""
    model = bqrl.envs.make("AssetSelling", offers=6, horizon=4, start=2)
    for beta, what in ((0.0, "the promise"), (0.4, "the quantile")):
        plan = bqrl.solve(model, 0.4, beta)
        specs = [chart.to_dict() for chart in plan_charts([plan], bqrl.guarantee_curve(model)).values()]
        curve, law = (" ".join(spec["title"]["subtitle"]) for spec in specs)
        assert f" Red: {what} of the planned policy." in curve
        assert f"Dashed line: {what} of the planned policy." in law
        (line,) = chart_values(specs[1], 1)
        assert line["from"] == pytest.approx(plan.law.quantile(0.4), rel=1e-5)
        assert (line["from"] == pytest.approx(plan.value)) == (beta == 0.0)
        legend = specs[1]["layer"][0]["encoding"]["color"]["scale"]["domain"]
        assert legend == [f"below {what}", f"at least {what}"]
    robust = bqrl.solve(model, 0.4, 0.2, radius=0.1, attitude="robust")
    spec = plan_charts([robust], None)["return_law"].to_dict()
    assert "Dashed line: the promise of the planned policy." in " ".join(spec["title"]["subtitle"])
    assert chart_values(spec, 1)[0]["from"] == pytest.approx(robust.value, rel=1e-5)


def test_small_shares_have_different_labels():
    """Once 0 %, 1 %, 1 %, 2 %, 2 %."""
    spec = law_chart({0.1: bqrl.Law(np.arange(50.0), np.full(50, 0.02))}, {}).to_dict()
    assert spec["layer"][0]["encoding"]["y"]["axis"]["format"] == "~%"
    labels = re.findall(r">([0-9.]+%)<", image(spec, "svg").decode())
    assert len(labels) > 2
    assert len(set(labels)) == len(labels)
