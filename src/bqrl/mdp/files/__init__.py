"""Saves models to files; the ending of the name selects the writer. `bqrl.mdp.load` reads them.

- .csv, .csv.gz: one line per transition, columns by name, other facts in `# key: value` lines
- .npz: everything, compressed, without pickle
- .json: everything, one transition per line, with names in place of numbers
- .umb, .drn: read only, models of PRISM, Storm and Modest
"""

from __future__ import annotations

import gzip
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from bqrl.checks import bad_value
from bqrl.errors import ArgumentError, ArgumentTypeError, FileFormatError, ModelError, SizeError
from bqrl.mdp import model
from bqrl.mdp.files.atomic import write_whole
from bqrl.mdp.files.csv import write_csv
from bqrl.mdp.files.json import write_json
from bqrl.mdp.files.npz import pack, unpack, write_npz
from bqrl.mdp.files.regular import read_regular, size_limit
from bqrl.mdp.files.sources import TABLES

WRITTEN = (".csv", ".csv.gz", ".npz", ".json")
CHECKERS = (".umb", ".drn")  # of model checkers
READ = (*TABLES, ".npz", ".json", *CHECKERS)


def ending(path: str | Path, known: Sequence[str] = READ) -> str | None:
    """Return the ending of a model file, or None if it is not a known one."""
    name = Path(path).name.lower()
    return next((kind for kind in known if name.endswith(kind)), None)


def checked_ending(path: Path, known: Sequence[str] = READ, remedy: str = "") -> str:
    """Return the ending; raise ArgumentError if it is not that of a model file."""
    kind = ending(path, known)
    if kind is None:
        rule = f"end in {', '.join(known[:-1])} or {known[-1]}"
        raise bad_value("path", path, rule, repr(path.name), remedy=remedy)
    return kind


def save_model(mdp: model.MDP, path: str | Path, *, plain: bool = False) -> None:
    """Write a model to a .csv, .csv.gz, .npz or .json file; see `bqrl.save`."""
    place = Path(path)
    kind = checked_ending(place, WRITTEN)
    if kind == ".npz":
        content = write_npz(mdp)
    elif kind == ".json":
        content = write_json(mdp)
    else:
        content = write_csv(mdp, plain=plain)
        content = gzip.compress(content, mtime=0) if kind == ".csv.gz" else content
    write_whole(place, content)


def write_arrays(path: str | Path, arrays: dict[str, Any]) -> None:
    """Write named arrays to an .npz file atomically."""
    place = Path(path)
    if place.suffix.lower() != ".npz":
        raise bad_value("path", path, "end in .npz", repr(place.name))
    write_whole(place, pack(arrays))


def read_arrays(path: str | Path, *, max_bytes: int | None = None) -> dict[str, Any]:
    """Return the named arrays of an .npz file; nothing in it is executed."""
    limit = size_limit(max_bytes)
    with name_errors(Path(path)):
        return unpack(read_regular(path, limit), limit)


@contextmanager
def name_errors(place: Path, options: Collection[str] = ()) -> Iterator[None]:
    """Put the name of the file in front of error messages; errors about the caller's `options` keep their type."""
    try:
        yield
    except (ArgumentError, ArgumentTypeError, SizeError) as error:
        if isinstance(error, SizeError) or (error.name or "").split("[")[0] in options:
            raise type(error)(f"{place.name}: {error}", **vars(error)) from None
        raise FileFormatError(f"{place.name}: {error}", file=str(place), column=error.name) from None
    except ModelError as error:
        if error.file is not None:  # the reader of tables names the file
            raise
        raise FileFormatError(f"{place.name}: {error}", **vars(error) | {"file": str(place)}) from None
    except (ValueError, TypeError, OverflowError) as error:
        raise FileFormatError(f"{place.name}: {' '.join(str(error).split())}", file=str(place)) from None
