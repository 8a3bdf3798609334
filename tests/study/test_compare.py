import errno
import json
import re
import subprocess
import sys
import threading
import time

import gymnasium
import numpy as np
import pytest
from helpers import Corridor

import bqrl
import bqrl.learners.registry
from bqrl.errors import ArgumentError
from bqrl.results.words import order_of
from bqrl.study import store
from bqrl.study.compare import compare
from bqrl.study.scores import band_name
from bqrl.study.store import Store

SMALL = {"offers": 5, "horizon": 3, "start": 1}


@pytest.fixture(scope="module")
def problem():
    return bqrl.envs.make("AssetSelling", **SMALL)


@pytest.fixture(scope="module")
def experiment(problem):
    learners = ["sarsa", ("q-learning", {"learning_rate": 0.2}), ("twin", "sarsa", {})]
    return compare(problem, learners, tau=0.5, episodes=40, seeds=3, workers=1)


def test_seeds_count_from_the_first_one_of_the_command_line(experiment):
    assert experiment.seeds == (42, 43, 44)


def test_every_run_is_what_learn_makes(experiment, problem):
    for label, params in (("sarsa", {}), ("q-learning (learning_rate=0.2)", {"learning_rate": 0.2})):
        for seed, record in zip(experiment.seeds, experiment.records[label], strict=True):
            same = bqrl.learn(problem, label.split(" ")[0], tau=0.5, episodes=40, seed=seed, **params)
            np.testing.assert_array_equal(record.returns, same.returns)
            np.testing.assert_array_equal(record.gap(0.5), same.gap(0.5))


def test_processes_change_nothing(experiment, problem):
    other = compare(problem, ["sarsa", ("twin", "sarsa", {})], tau=0.5, episodes=40, seeds=[42, 43, 44], workers=2)
    np.testing.assert_array_equal(other.values("sarsa"), experiment.values("sarsa"))
    np.testing.assert_array_equal(other.values("twin", "mean_regret"), experiment.values("sarsa", "mean_regret"))


def test_rows_are_ordered_and_say_what_the_band_is(experiment):
    rows = experiment.rows()
    assert {row["learner"] for row in rows} == set(experiment.records)
    assert [row["gap"] for row in rows] == sorted(row["gap"] for row in rows)
    for row in rows:
        ends = experiment.values(row["learner"])[:, -1]
        assert row["gap"] == pytest.approx(ends.mean())
        assert row["gap_low"] <= row["gap"] <= row["gap_high"]
        assert row["gap_high"] - row["gap"] == pytest.approx(4.302653 * ends.std(ddof=1) / np.sqrt(3))
        assert row["gap"] - row["gap_low"] == pytest.approx(row["gap_high"] - row["gap"])
        assert row["band"] == band_name(3)
    by = {row["learner"]: row for row in rows}
    assert by["sarsa"]["beats twin"] == 0.5  # the same learner under another label, run by run
    assert by["sarsa"]["beats q-learning (learning_rate=0.2)"] == pytest.approx(
        1.0 - by["q-learning (learning_rate=0.2)"]["beats sarsa"]
    )


def test_curves_are_thinned_and_end_with_the_final_value(experiment):
    rows = experiment.curves(points=10)
    mine = [row for row in rows if row["learner"] == "sarsa"]
    assert len(mine) == 10
    assert (mine[0]["episode"], mine[-1]["episode"]) == (1, 40)
    assert mine[-1]["mean"] == pytest.approx(experiment.values("sarsa")[:, -1].mean())
    assert all(row["low"] <= row["mean"] <= row["high"] for row in rows)


def test_the_chart_shows_every_learner_and_says_what_the_band_is(experiment):
    pytest.importorskip("altair")
    for measure in (None, "mean_regret", "return"):
        text = json.dumps(experiment.chart(measure).to_dict())
        assert all(label in text for label in experiment.records)
        assert band_name(3) in text.replace('", "', " ")
    with pytest.raises(ValueError, match="measure must be one of"):
        experiment.chart("gaps")


def test_the_frame_has_the_rows(experiment):
    pandas = pytest.importorskip("pandas")
    assert isinstance(experiment.to_frame(), pandas.DataFrame)
    assert experiment.to_frame()["gap"].tolist() == [row["gap"] for row in experiment.rows()]


