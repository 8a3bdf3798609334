"""`bqrl solve`: tables, sentences, JSON, folders, and one line for bad input."""

import csv
import io
import json
import os
import sys

import numpy as np
import pytest
from helpers import TINY_CSV, assert_refused, one_line

import bqrl
from bqrl.results.plans import plan_lines
from bqrl.results.result import read


def test_solve_prints_a_table_and_one_sentence_for_each_level(cli):
    code, out, err = cli("solve", "AssetSelling", "--tau", 0.1, "--tau", 0.5)
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert "AssetSelling: 26 states, 2 actions, 10 stages, start 5" in text
    for heading in ("level", "quantile", "upper bound", "gap", "margin", "proven", "mean", "risk-neutral"):
        assert heading in text
    assert "0.1 0.791666 0.791667 0 0.015 0.14 yes 0.851776 0.708333" in text
    assert (
        "In 9 of 10 runs you get at least 0.7916, the best that any policy can promise; mean 0.8518, which is 0.01221 less than "
        "the best mean; the risk-neutral policy gives 0.7083." in text
    )
    assert "In half of all runs you get at least 0.9583" in text


def test_a_finer_grid_is_offered_only_where_it_helps(cli, tmp_path):
    path = tmp_path / "odd.csv"
    path.write_text(TINY_CSV.replace("3.0", "3.1415926").replace("0.0", "0.2718281"))
    asked = ["solve", path, "--tau", 0.4, "--horizon", 30, "--discount", 0.97]
    offers = "A finer grid narrows the bracket: --points, or --gap without --radius."
    rough = cli(*asked, "--points", 200)[1]
    assert offers in rough
    assert "mean at least" not in rough  # the policy's own law is exact
    assert offers in cli(*asked, "--beta", 0.1, "--points", 200)[1]
    wide, narrow = (
        json.loads(cli(*asked, "--beta", 0.1, "--points", 200, "--json", *more)[1])["levels"][0]["gap"]
        for more in ([], ["--gap", 0.01])
    )
    assert narrow <= 0.01 < wide
    ball = cli(*asked, "--radius", 0.1, "--attitude", "robust", "--points", 200)[1]
    assert offers in ball
    assert "A finer grid" not in cli(*asked, "--planner", "expected")[1]
    content = json.loads(cli(*asked, "--points", 200, "--json")[1])
    content["levels"][0]["gap"] = 0.0
    assert not any("A finer grid" in line for line in plan_lines(content))


OPTIONS = {
    "levels": ["--tau", "0.4", "--tau", "0.6"],
    "buffered": ["--beta", "0.1"],
    "cvar": ["--beta", "0.4"],
    "greedy": ["--planner", "greedy"],
    "frontier": ["--planner", "frontier"],
    "capped": ["--planner", "capped-frontier"],
    "expected": ["--planner", "expected"],
    "robust": ["--radius", "0.2", "--attitude", "robust"],
    "optimistic": ["--radius", "0.2", "--attitude", "optimistic"],
    "robust buffered": ["--radius", "0.2", "--attitude", "robust", "--beta", "0.2"],
    "randomized": ["--randomized", "--beta", "0.2"],
    "no-randomized": ["--no-randomized", "--beta", "0.2"],
    "secondary": ["--secondary", "mean"],
    "rational": ["--arithmetic", "rational"],
    "points": ["--points", "50"],
    "gap": ["--points", "50", "--gap", "0.5"],
    "memory": ["--max-memory", "1"],
    "longer": ["--horizon", "4"],
    "discounted": ["--discount", "0.9"],
    "elsewhere": ["--start", "out"],
}


@pytest.mark.parametrize("asked", OPTIONS.values(), ids=OPTIONS)
def test_every_option_gives_strict_json_and_words(cli, tiny, asked):
    code, out, err = cli("solve", tiny, "--tau", 0.4, "--json", *asked)
    assert (code, err) == (0, "")
    found = json.loads(out, parse_constant=lambda name: pytest.fail(f"{name} is not JSON"))
    assert out.isascii()
    for level in found["levels"]:
        assert level["upper"] is None or level["upper"] >= level["value"] - 1e-9
        assert level["meaning"].endswith(".")
    code, out, err = cli("solve", tiny, "--tau", 0.4, *asked)
    assert (code, err) == (0, "")
    assert found["levels"][0]["meaning"] in " ".join(out.split())


