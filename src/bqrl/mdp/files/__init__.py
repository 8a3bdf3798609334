"""Models in files: which reader and writer serve which ending.

- .csv, .csv.gz: one line per transition, columns by name, other facts in `# key: value` lines
- .npz: everything, compressed, without pickle
- .json: everything, one transition per line, with names in place of numbers
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bqrl.errors import ArgumentError, ArgumentTypeError, FileFormatError, ModelError, SizeError
from bqrl.mdp.build import check_horizon
from bqrl.mdp.files.atomic import write_whole
from bqrl.mdp.files.csv import read_csv, read_facts
from bqrl.mdp.files.csv_writer import write_csv
from bqrl.mdp.files.json import read_json, write_json
from bqrl.mdp.files.npz import pack, read_npz, unpack, write_npz
from bqrl.mdp.files.regular import MAX_JSON, MAX_TEXT, gunzip, read_regular, size_limit
from bqrl.mdp.model import MDP

ENDINGS = (".csv", ".csv.gz", ".npz", ".json")


def ending(path: str | Path) -> str | None:
    """The ending that says how a model is stored, or None."""
    name = Path(path).name.lower()
    return next((known for known in sorted(ENDINGS, key=len, reverse=True) if name.endswith(known)), None)


def load(
    path: str | Path,
    horizon: int | None = None,
    start: Any = None,
    discount: float | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    max_bytes: int | None = None,
) -> MDP:
    """The model in a .csv, .csv.gz, .npz or .json file; see `bqrl.load`."""
    place = Path(path)
    kind = _checked_ending(place)
    if kind == ".npz":
        return model_of(read_arrays(place, max_bytes=max_bytes), place, horizon, start, discount, columns)
    horizon = None if horizon is None else check_horizon(horizon)
    content = _text(place, kind, max_bytes)
    options = {"horizon": horizon, "start": start, "discount": discount, "columns": columns}
    with naming(place, options):
        if kind == ".json":
            _no_columns(columns)
            return read_json(content, horizon, start, discount)
        return read_csv(content, horizon, start, discount, columns)


def model_of(
    arrays: dict[str, Any], place: Path, horizon: int | None, start: Any, discount: float | None, columns: Any = None
) -> MDP:
    """The model that the arrays of an .npz file describe."""
    horizon = None if horizon is None else check_horizon(horizon)
    with naming(place, {"horizon": horizon, "start": start, "discount": discount, "columns": columns}):
        _no_columns(columns)
        return read_npz(arrays, horizon, start, discount)


def states_horizon(path: str | Path) -> bool:
    """Whether a model file states its horizon; a .csv file need not."""
    place = Path(path)
    kind = _checked_ending(place)
    if kind in (".npz", ".json"):
        return True
    with naming(place, {}):
        return "horizon" in read_facts(_text(place, kind, None))


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
    place = Path(path)
    limit = size_limit(max_bytes)
    with naming(place, {}):
        return unpack(read_regular(place, limit), limit)


@contextmanager
def naming(place: Path, options: Mapping[str, Any]) -> Iterator[None]:
    """Put the file's name in front of errors. Those about the caller's `options` keep their type."""
    given = {name for name, value in options.items() if value is not None}
    try:
        yield
    except (ArgumentError, ArgumentTypeError) as error:
        if (error.name or "").split("[")[0] in given:
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


def _text(place: Path, kind: str, max_bytes: int | None) -> bytes:
    """The bytes of a text file, unpacked."""
    limit = size_limit(max_bytes, MAX_JSON if kind == ".json" else MAX_TEXT)
    with naming(place, {}):
        content = read_regular(place, limit)
        return gunzip(content, limit) if kind == ".csv.gz" else content


def _no_columns(columns: Any) -> None:
    if columns is not None:
        raise ArgumentError("columns must be omitted; only .csv files have columns", name="columns", value=columns)


def _checked_ending(path: Path) -> str:
    kind = ending(path)
    if kind is None:
        raise ArgumentError(
            f"{path.name}: a model file must end in .csv, .csv.gz, .npz or .json, got {path.suffix or 'no ending'!r}",
            name="path",
        )
    return kind
