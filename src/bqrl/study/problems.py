"""Problems of runs: tables of settings files, or objects. Each has an identity and builds its model once per process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium

from bqrl.checks import nearest, shown
from bqrl.envs import make, names
from bqrl.mdp.files import load
from bqrl.mdp.files.npz import write_npz
from bqrl.mdp.model import MDP
from bqrl.theory import hard_instance

# The forms of a problem in a settings file: the key that selects one, and the keys that may stand beside it.
FORMS = {
    "file": ("name", "horizon", "start", "discount"),
    "hard": ("name",),
    "transitions": ("name", "rewards", "horizon", "start", "discount"),
    "name": ("params",),
}
HARD = ("tau", "rho", "actions", "horizon", "best")

Params = tuple[tuple[str, Any], ...]
_built: dict[str, Any] = {}


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
        return replace(self, given=frozen({**dict(self.given), **params}))

    def build(self) -> MDP:
        """The model, built once per process."""
        key = canonical(self.identity())
        if key not in _built:
            _built[key] = self._build()
        found: MDP = _built[key]
        return found

    def _build(self) -> MDP:
        given: dict[str, Any] = dict(self.given)
        if self.form == "name":
            return make(self.name, **given)
        if self.form == "hard":
            letters = {"actions": "A", "horizon": "H"}
            return hard_instance(**{letters.get(key, key): value for key, value in given.items()})
        if self.form == "transitions":
            return MDP(given.pop("transitions"), given.pop("rewards", None), **given)
        assert self.file is not None
        if sha256_of(self.file) != self.content:
            raise ValueError(f"{self.file} has changed since the study began; start the command again")
        return load(self.file, **given)

    def __str__(self) -> str:
        changed = ", ".join(f"{key}={value}" for key, value in self.given)
        return f"{self.name}({changed})" if changed and self.form == "name" else self.name


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """A problem given as an object: a model or an environment. `key` identifies it, or is empty."""

    name: str
    source: Any
    key: str

    def identity(self) -> dict[str, Any]:
        """What fixes the problem."""
        return {"source": self.key}

    def build(self) -> Any:
        """The object; a process that receives equal models with several runs keeps the first."""
        if not isinstance(self.source, MDP):
            return self.source
        if self.key not in _built:
            _built.clear()
            _built[self.key] = self.source
        return _built[self.key]

    def __str__(self) -> str:
        return self.name


def source_of(problem: Any) -> Source:
    """The problem as an object, with a key that is the same in every process; environments built by hand have none."""
    if isinstance(problem, str) and problem in names():
        problem = make(problem)
    if isinstance(problem, MDP):
        return Source("model", problem, hashlib.sha256(write_npz(problem)).hexdigest())
    spec = gymnasium.registry.get(problem) if isinstance(problem, str) else getattr(problem, "spec", None)
    if spec is None:
        return Source(shown(problem), problem, "")
    key = ""
    with suppress(TypeError, ValueError):  # arguments of the environment that have no spelling
        if not spec.additional_wrappers:
            key = f"gymnasium {gymnasium.__version__} {spec.id} {canonical(spec.kwargs)}"
    return Source(spec.id, problem, key)


def problem_of(table: Any, folder: Path = Path(), key: str = "problem") -> Problem:
    """The problem that a table of a settings file describes; builder parameters may stand in the table itself."""
    given = dict(_table(table, ""))
    form = next((form for form in FORMS if form in given), None)
    if form is None:
        raise ValueError(f"needs one of {', '.join(FORMS)}, got {', '.join(map(str, given)) or 'nothing'}")
    label = given.pop("label", None)
    if form == "name":
        given |= _table(given.pop("params", {}), "params ")
    else:
        _check_names(given, (form, *FORMS[form]))
    name = given.pop("name", None)
    if not isinstance(label, str | None) or not isinstance(name, str | None) or name == "":
        raise ValueError(f"name and label must be texts, got {shown(name)} and {shown(label)}")
    file = content = None
    if form == "hard":
        given = dict(_table(given["hard"], "hard "))
        _check_names(given, HARD, "hard.")
    elif form == "file":
        path = folder / str(given.pop("file"))
        if not path.is_file():
            raise ValueError(f"there is no file {path}")
        file, content, name = str(path.resolve()), sha256_of(path), name or path.stem
    name = name or key
    return Problem(name, name if label is None else label, form, frozen(given), file, content)


def _table(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise ValueError(f"{name}must be a table, got {shown(value)}")
    return value


def _check_names(given: Iterable[str], known: tuple[str, ...], lead: str = "") -> None:
    for name in given:
        if name not in known:
            raise ValueError(f"{lead}{name} is not a setting{nearest(name, known)}")


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
