"""Finished runs, in memory or on disk: one file per run, written whole or not at all, never taken for that of another run.

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
BEGINS = {TIMES: re.compile(rb'\{"run": |$'), LOG: re.compile(rb"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d |$")}
LOCK = ".bqrl.lock"  # of a folder of runs, a result or both


class Memory:
    """The finished runs of this process."""

    packed = False  # whether runs come as the bytes of their files, or as records

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release what other processes wait for."""

    def has(self, run: RunSpec) -> bool:
        """Whether the run is finished."""
        return run.name in self.records

    def save(self, run: RunSpec, content: Any, timing: Timing) -> None:
        """Keep the record of a run."""
        self.records[run.name] = content

    def load(self, run: RunSpec) -> Record:
        """The record of a finished run."""
        return self.records[run.name]

    def times(self) -> dict[str, Timing]:
        """Times of runs that were carried out before, by name."""
        return {}


class Store(Memory):
    """The finished runs of a study in a folder; the folder is locked while the store is open.

    The lock is taken before anything else, also before the drafts of a killed process are removed, so two processes never
    write to one folder. The lock file stays behind after release; the lock itself ends with its process.
    """

    packed = True

    def __init__(self, folder: str | Path, watch: Watch | None = None) -> None:
        self.folder = Path(folder)
        self.runs = self.folder / RUNS
        self.watch = Watch() if watch is None else watch
        for name in (LOCK, RUNS, TIMES, LOG):
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

    def close(self) -> None:
        """Release the folder."""
        self._lock.release()

    def _is_ours(self, name: str) -> bool:
        """Whether something in the folder was left by a study: the lock is there, and a file begins as ours do."""
        place = self.folder / name
        if place.is_symlink() or not (self.folder / LOCK).is_file():
            return False
        if name in (LOCK, RUNS):
            return name == LOCK or place.is_dir()
        if not place.is_file():
            return False
        with place.open("rb") as file:
            return BEGINS[name].match(file.read(32)) is not None

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

    def save(self, run: RunSpec, content: Any, timing: Timing) -> None:
        """Write the result of a run; its times go to a separate file, because results must not depend on clocks."""
        entry = {"run": run.name, **{name: round(value, 7) for name, value in timing._asdict().items()}}
        try:
            write_whole(self.path(run.name), content)
            with (self.folder / TIMES).open("a+b") as file:
                file.seek(max(file.tell() - 1, 0))
                torn = file.read(1) not in (b"", b"\n")  # a process was killed while it wrote the last line
                file.write(("\n" if torn else "").encode() + json.dumps(entry).encode() + b"\n")
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
