"""Finished runs on disk, in the subfolder `runs`: a log, and one file per run, written whole or not at all.

A damaged file, or one of another run, is reported and the run is repeated. The log also holds the times of all runs, because
their files must not depend on clocks.
"""

from __future__ import annotations

import errno
import os
import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from bqrl.learners.record import Record
from bqrl.mdp.files.atomic import drafts, write_whole
from bqrl.mdp.model import MDP
from bqrl.study.runs import RunSpec, Timing, fingerprint, from_bytes, to_bytes
from bqrl.study.watch import Watch

RUNS, LOG = "runs", "runs/study.log"
LOCK = ".bqrl.lock"  # of a folder of runs, a result or both
TIME = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d "  # how lines of the log begin
DONE = re.compile(rf"{TIME}done (\S+) core=([0-9.]+) episode=([0-9.]+): ", re.MULTILINE)


class Store:
    """The finished runs of a study in a folder, which is locked while the store is open, so that one process alone writes.

    The lock file stays behind after release; the lock itself ends with its process.
    """

    def __init__(self, folder: str | Path, watch: Watch | None = None) -> None:
        self.folder, self.watch = Path(folder), Watch() if watch is None else watch
        self.runs, self.log, lock = self.folder / RUNS, self.folder / LOG, self.folder / LOCK
        for place, ours in ((self.runs, self._is_ours()), (lock, lock.is_file())):
            if os.path.lexists(place) and (place.is_symlink() or not ours):
                raise FileExistsError(f"{place} was not written by bqrl; move it or choose another folder")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(lock)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise BlockingIOError(
                f"another command is running in {folder}; wait for it or give another folder"
            ) from None
        self.runs.mkdir(exist_ok=True)
        self.say(f"bqrl {fingerprint()}", detail=2)
        for draft in drafts(self.path("*")):
            draft.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            self.say(f"stopped: {type(error).__name__}: {error}", detail=2)
        self.close()
        if isinstance(error, OSError) and not self.runs.is_dir():
            lost = f"{self.runs} was removed during the command, and the finished runs with it"
            raise FileNotFoundError(f"{lost}; run the command again") from None

    def close(self) -> None:
        """Release the folder."""
        self._lock.release()

    def _is_ours(self) -> bool:
        """Whether the subfolder is empty or holds a log of ours."""
        if self.log.is_symlink() or not self.log.is_file():
            return self.runs.is_dir() and not any(self.runs.iterdir())
        with self.log.open(encoding="utf-8", errors="replace") as file:
            return re.match(f"{TIME}|$", file.read(20)) is not None

    def say(self, text: str, detail: int = 0) -> None:
        """Write a line to the log, and report it as `Watch.say` does."""
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n"
        with suppress(OSError), self.log.open("ab") as file:  # a full disk must not end a study here
            file.write(line.encode(errors="replace"))
        self.watch.say(text, detail)

    def path(self, name: str) -> Path:
        """File of the run of that name."""
        return self.runs / f"{name}.npz"

    def has(self, run: RunSpec) -> bool:
        """Whether the run is finished and its file sound; reports a file that is not."""
        path = self.path(run.name)
        if not path.is_file():
            return False
        try:
            from_bytes(run, path.read_bytes())
        except ValueError as error:
            self.say(f"{RUNS}/{path.name}: {error}; the run is repeated", detail=-1)
            return False
        return True

    def save(self, run: RunSpec, record: Record, timing: Timing) -> None:
        """Write the result of a run, and its times to the log."""
        try:
            write_whole(self.path(run.name), to_bytes(run, record))
        except OSError as error:
            why, remedy = error.strerror or error, "make room and " if error.errno == errno.ENOSPC else ""
            said = f"cannot write to {self.folder}: {why}; finished runs are kept; {remedy}run the command again"
            raise OSError(said) from None
        self.say(f"done {run.name} core={timing.core:.7f} episode={timing.episode:.7f}: {run}", detail=2)

    def load(self, run: RunSpec) -> Record:
        """The record of a finished run, with its problem."""
        record = from_bytes(run, self.path(run.name).read_bytes())
        record.mdp = run.problem.model if isinstance(run.problem.model, MDP) else None
        return record

    def times(self) -> dict[str, Timing]:
        """Times of every run that was ever carried out in the folder, by name."""
        found = DONE.findall(self.log.read_text(encoding="utf-8", errors="replace"))
        return {name: Timing(core=float(core), episode=float(episode)) for name, core, episode in found}
