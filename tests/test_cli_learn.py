import csv
import io
import os
import sys
import types

import gymnasium as gym
import numpy as np
import pytest
from helpers import Corridor, one_line, strict

import bqrl
import bqrl.cli.bench
from bqrl.cli.compare import EVERYONE, read_learners, spelled
from bqrl.cli.problem import read_problem
from bqrl.cli.settings import read_params, read_value
from bqrl.learners.run import LEARNERS
from bqrl.planners.convert import uniform
from bqrl.results.result import read

SHORT = ("--episodes", 25, "--seeds", 2)


gym.register("bqrl-test/Corridor-v0", Corridor, max_episode_steps=6)
gym.register("bqrl-test/Endless-v0", Corridor)


# -- bqrl learn -------------------------------------------------------------------------------------------------------


def test_learn_prints_a_table_and_what_it_means(cli):
    code, out, err = cli("learn", "AssetSelling", "--tau", 0.1, *SHORT)
    assert (code, err) == (0, "")
    text = " ".join(out.split())
    assert (
        "AssetSelling: 26 states, 2 actions, 10 stages, start 5; PSRL, level 0.1, 25 episodes, seeds 42 to 43" in text
    )
    for heading in (
        "seed",
        "quantile",
        "cumulative gap",
        "cumulative regret",
        "mean",
        "optimal after",
    ):
        assert heading in text
    assert "The best quantile of any policy is 0.791667." in text
    assert "After 25 episodes" in text


def test_learn_measures_what_the_library_measures(cli):
    mdp = bqrl.envs.make("AssetSelling")
    code, out, err = cli("learn", "AssetSelling", "--tau", 0.3, "--learner", "ucbvi", *SHORT, "--seed", 5, "--json")
    assert (code, err) == (0, "")
    assert out.isascii()
    found = strict(out)
    assert found["format"] == "bqrl learn 2"
    assert found["best"]["quantile"] == bqrl.solve(mdp, 0.3).value
    assert found["random"]["quantile"] == bqrl.evaluate(mdp, uniform(mdp)).quantile(0.3)
    (learner,) = found["learners"]
    assert [row["seed"] for row in learner["runs"]] == [5, 6]
    for row in learner["runs"]:
        record = bqrl.learn(mdp, "ucbvi", 0.3, 25, row["seed"])
        final = bqrl.evaluate(mdp, record.final_policy)
        assert row["quantile"] == final.quantile(0.3)
        assert row["mean"] == pytest.approx(final.mean())
        assert row["gap"] == pytest.approx(record.gap().sum())
        assert row["regret"] == pytest.approx(record.expected_regret().sum())
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
    assert held == {"result.json", "manifest.json", "seeds.csv", "curves.csv"} | records | logs | charts | policy
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
    assert bqrl.evaluate(mdp, policy).quantile(0.4) == max(row["quantile"] for row in rows)
    curves = list(csv.DictReader(io.StringIO((folder / "curves.csv").read_text())))
    assert [int(row["episode"]) for row in curves] == list(range(1, 26))
    assert float(curves[-1]["gap_mean"]) == pytest.approx(stored["learners"][0]["mean"]["gap"])
    assert float(curves[-1]["gap_high"]) <= max(row["gap"] for row in rows) + 1e-9


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


def test_report_makes_a_page_of_a_learner(cli, tiny, tmp_path):
    assert cli("learn", tiny, "--tau", 0.4, *SHORT, "--out", tmp_path / "o")[0] == 0
    assert cli("report", tmp_path / "o") == (0, f"wrote {tmp_path / 'o' / 'report.html'}\n", "")
    page = (tmp_path / "o" / "report.html").read_text()
    for wanted in (read(tmp_path / "o").details["meaning"], "cumulative gap", "&lt;in&gt;", "defaults"):
        assert wanted in page


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


