"""`bqrl learn`: tables, parameters, folders, logs, environments, and resuming."""

import csv
import io
import os
import random
import signal
import subprocess
import sys
import time
import types

import gymnasium as gym
import numpy as np
import pytest
from helpers import SHORT, Corridor, one_line, strict

import bqrl
from bqrl.policies.shares import uniform
from bqrl.results.result import read
from bqrl.study.scores import mean_band
from bqrl.study.store import Store, execute

gym.register("bqrl-test/Corridor-v0", Corridor, max_episode_steps=6)


def test_learn_prints_a_table_and_what_it_means(cli):
    code, out, err = cli("learn", "AssetSelling", "--tau", 0.1, *SHORT)
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert (
        "AssetSelling: 26 states, 2 actions, 10 stages, start 5; PSRL, 0.1-quantile, 25 episodes, 2 seeds from 42"
        in text
    )
    for heading in (
        "learner",
        "quantile",
        "cumulative quantile gap",
        "cumulative mean regret",
        "mean",
        "optimal after",
    ):
        assert heading in text
    for row in ("PSRL", "best possible 0.7916", "random play"):
        assert row in text
    assert "The 0.1-quantile of the final policies of PSRL is " in text
    assert "PSRL has a mean cumulative gap to the exact optimum of" in text


def test_learn_measures_what_the_library_measures(cli):
    mdp = bqrl.envs.make("AssetSelling")
    code, out, err = cli("learn", "AssetSelling", "--tau", 0.3, "--learner", "ucbvi", *SHORT, "--seed", 5, "--json")
    assert (code, err) == (0, "")
    assert out.isascii()
    found = strict(out)
    assert found["format"] == "bqrl learn 2"
    assert found["best"]["value"] == bqrl.solve(mdp, 0.3).value
    assert found["random"]["value"] == bqrl.evaluate(mdp, uniform(mdp)).quantile(0.3)
    (learner,) = found["learners"]
    assert [row["seed"] for row in learner["runs"]] == [5, 6]
    for row in learner["runs"]:
        record = bqrl.learn(mdp, "ucbvi", 0.3, 25, row["seed"])
        final = bqrl.evaluate(mdp, record.final_policy)
        assert row["value"] == final.quantile(0.3)
        assert row["mean"] == pytest.approx(final.mean())
        assert row["gap"] == pytest.approx(record.gap().sum())
        assert row["mean_regret"] == pytest.approx(record.expected_regret().sum())
        assert row["return"] == pytest.approx(record.returns.mean())
    for key, value in learner["mean"].items():
        assert value == pytest.approx(np.mean([row[key] for row in learner["runs"]]))
        assert learner["std"][key] == pytest.approx(np.std([row[key] for row in learner["runs"]], ddof=1))
    assert strict(cli("learn", "AssetSelling", "--tau", 0.3, "--learner", "ucbvi", *SHORT, "--seed", 5, "--json")[1])[
        "learners"
    ] == found["learners"]  # fmt: skip


def test_parameters_reach_the_learner(cli, tiny):
    asked = (
        "--learner",
        "ucb-bqrl",
        "--planner",
        "greedy",
        "--set",
        "c_conf=0.5",
        "--set",
        "buffer=power:0.5",
        "--set",
        "stationary=yes",
    )
    code, out, err = cli("learn", tiny, "--tau", 0.4, *SHORT, *asked, "--json")
    assert (code, err) == (0, "")
    found = strict(out)
    params = {"planner": "greedy", "c_conf": 0.5, "buffer": "power:0.5", "stationary": True}
    assert found["learners"][0]["params"] == params
    record = bqrl.learn(bqrl.load(tiny), "ucb-bqrl", 0.4, 25, 42, **params)
    assert found["learners"][0]["runs"][0]["gap"] == pytest.approx(record.gap().sum())


