"""One run: the problem, what fixes the run, its name, and how it is carried out.

`RunSpec.identity` holds everything that can change a result: the problem, the learner with its parameters, level, length,
seed, the format of the result and a fingerprint of the code that computes it. The name of a run is a hash of that.
"""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import bqrl
from bqrl.checks import nearest, shown
from bqrl.envs import make
from bqrl.learners.record import Record
from bqrl.learners.run import Run
from bqrl.mdp.files import load
from bqrl.mdp.model import MDP
from bqrl.theory import hard_instance

FORMAT = 2  # of a result file
CODE = ("envs", "kernels", "laws", "learners", "mdp", "planners")  # packages whose code decides a result
MARKS = 10  # parts of a run whose durations are compared

Params = tuple[tuple[str, Any], ...]
_one_at_a_time = threading.Lock()
_problems: dict[str, MDP] = {}

# The forms of a problem: the key that selects one, and the keys that may stand beside it.
FORMS = {
    "file": ("name", "horizon", "start", "discount"),
    "hard": ("name",),
    "transitions": ("name", "rewards", "horizon", "start", "discount"),
    "name": ("params",),
}


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem as settings describe it: a named one, a model file, a hard instance, or arrays."""

    name: str
    label: str
    form: str
    given: Params  # what the builder of the form takes
    file: str | None = None
    content: str | None = None  # sha256 of the file: a file is known by its content, not by its place

    def identity(self) -> dict[str, Any]:
        """What fixes the problem."""
        found: dict[str, Any] = {"name": self.name, "params": dict(self.given)}
        found |= {} if self.form == "name" else {"form": self.form}
        return found if self.content is None else found | {"content": self.content}

    def changed(self, params: Mapping[str, Any]) -> Problem:
        """The same problem with other parameters."""
        return Problem(
            self.name, self.label, self.form, frozen({**dict(self.given), **params}), self.file, self.content
        )

    def build(self) -> MDP:
        """The model, built once per process."""
        key = canonical(self.identity())
        if key not in _problems:
            _problems[key] = self._build()
        return _problems[key]

    def _build(self) -> MDP:
        given: dict[str, Any] = dict(self.given)
        if self.form == "name":
            return make(self.name, **given)
        if self.form == "hard":
            names = {"actions": "A", "horizon": "H"}
            return hard_instance(**{names.get(key, key): value for key, value in given.items()})
        if self.form == "transitions":
            return MDP(given.pop("transitions"), given.pop("rewards", None), **given)
        assert self.file is not None
        if sha256_of(self.file) != self.content:
            raise ValueError(f"{self.file} has changed since the study began; start the command again")
        return load(self.file, **given)


def problem_of(table: Any, folder: Path = Path(), key: str = "problem") -> Problem:
    """The problem that a table of a settings file describes; builder parameters may stand in the table itself."""
    if not isinstance(table, Mapping):
        raise ValueError(f"must be a table, got {shown(table)}")
    form = next((form for form in FORMS if form in table), None)
    if form is None:
        raise ValueError(f"needs one of {', '.join(FORMS)}, got {', '.join(map(str, table)) or 'nothing'}")
    given = {name: value for name, value in table.items() if name != "label"}
    if form == "name":
        params = given.pop("params", {})
        if not isinstance(params, Mapping):
            raise ValueError(f"params must be a table, got {shown(params)}")
        given |= params
    else:
        for name in given:
            if name not in (form, *FORMS[form]):
                raise ValueError(f"{name} is not a setting{nearest(name, (form, *FORMS[form]))}")
    name = given.pop("name", None)
    label = table.get("label", name or key)
    if not isinstance(label, str) or not isinstance(name, str | None) or name == "":
        raise ValueError(f"name and label must be texts, got {shown(name)} and {shown(label)}")
    if form == "hard":
        given = given["hard"]
        if not isinstance(given, Mapping):
            raise ValueError(f"hard must be a table, got {shown(given)}")
        for own in given:
            if own not in ("tau", "rho", "actions", "horizon", "best"):
                raise ValueError(
                    f"hard.{own} is not a setting{nearest(own, ('tau', 'rho', 'actions', 'horizon', 'best'))}"
                )
    file = content = None
    if form == "file":
        path = folder / str(given.pop("file"))
        if not path.is_file():
            raise ValueError(f"there is no file {path}")
        file, content, name = str(path.resolve()), sha256_of(path), name or path.stem
    return Problem(name or key, label if "label" in table else name or key, form, frozen(given), file, content)


@dataclass(frozen=True, slots=True)
class RunSpec:
    """One learner on one problem with one seed."""

    problem: Problem
    learner: str
    params: Params
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

    def start(self) -> Run:
        """The run before its first episode."""
        return Run(
            self.problem.build(),
            self.learner,
            self.tau,
            self.episodes,
            self.seed,
            delta=self.delta,
            **dict(self.params),
        )

    def __str__(self) -> str:
        params = ", ".join(f"{key}={value}" for key, value in self.params)
        changed = ", ".join(f"{key}={value}" for key, value in self.problem.given)
        on = f"{self.problem.name}({changed})" if changed and self.problem.form == "name" else self.problem.name
        return f"{self.learner}({params}) on {on}, tau {self.tau:g}, {self.episodes} episodes, seed {self.seed}"


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
        start, core = time.perf_counter(), time.process_time()
        marks = np.unique(np.linspace(0, run.total, min(MARKS, run.total) + 1).round().astype(int))
        clock = [start]
        for end in marks[1:]:
            while run.t < end:
                run.step()
            clock.append(time.perf_counter())
        record = run.record()
        per_episode = float(np.median(np.diff(clock) / np.diff(marks)))
        return record, Timing(time.perf_counter() - start, time.process_time() - core, per_episode)


@cache
def fingerprint() -> str:
    """The library's version and a hash of the code that computes results; other code gives runs other names."""
    root = Path(bqrl.__file__).parent
    digest = hashlib.sha256()
    for path in sorted(path for part in CODE for path in (root / part).rglob("*.py")):
        digest.update(path.relative_to(root).as_posix().encode() + b"\0")
        digest.update(path.read_bytes().replace(b"\r\n", b"\n") + b"\0")
    return f"{bqrl.__version__}+{digest.hexdigest()[:16]}"


def check_code(code: str) -> None:
    """Raise RuntimeError if this process runs other code than the study."""
    if fingerprint() != code:
        raise RuntimeError(
            f"this worker has bqrl {fingerprint()}, the study was started by {code}; install the same version"
        )


def sha256_of(path: str | Path) -> str:
    """sha256 of a file."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def frozen(params: Mapping[str, Any]) -> Params:
    """Parameters in the order of their names, lists as tuples."""
    return tuple(sorted((str(key), _tuple(value)) for key, value in params.items()))


def _tuple(value: Any) -> Any:
    return tuple(map(_tuple, value)) if isinstance(value, list) else value


def canonical(value: Any) -> str:
    """JSON with one spelling: sorted keys, no spaces, no NaN.

    >>> canonical({"b": 1, "a": [0.1, None]})
    '{"a":[0.1,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
