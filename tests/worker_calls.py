"""Calls for worker processes, in a module that they can import."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path


def double(x):
    return 2 * x


def die_once(folder, x):
    """Kill the process at the first call."""
    mark = Path(folder) / "died"
    if not mark.exists():
        mark.write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return x


def die():
    os._exit(3)


def fail():
    raise ValueError("no chance")


def fail_oddly(kind):
    """Raise an error that cannot be sent, or that its own arguments do not make again."""

    class OddError(Exception):
        def __init__(self, first, second):
            super().__init__(f"{first} and {second}")
            self.held = threading.Lock() if kind == "lock" else None

    raise OddError(1, 2)


def environment():
    return os.environ["NUMBA_NUM_THREADS"], os.environ["OMP_NUM_THREADS"], signal.getsignal(signal.SIGINT)


CHANGED = """
from bqrl.study.workers import ClusterWorkers
from bqrl.study.workers import LocalWorkers

SCALE = 2

class Mine:
    calls = 0

    def scaled(self):
        Mine.calls += 1
        return SCALE

def call():
    mine = Mine()
    return mine, mine.scaled()

workers = WORKERS
answers = [workers.submit(call).result()]
SCALE = 3
answers.append(workers.submit(call).result())
print([(type(mine) is Mine, mine.scaled(), scale) for mine, scale in answers], Mine.calls)
workers.close()
"""


def assert_classes_are_kept(workers):
    """Answers of these workers leave the classes of the main script as they are."""
    script = CHANGED.replace("WORKERS", workers)
    found = subprocess.run([sys.executable, "-"], input=script, capture_output=True, text=True, check=False)
    assert (found.stdout, found.stderr) == ("[(True, 3, 2), (True, 3, 3)] 2\n", "")