def test_an_environment_that_tells_its_kernel_is_solved(cli):
    code, out, _ = cli("solve", "FrozenLake-v1", "--tau", 0.7, "--horizon", 20, "--json")
    assert code == 0
    assert json.loads(out)["model"]["states"] == 16
    code, _, err = cli("solve", "Blackjack-v1", "--tau", 0.5)
    assert code == 2
    assert "does not expose its transition probabilities" in err
    assert one_line(err)


def test_options_reach_the_planner(cli, tiny):
    def level(*asked):
        return json.loads(cli("solve", tiny, "--tau", 0.4, "--json", *asked)[1])["levels"][0]

    assert level()["value"] == 2.0
    assert level("--horizon", 4)["value"] == 4.0
    assert level("--start", "out", "--horizon", 3)["value"] == 3.0
    assert level("--discount", 0.5)["value"] == 1.5
    assert level("--planner", "expected")["risk_neutral"] is None
    assert not level("--points", 7)["exact"]
    assert level("--points", 7, "--gap", 0.01)["gap"] <= 0.01
    assert level("--radius", 2, "--attitude", "robust")["value"] == 2.0


OFF_GRID = {
    "--planner greedy": "use --planner='target', which brackets the optimum",
    "--arithmetic rational": "got a problem without one; use --arithmetic='float'",
    "--beta 0.1 --no-randomized": "got a problem without one of a suitable size; omit --randomized",
}


@pytest.mark.parametrize("asked", OFF_GRID)
def test_methods_that_require_a_grid_name_the_option_that_chose_them(cli, tmp_path, asked):
    path = tmp_path / "odd.csv"
    path.write_text(TINY_CSV.replace("3.0", "3.1415926").replace("0.0", "0.2718281"))
    answer = cli("solve", path, "--tau", 0.4, "--horizon", 30, "--discount", 0.97, *asked.split())
    assert_refused(answer, OFF_GRID[asked])


@pytest.mark.parametrize("attitude", ["robust", "optimistic"])
def test_a_radius_above_the_diameter_has_the_effect_of_the_diameter(cli, tiny, attitude):
    ball = ["solve", tiny, "--tau", 0.4, "--attitude", attitude, "--json"]
    found = []
    for radius in (2, 3):
        code, out, err = cli(*ball, "--radius", radius)
        assert (code, err) == (0, "")
        (level,) = json.loads(out)["levels"]
        found.append(level | {"seconds": None})
    assert found[0] == found[1]


def test_the_option_and_the_message_name_the_same_levels(cli, tiny):
    assert "(0, 1], below 1 without --beta" in " ".join(cli("solve", "--help")[1].replace("│", " ").split())
    assert_refused(cli("solve", tiny, "--tau", 0), "--tau must be a number in (0, 1], got 0")
    assert_refused(cli("solve", tiny, "--tau", 1), "tau must be below 1 if beta is 0, got 1; give a buffer")
    assert cli("solve", tiny, "--tau", 1, "--beta", 0.5)[0] == 0


def test_words_of_the_problem_reach_tables_and_sentences(cli, tiny, tmp_path):
    asked = ["--title", "Two rounds", "--unit", "QALY", "--stage-name", "year", "--out", tmp_path / "o"]
    code, out, err = cli("solve", tiny, "--tau", 0.4, *asked)
    assert (code, err) == (0, "")
    assert out.startswith("Two rounds: 2 states, 2 actions, 2 years, start <in>\n")
    assert "quantile (QALY)" in out
    assert "you get at least 2 QALY" in out
    found = read(tmp_path / "o")
    assert found.title == "Two rounds"
    assert found.tables["policy_tau0p4"].columns[:2] == ["year", "state"]
    assert found.tables["policy_tau0p4"].rows[0]["year"] == 1
    law = found.charts["return_law"]
    assert law["layer"][0]["encoding"]["x"]["title"] == "return (QALY)"
    for name, chart in found.charts.items():  # without the page, charts show the level that was asked for
        assert name == "strategies" or {"name": "tau", "value": 0.4} in chart["params"]


