"""The function that runs a compiled loop, over threads if that is faster and safe, always with the same bits.

The threads of Numba do not survive a fork: depending on the threading layer, a loop over threads ends a forked process or waits
forever. Some layers also abort if two Python threads start loops over threads at the same time. Therefore forked processes use
the serial loops, and a lock admits one loop over threads at a time.
"""

import os
import threading
from collections.abc import Callable
from typing import Any

from numba import threading_layer  # type: ignore[attr-defined]

THREADS_FROM = 20_000_000  # number of elementary steps from which threads save time, including their compilation

_one_at_a_time = threading.Lock()
_lost_by_fork = False


def run_loop(work: int, serial: Callable[..., None], threads: Callable[..., None], *arguments: Any) -> None:
    """Call `threads` if the number `work` of elementary steps is large and threads are safe, else `serial`."""
    if work <= THREADS_FROM or _lost_by_fork:
        serial(*arguments)
        return
    with _one_at_a_time:
        threads(*arguments)


def _after_fork() -> None:
    """Disable threads in a forked process if the parent has started them; replace the lock, which may have been held."""
    global _one_at_a_time, _lost_by_fork
    _one_at_a_time = threading.Lock()
    try:
        threading_layer()
    except ValueError:  # not started
        return
    _lost_by_fork = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
