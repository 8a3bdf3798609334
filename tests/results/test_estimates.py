"""Estimates as documents, tables and charts."""

import re

import numpy as np
import pytest
from helpers import chart_values
from logged_problems import coin, simulated

import bqrl
from bqrl.logs.fit import fit
from bqrl.results.charts import image
from bqrl.results.estimates import (
    CLAIM,
    CUT,
    FILES,
    LOGGED,
    MAX_ROWS,
    coverage_chart,
    estimate_view,
    fit_document,
    fit_result,
    gain_sentence,
    help_sentence,
    promise_chart,
)  # fmt: skip
from bqrl.results.result import contents
from bqrl.results.words import PLAIN, Words


@pytest.fixture(scope="module")
def estimate():
    mdp, log = simulated("machine", 800)
    return fit(log, stationary=True, reward_range=(float(mdp.reward.min()), float(mdp.reward.max())))


def test_the_document_has_three_policies_the_reason_and_the_gains(estimate):
    plan = estimate.solve(0.1)
    content = fit_document(estimate, plan)
    logged, plug_in, robust = content["policies"]
    assert logged["lower"] <= logged["value"] <= logged["upper"]
    assert (plug_in["meaning"], robust["meaning"]) == (CLAIM, CLAIM)
    assert "promise" not in CLAIM  # which stands beside one
    assert plug_in["promise"] <= robust["promise"] == plan.value <= plug_in["value"]
    assert logged["promise"] == logged["lower"] == estimate.old_promise(0.1)
    assert content["headline"]["promise"] == max(logged["promise"], robust["promise"])
    assert content["helps"] == estimate.helps(0.1)
    assert content["useful"] == (content["reason"] is None) == (estimate.reason(0.1) is None)
    assert content["gains"] == estimate.gains(0.1)
    assert content["sentence"].startswith("With 95 % confidence")


def test_a_result_writes_the_files_that_were_announced(estimate):
    plan = estimate.solve(0.1)
    result = fit_result(estimate, plan, Words(title="title"), {"tau": 0.1, "start": None})
    assert result.left_out == []
    assert set(result.charts) == {"promise", "policy_map", "coverage"}
    assert set(contents(result)) - {"result.json"} == set(FILES)
    assert result.details["versions"]["bqrl"]  # the footer of the page
    assert "start" not in result.settings
    assert any("with the declaration stationary and" in str(line) for line in result.sentences)
    plain = fit_result(estimate, plan, Words(title="title"), {}, draw=False)
    assert plain.charts == {}


def test_amounts_and_stages_of_a_fit_are_in_the_words_of_the_problem(estimate):
    words, plan = Words(title="Machine", unit="EUR", stage="week"), estimate.solve(0.1)
    result = fit_result(estimate, plan, words, {})
    said = " ".join(line.text for line in result.lines)
    assert f"you get at least {plan.value:.6g} EUR, assuming" in said
    assert re.search(r"is [-.\d]+ EUR with the declaration \S+ and (none|[-.\d]+ EUR) without", said)
    tables = result.tables
    assert tables["policies"].titles["value"] == tables["projection"].titles["value"] == "0.1-quantile (EUR)"
    assert (tables["policies"].titles["lower"], tables["gains"].titles["value"]) == ("lower (EUR)", "promise (EUR)")
    assert tables["limits"].titles["stage"] == tables["rows"].titles["stage"] == "week"
    assert tables["limits"].caption.endswith(" EUR, the lowest that is not promised.")
    assert "0.1-quantile of the return (EUR)" in str(result.charts["promise"])
    assert tables["policy"].columns[0] == "week"


def test_the_interval_of_the_logging_policy_has_a_level_and_a_method(estimate):
    plan = estimate.solve(0.1)
    result = fit_result(estimate, plan, Words(title="x"), {})
    said = "95 % confidence interval of the old policy's quantile, from order statistics of independent episodes."
    assert result.tables["policies"].caption.endswith(f"Lower and upper: {said}")
    assert " ".join(result.charts["promise"]["title"]["subtitle"]).endswith(f"Line: {said}")


def test_with_a_buffer_the_logging_policy_has_no_interval_and_none_is_claimed():
    # Once a line of infinite length was called its confidence interval.
    estimate = fit(coin(60, 40), reward_range=(0, 1))
    plan = estimate.solve(0.4, 0.2)
    content = fit_document(estimate, plan)
    logged = content["policies"][0]
    assert [*logged] == ["policy", "promise", "value", "lower", "upper", "meaning"]
    assert (logged["lower"], logged["upper"], logged["meaning"]) == (None, None, "estimate without an interval")
    result = fit_result(estimate, plan, Words(title="x"), {})
    said = result.tables["policies"].caption + str(result.charts["promise"])
    assert "confidence interval" not in said
    assert "estimate with an interval" not in said


