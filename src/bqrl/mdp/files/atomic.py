"""Atomic writes: a file is written completely or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO

LOCK = ".bqrl.lock"  # of a folder of runs, a result or both
RUNS = "runs"  # the runs of a study in its folder


@contextmanager
def replace_file(path: str | Path) -> Iterator[BinaryIO]:
    """Yield a binary file that replaces `path` if the block ends without an exception; until then the old file stays.

    >>> import tempfile
    >>> target = Path(tempfile.mkdtemp()) / "numbers.txt"
    >>> with replace_file(target) as file:
    ...     _ = file.write(b"1 2 3")
    >>> target.read_text()
    '1 2 3'
    """
    target = Path(os.path.realpath(path))  # a link stays a link, and its target is replaced
    check_place(target)
    # Beside the target, because a rename cannot cross file systems.
    draft = target.with_name(f".{target.name[:80]}.{secrets.token_hex(6)}.part")
    try:
        with draft.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(draft, target)
    except BaseException as error:
        draft.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, str(draft)):
            error.filename = str(target)  # the error of a full disk names no file, that of a permission the draft
        raise


def drafts(path: Path) -> Iterator[Path]:
    """Return the drafts that killed processes left beside a file; the name in `path` may be a pattern."""
    return path.parent.glob(f".{path.name[:80]}.{'[0-9a-f]' * 12}.part")


def write_whole(path: str | Path, content: bytes) -> None:
    """Write `content` to `path` atomically."""
    with replace_file(path) as file:
        file.write(content)


def check_place(path: Path) -> None:
    """Raise an OSError unless a file can be written there: its folder exists, and the path itself is not a folder."""
    if not path.parent.is_dir():
        raise FileNotFoundError(f"the folder {path.parent} does not exist; create it first")
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder; give the name of a file")
