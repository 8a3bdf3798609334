"""Finished runs on disk: one file per run, written whole or not at all, never taken for that of another run.

A damaged file, or one of another run, is reported and the run is repeated.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any, Self

from filelock import FileLock, Timeout

from bqrl.learners.record import Record
from bqrl.mdp.files.atomic import drafts, write_whole
from bqrl.mdp.model import MDP
from bqrl.study.runs import RunSpec, Timing, from_bytes
from bqrl.study.watch import Watch

RUNS, TIMES, LOG = "runs", "times.jsonl", "study.log"
LOCK = ".bqrl.lock"  # of a folder of runs, a result or both
BEGINS = {LOCK: rb"", TIMES: rb'\{"run": |$', LOG: rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d |$"}  # how our files begin


class Store:
    """The finished runs of a study in a folder, which is locked while the store is open, so that one process alone writes.

    The lock file stays behind after release; the lock itself ends with its process.
    """

    def __init__(self, folder: str | Path, watch: Watch | None = None) -> None:
        self.folder, self.watch = Path(folder), Watch() if watch is None else watch
        self.runs = self.folder / RUNS
        for name in (RUNS, *BEGINS):
            if os.path.lexists(self.folder / name) and not self._is_ours(name):
                raise FileExistsError(f"{self.folder / name} was not written by bqrl; move it or choose another folder")
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(self.folder / LOCK)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise BlockingIOError(
                f"another command is running in {folder}; wait for it or give another folder"
            ) from None
        self.runs.mkdir(exist_ok=True)
        for draft in drafts(self.path("*")):
            draft.unlink(missing_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None:
            self.watch.say(f"stopped: {type(error).__name__}: {error}", detail=2)
        self.close()

    def close(self) -> None:
        """Release the folder."""
        self._lock.release()

    def _is_ours(self, name: str) -> bool:
        """Whether something in the folder was left by a study: the lock is there, and a file begins as ours do."""
        place = self.folder / name
        if place.is_symlink() or not (self.folder / LOCK).is_file():
            return False
        if name == RUNS or not place.is_file():
            return name == RUNS and place.is_dir()
        with place.open("rb") as file:
            return re.match(BEGINS[name], file.read(32)) is not None

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
            self.watch.say(f"{RUNS}/{path.name}: {error}; the run is repeated", detail=-1)
            return False
        return True

    def save(self, run: RunSpec, content: bytes, timing: Timing) -> None:
        """Write the result of a run; its times go to a separate file, because results must not depend on clocks."""
        entry = {"run": run.name, **{name: round(value, 7) for name, value in timing._asdict().items()}}
        try:
            write_whole(self.path(run.name), content)
            with (self.folder / TIMES).open("a+b") as file:
                file.seek(max(file.tell() - 1, 0))
                torn = file.read(1) not in (b"", b"\n")  # a process was killed while it wrote the last line
                file.write(b"\n" * torn + json.dumps(entry).encode() + b"\n")
        except OSError as error:
            why = error.strerror or error
            raise OSError(
                f"cannot write to {self.folder}: {why}; finished runs are kept; make room and run the command again"
            ) from None

    def load(self, run: RunSpec) -> Record:
        """The record of a finished run, with its problem."""
        record = from_bytes(run, self.path(run.name).read_bytes())
        model = run.problem.build()
        record.mdp = model if isinstance(model, MDP) else None
        return record

    def times(self) -> dict[str, Timing]:
        """Times of every run that was ever carried out in the folder, by name."""
        path, found = self.folder / TIMES, {}
        for line in path.read_text().splitlines() if path.is_file() else ():
            try:
                entry = json.loads(line)
                found[str(entry["run"])] = Timing(*(float(entry[name]) for name in Timing._fields))
            except (ValueError, KeyError, TypeError):
                continue  # the last line of a killed process
        return found