def test_out_writes_everything_and_prints_the_same_document(cli, tiny, tmp_path):
    folder = tmp_path / "made" / "here"
    code, out, err = cli("solve", tiny, "--tau", 0.4, "--tau", 0.8, "--out", folder, "--json")
    assert (code, err) == (0, "")
    charts = {
        f"{name}.{kind}"
        for name in ("guarantee_curve", "return_law", "policy_map", "strategies")
        for kind in ("png", "pdf", "vl.json")
    }
    policies = {f"policy_tau{tau}.{kind}" for tau in ("0p4", "0p8") for kind in ("csv", "npz")}
    tables = {"levels.csv", "strategies.csv", "return_laws.csv", "guarantee_curve.csv"}
    tables |= {"stress_tau0p4.csv", "stress_tau0p8.csv"}
    held = {name for name in os.listdir(folder) if not name.startswith((".", "overview"))}
    assert held == {"result.json", "manifest.json"} | tables | charts | policies
    stored = read(folder).details
    assert stored == json.loads(out)
    assert stored["versions"]["bqrl"] == bqrl.__version__
    assert stored["settings"]["tau"] == [0.4, 0.8]

    mdp = bqrl.load(tiny)
    policy = bqrl.load(folder / "policy_tau0p8.npz")
    assert bqrl.evaluate(mdp, policy).quantile(0.8) == stored["levels"][1]["value"]
    rows = list(csv.DictReader(io.StringIO((folder / "policy_tau0p8.csv").read_text())))
    assert {row["state"] for row in rows} <= {"<in>", "out"}
    assert {row["action"] for row in rows} <= {"safe", "risky"}
    laws = list(csv.DictReader(io.StringIO((folder / "return_laws.csv").read_text())))
    mass = {
        name: sum(float(r["probability"]) for r in laws if r["policy"] == name) for name in {r["policy"] for r in laws}
    }
    assert set(mass) == {"tau=0.4", "tau=0.8", "risk-neutral"}
    np.testing.assert_allclose(list(mass.values()), 1.0)


def test_a_second_run_takes_the_place_of_the_first(cli, tiny, tmp_path):
    folder = tmp_path / "out"
    assert cli("solve", tiny, "--tau", 0.4, "--tau", 0.8, "--out", folder)[0] == 0
    mine = {"notes.txt", "policy_tau_mine.csv", "policy_tau0p3.csv", "learn.json"}
    for name in mine:
        (folder / name).write_text("mine")
    assert cli("solve", tiny, "--tau", 0.5, "--out", folder)[0] == 0
    held = set(os.listdir(folder))
    assert {name for name in held if "_tau" in name and name.endswith(".npz")} == {"policy_tau0p5.npz"}
    assert {(folder / name).read_text() for name in mine} == {"mine"}
    assert mine <= held
    code, _, err = cli("solve", tiny, "--tau", 0.3, "--out", folder)
    assert code == 2
    assert err == f"bqrl: {folder / 'policy_tau0p3.csv'} was not written by bqrl; move it or choose another folder\n"
    assert read(folder).details["levels"][0]["tau"] == 0.5


@pytest.mark.parametrize("fault", [KeyboardInterrupt(), OSError(28, "No space left on device"), RuntimeError("no")])
def test_a_run_that_is_stopped_leaves_the_old_result(cli, tiny, tmp_path, monkeypatch, fault):
    folder = tmp_path / "made" / "out"
    assert cli("solve", tiny, "--tau", 0.8, "--out", folder)[0] == 0
    before = read(folder)

    def stop(*_):
        raise fault

    monkeypatch.setattr("bqrl.results.folder.Folder.write_manifest", stop)
    code, _, err = cli("solve", tiny, "--tau", 0.4, "--out", folder)
    assert code == {"KeyboardInterrupt": 130, "OSError": 2, "RuntimeError": 1}[type(fault).__name__]
    if isinstance(fault, OSError):
        assert err == (
            f"bqrl: cannot write the result to {folder}: No space left on device; make room there or choose another folder\n"
        )
    assert read(folder) == before


@pytest.mark.parametrize("asked", ["buffered", "greedy", "robust", "optimistic", "expected", "points", "randomized"])
def test_out_serves_every_kind_of_plan(cli, tiny, tmp_path, asked):
    code, _, err = cli("solve", tiny, "--tau", 0.4, "--out", tmp_path / "out", *OPTIONS[asked])
    assert (code, err) == (0, "")
    assert {"guarantee_curve.png", "return_law.png", "policy_map.png"} <= set(os.listdir(tmp_path / "out"))
    code, out, _ = cli("report", tmp_path / "out", "--json")
    assert code == 0
    assert json.loads(out) == {"page": str(tmp_path / "out" / "report.html")}


