"""The specification and the execution of one run, and the finished runs on disk, in the subfolder `runs`.

That folder holds a log and one file per run, which is written atomically. The file is an .npz archive that `Record.load` reads.
Its additional array `run` holds the identity of the run and the names of all arrays as canonical JSON; the archive has a checksum
of each array. The file name contains a hash of the identity. If a file is damaged or belongs to another run, this is reported
and the run is repeated. The times of all runs are in the log, because the files must not depend on clocks.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from filelock import FileLock, Timeout

from bqrl.laws.objectives import Objective
from bqrl.learners.record import Record
from bqrl.learners.run import Run
from bqrl.mdp.files.atomic import LOCK, RUNS, drafts, write_whole
from bqrl.mdp.files.npz import pack, unpack
from bqrl.mdp.model import MDP
from bqrl.study.problems import Problem, canonical_json, file_name
from bqrl.study.workers import PLAYED
from bqrl.versions import fingerprint

FORMAT = 4  # version of the format of result files
LOG = f"{RUNS}/study.log"
TIME = r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d "  # beginning of a line of the log
DONE = re.compile(rf"{TIME}done (\S+) core=([0-9.]+) episode=([0-9.]+): ", re.MULTILINE)

_one_at_a_time = threading.Lock()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """One learner on one problem with one seed."""

    problem: Problem
    learner: Any
    params: Mapping[str, Any]
    objective: Objective
    episodes: int
    delta: float
    seed: int
    horizon: int | None = None  # for an environment
    bins: Any = None  # for an environment
    notes: bool = False  # whether the learner's notes are stored
    key: str = ""  # name of the run if it is not stored
    code: str = field(default_factory=fingerprint)  # digest of the code of the library
    own_code: str = ""  # digest of the code of a learner that is not part of the library

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that can change the result, including the code that computes it."""
        fixed = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "key"}
        fixed = {
            name: value for name, value in fixed.items() if (name, value) not in (("bins", None), ("own_code", ""))
        }
        texts = {"objective": self.objective.text, "problem": self.problem.identity, "learner": self.learner_name}
        return {**fixed, "format": FORMAT, **texts}

    @property
    def learner_name(self) -> str:
        """Name of the learner; that of a class or function is its own, wherever it is defined."""
        return self.learner if isinstance(self.learner, str) else getattr(self.learner, "__qualname__", "learner")

    @property
    def name(self) -> str:
        """Name of the result file without its ending."""
        if self.key:
            return self.key
        digest = hashlib.sha256(canonical_json(self.identity).encode()).hexdigest()
        return f"{file_name(self.learner_name)}_{self.episodes}_{self.seed}_{digest[:32]}"

    def start(self) -> Run:
        """The run before its first episode."""
        options = {"delta": self.delta, "horizon": self.horizon, "bins": self.bins, **self.params}
        return Run(self.problem.model, self.learner, self.objective, self.episodes, self.seed, **options)

    def __str__(self) -> str:
        params = ", ".join(f"{key}={value}" for key, value in sorted(self.params.items()))
        what = f"{self.learner_name}({params}) on {self.problem}"
        return f"{what}, {self.objective.label}, {self.episodes} episodes, seed {self.seed}"


class Timing(NamedTuple):
    """Seconds of a run: core time in total, and elapsed time per episode once everything is compiled."""

    core: float
    episode: float


def execute(spec: RunSpec) -> tuple[dict[str, Any], Timing]:
    """Carry out a run, usually in a worker process, and return its record as plain arrays, and its times.

    A process carries out one run at a time, because threads would only wait for each other. The time per episode is that of
    the second half of the run, when everything is compiled.
    """
    with _one_at_a_time:
        run, core, half = spec.start(), time.process_time(), 0.0
        try:
            while run.t < run.total:
                if run.t == run.total // 2:
                    half = time.perf_counter()
                run.step()
                PLAYED.count.value = run.t
        finally:
            PLAYED.count.value = 0
        per_episode = (time.perf_counter() - half) / (run.total - run.total // 2)
        arrays = run.record().arrays()
        stored = {name: array for name, array in arrays.items() if spec.notes or not name.startswith("note_")}
        return stored, Timing(core=time.process_time() - core, episode=per_episode)


def to_bytes(run: RunSpec, arrays: Mapping[str, Any]) -> bytes:
    """Content of the file of a run with the arrays of its record."""
    arrays = {**arrays, "law_of": arrays["law_of"].astype(np.int32)}
    arrays["run"] = np.array(canonical_json([run.identity, sorted(arrays)]))
    return pack(arrays)


def from_bytes(run: RunSpec, content: bytes) -> Record:
    """The record in a file; ValueError if the file is damaged or belongs to another run."""
    arrays = unpack(content)
    if str(arrays.pop("run", "")) != canonical_json([run.identity, sorted(arrays)]):
        raise ValueError("the file does not hold the result of this run")
    return Record.from_arrays(arrays)


class Store:
    """The finished runs of a study in a folder, which is locked while the store is open, so that only one process writes.

    The lock file stays behind after release; the lock itself ends with its process.
    """

    def __init__(self, folder: str | Path, report: Callable[[str, int], None] | None = None) -> None:
        self.folder, self.report = Path(folder), report
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
        """Whether the subfolder is empty or holds a log of bqrl."""
        if self.log.is_symlink() or not self.log.is_file():
            return self.runs.is_dir() and not any(self.runs.iterdir())
        with self.log.open(encoding="utf-8", errors="replace") as file:
            return re.match(f"{TIME}|$", file.read(20)) is not None

    def say(self, text: str, detail: int = 0) -> None:
        """Write a line to the log and report it; `detail` as in `Watch.say`."""
        line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} {text}\n"
        with suppress(OSError), self.log.open("ab") as file:  # a full disk must not end a study here
            file.write(line.encode(errors="replace"))
        if self.report is not None:
            self.report(text, detail)

    def path(self, name: str) -> Path:
        """Path of the file of a run, by its name."""
        return self.runs / f"{name}.npz"

    def has(self, run: RunSpec) -> bool:
        """Whether the run is finished and its file valid; reports an invalid file."""
        path = self.path(run.name)
        if not path.is_file():
            return False
        try:
            from_bytes(run, path.read_bytes())
        except ValueError as error:
            self.say(f"{RUNS}/{path.name}: {error}; the run is repeated", detail=-1)
            return False
        return True

    def save(self, run: RunSpec, arrays: Mapping[str, Any], timing: Timing) -> None:
        """Write the result of a run, and its times to the log."""
        try:
            write_whole(self.path(run.name), to_bytes(run, arrays))
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
        """Times of all runs that were carried out in the folder, by name."""
        found = DONE.findall(self.log.read_text(encoding="utf-8", errors="replace"))
        return {name: Timing(core=float(core), episode=float(episode)) for name, core, episode in found}
