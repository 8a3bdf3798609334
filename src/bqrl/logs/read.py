"""Tables of logged steps as coded columns: .csv, .csv.gz and .parquet files, frames, and dicts of arrays.

One row is one step: episode, state, action, reward, and optionally stage, next_state, event and end. Labels may be any text
or numbers; they become indices. Columns of .csv files are separated as in models, by commas, semicolons or tabs. Files are
read in blocks, so that memory stays small.
"""

from __future__ import annotations

import csv
import gzip
import importlib
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, is_one_line, one_line
from bqrl.errors import FileFormatError, SizeError
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.columns import (
    Codes,
    cells_of,
    chosen_columns,
    frame_columns,
    is_frame,
    label_text,
    numbering,
    plain_header,
    repeated_header,
    warn_of_costs,
)
from bqrl.mdp.files.csv import BLANK, DecimalSignError, floats, separator, states_separator
from bqrl.mdp.files.regular import LIMIT_VARIABLE, MAX_TEXT, regular_size, size_limit, unpacked_exceeds

ROLES = ("episode", "stage", "state", "action", "reward", "next_state", "event", "end")
REQUIRED = ("episode", "state", "action", "reward")
SYNONYMS = {
    "episode": ("ep", "episodeid", "trajectory", "trial", "run", "episodeids"),
    "stage": ("h", "t", "step", "time", "stageid", "timestep", "stepid", "episodestep"),
    "state": ("s", "from", "obs", "observation", "currentstate", "states", "observations"),
    "action": ("a", "decision", "choice", "actions"),
    "reward": ("r", "payoff", "rewards"),
    "next_state": (
        "s'", "snext", "next", "to", "nextobs", "nextobservation", "newstate", "nextstates", "nextobservations",
    ),
    "event": ("e", "noise"),
    "end": ("terminated", "terminal", "isterminal", "ended", "terminations", "terminals", "done", "dones"),
}  # fmt: skip
# Columns that mark only cut-off episodes; a column `end` is needed as well.
CUT_OFF = ("truncated", "truncation", "timeout", "istruncated", "timelimittruncated")
MISSING = "NA N/A #N/A <NA> NaN nan NaT None none null NULL".split()  # words for a missing next_state
BROKEN = (UnicodeDecodeError, EOFError, OSError, csv.Error, zlib.error)
WHOLE = re.compile(r"(-?\d+)(?:\.0+)?")  # pandas writes 3 as 3.0 if a column has missing values
BLOCK = 10_000  # rows of a file that are held as text at once
MAX_ROWS = 2**24  # a row takes up to 300 bytes while a log is fitted
ROW_BYTES = 64  # bytes per row of a file: a higher limit on bytes also raises the limit on rows
LONGEST = 300  # characters of a message; the labels of a damaged file may be long