def test_values_are_cumulative_measures_of_all_or_some_seeds(experiment):
    part = experiment.part((44, 42), {"twin": "TWIN"})
    assert part.seeds == (44, 42)
    assert [one.label for one in part.learners] == ["TWIN"]
    runs = part.records["TWIN"]
    assert [record.settings["seed"] for record in runs] == [44, 42]
    for measure, values in {
        "gap": [record.gap(0.5) for record in runs],
        "capped": [record.gap(0.5, "capped") for record in runs],
        "expected": [record.expected_regret() for record in runs],
        "return": [record.returns for record in runs],
    }.items():
        found = part.values("TWIN", measure)
        np.testing.assert_array_equal(found, np.cumsum(values, axis=1))
        found[:] = -1.0  # the caller's own array
        np.testing.assert_allclose(part.ends(measure)["TWIN"], np.sum(values, axis=1), rtol=1e-12)
    with pytest.raises(ArgumentError, match=r"seeds must be among those of the experiment, \(42, 43, 44\), got 7"):
        experiment.part((42, 7))
    assert experiment.part(()).records["twin"] == ()


def test_the_order_is_by_gap_or_by_the_measure_asked_for(experiment):
    gaps, late = experiment.ends("gap"), experiment.ends("late_return")
    assert late["twin"].tolist() == [record.returns[-4:].mean() for record in experiment.records["twin"]]
    assert [row["learner"] for row in experiment.order()] == sorted(gaps, key=lambda label: (gaps[label].mean(), label))
    by_return = [row["mean"] for row in experiment.order("late_return")]
    assert by_return == sorted(by_return, reverse=True)
    by_value = [row["mean"] for row in experiment.order("value")]
    assert by_value == sorted(by_value, reverse=True)  # once the worst came first
    pairs = experiment.beats()
    assert pairs[0]["learner"] == experiment.order()[0]["learner"]
    assert len(pairs) == 6


def test_where_the_kernel_is_not_known_the_objective_ranks_the_learners():
    class Wager(gymnasium.Env):  # action 1 pays 8 or -10; once the learner with the larger mean came first
        observation_space, action_space = gymnasium.spaces.Discrete(1), gymnasium.spaces.Discrete(2)

        def reset(self, *, seed=None, options=None):
            super().reset(seed=seed)
            return 0, {}

        def step(self, action):
            return 0, (8.0 if self.np_random.random() < 0.8 else -10.0) if action else 1.0, True, False, {}

    def always(choice):
        class Always(bqrl.Learner):
            name = ("safe", "risky")[choice]

            def plan(self):
                return np.full((self.task.H, self.task.S), choice)

            def observe(self, episode):
                pass

        return Always

    options = {"episodes": 400, "seeds": 2, "workers": 1, "horizon": 1}
    for goal, order in ((bqrl.CVaR(0.1), ["safe", "risky"]), (bqrl.Mean(), ["risky", "safe"])):
        found = compare(Wager(), [always(0), always(1)], objective=goal, **options)
        assert [row["learner"] for row in found.rows()] == [row["learner"] for row in found.order()] == order
        assert found.beats()[0] == {"learner": order[0], "other": order[1], "probability": 1.0}
        said = order_of(found)
        assert said.startswith(
            f"{order[0]} has the largest mean {'CVaR at 0.1 of the returns' if goal.kind == 'CVaR' else 'return'}, "
        )


def test_what_cannot_be_sent_to_a_process_is_refused_before_any_run(problem):
    learner, lock = bqrl.learners.registry.find_learner("sarsa"), threading.Lock()

    def own(task, rng):
        with lock:
            return learner(task, rng)

    with pytest.raises(TypeError, match=r"^mine cannot be sent to another process \(.*\); use workers=1$"):
        compare(problem, [("mine", own, {})], tau=0.5, episodes=5, seeds=2, workers=2)
    mine = compare(problem, [("mine", own, {})], tau=0.5, episodes=5, seeds=2, workers=1)
    same = compare(problem, ["sarsa"], tau=0.5, episodes=5, seeds=2, workers=1)
    np.testing.assert_array_equal(mine.values("mine"), same.values("sarsa"))


def test_workers_know_the_environments_that_a_script_registers(tmp_path):
    """A process that does not import the script receives what an id stands for."""
    text = """
import bqrl, gymnasium
gymnasium.register("mine/Lake-v0", "gymnasium.envs.toy_text.frozen_lake:FrozenLakeEnv", kwargs={"is_slippery": False})
print(bqrl.compare("mine/Lake-v0", ["q-learning"], tau=0.5, episodes=5, seeds=2, horizon=8).rows()[0]["learner"])
"""
    (tmp_path / "script.py").write_text(text)
    found = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (found.returncode, found.stdout, found.stderr) == (0, "q-learning\n", "")


