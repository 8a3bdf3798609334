"""Settings files: TOML tables read into frozen, typed records; the error message lists every mistake with its value.

A table `[quick.NAME]` replaces keys of the table `[NAME]` in a quick run. With `extends = "other.toml"` a file adds tables and
keys to those of another file: it replaces single values, and it adds, say, a learner to a study.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from bqrl.checks import is_one_line, nearest, one_line


def _check_one_line(text: str) -> str:
    if not is_one_line(text):
        raise ValueError(f"must be one line of text without control characters, got {one_line(text)}")
    return text


C = TypeVar("C", bound=Collection[Any])


def check_distinct(given: C) -> C:
    """`given`; ValueError if entries of a list are equal, or if names of a table differ only in case."""
    if len({str(entry).lower() for entry in given}) < len(given):
        how = "names must differ in more than case" if isinstance(given, dict) else "entries must differ"
        raise ValueError(f"{how}, got {', '.join(map(str, given))}")
    return given


Different = AfterValidator(check_distinct)
Level = Annotated[float, Field(gt=0.0, lt=1.0)]
Positive = Annotated[float, Field(gt=0.0)]
Count = Annotated[int, Field(ge=1)]
Seed = Annotated[int, Field(ge=0)]
Line = Annotated[str, AfterValidator(_check_one_line)]  # may be empty
Text = Annotated[Line, Field(min_length=1)]


class Settings(BaseModel):
    """A table of a settings file."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


S = TypeVar("S", bound=Settings)


def read_settings(
    path: str | Path, kind: type[S], *, quick: bool = False, known: Mapping[str, Path] | None = None
) -> S:
    """The record that a TOML file describes; ValueError lists every mistake on one line. Paths in it are relative to it.

    `known` are files that others may extend by their name.
    """
    place = Path(path)
    if not place.is_file():
        raise FileNotFoundError(f"there is no settings file {place}; name a .toml file")
    try:
        tables, folders = read_tables(place, known or {})
        found = settings_of(tables, kind, folders=folders, quick=quick)
        if "quick" in tables and not quick:  # find mistakes in the quick tables now, not at the first quick run
            settings_of(tables, kind, folders=folders, quick=True)
        return found
    except (ValueError, TypeError, OSError) as error:
        raise ValueError(f"{place.name}: {' '.join(str(error).split())}") from None


def read_tables(
    path: Path, known: Mapping[str, Path], above: tuple[Path, ...] = ()
) -> tuple[dict[str, Any], list[Path]]:
    """The tables of a file and of the files that it extends, and the folders of these files."""
    tables, folders = tomllib.loads(path.read_text(encoding="utf-8")), [path.parent]
    if "extends" not in tables:
        return tables, folders
    given = tables.pop("extends")
    place = known.get(str(given), path.parent / str(given))
    if not isinstance(given, str) or not place.is_file() or place.resolve() in (path.resolve(), *above):
        names = "".join(f" or {name!r}" for name in known)
        raise ValueError(f"extends must name another .toml file{names}, got {one_line(given)}")
    inner, more = read_tables(place, known, (path.resolve(), *above))
    return _merge(inner, tables), folders + more


def _merge(below: Any, above: Any) -> Any:
    """Nested tables in which the values of `above` replace those of `below`."""
    if not (isinstance(below, Mapping) and isinstance(above, Mapping)):
        return above
    return {**below, **{key: _merge(below[key], value) if key in below else value for key, value in above.items()}}


def settings_of(
    tables: Mapping[str, Any], kind: type[S], *, folders: Sequence[Path] = (Path(),), quick: bool = False
) -> S:
    """The record that the tables of a settings file describe."""
    given = {name: table for name, table in tables.items() if name != "quick"}
    changes = tables.get("quick", {}) if quick else {}
    if not isinstance(changes, Mapping):
        raise TypeError(f"quick must be a table, got {one_line(changes)}")
    for name, table in changes.items():
        both = isinstance(table, Mapping) and isinstance(given.get(name), Mapping)
        given[name] = {**given[name], **table} if both else table
    if "quick" in kind.model_fields:
        given["quick"] = quick
    try:  # strict validation turns lists into tuples only from JSON
        return kind.model_validate_json(json.dumps(given, default=str), context={"folders": folders})
    except ValidationError as found:
        messages = [_message(error, kind, changes) for error in found.errors()]
        raise ValueError("; ".join(dict.fromkeys(messages))) from None


def try_all(calls: Iterable[tuple[str, Callable[[], Any]]]) -> None:
    """Make every call; one ValueError (which pydantic collects) lists the places and messages of all failures."""
    found = []
    for place, call in calls:
        try:
            call()
        except (ValueError, TypeError) as error:
            found.append(f"{place}: {error}" if place else str(error))
    if found:
        raise ValueError("; ".join(dict.fromkeys(found)))


def _message(error: Any, kind: type[Settings], changes: Mapping[str, Any]) -> str:
    """One mistake: its place ("learners.eps_q.grid[0]"), the rule and the value; `changes` are those of a quick run."""
    parts = [part for part in error["loc"] if part != "[key]"]  # pydantic's mark of a mistake in the name of a table
    where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts).removeprefix(".")
    if len(parts) > 1 and isinstance(table := changes.get(parts[0]), Mapping) and parts[1] in table:
        where = f"quick.{where}"
    if error["type"] == "missing":
        return f"{where} is missing"
    if error["type"] == "extra_forbidden":
        return f"{where} is not a setting{nearest(parts[-1], _setting_names(kind, parts[:-1]))}"
    if error["type"] == "value_error":
        return f"{where}: {error['ctx']['error']}".removeprefix(": ")
    return f"{where}: {error['msg']}, got {one_line(error['input'])}"


def _setting_names(kind: Any, location: Sequence[Any]) -> Iterable[str]:
    """Names of the settings of the table at a location; tables may be optional, or elements of a list or a table."""
    for part in location:
        if part in kind.model_fields:
            annotation = kind.model_fields[part].annotation
            kind = next((one for one in (annotation, *get_args(annotation)) if hasattr(one, "model_fields")), kind)
    return kind.model_fields
