"""Compiled loops: arrays in, arrays out. They check nothing, draw nothing and import nothing else of bqrl.

Loops of one algorithm are in the file of its name; `backward`, `l1`, `masses`, `moves`, `rollout` and `draws` serve several.

Numba stores compiled functions on disk and recompiles one when its own file changes, but not when a function that it
inlined from another file changes. So every compiled function older than the newest source here is removed on import.

If neither the package nor the cache folder of the user is writable, as in many containers, Numba cannot store anything and
fails. Compiled functions are then stored in a temporary folder of this process, which nobody else can write to.
"""

import os
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any


def drop_stale(folder: Path) -> None:
    """Remove compiled loops older than the newest source in the folder; modification times in the future are ignored."""
    with suppress(OSError):  # another process may remove them at the same time, or the folder may be read-only
        changes = [source.stat().st_mtime_ns for source in folder.glob("*.py")]
        newest = max((when for when in changes if when <= time.time_ns()), default=0)
        for compiled in folder.glob("__pycache__/*.nb[ci]"):
            with suppress(OSError):
                if compiled.stat().st_mtime_ns < newest:
                    compiled.unlink()


def cache_folder(package: Path) -> Any:
    """Return None if Numba can store compiled functions, else the temporary folder that it uses from now on."""
    if os.access(package, os.W_OK):  # the usual case; Numba need not be imported
        return None
    import numba

    try:
        numba.njit(cache=True)(lambda: None)
    except RuntimeError:  # no folder is writable
        folder = tempfile.TemporaryDirectory(prefix="bqrl-")
        os.environ["NUMBA_CACHE_DIR"] = folder.name  # also for child processes
        numba.config.reload_config()
        return folder
    return None


TEMPORARY_CACHE = cache_folder(Path(__file__).parent)  # removed when the process ends
drop_stale(Path(__file__).parent)