def test_progress_shows_only_where_a_person_watches(cli, tiny, monkeypatch):
    asked, ticks = ("learn", tiny, "--tau", 0.4, "--episodes", 40, "--seeds", 2), []
    monkeypatch.setattr("bqrl.cli.watch.ProgressBar.tick", lambda *_: ticks.append(1))
    for more in ([], ["--json"]):
        assert cli(*asked, *more)[2] == ""
    assert ticks == []
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    for more in ([], ["--json"]):  # stdout stays what it is
        ticks.clear()
        assert cli(*asked, *more)[0] == 0
        assert len(ticks) == 80


# -- Gymnasium --------------------------------------------------------------------------------------------------------


def test_a_toy_text_id_is_learned_and_scored(cli):
    code, out, err = cli("learn", "FrozenLake-v1", "--tau", 0.5, "--learner", "ucbvi", "--episodes", 20, "--seeds", 1,
                         "--horizon", 30, "--json")  # fmt: skip
    assert (code, err) == (0, "")
    found = strict(out)
    assert found["model"] | {"name": "FrozenLake-v1", "states": 16, "horizon": 30, "start": "0"} == found["model"]
    assert found["best"]["quantile"] == bqrl.solve(bqrl.from_gymnasium("FrozenLake-v1", horizon=30), 0.5).value


def test_gymnasium_ids_take_the_problem_s_options():
    lake = read_problem("FrozenLake-v1", None, "14", 0.9)
    assert (lake.mdp.H, lake.mdp.start, lake.mdp.discount, lake.assumed) == (100, 14, 0.9, None)
    ours = read_problem("bqrl/AssetSelling-v0", 4, "sold", None)
    assert (ours.name, ours.mdp.H, ours.mdp.start) == ("AssetSelling", 4, 25)
    with pytest.raises(ValueError, match="there is no state '16'; states run from '0' to '15'"):
        read_problem("FrozenLake-v1", None, "16", None)


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
    assert "does not expose its kernel" in " ".join(out.split())
    code, out, err = cli("compare", *asked, "--learner", "q-learning", "--learner", "ppo", "--out", tmp_path / "c")
    assert (code, err) == (0, "")
    assert "Q-learning" in out
    assert cli("report", tmp_path / "c")[0] == 0
    code, out, err = cli("learn", *asked)
    assert (code, out) == (2, "")
    assert one_line(err)
    assert "use q-learning, sarsa, ppo or trpo" in err
    code, _, err = cli("learn", *asked, "--learner", "ppo", "--start", "1")
    assert code == 2
    assert "--start needs a model" in err


def test_a_horizon_that_nobody_says_is_announced(cli):
    code, _, err = cli("learn", "bqrl-test/Endless-v0", "--learner", "ppo", "--episodes", 3, "--seeds", 1, "--json")
    assert code == 0
    assert err == "bqrl: bqrl-test/Endless-v0 does not say the horizon: 100 stages assumed; --horizon sets it\n"


# -- bqrl compare -----------------------------------------------------------------------------------------------------


def test_everyone_is_compared_unless_told(cli):
    entries = read_learners(EVERYONE)
    assert {learner for learner, _ in entries} == set(LEARNERS)
    assert [params for _, params in entries if params] == [{"planner": "greedy"}]
    assert [spelled(*entry) for entry in entries] == list(EVERYONE)
    code, out, err = cli("compare", "AssetSelling", "--tau", 0.5, "--episodes", 8, "--seeds", 1, "--workers", 1)
    assert (code, err) == (0, "")
    for wanted in ("UCB-BQRL, greedy planner", "SARSA", "TRPO", "Thompson", "best possible", "random play"):
        assert wanted in out


