"""The function that runs a loop: by NumPy, compiled, or compiled over threads, always with the same bits.

Compiling a loop takes seconds, and loading it a few hundredths of one. So the first steps of a process are left to NumPy forms of
the loops that every plan needs, more of them if the loops are not stored on disk yet: a first small plan compiles nothing.

The threads of Numba do not survive a fork: depending on the threading layer, a loop over threads ends a forked process or waits
forever. Some layers also abort if two Python threads start loops over threads at the same time. Therefore forked processes use
the serial loops, and a lock admits one loop over threads at a time.
"""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba import threading_layer  # type: ignore[attr-defined]

from bqrl.loops.backward import sweep_rows

THREADS_FROM = 20_000_000  # number of elementary steps from which threads save time, including their compilation
FIRST_WORK = {True: 2_000_000, False: 40_000_000}  # steps left to NumPy, 25 ns each, if loops are stored, and if not
CALL_WORK = 20_000  # steps that take as long as the calls of NumPy for one loop

_one_at_a_time = threading.Lock()
_lost_by_fork = False
_left_to_numpy: int | None = None


def by_numpy(work: int) -> bool:
    """Return whether NumPy should carry out a loop of `work` elementary steps, and count them."""
    global _left_to_numpy
    if _left_to_numpy is None:
        stats = getattr(sweep_rows, "stats", None)  # none if compilation is switched off
        stored = stats is not None and any(Path(str(stats.cache_path)).glob("backward.sweep_rows-*.nbi"))
        _left_to_numpy = FIRST_WORK[stored]
    if work > THREADS_FROM or work + CALL_WORK > _left_to_numpy:
        return False
    _left_to_numpy -= work + CALL_WORK
    return True


def run_loop(
    work: int, serial: Callable[..., None], threads: Callable[..., None], *arguments: Any,
    plain: Callable[..., None] | None = None,
) -> None:  # fmt: skip
    """Call `threads` if the number `work` of elementary steps is large and threads are safe, else `serial` or `plain`."""
    if plain is not None and by_numpy(work):
        plain(*arguments)
        return
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