@pytest.mark.parametrize("planner", ["target", "greedy", "frontier"])
def test_every_planner_learns_a_tiny_problem(cli, tiny, tmp_path, planner):
    code, _, err = cli(
        "learn",
        tiny,
        "--tau",
        0.4,
        "--learner",
        "ucb-bqrl",
        "--planner",
        planner,
        "--episodes",
        10,
        "--seeds",
        1,
        "--out",
        tmp_path / "o",
    )
    assert (code, err) == (0, "")
    assert "policy_tau0p4.csv" in os.listdir(tmp_path / "o")
    assert cli("report", tmp_path / "o")[0] == 0


def test_the_problem_s_options_reach_it(cli, tiny):
    def model(*asked):
        return strict(cli("learn", tiny, "--tau", 0.4, "--episodes", 5, "--seeds", 1, "--json", *asked)[1])["model"]

    assert model()["horizon"] == 2
    assert model("--horizon", 4)["horizon"] == 4
    assert model("--start", "out")["start"] == "out"
    assert model("--discount", 0.5, "--learner", "ucbvi")["discount"] == 0.5


def test_learn_writes_everything_and_prints_the_same_document(cli, tiny, tmp_path):
    folder = tmp_path / "made" / "here"
    code, out, err = cli("learn", tiny, "--tau", 0.4, *SHORT, "--out", folder, "--log", "--json")
    assert (code, err) == (0, "")
    records = {f"record_seed{seed}.npz" for seed in (42, 43)}
    logs = {f"episodes_seed{seed}.jsonl" for seed in (42, 43)}
    charts = {f"{name}.{kind}" for name in ("promises", "gaps") for kind in ("png", "pdf", "vl.json")}
    policy = {"policy_tau0p4.csv", "policy_tau0p4.npz"}
    held = {name for name in os.listdir(folder) if name != ".bqrl.lock"}
    assert (
        held
        == {"runs"}
        | {"result.json", "manifest.json", "learners.csv", "seeds.csv", "curves.csv"}
        | records
        | logs
        | charts
        | policy
    )
    stored = read(folder).details
    assert stored == strict(out)
    assert stored["versions"]["bqrl"] == bqrl.__version__

    mdp, rows = bqrl.load(tiny), stored["learners"][0]["runs"]
    for seed, row in zip((42, 43), rows, strict=True):
        record = bqrl.Record.load(folder / f"record_seed{seed}.npz")
        assert record.gap().sum() == pytest.approx(row["gap"])
        lines = [strict(line) for line in (folder / f"episodes_seed{seed}.jsonl").read_text().splitlines()]
        assert [line["return"] for line in lines] == record.returns.tolist()
    policy = bqrl.load(folder / "policy_tau0p4.npz")
    assert bqrl.evaluate(mdp, policy).quantile(0.4) == max(row["value"] for row in rows)
    curves = list(csv.DictReader(io.StringIO((folder / "curves.csv").read_text())))
    assert [int(row["episode"]) for row in curves] == list(range(1, 26))
    assert float(curves[-1]["gap_mean"]) == pytest.approx(stored["learners"][0]["mean"]["gap"])
    low, high = mean_band(np.array([[row["gap"]] for row in rows]), "gap")
    assert [float(curves[-1][key]) for key in ("gap_low", "gap_high")] == pytest.approx([*low, *high])


def test_fewer_seeds_leave_no_record_of_the_run_before(cli, tiny, tmp_path):
    for seeds in (3, 1):
        asked = ("--episodes", 5, "--seeds", seeds, "--log", "--out", tmp_path / "o")
        assert cli("learn", tiny, "--tau", 0.4, *asked)[0] == 0
    runs = [name for name in os.listdir(tmp_path / "o") if name.startswith(("record", "episodes"))]
    assert sorted(runs) == ["episodes_seed42.jsonl", "record_seed42.npz"]
    (tmp_path / "o" / "record_seed43.npz").write_text("mine")
    code, _, err = cli("learn", tiny, "--tau", 0.4, "--episodes", 5, "--seeds", 2, "--out", tmp_path / "o")
    assert code == 2
    assert "record_seed43.npz was not written by bqrl" in err


