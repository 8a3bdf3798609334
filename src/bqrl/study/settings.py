"""Settings files: TOML tables read into frozen, typed records; the error message lists every mistake with its value.

A table `[quick.NAME]` replaces keys of the table `[NAME]` in a quick run.
"""

from __future__ import annotations

import json
import tomllib
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from bqrl.checks import nearest, shown

Level = Annotated[float, Field(gt=0.0, lt=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
Text = Annotated[str, Field(min_length=1)]

# What a value must be, by the type of pydantic's error; {names} are taken from the error's context.
MUST_BE = {
    "int_type": "a whole number", "int_from_float": "a whole number", "float_type": "a number", "string_type": "a text",
    "bool_type": "true or false", "list_type": "a list", "tuple_type": "a list", "dict_type": "a table",
    "model_type": "a table", "finite_number": "a finite number", "greater_than": "above {gt:g}",
    "greater_than_equal": "at least {ge:g}", "less_than": "below {lt:g}", "less_than_equal": "at most {le:g}",
    "literal_error": "one of {expected}", "too_short": "a list of at least {min_length} entries",
    "too_long": "a list of at most {max_length} entries", "string_too_short": "a text that is not empty",
    "string_pattern_mismatch": "made of letters a to z, digits and _",
}  # fmt: skip


class Settings(BaseModel):
    """A table of a settings file."""

    renamed: ClassVar[dict[tuple[str, str], str]] = {}  # of a whole file: new names by table and old name
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


S = TypeVar("S", bound=Settings)


def read_settings(path: str | Path, kind: type[S], *, quick: bool = False) -> S:
    """The record that a TOML file describes; ValueError lists every mistake on one line. Paths in it are relative to it."""
    place = Path(path)
    if place.is_dir():
        raise IsADirectoryError(f"{place} is a folder; give a settings file (.toml)")
    if not place.is_file():
        raise FileNotFoundError(f"there is no settings file {place}")
    try:
        tables = tomllib.loads(place.read_text(encoding="utf-8"))
        found = settings_of(tables, kind, folder=place.parent, quick=quick)
        if "quick" in tables and not quick:  # its mistakes are found now, not before the first quick run
            with warnings.catch_warnings(action="ignore"):
                settings_of(tables, kind, folder=place.parent, quick=True)
        return found
    except (ValueError, TypeError, OSError) as error:
        raise ValueError(f"{place.name}: {' '.join(str(error).split())}") from None


def settings_of(tables: Mapping[str, Any], kind: type[S], *, folder: Path = Path(), quick: bool = False) -> S:
    """The record that the tables of a settings file describe."""
    given = {name: table for name, table in tables.items() if name != "quick"}
    changes = tables.get("quick", {}) if quick else {}
    if not isinstance(changes, Mapping):
        raise TypeError(f"quick must be a table, got {shown(changes)}")
    for name, table in changes.items():
        both = isinstance(table, Mapping) and isinstance(given.get(name), Mapping)
        given[name] = {**given[name], **table} if both else table
    for (name, old), new in kind.renamed.items():
        if isinstance(given.get(name), Mapping) and old in given[name]:
            warnings.warn(f"{name}.{old} is deprecated; use {new}", DeprecationWarning, stacklevel=2)
            given[name] = {new if key == old else key: value for key, value in given[name].items()}
    if "quick" in kind.model_fields:
        given["quick"] = quick
    try:  # JSON has lists where TOML has lists, and strict validation reads those as tuples
        return kind.model_validate_json(json.dumps(given, default=str), context={"folder": folder})
    except ValidationError as found:
        # Lists with wrong entries, which pydantic also calls too short.
        spoilt = {error["loc"][:depth] for error in found.errors() for depth in range(len(error["loc"]))}
        errors = [error for error in found.errors() if error["type"] != "too_short" or error["loc"] not in spoilt]
        raise ValueError("; ".join(dict.fromkeys(_message(error, kind, changes) for error in errors))) from None


def try_all(calls: Iterable[tuple[str, Callable[[], Any]]]) -> None:
    """Make every call; ValueError, which pydantic collects, lists the places and messages of those that fail."""
    found = []
    for place, call in calls:
        try:
            call()
        except (ValueError, TypeError) as error:
            found.append(f"{place}: {error}" if place else str(error))
    if found:
        raise ValueError("; ".join(dict.fromkeys(found)))


def _message(error: Any, kind: type[Settings], changes: Mapping[str, Any]) -> str:
    """One mistake: where ("learners.eps_q.grid[0]"), what must be, and what was found; `changes` are those of a quick run."""
    parts = [part for part in error["loc"] if part != "[key]"]  # pydantic's mark of a mistake in the name of a table
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")
    if len(parts) > 1 and isinstance(table := changes.get(parts[0]), Mapping) and parts[1] in table:
        where = f"quick.{where}"
    context = error.get("ctx", {})
    if error["type"] == "missing":
        return f"{where} is missing"
    if error["type"] == "extra_forbidden":
        return f"{where} is not a setting{nearest(parts[-1], _known(kind, parts[:-1]))}"
    if error["type"] == "value_error":
        return f"{where}: {context['error']}" if where else str(context["error"])
    wanted = MUST_BE.get(error["type"])
    rule = error["msg"] if wanted is None else f"must be {wanted.format(**context)}"
    return f"{where} {rule}, got {shown(error['input'])}"


def _known(kind: Any, location: Sequence[Any]) -> Iterable[str]:
    """Names of the settings of the table at that location of a file; tables may be optional, or stand in a list or a table."""
    for part in location:
        if part in kind.model_fields:
            annotation = kind.model_fields[part].annotation
            kind = next((one for one in (annotation, *get_args(annotation)) if hasattr(one, "model_fields")), kind)
    names: Iterable[str] = kind.model_fields
    return names
