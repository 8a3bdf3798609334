"""The record of a result, and the folder that holds it.

A folder holds `result.json` (kind, title, settings, sentences, column titles), one `NAME.csv` per table, one
`NAME.vl.json` per chart (Vega-Lite), attached files, and `manifest.json` with the SHA-256 digest of each of them.

Writing has four steps under one lock:

1. the manifest is replaced by one that says "interrupted" and lists the digests of the old and of the new files;
2. each new file replaces its predecessor atomically;
3. files of the old result that the new one does not have are removed;
4. the manifest is replaced by one that says "complete" and lists the new files.

A process that is killed before step 1 leaves the old result, one that is killed after step 4 leaves the new one, and in
between the folder says that it is interrupted and the same command completes it. A file is ours only if the manifest
lists its name and its digest. All other files stay untouched; if one of them has the name of a file to be written,
`check_folder` refuses before any work begins.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import os
import platform
import re
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from filelock import FileLock, Timeout

import bqrl
from bqrl.errors import ArgumentError, FileFormatError

RESULT, MANIFEST, LOCK, DRAFT = "result.json", "manifest.json", ".bqrl.lock", ".bqrl.part"
FORMAT, VERSION = "bqrl result", 1
LOCK_SECONDS = 30.0  # writing takes less
GENERATED = 160  # bytes in which a page of ours names its generator
# Types of columns in result.json: the Python types of their cells, and how a cell is read back from CSV.
COLUMN_TYPES: dict[str, tuple[set[type], Callable[[str], Any]]] = {
    "yes/no": ({bool}, "True".__eq__), "whole": ({int}, int), "number": ({int, float}, float), "text": ({str}, str),
}  # fmt: skip
NAME = re.compile(r"([A-Za-z0-9][A-Za-z0-9._-]{0,120}/){0,3}[A-Za-z0-9][A-Za-z0-9._-]{0,120}")  # may lie in subfolders


@dataclass(frozen=True, slots=True)
class Table:
    """Rows as dicts with the same keys; values are numbers, strings, booleans or None."""

    rows: Sequence[Mapping[str, Any]]
    titles: Mapping[str, str] = field(default_factory=dict)  # of columns, with their unit; else the key is shown
    caption: str = ""  # what the table shows, in one sentence

    @property
    def columns(self) -> list[str]:
        """Keys of the columns in their order."""
        return list(self.rows[0]) if self.rows else list(self.titles)


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence; with `when`, it is shown only while the page's choices have these values."""

    text: str
    when: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Choice:
    """A control of the page: a slider over numbers or a switch between two values.

    Every chart with a Vega-Lite parameter called `name` follows it, and so do sentences with `when`.
    """

    name: str
    title: str
    values: Sequence[Any]
    labels: Sequence[str]
    start: int = 0


@dataclass(frozen=True, slots=True)
class Result:
    """What a plan, a learning run, a comparison or an experiment has to show, as plain data.

    >>> result = Result("plan", "Two stages", {"tau": 0.1}, {"levels": Table([{"tau": 0.1, "value": 3.0}])}, {}, ["x"])
    >>> result.tables["levels"].columns
    ['tau', 'value']
    """

    kind: str  # one word: "plan", "learning", "comparison", "study", "theory"
    title: str  # of the page
    settings: Mapping[str, Any]  # what was asked for: JSON values by name
    tables: Mapping[str, Table]
    charts: Mapping[str, Mapping[str, Any]]  # Vega-Lite specifications as dicts
    sentences: Sequence[str | Sentence]  # what was found, in words
    choices: Sequence[Choice] = ()  # controls of the page
    details: Mapping[str, Any] = field(default_factory=dict)  # the whole result as JSON values, for programs
    files: Mapping[str, bytes] = field(default_factory=dict)  # further files of the folder, such as a policy as .npz
    left_out: Sequence[str] = ()  # one line for each part that could not be made, such as charts without Altair

    @property
    def lines(self) -> list[Sentence]:
        """The sentences, each with its condition."""
        return [line if isinstance(line, Sentence) else Sentence(line) for line in self.sentences]