@dataclass(slots=True, kw_only=True)
class LogSource:
    """The source of the rows: its name for messages, its headers, and its rows in blocks."""

    name: str
    header: list[str]
    content: Any  # a path of a .csv file, or a list of columns
    path: Path | None = None
    above: int = 0  # lines of the file above the header
    sign: str = ","  # separates the columns of a file
    decimal: str | None = None  # the decimal sign of a file, once a number has one

    def _reader(self, file: Any) -> Any:
        """Return a reader of the rows below the header."""
        reader = csv.reader(islice(file, self.above, None), delimiter=self.sign)
        next(reader)
        return reader

    def blocks(self) -> Iterator[Sequence[Sequence[Any]]]:
        """Yield blocks of rows, each as one list per column."""
        if self.path is None:
            yield self.content
            return
        with _open_text(self.path) as file:
            reader = self._reader(file)
            done = 0
            for block in iter(lambda: self._block(reader), []):
                rows = [row for row in block if _has_content(row)]
                if set(map(len, rows)) - {len(self.header)}:
                    bad = next(i for i, row in enumerate(rows) if len(row) != len(self.header))
                    problem = f"expected {len(self.header)} fields as in the header, got {len(rows[bad])}"
                    raise self.error(done + bad, f"{problem}; complete the row")
                done += len(rows)
                if rows:
                    yield list(zip(*rows, strict=True))

    def _block(self, reader: Any) -> list[list[str]]:
        """Return the next rows of the file."""
        try:
            return list(islice(reader, BLOCK))
        except BROKEN as error:
            line = self.above + reader.line_num + 1
            message = f"{self.name}, near line {line}: {_fault(error)}"
            raise FileFormatError(message, file=str(self.path), line=line) from None

    def numbers(self, cells: Sequence[Any]) -> FloatArray:
        """Return cells as floats; raise TypeError or ValueError if one is not a number."""
        if self.path is not None:
            found, self.decimal = floats(cells, self.sign, self.decimal)
            return found
        found = np.array([np.nan if value is None else value for value in cells], dtype=np.float64)
        if found.ndim != 1:
            raise TypeError
        return found

    def error(
        self, row: int | None, message: str, column: str | None = None, name: str | None = None
    ) -> FileFormatError:
        """Return a FileFormatError about a row, counted from 0 after the header; None is the header itself."""
        line = self.line(row)
        place = f"row {row}" if line is None else f"line {line}"
        place = "header" if row is None and line is None else place
        where = f", column {one_line(column)}" if column else ""
        message = " ".join(message.split())
        message = message if len(message) <= LONGEST else f"{message[:LONGEST]} ..."
        file = None if self.path is None else str(self.path)
        message = f"{self.name}, {place}{where}: {message}"
        return FileFormatError(message, file=file, line=line, column=column, name=name)

    def line(self, row: int | None) -> int | None:
        """Return the line of the file on which a row begins; None for in-memory logs."""
        if self.path is None:
            return None
        if row is None:
            return self.above + 1
        with _open_text(self.path) as file:
            reader = self._reader(file)
            before, left = reader.line_num, row
            for fields in reader:
                if _has_content(fields):
                    if left == 0:
                        break
                    left -= 1
                before = reader.line_num
        return self.above + before + 1


@dataclass(slots=True, kw_only=True)
class LogColumns:
    """The columns of a log by role, coded; `source` locates faults."""

    source: LogSource
    headers: dict[str, str]  # role -> header
    codes: dict[str, Codes]  # state and next_state share their labels
    reward: FloatArray

    def error(self, row: int, message: str, role: str | None = None, name: str | None = None) -> FileFormatError:
        """Return a FileFormatError about a row of the log; `name` is the argument that would correct it."""
        return self.source.error(int(row), message, self.headers.get(role) if role else None, name)


def read_columns(log: Any, columns: Mapping[str, str] | None = None) -> LogColumns:
    """Return the coded columns of a log in any format.

    Parameters
    ----------
    log : str, Path, mapping or frame
        A .csv, .csv.gz or .parquet file, a pandas or polars frame, or a dict of arrays.
    columns : mapping of str to str, optional
        Header of each role whose column has another name, e.g. {"state": "condition"}.

    Returns
    -------
    LogColumns
        Labels as indices, rewards as numbers, and the place of each row for messages.

    Examples
    --------
    >>> log = {"episode": [1, 2], "state": ["a", "a"], "action": [0, 1], "reward": [0.5, 1.0]}
    >>> read_columns(log).codes["state"].labels
    ['a']
    """
    source = _source(log)
    place = _places(source, columns)
    headers = {role: source.header[i] for role, i in place.items()}
    books: dict[str, Any] = {role: numbering() for role in place if role != "reward"}
    if "next_state" in books:
        books["next_state"] = books["state"]
    parts: dict[str, list[Any]] = {role: [] for role in place}
    done = 0
    for block in source.blocks():
        for role, i in place.items():
            if role == "reward":
                parts[role].append(_numbers(source, block[i], done, headers[role]))
            else:
                parts[role].append(_number_labels(books[role], block[i]))
        done += len(block[0]) if block else 0
        _check_rows(source.name, done)
    if done == 0:
        raise source.error(None, "expected one row per step, got no rows; write them below the header")
    codes = {}
    labelled = {role: _merge_labels(list(book)) for role, book in books.items() if role != "next_state"}
    for role in books:
        labels, place_of = labelled["state" if role == "next_state" else role]
        codes[role] = Codes(code=place_of[np.concatenate(parts[role])], labels=labels)
    if "next_state" in codes:
        _drop_missing(codes["state"], codes["next_state"])
    found = LogColumns(source=source, headers=headers, codes=codes, reward=np.concatenate(parts["reward"]))
    for role in (role for role in ("state", "action", "next_state") if role in codes):
        _check_names(found, role)
    warn_of_costs(headers["reward"], found.reward)
    return found