def test_tensorboard_is_an_extra(cli, tiny, tmp_path, monkeypatch):
    asked = ("learn", tiny, "--tau", 0.4, "--episodes", 4, "--seeds", 1, "--out", tmp_path / "o", "--tensorboard")
    monkeypatch.setitem(sys.modules, "tensorboard.summary", None)
    code, out, err = cli(*asked)
    assert (code, out) == (2, "")
    assert one_line(err)
    assert 'pip install "bqrl[tensorboard]"' in err

    written = []

    class Writer:
        def __init__(self, folder):
            self.folder = folder

        def add_scalar(self, tag, data, step):
            written.append((self.folder, tag, step))

        def close(self):
            pass

    summary = types.ModuleType("tensorboard.summary")
    summary.Writer = Writer
    monkeypatch.setitem(sys.modules, "tensorboard", types.ModuleType("tensorboard"))
    monkeypatch.setitem(sys.modules, "tensorboard.summary", summary)
    assert cli(*asked)[0] == 0
    assert [(tag, step) for _, tag, step in written if tag == "return"] == [("return", t) for t in range(4)]
    assert {folder for folder, _, _ in written} == {str(tmp_path / "o" / "tensorboard" / "seed42")}
    first, written[:] = sorted(written), []
    assert cli(*asked)[0] == 0  # the run is stored, and its episodes come from the record
    assert sorted(written) == first
    written.clear()
    assert cli(*asked, "--seeds", 2, "--workers", 2)[0] == 0  # each run has a folder of its own
    assert [step for folder, tag, step in written if (folder[-2:], tag) == ("43", "return")] == [0, 1, 2, 3]
    assert {entry for entry in written if entry[0][-2:] == "42"} == set(first)


def written(folder):
    """The files of a result that hold numbers, without the time that it took."""
    kinds = (".csv", ".jsonl", ".npz")
    found = {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in kinds}
    return found | {"details": {key: value for key, value in read(folder).details.items() if key != "seconds"}}


def test_finished_runs_are_not_repeated(cli, tiny, tmp_path, monkeypatch):
    asked = ("learn", tiny, "--tau", 0.4, "--episodes", 30, "--log")
    assert cli(*asked, "--seeds", 4, "--out", tmp_path / "whole")[0] == 0
    played = []
    monkeypatch.setattr("bqrl.study.runner.execute", lambda run: played.append(run) or execute(run))
    assert cli(*asked, "--seeds", 2, "--out", tmp_path / "parts")[0] == 0
    assert cli(*asked, "--seeds", 4, "--out", tmp_path / "parts")[0] == 0
    assert [run.seed for run in played] == [42, 43, 44, 45]
    assert written(tmp_path / "parts") == written(tmp_path / "whole")
    next((tmp_path / "parts" / "runs").glob("*_43_*")).write_bytes(b"damaged")
    assert cli(*asked, "--seeds", 4, "--out", tmp_path / "parts")[0] == 0
    assert [run.seed for run in played[4:]] == [43]
    assert written(tmp_path / "parts") == written(tmp_path / "whole")


