"""`bqrl envs`: the named problems, their optima, and templates."""

import json
import re
import sys
from importlib.resources import files

import pytest

import bqrl
from bqrl.cli import envs
from bqrl.cli.envs import describe
from bqrl.results.result import read

TEMPLATES = {form: files("bqrl.cli").joinpath(f"template.{form}").read_text() for form in ("csv", "json")}


def test_a_description_has_sizes_units_and_certified_optima():
    found = describe("Gambler")
    mdp = bqrl.envs.make("Gambler")
    assert (found["states"], found["actions"], found["horizon"], found["transitions"]) == (mdp.S, mdp.A, mdp.H, 61)
    assert (found["unit"], found["stage"], found["missing"]) == ("dollars", "round", None)
    for level in found["optimum"]:
        plan = bqrl.solve(mdp, level["tau"])
        assert (level["value"], level["upper"], level["proven"]) == (plan.value, plan.upper, plan.certain)


def test_optima_of_large_problems_are_computed_on_request(monkeypatch):
    monkeypatch.setattr(envs, "LARGE", 100)
    found = describe("Gambler", large=False)
    assert found["states"] == 11
    assert found["optimum"] == []
    assert found["missing"] == "large problem; bqrl envs Gambler computes its optima"
    assert len(describe("Gambler", large=True)["optimum"]) == 3


def test_a_problem_without_its_data_is_listed_with_the_remedy(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    found = describe("ICUSepsis")
    assert found["states"] is None
    assert found["missing"].endswith("pip install --no-deps icu-sepsis")


@pytest.mark.parametrize(
    ("level", "shown"),
    [
        ({"value": 3.0, "upper": 3.0, "proven": True}, "3"),
        ({"value": 3.0, "upper": 3.5, "proven": True}, ">= 3"),
        ({"value": 3.0, "upper": 3.0, "proven": False}, "3 ?"),
    ],
)
def test_brackets_and_ties_are_marked(level, shown):
    assert envs.mark_optimum(level) == shown


def test_envs_prints_ids_when_piped(cli):
    assert cli("envs") == (0, "".join(f"bqrl/{name}-v0\n" for name in bqrl.envs.names()), "")


def test_envs_prints_a_table_at_a_terminal(cli, monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    code, out, _ = cli("envs")
    assert code == 0
    assert "what it is about" in out
    assert "AssetSelling" in out
    assert "take the offer at hand" in out
    assert "0.7917" in next(line for line in out.splitlines() if "AssetSelling" in line)
    large = next(line for line in out.splitlines() if "ICUSepsis" in line)
    assert large.count("\N{EN DASH}") >= 3  # its optima are not computed, or its data are absent
    monkeypatch.setenv("COLUMNS", "100")
    narrow = re.sub(r"\x1b\[[\d;]*m", "", cli("envs", "Gambler")[1]).splitlines()
    assert max(map(len, narrow)) == 100
    assert narrow[-1].startswith("  ")  # still a table: the description takes several lines


def test_envs_as_json_and_in_a_folder(cli, tmp_path):
    code, out, err = cli("envs", "--json", "--out", tmp_path)
    assert (code, err) == (0, "")
    problems = json.loads(out)
    assert [problem["name"] for problem in problems] == bqrl.envs.names()
    assert read(tmp_path).details["problems"] == problems
    assert [row["id"] for row in read(tmp_path).tables["problems"].rows] == [problem["id"] for problem in problems]
    selling = next(problem for problem in problems if problem["name"] == "AssetSelling")
    assert selling | {"states": 26, "actions": 2, "horizon": 10} == selling
    assert [round(24 * level["value"]) for level in selling["optimum"]] == [17, 19, 23]
    assert all(level["proven"] and level["value"] == level["upper"] for level in selling["optimum"])


def test_envs_takes_names_and_finds_the_nearest(cli):
    assert cli("envs", "Bandit", "bqrl/Gambler-v0") == (0, "bqrl/Bandit-v0\nbqrl/Gambler-v0\n", "")
    code, _, err = cli("envs", "Gamble")
    assert code == 2
    assert "name must be a known problem, got 'Gamble'; did you mean 'Gambler'?" in err


@pytest.mark.parametrize("form", TEMPLATES)
def test_a_template_is_a_model(cli, tmp_path, form):
    code, out, _ = cli("envs", "--template", form)
    assert code == 0
    (tmp_path / f"m.{form}").write_text(out)
    mdp = bqrl.load(tmp_path / f"m.{form}")
    assert (mdp.H, mdp.S, mdp.A, mdp.units) == (12, 3, 2, "EUR")
    assert mdp.mu.tolist() == [0.9, 0.1, 0.0]
    code, out, err = cli("solve", tmp_path / f"m.{form}", "--tau", 0.4, "--json")
    assert (code, err) == (0, "")  # the file states its horizon
    assert json.loads(out)["model"]["horizon"] == 12


@pytest.mark.parametrize("more", [["--json"], ["--out", "folder"], ["--all"], ["--truth"], ["Bandit"]])
def test_a_template_is_printed_alone(cli, more):
    code, out, err = cli("envs", "--template", "csv", *more)
    assert (code, out) == (2, "")
    assert "--template must be the only option" in err


def test_both_templates_hold_the_same_model(tmp_path):
    laws = []
    for form, text in TEMPLATES.items():
        (tmp_path / f"m.{form}").write_text(text)
        laws.append(bqrl.evaluate(bqrl.load(tmp_path / f"m.{form}"), bqrl.MarkovPolicy([[0, 0, 1]] * 12)))
    assert laws[0].equals(laws[1])


def test_truth_sets_published_numbers_beside_certified_optima(cli, tmp_path):
    code, out, err = cli("envs", "NoisyCliff", "Blackjack", "--truth", "--json", "--out", tmp_path)
    assert (code, err) == (0, "")
    rows = json.loads(out)
    assert [(row["problem"], row["objective"]) for row in rows[-4:]] == [
        ("NoisyCliff", f"{tau}-quantile") for tau in (0.05, 0.1, 0.25, 0.5)
    ]
    assert [row["value"] for row in rows[-4:]] == [row["upper"] for row in rows[-4:]] == [7.0, 8.0, 9.0, 10.0]
    stored = read(tmp_path).tables["truth"].rows
    assert [row["optimum"] for row in stored[-4:]] == ["7", "8", "9", "10"]
    assert (tmp_path / "truth.csv").read_text().splitlines()[0].endswith(",ratio,versions")


def test_truth_says_which_rows_it_leaves_out(cli, monkeypatch):
    slow = [entry for entry in envs.ENTRIES if entry.slow or entry.files or entry.problem == "NoisyCliff"]
    monkeypatch.setattr(envs, "ENTRIES", slow)
    code, out, _ = cli("envs", "--truth")
    assert code == 0
    assert out.count("NoisyCliff") == 4
    assert (
        f"{len(slow) - 4} rows left out; --all adds those that take minutes, --files DIR those that need files." in out
    )
    code, _, err = cli("envs", "--files", "somewhere")
    assert code == 2
    assert "--files must be given with --truth" in err