def test_the_view_of_a_cvar_says_that_its_rows_are_those_of_a_quantile():
    """The lowest target that is not promised is one of the quantile, and was shown as one of the CVaR."""
    estimate = fit(coin(400, 300), reward_range=(0, 1))
    captions = [
        fit_result(estimate, estimate.solve(0.3, beta), Words(title="x"), {}, draw=False).tables["limits"].caption
        for beta in (0.0, 0.3)
    ]
    assert captions[0].endswith("a return below 1, the lowest that is not promised.")
    assert captions[1].endswith("the lowest that is not promised for the 0.3-quantile, a bound on the CVaR at 0.3.")


def test_the_logging_policy_without_an_estimate_is_shown_as_such():
    ends = ["terminal"] * 60 + ["truncated"] * 40
    log = coin(100, 70) | {"end": ends}
    estimate = fit(log, reward_range=(0, 1), horizon=2)
    for beta, bounds in ((0.0, (0.0, 1.0)), (0.2, (None, None))):
        first = fit_document(estimate, estimate.solve(0.2, beta))["policies"][0]
        assert (first["value"], first["lower"], first["upper"]) == (None, *bounds)
        assert first["meaning"] == "no estimate: episodes were cut off"
    assert estimate.assumptions[1:3] == (
        "whether an episode was cut off does not depend on an unrecorded next state",
        "episodes marked as ended are complete, and none is longer than 2 steps",
    )


def test_a_promise_without_data_is_no_useful_one():
    support = [("s", "a", "(end)", 1.0), ("s", "a", "(end)", 0.5)]
    log = coin(8, 8) | {"next_state": ["(end)"] * 8}
    estimate = fit(log, reward_range=(0, 1), support=support)
    result = fit_result(estimate, estimate.solve(0.3), Words(title="x"), {}, draw=False)
    assert result.details["without_data"] == estimate.solve(0.3).value == 0.5
    assert result.details["useful"] is False
    assert "This promise uses no data: it is what the declared support and rewards alone" in result.sentences[0]
    assert result.sentences[1].startswith(
        "Why the data add nothing to the promise: action 'a' in state 's' was tried 8"
    )


def test_the_decision_table_is_that_of_the_robust_policy_in_the_states_of_the_log():
    """The state "(end)" of the model, in which nothing is decided, is left out."""
    log = {"episode": range(400), "state": ["on"] * 400, "action": ["stop", "go"] * 200, "reward": [2.0, 1.0] * 200}
    more = {"episode": range(1, 400, 2), "state": ["on"] * 200, "action": ["go"] * 200, "reward": [1.0] * 200}
    stages = {"stage": [0] * 400 + [1] * 200}
    estimate = fit({key: [*log[key], *more[key]] for key in log} | stages, reward_range=(0, 2))
    plan = estimate.solve(0.3)
    result = fit_result(estimate, plan, Words(title="x"), {})
    rows = plan.policy.table(estimate.mdp)
    assert result.tables["policy"].rows == [row for row in rows if row["state"] == "on"] != rows
    assert set(result.files) >= {"policy.npz", "estimate.npz"}


def test_the_decisions_for_a_chance_name_no_other_target():
    """The table of a plan for the chance of 1 had the highest return, 2, as target."""
    log = {
        "episode": np.repeat(range(200), 2),
        "state": ["s"] * 400,
        "action": ["a", "b"] * 200,
        "reward": [1.0, 0.0] * 200,
    }
    estimate = fit(log | {"next_state": ["s"] * 400}, reward_range=(0, 1))
    for goal, shown in ((bqrl.Chance(1.0), False), (bqrl.Quantile(0.3), True)):
        rows = fit_result(estimate, estimate.solve(goal), PLAIN, {}).tables["policy"].rows
        assert all(("target" in row, "need_from" in row, "earned_to" in row) == (shown, shown, True) for row in rows)


def test_the_reason_is_a_sentence_of_the_result():
    estimate = fit(coin(5, 5), reward_range=(0, 1))
    plan = estimate.solve(0.1)
    result = fit_result(estimate, plan, Words(title="title"), {}, draw=False)
    assert any(
        str(line).startswith("No useful promise is possible for a new plan: action 'a' in state 's'")
        for line in result.sentences
    )
    assert "gains" not in result.tables


