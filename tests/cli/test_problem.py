"""Models on the command line: columns, laws of the first state, rates, environments, and bad files."""

import json
import os
from pathlib import Path

import gymnasium as gym
import pytest
from helpers import TINY_CSV, Corridor, assert_refused, one_line, strict

import bqrl
from bqrl.cli.problem import ProblemOptions

gym.register("bqrl-test/Endless-v0", Corridor)

TABLE = "from,decision,to,prob,payoff,note\nWell,wait,Well,0.5,2,x\nWell,wait,Sick,0.5,1,y\nSick,wait,Sick,1,0,z\n"


def solved(cli, *arguments):
    code, out, err = cli("solve", *arguments, "--tau", 0.4, "--json")
    assert code == 0, err
    return json.loads(out), err


def test_columns_and_a_law_of_first_states(cli, tmp_path):
    path = tmp_path / "table.csv"
    path.write_text(TABLE.replace("from", "u").replace("to,", "v,"))
    chosen = ["--columns", "state=u, next_state=v", "--horizon", 2]
    found, err = solved(cli, path, *chosen, "--start", "Well=0.5,Sick=0.5")
    assert err == "bqrl: table.csv: columns ignored: 'note'\n"
    assert found["levels"][0]["value"] == 0.0
    assert solved(cli, path, *chosen, "--start", "Well")[0]["levels"][0]["value"] == 1.0


def factor(discount=None, rate=None):
    return ProblemOptions(problem="x", discount=discount, discount_rate=rate).factor


def test_a_discount_rate_is_a_factor():
    assert factor(rate="3%") == pytest.approx(1 / 1.03)
    assert factor(rate="0.03") == pytest.approx(1 / 1.03)
    assert factor(0.9) == 0.9
    for wrong in ("3 percent", "-1%", "300%", "nan", ""):
        with pytest.raises(ValueError, match=r"--discount-rate must be a rate per stage such as 3% or 0.03"):
            factor(rate=wrong)
    with pytest.raises(ValueError, match="exclude each other"):
        factor(0.9, "3%")


def test_a_certainty_is_one_minus_the_level():
    """Once --tau 0.9 was the only way to ask for 90 % certainty, and means 10 %."""
    levels = {"90%": 0.1, "0.9": 0.1, " 99.5 %": 0.005, "10%": 0.9}
    assert {text: ProblemOptions(problem="x", certainty=[text]).level() for text in levels} == levels
    assert ProblemOptions(problem="x", certainty=["50%", "90%"]).levels() == [0.5, 0.1]
    assert ProblemOptions(problem="x").level(0.3) == 0.3
    for bad in ("90", "0", "100%", "-5%", "nan", "much", "%", ""):
        with pytest.raises(ValueError, match=r"--certainty must lie between 0% and 100%, such as 90% or 0.9, got"):
            ProblemOptions(problem="x", certainty=[bad]).level()
    with pytest.raises(ValueError, match="--tau and --certainty exclude each other; give one of them"):
        ProblemOptions(problem="x", certainty=["90%"], tau=[0.1]).level()
    with pytest.raises(ValueError, match="--certainty must be given once, got 2 values"):
        ProblemOptions(problem="x", certainty=["90%", "50%"]).level()


@pytest.mark.parametrize("command", ["solve", "learn", "compare"])
def test_every_command_with_a_level_takes_a_certainty(cli, tiny, command):
    runs = () if command == "solve" else ("--episodes", 5, "--seeds", 1, "--learner", "psrl")
    levels, settings = [], []
    for asked in (("--tau", 0.4), ("--certainty", "60%")):
        code, out, _ = cli(command, tiny, *asked, *runs, "--json")
        assert code == 0
        document = json.loads(out)
        levels.append([level["tau"] for level in document["levels"]] if command == "solve" else [document["tau"]])
        settings.append(document["settings"]["tau"])
    assert levels == [[0.4], [0.4]]
    assert settings[0] == settings[1]


def test_a_small_discount_is_questioned(cli, tiny):
    assert cli("solve", tiny, "--tau", 0.4, "--discount", 0.5)[2] == ""
    code, _, err = cli("solve", tiny, "--tau", 0.4, "--discount", 0.03)
    assert code == 0
    assert one_line(err)
    assert "the discount factor 0.03 is small; for a discount rate of 3 % use 0.970874" in err
    assert cli("solve", tiny, "--tau", 0.4, "--discount-rate", "3%")[2] == ""
    asked = ("learn", tiny, "--learner", "ucbvi", "--episodes", 3, "--seeds", 1, "--discount", 0.03, "--json")
    assert cli(*asked)[2] == err


@pytest.mark.parametrize(
    ("text", "start"),
    [
        (None, None),
        ("Well", "Well"),
        ("a=b", "a=b"),  # a name with a sign in it
        ("Well=0.8, Sick = 0.2", {"Well": 0.8, "Sick": 0.2}),
    ],
)
def test_first_states_are_a_state_or_a_law(text, start):
    assert ProblemOptions(problem="x", start=text).changes["start"] == start


