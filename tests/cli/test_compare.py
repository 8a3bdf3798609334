"""`bqrl compare`: several learners on common random numbers."""

import csv
import os
import sys
from pathlib import Path

import numpy as np
import pytest
from helpers import OWN, SHORT, strict

import bqrl
from bqrl.cli.compare import read_learners
from bqrl.learners.registry import LEARNERS, everyone
from bqrl.policies.shares import uniform
from bqrl.results.result import read
from bqrl.study.scores import Experiment


def test_everyone_is_compared_unless_told(cli):
    entries = everyone()
    assert {learner for learner, _ in entries} == set(LEARNERS)
    assert [params for _, params in entries if params] == [{"planner": "greedy"}]
    code, out, err = cli("compare", "AssetSelling", "--tau", 0.5, "--episodes", 8, "--seeds", 1, "--workers", 1)
    assert (code, err) == (0, "")
    for wanted in ("UCB-BQRL, greedy planner", "SARSA", "TRPO", "Thompson", "best possible", "random play"):
        assert wanted in out


def test_learners_are_read_with_their_parameters():
    given = ["q-learning:epsilon=0.5,0.1,learning_rate=0.2", " ucb-bqrl : planner=greedy"]
    params = {"epsilon": (0.5, 0.1), "learning_rate": 0.2}
    assert read_learners(given) == [("q-learning", params), ("ucb-bqrl", {"planner": "greedy"})]


def test_compare_measures_every_learner_as_learn_does(cli, tiny, tmp_path):
    chosen = ("--learner", "ucbvi", "--learner", "q-learning:epsilon=0.5,0.1,learning_rate=0.2")
    code, out, err = cli(
        "compare", tiny, "--tau", 0.4, *SHORT, *chosen, "--workers", 1, "--out", tmp_path / "o", "--log", "--json"
    )
    assert (code, err) == (0, "")
    found = strict(out)
    assert found == read(tmp_path / "o").details
    assert found["settings"]["learners"] == list(chosen[1::2])
    assert [one["label"] for one in found["learners"]] == ["UCBVI", "Q-learning, epsilon=0.5,0.1, learning_rate=0.2"]
    alone = strict(cli("learn", tiny, "--tau", 0.4, *SHORT, "--learner", "ucbvi", "--json")[1])
    assert found["learners"][0]["runs"] == alone["learners"][0]["runs"]
    assert found["random"]["value"] == bqrl.evaluate(bqrl.load(tiny), uniform(bqrl.load(tiny))).quantile(0.4)
    assert found["random"]["gap"] == pytest.approx(25 * (found["best"]["value"] - found["random"]["value"]))
    named = {"learners.csv", "beats.csv", "curves.csv", "promises.png", "gaps.pdf"}
    assert {"record_ucbvi_seed42.npz", "record_ucbvi_seed43.npz"} | named <= set(os.listdir(tmp_path / "o"))
    assert "record_q-learning_epsilon-0.5-0.1_learning_rate-0.2_seed42.npz" in os.listdir(tmp_path / "o")
    for seed in (42, 43):  # as --log of learn
        lines = (tmp_path / "o" / f"episodes_ucbvi_seed{seed}.jsonl").read_text().splitlines()
        record = bqrl.Record.load(tmp_path / "o" / f"record_ucbvi_seed{seed}.npz")
        assert [strict(line)["return"] for line in lines] == record.returns.tolist()
    assert cli("report", tmp_path / "o")[0] == 0
    page = (tmp_path / "o" / "report.html").read_text()
    assert found["meaning"] in page
    assert "random play" in page


def test_learners_are_compared_on_common_noise(cli, tmp_path):
    # With one action in each state the learner has no say, so what is left of the returns is the noise.
    (tmp_path / "walk.csv").write_text(
        "idstatefrom,idaction,idstateto,probability,reward\n0,0,0,0.5,1\n0,0,1,0.5,2\n1,0,0,0.3,0\n1,0,1,0.7,5\n"
    )
    chosen = [part for name in LEARNERS for part in ("--learner", name)]
    asked = ("--episodes", 20, "--seeds", 1, "--horizon", 4, *chosen, "--workers", 1, "--out", tmp_path / "o")
    assert cli("compare", tmp_path / "walk.csv", "--tau", 0.4, *asked)[0] == 0
    returns = [bqrl.Record.load(tmp_path / "o" / f"record_{name}_seed42.npz").returns for name in LEARNERS]
    assert np.ptp(returns[0]) > 0
    assert all(np.array_equal(returns[0], other) for other in returns[1:])


def test_own_learners_are_compared_and_classes_of_one_name_kept_apart(cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for folder in ("one", "other"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "own.py").write_text(OWN)
    asked = ("--tau", 0.5, *SHORT, "--workers", 1)
    chosen = ("one/own.py:Mine", "other/own.py:Mine:action=1", "other/own.py:Mine", "sarsa")
    options = [part for name in chosen for part in ("--learner", name)]
    code, out, err = cli("compare", "SafeOrRisky", *asked, *options, "--out", tmp_path / "o", "--json")
    assert (code, err) == (0, "")
    labels = ["mine, one/own.py:Mine", "mine, action=1", "mine, other/own.py:Mine", "SARSA"]
    assert [one["label"] for one in strict(out)["learners"]] == labels
    assert len(list((tmp_path / "o").glob("record_*.npz"))) == 8
    assert len(list((tmp_path / "o/runs").glob("*.npz"))) == 6  # equal code is one learner, wherever it lies
    code, out, err = cli(
        "learn", "SafeOrRisky", "--tau", 0.5, *SHORT, "--learner", "one/own.py:Mine", "--set", "action=1"
    )
    assert (code, err) == (0, "")
    assert "mine" in out


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("np.full(", "self.broken("), "AttributeError in episode 1 of mine, seed 42: 'Mine' object has no attribute"),
        (("self.action)", "99)"), "in episode 1 of mine, seed 42: the policy must play an action from 0 to 1, got 99"),
        (("return np", "return None and np"), "in episode 1 of mine, seed 42: Mine.plan() must return a bqrl.Policy"),
    ],
)
def test_a_wrong_learner_is_one_line_with_its_episode(cli, tmp_path, change, message):
    (tmp_path / "own.py").write_text(OWN.replace(*change))
    code, _, err = cli(
        "compare", "SafeOrRisky", "--tau", 0.5, *SHORT, "--workers", 1, "--learner", f"{tmp_path}/own.py:Mine"
    )
    assert code == 2
    assert err.startswith(f"bqrl: {message}")
    assert err.count("\n") == 1


