"""A result folder that is either complete or marked as interrupted; files of other programs are never touched.

`manifest.json` lists the SHA-256 digest of every file. Writing has four steps under one lock:

1. the manifest is replaced by one that says "interrupted" and lists the digests of the old and of the new files;
2. each new file replaces its predecessor atomically;
3. files of the old content that the new one does not have are removed;
4. the manifest is replaced by one that says "complete" and lists the new files.

If the process is killed before step 1, the folder holds the old content; after step 4, it holds the new content. In between
it is marked as interrupted, and the same command completes it. If files are only added, step 1 says "complete", and the
digest "" stands for an added file that does not exist yet. A file was written by bqrl if the manifest lists its name and its
digest. All other files stay untouched; if one of them has the name of a file that may be written, `check` raises an error
before any work begins.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryFile

from filelock import FileLock, Timeout

from bqrl.errors import FileFormatError
from bqrl.mdp.files.atomic import LOCK, RUNS, drafts, write_whole

MANIFEST = "manifest.json"
FORMAT, VERSION = "bqrl result", 1
LOCK_SECONDS = 30.0  # longer than writing takes
# in at most three subfolders
NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,120}/){0,3}[A-Za-z0-9][A-Za-z0-9._-]{0,120}")
COMPLETE, INTERRUPTED = "complete", "interrupted"


class Folder:
    """A folder with the status and the digests in its manifest."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.status = ""  # COMPLETE, INTERRUPTED, or "" without a manifest of bqrl
        self.digests: dict[str, list[str]] = {}
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            found = json.loads((self.path / MANIFEST).read_bytes())
            if found["format"] == FORMAT and found["status"] in (COMPLETE, INTERRUPTED):
                files = found["files"].items()
                self.digests = {name: [*map(str, some)] for name, some in files if NAME.fullmatch(name)}
                self.status = found["status"]

    def check(self, names: Iterable[str]) -> None:
        """Raise OSError if files with these names, or patterns such as "*.png", cannot be written. Writes nothing."""
        self.check_writable()
        if os.path.lexists(self.path / MANIFEST) and not self.status:
            _refuse(self.path / MANIFEST, "was not written by bqrl")
        for pattern in names:
            for part in (self.path / parent for parent in list(Path(pattern).parents)[:-1]):
                if os.path.lexists(part) and (part.is_symlink() or not part.is_dir()):
                    _refuse(part, "is not a folder of bqrl")
            for place in self.path.glob(pattern) if "*" in pattern else [self.path / pattern]:
                name = place.relative_to(self.path).as_posix()
                if os.path.lexists(place) and not self._holds(name):
                    changed = name in self.digests
                    _refuse(place, "was changed after bqrl wrote it" if changed else "was not written by bqrl")

    def check_writable(self) -> None:
        """Raise OSError if the folder cannot be created or written to."""
        nearest = next(filter(os.path.lexists, (self.path, *self.path.parents)), Path())
        fault = "a name must not contain a zero byte; choose another folder" if "\0" in str(self.path) else ""
        if not os.path.isdir(nearest):
            fault = f"{nearest} is a file; name a folder"
        try:
            TemporaryFile(dir=nearest).close()
        except OSError as error:
            fault = fault or f"no file can be created in {nearest} ({error.strerror}); choose another folder"
        if fault:
            raise OSError(f"cannot write to the folder {self.path}: {fault}")

    def replace(
        self, contents: Mapping[str, bytes], *, keep: bool = False, check: Callable[[], None] = lambda: None
    ) -> None:
        """Replace the files in the manifest by these, unless `check` raises; with `keep`, files with other names stay."""
        self.check_writable()
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            with FileLock(self.path / LOCK, timeout=LOCK_SECONDS):
                now = Folder(self.path)  # another process may have written
                now.check(contents)
                check()
                old, new = now.digests, {name: [_digest(content)] for name, content in contents.items()}
                for name in (MANIFEST, *old, *new):
                    for draft in drafts(self.path / name):  # left behind by a killed process
                        draft.unlink(missing_ok=True)
                none = [""] if keep else []
                both = {name: [*new.get(name, ()), *old.get(name, none)] for name in {**old, **new}}
                now.write_manifest(COMPLETE if keep else INTERRUPTED, both)
                for name, content in contents.items():
                    now._put(name, content)
                for name in old:
                    if not keep and name not in new and now._holds(name):
                        (self.path / name).unlink()
                now.write_manifest(COMPLETE, {**old, **new} if keep else new)
        except Timeout:
            raise OSError(f"another process is writing to {self.path}; wait for it or choose another folder") from None
        except FileExistsError:
            raise
        except OSError as fault:
            room = "make room there or " if fault.errno == errno.ENOSPC else ""
            reason = f"{fault.strerror or fault}; {room}choose another folder"
            raise OSError(f"cannot write the result to {self.path}: {reason}") from None

    def read(self) -> dict[str, bytes]:
        """The files by name; FileFormatError unless the folder is complete and no file has changed."""
        path = self.path
        if not path.is_dir():
            raise FileNotFoundError(f"there is no folder {path}; name one that a command has written with --out")
        if not self.status and (path / LOCK).is_file() and (path / RUNS).is_dir():
            raise FileFormatError(f"{path}: not finished; run the command again", file=str(path))
        if not self.status:
            fault = f"holds no result of bqrl (no valid {MANIFEST}); name a folder written with --out"
            raise FileFormatError(f"{path} {fault}", file=str(path))
        if self.status != COMPLETE:
            raise FileFormatError(f"{path}: interrupted; run the command again", file=str(path))
        contents: dict[str, bytes] = {}
        for name, digests in self.digests.items():
            with suppress(OSError):
                contents[name] = (path / name).read_bytes()
            if (_digest(contents[name]) if name in contents else "") not in digests:
                state = "missing; " if name not in contents else "not as it was written; move it away and "
                raise FileFormatError(f"{path / name} is {state}run the command again", file=str(path / name))
        return contents

    def write_manifest(self, status: str, files: Mapping[str, list[str]]) -> None:
        """Replace the manifest."""
        message = {} if status == COMPLETE else {"message": "interrupted; run the command again"}
        head = {"format": FORMAT, "version": VERSION, "status": status, **message, "files": dict(sorted(files.items()))}
        self._put(MANIFEST, (json.dumps(head, indent=2) + "\n").encode())

    def _holds(self, name: str) -> bool:
        """Whether a file is unchanged since bqrl wrote it."""
        place, digests = self.path / name, self.digests.get(name, ())
        return not place.is_symlink() and place.is_file() and _digest(place.read_bytes()) in digests

    def _put(self, name: str, content: bytes) -> None:
        """Replace one file atomically."""
        (self.path / name).parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path / name, content)


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _refuse(place: Path, reason: str) -> None:
    raise FileExistsError(f"{place} {reason}; move it or choose another folder")
