"""Calls for worker processes, in a module that they can import."""

import os
import signal
import threading
from pathlib import Path

from bqrl.errors import ArgumentTypeError


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


def fail_with_a_function():
    raise ArgumentTypeError("no function", name="plan", value=lambda: 0)


def environment():
    return os.environ["NUMBA_NUM_THREADS"], os.environ["OMP_NUM_THREADS"], signal.getsignal(signal.SIGINT)