def to_json(value: Any, indent: int | None = 2) -> str:
    """Standard JSON of plain data, arrays and NumPy scalars included; numbers that are not finite become null.

    >>> to_json({"gap": float("inf")}, indent=None)
    '{"gap": null}'
    """
    return json.dumps(plain(value), indent=indent, allow_nan=False, ensure_ascii=False)


def to_csv(table: Table) -> bytes:
    """The table as CSV in UTF-8: keys as header, an empty field for None."""
    text = io.StringIO()
    writer = csv.DictWriter(text, table.columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(table.rows)
    return text.getvalue().encode()


def saved(thing: Any) -> bytes:
    """A policy, a record or an estimate as the bytes of its .npz file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "saved.npz"
        thing.save(path)
        return path.read_bytes()


def chart_files(names: Iterable[str]) -> list[str]:
    """Names of the files of charts: specification and images."""
    return [f"{name}.{kind}" for name in names for kind in ("vl.json", "png", "pdf")]


def asked_for(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that were set."""
    return {key: value for key, value in settings.items() if value not in (None, False, [], ())}


def versions() -> dict[str, str]:
    """Versions of the software that a result depends on."""
    libraries = {name: metadata.version(name) for name in ("numpy", "numba", "scipy")}
    system = f"{platform.system()} {platform.machine()}"
    return {"bqrl": bqrl.__version__, "python": platform.python_version(), **libraries, "system": system}


def check_folder(folder: str | Path | None, names: Iterable[str] = ()) -> None:
    """Raise OSError with one line if a result with these files could not be written to the folder. Writes nothing.

    Parameters
    ----------
    folder
        Where the result will be written; it need not exist. None: the result will not be written.
    names
        Files to be written, beside `result.json` and `manifest.json`.
    """
    if folder is not None:
        _check_writable(Path(folder))
        _refuse_foreign(Path(folder), _manifest(Path(folder)), [RESULT, *names])


def write(result: Result, folder: str | Path) -> None:
    """Write the result in place of the one that the folder holds; files that bqrl did not write stay as they are."""
    _replace(Path(folder), _contents(result), keep=False)


def add_files(folder: str | Path, files: Mapping[str, bytes]) -> None:
    """Add files to a complete result folder, such as its page, or replace those that have these names."""
    if _manifest(Path(folder)).status != "complete":
        read(folder)  # raises with the reason
    _replace(Path(folder), dict(files), keep=True)


def write_file(folder: str | Path, name: str, content: bytes) -> None:
    """Write one file to a folder without a result; refuses to replace a file that does not begin in the same way."""
    path, place = Path(folder), Path(folder) / name
    _check_writable(path)
    path.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(place) and (not place.is_file() or place.read_bytes()[:GENERATED] != content[:GENERATED]):
        raise FileExistsError(f"{place} was not written by bqrl; move it or choose another folder")
    _write_file(path, name, content)


def read(folder: str | Path) -> Result:
    """Read the result of a folder, attached files included, and check that each file is as it was written."""
    path = Path(folder)
    if not path.is_dir():
        raise FileNotFoundError(f"there is no folder {path}; name one that a command has written with --out")
    manifest = _manifest(path)
    if not manifest.status:
        raise FileFormatError(f"{path} holds no result of bqrl (no {MANIFEST}); name a folder written with --out")
    if manifest.status != "complete":
        raise FileFormatError(f"{path}: interrupted; run the command again", file=str(path))
    contents: dict[str, bytes] = {}
    for name, digests in manifest.files.items():
        with suppress(OSError):
            contents[name] = (path / name).read_bytes()
        if name not in contents or _digest(contents[name]) not in digests:
            state = "missing" if name not in contents else "not as it was written"
            raise FileFormatError(f"{path / name} is {state}; run the command again", file=str(path / name))
    return _parse(path, contents)


def _contents(result: Result) -> dict[str, bytes]:
    """Files of a result by name."""
    tables = {name: {"caption": table.caption, "columns": _columns(table)} for name, table in result.tables.items()}
    head = {
        "format": FORMAT, "version": VERSION, "kind": result.kind, "title": result.title, "settings": result.settings,
        "sentences": [asdict(line) for line in result.lines], "tables": tables, "charts": list(result.charts),
        "choices": [asdict(choice) for choice in result.choices], "details": result.details, "left_out": result.left_out,
    }  # fmt: skip
    parts = [
        *((f"{name}.csv", to_csv(table)) for name, table in result.tables.items()),
        *((f"{name}.vl.json", to_json(spec, indent=None).encode()) for name, spec in result.charts.items()),
        *result.files.items(),
    ]
    found = {RESULT: (to_json(head) + "\n").encode()}
    for name, content in parts:
        if not NAME.fullmatch(name) or name == MANIFEST or name.lower() in map(str.lower, found):
            raise ArgumentError(f"{name!r} cannot be the name of a file of a result; choose another", value=name)
        found[name] = content
    return found


def _parse(path: Path, contents: dict[str, bytes]) -> Result:
    """The result of the files; what is not part of a table, a chart or the head is attached."""
    try:
        head = json.loads(contents.pop(RESULT))
        if head["format"] != FORMAT or head["version"] != VERSION:
            raise ValueError(f"version {head['version']} is not {VERSION}")
        return Result(
            **{key: head[key] for key in ("kind", "title", "settings", "details")},
            tables={name: _table(contents.pop(f"{name}.csv"), **table) for name, table in head["tables"].items()},
            charts={name: json.loads(contents.pop(f"{name}.vl.json")) for name in head["charts"]},
            sentences=[Sentence(**line) for line in head["sentences"]],
            choices=[Choice(**choice) for choice in head["choices"]],
            files=contents,
            left_out=head.get("left_out", ()),
        )
    except (KeyError, TypeError, ValueError) as fault:
        raise FileFormatError(f"{path / RESULT} cannot be read: {fault}; run the command again") from None


def _columns(table: Table) -> list[dict[str, str]]:
    """Key, title and type of every column."""
    found = []
    for key in table.columns:
        types = {type(plain(row[key], finite=False)) for row in table.rows} - {type(None)}
        kind = next((kind for kind, (some, _) in COLUMN_TYPES.items() if types and types <= some), "text")
        found.append({"key": key, "title": table.titles.get(key, key), "type": kind})
    return found


def _table(content: bytes, caption: str, columns: Sequence[Mapping[str, str]]) -> Table:
    """The table of a CSV file whose columns are described as `_columns` does."""
    parse = {column["key"]: COLUMN_TYPES[column["type"]][1] for column in columns}
    rows = [
        {key: parse[key](text) if text else None for key, text in row.items()}
        for row in csv.DictReader(io.StringIO(content.decode(), newline=""))
    ]
    return Table(rows, {column["key"]: column["title"] for column in columns}, caption)


def plain(value: Any, finite: bool = True) -> Any:
    """The value as dicts, lists, strings, numbers, booleans and None; numbers that are not finite become None."""
    if isinstance(value, Mapping):
        return {str(key): plain(item, finite) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item, finite) for item in value]
    if hasattr(value, "tolist"):
        return plain(value.tolist(), finite)
    if isinstance(value, float) and finite and not math.isfinite(value):
        return None
    return value if isinstance(value, (str, int, float, type(None))) else str(value)


