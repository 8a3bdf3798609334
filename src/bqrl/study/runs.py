"""One run: what fixes it, how it is carried out, and the file of its result.

A file is an .npz archive that `Record.load` reads, with two more arrays: `run`, the identity of the run as canonical JSON, and
`digest`, a hash of every other array. The name of the file is a hash of the identity.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import bqrl
from bqrl.learners.record import Record
from bqrl.learners.run import Run
from bqrl.mdp.files.npz import pack, unpack
from bqrl.study.problems import Problem, canonical
from bqrl.study.workers import PLAYED

FORMAT = 2  # of a result file
CODE = ("envs", "kernels", "laws", "learners", "mdp", "planners")  # packages whose code decides a result
FIXED = ("code", "learner", "params", "tau", "episodes", "delta", "seed")  # fields of a run that can change its result
MARKS = 10  # parts of a run whose durations are compared
OWN = ("run", "digest")  # arrays of a file that are not part of the record

_one_at_a_time = threading.Lock()


@cache
def fingerprint() -> str:
    """The library's version and a hash of the code that computes results; other code gives runs other names."""
    root = Path(bqrl.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(path for part in CODE for path in (root / part).rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0")
        digest.update(path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return f"{bqrl.__version__}+{digest.hexdigest()[:16]}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """One learner on one problem with one seed."""

    problem: Problem
    learner: Any
    params: Mapping[str, Any]
    tau: float
    episodes: int
    delta: float
    seed: int
    horizon: int | None = None  # of an environment
    notes: bool = False  # whether the learner's notes are stored
    key: str = ""  # name of a run that is not stored
    code: str = field(default_factory=fingerprint)

    def identity(self) -> dict[str, Any]:
        """Everything that can change the result, the code that computes it included."""
        names = (*FIXED, "horizon", "notes") if self.notes else FIXED
        return {"format": FORMAT, "problem": self.problem.identity, **{name: getattr(self, name) for name in names}}

    @property
    def name(self) -> str:
        """Name of the result file without its ending."""
        if self.key:
            return self.key
        digest = hashlib.sha256(canonical(self.identity()).encode()).hexdigest()
        return f"{self.learner}_{self.episodes}_{self.seed}_{digest[:32]}"

    def start(self) -> Run:
        """The run before its first episode."""
        options = {"delta": self.delta, "horizon": self.horizon, **self.params}
        return Run(self.problem.build(), self.learner, self.tau, self.episodes, self.seed, **options)

    def __str__(self) -> str:
        params = ", ".join(f"{key}={value}" for key, value in sorted(self.params.items()))
        what = f"{self.learner}({params}) on {self.problem}"
        return f"{what}, tau {self.tau:g}, {self.episodes} episodes, seed {self.seed}"


class Timing(NamedTuple):
    """Seconds of a run: elapsed, of one core, and per episode once everything is compiled."""

    wall: float
    core: float
    episode: float


def complete(run: Run) -> tuple[Record, Timing]:
    """Play every episode of a run.

    A process carries out one run at a time: threads would only wait for each other. The time per episode is the median over
    ten parts of the run, so that compilation, which falls into one or two of them, does not enter.
    """
    with _one_at_a_time:
        core, clock = time.process_time(), [time.perf_counter()]
        try:
            while run.t < run.total:
                run.step()
                PLAYED.count.value = run.t
                clock.append(time.perf_counter())
        finally:
            PLAYED.count.value = 0
        record = run.record()
        marks = np.unique(np.linspace(0, run.total, min(MARKS, run.total) + 1).round().astype(int))
        per_episode = float(np.median(np.diff(np.array(clock)[marks]) / np.diff(marks)))
        return record, Timing(time.perf_counter() - clock[0], time.process_time() - core, per_episode)


def execute(run: RunSpec, packed: bool = True) -> tuple[Any, Timing]:
    """Carry out a run, usually in a worker process; returns its record or the bytes of its file, and its times."""
    if fingerprint() != run.code:
        raise RuntimeError(
            f"this worker has bqrl {fingerprint()}, the study was started by {run.code}; install the same version"
        )
    record, timing = complete(run.start())
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
