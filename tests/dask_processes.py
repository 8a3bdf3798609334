"""Schedulers and workers of Dask as processes, for tests of clusters."""

import json
import os
import signal
import subprocess
import sys
import time

ENVIRONMENT = os.environ | {"DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT": "10s"}
WORKER = ("--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard", "--no-nanny")


def start(*arguments, environment=ENVIRONMENT):
    """A command of Dask as users run it, in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *arguments],
        env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
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


def start_scheduler(folder, *options):
    about = folder / "scheduler.json"
    process = start(
        "scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard", "--scheduler-file", str(about), *options
    )
    until(lambda: about.exists() and about.read_text().endswith("}"))
    return json.loads(about.read_text())["address"], process