def test_out_serves_a_plan_in_32_bits(cli, tmp_path):
    asked = ("solve", "SafeOrRisky", "--tau", 0.1, "--precision", "float32", "--out", tmp_path / "plan")
    assert cli(*asked)[0] == 0
    policy = bqrl.load(tmp_path / "plan" / "policy_tau0p1.npz")
    assert bqrl.evaluate("SafeOrRisky", policy).quantile(0.1) == 12.0


def test_without_altair_only_the_charts_are_missing(cli, tiny, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "altair", None)
    code, _, err = cli("solve", tiny, "--tau", 0.4, "--out", tmp_path / "out", "--json")
    assert code == 0
    assert one_line(err)
    assert 'pip install "bqrl[plots]"' in err
    assert not [name for name in os.listdir(tmp_path / "out") if name.endswith((".png", ".vl.json"))]
    report = f"`bqrl report {tmp_path / 'out'}` creates a page from it"
    assert f"; {report}.\n" in cli("solve", tiny, "--tau", 0.4, "--out", tmp_path / "out")[1]
    monkeypatch.setitem(sys.modules, "jinja2", None)
    said = cli("solve", tiny, "--tau", 0.4, "--out", tmp_path / "out")[1]
    assert f'; {report} after: pip install "bqrl[plots]".\n' in said  # once a command that could not work
    code, _, err = cli("report", tmp_path / "out")
    assert code == 2
    assert one_line(err)
    assert 'pip install "bqrl[plots]"' in err


def test_no_randomized_without_a_buffer_serves_every_planner(cli, tiny):
    for planner in ("target", "greedy", "frontier", "capped-frontier", "expected"):
        code, _, err = cli("solve", tiny, "--tau", 0.4, "--planner", planner, "--no-randomized", "--json")
        assert (code, err) == (0, "")


def test_a_huge_memory_limit_is_refused_in_one_line(cli, tiny):
    code, _, err = cli("solve", tiny, "--tau", 0.5, "--max-memory", "1e300")
    assert (code, one_line(err)) == (2, True)
    assert "--max-memory must be a number in (0, 1e+09], got 1e+300" in err


def test_runs_returns_states_and_actions_in_the_users_words(cli, tmp_path):
    path = tmp_path / "model.csv"
    text = (
        "state,action,next_state,probability,reward\ngood,keep,good,0.5,1\ngood,keep,poor,0.5,0\npoor,keep,poor,1,0\n"
    )
    path.write_text(f"# horizon: 2\n# words: run=season, state=condition\n# terminal: good=7\n{text}")
    own = ("--run-name", "machine", "--return-name", "profit", "--action-name", "order", "--unit", "EUR")
    code, out, _ = cli("solve", path, "--tau", 0.5, *own)
    assert code == 0
    assert "model: 2 conditions, 1 order, 2 stages, start good" in out
    assert "In half of all machines at least 0 EUR profit" in out
    assert "In half of all seasons at least 0" in cli("solve", path, "--tau", 0.5)[1]


def test_the_price_of_certainty_on_the_command_line(cli):
    share, amount = (
        json.loads(cli("solve", "Inventory", "--tau", 0.1, "--at-least", least, "--json")[1])["levels"][0]
        for least in ("90%", "62.1")
    )
    assert share["value"] == amount["value"] >= 62.1
    assert share["mean"] == amount["mean"] > bqrl.solve("Inventory", tau=0.1).mean
    half = cli("solve", "Inventory", "--tau", 0.1, "--margin", 0.5)[1]
    assert "that keep 50 % of the largest margin; with the whole margin the mean is 70.0787" in " ".join(half.split())
    assert_refused(cli("solve", "Inventory", "--tau", 0.1, "--at-least", 70), "--at-least must be at most 69")


def test_solve_says_in_one_line_what_holds_if_the_model_is_off(cli):
    plan = bqrl.solve("Inventory", tau=0.1)
    held = bqrl.stress("Inventory", plan, off=[0.0, 0.02, 0.05])
    said = " ".join(cli("solve", "Inventory", "--tau", 0.1)[1].split())
    assert (
        f"If probabilities are off by up to 2 %: {held.value[1]:g} dollars; by 5 %: {held.value[2]:g} dollars" in said
    )
    level = json.loads(cli("solve", "Inventory", "--tau", 0.1, "--json")[1])["levels"][0]
    assert level["stress"] == held.rows()


