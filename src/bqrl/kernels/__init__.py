"""Numba loops that several callers share: arrays in, arrays out. They check nothing and import nothing else of bqrl.

Numba stores compiled functions on disk and recompiles one when its own file changes, but not when a function that it
inlined from another file changes. Loops that serve one planner or learner (`*_loops.py`) inline kernels, too. So every
compiled function older than the newest source of a loop is removed on import.

Where neither the package nor the user's cache folder can be written to, as in many containers, Numba refuses to store
anything and fails. Compiled functions then go to a temporary folder of this process, which nobody else can write to.
"""

import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any


def drop_stale(package: Path) -> None:
    """Remove compiled loops older than the newest source of a loop; modification times in the future are ignored."""
    with suppress(OSError):  # another process may remove them at the same time, or the folder may be read-only
        sources = [*package.glob("kernels/*.py"), *package.glob("*/*_loops.py")]
        changes = [source.stat().st_mtime_ns for source in sources]
        newest = max((when for when in changes if when <= time.time_ns()), default=0)
        for compiled in package.glob("*/__pycache__/*.nb[ci]"):
            with suppress(OSError):
                if compiled.stat().st_mtime_ns < newest:
                    compiled.unlink()


def cache_folder(package: Path) -> Any:
    """Return None if Numba has a place for compiled functions, else the temporary folder that it uses from now on."""
    if os.access(package, os.W_OK):  # the usual case, in which Numba need not be loaded to find out
        return None
    import numba

    try:
        numba.njit(cache=True)(lambda: None)
    except RuntimeError:  # no place can be written to
        folder = tempfile.TemporaryDirectory(prefix="bqrl-")
        os.environ["NUMBA_CACHE_DIR"] = folder.name  # for processes that this one starts
        numba.config.reload_config()
        return folder
    return None


TEMPORARY_CACHE = cache_folder(Path(__file__).parent)  # removed when the process ends
drop_stale(Path(__file__).parents[1])
