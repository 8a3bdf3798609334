"""Processes of this machine: as many as wanted, killed at any moment, always the same results."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from concurrent.futures import CancelledError, process
from pathlib import Path

import cloudpickle
import pytest
from small_study import RUNS, make, results_of
from worker_calls import die, die_once, double, environment, fail, fail_oddly, fail_with_a_function

import bqrl
from bqrl import Quantile
from bqrl.errors import ArgumentTypeError
from bqrl.planners.cluster import LostWorkersError
from bqrl.study.problems import problem_of
from bqrl.study.store import RunSpec, execute
from bqrl.study.workers import LocalWorkers, Workers, carry_out
from bqrl.versions import CODE

WAIT = 120.0  # seconds that a call may take
BQRL = [sys.executable, "-c", "from bqrl.cli import main; main()", "reproduce"]


def begin(study, folder, *options):
    """A study in a process group of its own, which receives SIGINT also if the tests run in the background."""
    return subprocess.Popen(
        [*BQRL, "--study", str(study), "--out", str(folder), "--workers", "2", *options],
        start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip


def finished_runs(folder):
    return len(list((folder / "runs").glob("*.npz"))) if (folder / "runs").is_dir() else 0


def wait_until(folder, count, process, seconds=240.0):
    until = time.monotonic() + seconds
    while finished_runs(folder) < count and process.poll() is None:
        assert time.monotonic() < until, f"{finished_runs(folder)} runs after {seconds} s"
        time.sleep(0.005)


@pytest.fixture
def workers():
    found = LocalWorkers(2)
    yield found
    found.close()


@pytest.mark.parametrize("count", [1, 2])
def test_any_number_of_workers_gives_the_same_results(made, study_file, tmp_path, count):
    study = make(study_file, tmp_path, workers=LocalWorkers(count))
    assert study.session["workers"] == count
    assert results_of(tmp_path) == results_of(made)


def test_a_worker_with_other_code_refuses():
    with pytest.raises(ImportError, match=r"^expected bqrl 0\.0\.0\+other, got "):
        carry_out("0.0.0+other", cloudpickle.dumps((int, ("7",))))


def test_a_worker_with_other_code_ends_a_study_with_one_line(study_file, tmp_path):
    class Others(Workers):
        def submit(self, function, *arguments):
            return super().submit(carry_out, "0.0.0+other", cloudpickle.dumps((function, arguments)))

    with pytest.raises(LostWorkersError, match=r"^a worker cannot carry out runs: expected bqrl 0\.0\.0\+other, got "):
        make(study_file, tmp_path, workers=Others())


def test_a_dead_process_costs_only_the_call_that_it_was_at(workers, tmp_path):
    dies, others = workers.submit(die_once, str(tmp_path), 5), [workers.submit(double, x) for x in range(6)]
    assert [call.result(WAIT) for call in (dies, *others)] == [5, 0, 2, 4, 6, 8, 10]


def test_a_call_that_always_kills_its_process_fails_alone(workers):
    dies, others = workers.submit(die), [workers.submit(double, x) for x in range(4)]
    assert str(dies.exception(WAIT)) == "its worker process died 3 times"
    assert [call.result(WAIT) for call in others] == [0, 2, 4, 6]


def test_closing_waits_for_the_threads_of_the_pools(monkeypatch):
    """Such a thread may close a pipe while the end of the interpreter writes to it, which once printed a traceback."""
    thread = process._ExecutorManagerThread
    end = thread.join_executor_internals
    monkeypatch.setattr(thread, "join_executor_internals", lambda self: (time.sleep(0.5), end(self)))
    workers = LocalWorkers(1)
    assert workers.submit(double, 4).result(WAIT) == 8
    workers.close()
    assert not any(one.is_alive() for one in process._threads_wakeups)


def test_closed_workers_drop_their_calls_and_processes(workers, tmp_path):
    pid, calls = workers.submit(os.getpid).result(WAIT), [workers.submit(time.sleep, 600) for _ in range(4)]
    workers.close()
    assert {type(call.exception(WAIT)) if not call.cancelled() else CancelledError for call in calls} == {
        CancelledError
    }
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_an_error_belongs_to_its_call(workers):
    bad, good = workers.submit(fail), workers.submit(double, 4)
    assert good.result(WAIT) == 8
    assert str(bad.exception(WAIT)) == "no chance"


OWN = """
import pickle

from bqrl.study.workers import LocalWorkers

class Mine(Exception):
    pass

def call(fails):
    if fails:
        raise Mine("odd")
    return Mine("fine")

Other = type("Lost", (Exception,), {})  # not the name that it has here

def lose():
    raise Other("odd")

workers = LocalWorkers(1)
error = workers.submit(call, True).exception()
print(type(error) is Mine, error, "in call" in error.__notes__[0])
print(repr(workers.submit(lose).exception()))
print(type(workers.submit(call, False).exception()) is pickle.PicklingError)
print(workers.submit(int, "7").result())
workers.close()
"""


def test_no_copy_of_a_class_of_the_main_script_comes_back():
    """It would replace the methods of the script's own class; errors find their class by its name."""
    found = subprocess.run([sys.executable, "-"], input=OWN, capture_output=True, text=True, check=False)
    assert (found.stdout, found.stderr) == ("True odd True\nRuntimeError('Lost: odd')\nTrue\n7\n", "")


