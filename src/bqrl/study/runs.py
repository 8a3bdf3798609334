"""One run: what fixes it, how it is carried out, and the file of its result.

A file is an .npz archive that `Record.load` reads, with one more array: `run`, the identity of the run and the names of all
arrays as canonical JSON. The archive has a checksum of each array. The name of the file is a hash of the identity.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
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

FORMAT = 3  # of a result file
CODE = ("envs", "kernels", "laws", "learners", "mdp", "planners")  # packages whose code decides a result

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

    @property
    def identity(self) -> dict[str, Any]:
        """Everything that can change the result, the code that computes it included."""
        fixed = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "key"}
        return {**fixed, "format": FORMAT, "problem": self.problem.identity}

    @property
    def name(self) -> str:
        """Name of the result file without its ending."""
        if self.key:
            return self.key
        digest = hashlib.sha256(canonical(self.identity).encode()).hexdigest()
        return f"{self.learner}_{self.episodes}_{self.seed}_{digest[:32]}"

    def start(self) -> Run:
        """The run before its first episode."""
        options = {"delta": self.delta, "horizon": self.horizon, **self.params}
        return Run(self.problem.model, self.learner, self.tau, self.episodes, self.seed, **options)

    def __str__(self) -> str:
        params = ", ".join(f"{key}={value}" for key, value in sorted(self.params.items()))
        what = f"{self.learner}({params}) on {self.problem}"
        return f"{what}, tau {self.tau:g}, {self.episodes} episodes, seed {self.seed}"


class Timing(NamedTuple):
    """Seconds of a run: of one core, and elapsed per episode once everything is compiled."""

    core: float
    episode: float


def execute(spec: RunSpec) -> tuple[Record, Timing]:
    """Carry out a run, usually in a worker process.

    A process carries out one run at a time: threads would only wait for each other. The time per episode is that of the second
    half of the run, when everything is compiled.
    """
    if fingerprint() != spec.code:
        raise RuntimeError(
            f"this worker has bqrl {fingerprint()}, the study was started by {spec.code}; install the same version"
        )
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
        record = run.record()
        record.mdp = None  # the caller has it
        return record, Timing(core=time.process_time() - core, episode=per_episode)


def to_bytes(run: RunSpec, record: Record) -> bytes:
    """File of a record, without the learner's notes unless the run asks for them."""
    arrays = {name: array for name, array in record.arrays().items() if run.notes or not name.startswith("note_")}
    arrays["law_of"] = arrays["law_of"].astype(np.int32)
    arrays["run"] = np.array(canonical([run.identity, sorted(arrays)]))
    return pack(arrays)


def from_bytes(run: RunSpec, content: bytes) -> Record:
    """The record in a file; ValueError if the file is damaged or belongs to another run."""
    arrays = unpack(content)
    if str(arrays.pop("run", "")) != canonical([run.identity, sorted(arrays)]):
        raise ValueError("the file does not hold the result of this run")
    return Record.from_arrays(arrays)