# -- sources ---------------------------------------------------------------------------------------------------------


def _source(log: Any) -> LogSource:
    """Return the rows and headers of a log in any format."""
    if isinstance(log, (str, Path)):
        path = Path(log)
        if not path.name.lower().endswith((".csv", ".csv.gz", ".parquet")):
            raise bad_value("log", log, "be a .csv, .csv.gz or .parquet file", f"{path.name!r}", remedy="convert it")
        _check_bytes(path)
        if path.suffix.lower() == ".parquet":
            return _table_source(_read_parquet(path), path.name)
        with _open_text(path) as file:
            try:
                above, sign = _find_header(file)
                file.seek(0)
                lines = islice(file, above, None)
                header = [name.strip() for name in next(csv.reader(lines, delimiter=sign), [])]
            except BROKEN as error:
                raise FileFormatError(f"{path.name}: {_fault(error)}", file=str(path)) from None
        _check_distinct(header, path.name)
        return LogSource(name=path.name, header=header, content=None, path=path, above=above, sign=sign)
    if is_frame(log):
        return _table_source(log, "log")
    rule, remedy = "be a file, a frame or a dict of arrays", f"name the columns {', '.join(REQUIRED)}"
    if isinstance(log, (list, tuple)) and any(isinstance(part, (str, Path)) or is_frame(part) for part in log):
        remedy = "concatenate the parts, with different episodes in each"
    raise bad_type("log", log, rule, type(log).__name__, remedy=remedy)


def _table_source(table: Any, name: str) -> LogSource:
    """Return a frame or a dict of columns as a source."""
    columns = frame_columns(table)
    _check_rows(name, max((len(column) for _, column in columns if hasattr(column, "__len__")), default=0))
    _check_distinct([header for header, _ in columns], name)
    listed = [(header, cells_of(column)) for header, column in columns]
    if len({len(cells) for _, cells in listed}) > 1:
        lengths = {header: len(cells) for header, cells in listed}
        raise FileFormatError(f"{name}: columns must have one length, got {one_line(lengths)}; complete them")
    return LogSource(name=name, header=[header for header, _ in listed], content=[cells for _, cells in listed])


def _check_bytes(path: Path) -> None:
    """Raise SizeError if a file has too many bytes after unpacking, and OSError if it is not a regular file."""
    limit, size = size_limit(None, MAX_TEXT), regular_size(path)
    exceeds = size > limit
    if path.suffix.lower() == ".gz" and not exceeds:
        with path.open("rb") as file, suppress(*BROKEN):  # the error is raised when the file is read
            exceeds = unpacked_exceeds(file, limit)
    if exceeds:
        rule = f"{path.name}: a log must have at most {limit} bytes, unpacked, got more"
        remedy = f"drop columns that are not needed, fit its first episodes only, or raise {LIMIT_VARIABLE}"
        raise SizeError(f"{rule}; {remedy}", limit=limit, name=LIMIT_VARIABLE)


