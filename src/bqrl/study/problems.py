"""Problems of runs: named models, from settings files or given as objects. A problem is identified by its content."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import gymnasium
from pydantic import PlainValidator

from bqrl.checks import nearest, one_line
from bqrl.envs import make, names
from bqrl.mdp.arrays import digest
from bqrl.mdp.load import load_model
from bqrl.mdp.model import MDP
from bqrl.theory import hard_instance

# The forms of a problem in a settings file: the key that selects one, and its parameters; a named builder checks its own.
FORMS: dict[str, tuple[str, ...]] = {
    "file": ("horizon", "start", "discount"),
    "hard": ("tau", "rho", "actions", "horizon", "best"),
    "transitions": ("transitions", "rewards", "horizon", "start", "discount"),
    "name": (),
}
NESTED = {"hard": "hard", "name": "params"}  # subtables that may hold the parameters

_received: dict[str, Any] = {}  # models from other processes, by identity


@dataclass(frozen=True, kw_only=True)
class Problem:
    """A model or an environment with a name."""

    name: str
    identity: str  # the same in every process; empty for an unregistered environment
    model: Any = field(compare=False)  # the model or the environment
    label: str = ""
    form: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)  # parameters in its table
    builder: Callable[..., MDP] = field(default=MDP, compare=False)  # makes a model from the parameters
    registered: Any = field(default=None, compare=False)  # the specification of a Gymnasium id

    def changed(self, params: Mapping[str, Any]) -> Problem:
        """The problem with these parameters changed."""
        given, valid = dict(sorted({**self.given, **params}.items())), FORMS[self.form]
        for name in given:
            if valid and name not in valid:
                raise ValueError(f"{name} is not a setting{nearest(name, (*valid, 'name', 'label'))}")
        try:
            model = self.builder(**given)
        except (TypeError, OSError) as error:  # pydantic collects errors of values only
            raise ValueError(str(error)) from None
        return replace(self, given=given, model=model, identity=digest(model))

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Unpickle a problem. A process keeps one copy of equal models, with everything derived from it."""
        self.__dict__.update(state)
        if self.registered is not None:
            gymnasium.registry.setdefault(self.registered.id, self.registered)
        if self.identity and isinstance(self.model, MDP):  # an environment has a state of its own
            self.__dict__["model"] = _received.setdefault(self.identity, self.model)

    def __str__(self) -> str:
        params = ", ".join(f"{key}={one_line(value)}" for key, value in self.given.items())
        return f"{self.name}({params})" if params else self.name


def source_of(problem: Any) -> Problem:
    """The problem given as an object, or as the name of a problem or environment."""
    if isinstance(problem, str) and problem in names():
        problem = make(problem)
    if isinstance(problem, MDP):
        return Problem(name="model", identity=digest(problem), model=problem)
    name, identity = one_line(problem), ""
    if spec := gymnasium.registry.get(problem) if isinstance(problem, str) else getattr(problem, "spec", None):
        name = spec.id
        with suppress(TypeError, ValueError):  # arguments of the environment that are not JSON
            if not spec.additional_wrappers:
                identity = f"gymnasium {gymnasium.__version__} {spec.id} {canonical_json(spec.kwargs)}"
    return Problem(name=name, identity=identity, model=problem, registered=spec if isinstance(problem, str) else None)


def problem_of(table: Any, *folders: Path) -> Problem:
    """The problem that a table of a settings file describes; parameters may be in the table itself or in a subtable."""
    if not isinstance(table, Mapping):
        raise ValueError(f"must be a table, got {one_line(table)}")
    form = next((form for form in FORMS if form in table), None)
    if form is None:
        raise ValueError(f"needs one of {', '.join(FORMS)}, got {', '.join(map(str, table)) or 'nothing'}")
    given = dict(table)
    name, label = given.pop("name", ""), given.pop("label", "")
    if not isinstance(label, str) or not isinstance(name, str) or not (name or form != "name"):
        raise ValueError(f"name and label must be strings, got {one_line(name)} and {one_line(label)}")
    inner = given.pop(NESTED.get(form, ""), {})
    if not isinstance(inner, Mapping):
        raise ValueError(f"{NESTED[form]} must be a table, got {one_line(inner)}")
    file = str(given.pop("file", ""))
    paths = [folder / file for folder in folders or (Path(),)]
    path = next(filter(Path.is_file, paths), paths[0])
    name = name or (path.stem if form == "file" else "")
    builders: dict[str, Callable[..., MDP]] = {
        "file": partial(load_model, path), "hard": _hard_model, "transitions": MDP, "name": partial(make, name),
    }  # fmt: skip
    problem = Problem(
        name=name or "problem", identity="", model=None, label=label or name, form=form, builder=builders[form]
    )
    return problem.changed({**given, **inner})


def _hard_model(*, actions: int = 2, horizon: int = 2, **rest: Any) -> MDP:
    return hard_instance(A=actions, H=horizon, **rest)


# A problem in a settings file, which `settings_of` reads with the folder of that file.
ProblemField = Annotated[Problem, PlainValidator(lambda table, info: problem_of(table, *info.context["folders"]))]


def canonical_json(value: Any) -> str:
    """JSON with one spelling: sorted keys, no spaces, no NaN.

    >>> canonical_json({"b": 1, "a": [0.1, None]})
    '{"a":[0.1,null],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def file_name(text: str) -> str:
    """A text as a part of file names, with at most 60 characters.

    >>> file_name("two roads"), file_name("ICU-Sepsis")
    ('two_roads', 'ICU-Sepsis')
    """
    return re.sub(r"[^A-Za-z0-9.-]+", "_", text)[:60].strip("_.-") or "problem"
