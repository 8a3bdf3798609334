"""Finished runs on disk: one file per run, written whole or not at all, and never taken for the result of another run.

A file is an .npz archive that `Record.load` reads, with two more arrays: `run`, the identity of the run as canonical JSON, and
`digest`, a hash of every other array. A damaged file, or one of another run, is reported and the run is repeated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

from bqrl.learners.record import Record
from bqrl.mdp.atomic import write_whole
from bqrl.mdp.file_npz import pack, unpack
from bqrl.study.run import RunSpec, Timing, canonical, check_code, complete

RUNS, TIMES, LOCK = "runs", "times.jsonl", ".lock"
OWN = ("run", "digest")


class Store:
    """The finished runs of a study in a folder; the folder is locked while the store is open.

    The lock is taken before anything else, also before the drafts of a killed process are removed, so two processes never
    write to one folder. The lock file stays behind after release; the lock itself ends with its process.
    """

    def __init__(self, folder: str | Path, say: Callable[[str], None] = print) -> None:
        self.folder = Path(folder)
        self.runs = self.folder / RUNS
        self.say = say
        self.runs.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(self.folder / LOCK)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise BlockingIOError(f"another study is running in {folder}; wait for it or give another folder") from None
        for draft in self.runs.glob(".*.part"):  # left by a killed process
            draft.unlink(missing_ok=True)

    def close(self) -> None:
        """Release the folder."""
        self._lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def path(self, run: RunSpec) -> Path:
        """File of a run."""
        return self.runs / f"{run.name}.npz"

    def has(self, run: RunSpec) -> bool:
        """Whether the run is finished and its file sound; reports a file that is not."""
        path = self.path(run)
        if not path.is_file():
            return False
        try:
            from_bytes(run, path.read_bytes())
        except ValueError as error:
            self.say(f"{RUNS}/{path.name}: {error}; the run is repeated")
            return False
        return True

    def save(self, run: RunSpec, content: bytes, timing: Timing) -> None:
        """Write the result of a run; its times go to a separate file, because results must not depend on clocks."""
        entry = {"run": run.name, **{name: round(value, 7) for name, value in timing._asdict().items()}}
        try:
            write_whole(self.path(run), content)
            with (self.folder / TIMES).open("a+b") as file:
                file.seek(max(file.tell() - 1, 0))
                torn = file.read(1) not in (b"", b"\n")  # a process was killed while it wrote the last line
                file.write(("\n" if torn else "").encode() + json.dumps(entry).encode() + b"\n")
        except OSError as error:
            why = error.strerror or error
            raise OSError(
                f"cannot write to {self.folder}: {why}; finished runs are kept, run the command again"
            ) from None

    def load(self, run: RunSpec) -> Record:
        """The record of a finished run, with its problem."""
        record = from_bytes(run, self.path(run).read_bytes())
        record.mdp = run.problem.build()
        return record

    def times(self) -> dict[str, Timing]:
        """Times of every run that was ever carried out here, by name."""
        path, found = self.folder / TIMES, {}
        for line in path.read_text().splitlines() if path.is_file() else ():
            try:
                entry = json.loads(line)
                found[str(entry["run"])] = Timing(*(float(entry[name]) for name in Timing._fields))
            except (ValueError, KeyError, TypeError):
                continue  # the last line of a killed process
        return found


def execute(run: RunSpec, code: str) -> tuple[bytes, Timing]:
    """Carry out a run in a worker process; returns the bytes of its file and its times."""
    check_code(code)
    record, timing = complete(run.start())
    return to_bytes(run, record), timing


def to_bytes(run: RunSpec, record: Record) -> bytes:
    """File of a record, without the learner's notes, which no table needs."""
    arrays = {name: array for name, array in record.arrays().items() if not name.startswith("note_")}
    arrays["law_of"] = arrays["law_of"].astype(np.int32)
    arrays["digest"] = np.array(digest_of(arrays))
    arrays["run"] = np.array(canonical(run.identity()))
    return pack(arrays)


def from_bytes(run: RunSpec, content: bytes) -> Record:
    """The record in a file; ValueError if the file is damaged or belongs to another run."""
    arrays = unpack(content)
    if not set(OWN) <= arrays.keys():
        raise ValueError("the file does not hold the result of a run")
    if str(arrays["run"]) != canonical(run.identity()):
        raise ValueError("the file holds the result of another run")
    if str(arrays["digest"]) != digest_of(arrays):
        raise ValueError("the file is damaged")
    return Record.from_arrays({name: array for name, array in arrays.items() if name not in OWN})


def digest_of(arrays: dict[str, Any]) -> str:
    """Hash of named arrays: names, types, shapes, bytes."""
    digest = hashlib.sha256()
    for name in sorted(arrays.keys() - set(OWN)):
        array = np.ascontiguousarray(arrays[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