@pytest.mark.parametrize("beta", [0.0, pytest.param(0.1, marks=pytest.mark.nightly)])
def test_a_promise_on_a_rounded_grid_says_so(beta):
    """With a buffer it was once refused, without one nothing was said."""
    rng = np.random.default_rng(0)
    log = {"episode": np.repeat(range(40), 6), "state": ["s"] * 240, "action": ["a"] * 240}
    estimate = fit(log | {"reward": rng.integers(0, 12, 240) / 11}, reward_range=(0, 1), stationary=True, discount=0.9)
    plan = estimate.solve(0.3, beta)
    assert not plan.exact
    result = fit_result(estimate, plan, Words(title="x"), {}, draw=False)
    said = [line.text for line in result.lines if line.text.startswith("Returns are rounded down to ")]
    assert len(said) == 1
    assert re.search(r"to \d+ points, by at most [-e.\d]+\.$", said[0])


def test_gains_in_words():
    gain = {"declaration": "support", "without": -np.inf, "value": 16.0, "note": ""}
    assert " is 16 with the declaration support and none without" in gain_sentence(gain)
    assert " cannot be fitted: x" in gain_sentence(gain | {"without": None, "note": "x"})


def test_the_chart_of_promises_leaves_out_what_is_not_finite():
    rows = [
        {"policy": "logging policy", "value": 1.0, "lower": -np.inf, "upper": 2.0, "meaning": "estimate with an interval"},
        {"policy": "new plan", "value": 5.0, "lower": None, "upper": None, "meaning": CLAIM, "promise": None},
    ]  # fmt: skip
    content = {"policies": rows, "projection": [{"factor": 2, "episodes": 8, "value": 3.0}]}
    spec = promise_chart(content, "0.1-quantile", "an interval").to_dict()
    assert spec["layer"][1]["encoding"]["x"]["scale"]["zero"] is False  # far from 0, differences would vanish
    assert [(row["policy"], row["interval"], row["high"]) for row in chart_values(spec, 0)] == [
        ("logging policy", "-∞ to 2", 2.0),
        ("new plan", "none", 5.0),  # its empirical value, as it has no promise
        ("2 times the data", "none", 3.0),
    ]
    scale = spec["layer"][1]["encoding"]["x"][
        "scale"
    ]  # once the line began at the value, as if that were the lower end
    assert (scale["domain"], scale["clamp"]) == ([pytest.approx(0.4), 5.0], True)  # with room for the arrow
    assert chart_values(spec, 0)[0]["low"] < 0.4
    assert "Line: an interval. Arrow: this end of the interval is infinite. No promise is possible" in " ".join(
        spec["title"]["subtitle"]
    )
    content["policies"] = [rows[0] | {"lower": None, "upper": None}]
    assert "Line:" not in " ".join(promise_chart(content, "0.1-quantile", "an interval").to_dict()["title"]["subtitle"])


def test_every_policy_is_drawn_with_its_promise():
    """Once only the new plan was, also where the headline is to keep the old policy."""
    logged = {"policy": "old policy", "promise": 3.0, "value": 4.0, "lower": 3.0, "upper": 5.0, "meaning": LOGGED}
    plug_in = {"policy": "plug-in plan", "promise": 1.0, "value": 6.0, "lower": None, "upper": None, "meaning": CLAIM}
    content = {"policies": [logged, plug_in, plug_in | {"policy": "new plan", "promise": 2.0}], "projection": []}
    spec = promise_chart(content, "0.1-quantile", "an interval").to_dict()
    found = {(row["policy"], row["meaning"]): row["value"] for row in chart_values(spec, 1)}
    assert found == {
        ("old policy", LOGGED): 4.0, ("old policy", "promise"): 3.0, ("plug-in plan", CLAIM): 6.0,
        ("plug-in plan", "promise"): 1.0, ("new plan", CLAIM): 6.0, ("new plan", "promise"): 2.0,
    }  # fmt: skip
    assert [(len(chart_values(spec, i)), spec["layer"][i]["mark"]["dy"] < 0) for i in (2, 3)] == [(3, True), (3, False)]
    assert "No promise is possible" not in str(spec["title"])


def test_large_amounts_have_no_exponent_on_the_chart_of_promises():
    row = {"policy": "plug-in plan", "value": 1_234_567.0, "lower": None, "upper": None, "meaning": CLAIM}
    spec = promise_chart({"policies": [row], "projection": []}, "0.1-quantile", "an interval").to_dict()
    assert spec["layer"][2]["encoding"]["text"]["field"] == "text"
    assert chart_values(spec, 2)[0]["text"] == "1,234,567"


def test_the_chart_of_rows_marks_those_that_limit_the_promise(estimate):
    spec = coverage_chart(estimate, estimate.limits(0.1, top=3)).to_dict()
    rows = chart_values(spec)
    assert len(rows) == int(estimate.seen.sum()) <= MAX_ROWS
    assert sum(row["kind"] == "limits the promise" for row in rows) == 3
    assert all(0.0 <= row["radius"] <= 2.0 for row in rows)
    assert "scale" not in spec["encoding"]["y"]  # once always 0 to 2, whatever the radii were


