"""Finished runs, in memory or on disk: one file per run, written whole or not at all, never taken for that of another run.

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

from bqrl.learners.callbacks import Callback
from bqrl.learners.record import Record
from bqrl.mdp.files.atomic import write_whole
from bqrl.mdp.files.npz import pack, unpack
from bqrl.mdp.model import MDP
from bqrl.study.problems import canonical
from bqrl.study.runs import RunSpec, Timing, check_code, complete

RUNS, TIMES = "runs", "times.jsonl"
LOCK = ".bqrl.lock"  # also that of the writer of results
OWN = ("run", "digest")


class Memory:
    """The finished runs of this process."""

    packed = False  # runs come as records

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}

    def has(self, run: RunSpec) -> bool:
        """Whether the run is finished."""
        return run.name in self.records

    def save(self, run: RunSpec, record: Record, timing: Timing) -> None:
        """Keep the record of a run."""
        self.records[run.name] = record

    def load(self, run: RunSpec) -> Record:
        """The record of a finished run."""
        return self.records[run.name]

    def times(self) -> dict[str, Timing]:
        """Nothing from earlier processes."""
        return {}


class Store:
    """The finished runs of a study in a folder; the folder is locked while the store is open.

    The lock is taken before anything else, also before the drafts of a killed process are removed, so two processes never
    write to one folder. The lock file stays behind after release; the lock itself ends with its process.
    """

    packed = True  # runs come as the bytes of their files

    def __init__(self, folder: str | Path, say: Callable[[str], None] = print) -> None:
        self.folder = Path(folder)
        self.runs = self.folder / RUNS
        self.say = say
        self.runs.mkdir(parents=True, exist_ok=True)
        self._lock = FileLock(self.folder / LOCK)
        try:
            self._lock.acquire(timeout=0)
        except Timeout:
            raise BlockingIOError(
                f"another command is running in {folder}; wait for it or give another folder"
            ) from None
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
        model = run.problem.build()
        record.mdp = model if isinstance(model, MDP) else None
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


def execute(run: RunSpec, code: str, packed: bool = True, callback: Callback | None = None) -> tuple[Any, Timing]:
    """Carry out a run, usually in a worker process; returns its record or the bytes of its file, and its times."""
    check_code(code)
    record, timing = complete(run.start(), callback)
    record.mdp = None  # the caller has it
    return to_bytes(run, record) if packed else record, timing


def to_bytes(run: RunSpec, record: Record) -> bytes:
    """File of a record, without the learner's notes unless the run asks for them."""
    arrays = {name: array for name, array in record.arrays().items() if run.notes or not name.startswith("note_")}
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