def test_the_rule_of_today_is_stressed_beside_the_plan(cli, tmp_path):
    """Only the plan was once stressed, so that nobody could say which of the two holds if the model is off."""
    rule = bqrl.solve("Inventory", 0.1, rule="state").policy
    bqrl.save(rule, tmp_path / "rule.npz")
    options = ("--tau", 0.1, "--policy", f"today={tmp_path / 'rule.npz'}")
    held = bqrl.stress("Inventory", rule, 0.1, off=[0.0, 0.02, 0.05])
    said = " ".join(cli("solve", "Inventory", *options, "--out", tmp_path / "plan")[1].split())
    assert f"dollars (today {held.value[1]:g} dollars); by 5 %: " in said
    assert f"(today {held.value[2]:g} dollars)" in (tmp_path / "plan/result.json").read_text(encoding="utf-8")
    (level,) = json.loads(cli("solve", "Inventory", *options, "--json")[1])["levels"]
    assert [row["today"] for row in level["stress"]] == held.value.tolist()
    with open(tmp_path / "plan" / "stress_tau0p1.csv", encoding="utf-8") as file:
        assert [float(row["today"]) for row in csv.DictReader(file)] == held.value.tolist()


def test_solve_says_what_the_mean_would_be_with_a_smaller_margin(cli, tmp_path):
    code, out, _ = cli("solve", "Inventory", "--tau", 0.1, "--out", tmp_path / "plan")
    line = "The same guarantee with half of the margin for errors: mean {:.2f} instead of 70.08 (--margin 0.5); "
    line += "with none: {:.2f} (--margin 0)."
    line = line.format(*(bqrl.solve("Inventory", 0.1, margin=share).mean for share in (0.5, 0.0)))
    assert code == 0
    assert line in " ".join(out.split())
    assert line in (tmp_path / "plan/result.json").read_text(encoding="utf-8")  # which the page shows
    assert "margin for errors" not in cli("solve", "Inventory", "--tau", 0.1, "--margin", 0.5)[1]
    page = bqrl.report(bqrl.solve("Inventory", 0.1), tmp_path / "own.html")
    assert "with none: 87.56 (margin=0)" in page.read_text("utf-8")


def test_a_promise_has_the_same_digits_in_the_sentence_and_in_the_stress_line(cli):
    out = " ".join(cli("solve", "AssetSelling", "--tau", 0.1)[1].split())
    assert "the risk-neutral policy gives 0.7083. If probabilities are off by up to 2 %: 0.7083; by 5 %: 0.5;" in out


def test_a_table_never_shows_more_than_is_promised(cli, tmp_path):
    """Sentences rounded promises down and tables to the nearest, so that 0.791667 stood for 19/24."""
    code, out, _ = cli("solve", "AssetSelling", "--tau", 0.1, "--out", tmp_path / "plan")
    assert code == 0
    row = next(line.split() for line in out.splitlines() if line.lstrip().startswith("0.1 "))
    assert row[1:3] == ["0.791666", "0.791667"]  # the bracket outward
    plan = next(line.split() for line in out.splitlines() if line.startswith("plan "))
    assert plan[3] == "0.791666"
    table = read(tmp_path / "plan").tables["levels"]
    assert table.bounds == {"value": -1, "upper": 1, "gap": 1, "neutral": -1}
    assert table.rows[0]["value"] == 19 / 24  # files hold all digits
    whole = bqrl.strategies("AssetSelling", {"plan": bqrl.solve("AssetSelling", 0.1)}, tau=0.1)
    assert "0.791666" in str(whole)
    assert "0.791667" not in whole._repr_html_() + str(whole)


def test_off_is_robust_planning_in_the_same_words(cli):
    off, radius = (
        json.loads(cli("solve", "Inventory", "--tau", 0.1, *options, "--json")[1])["levels"][0]
        for options in (["--off", "2%"], ["--radius", 0.04, "--attitude", "robust"])
    )
    assert off["value"] == radius["value"]
    assert off["meaning"].startswith("If probabilities are off by up to 2 %, in 9 of 10 runs you get at least 64")
    assert_refused(cli("solve", "Inventory", "--tau", 0.1, "--off", "2"), "--off must lie between 0% and 100%")
    both = cli("solve", "Inventory", "--tau", 0.1, "--off", "2%", "--radius", 0.1, "--attitude", "robust")
    assert_refused(both, "--off replaces --radius and --attitude")
    ruled = cli("solve", "Inventory", "--tau", 0.1, "--off", "2%", "--rule", "state")
    assert_refused(ruled, "expected one of --off and --rule")  # once named --radius, which nobody gave