class _Manifest(NamedTuple):
    """The manifest of a folder: "complete", "interrupted" or "" for none of ours, and the digests of its files."""

    status: str
    files: dict[str, list[str]]


def _manifest(path: Path) -> _Manifest:
    try:
        found = json.loads((path / MANIFEST).read_bytes())
        if found["format"] == FORMAT and found["status"] in ("complete", "interrupted"):
            return _Manifest(found["status"], {str(name): [*map(str, some)] for name, some in found["files"].items()})
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass
    return _Manifest("", {})


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _ours(place: Path, digests: Sequence[str]) -> bool:
    """Whether a file is as we wrote it."""
    return not place.is_symlink() and place.is_file() and _digest(place.read_bytes()) in digests


def _refuse_foreign(path: Path, manifest: _Manifest, names: Iterable[str]) -> None:
    """FileExistsError if one of the names is taken by a file that is not ours."""
    if os.path.lexists(path / MANIFEST) and not manifest.status:
        raise FileExistsError(f"{path / MANIFEST} was not written by bqrl; move it or choose another folder")
    for name in names:
        for part in list(Path(name).parents)[:-1]:
            if os.path.lexists(path / part) and ((path / part).is_symlink() or not (path / part).is_dir()):
                raise FileExistsError(f"{path / part} is not a folder of bqrl; move it or choose another folder")
        if os.path.lexists(path / name) and not _ours(path / name, manifest.files.get(name, ())):
            state = "was changed after bqrl wrote it" if name in manifest.files else "was not written by bqrl"
            raise FileExistsError(f"{path / name} {state}; move it or choose another folder")


