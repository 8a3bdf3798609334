import csv
import json

import pytest
from helpers import one_line

SETTINGS = """
[theory]
name = "small"
title = "A small <test>"
seed = 3

[problems.hard]
hard = { tau = 0.5, rho = 0.0625, actions = 2, horizon = 2 }

[coverage]
runs = 4
episodes = 10
delta = 0.1
params = { c_conf = "theory" }
cases = [{ problem = "hard", tau = 0.5 }]

[buffer]
points = 5
powers = [0.5]
cases = [{ problem = "hard", tau = 0.5 }]

[knapsack]
weights = 6

[quick.coverage]
runs = 2
"""


@pytest.fixture
def settings(tmp_path):
    path = tmp_path / "small.toml"
    path.write_text(SETTINGS)
    return path


def written(folder):
    return json.loads((folder / "result.json").read_text())


def test_theory_writes_tables_charts_and_the_result(cli, settings, tmp_path):
    code, out, err = cli("theory", "--settings", settings, "--out", tmp_path / "t")
    assert (code, err) == (0, "")
    assert "Coverage. The confidence sets held" in out
    result = written(tmp_path / "t")
    assert (result["kind"], result["settings"]["seed"], result["settings"]["quick"]) == ("theory", 3, False)
    assert list(result["details"]["experiments"]) == ["coverage", "buffer", "knapsack"]
    names = {path.name for path in (tmp_path / "t").iterdir()}
    assert {"coverage.csv", "coverage_runs.csv", "buffer_clears.csv", "knapsack.png", "knapsack.pdf"} <= names
    with (tmp_path / "t" / "coverage_runs.csv").open() as file:
        rows = list(csv.DictReader(file))
    runs = result["details"]["experiments"]["coverage"]["tables"]["coverage_runs"]
    assert [float(row["largest_ratio"]) for row in rows] == [row["largest_ratio"] for row in runs]


def test_json_is_one_document_and_only_names_what_to_run(cli, settings, tmp_path):
    arguments = ("theory", "--settings", settings, "--out", tmp_path / "t", "--json")
    code, out, err = cli(*arguments, "--only", "knapsack", "--quick")
    assert (code, err) == (0, "")
    document = json.loads(out)
    assert list(document["experiments"]) == ["knapsack"]
    assert document["settings"]["quick"]
    assert document["sentences"][0].startswith("Quick run")
    assert document["experiments"] == written(tmp_path / "t")["details"]["experiments"]


def test_a_second_call_keeps_the_other_experiments(cli, settings, tmp_path):
    for name in ("knapsack", "coverage"):
        assert cli("theory", "--settings", settings, "--out", tmp_path / "t", "--only", name)[0] == 0
    assert list(written(tmp_path / "t")["details"]["experiments"]) == ["coverage", "knapsack"]
    assert (tmp_path / "t" / "knapsack.csv").is_file()


def test_a_quick_run_does_not_replace_the_full_experiments(cli, settings, tmp_path):
    assert cli("theory", "--settings", settings, "--out", tmp_path / "t", "--only", "knapsack")[0] == 0
    code, out, err = cli("theory", "--settings", settings, "--out", tmp_path / "t", "--only", "knapsack", "--quick")
    assert (code, out) == (2, "")
    assert one_line(err)
    assert "give another folder for a quick run" in err


@pytest.mark.parametrize("name", ["coverage_runs.csv", "coverage.vl.json", "coverage.png"])
def test_a_foreign_file_is_refused_before_any_work(cli, settings, tmp_path, name, monkeypatch):
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / name).write_text("mine")
    monkeypatch.setattr("bqrl.cli.theory.run_theory", None)  # no work is done
    code, out, err = cli("theory", "--settings", settings, "--out", tmp_path / "t", "--only", "coverage")
    assert (code, out) == (2, "")
    assert one_line(err)
    assert name in err
    assert (tmp_path / "t" / name).read_text() == "mine"


def test_the_report_shows_the_experiments(cli, settings, tmp_path):
    names = ("--only", "buffer", "--only", "knapsack")
    assert cli("theory", "--settings", settings, "--out", tmp_path / "t", *names)[0] == 0
    code, _, err = cli("report", tmp_path / "t")
    assert (code, err) == (0, "")
    page = (tmp_path / "t" / "report.html").read_text()
    assert "A small &lt;test&gt;" in page
    assert "<test>" not in page
    sentences = [line["text"] for line in written(tmp_path / "t")["sentences"]]
    assert any(line.startswith("Knapsack. Weights ") and line in page for line in sentences)


@pytest.mark.parametrize(
    ("arguments", "phrase"),
    [
        (("--only", "covrage"), "did you mean 'coverage'?"),
        (("--only", "hard"), "--only must be one of 'coverage', 'buffer', 'knapsack', got 'hard'"),
        (("--settings", "nowhere.toml"), "there is no settings file nowhere.toml"),
    ],
)
def test_wrong_options_are_one_line(cli, settings, tmp_path, arguments, phrase):
    code, out, err = cli("theory", "--settings", settings, "--out", tmp_path / "t", *arguments)
    assert (code, out) == (2, "")
    assert one_line(err)
    assert phrase in err


def test_wrong_settings_name_the_file(cli, tmp_path):
    (tmp_path / "bad.toml").write_text("[theory\n")
    code, _, err = cli("theory", "--settings", tmp_path / "bad.toml", "--out", tmp_path / "t")
    assert code == 2
    assert one_line(err)
    assert "bad.toml: " in err
