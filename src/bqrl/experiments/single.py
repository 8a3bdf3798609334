"""One run of a study: what fixes it, its name, and how it is carried out.

Everything that can change a result is in `RunSpec.identity`: the problem, the learner with its parameters, level, length,
seed, the format of the result and a fingerprint of the code that computes it. The name of a run is a hash of that.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import bqrl

if TYPE_CHECKING:
    from bqrl.mdp.model import MDP

FORMAT = 1  # of a result file
CODE = ("envs", "kernels", "laws", "learners", "mdp", "planners")  # packages whose code decides a result
TICK_SECONDS = 0.3

Tick = Callable[[int], None]
_one_at_a_time = threading.Lock()
_problems: dict[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Problem:
    """A named problem with its parameters, or a model file; a file counts by its content, wherever it lies."""

    name: str
    params: tuple[tuple[str, Any], ...] = ()
    file: str | None = None
    content: str | None = None  # sha256 of the file

    def identity(self) -> dict[str, Any]:
        """What fixes the problem."""
        found: dict[str, Any] = {"name": self.name, "params": dict(self.params)}
        return found if self.content is None else found | {"content": self.content}

    def build(self) -> MDP:
        """The problem itself, built once a process."""
        key = canonical(self.identity())
        if key not in _problems:
            _problems[key] = self._build()
        found: MDP = _problems[key]
        return found

    def _build(self) -> MDP:
        if self.file is None:
            from bqrl.envs import make

            return make(self.name, **dict(self.params))
        from bqrl.mdp.files import load

        if content_of(self.file) != self.content:
            raise ValueError(f"{self.file} is not the file that the study began with; start again")
        return load(self.file, **dict(self.params))


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One learner on one problem with one seed."""

    problem: Problem
    learner: str
    params: tuple[tuple[str, Any], ...]
    tau: float
    episodes: int
    delta: float
    seed: int

    def identity(self) -> dict[str, Any]:
        """Everything that can change the result."""
        return {
            "format": FORMAT,
            "code": fingerprint(),
            "problem": self.problem.identity(),
            "learner": self.learner,
            "params": dict(self.params),
            "tau": self.tau,
            "episodes": self.episodes,
            "delta": self.delta,
            "seed": self.seed,
        }

    @property
    def name(self) -> str:
        """Name of the result file without its ending."""
        digest = hashlib.sha256(canonical(self.identity()).encode()).hexdigest()
        return f"{self.learner}_{self.episodes}_{self.seed}_{digest[:32]}"

    def __str__(self) -> str:
        params = ", ".join(f"{key}={value}" for key, value in self.params)
        told = f"{self.learner}({params}) on {self.problem.name}, tau {self.tau:g}, {self.episodes} episodes, seed {self.seed}"
        varied = ", ".join(f"{key}={value}" for key, value in self.problem.params)
        return f"{told} [{varied}]" if varied else told


class Took(NamedTuple):
    """How long a run took, in seconds: by the clock on the wall, and of a core."""

    wall: float
    core: float


def execute(run: RunSpec, tick: Tick | None = None) -> tuple[bytes, Took]:
    """The result of a run as the bytes of its file, and the time it took; `tick` hears the episodes done.

    A process does one run at a time: threads would only wait for each other, and share compiled code that must not.
    """
    from bqrl.experiments.store import to_bytes
    from bqrl.learners.run import Run

    with _one_at_a_time:
        begun = told = time.perf_counter()
        spent = time.process_time()
        going = Run(
            run.problem.build(), run.learner, run.tau, run.episodes, run.seed, delta=run.delta, **dict(run.params)
        )
        while going.t < going.total:
            going.step()
            if tick is not None and going.t % 16 == 0 and time.perf_counter() - told > TICK_SECONDS:
                told = time.perf_counter()
                tick(going.t)
        content = to_bytes(run, going.record())
        return content, Took(time.perf_counter() - begun, time.process_time() - spent)


@cache
def fingerprint() -> str:
    """The library's version and a hash of the code that computes results; another code gives other names to runs."""
    root = Path(bqrl.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(path for part in CODE for path in (root / part).rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0")
        digest.update(path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return f"{bqrl.__version__}+{digest.hexdigest()[:16]}"


def content_of(path: str | Path) -> str:
    """sha256 of a file."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def canonical(value: Any) -> str:
    """JSON with one spelling: sorted keys, no spaces, no NaN.

    >>> canonical({"b": 1, "a": [0.1, None]})
    '{"a":[0.1,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
