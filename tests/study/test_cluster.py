"""A real scheduler and two workers on loopback; one of them is killed in the middle."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from small_study import RUNS, results_of

pytest.importorskip("distributed")

ENVIRONMENT = os.environ | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "10s"}
BQRL = [sys.executable, "-c", "from bqrl.cli import main; main()", "reproduce"]


def start(*arguments):
    """A command of Dask as users run it, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *arguments],
        env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip


def stop(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait(timeout=20)


def until(ready, seconds=60.0):
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def scheduler(tmp_path):
    about = tmp_path / "scheduler.json"
    process = start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(about))
    try:
        until(lambda: about.exists() and about.read_text().endswith("}"))
        yield json.loads(about.read_text())["address"], process
    finally:
        stop(process)


@pytest.fixture
def study(scheduler, study_file, tmp_path):
    """The study on the cluster, begun but not waited for."""
    command = [*BQRL, "--study", str(study_file), "--out", str(tmp_path / "out"), "--cluster", scheduler[0]]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT)
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def workers(scheduler, tmp_path):
    options = (
        "--host",
        "127.0.0.1",
        "--nthreads",
        "1",
        "--no-dashboard",
        "--no-nanny",
        "--local-directory",
        str(tmp_path),
    )
    processes = [start("worker", scheduler[0], *options) for _ in range(2)]
    yield processes
    for process in processes:
        stop(process)


def log_says(folder, text):
    path = folder / "study.log"
    return path.exists() and text in path.read_text()


@pytest.mark.slow
def test_a_cluster_gives_the_same_results_though_a_worker_is_killed(workers, study, made, tmp_path):
    out = tmp_path / "out"
    until(lambda: len(list((out / "runs").glob("*.npz"))) >= 5 or study.poll() is not None)
    assert study.poll() is None
    stop(workers[0])
    said, _ = study.communicate(timeout=100)
    assert study.returncode == 0, said
    assert results_of(out) == results_of(made)
    assert json.loads((out / "results.json").read_text())["session"]["runs_made"] == RUNS


@pytest.mark.slow
def test_without_workers_it_waits_and_a_lost_scheduler_is_one_line(scheduler, study, tmp_path):
    out = tmp_path / "out"
    until(lambda: log_says(out, "has no workers") or study.poll() is not None)
    stop(scheduler[1])
    said, _ = study.communicate(timeout=60)
    assert study.returncode == 2, said
    assert said.splitlines()[-1].endswith("was lost; finished runs are kept")
    assert "Traceback" not in said


def test_a_cluster_out_of_reach_is_one_line(study_file, tmp_path, monkeypatch):
    from bqrl.experiments import cluster

    monkeypatch.setattr(cluster, "CONNECT_SECONDS", 1)
    with pytest.raises(
        ConnectionError, match=r"^no Dask scheduler answers at tcp://127\.0\.0\.1:9 \(.*`dask scheduler`$"
    ) as fault:
        cluster.ClusterWorkers("tcp://127.0.0.1:9")
    assert "\n" not in str(fault.value)
