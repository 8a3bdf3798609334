"""`bqrl evaluate` and the strategies beside the plan of `bqrl solve`."""

import json
from pathlib import Path

import pytest
from helpers import assert_refused, not_announced, strict

import bqrl
from bqrl.results.result import read
from bqrl.results.strategies import FILES

MODEL, RULE = "examples/maintenance.csv", "examples/maintenance_rule.csv"


def test_strategies_side_by_side_on_the_terminal(cli, tmp_path):
    plan = bqrl.solve(bqrl.load(MODEL), 0.1)
    plan.policy.save(tmp_path / "plan.npz")
    options = ["--policy", f"today={RULE}", "--policy", "always:wait", "--policy", tmp_path / "plan.npz"]
    code, out, err = cli("evaluate", MODEL, *options, "--tau", 0.1, "--below", 15000, "--stage-name", "week")
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert text.startswith("maintenance: 5 states, 3 actions, 26 weeks, start New")
    assert "Strategies side by side, in EUR." in text
    assert [line.split()[0] for line in out.splitlines() if line.startswith(("today", "always:wait", "plan "))] == [
        "today", "always:wait", "plan",
    ]  # fmt: skip
    assert (
        "plan: in 9 of 10 runs at least 20,100 EUR, the most of these strategies; mean 21,695, which is 152.1 less than"
        in text
    )
    assert "of runs end below 15,000." in text


def test_the_same_strategies_in_several_models(cli, tmp_path):
    low = tmp_path / "low.csv"
    low.write_text(Path(MODEL).read_text().replace(",1000", ",950"))
    options = ["--policy", f"today={RULE}", "--policy", "random", "--tau", 0.1, "--json"]
    code, out, _ = cli("evaluate", MODEL, "--model", f"less paid={low}", "--model", low, *options)
    assert code == 0
    models = {"maintenance": bqrl.load(MODEL), "less paid": bqrl.load(low), "low": bqrl.load(low)}
    expected = bqrl.strategies(models, {"today": RULE, "random": "random"}, tau=0.1).rows()
    assert strict(out)["rows"] == json.loads(json.dumps(expected))


def test_out_and_json(cli, tmp_path):
    folder = tmp_path / "out"
    code, out, err = cli("evaluate", MODEL, "--policy", "random", "--certainty", "90%", "--out", folder, "--json")
    assert (code, err) == (0, "")
    document = strict(out)
    assert document["format"] == "bqrl strategies 1"
    expected = bqrl.strategies(bqrl.load(MODEL), {"random": "random"}, tau=0.1).rows()
    assert document["rows"] == json.loads(json.dumps(expected))
    assert read(folder).details["rows"] == document["rows"]
    written = {path.name for path in folder.iterdir() if path.name[0] != "."} - {"result.json", "manifest.json"}
    assert not_announced(written, FILES) == set()
    assert cli("report", folder)[0] == 0


@pytest.mark.parametrize(
    ("options", "phrase"),
    [
        ([], "Missing option '--policy', e.g. --policy today=rule.csv, or --policy always:ACTION"),
        (["--policy", "today="], "--policy must be a strategy, got 'today='; write e.g. today=rule.csv"),
        (["--policy", "a=random", "--policy", "a=always:wait"], "--policy a is given twice, the second time as 'always:wait'"),
        (["--policy", "always:repair"], "strategy 'always:repair': 'always:repair' requires, in every state that it meets,"),
        (["--policy", "wait"], "got 'wait'; did you mean 'always:wait'?"),
        (["--policy", "nothing.csv"], "there is no file nothing.csv"),
        (["--policy", "random", "--below", "nan"], "--below must be a number, got nan"),
        (["--policy", "random", "--model", "maintenance=low.csv"], "--model maintenance has the name of another problem"),
        (["--policy", "random", "--model", "low="], "--model must be a problem, got 'low='; write e.g. low=low.csv"),
        (["--policy", "random", "--model", "CartPole-v1"], "CartPole-v1 does not expose its transition probabilities"),
        (["--policy", "random", "--tau", 2], "--tau must be a number in (0, 1), got 2"),
    ],
)  # fmt: skip
def test_bad_options_are_refused_in_one_line(cli, options, phrase):
    level = [] if "--tau" in options else ["--tau", 0.1]
    assert_refused(cli("evaluate", MODEL, *options, *level), phrase)


def test_an_environment_without_a_model_is_refused(cli):
    assert_refused(cli("evaluate", "CartPole-v1", "--policy", "random", "--tau", 0.1), "play it with bqrl.simulate")


def test_solve_shows_the_plan_beside_the_usual_policies_and_yours(cli):
    document = strict(cli("solve", MODEL, "--tau", 0.1, "--policy", f"today={RULE}", "--below", 15000, "--json")[1])
    rows = {row["strategy"]: row for row in document["strategies"]}
    assert list(rows) == [
        "plan",
        "risk-neutral",
        "always:wait",
        "always:replace",
        "today",
    ]  # a new machine cannot be repaired
    assert rows["plan"]["quantile_0.1"] == document["levels"][0]["value"]
    assert rows["risk-neutral"]["quantile_0.1"] == document["levels"][0]["risk_neutral"]["value"]
    assert rows["plan"]["chance_below"] == document["levels"][0]["chance_below"]
    assert "of runs end below 15,000; the risk-neutral policy gives" in document["levels"][0]["meaning"]
    assert all(row["exact"] for row in rows.values())


def test_the_usual_policies_can_be_switched_off(cli):
    assert strict(cli("solve", MODEL, "--tau", 0.1, "--no-compare", "--json")[1])["strategies"] is None
    own = strict(cli("solve", MODEL, "--tau", 0.1, "--no-compare", "--policy", "random", "--json")[1])["strategies"]
    assert [row["strategy"] for row in own] == ["plan", "random"]
    assert_refused(
        cli("solve", MODEL, "--tau", 0.1, "--policy", "plan=random"),
        "have names that are not in the table yet, got 'plan'",
    )


def test_a_warning_about_the_tail_stands_in_the_output(cli):
    text = " ".join(cli("solve", "Staffing", "--tau", 0.25)[1].split())
    assert (
        "Warning: the worst 25 % of runs bring -58.56 dollars on average, with the risk-neutral policy -43.27 dollars;"
        in text
    )


def test_an_objective_is_refused_instead_of_ignored(cli):
    code, _, err = cli("evaluate", "SafeOrRisky", "--policy", "random", "--tau", 0.1, "--objective", "cvar:0.1")
    assert (code, "leave out --objective" in err) == (2, True)
