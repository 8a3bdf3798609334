"""Strategies for people: the table, the sentence, the laws over one another, the value against a parameter, the page."""

import numpy as np
import pytest
from helpers import Checked

import bqrl
from bqrl import report, sensitivity, strategies
from bqrl.results.result import read
from bqrl.results.strategies import BEST, BOUNDS, strategies_chart, strategy_sentences, strategy_table
from bqrl.results.words import PLAIN, Words

PUMP = bqrl.load("examples/maintenance.csv")
RULES = {"today": "examples/maintenance_rule.csv", "wait": "always:wait", "replace": "always:replace"}
EUR = Words(title="Machines", unit="EUR", stage="week")
NASTY = "<b>today</b>"


def build(p, pay=1.0):
    """One choice per stage: 1 for sure, or 2 `pay` with probability p."""
    rows = [(0, 0, 0, 1.0, 1.0), (0, 1, 0, p, 2.0 * pay), (0, 1, 0, 1.0 - p, 0.0)]
    return bqrl.MDP(rows, horizon=4, action_names=["sure", "risky"])


def bracketed():
    rng = np.random.default_rng(0)
    return bqrl.MDP(rng.dirichlet(np.ones(6), (6, 2)), rng.random((6, 2, 6)), horizon=12, discount=0.95)


def test_the_table_has_titles_for_people_and_the_sentence_names_the_price():
    table = strategies(PUMP, RULES, tau=0.1, below=15_000)
    shown = strategy_table(table, EUR)
    assert [shown.titles.get(key, key) for key in shown.columns] == [
        "strategy", "mean", "below the best mean", "in 9 of 10 runs at least", "worst 10 % on average",
        "below the best guarantee", "runs below 15,000 (%)",
    ]  # fmt: skip
    assert shown.caption == "Strategies side by side, in EUR."
    row = table.rows()[0]
    said = f"today: in 9 of 10 runs at least {row['quantile_0.1']:,.0f} EUR, the most of these strategies; "
    said += f"mean {row['mean']:,.0f}, which is {row['behind_mean']:,.0f} less than the best mean; "
    said += f"{100 * row['chance_below']:.2g} % of runs end below 15,000."
    assert strategy_sentences(table, EUR) == [said]
    assert (
        strategy_table(strategies(PUMP, RULES, tau=[0.1, 0.2]), EUR).titles["behind_0.2"]
        == "below the best in 4 of 5 runs"
    )


def test_bounds_are_announced():
    table = strategies(bracketed(), {"first": "always:0"}, tau=0.3, below=5.5)
    shown = strategy_table(table, PLAIN)
    assert shown.caption.endswith(BOUNDS)
    assert shown.columns[-1] == "exact"
    assert "; at most " in strategy_sentences(table, PLAIN)[0]
    assert "Laws are proven lower bounds." in " ".join(strategies_chart(table).to_dict()["title"]["subtitle"])


def test_the_sentence_on_several_models_counts_where_each_strategy_is_best():
    rules = {"sure": "always:sure", "risky": "always:risky"}
    both = strategies({"bad": build(0.1), "good": build(0.99)}, rules, tau=0.1)
    least = min(row["quantile_0.1"] for row in both.rows() if row["strategy"] == "sure")
    assert least > min(row["quantile_0.1"] for row in both.rows() if row["strategy"] == "risky")
    assert strategy_sentences(both, PLAIN) == [
        "The strategy that guarantees the most in 9 of 10 runs: sure in 1 and risky in 1 of 2 models.",
        f"sure: at least {least:g} in 9 of 10 runs, in each of the 2 models; "
        "no other of these strategies promises more in its worst model.",
    ]
    same = strategies({"bad": build(0.1), "worse": build(0.01)}, rules, tau=0.1)
    assert strategy_sentences(same, PLAIN)[0] == (
        "sure guarantees the most of these strategies in 9 of 10 runs, in each of the 2 models."
    )


def test_the_lines_are_the_shares_of_runs_above_each_return(embedded):
    table = strategies(
        build(0.5), {"sure": "always:sure", "risky": "always:risky", "random": "random"}, tau=0.25, below=1.0
    )
    spec = strategies_chart(table).to_dict()
    rows = embedded(spec, "x", "y", "k")
    for k, name in enumerate(table.names):
        law = table.scenarios[0].laws[name][0]
        line = [(float(row["x"]), float(row["y"])) for row in rows if float(row["k"]) == k]
        assert line == sorted(line, key=lambda point: point[0])
        for x, y in line:
            assert y == pytest.approx(1.0 - law.cdf(x), abs=1e-5)
    assert "Dashed: 3 of 4 runs." in " ".join(spec["title"]["subtitle"])
    assert spec["layer"][0]["encoding"]["x"]["title"] == "return"
    assert spec["title"]["text"] == ["Strategies side by side"]


def test_a_hopeless_strategy_does_not_stretch_the_axis():
    spec = strategies_chart(strategies(PUMP, RULES, tau=0.1), EUR).to_dict()
    low, high = spec["layer"][0]["encoding"]["x"]["scale"]["domain"]
    assert 0.0 < low < high < 30_000  # always replacing brings -39,000
    assert "To the left of the axis: replace." in " ".join(spec["title"]["subtitle"])