SCRIPT = """
import bqrl
from bqrl.learners.sarsa import Sarsa

class Mine(Sarsa):
    name = "mine"

    def plan(self):
        return super().plan()

plan = Mine.plan
experiment = bqrl.compare("AssetSelling", ["q-learning", Mine], tau=0.5, episodes=5, seeds=2)
print(*sorted(row["learner"] for row in experiment.rows()), Mine.plan is plan)  # answers do not replace its methods
"""


@pytest.mark.parametrize("place", ["script.py", "-"])  # a file, or standard input as in a notebook
def test_a_script_needs_no_guard(tmp_path, place):
    """Once every script without `if __name__ == "__main__":` ended with the tracebacks of its workers."""
    (tmp_path / "script.py").write_text(SCRIPT)
    given = SCRIPT if place == "-" else None
    found = subprocess.run(
        [sys.executable, place], cwd=tmp_path, input=given, capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout, found.stderr) == (0, "mine q-learning True\n", "")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"learners": []}, "learners must be a list of learners"),
        ({"learners": "sarsa"}, "learners must be a list of learners"),
        ({"learners": ["sarsa", "sarsa"]}, "learners must differ, got 'sarsa' twice"),
        ({"learners": ["sarsa", "sarza"]}, "did you mean 'sarsa'"),
        ({"learners": [("sarsa", {"rate": 1})]}, "a parameter of sarsa, got 'rate'"),
        (
            {"learners": [("sarsa", {"tau": 0.2})]},
            "a parameter of sarsa, got 'tau'",
        ),  # once "multiple values for argument"
        ({"learners": [("sarsa", 3)]}, r"learners must hold names, \(learner, parameters\) or .* got \(.sarsa., 3\)"),
        ({"seeds": [1, 1]}, "seeds must be different whole numbers"),
        ({"seeds": 0}, "seeds must be a whole number of at least 1, got 0"),
        ({"seeds": 10**12}, "seeds must be at most 1000000, got 1000000000000"),
        ({"seeds": 10**400}, "seeds must be at most 1000000, got 1000"),
        ({"workers": 10**400}, r"workers must be at most 1e\+300, got 1000"),
        ({"folder": ""}, "folder must be the path of a folder, got ''; '.' is the current one"),
        ({"folder": 3}, "folder must be the path of a folder, got 3"),
        ({"tau": 1.5}, "tau must be a number in"),
        ({"workers": 0}, "workers must be a whole number of at least 1"),
        ({"episodes": 0}, "episodes must be a whole number"),
    ],
)
def test_bad_arguments_are_one_line(problem, change, message):
    given = {"learners": ["sarsa"], "tau": 0.5, "episodes": 5, "seeds": 2, "workers": 1} | change
    with pytest.raises((ValueError, TypeError), match=message) as error:
        compare(problem, **given)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_folder_keeps_finished_runs_for_any_number_of_workers(experiment, problem, tmp_path, monkeypatch, workers):
    learners = ["sarsa", ("q-learning", {"learning_rate": 0.2}), ("twin", "sarsa", {})]
    options = {"tau": 0.5, "episodes": 40, "folder": tmp_path}
    compare(problem, learners[:2], seeds=2, workers=1, **options)
    first = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "runs").glob("*.npz")}
    assert len(first) == 4
    again = compare(problem, learners, seeds=3, workers=workers, **options)
    assert len(list((tmp_path / "runs").glob("*.npz"))) == 6  # the twin is the same run under another label
    assert all((tmp_path / "runs" / name).stat().st_mtime_ns == time for name, time in first.items())
    assert again.rows() == experiment.rows()
    for label, records in experiment.records.items():
        for mine, other in zip(records, again.records[label], strict=True):
            np.testing.assert_array_equal(mine.returns, other.returns)
            assert mine.notes.keys() == other.notes.keys()
            assert other.mdp is not None


def test_a_folder_needs_runs_that_can_be_identified(problem, tmp_path):
    for place, params in ((problem, {"learning_rate": np.array(0.5)}), (Corridor(), {})):
        with pytest.raises(ValueError, match="folder requires plain parameters and a model or registered environment"):
            compare(place, [("sarsa", params)], episodes=3, seeds=1, workers=1, folder=tmp_path, horizon=3)
    assert not (tmp_path / "runs").exists()