def test_compare_measures_every_learner_as_learn_does(cli, tiny, tmp_path):
    chosen = ("--learner", "ucbvi", "--learner", "q-learning:epsilon=0.5,0.1,learning_rate=0.2")
    code, out, err = cli(
        "compare", tiny, "--tau", 0.4, *SHORT, *chosen, "--workers", 1, "--out", tmp_path / "o", "--json"
    )
    assert (code, err) == (0, "")
    found = strict(out)
    assert found == read(tmp_path / "o").details
    assert [one["label"] for one in found["learners"]] == ["UCBVI", "Q-learning, epsilon=0.5,0.1, learning_rate=0.2"]
    alone = strict(cli("learn", tiny, "--tau", 0.4, *SHORT, "--learner", "ucbvi", "--json")[1])
    assert found["learners"][0]["runs"] == alone["learners"][0]["runs"]
    assert found["random"]["quantile"] == bqrl.evaluate(bqrl.load(tiny), uniform(bqrl.load(tiny))).quantile(0.4)
    assert found["random"]["gap"] == pytest.approx(25 * (found["best"]["quantile"] - found["random"]["quantile"]))
    named = {"learners.csv", "beats.csv", "curves.csv", "promises.png", "gaps.pdf"}
    assert {"record_ucbvi_seed42.npz", "record_ucbvi_seed43.npz"} | named <= set(os.listdir(tmp_path / "o"))
    assert "record_q-learning_epsilon-0.5-0.1_learning_rate-0.2_seed42.npz" in os.listdir(tmp_path / "o")
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


# -- parameters -------------------------------------------------------------------------------------------------------


def test_values_are_read_as_the_learner_declares_them():
    assert read_params("ucb-bqrl", ["c-conf=theory", "buffer=0.05", "stationary=false", "replan_factor=2"]) == {
        "c_conf": "theory", "buffer": 0.05, "stationary": False, "replan_factor": 2.0,
    }  # fmt: skip
    assert read_params("ppo", ["batch=5", "discount=none"]) == {"batch": 5, "discount": None}
    assert read_params("sarsa", ["epsilon=1,0.1"]) == {"epsilon": (1.0, 0.1)}
    assert [read_value("x", text, "int | float") for text in ("3", "3.0", "-2")] == [3, 3.0, -2]
    with pytest.raises(ValueError, match=r"^epsilon must be numbers such as 0\.5,0\.05, got 'much'$"):
        read_params("sarsa", ["epsilon=much"])


BAD = {
    "AssetSeling": "did you mean 'AssetSelling'?",
    "FrozenLake-v9": "did you mean 'FrozenLake-v1'?",
    "nothing.csv": "there is no file nothing.csv",
    "no_module_here:Env-v0": "No module named 'no_module_here'",
    "CartPole-v1": "are Box; learners need Discrete ones",
    "Blackjack-v1": "are Tuple; learners need Discrete ones",
    "tiny.json --tau 1.2": "tau must be a number in (0, 1], got 1.2",
    "tiny.json --episodes 0": "at least 1, got 0",
    "tiny.json --seeds 0": "--seeds must be at least 1, got 0",
    "tiny.json --seed -3": "--seed must be a whole number from 0, got -3",
    "tiny.json --delta 1.5": "delta must be a number in (0, 1), got 1.5",
    "tiny.json --horizon 0": "horizon must be a whole number at least 1",
    "tiny.json --start inn": "there is no state 'inn'; did you mean '<in>'?",
    "tiny.json --discount 2": "discount must be a number in (0, 1]",
    "tiny.json --out tiny.json/here": "cannot write to the folder",
}
BAD_LEARN = {
    "tiny.json --learner ucb-bqlr": "did you mean 'ucb-bqrl'?",
    "tiny.json --learner ucb-bqrl --set c_cnf=1": "does not have a parameter 'c_cnf'; did you mean 'c_conf'?",
    "tiny.json --learner ucb-bqrl --set c_conf": "given as name=value",
    "tiny.json --learner ucb-bqrl --set c_conf=1 --set c_conf=2": "c_conf is given twice, as '1' and as '2'",
    "tiny.json --planner greedy --set planner=target": "planner is given twice",
    "tiny.json --learner ucb-bqrl --set c_conf=-1": "c_conf must be a number of at least 0, got -1",
    "tiny.json --set stationary=maybe": "stationary must be true or false, got 'maybe'",
    "tiny.json --learner ucb-bqrl --set replan_factor=often": "replan_factor must be a number, got 'often'",
    "tiny.json --set tau=0.5": "does not have a parameter 'tau'",
    "tiny.json --learner ppo --set batch=2.5": "batch must be a whole number, got '2.5'",
    "tiny.json --learner ucbvi --planner greedy": "learner 'ucbvi' does not have a parameter 'planner'",
    "tiny.json --learner ucb-bqrl --planner gredy": "planner must be one of 'target', 'greedy', 'frontier'",
    "tiny.json --log": "--log writes into a folder; name it with --out DIR",
    "tiny.json --tensorboard": "--tensorboard writes into a folder; name it with --out DIR",
}
BAD_COMPARE = {
    "tiny.json --learner ucbvi --learner ucbvy": "did you mean 'ucbvi'?",
    "tiny.json --learner ucbvi --learner ucbvi": "the learner 'ucbvi' is given twice",
    "tiny.json --learner ucbvi --learner ppo:bach=3": "did you mean 'batch'?",
    "tiny.json --learner ucbvi --learner ppo:batch=0": "batch must be a whole number at least 1, got 0",
    "tiny.json --learner :planner=greedy": "learner must be one of",
    "tiny.json --learner ucbvi:scale": "given as name=value",
}