def test_the_chart_of_several_models_has_a_list_of_them(embedded):
    table = strategies({"a": build(0.5), "b": build(0.6)}, {"risky": "always:risky"}, tau=0.25)
    spec = strategies_chart(table).to_dict()
    (model,) = [one for one in spec["params"] if one["name"] == "model"]
    assert model["bind"]["labels"] == ["a", "b"]
    assert {row["model"] for row in embedded(spec, "x", "model")} == {"0", "1"}
    assert spec["title"]["text"] == ["Strategies side by side"]


def test_values_against_a_parameter_beside_the_best_policy_of_each_model(embedded):
    plan = bqrl.solve(build(0.5), 0.3)
    table = sensitivity(build, {"p": [0.9, 0.5, 0.7]}, {"plan": plan, "sure": "always:sure"}, tau=0.3)
    spec = strategies_chart(table).to_dict()
    rows = embedded(spec, "x", "y", "k")
    labels = ["plan", "sure", BEST]
    assert spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == labels
    for k, name in enumerate(labels):
        line = [(float(row["x"]), float(row["y"])) for row in rows if float(row["k"]) == k]
        assert [x for x, _ in line] == [0.5, 0.7, 0.9]
        for x, y in line:
            model = build(x)
            best = bqrl.solve(model, 0.3).value
            given = plan if name == "plan" else "always:sure"
            own = best if name == BEST else bqrl.evaluate(model, given, rewards="this model").quantile(0.3)
            assert y == pytest.approx(own)
    assert spec["title"]["text"] == ["What each strategy guarantees"]
    assert spec["layer"][0]["encoding"]["y"]["title"] == "return reached in 7 of 10 runs"


def test_further_parameters_and_levels_are_lists_of_the_chart(embedded):
    table = sensitivity(build, {"p": [0.5, 0.7], "pay": [1.0, 2.0]}, {"risky": "always:risky"}, tau=[0.3, 0.6])
    spec = strategies_chart(table).to_dict()
    names = {one["name"]: one["bind"]["labels"] for one in spec["params"] if "bind" in one}
    assert names == {"p0": ["1.0", "2.0"], "level": ["7 of 10 runs", "2 of 5 runs"]}
    rows = [
        row for row in embedded(spec, "x", "y", "p0", "level") if (row["p0"], row["level"], row["k"]) == ("1", "0", "0")
    ]
    assert [float(row["y"]) for row in rows] == [
        bqrl.evaluate(build(p, 2.0), "always:risky").quantile(0.3) for p in (0.5, 0.7)
    ]


def test_a_parameter_that_is_no_number_chooses_the_model_in_a_list():
    def named(kind):
        return build({"low": 0.4, "high": 0.8}[kind])

    table = sensitivity(named, {"kind": ["low", "high"]}, {"risky": "always:risky"}, tau=0.3)
    (model,) = [one for one in strategies_chart(table).to_dict()["params"] if one["name"] == "model"]
    assert model["bind"]["labels"] == ["kind=low", "kind=high"]
    assert [row["kind"] for row in table.rows()] == ["low", "high"]


def test_a_page_or_a_folder(tmp_path):
    table = strategies(build(0.5), {"sure": "always:sure", NASTY: "random"}, tau=0.1)
    page = report(table, tmp_path / "page.html", title="Machines")
    checked = Checked()
    checked.feed(page.read_text(encoding="utf-8"))
    assert not checked.open
    assert NASTY not in page.read_text(encoding="utf-8").split('<script type="application/json"')[0]
    report(table, tmp_path / "folder")
    found = read(tmp_path / "folder")
    assert (found.kind, found.title) == ("strategies", "Strategies side by side")
    assert [dict(row) for row in found.tables["strategies"].rows] == [
        {key: value for key, value in row.items() if key != "exact"} for row in table.rows()
    ]
    assert sum(row["probability"] for row in found.tables["return_laws"].rows) == pytest.approx(2.0)
    assert "<table>" in table._repr_html_()


def test_only_strategies_beyond_the_axis_are_left_out_and_named(embedded):
    """A strategy that was drawn was once said to lie to the left of the axis, and one that lay there was in the legend."""
    rows = [(0, 0, 0, 1.0, 10.0), (0, 1, 0, 0.5, 0.0), (0, 1, 0, 0.5, 11.0), (0, 2, 0, 1.0, 5.0), (0, 3, 0, 1.0, -50.0)]
    mdp = bqrl.MDP(rows, horizon=1, action_names=["best", "wide", "inside", "beyond"])
    table = strategies(mdp, {name: f"always:{name}" for name in mdp.action_names}, tau=0.1, below=-40.0)
    spec = strategies_chart(table).to_dict()
    assert spec["layer"][0]["encoding"]["color"]["scale"]["domain"] == ["best", "wide", "inside"]
    said = " ".join(spec["title"]["subtitle"])
    assert "To the left of the axis: beyond." in said
    assert "Red" not in said  # the limit lies beyond the axis, too


def test_a_strategy_without_others_is_not_the_best_of_these():
    (said,) = strategy_sentences(
        strategies({"low": build(0.1), "high": build(0.9)}, {"sure": "always:sure"}, tau=0.1), PLAIN
    )
    assert said.startswith("sure: at least 4 ")
    assert "of these strategies" not in said
