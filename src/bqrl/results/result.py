"""A result as a record of plain data, and its files in a folder.

A folder holds `result.json` (kind, title, settings, sentences, column titles), one `NAME.csv` per table, one
`NAME.vl.json` per chart (Vega-Lite), attached files, and the manifest of `bqrl.results.folder`.
"""

from __future__ import annotations

import csv
import io
import json
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import KW_ONLY, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from pydantic_core import to_jsonable_python

from bqrl.checks import one_line
from bqrl.display import sheet_bytes, sheet_cell, sheet_csv, unguard
from bqrl.errors import ArgumentError, FileFormatError
from bqrl.mdp.files.atomic import check_place, write_whole
from bqrl.results.folder import FORMAT, MANIFEST, NAME, VERSION, Folder

RESULT = "result.json"
# Types of columns in result.json: the Python types of their cells, and how a cell is read back from CSV.
COLUMN_TYPES: dict[str, tuple[set[type], Callable[[str], Any]]] = {
    "yes/no": ({bool}, "True".__eq__), "whole": ({int}, int), "number": ({int, float}, float), "text": ({str}, unguard),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class ResultTable:
    """Rows as dicts with the same keys; values are numbers, strings, booleans or None."""

    rows: Sequence[Mapping[str, Any]]
    _: KW_ONLY
    titles: Mapping[str, str] = field(default_factory=dict)  # of columns, with their unit; else the key is shown
    caption: str = ""  # what the table shows, in one sentence
    when: Mapping[str, Any] = field(default_factory=dict)  # as for a sentence
    bounds: Mapping[str, int] = field(default_factory=dict)  # columns that people see rounded down (-1) or up (1)
    made: Mapping[str, str] = field(default_factory=dict)  # further columns of the CSV file: its seeds and versions

    @property
    def columns(self) -> list[str]:
        """Keys of the columns in their order."""
        return list(self.rows[0]) if self.rows else list(self.titles)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence; with `when`, it is shown only while the page's choices have these values, or one of a list of values.

    The page folds an `aside`, such as the size of a grid, below the headline.
    """

    text: str
    _: KW_ONLY
    when: Mapping[str, Any] = field(default_factory=dict)
    aside: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """A control of the page: a slider over numbers or a switch between two values.

    Every chart with a Vega-Lite parameter called `name` follows it, and so do sentences and tables with `when`. A value may need
    other controls to have one of some values; otherwise the control returns to its start.
    """

    name: str
    title: str
    values: Sequence[Any]
    labels: Sequence[str]
    start: int = 0
    needs: Sequence[Mapping[str, Sequence[Any]]] = field(default_factory=list)  # one per value, or none


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a plan, a learning run, a comparison or an experiment, as plain data."""

    kind: str  # one word: "plan", "learning", "comparison", "study", "theory"
    title: str  # of the page
    settings: Mapping[str, Any] = field(default_factory=dict)  # requested settings: JSON values by name
    tables: Mapping[str, ResultTable] = field(default_factory=dict)
    charts: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # Vega-Lite specifications as dicts
    sentences: Sequence[str | Sentence] = ()  # what was found, in words
    choices: Sequence[Control] = ()  # controls of the page
    details: Mapping[str, Any] = field(default_factory=dict)  # the whole result as JSON values, for programs
    files: Mapping[str, bytes] = field(default_factory=dict)  # further files of the folder, such as a policy as .npz
    left_out: Sequence[str] = ()  # one line for each part that could not be made, such as charts without Altair
    decimal: str = "."  # decimal sign of the CSV files; with "," semicolons separate their fields

    @property
    def lines(self) -> list[Sentence]:
        """The sentences, each with its condition."""
        return [line if isinstance(line, Sentence) else Sentence(line) for line in self.sentences]


class Shown(NamedTuple):
    """What a command shows: a document for --json, a header, tables and lines for the console, and a result for the folder."""

    document: Any
    result: Result | None = None
    header: str = ""
    tables: Sequence[ResultTable] = ()
    lines: Sequence[str] = ()


def is_shown(when: Mapping[str, Any], chosen: Mapping[str, Any]) -> bool:
    """Whether a sentence or a table with this condition is shown while the controls have the chosen values.

    >>> is_shown({"tau": 0.1}, {"tau": 0.1, "policy": "best"}), is_shown({"policy": ["1", "2"]}, {"policy": "best"})
    (True, False)
    """
    return all(name not in chosen or chosen[name] in (x if isinstance(x, list) else [x]) for name, x in when.items())


def to_plain(value: Any) -> Any:
    """The value as dicts, lists, strings, numbers, booleans and None; numbers that are not finite become None."""

    def convert(other: Any) -> Any:
        """Plain data for arrays, NumPy scalars and mappings other than dicts; the text of anything else."""
        if hasattr(other, "tolist"):
            return other.tolist()
        return dict(other) if isinstance(other, Mapping) else str(other)

    return to_jsonable_python(value, inf_nan_mode="null", fallback=convert)


def to_json(value: Any, indent: int | None = 2) -> str:
    """Standard JSON of plain data, arrays and NumPy scalars included; numbers that are not finite become null."""
    return json.dumps(to_plain(value), indent=indent, allow_nan=False, ensure_ascii=False)


def to_csv(table: ResultTable, decimal: str = ".") -> bytes:
    """The table as CSV in UTF-8: keys as header, then `made`; an empty field for None, and no formulas (see `sheet_csv`)."""
    columns, made = table.columns, table.made
    return sheet_csv(
        [[*columns, *made], *([*(row[key] for key in columns), *made.values()] for row in table.rows)], decimal
    )


def check_sheet(path: str | Path) -> None:
    """Raise an error unless a table can be written to this .csv or .xlsx file."""
    if Path(path).suffix.lower() not in (".csv", ".xlsx"):
        raise ArgumentError(
            f"table must end in .csv or .xlsx, got {one_line(str(path))}", name="table", value=str(path)
        )
    check_place(Path(path))


def save_sheet(table: ResultTable, path: str | Path, decimal: str = ".") -> None:
    """Write a table with its titles to a .csv or .xlsx file, whole or not at all; numbers have at most six digits."""
    head = [table.titles.get(key, key) for key in table.columns]
    sheet = [head, *([sheet_cell(row[key]) for key in table.columns] for row in table.rows)]
    write_whole(Path(path), sheet_bytes(sheet, Path(path).suffix.lower(), decimal))


def saved_bytes(thing: Any) -> bytes:
    """A policy, a record or an estimate as the bytes of its .npz file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved.npz"
        thing.save(path)
        return path.read_bytes()


def chart_files(names: Iterable[str], folder: str = "") -> list[str]:
    """Names of the files of charts: specifications, and images in a subfolder."""
    return [file for name in names for file in (f"{name}.vl.json", f"{folder}{name}.png", f"{folder}{name}.pdf")]


def asked_for(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that are neither None, False nor empty."""
    return {key: value for key, value in settings.items() if value not in (None, False, [], ())}


def check_folder(folder: str | Path | None, kind: str, names: Iterable[str] = ()) -> None:
    """Raise OSError if a result of this kind cannot be written to the folder; None means no folder.

    A folder keeps the kind of its first result. `names` are the names of files that may be written, as in `Folder.check`.
    """
    if folder is not None:
        Folder(folder).check([RESULT, *names])
        _check_kind(folder, kind)


def _check_kind(folder: str | Path, kind: str) -> None:
    """Raise FileExistsError if the folder holds a result of another kind."""
    there = kind
    with suppress(OSError, ValueError, KeyError, TypeError):
        there = json.loads((Path(folder) / RESULT).read_bytes())["kind"]
    if there != kind:
        raise FileExistsError(f"{folder} holds a {there} result; give another folder")


def write(result: Result, folder: str | Path) -> None:
    """Write the result and replace the one in the folder; files that bqrl did not write stay as they are."""
    Folder(folder).replace(contents(result), check=partial(_check_kind, folder, result.kind))


def add_files(folder: str | Path, files: Mapping[str, bytes]) -> None:
    """Add files to a folder, such as the page of its result; files of bqrl with these names are replaced."""
    place = Folder(folder)
    if place.status:
        place.read()  # raises an error if the result is not complete
    place.replace(files, keep=True)


def contents(result: Result) -> dict[str, bytes]:
    """The files of a result by name, without the manifest."""
    tables: dict[str, Any] = {}
    for name, table in result.tables.items():
        tables[name] = {"caption": table.caption, "when": table.when, "made": table.made, "columns": []}
        for key in table.columns:
            types = {type(np.asarray(row[key]).item()) for row in table.rows} - {type(None)}
            kind = next((kind for kind, (some, _) in COLUMN_TYPES.items() if types and types <= some), "text")
            column = {"key": key, "title": table.titles.get(key, key), "type": kind}
            tables[name]["columns"].append(column | ({"bound": table.bounds[key]} if key in table.bounds else {}))
    head = {
        "format": FORMAT, "version": VERSION, "kind": result.kind, "title": result.title, "settings": result.settings,
        "sentences": result.lines, "tables": tables, "charts": list(result.charts), "choices": result.choices,
        "details": result.details, "left_out": result.left_out, "decimal": result.decimal,
    }  # fmt: skip
    found = {RESULT: (to_json(head) + "\n").encode()}
    for name, content in (
        *((f"{name}.csv", to_csv(table, result.decimal)) for name, table in result.tables.items()),
        *((f"{name}.vl.json", to_json(spec, indent=None).encode()) for name, spec in result.charts.items()),
        *result.files.items(),
    ):
        if not NAME.fullmatch(name) or name == MANIFEST or name.lower() in map(str.lower, found):
            rule = "the name of a file must be a new relative path of letters, digits, '.', '_' and '-'"
            raise ArgumentError(f"{rule}, got {one_line(name)}; choose another", name="files", value=name)
        found[name] = content
    return found


def _parser(kind: str, decimal: str) -> Callable[[str], Any]:
    """How a cell of a column of this type is read back from CSV."""
    parse = COLUMN_TYPES[kind][1]
    return (lambda text: parse(text.replace(decimal, "."))) if kind == "number" else parse


def read(folder: str | Path) -> Result:
    """Read the result of a folder, attached files included, and check that no file has changed."""
    files, tables = Folder(folder).read(), dict[str, ResultTable]()
    if RESULT not in files:  # a folder of `report --out` has a page only
        fault = f"holds no result of bqrl (no {RESULT}); name the folder of the result"
        raise FileFormatError(f"{folder} {fault}", file=str(folder))
    try:
        head = json.loads(files.pop(RESULT))
        if head["format"] != FORMAT or head["version"] != VERSION:
            raise ValueError(f"version {head['version']} is not {VERSION}")
        decimal = head.get("decimal", ".")
        for name, table in head["tables"].items():
            parse = {column["key"]: _parser(column["type"], decimal) for column in table["columns"]}
            text, made = io.StringIO(files.pop(f"{name}.csv").decode(), newline=""), table.get("made", {})
            _, *lines = csv.reader(text, delimiter=";" if decimal == "," else ",")
            rows = [
                {
                    key: parse[key](text) if text else None
                    for key, text in zip(parse, line[: -len(made) or None], strict=True)
                }
                for line in lines
            ]
            tables[name] = ResultTable(
                rows, titles={column["key"]: column["title"] for column in table["columns"]}, caption=table["caption"],
                when=table.get("when", {}),
                bounds={column["key"]: column["bound"] for column in table["columns"] if "bound" in column}, made=made,
            )  # fmt: skip
        return Result(
            **{key: head[key] for key in ("kind", "title", "settings", "details")}, tables=tables,
            charts={name: json.loads(files.pop(f"{name}.vl.json")) for name in head["charts"]},
            sentences=[Sentence(**line) for line in head["sentences"]],
            choices=[Control(**choice) for choice in head["choices"]], files=files, left_out=head.get("left_out", ()),
            decimal=decimal,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError) as fault:
        raise FileFormatError(f"{Path(folder) / RESULT} cannot be read: {fault}; run the command again") from None
