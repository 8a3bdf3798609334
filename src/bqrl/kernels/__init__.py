"""Numba loops: arrays in, arrays out; they trust their caller and import nothing of ours.

Numba keeps compiled kernels on disk and compiles anew when their own file changes, not when a function does that they took
in from another file. So kernels compiled before the newest change of any file here are dropped on import.
"""

import time
from contextlib import suppress
from pathlib import Path


def drop_stale(folder: Path) -> None:
    """Remove compiled kernels older than the newest source file of the folder; a file from the future counts for none."""
    with suppress(OSError):  # another process may remove them at the same time, or nobody may write here
        changes = [source.stat().st_mtime_ns for source in folder.glob("*.py")]
        newest = max((when for when in changes if when <= time.time_ns()), default=0)
        for compiled in (folder / "__pycache__").glob("*.nb[ci]"):
            with suppress(OSError):
                if compiled.stat().st_mtime_ns < newest:
                    compiled.unlink()


drop_stale(Path(__file__).parent)
