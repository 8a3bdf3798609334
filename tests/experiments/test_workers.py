"""Processes of this machine: as many as wanted, killed at any moment, always the same results."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest
from small_study import RUNS, Heard, results_of

from bqrl.experiments.reproduce import reproduce
from bqrl.experiments.settings import read_spec
from bqrl.experiments.workers import LocalWorkers, available_cores, serve

BQRL = [sys.executable, "-c", "from bqrl.cli import main; main()", "reproduce"]


def begin(study, folder, *options):
    """A study in a process group of its own."""
    return subprocess.Popen(
        [*BQRL, "--study", str(study), "--out", str(folder), "--workers", "2", *options],
        start_new_session=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip


def finished(folder):
    return len(list((folder / "runs").glob("*.npz"))) if (folder / "runs").is_dir() else 0


def wait_for(folder, count, process, seconds=240.0):
    until = time.monotonic() + seconds
    while finished(folder) < count and process.poll() is None:
        assert time.monotonic() < until, f"{finished(folder)} runs after {seconds} s"
        time.sleep(0.005)


@pytest.mark.parametrize("count", [1, 2])
def test_any_number_of_workers_gives_the_same_results(made, study_file, tmp_path, count):
    told = reproduce(study_file, tmp_path, workers=LocalWorkers(count))
    assert told["session"]["workers"] == count
    assert results_of(tmp_path) == results_of(made)


def test_a_killed_worker_costs_its_run_only(study_file):
    spec = read_spec(study_file)
    runs = [replace(spec.run(spec.entry("eps_q"), 0.5, seed), episodes=20_000) for seed in range(6)]
    workers = LocalWorkers(2)
    try:
        for run in runs:
            workers.submit(run)
        done, notes = [], []
        until = time.monotonic() + 240.0
        while len(done) < len(runs):
            assert time.monotonic() < until
            for event in workers.wait(0.2):
                if event.kind == "at" and not notes:
                    os.kill(workers._hands[0].process.pid, signal.SIGKILL)
                    notes.append("killed")
                elif event.kind == "note":
                    notes.append(event.text)
                elif event.kind == "done":
                    done.append(event.run)
        assert sorted(run.seed for run in done) == [0, 1, 2, 3, 4, 5]
        assert len(notes) == 2
        assert "killed by signal 9; its run is repeated" in notes[1]
    finally:
        workers.close()


def test_a_run_that_always_kills_its_worker_fails_alone(study_file, monkeypatch):
    spec = read_spec(study_file)
    workers = LocalWorkers(1)
    monkeypatch.setattr("bqrl.experiments.workers.serve", dies)
    try:
        workers.submit(spec.run(spec.entry("eps_q"), 0.5, 1))
        events = []
        while not any(event.kind == "failed" for event in events):
            events += workers.wait(1.0)
        assert events[-1].text == "its worker process ended with code 3, 3 times in a row"
        assert [event.kind for event in events] == ["note", "note", "failed"]
    finally:
        workers.close()


def test_workers_that_only_die_end_the_study(study_file, monkeypatch):
    spec = read_spec(study_file)
    workers = LocalWorkers(1)
    monkeypatch.setattr("bqrl.experiments.workers.serve", dies)
    try:
        for seed in range(3):
            workers.submit(spec.run(spec.entry("eps_q"), 0.5, seed))
        told = r"^worker processes die before they have done anything \(the last one ended"
        with pytest.raises(ChildProcessError, match=told):
            wait_long(workers)
    finally:
        workers.close()


def wait_long(workers):
    for _ in range(20):
        workers.wait(5.0)


def dies(pipe, code):
    pipe.recv()
    os._exit(3)


def test_a_worker_with_other_code_refuses(study_file):
    spec = read_spec(study_file)
    said = []

    class Pipe:
        def recv(self):
            if said:
                raise EOFError
            return spec.run(spec.entry("eps_q"), 0.5, 1)

        def send(self, message):
            said.append(message)

    serve(Pipe(), "0.0.0+other")
    assert said[0][0] == "failed"
    assert "the study was begun by 0.0.0+other; use the same everywhere" in said[0][1]


def test_there_is_a_core():
    assert 1 <= available_cores() <= os.cpu_count()


@pytest.mark.slow
def test_ten_kills_at_random_moments_change_nothing(made, study_file, tmp_path):
    chance, kills = random.Random(7), 0
    while kills < 10:
        process = begin(study_file, tmp_path)
        if kills % 5 == 4:
            time.sleep(chance.uniform(0.0, 1.5))  # while it starts
        else:
            wait_for(tmp_path, finished(tmp_path) + chance.randint(1, RUNS // 8), process)
            time.sleep(chance.uniform(0.0, 0.05))
        if process.poll() is None:
            kills += 1
            if kills % 2:
                process.kill()  # the workers find out by themselves
            else:
                os.killpg(process.pid, signal.SIGKILL)
        else:  # it was done: take some of its results away
            for path in chance.sample(sorted((tmp_path / "runs").glob("*.npz")), RUNS // 2):
                path.unlink()
        process.communicate()
    before = finished(tmp_path)
    process = begin(study_file, tmp_path)
    said, _ = process.communicate(timeout=100)
    assert process.returncode == 0, said
    there = json.loads((tmp_path / "results.json").read_text())["session"]
    assert there["runs_made"] + there["runs_skipped"] == RUNS
    assert there["runs_skipped"] >= before - 2  # a worker may have been reading its last run
    assert results_of(tmp_path) == results_of(made)


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(made, study_file, tmp_path):
    for attempt in range(8):  # on a busy machine the small study may be over before the signal comes
        folder = tmp_path / str(attempt)
        process = begin(study_file, folder)
        wait_for(folder, 5, process)
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: everyone hears it
        said, _ = process.communicate(timeout=120)
        if process.returncode != 0:
            break
    assert process.returncode == 130
    assert "finished runs are kept in" in said
    assert "Traceback" not in said
    heard = Heard()
    told = reproduce(study_file, folder, workers=LocalWorkers(2), watch=heard)
    assert told["session"]["runs_skipped"] >= 5
    assert results_of(folder) == results_of(made)