def test_a_rule_is_printed_as_a_table_of_states_by_stages(cli, tmp_path):
    asked = ["solve", "MachineReplacement", "--tau", "0.1", "--rule", "state", "--no-compare", "--decimal", ","]
    code, text, err = cli(*asked, "--out", tmp_path / "rule")
    assert (code, err) == (0, "")
    assert "the action by state and week, with equal ones joined" in text
    assert "weeks 1-15" in text
    assert "Simplicity costs at most" in text
    first, *_ = (tmp_path / "rule" / "overview_tau0p1.csv").read_text().splitlines()
    assert first == "state;weeks 1-15"
    head, row = (tmp_path / "rule" / "levels.csv").read_text().splitlines()
    assert head.startswith("level;value")
    assert row.startswith("0,1;")
    back = read(tmp_path / "rule")
    assert back.tables["levels"].rows[0]["level"] == 0.1
    assert back.decimal == ","


def test_faults_of_rules_are_told_in_one_line(cli):
    for more, said in (
        (["--order", "new,old"], "--order requires --rule threshold"),
        (["--rule", "stat"], "rule"),
        (["--rule", "threshold", "--order", "new,old"], "order"),
        (["--decimal", ";"], "decimal"),
    ):
        assert_refused(cli("solve", "MachineReplacement", "--tau", "0.1", *more), said)


def test_strategies_at_several_levels_fit_one_hundred_columns(cli):
    _, text, _ = cli("solve", "AssetSelling", "--tau", "0.1", "--tau", "0.5")
    tables = text.partition("Strategies side by side")[2].partition("0.1-quantile:")[0]
    assert "The same in half of all runs." in tables
    assert max(map(len, tables.splitlines())) <= 100


def test_the_decisions_as_a_spreadsheet(cli, tmp_path):
    model = tmp_path / "model.csv"
    model.write_text(
        "# horizon: 3\nstate,action,next_state,probability,reward\n"
        "=Good,@wait,=Good,0.5,1.5\n=Good,@wait,-Poor,0.5,1.5\n-Poor,@wait,-Poor,1,0\n-Poor,fix,=Good,1,-0.25\n"
    )
    words = ["--tau", 0.3, "--state-name", "condition", "--stage-name", "week", "--action-name", "job"]
    assert cli("solve", model, *words, "--rule", "stage-state", "--table", tmp_path / "rule.csv")[0] == 0
    head, *rows = (tmp_path / "rule.csv").read_text().splitlines()
    assert head.startswith("condition,week")
    assert {row.partition(",")[0] for row in rows} == {"'=Good", "'-Poor"}
    assert "'@wait" in rows[0]
    assert cli("solve", model, *words, "--table", tmp_path / "plan.csv", "--decimal", ",")[0] == 0
    head, *rows = (tmp_path / "plan.csv").read_text().splitlines()
    assert head.startswith("week;condition;job;")
    assert rows[0].startswith("1;'=Good;'@wait;0;0;")
    assert any(";1,5;" in row for row in rows)
    openpyxl = pytest.importorskip("openpyxl")
    assert cli("solve", model, *words, "--rule", "state", "--table", tmp_path / "rule.xlsx")[0] == 0
    cells = list(openpyxl.load_workbook(tmp_path / "rule.xlsx").active.values)
    assert cells[0] == ("condition", "weeks 1-3")
    assert cells[1] == ("'=Good", "'@wait")


def test_a_table_that_cannot_be_written_is_refused_before_planning(cli, tmp_path):
    code, _, err = cli("solve", "SafeOrRisky", "--tau", 0.1, "--table", tmp_path / "rule.txt")
    assert (code, "--table must end in .csv or .xlsx" in err) == (2, True)
    code, _, err = cli("solve", "SafeOrRisky", "--tau", 0.1, "--tau", 0.2, "--table", tmp_path / "rule.csv")
    assert (code, "--table requires one level or objective, got 2" in err) == (2, True)