def _replace(path: Path, contents: dict[str, bytes], keep: bool) -> None:
    _check_writable(path)
    try:
        path.mkdir(parents=True, exist_ok=True)
        with FileLock(path / LOCK, timeout=LOCK_SECONDS):
            manifest = _manifest(path)
            _refuse_foreign(path, manifest, contents)
            listed = {name: some for name, some in manifest.files.items() if NAME.fullmatch(name)}
            digests = {name: [_digest(content)] for name, content in contents.items()}
            both = {name: [*digests.get(name, ()), *listed.get(name, ())] for name in {**listed, **digests}}
            _write_manifest(path, "interrupted", both)
            for name, content in contents.items():
                _write_file(path, name, content)
            for name in listed:
                if not keep and name not in digests and _ours(path / name, listed[name]):
                    (path / name).unlink()
            _write_manifest(path, "complete", {**listed, **digests} if keep else digests)
    except Timeout:
        raise OSError(f"another process is writing to {path}; wait for it or choose another folder") from None
    except FileExistsError:
        raise
    except OSError as fault:
        reason = fault.strerror or str(fault)
        raise OSError(
            f"cannot write the result to {path}: {reason}; make room there or choose another folder"
        ) from None


def _write_manifest(path: Path, status: str, files: Mapping[str, list[str]]) -> None:
    message = {} if status == "complete" else {"message": "interrupted; run the command again"}
    manifest = {"format": FORMAT, "version": VERSION, "status": status, **message, "files": dict(sorted(files.items()))}
    _write_file(path, MANIFEST, (json.dumps(manifest, indent=2) + "\n").encode())


def _write_file(path: Path, name: str, content: bytes) -> None:
    """Replace one file atomically; the caller holds the lock, so one draft name serves all."""
    with (path / DRAFT).open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    (path / name).parent.mkdir(parents=True, exist_ok=True)
    os.replace(path / DRAFT, path / name)


def _check_writable(path: Path) -> None:
    """OSError if the folder cannot be made or written to."""
    try:
        if "\0" in str(path):
            raise OSError("a name must not hold a zero byte; choose another folder")
        nearest = path
        while not os.path.lexists(nearest):
            nearest = nearest.parent
        if not nearest.is_dir():
            raise NotADirectoryError(f"{nearest} is a file; name a folder")
        if not os.access(nearest, os.W_OK | os.X_OK):
            raise PermissionError(f"no permission to write to {nearest}; choose another folder")
    except OSError as fault:
        raise OSError(f"cannot write to the folder {path}: {fault.strerror or fault}") from None