def test_long_charts_of_rows_are_thinned(estimate, monkeypatch):
    monkeypatch.setattr("bqrl.results.estimates.MAX_ROWS", 5)
    spec = coverage_chart(estimate, estimate.limits(0.1, top=2)).to_dict()
    assert len(chart_values(spec)) == 5
    assert sum(row["kind"] == "limits the promise" for row in chart_values(spec)) == 2
    assert "5 of " in " ".join(spec["title"]["subtitle"])


def test_estimates_draw_themselves(estimate):
    assert image(estimate.chart(), "svg").startswith(b"<svg")
    assert image(estimate.chart(0.1), "png")[1:4] == b"PNG"
    assert len(estimate_view(estimate, 0.1).to_dict()["vconcat"]) == 3


def test_an_infinite_end_of_an_interval_is_an_arrow():
    """It looked like a finite interval that ends at the edge of the chart."""
    rows = [
        {
            "policy": "logging policy",
            "value": 2.0,
            "lower": -np.inf,
            "upper": 3.0,
            "meaning": "estimate with an interval",
        },
        {"policy": "robust plan", "value": 1.0, "lower": None, "upper": None, "meaning": "promise"},
    ]
    spec = promise_chart({"policies": rows, "projection": []}, "return", "95 % interval").to_dict()
    shapes = [layer["mark"]["shape"] for layer in spec["layer"] if "shape" in layer["mark"]]
    assert shapes == ["triangle-left"]
    (end,) = chart_values(spec, -1)
    assert (end["end"], end["value"]) == ("-∞", pytest.approx(0.7))  # below every finite value, with a label
    assert "Arrow: this end of the interval is infinite." in " ".join(np.atleast_1d(spec["title"]["subtitle"]))


def test_an_interval_without_an_estimate_is_drawn():
    """If many episodes were cut off, only the upper end is known, and the old policy was left out."""
    old = {"policy": "old policy", "promise": None, "value": None, "lower": -np.inf, "upper": 3.0, "meaning": CUT}
    new = {"policy": "new plan", "promise": 1.0, "value": 2.0, "lower": None, "upper": None, "meaning": CLAIM}
    spec = promise_chart({"policies": [old, new], "projection": []}, "return", "95 % interval").to_dict()
    line, *_ = chart_values(spec, 0)
    assert (line["policy"], line["high"], line["interval"]) == ("old policy", 3.0, "-∞ to 3")
    assert "old policy" not in [row["policy"] for row in chart_values(spec, 1)]
    (end,) = chart_values(spec, -1)
    assert (end["policy"], end["end"]) == ("old policy", "-∞")


def test_the_page_shows_the_policy_map_and_its_table_first():
    estimate = fit(coin(300, 200), reward_range=(0, 1))
    result = fit_result(estimate, estimate.solve(0.2), PLAIN, {})
    assert list(result.charts) == ["promise", "policy_map", "coverage"]
    assert list(result.tables)[:2] == ["policies", "policy"]


def test_counts_have_no_logging_policy():
    table = {"state": ["s"] * 2, "action": ["a"] * 2, "next_state": ["s"] * 2, "count": [30, 10], "reward": [1, 0]}
    estimate = bqrl.fit_counts(table, horizon=2)
    result = fit_result(estimate, estimate.solve(0.2), PLAIN, {}, draw=False)
    rows = result.tables["policies"].rows
    assert ([row["policy"] for row in rows], "lower" in rows[0]) == (["plug-in plan", "new plan"], False)
    assert "Coverage: 40 transitions, 1 of 1 rows seen" in result.lines[-1].text


def test_steps_that_help_name_options_as_the_reader_writes_them():
    """The command once said "set at_least to 9", which is --at-least 9 there."""
    python, command = Words(title=""), Words(title="", command=True)
    assert (python.option("at_least", 9), command.option("at_least", 9)) == ("at_least=9", "--at-least 9")
    assert (python.option("adaptive", False), command.option("adaptive", False)) == ("adaptive=False", "--one-policy")
    for step, said in (
        ("declare reward_by state-action", "declare --reward-by state-action"),
        ("round rewards down (round_rewards)", "round rewards down (--round-rewards)"),
        ("declare that state 'x' ends an episode", "declare that state 'x' ends an episode"),
    ):
        one = {"step": step, "value": 1.0, "with_it": 2.0, "assumes": False}
        assert step in help_sentence(one, python)
        assert said in help_sentence(one, command)