def test_a_probability_below_1_is_not_printed_as_1(cli, tiny, monkeypatch):
    pair = {"learner": "A", "other": "B", "probability": 0.9975}  # 399 of 400 pairs of seeds
    monkeypatch.setattr(Experiment, "beats", lambda _: [pair])
    chosen = ("--learner", "q-learning", "--learner", "sarsa")
    out = cli("compare", tiny, "--tau", 0.4, *SHORT, *chosen, "--workers", 1)[1]
    assert "A run of A beats B with probability 0.9975 (all pairs of seeds" in out


SEVERAL = ("AssetSelling", "--tau", 0.2, *SHORT, "--workers", 1, "--learner", "sarsa", "--learner", "q-learning")


def test_several_problems_are_one_table_and_a_folder_with_a_section_each(cli, tiny, tmp_path):
    code, out, err = cli("compare", tiny, *SEVERAL, "--out", tmp_path / "o", "--log", "--json")
    assert (code, err) == (0, "")
    found, result = strict(out), read(tmp_path / "o")
    assert (found, result.kind) == (result.details, "suite")
    names = [Path(tiny).stem, "AssetSelling"]
    assert list(found["problems"]) == found["settings"]["problems"] == names
    for name, problem in zip(names, (tiny, "AssetSelling"), strict=True):
        alone = strict(cli("compare", problem, *SEVERAL[1:], "--json")[1])
        here = found["problems"][name]
        assert [one["runs"] for one in here["learners"]] == [one["runs"] for one in alone["learners"]]
        assert here["settings"] == alone["settings"]
        assert (tmp_path / "o" / name / "episodes_sarsa_seed42.jsonl").is_file()
        assert {f"{name}/learners", f"{name}/beats", f"{name}/curves"} <= set(result.tables)
        best, random = alone["best"]["value"], alone["random"]["value"]
        (shares,) = (row for row in found["shares"] if row["problem"] == name)
        rows = [row for row in result.tables["learners"].rows if row["problem"] == name]
        assert [row["learner"] for row in rows][-2:] == ["best possible", "random play"]
        for row in rows:
            assert row["share"] == pytest.approx((row["value"] - random) / (best - random))
            assert shares.get(row["learner"], row["share"]) == pytest.approx(row["share"])
    assert list(result.charts) == ["figure", *(f"{name}/{chart}" for name in names for chart in ("promises", "gaps"))]
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "o/runs").glob("*.npz")}
    assert len(before) == 8
    code, out, err = cli("compare", tiny, *SEVERAL, "--out", tmp_path / "o", "--log")  # repeats no run
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / "o/runs").glob("*.npz")}
    assert (code, err) == (0, "")
    assert "2 problems; 0.2-quantile, 25 episodes, 2 seeds from 42" in out
    assert found["meaning"] in " ".join(out.split())
    assert cli("report", tmp_path / "o")[0] == 0
    text = (tmp_path / "o" / "report.html").read_text()
    places = [text.index(f"<h2>{name}</h2>") for name in names]
    assert text.index("<h2>Tables</h2>") < places[0] < places[1]
    assert text.count('<div class="view" id="chart-') == 5


def test_a_folder_of_several_problems_is_refused_for_one_and_a_problem_is_given_once(cli, tiny, tmp_path):
    assert cli("compare", tiny, *SEVERAL, "--out", tmp_path / "o")[0] == 0
    code, _, err = cli("compare", *SEVERAL, "--out", tmp_path / "o")
    assert (code, err) == (2, f"bqrl: {tmp_path / 'o'} holds a suite result; give another folder\n")
    code, _, err = cli("compare", "AssetSelling", *SEVERAL)
    assert (code, err) == (2, "bqrl: the problem 'AssetSelling' is given twice; drop one of them\n")
    (tmp_path / "p" / "AssetSelling").mkdir(parents=True)
    (tmp_path / "p" / "AssetSelling" / "gaps.png").write_text("mine")
    code, _, err = cli("compare", tiny, *SEVERAL, "--out", tmp_path / "p")
    assert code == 2
    assert "gaps.png was not written by bqrl" in err


def test_tables_and_charts_of_a_folder_name_their_seeds_and_versions(cli, tiny, tmp_path):
    assert cli("compare", tiny, *SEVERAL, "--out", tmp_path / "o")[0] == 0
    for table in ("shares", "learners", f"{Path(tiny).stem}/seeds", "AssetSelling/curves", "AssetSelling/beats"):
        with open(tmp_path / "o" / f"{table}.csv", encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
        assert {row["seed_numbers"] for row in rows} == {"42 43"}
        assert all(row["versions"].startswith(f"bqrl {bqrl.__version__}, code ") for row in rows)
    assert b"seeds 42 43" in (tmp_path / "o" / "figure.png").read_bytes()
    assert "versions" not in read(tmp_path / "o").tables["learners"].columns  # a column of the file alone
