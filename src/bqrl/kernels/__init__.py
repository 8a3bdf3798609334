"""Numba loops that several callers share: arrays in, arrays out. They check nothing and import nothing else of bqrl.

Numba stores compiled functions on disk and recompiles one when its own file changes, but not when a function that it
inlined from another file changes. Loops that serve one planner or learner (`*_loops.py`) inline kernels, too. So every
compiled function older than the newest source of a loop is removed on import.
"""

import time
from contextlib import suppress
from pathlib import Path


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


drop_stale(Path(__file__).parents[1])