def _check_rows(name: str, rows: int) -> None:
    """Raise SizeError if a log has too many rows."""
    limit = max(MAX_ROWS, size_limit(None, MAX_TEXT) // ROW_BYTES)
    if rows > limit:
        rule = f"{name}: a log must have at most {limit} rows, got more"
        remedy = f"fit its first episodes only, or raise {LIMIT_VARIABLE}, by {ROW_BYTES} per row"
        raise SizeError(f"{rule}; {remedy}", limit=limit, name=LIMIT_VARIABLE)


def _check_distinct(header: list[str], name: str) -> None:
    """Raise FileFormatError if two columns have the same name."""
    twice = repeated_header(header)
    if twice is not None:
        message = f"{name}: expected distinct headers, got {one_line(twice)} twice; rename one of them"
        raise FileFormatError(message, column=twice)


def _read_parquet(path: Path) -> Any:
    """Return a .parquet file as a frame of polars or pandas, whichever is installed."""
    for module in ("polars", "pandas"):
        try:
            reader = importlib.import_module(module)
            _check_rows(path.name, _parquet_rows(reader, path))
            return reader.read_parquet(path)
        except ImportError:
            continue
        except SizeError:
            raise
        except Exception as error:  # each reader has its own errors
            message = f"{path.name}: expected a .parquet file, got other content ({' '.join(str(error).split())[:120]})"
            raise FileFormatError(message, file=str(path)) from None
    remedy = "install polars, or pandas with pyarrow, or write a .csv"
    raise bad_value("log", path, "be a .csv file if no reader of .parquet is installed", path.name, remedy=remedy)


def _parquet_rows(reader: Any, path: Path) -> int:
    """Return the number of rows of a .parquet file without reading them."""
    if reader.__name__ == "polars":
        return int(reader.scan_parquet(path).select(reader.len()).collect().item())
    return int(importlib.import_module("pyarrow.parquet").read_metadata(path).num_rows)


def _open_text(path: Path) -> Any:
    """Open a file, possibly compressed, as text."""
    opener = gzip.open if path.suffix.lower() == ".gz" else open
    return opener(path, "rt", encoding="utf-8-sig", newline="")


def _fault(error: Exception) -> str:
    """Return why the content of a file cannot be read as text."""
    if isinstance(error, UnicodeDecodeError):
        return "expected CSV text in UTF-8, got other bytes; save the file as CSV UTF-8"
    return f"expected CSV text in UTF-8, got other content ({' '.join(str(error).split())})"


def _find_header(file: Any) -> tuple[int, str]:
    """Return the number of lines above the header (empty lines, and "sep=;" from spreadsheets) and the separator."""
    for i, line in enumerate(file):
        if line.strip().strip(BLANK) and not (i == 0 and states_separator(line)):
            return i, separator(line)
    return 0, ","


def _has_content(row: Sequence[str]) -> bool:
    """Return whether a row has a cell with content; spreadsheets add empty rows at the end."""
    return any(map(str.strip, row))


# -- headers, labels, numbers ------------------------------------------------------------------------------------------


def _places(source: LogSource, columns: Mapping[str, str] | None) -> dict[str, int]:
    """Return the position of the column of each role."""
    if not any(name.strip() for name in source.header):
        raise source.error(None, "expected a header such as episode,state,action,reward, got an empty log")
    if source.path is not None and not all(map(is_one_line, source.header)):
        raise source.error(
            None,
            "expected the names of columns on one line, got a line break or control character; is a quote left open?",
        )
    place = chosen_columns(source.header, columns, ROLES)
    for role in ROLES:
        if role in place:
            continue
        names = (role.replace("_", ""), *SYNONYMS[role])
        fits = [i for i, name in enumerate(source.header) if plain_header(name) in names and i not in place.values()]
        if role == "episode" and len(fits) > 1:  # episodes of several runs may share their ids
            both = " and ".join(one_line(source.header[i]) for i in fits[:2])
            remedy = "combine them in one, or choose one with columns"
            raise source.error(None, f"expected one column for the episode, got {both}; {remedy}", role, "columns")
        if fits:
            place[role] = min(fits, key=lambda i: names.index(plain_header(source.header[i])))
        elif role in REQUIRED:
            left = [name for i, name in enumerate(source.header) if i not in place.values()]
            numbered = [name for name in left if re.fullmatch(rf"{role}\d+", plain_header(name))]
            if len(numbered) > 1:
                got = f"got {one_line(numbered[0])} and {one_line(numbered[1])}; reshape the table to one row per step"
                raise source.error(None, f"expected one column {role}, {got}", numbered[0])
            close = get_close_matches(role, left, 1)
            got = f"got {', '.join(source.header)}; map {role} to {one_line(close[0]) if close else 'a header'} with columns"
            raise source.error(None, f"expected a column {role}, {got}", role, "columns")
    half = next((name for name in source.header if plain_header(name).removesuffix("s") in CUT_OFF), None)
    if half is not None and "end" not in place:
        remedy = "add one, or rename this column and declare ends"
        raise source.error(None, f"expected a column end or terminated beside {half}, got none; {remedy}", half, "ends")
    ends = source.header[place["end"]] if "end" in place and "end" not in (columns or {}) else ""
    if (
        half is not None and plain_header(ends).removesuffix("s") == "done"
    ):  # it may also mark episodes that were cut off
        remedy = f"map end to {one_line(ends)} with columns if it marks complete episodes only"
        raise source.error(
            None, f"expected a column end or terminated beside {half}, got {ends}; {remedy}", ends, "columns"
        )
    return place


def _number_labels(book: Any, cells: Sequence[Any]) -> IntArray:
    """Return the numbers of labels; a label that is not hashable, such as a list, becomes text."""
    try:
        return np.fromiter(map(book.__getitem__, cells), np.int64, len(cells))
    except TypeError:
        return np.fromiter((book[label_text(cell)] for cell in cells), np.int64, len(cells))


def _merge_labels(raw: list[Any]) -> tuple[list[str], IntArray]:
    """Return the distinct labels as text, sorted if they are numbers, and the index of every raw label, -1 if it is missing."""
    texts = [label_text(value) for value in raw]
    if all(WHOLE.fullmatch(text) for text in texts if text and text not in MISSING):  # else 1.0 may be a version
        texts = [_drop_point(text) for text in texts]
    distinct = list(dict.fromkeys(text for text in texts if text))
    with suppress(ValueError):  # names keep the order in which they appear
        distinct.sort(key=lambda text: np.inf if text in MISSING else float(text))
    place = {text: i for i, text in enumerate(distinct)} | {"": -1}
    return distinct, np.array([place[text] for text in texts], np.int64)


def _drop_point(text: str) -> str:
    """Return a whole number without decimal point; return any other label unchanged."""
    found = WHOLE.fullmatch(text)
    return found[1] if found else text


def speller(labels: Iterable[str]) -> Callable[[str], str]:
    """Return a function from a text to the label that it means: 3 and 3.0 agree unless both are labels."""
    known = list(labels)
    table = {_drop_point(text): text for text in known} | {text: text for text in known}
    return lambda text: table.get(text, table.get(_drop_point(text), text))


def _check_names(columns: LogColumns, role: str) -> None:
    """Raise FileFormatError if a label cannot be shown on one line."""
    code, labels = columns.codes[role].code, columns.codes[role].labels
    bad = [i for i, text in enumerate(labels) if not text.isprintable() and not is_one_line(text)]
    rows = np.flatnonzero(np.isin(code, bad))
    if rows.size:
        problem = f"expected a printable name, got {one_line(labels[code[rows[0]]])}; remove control characters"
        raise columns.error(int(rows[0]), problem, role)


def _drop_missing(state: Codes, after: Codes) -> None:
    """Turn words such as NA in the column next_state into missing values, unless a step has a state of that name."""
    acts = np.zeros(len(state.labels), bool)
    acts[state.code[state.code >= 0]] = True
    stays = np.array([used or text not in MISSING for used, text in zip(acts, state.labels, strict=True)], bool)
    place = np.append(np.where(stays, np.cumsum(stays) - 1, -1), -1)
    labels = [text for text, keep in zip(state.labels, stays, strict=True) if keep]
    for codes in (state, after):
        codes.code, codes.labels = place[codes.code], labels


def near_labels(text: str, labels: Iterable[str]) -> str:
    """Return the end of a message: the nearest label, or the first and the last label."""
    known = list(labels)
    found = get_close_matches(text, known, n=1, cutoff=0.5)
    if not found and len(known) == 1:
        return f"; there is only {known[0]!r}"
    return f"; did you mean {found[0]!r}?" if found else f"; there are {len(known)}, from {known[0]!r} to {known[-1]!r}"


def _numbers(source: LogSource, column: Sequence[Any], done: int, header: str) -> FloatArray:
    """Return the rewards as finite floats."""
    try:
        numbers = source.numbers(column)
    except DecimalSignError as doubt:
        raise source.error(done + doubt.place, str(doubt), header) from None
    except (TypeError, ValueError):
        numbers = np.array([_float(source, value) for value in column])
    bad = np.flatnonzero(~np.isfinite(numbers))
    if bad.size:
        i = int(bad[0])
        rule = "a finite number"
        with suppress(TypeError, ValueError):
            if source.path is not None and np.isfinite(floats([column[i]], source.sign, None, certain=True)[0][0]):
                rule = f"the decimal sign {source.decimal!r} as above"
        raise source.error(done + i, f"expected {rule}, got {one_line(column[i])}; correct or drop it", header)
    return numbers


def _float(source: LogSource, value: Any) -> float:
    """Return `value` as a float; NaN if it is not a number."""
    try:
        return float(source.numbers([value])[0])
    except DecimalSignError:  # a number, whatever its sign means
        return 0.0
    except (TypeError, ValueError):
        return float("nan")
