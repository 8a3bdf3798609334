"""Models in files: which reader and writer serve which ending.

- .csv, .csv.gz: one line per transition, columns by name, other facts in `# key: value` lines
- .npz: everything, compressed, without pickle
- .json: everything, one transition per line, with names in place of numbers
"""

from __future__ import annotations

import gzip
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bqrl.errors import ArgumentError, ArgumentTypeError, FileFormatError, ModelError, SizeError
from bqrl.mdp.build import check_horizon
from bqrl.mdp.files.atomic import write_whole
from bqrl.mdp.files.csv import read_csv, read_facts, write_csv
from bqrl.mdp.files.json import read_json, write_json
from bqrl.mdp.files.npz import pack, read_npz, unpack, write_npz
from bqrl.mdp.files.regular import MAX_JSON, MAX_TEXT, gunzip, read_regular, size_limit
from bqrl.mdp.model import MDP

ENDINGS = (".csv.gz", ".csv", ".npz", ".json")
LIMITS = {".csv": MAX_TEXT, ".csv.gz": MAX_TEXT, ".json": MAX_JSON}
Kinds = Mapping[str, tuple[str, Callable[[dict[str, Any]], Any]]]  # marker array -> (what a file holds, its reader)


def ending(path: str | Path) -> str | None:
    """The ending that says how a model is stored, or None."""
    name = Path(path).name.lower()
    return next((known for known in ENDINGS if name.endswith(known)), None)


def load(path: str | Path, *, max_bytes: int | None = None, kinds: Kinds | None = None, **options: Any) -> Any:
    """The model in a file; `options` are horizon, start, discount and columns, see `bqrl.load`.

    `kinds` says what else an .npz file may hold, by the name of an array.
    """
    place = Path(path)
    given = {name: value for name, value in options.items() if value is not None}
    content = _content(place, max_bytes)
    marker = next((marker for marker in kinds or () if marker in content), None) if isinstance(content, dict) else None
    if kinds is not None and marker is not None:
        what, reader = kinds[marker]
        for name in given:
            raise ArgumentError(f"{name} must be omitted: {place.name} holds a {what}, not a model", name=name)
        with naming(place):
            return reader(content)
    if "horizon" in given:
        check_horizon(given["horizon"])
    with naming(place, given):
        if place.name.lower().endswith((".csv", ".csv.gz")):
            return read_csv(content, **given)
        if "columns" in given:
            raise ArgumentError("columns must be omitted; only .csv files have columns", name="columns")
        return read_npz(content, **given) if isinstance(content, dict) else read_json(content, **given)


def states_horizon(path: str | Path) -> bool:
    """Whether a model file states its horizon; a .csv file need not."""
    place = Path(path)
    if _checked_ending(place) in (".npz", ".json"):
        return True
    with naming(place):
        return "horizon" in read_facts(_content(place, None))


def save(mdp: MDP, path: str | Path, *, plain: bool = False) -> None:
    """Write a model to a .csv, .csv.gz, .npz or .json file; see `bqrl.save`."""
    place = Path(path)
    kind = _checked_ending(place)
    if kind == ".npz":
        content = write_npz(mdp)
    elif kind == ".json":
        content = write_json(mdp)
    else:
        content = write_csv(mdp, plain=plain)
        content = gzip.compress(content, mtime=0) if kind == ".csv.gz" else content
    write_whole(place, content)


def write_arrays(path: str | Path, arrays: dict[str, Any]) -> None:
    """Write named arrays to an .npz file, whole or not at all."""
    place = Path(path)
    if place.suffix.lower() != ".npz":
        raise ArgumentError(
            f"{place.name}: the name must end in .npz, got {place.suffix or 'no ending'!r}", name="path"
        )
    write_whole(place, pack(arrays))


def read_arrays(path: str | Path, *, max_bytes: int | None = None) -> dict[str, Any]:
    """Named arrays of an .npz file; nothing in it is executed."""
    limit = size_limit(max_bytes)
    with naming(Path(path)):
        return unpack(read_regular(path, limit), limit)


@contextmanager
def naming(place: Path, options: Collection[str] = ()) -> Iterator[None]:
    """Put the file's name in front of errors. Those about the caller's `options` keep their type."""
    try:
        yield
    except (ArgumentError, ArgumentTypeError) as error:
        if (error.name or "").split("[")[0] in options:
            raise type(error)(f"{place.name}: {error}", name=error.name, value=error.value) from None
        raise FileFormatError(f"{place.name}: {error}", file=str(place), column=error.name) from None
    except SizeError as error:
        raise SizeError(f"{place.name}: {error}", needed=error.needed, limit=error.limit) from None
    except ModelError as error:
        raise FileFormatError(
            f"{place.name}: {error}",
            row=error.row,
            file=str(place),
            line=error.line,
            column=error.column,
            name=error.name,
        ) from None
    except (ValueError, TypeError, OverflowError) as error:
        raise FileFormatError(f"{place.name}: {' '.join(str(error).split())}", file=str(place)) from None


def _content(place: Path, max_bytes: int | None) -> Any:
    """The arrays of an .npz file, or the bytes of a text file."""
    kind = _checked_ending(place)
    if kind == ".npz":
        return read_arrays(place, max_bytes=max_bytes)
    limit = size_limit(max_bytes, LIMITS[kind])
    with naming(place):
        content = read_regular(place, limit)
        return gunzip(content, limit) if kind == ".csv.gz" else content


def _checked_ending(path: Path) -> str:
    kind = ending(path)
    if kind is None:
        raise ArgumentError(
            f"{path.name}: a model file must end in .csv, .csv.gz, .npz or .json, got {path.suffix or 'no ending'!r}",
            name="path",
        )
    return kind