def test_other_parameters_or_problems_take_no_stored_run(cli, tiny, tmp_path, monkeypatch):
    played = []
    monkeypatch.setattr("bqrl.study.runner.execute", lambda run: played.append(run) or execute(run))
    asked = ("learn", tiny, "--episodes", 5, "--seeds", 1, "--learner", "q-learning", "--out", tmp_path / "o")
    more = ([], ["--set", "learning_rate=0.2"], ["--horizon", 3], ["--tau", 0.3], ["--delta", 0.1], ["--discount", 0.9])
    for one in more:
        assert cli(*asked, *one)[0] == 0
    assert len(played) == len(more)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("command", "kills"),
    [("learn", 2), ("compare", 1), *(pytest.param(one, 8, marks=pytest.mark.nightly) for one in ("learn", "compare"))],
)
def test_kills_at_any_moment_change_nothing(cli, tiny, tmp_path, command, kills):
    asked = [command, tiny, "--tau", "0.4", "--episodes", "1500", "--seeds", "6", "--workers", "2"]
    asked += ["--learner", "sarsa", "--learner", "psrl"] if command == "compare" else ["--log"]
    total = 12 if command == "compare" else 6
    assert cli(*asked, "--workers", 1, "--out", tmp_path / "whole")[0] == 0
    out, chance = tmp_path / "killed", random.Random(3)
    for kill in range(kills):
        process = subprocess.Popen([sys.executable, "-m", "bqrl", *asked, "--out", str(out)], start_new_session=True)
        before, end = len(list(out.glob("runs/*.npz"))), time.monotonic() + 60.0
        wanted = min(total, before + (0 if kill == 0 else chance.randint(1, 2)))
        while len(list(out.glob("runs/*.npz"))) < wanted and process.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.005)
        time.sleep(chance.uniform(0.0, 0.3))
        os.killpg(process.pid, signal.SIGKILL) if kill % 2 else process.kill()
        process.wait()
    assert cli(*asked, "--out", out)[0] == 0
    assert written(out) == written(tmp_path / "whole")


def test_an_environment_that_cannot_be_identified_is_learned_without_a_store(cli, tmp_path):
    gym.register("bqrl-test/Odd-v0", lambda odd: Corridor(), max_episode_steps=6, kwargs={"odd": {1, 2}})
    asked = ("learn", "bqrl-test/Odd-v0", "--learner", "sarsa", *SHORT, "--out", tmp_path / "o")
    assert cli(*asked)[::2] == (0, "")
    assert not (tmp_path / "o" / "runs").exists()
    assert (tmp_path / "o" / "record_seed42.npz").is_file()


def test_two_commands_do_not_share_a_folder(cli, tiny, tmp_path):
    with Store(tmp_path / "o"):
        code, out, err = cli("learn", tiny, "--episodes", 5, "--out", tmp_path / "o")
    assert (code, out) == (2, "")
    assert err == f"bqrl: another command is running in {tmp_path / 'o'}; wait for it or give another folder\n"


def test_an_error_within_a_run_is_one_line(cli, tiny, tmp_path, monkeypatch):
    def fail(run):
        raise ValueError("the environment has gone")

    monkeypatch.setattr("bqrl.study.runner.execute", fail)
    code, out, err = cli("learn", tiny, "--episodes", 5, "--out", tmp_path / "o")
    assert (code, out, err) == (2, "", "bqrl: the environment has gone\n")


def test_a_toy_text_id_is_learned_and_scored(cli):
    code, out, err = cli("learn", "FrozenLake-v1", "--tau", 0.5, "--learner", "ucbvi", "--episodes", 20, "--seeds", 1,
                         "--horizon", 30, "--json")  # fmt: skip
    assert (code, err) == (0, "")
    found = strict(out)
    assert found["model"] | {"name": "FrozenLake-v1", "states": 16, "horizon": 30, "start": "0"} == found["model"]
    assert found["best"]["value"] == bqrl.solve(bqrl.from_gymnasium("FrozenLake-v1", horizon=30), 0.5).value


def test_an_environment_with_tuples_as_observations_is_learned(cli):
    code, out, err = cli("learn", "Blackjack-v1", "--tau", 0.5, "--episodes", 10, "--seeds", 1, "--horizon", 20)
    assert (code, err) == (0, "")
    assert out.startswith("Blackjack-v1: 704 states, 2 actions, 20 stages, start chosen by the environment; PSRL")