@pytest.mark.parametrize("kind", ["lock", "arguments"])
def test_an_error_that_cannot_be_sent_is_reported_by_its_text(workers, kind):
    error = workers.submit(fail_oddly, kind).exception()
    assert (type(error), str(error)) == (RuntimeError, "OddError: 1 and 2")
    assert "in fail_oddly" in error.__notes__[0]


def test_an_error_keeps_its_type_if_its_value_cannot_be_sent(workers):
    """Once a plan that is a function was an unexpected RuntimeError."""
    error = workers.submit(fail_with_a_function).exception()
    assert (type(error), str(error), error.name) == (ArgumentTypeError, "no function", "plan")
    assert "<function " in error.value


def test_processes_have_one_thread_and_ignore_ctrl_c(workers, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    before = dict(os.environ)
    main = vars(sys.modules["__main__"])
    names = {name: main[name] for name in ("__file__", "__spec__") if name in main}
    assert workers.submit(environment).result(WAIT) == ("1", "1", signal.SIG_IGN)
    assert dict(os.environ) == before
    assert {name: main[name] for name in ("__file__", "__spec__") if name in main} == names


def test_episodes_of_all_processes_are_counted_while_they_are_played(workers):
    problem = problem_of({"name": "AssetSelling"})
    assert workers.played() == 0
    runs = [
        RunSpec(
            problem=problem, learner="sarsa", params={}, objective=Quantile(0.5), episodes=15_000, delta=0.05, seed=seed
        )
        for seed in range(2)
    ]
    calls = [workers.submit(execute, run) for run in runs]
    counts = []
    while not all(call.done() for call in calls):
        counts.append(workers.played())
        time.sleep(0.02)
    assert 0 < max(counts) <= 30_000
    assert len(set(counts)) > 3
    assert workers.played() == 0
    assert all(call.exception() is None for call in calls)


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks at /proc")
def test_workers_end_with_their_parent(tmp_path):
    script = (
        "import os, time\n"
        "from bqrl.study.workers import LocalWorkers\n"
        "if __name__ == '__main__':\n"
        "    workers = LocalWorkers(1)\n"
        "    print(workers.submit(os.getpid).result(), flush=True)\n"
        "    time.sleep(60)\n"
    )
    (tmp_path / "parent.py").write_text(script)
    parent = subprocess.Popen([sys.executable, str(tmp_path / "parent.py")], stdout=subprocess.PIPE, text=True)
    child = int(parent.stdout.readline())
    parent.kill()
    parent.communicate()
    until = time.monotonic() + 20.0
    while Path(f"/proc/{child}").exists() and "Z" not in Path(f"/proc/{child}/stat").read_text().split(")")[1][:3]:
        assert time.monotonic() < until
        time.sleep(0.05)


def test_all_cores_are_used_unless_a_number_is_given():
    workers = LocalWorkers()
    workers.close()
    assert 1 <= workers.size <= os.cpu_count()


@pytest.mark.slow
@pytest.mark.parametrize("most", [3, pytest.param(10, marks=pytest.mark.nightly)])
def test_kills_at_random_moments_change_nothing(made, study_file, tmp_path, most):
    chance, kills = random.Random(7), 0
    while kills < most:
        process = begin(study_file, tmp_path)
        if kills % 5 == 2:
            time.sleep(chance.uniform(0.0, 1.5))  # while it starts
        else:
            wait_until(tmp_path, finished_runs(tmp_path) + chance.randint(1, RUNS // 8), process)
            time.sleep(chance.uniform(0.0, 0.05))
        if process.poll() is None:
            kills += 1
            if kills % 2:
                process.kill()  # the workers find out by themselves
            else:
                os.killpg(process.pid, signal.SIGKILL)
        else:  # it was finished: take some of its results away
            for path in chance.sample(sorted((tmp_path / "runs").glob("*.npz")), RUNS // 2):
                path.unlink()
        process.communicate()
    before = finished_runs(tmp_path)
    process = begin(study_file, tmp_path)
    said, _ = process.communicate(timeout=200)
    assert process.returncode == 0, said
    session = json.loads((tmp_path / "result.json").read_text())["details"]["session"]
    assert session["runs_made"] + session["runs_skipped"] == RUNS
    assert session["runs_skipped"] >= before
    assert results_of(tmp_path) == results_of(made)


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(made, study_file, tmp_path):
    for attempt in range(8):  # on a busy machine the small study may be over before the signal comes
        folder = tmp_path / str(attempt)
        process = begin(study_file, folder)
        wait_until(folder, 1, process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: every process receives it
        said, _ = process.communicate(timeout=120)
        if process.returncode != 0:
            break
    assert process.returncode == 130, said
    assert "finished runs are kept in" in said
    assert "Traceback" not in said
    assert make(study_file, folder).session["runs_skipped"] >= 1
    assert results_of(folder) == results_of(made)


def test_the_code_version_covers_every_package_that_determines_a_result():
    root = Path(bqrl.__file__).parent
    packages = {path.parent.name for path in root.glob("*/__init__.py")}
    assert packages - {"cli", "logs", "papers", "results", "study", "theory"} == set(CODE)