@pytest.mark.parametrize("json_too", [[], ["--json"]], ids=["", "json"])
@pytest.mark.parametrize(
    ("command", "arguments", "wanted"),
    [(command, text, wanted) for command in ("learn", "compare") for text, wanted in BAD.items()]
    + [("learn", *case) for case in BAD_LEARN.items()]
    + [("compare", *case) for case in BAD_COMPARE.items()],
)
def test_bad_input_is_one_line_and_exit_code_2(cli, tiny, tmp_path, monkeypatch, command, arguments, wanted, json_too):
    monkeypatch.chdir(tmp_path)
    code, out, err = cli(command, *arguments.split(), *json_too)
    assert (code, out) == (2, "")
    assert one_line(err), err
    assert wanted in err


def test_help_names_the_problems_that_can_be_learned(cli):
    assert "FrozenLake-v1" in cli("learn", "--help")[1]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A checkout with two benchmarks, one of which fails."""
    root = tmp_path / "checkout"
    (root / "benchmarks").mkdir(parents=True)
    (root / "pyproject.toml").touch()
    (root / "benchmarks" / "_shared.py").write_text("raise SystemExit(9)\n")
    (root / "benchmarks" / "quick.py").write_text("print('3 s ü')\n")
    (root / "benchmarks" / "wrong.py").write_text("import sys; print('oh', file=sys.stderr); sys.exit(4)\n")
    monkeypatch.setattr(bqrl.cli.bench, "__file__", str(root / "src" / "bqrl" / "cli" / "bench.py"))
    return root


def test_bench_runs_the_scripts_of_a_checkout(cli, checkout, tmp_path):
    assert cli("bench", "quick") == (0, "== quick\n3 s ü\n", "")
    code, out, err = cli("bench", "--out", tmp_path / "o", "--json")
    assert code == 1
    assert err == "bqrl: failed: wrong\n"
    found = {one["name"]: one for one in strict(out)["benchmarks"]}
    assert set(found) == {"quick", "wrong"}
    assert (found["quick"]["code"], found["quick"]["output"]) == (0, "3 s ü\n")
    assert (found["wrong"]["code"], found["wrong"]["output"]) == (4, "oh\n")
    assert (tmp_path / "o" / "quick.txt").read_text(encoding="utf-8") == "3 s ü\n"
    assert [row["code"] for row in read(tmp_path / "o").tables["times"].rows] == [0, 4]
    code, out, err = cli("bench", "quik")
    assert (code, out, err) == (2, "", "bqrl: there is no benchmark 'quik'; did you mean 'quick'?\n")


def test_an_installed_package_has_no_benchmarks(cli, tmp_path, monkeypatch):
    monkeypatch.setattr(
        bqrl.cli.bench, "__file__", str(tmp_path / "lib" / "site-packages" / "bqrl" / "cli" / "bench.py")
    )
    code, out, err = cli("bench")
    assert (code, out) == (2, "")
    assert one_line(err)
    assert "checkout" in err