BAD = {
    "loop.csv": "loop.csv is a symbolic link that leads back to itself",
    "pipe.json": "pipe.json is not a regular file",
    "tabel.csv": "there is no file tabel.csv; did you mean 'table.csv'?",
    "table.csv --columns state=form": "columns must name headers of the table, got 'form'; did you mean 'from'?",
    "table.csv --columns stat=from": "did you mean 'state'?",
    "table.csv --start Wel": "start must name a state, got 'Wel'; did you mean 'Well'?",
    "table.csv --start Well=80,Sick=20": "sum 100: percentages?",
    "table.csv --discount-rate 3 --discount 0.9": "exclude each other",
    "tiny.json --columns state=from": "columns must be given for .csv, .xlsx and .parquet files only, got",
    "AssetSelling --columns state=from": "columns must be given for .csv, .xlsx and .parquet files only, got 'AssetSelling'",
}


@pytest.mark.parametrize("arguments", BAD)
def test_bad_models_get_one_line(cli, tiny, tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_text(
        TABLE.replace(",note", "").replace(",x", "").replace(",y", "").replace(",z", "")
    )
    (tmp_path / "loop.csv").symlink_to("loop.csv")
    os.mkfifo(tmp_path / "pipe.json")
    assert_refused(cli("solve", *arguments.split(), "--tau", 0.4, "--horizon", 2), BAD[arguments])


def test_a_missing_column_is_one_line_with_the_remedy(cli, tmp_path):
    (tmp_path / "m.csv").write_text("from,action,to,prob,rewrd\nA,go,A,1,1\n")
    said = "expected a column for the reward, got 'rewrd'; map reward to 'rewrd' with --columns"
    assert_refused(cli("solve", tmp_path / "m.csv", "--tau", 0.4), said)


def test_the_gymnasium_id_names_the_same_problem(cli):
    by_name, by_id = (
        json.loads(cli("solve", name, "--tau", 0.1, "--json")[1]) for name in ("AssetSelling", "bqrl/AssetSelling-v0")
    )
    assert by_name["levels"][0]["value"] == by_id["levels"][0]["value"] == 19 / 24
    assert by_id["model"]["name"] == "AssetSelling"


def test_states_are_called_as_the_file_calls_them(cli, tmp_path):
    path = tmp_path / "tiny.csv"
    path.write_text(TINY_CSV)
    code, out, _ = cli("solve", path, "--tau", 0.4, "--horizon", 3, "--start", 2, "--json")
    assert code == 0
    assert json.loads(out)["model"]["start"] == "2"
    assert json.loads(out)["levels"][0]["value"] == 3.0
    code, _, err = cli("solve", path, "--tau", 0.4, "--horizon", 3, "--start", 3)
    assert code == 2
    assert one_line(err)
    assert "--start must name a state, got '3'; states run from '1' to '2'" in err


def test_a_csv_file_without_a_horizon_says_what_was_assumed(cli, tmp_path):
    path = tmp_path / "tiny.csv"
    path.write_text(TINY_CSV)
    code, out, err = cli("solve", path, "--tau", 0.4)
    assert code == 0
    assert "100 stages" in out
    assert one_line(err)
    assert "--horizon" in err


def test_a_horizon_is_limited_by_the_number_of_states(cli, monkeypatch):
    monkeypatch.setattr("bqrl.mdp.validation.MAX_PLACES", 2600)
    assert cli("solve", "AssetSelling", "--tau", 0.1, "--horizon", 100)[0] == 0
    for command in ("solve", "learn"):
        code, _, err = cli(command, "AssetSelling", "--tau", 0.1, "--horizon", 101)
        assert code == 2
        assert "--horizon must be at most 100 " in err


def test_a_horizon_that_nobody_says_is_announced(cli):
    code, _, err = cli("learn", "bqrl-test/Endless-v0", "--learner", "ppo", "--episodes", 3, "--seeds", 1, "--json")
    assert code == 0
    assert one_line(err)
    assert "assuming 100 stages" in err


@pytest.mark.parametrize("command", ["solve", "learn", "compare"])
def test_every_command_takes_the_same_options_of_a_problem(cli, tmp_path, command):
    path = tmp_path / "table.csv"
    path.write_text(TABLE.replace("from", "u").replace("to,", "v,"))
    asked = [path, "--columns", "state=u,next_state=v", "--horizon", 2, "--start", "Well", "--discount-rate", "25%"]
    runs = [] if command == "solve" else ["--episodes", 3, "--seeds", 1]
    runs += ["--learner", "sarsa"] if command == "compare" else []
    code, out, err = cli(command, *asked, "--tau", 0.4, "--json", *runs)
    assert (code, err) == (0, "bqrl: table.csv: columns ignored: 'note'\n")
    found = json.loads(out)
    assert (found["model"]["discount"], found["settings"]["discount"]) == (0.8, 0.8)
    assert found["settings"]["columns"] == "state=u,next_state=v"


def test_an_option_names_the_reward_structure_of_a_model_checker(cli):
    place = Path(__file__).parents[2] / "examples" / "machine.umb"
    asked = ("solve", place, "--tau", 0.1, "--horizon", 20, "--json")
    found = strict(cli(*asked, "--rewards", "profit")[1])
    assert found["levels"][0]["value"] == bqrl.solve(bqrl.load(place, horizon=20, rewards="profit"), 0.1).value
    assert found["settings"]["rewards"] == "profit"
    assert "choose from profit, repairs" in cli(*asked)[2]
    other = cli("solve", "AssetSelling", "--tau", 0.1, "--rewards", "profit")
    assert "rewards must be given for .umb and .drn files only" in other[2]
