"""Results on disk: one file a run, written whole or not at all, and never taken for another run's.

A file is an .npz archive that `Record.load` reads, with two arrays more: `run`, the identity of the run as canonical
JSON, and `digest`, a hash of every other array. A file that is damaged or belongs to another run is reported and made anew.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.experiments.single import RunSpec, Took, canonical
from bqrl.learners.record import Record
from bqrl.mdp.atomic import write_whole
from bqrl.mdp.file_npz import pack, unpack

RUNS, TIMES = "runs", "times.jsonl"
OWN = ("run", "digest")


class Store:
    """The finished runs of a study in a folder."""

    def __init__(self, folder: str | Path, say: Callable[[str], None] = print) -> None:
        self.folder = Path(folder)
        self.runs = self.folder / RUNS
        self.say = say
        self.runs.mkdir(parents=True, exist_ok=True)
        for draft in self.runs.glob(".*.part"):  # what a killed process was writing
            draft.unlink(missing_ok=True)

    def path(self, run: RunSpec) -> Path:
        """Where the result of a run is kept."""
        return self.runs / f"{run.name}.npz"

    def has(self, run: RunSpec) -> bool:
        """Whether the run is finished and its file sound; says so where it is not sound."""
        path = self.path(run)
        if not path.is_file():
            return False
        try:
            from_bytes(run, path.read_bytes())
        except ValueError as fault:
            self.say(f"{RUNS}/{path.name}: {fault}; the run is repeated")
            return False
        return True

    def save(self, run: RunSpec, content: bytes, took: Took) -> None:
        """Keep the result of a run; how long it took goes to a file beside, for results must not depend on clocks."""
        try:
            write_whole(self.path(run), content)
            entry = json.dumps({"run": run.name, "wall": round(took.wall, 4), "core": round(took.core, 4)})
            with (self.folder / TIMES).open("a+b") as file:
                file.seek(max(file.tell() - 1, 0))
                torn = file.read(1) not in (b"", b"\n")  # a process was killed while it wrote the last line
                file.write(("\n" if torn else "").encode() + entry.encode() + b"\n")
        except OSError as fault:
            why = fault.strerror or fault
            raise OSError(
                f"cannot write to {self.folder}: {why}; finished runs are kept, so the study can go on later"
            ) from None

    def load(self, run: RunSpec) -> Record:
        """The record of a finished run, with its problem."""
        record = from_bytes(run, self.path(run).read_bytes())
        record.mdp = run.problem.build()
        return record

    def times(self) -> dict[str, Took]:
        """How long every run took that was ever made here, by name."""
        path, found = self.folder / TIMES, {}
        for line in path.read_text().splitlines() if path.is_file() else ():
            try:
                entry = json.loads(line)
                found[str(entry["run"])] = Took(float(entry["wall"]), float(entry["core"]))
            except (ValueError, KeyError, TypeError):
                continue  # the last line of a killed process
        return found

    def digest(self, runs: Iterable[RunSpec]) -> str:
        """One hash of the results of many runs, whatever order they were made in."""
        parts = sorted((run.name, digest_of(unpack(self.path(run).read_bytes()))) for run in runs)
        return hashlib.sha256(canonical(parts).encode()).hexdigest()


def to_bytes(run: RunSpec, record: Record) -> bytes:
    """File of a run's record without what no table needs: the learner's own notes."""
    record.notes = {}
    record.law_of = record.law_of.astype(np.int32)
    arrays = record.arrays()
    arrays["digest"] = np.array(digest_of(arrays))
    arrays["run"] = np.array(canonical(run.identity()))
    return pack(arrays)


def from_bytes(run: RunSpec, content: bytes) -> Record:
    """The record in a file; ValueError where the file is damaged or another run's."""
    arrays = unpack(content)
    if not set(OWN) <= arrays.keys():
        raise ValueError("this is not the result of a run")
    if str(arrays["run"]) != canonical(run.identity()):
        raise ValueError("this is the result of another run")
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


class FolderLock:
    """Keeps a second study out of a folder; a killed process leaves no lock behind."""

    def __init__(self, folder: Path) -> None:
        self._file = (folder / ".lock").open("w")
        try:
            import fcntl

            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except ImportError:
            pass  # no such locks on this system
        except OSError:
            self._file.close()
            raise ValueError(f"another study is running in {folder}; wait for it or give another folder") from None

    def release(self) -> None:
        """Let others in."""
        self._file.close()
