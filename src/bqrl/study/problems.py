"""Problems of runs: tables of settings files, or objects. Each has an identity and builds its model once per process."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any

import gymnasium
from pydantic import PlainValidator, ValidationInfo

from bqrl.checks import nearest, shown
from bqrl.envs import make, names
from bqrl.mdp.files.npz import write_npz
from bqrl.mdp.load import load
from bqrl.mdp.model import MDP
from bqrl.study.settings import try_all
from bqrl.theory import hard_instance

# The forms of a problem in a settings file: the key that selects one, and its parameters; a named builder checks its own.
FORMS: dict[str, tuple[str, ...]] = {
    "file": ("horizon", "start", "discount"),
    "hard": ("tau", "rho", "actions", "horizon", "best"),
    "transitions": ("transitions", "rewards", "horizon", "start", "discount"),
    "name": (),
}
NESTED = {"hard": "hard", "name": "params"}  # tables in which parameters may stand

_built: dict[str, MDP] = {}


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A model or an environment, with what identifies it and how to build it."""

    name: str
    label: str
    identity: dict[str, Any]  # what fixes the problem; empty if nothing does
    source: Any = field(default=None, compare=False)  # the model or environment itself, or the path of a file

    @property
    def given(self) -> dict[str, Any]:
        """Parameters of the builder, in the order of their names."""
        return dict(sorted(self.identity.get("params", {}).items()))

    def changed(self, params: Mapping[str, Any]) -> Problem:
        """The same problem with other parameters."""
        return replace(self, identity={**self.identity, "params": {**self.given, **params}})

    def build(self) -> Any:
        """The model, built once per process, or the environment."""
        key = canonical(self.identity)
        if key in _built:
            return _built[key]
        form, given = self.identity.get("form", "name"), self.given
        for name in given:
            if FORMS[form] and name not in FORMS[form]:
                raise ValueError(f"{name} is not a setting{nearest(name, (*FORMS[form], 'name', 'label'))}")
        if "name" not in self.identity:
            made = self.source
        elif form == "file":
            if _sha256(self.source) != self.identity["content"]:
                raise ValueError(f"{self.source} has changed since the study began; start the command again")
            made = load(self.source, **given)
        elif form == "hard":
            symbols = {"actions": "A", "horizon": "H"}
            made = hard_instance(**{symbols.get(name, name): value for name, value in given.items()})
        else:
            made = MDP(**given) if form == "transitions" else make(self.name, **given)
        if isinstance(made, MDP) and self.identity:
            if "source" in self.identity:  # of the models that a user gives, which may be large, only the last is kept
                _built.clear()
            _built[key] = made
        return made

    def __str__(self) -> str:
        params = ", ".join(f"{key}={shown(value)}" for key, value in self.given.items())
        return f"{self.name}({params})" if params else self.name


def source_of(problem: Any) -> Problem:
    """A problem given as an object; its identity is the same in every process, and empty for environments built by hand."""
    if isinstance(problem, str) and problem in names():
        problem = make(problem)
    name, key = shown(problem), ""
    if isinstance(problem, MDP):
        name, key = "model", hashlib.sha256(write_npz(problem)).hexdigest()
    elif spec := gymnasium.registry.get(problem) if isinstance(problem, str) else getattr(problem, "spec", None):
        name = spec.id
        with suppress(TypeError, ValueError):  # arguments of the environment that have no spelling
            if not spec.additional_wrappers:
                key = f"gymnasium {gymnasium.__version__} {spec.id} {canonical(spec.kwargs)}"
    return Problem(name=name, label=name, identity={"source": key} if key else {}, source=problem)


def problem_of(table: Any, folder: Path = Path()) -> Problem:
    """The problem that a table of a settings file describes; parameters may stand in the table itself."""
    if not isinstance(table, Mapping):
        raise ValueError(f"must be a table, got {shown(table)}")
    form = next((form for form in FORMS if form in table), None)
    if form is None:
        raise ValueError(f"needs one of {', '.join(FORMS)}, got {', '.join(map(str, table)) or 'nothing'}")
    given = dict(table)
    name, label = given.pop("name", ""), given.pop("label", "")
    if not isinstance(label, str) or not isinstance(name, str) or not (name or form != "name"):
        raise ValueError(f"name and label must be texts, got {shown(name)} and {shown(label)}")
    inner = given.pop(NESTED.get(form, ""), {})
    if not isinstance(inner, Mapping):
        raise ValueError(f"{NESTED[form]} must be a table, got {shown(inner)}")
    given |= inner
    path, fixed = None, {} if form == "name" else {"form": form}
    if form == "file":
        path = folder / str(given.pop("file"))
        if not path.is_file():
            raise ValueError(f"there is no file {path}")
        path, name = path.resolve(), name or path.stem
        fixed["content"] = _sha256(path)  # a file is known by its content, not by its place
    identity = {"name": name or "problem", "params": given, **fixed}
    return Problem(name=name or "problem", label=label or name, identity=identity, source=path)


def _checked(table: Any, info: ValidationInfo) -> Problem:
    """The problem of a table, built now so that a mistake is reported before the first run."""
    problem = problem_of(table, (info.context or {}).get("folder", Path()))
    try_all([("", problem.build)])
    return problem


ProblemField = Annotated[Problem, PlainValidator(_checked)]  # of a settings file


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def canonical(value: Any) -> str:
    """JSON with one spelling: sorted keys, no spaces, no NaN.

    >>> canonical({"b": 1, "a": [0.1, None]})
    '{"a":[0.1,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