OWN = """
import gymnasium
import numpy as np

import bqrl
from beside import STEP

ACTION = 0


class Mine(bqrl.Learner):
    name = "mine"

    def __init__(self, task, rng, fail=0):
        super().__init__(task, rng)
        self.fail, self.episode = fail, 0

    def plan(self):
        self.episode += STEP
        if self.episode == self.fail:
            raise RuntimeError("broken inside")
        return np.full((self.task.H, self.task.S), ACTION)

    def observe(self, episode):
        pass
"""


@pytest.fixture
def own(tmp_path, monkeypatch):
    """The address of a learner in a file, which imports a module beside it."""
    (tmp_path / "beside.py").write_text("STEP = 1\n")
    (tmp_path / "own.py").write_text(OWN)
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield f"{tmp_path / 'own.py'}:Mine"
    sys.modules.pop("beside", None)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_learner_in_a_file_is_stored_and_a_changed_one_runs_again(problem, own, tmp_path, workers):
    given = {"tau": 0.5, "episodes": 6, "seeds": 2, "workers": workers, "folder": tmp_path / "kept"}

    def runs():
        found = compare(problem, [own, "sarsa"], **given)
        return found.values("mine"), len(list((tmp_path / "kept/runs").glob("*.npz")))

    first, count = runs()
    assert count == 4
    (tmp_path / "own.py").write_text(f"# a comment\n{OWN}\nclass Other:\n    pass\n")
    again, count = runs()
    assert count == 4
    np.testing.assert_array_equal(first, again)
    (tmp_path / "own.py").write_text(OWN.replace("ACTION = 0", "ACTION = 1"))
    other, count = runs()
    assert count == 6  # the runs of the other learner are kept
    assert not np.array_equal(first, other)
    named = compare(problem, [own], **given).records["mine"][0].settings
    assert named["learner"] == "mine"
    assert len(named["code"]) == 16
    assert {"bqrl", "numpy", "python", "code"} <= named["versions"].keys()


def test_an_error_of_a_learner_names_the_episode(problem, own):
    for workers in (1, 2):
        with pytest.raises(RuntimeError, match="broken inside") as error:
            compare(problem, [(own, {"fail": 3})], tau=0.5, episodes=6, seeds=[7], workers=workers)
        assert "in episode 3 of mine, seed 7" in error.value.__notes__


def test_several_problems_are_compared_at_once_and_kept(problem, tmp_path):
    given = {"tau": 0.5, "episodes": 20, "seeds": 2, "workers": 1}
    several = {"small": problem, "other": "SafeOrRisky"}
    suite = compare(several, ["sarsa", "q-learning"], folder=tmp_path / "a", **given)
    assert list(suite) == list(several)
    for name, one in several.items():
        alone = compare(one, ["sarsa", "q-learning"], **given)
        assert suite[name].rows() == alone.rows()
        assert [row for row in suite.rows() if row["problem"] == name] == [
            {"problem": name, **row} for row in alone.rows()
        ]
        share = {row["learner"]: row["share"] for row in alone.rows()}
        assert {label: row[label] for row in suite.shares() if row["problem"] == name for label in share} == share
    assert {row["problem"] for row in suite.curves(points=5)} == {"small", "other"}
    with pytest.raises(ArgumentError, match="problem must be one of 'small', 'other', got 'none'"):
        suite["none"]
    assert list(compare([problem, "SafeOrRisky"], ["sarsa"], **given)) == ["problem 1", "SafeOrRisky"]
    for wrong, message in (([], "at least one problem"), (["SafeOrRisky"] * 2, "different one-line names")):
        with pytest.raises(ArgumentError, match=message):
            compare(wrong, ["sarsa"], **given)


KILLED = """
import sys, time
import numpy as np, bqrl

class Slow(bqrl.Learner):
    def plan(self):
        time.sleep(0.02)
        return np.full((self.task.H, self.task.S), int(self.rng.integers(2)))

    def observe(self, episode):
        pass

found = bqrl.compare(["SafeOrRisky", "AssetSelling"], [Slow, "sarsa"], tau=0.5, episodes=15, seeds=3, workers=2, folder="kept")
print(repr([row["gap"] for row in found.rows()]))
"""


