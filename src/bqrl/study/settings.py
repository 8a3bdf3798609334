"""Settings files: TOML tables read into frozen, typed records; the error message lists every mistake with its value.

Studies and theory experiments both use `read_settings`. A table `[quick.NAME]` replaces keys of the table `[NAME]` in a quick
run. Unknown keys are refused, and the message suggests the nearest valid one.
"""

from __future__ import annotations

import json
import tomllib
import warnings
from collections.abc import Iterator, Mapping
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

    renamed: ClassVar[dict[str, dict[str, str]]] = {}  # of a whole file: new names by table and old name
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
        return settings_of(tables, kind, folder=place.parent, quick=quick)
    except (ValueError, TypeError, OSError) as error:
        raise ValueError(f"{place.name}: {' '.join(str(error).split())}") from None


def settings_of(tables: Mapping[str, Any], kind: type[S], *, folder: Path = Path(), quick: bool = False) -> S:
    """The record that the tables of a settings file describe."""
    changes = tables.get("quick", {}) if quick else {}
    if not isinstance(changes, Mapping):
        raise TypeError(f"[quick] must be a table, got {shown(changes)}")
    given = {name: _current(name, table, kind) for name, table in tables.items() if name != "quick"}
    for name, table in changes.items():
        before, table = given.get(name, {}), _current(name, table, kind)
        given[name] = {**before, **table} if isinstance(before, Mapping) and isinstance(table, Mapping) else table
    if "quick" in kind.model_fields:
        given["quick"] = quick
    try:  # JSON has lists where TOML has lists, and strict validation reads those as tuples
        return kind.model_validate_json(json.dumps(given, default=str), context={"folder": folder})
    except ValidationError as found:
        messages = [_message(error, given, kind) for error in found.errors()]
        raise ValueError("; ".join(dict.fromkeys(messages))) from None


def _current(name: str, table: Any, kind: type[Settings]) -> Any:
    """The table with the current names of settings that had others; each old one is warned about."""
    new = kind.renamed.get(name, {})
    if not isinstance(table, Mapping) or not new.keys() & table.keys():
        return table
    for old in new.keys() & table.keys():
        warnings.warn(f"[{name}] {old} is deprecated; use {new[old]}", DeprecationWarning, stacklevel=2)
    return {new.get(key, key): value for key, value in table.items()}


def _message(error: Any, tables: Mapping[str, Any], kind: type[Settings]) -> str:
    """One mistake: where, what must be, and what was found."""
    where = _place(error["loc"], tables)
    context = error.get("ctx", {})
    if error["type"] == "missing":
        return f"{where} is missing"
    if error["type"] == "extra_forbidden":
        model = _model_at(kind, error["loc"][:-1])
        return f"{where} is not a setting{nearest(error['loc'][-1], [] if model is None else model.model_fields)}"
    if error["type"] == "value_error":
        text = str(context["error"])
        return text if text.startswith("[") else f"{where} {text}".strip()  # some name their place themselves
    wanted = MUST_BE.get(error["type"])
    rule = error["msg"] if wanted is None else f"must be {wanted.format(**context)}"
    return f"{where} {rule}, got {shown(error['input'])}"


def _place(location: tuple[Any, ...], tables: Any) -> str:
    """A location as it stands in the file: "[learners.eps_q] grid[0]"."""
    names: list[str] = []
    for part in location:
        if not isinstance(tables, Mapping) or not isinstance(tables.get(part), Mapping):
            break
        names.append(str(part))
        tables = tables[part]
    rest = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in location[len(names) :])
    table = f"[{'.'.join(names)}]" if names else ""
    if not names and rest:
        return f"[{rest[1:]}]"
    return " ".join(filter(None, (table, rest.removeprefix("."))))


def _model_at(kind: Any, location: tuple[Any, ...]) -> type[BaseModel] | None:
    """The record whose table has that location."""
    found: Any = kind
    for part in location:
        model = next(_models(found), None)
        if model is not None and part in model.model_fields:
            found = model.model_fields[part].annotation
    return next(_models(found), None)


def _models(kind: Any) -> Iterator[type[BaseModel]]:
    """The records that an annotation names."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        yield kind
    for part in get_args(kind):
        yield from _models(part)