def test_an_environment_without_a_kernel_has_returns_only(cli, tmp_path):
    asked = ("bqrl-test/Corridor-v0", "--tau", 0.5, *SHORT)
    code, out, err = cli("learn", *asked, "--learner", "q-learning", "--out", tmp_path / "o", "--json")
    assert (code, err) == (0, "")
    found = strict(out)
    assert (found["best"], found["random"]) == (None, None)
    assert "gap" not in found["learners"][0]["mean"]
    assert (
        found["learners"][0]["runs"][0]["return"] == bqrl.Record.load(tmp_path / "o/record_seed42.npz").returns.mean()
    )
    assert {"record_seed42.npz", "record_seed43.npz", "returns.png"} <= set(os.listdir(tmp_path / "o"))
    assert cli("report", tmp_path / "o")[0] == 0
    code, out, _ = cli("learn", *asked, "--learner", "q-learning")
    assert code == 0
    assert "last tenth" in out
    assert "does not expose its transition probabilities" in " ".join(out.split())
    code, out, err = cli("compare", *asked, "--learner", "q-learning", "--learner", "ppo", "--out", tmp_path / "c")
    assert (code, err) == (0, "")
    assert "Q-learning" in out
    assert cli("report", tmp_path / "c")[0] == 0
    code, out, err = cli("learn", *asked)  # psrl plans on what it has seen
    assert (code, err) == (0, "")
    assert "last tenth" in out
    code, _, err = cli("learn", *asked, "--learner", "ppo", "--start", "1")
    assert code == 2
    assert "--start needs a model" in err


@pytest.mark.parametrize("where", ["bqrl.study.runner.execute", "bqrl.results.learning.learning_result"])
def test_an_interrupted_run_says_that_finished_ones_are_kept(cli, tiny, tmp_path, monkeypatch, where):
    def stop(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(where, stop)
    code, out, err = cli("learn", tiny, "--episodes", 5, "--out", tmp_path / "o")
    kept = f"bqrl: stopped; finished runs are kept in {tmp_path / 'o'}, and the same command continues\n"
    assert (code, out, err) == (130, "", f"{kept}bqrl: interrupted\n")


@pytest.mark.slow
def test_sigterm_stops_a_command_as_ctrl_c_does(tmp_path):
    asked = ["learn", "AssetSelling", "--episodes", "200000", "--workers", "2", "--out", str(tmp_path / "o")]
    with subprocess.Popen([sys.executable, "-m", "bqrl", *asked], stderr=subprocess.PIPE, text=True) as process:
        while not (tmp_path / "o" / "runs").is_dir():
            time.sleep(0.05)
        time.sleep(1.0)
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.endswith("the same command continues\nbqrl: interrupted\n")


BINS = "[[0], [0], [-0.05, 0, 0.05], [-0.5, 0, 0.5]]"


def test_box_observations_are_divided_by_an_option(cli, tmp_path):
    asked = ("CartPole-v1", "--horizon", 10, "--episodes", 4, "--bins", BINS, "--seeds", 1)
    code, out, err = cli("learn", *asked, "--learner", "thompson", "--out", tmp_path / "found")
    assert (code, err) == (0, "")
    assert "CartPole-v1: 64 states, 2 actions, 10 stages" in out
    assert cli("compare", *asked, "--learner", "thompson", "--learner", "q-learning", "--workers", 1)[0] == 0
    fitted = ("fit", "CartPole-v1", "--horizon", 5, "--episodes", 20, "--tau", 0.5, "--stationary", "--json")
    content = strict(cli(*fitted, "--bins", BINS)[1])
    assert content["coverage"]["episodes"] == 20
    assert strict(cli(*fitted, "--bins", BINS, "--seed", 42)[1])["policies"] == content["policies"]
    assert "pass bins=" in cli("learn", "CartPole-v1", "--episodes", 1)[2]
    assert "bins must be None for a model" in cli("learn", "AssetSelling", "--bins", 3, "--episodes", 1)[2]


def test_a_learner_of_observations_needs_no_bins(cli):
    pytest.importorskip("torch")
    asked = ("--learner", "envelope", "--horizon", 5, "--episodes", 2, "--seeds", 1)
    code, out, err = cli("learn", "CartPole-v1", *asked)
    assert (code, err) == (0, "")
    assert "CartPole-v1: continuous states, 2 actions, 5 stages" in out