def test_a_killed_comparison_continues_with_the_same_bits(tmp_path):
    """Every finished run survives SIGKILL, no finished run is repeated, and the result is that of a run without a kill."""
    (tmp_path / "script.py").write_text(KILLED)
    command = [sys.executable, "script.py"]
    work = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    end = time.monotonic() + 120.0
    while len(list((tmp_path / "kept/runs").glob("*.npz"))) < 3 and work.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    work.kill()
    work.wait()
    kept = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "kept/runs").glob("*.npz")}
    assert 3 <= len(kept) < 12
    again = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert all((tmp_path / "kept/runs" / name).stat().st_mtime_ns == time for name, time in kept.items())
    log = (tmp_path / "kept/runs/study.log").read_text()
    assert (
        len(re.findall(r"^\S+ \S+ done ", log, re.MULTILINE)) == len(list((tmp_path / "kept/runs").glob("*.npz"))) == 12
    )
    fresh = subprocess.run(
        [sys.executable, "-c", KILLED.replace('folder="kept"', 'folder="other"')], cwd=tmp_path, capture_output=True,
        text=True, check=True,
    )  # fmt: skip
    assert again.stdout == fresh.stdout != ""


def test_two_processes_in_one_folder_and_a_full_disk_are_one_line(problem, tmp_path, monkeypatch):
    given = {"tau": 0.5, "episodes": 5, "seeds": 2, "workers": 1, "folder": tmp_path / "a b; ü"}
    with Store(given["folder"]), pytest.raises(BlockingIOError, match="another command is running in"):
        compare(problem, ["sarsa"], **given)

    def full(path, content):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as change:
        change.setattr(store, "write_whole", full)
        with pytest.raises(OSError, match="No space left on device; finished runs are kept; make room and run"):
            compare(problem, ["sarsa"], **given)
    assert compare(problem, ["sarsa"], **given).seeds == (42, 43)


def test_a_bar_shows_how_far_the_runs_are(problem, capsys, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")  # as at a terminal
    monkeypatch.setattr("bqrl.progress.QUIET_SECONDS", 0.0)
    compare(problem, ["sarsa"], tau=0.5, episodes=5, seeds=2, workers=1, progress=True)
    assert "2/2 runs, finished" in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", capsys.readouterr().err)


def test_a_class_without_a_name_is_called_by_its_own(problem):
    class Mine(bqrl.learners.registry.Sarsa):
        name = ""

    found = compare(problem, [Mine, (Mine, {"learning_rate": 0.5})], tau=0.5, episodes=2, seeds=1, workers=1)
    assert [one.label for one in found.learners] == ["Mine", "Mine (learning_rate=0.5)"]


def test_an_experiment_is_exact_only_if_every_run_is_scored_exactly(experiment):
    assert experiment.exact
    assert experiment.known
    rng = np.random.default_rng(0)
    rounded = bqrl.MDP(rng.dirichlet(np.ones(4), (4, 2)), rng.normal(size=(4, 2)), horizon=12, discount=0.97)
    bracketed = compare(rounded, ["q-learning"], tau=0.1, episodes=3, seeds=2, workers=1)
    assert not bracketed.exact
    assert bracketed.known
    assert "gap" in bracketed.rows()[0]
    unknown = compare(Corridor(), ["q-learning"], tau=0.1, episodes=3, seeds=2, workers=1, horizon=6)
    assert not unknown.exact
    assert not unknown.known
    assert "gap" not in unknown.rows()[0]
    late = unknown.ends("late_value")["q-learning"]  # of one episode: its return
    np.testing.assert_allclose(late, unknown.ends("late_return")["q-learning"])
    assert unknown.rows()[0]["late_value"] == pytest.approx(late.mean())
    (panel,) = unknown.figure().to_dict()["concat"]  # once failed, because nothing but returns is known
    assert "cumulative return" in str(panel)


def test_one_seed_has_no_band_and_wrong_labels_are_named(problem):
    alone = bqrl.compare(problem, ["q-learning"], tau=0.5, episodes=5, seeds=1, workers=1)
    assert alone.rows()[0]["band"] == "one seed, so no band"
    with pytest.raises(ValueError, match="label must be"):
        alone.values("qlearning")
    with pytest.raises(ValueError, match="points must be"):
        alone.curves(points=-3)


class Coin(bqrl.Learner):
    """Draws every action with a fair coin."""

    def plan(self):
        return np.full((self.task.S, self.task.A), 1.0 / self.task.A)

    def observe(self, episode):
        pass


def test_learners_that_plan_probabilities_are_compared_by_their_draws():
    found = compare("SafeOrRisky", [Coin, "sarsa"], tau=0.1, episodes=4, seeds=2, workers=1)
    best = bqrl.solve(bqrl.envs.make("SafeOrRisky"), 0.1).value
    np.testing.assert_allclose(found.values("Coin"), (best - 9.0) * np.arange(1, 5) * np.ones((2, 1)))
    assert found.exact
