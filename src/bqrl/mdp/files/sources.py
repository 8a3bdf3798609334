"""Rows of a table from any source: .csv, .csv.gz, .xlsx and .parquet files, frames, dicts of columns and lists of dicts.

Text is read in blocks, so that memory stays small. Its columns are separated by commas, semicolons or tabs. Bytes that are not
UTF-8 are read as Windows-1252, in which Excel saves a plain "CSV"; a byte order mark announces UTF-16. Of an .xlsx file the
first sheet is read, with the stored values of formulas. Above the header there may be empty lines, "sep=;" and comments,
which begin with #.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import importlib
import io
import warnings
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime, time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bqrl.checks import is_one_line, one_line
from bqrl.errors import FileFormatError, ModelError, SizeError
from bqrl.mdp.columns import Kind, label_text

Lines = NDArray[np.int32]
Block = tuple[Sequence[Any], Lines | None]  # the columns of some rows, and the line on which each row begins
CheckRows = Callable[[int], object]  # raises SizeError if a table has too many rows
TABLES = (".csv", ".csv.gz", ".xlsx", ".parquet")
READERS = {".xlsx": ("python_calamine", "openpyxl"), ".parquet": ("polars", "pandas")}
BLANK = " \r\n,;\t"
BLOCK = 10_000  # rows that are held as text at once
LONGEST = 300  # characters of a message; the labels of a damaged file may be long


@dataclass(slots=True, kw_only=True)
class Source:
    """The header of a table and its rows in blocks."""

    kind: Kind
    path: Path | None = None
    header: list[str] = field(default_factory=list)
    blocks: Iterator[Block] = field(default_factory=lambda: iter(()))
    line: int | None = None  # of the header in a file
    sign: str | None = None  # separates the columns of text; None if cells are values
    comments: list[tuple[int, str]] = field(default_factory=list)  # above the header, with their lines

    def error(
        self, message: str, line: int | None = None, index: int | None = None, column: str | None = None, **facts: Any
    ) -> ModelError:
        """Return the error "FILE: line 17, column 'x': message"; rows without lines have their index."""
        place = f"line {line}" if line is not None else f"row {index}" if index is not None else ""
        place += f", column {one_line(column)}" if place and column else ""
        text = " ".join(message.split())
        text = (f"{place}: " if place else "") + (text if len(text) <= LONGEST else f"{text[:LONGEST]} ...")
        if self.path is None:
            return self.kind.error(text, line=line, column=column, **facts)
        return FileFormatError(f"{self.path.name}: {text}", file=str(self.path), line=line, column=column, **facts)

    def find_header(self, texts: Iterable[tuple[int, str]]) -> str:
        """Read the numbered lines of a file up to the header; return it, and store the comments above it."""
        for n, text in texts:
            if text.startswith("#"):
                self.comments.append((n, text))
            elif text and not (n == 1 and text.lstrip('"').lower().startswith("sep=")):
                self.line = n
                return text
        got = "comments only" if self.comments else "an empty file"
        raise self.error(f"{self.kind.expected}, got {got}", self.comments[-1][0] if self.comments else None)


def open_source(table: Any, kind: Kind, check_rows: CheckRows = int) -> Source:
    """Return the header and the rows of a file or of a table in memory."""
    if not isinstance(table, (str, Path)):
        return _frame_source(table, kind, check_rows)
    path = Path(table)
    if path.suffix.lower() not in READERS:
        return _text_source(path, kind)
    found = _read_with_library(path, check_rows)
    return _frame_source(found, kind, check_rows, path) if is_frame(found) else _sheet_source(found, kind, path)


# -- text --------------------------------------------------------------------------------------------------------------


def _windows_text(error: UnicodeError) -> tuple[str, int]:
    """Return bytes that are not UTF-8 as Windows-1252; raise UnicodeDecodeError if they are not that, either."""
    assert isinstance(error, UnicodeDecodeError)
    return error.object[error.start : error.end].decode("cp1252"), error.end


codecs.register_error("bqrl.windows", _windows_text)


def _text_source(path: Path, kind: Kind) -> Source:
    """Return the rows of a .csv or .csv.gz file."""
    source, lines = Source(kind=kind, path=path), _lines(path)

    text = source.find_header((n, _head_text(line)) for n, line in enumerate(lines, 1))
    header = _cells(text)
    got = "an open quote; is a quote left open?" if header is None else "numbers" if all(map(is_number, header)) else ""
    got = got if is_one_line(text.replace("\t", " ")) else "control characters"
    if header is None or got:
        raise source.error(f"{kind.expected}, got {got}", source.line)
    source.header, source.sign = header, _separator(text)
    source.blocks = _text_blocks(source, lines, len(header), source.sign)
    return source


def _head_text(line: str) -> str:
    """Return a line above the body: empty if it has only separators, a comment without quotes and empty cells."""
    text = line.strip()
    if text.startswith('"#'):  # spreadsheets quote comments
        text = ",".join(_cells(text) or [])
    return text.rstrip(BLANK) if text.startswith("#") or not text.strip(BLANK) else line.rstrip("\n")


def _lines(path: Path) -> Iterator[str]:
    """Yield the lines of a text file, which may be compressed."""
    n, packed = 0, path.suffix.lower() == ".gz"
    with gzip.open(path, "rb") if packed else path.open("rb") as file:
        try:
            wide = file.peek(2)[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
            encoding, errors = ("utf-16", "strict") if wide else ("utf-8-sig", "bqrl.windows")
            with io.TextIOWrapper(file, encoding, errors) as text:
                for n, line in enumerate(text, 1):  # noqa: B007
                    yield line
        except (UnicodeDecodeError, EOFError, OSError, zlib.error) as error:
            decoding = isinstance(error, UnicodeDecodeError)
            got = "other bytes; save the file as CSV UTF-8" if decoding else f"other content ({error})"
            message = f"{path.name}: near line {n + 1}: expected CSV text in UTF-8, got {got}"
            raise FileFormatError(message, file=str(path), line=n + 1) from None


def _separator(line: str) -> str:
    """Return the sign that separates the columns of a header."""
    return max(",;\t", key=line.count)


def _cells(line: str) -> list[str] | None:
    """Return the cells of a header or comment; None if a quote is left open."""
    try:
        rows = list(csv.reader([line], delimiter=_separator(line), skipinitialspace=True, strict=True))
    except csv.Error:
        return None
    return [cell.strip() for cell in rows[0]]


def is_number(cell: str) -> bool:
    """Return whether a text is a number with a decimal point."""
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and "_" not in cell


def _text_blocks(source: Source, lines: Iterator[str], width: int, sign: str) -> Iterator[Block]:
    """Yield the rows below the header in blocks; a quoted cell may have several lines."""
    assert source.line is not None
    reader = csv.reader(lines, delimiter=sign, skipinitialspace=True, strict=True)
    rows, begins, line = [], [], source.line + 1
    try:
        for row in reader:
            if len(row) == width and (row[0].strip() or any(map(str.strip, row))):
                rows.append(row)
                begins.append(line)
            elif any(cell.strip(BLANK) for cell in row):
                cut = "" if len(row) > width or any(rest.strip(BLANK) for rest in lines) else "; is the file truncated?"
                raise source.error(f"expected {width} columns as in the header, got {len(row)}{cut}", line)
            line = source.line + 1 + reader.line_num
            if len(rows) == BLOCK:
                yield list(zip(*rows, strict=True)), np.array(begins, np.int32)
                rows, begins = [], []
    except csv.Error:
        raise source.error("expected closed quotes, got an open one or text after a quote", line) from None
    if rows:
        yield list(zip(*rows, strict=True)), np.array(begins, np.int32)


# -- sheets and .parquet -----------------------------------------------------------------------------------------------


def _read_with_library(path: Path, check_rows: CheckRows) -> Any:
    """Return the rows of an .xlsx file, or a .parquet file as a frame, by the first library that is installed."""
    ending = path.suffix.lower()
    for name in READERS[ending]:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # about parts of the file that hold no cells
                return _read_with(importlib.import_module(name), path, check_rows)
        except ImportError:
            continue
        except SizeError:
            raise
        except Exception as error:  # each library has its own errors
            noun = f"a{'n' * (ending == '.xlsx')} {ending}"
            got = f"got other content ({' '.join(str(error).split())[:120]})"
            raise FileFormatError(f"{path.name}: expected {noun} file, {got}", file=str(path)) from None
    remedy = f"pip install {READERS[ending][ending == '.xlsx']}, or save the table as .csv"
    raise ImportError(f"{path.name}: no reader of {ending} files is installed; {remedy}")


def _read_with(library: Any, path: Path, check_rows: CheckRows) -> Any:
    """Return the content of a file as a library reads it; the rows of a .parquet file are counted first."""
    match library.__name__:
        case "python_calamine":
            return library.CalamineWorkbook.from_path(path).get_sheet_by_index(0).to_python(skip_empty_area=False)
        case "openpyxl":
            with closing(library.load_workbook(path, read_only=True, data_only=True)) as book:
                book.worksheets[0].reset_dimensions()  # some programs state wrong ones
                return list(book.worksheets[0].iter_rows(values_only=True))
        case "polars":
            check_rows(int(library.scan_parquet(path).select(library.len()).collect().item()))
        case _:
            check_rows(int(importlib.import_module("pyarrow.parquet").read_metadata(path).num_rows))
    return library.read_parquet(path)


def _sheet_source(rows: Sequence[Sequence[Any]], kind: Kind, path: Path) -> Source:
    """Return the rows of a sheet; comments may be spread over several cells."""
    source = Source(kind=kind, path=path)
    texts = [",".join(map(label_text, row)).strip(BLANK) for row in rows]
    source.find_header(enumerate(texts, 1))
    assert source.line is not None
    filled = [n for n in range(source.line, len(rows)) if texts[n]]
    width = max(len(rows[n]) for n in (source.line - 1, *filled))
    source.header = [label_text(name) for name in rows[source.line - 1]] + [""] * (width - len(rows[source.line - 1]))
    if filled:
        body = [[_plain_cell(cell) for cell in rows[n]] + [""] * (width - len(rows[n])) for n in filled]
        source.blocks = iter([(list(zip(*body, strict=True)), np.array(filled, np.int32) + 1)])
    return source


def _plain_cell(cell: Any) -> Any:
    """Return a cell of a sheet: an empty one as text, and a date without its time."""
    if isinstance(cell, datetime) and cell.time() == time():
        return cell.date()
    return "" if cell is None else cell


# -- tables in memory --------------------------------------------------------------------------------------------------


def is_frame(thing: Any) -> bool:
    """Return whether `thing` has named columns: a pandas or polars frame, a dict of columns or a list of dicts."""
    if isinstance(thing, (list, tuple)):
        return bool(thing) and all(isinstance(row, Mapping) for row in thing)
    if isinstance(thing, Mapping) or hasattr(thing, "collect_schema"):  # a lazy frame warns if its columns are read
        return True
    return hasattr(thing, "columns") and hasattr(thing, "__getitem__") and not isinstance(thing, np.ndarray)


def frame_columns(frame: Any) -> list[tuple[str, Any]]:
    """Return headers and columns of a frame; a list of dicts is transposed, a lazy frame collected, a named index reset."""
    if isinstance(frame, (list, tuple)):
        frame = {name: [row.get(name) for row in frame] for name in dict.fromkeys(key for row in frame for key in row)}
    elif hasattr(frame, "collect"):
        frame = frame.collect()
    elif hasattr(frame, "reset_index") and any(name is not None for name in frame.index.names):
        frame = frame.reset_index(level=[i for i, name in enumerate(frame.index.names) if name not in frame.columns])
    return [(str(key), frame[key]) for key in (frame.keys() if isinstance(frame, Mapping) else frame.columns)]


def _frame_source(frame: Any, kind: Kind, check_rows: CheckRows, path: Path | None = None) -> Source:
    """Return the rows of a table in memory as one block."""
    listed = frame_columns(frame)
    check_rows(max((len(column) for _, column in listed if hasattr(column, "__len__")), default=0))
    columns: list[Any] = [column for _, column in listed]
    return Source(kind=kind, path=path, header=[name for name, _ in listed], blocks=iter([(columns, None)]))
