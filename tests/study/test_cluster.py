"""A real scheduler and two workers on loopback; one of them is killed in the middle."""

import gc
import json
import math
import shutil
import subprocess
import sys

import pytest
from dask_processes import ENVIRONMENT, WORKER, start, start_scheduler, stop, until
from small_study import RUNS, results_of

from bqrl.cli.commands import run
from bqrl.planners import cluster as pools
from bqrl.study.workers import ClusterWorkers

pytest.importorskip("distributed")

BQRL = [sys.executable, "-c", "from bqrl.cli import main; main()", "reproduce"]


@pytest.fixture
def scheduler(tmp_path):
    address, process = start_scheduler(tmp_path)
    yield address, process
    stop(process)


@pytest.fixture
def study(scheduler, study_file, tmp_path):
    """The study on the cluster, started but not waited for."""
    command = [*BQRL, "--study", str(study_file), "--out", str(tmp_path / "out"), "--cluster", scheduler[0]]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=ENVIRONMENT)
    yield process
    process.kill()
    process.communicate()


@pytest.fixture
def workers(scheduler, tmp_path):
    processes = [start("worker", scheduler[0], *WORKER, "--local-directory", str(tmp_path)) for _ in range(2)]
    yield processes
    for process in processes:
        stop(process)


def log_says(folder, text):
    path = folder / "runs/study.log"
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
    assert json.loads((out / "result.json").read_text())["details"]["session"]["runs_made"] == RUNS


@pytest.mark.slow
def test_without_workers_it_waits_and_a_lost_scheduler_is_one_line(scheduler, study, tmp_path):
    out = tmp_path / "out"
    until(lambda: log_says(out, "has no workers") or study.poll() is not None)
    stop(scheduler[1])
    said, _ = study.communicate(timeout=60)
    assert study.returncode == 2, said
    assert said.splitlines()[-1].endswith("was lost; finished runs are kept")
    assert "Traceback" not in said


def test_an_error_on_the_cluster_belongs_to_its_call(scheduler, workers):
    found = ClusterWorkers(scheduler[0])
    try:
        calls = [found.submit(int, text) for text in ("7", "seven")]
        assert calls[0].result(60) == 7
        error = calls[1].exception(60)
        assert "invalid literal for int() with base 10: 'seven'" in str(error)
        assert error.__notes__[0].startswith("In a worker process:")
    finally:
        found.close()


def test_a_worker_without_bqrl_is_an_error_of_its_call(scheduler, tmp_path):
    (tmp_path / "bqrl.py").write_text("raise ImportError('no bqrl here')")
    process = start("worker", scheduler[0], *WORKER, environment=ENVIRONMENT | {"PYTHONPATH": str(tmp_path)})
    found = ClusterWorkers(scheduler[0])
    try:
        with pytest.raises(ImportError, match="no bqrl here"):
            found.submit(int, "7").result(30)
    finally:
        found.close()
        stop(process)


def test_a_cluster_out_of_reach_is_one_line(monkeypatch):
    monkeypatch.setattr(pools, "CONNECT_SECONDS", 1)
    said = r"^no Dask scheduler answers at 'tcp://127\.0\.0\.1:9' \(.*`dask scheduler`$"
    with pytest.raises(ConnectionError, match=said) as error:
        ClusterWorkers("tcp://127.0.0.1:9")
    assert "\n" not in str(error.value)


MALFORMED = (
    "", "nonsense", "10.0.0.5", "host:99999", "tcp://", "tcp://host", "tcp://host:", "tcp://host:0", "tcp://host:port", "tcp://host:65536",
    "tcp://host:99999999", "tcp://:8786", "tcp://[::1:8786", "tcp://a b:8786", "tcp:/host:8786", "http://host:8786",
    "://host:8786", "inproc://x:1", "tcp://host:8786/path", "tcp://user@host:8786", "tcp://[::1]8786",
)  # fmt: skip


@pytest.mark.parametrize("address", MALFORMED)
def test_a_malformed_address_is_one_line(address, capsys, study_file, tmp_path, monkeypatch):
    """Dask finds it, and leaves no client behind that would complain at exit."""
    monkeypatch.setattr(pools, "CONNECT_SECONDS", 1)
    code = run(["reproduce", "--study", str(study_file), "--out", str(tmp_path / "out"), "--cluster", address])
    gc.collect()
    out, said = capsys.readouterr()
    assert (code, out, said.count("\n")) == (2, "", 1)
    assert said.startswith(f"bqrl: no Dask scheduler answers at {address!r} (")
    assert said.endswith("); start one with `dask scheduler`\n")
    assert not (tmp_path / "out").exists()


@pytest.fixture
def certificates(tmp_path):
    """A certificate that vouches for itself, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl is not installed")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=bqrl"]
    subprocess.run([*command, "-keyout", str(key), "-out", str(cert)], check=True, capture_output=True)
    return str(cert), str(key)


def test_a_cluster_with_tls_works_and_refuses_members_without_a_certificate(certificates, tmp_path, monkeypatch):
    from distributed import Security

    cert, key = certificates
    tls = ("--tls-ca-file", cert, "--tls-cert", cert, "--tls-key", key)
    address, process = start_scheduler(tmp_path, "--protocol", "tls", *tls)
    worker = start("worker", address, *WORKER, *tls, "--local-directory", str(tmp_path))
    try:
        assert address.startswith("tls://")
        security = Security(tls_ca_file=cert, tls_client_cert=cert, tls_client_key=key, require_encryption=True)
        workers = ClusterWorkers(address, security)
        try:
            assert workers.submit(math.factorial, 5).result(timeout=60) == 120
        finally:
            workers.close()
        monkeypatch.setattr(pools, "CONNECT_SECONDS", 1)
        for stranger in (address, address.replace("tls://", "tcp://")):
            with pytest.raises(ConnectionError, match="no Dask scheduler answers at"):
                ClusterWorkers(stranger)
    finally:
        stop(worker)
        stop(process)
