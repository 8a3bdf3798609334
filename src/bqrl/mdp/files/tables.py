"""The one reader of tables: a file, a frame, a dict of columns or a list of dicts becomes columns by role.

table = read_table("model.xlsx", MODEL, {"state": "from"})
table.codes["state"]       labels as indices      table.extra["outcome:cost"]      further numbers
table.numbers["reward"]    numbers                table.error(4, "...", "reward")  "line 6, column 'r': ..."
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.checks import is_one_line, one_line
from bqrl.errors import ModelError
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.columns import IDS, Codes, Kind, code_labels, match_columns, numbering
from bqrl.mdp.files.sources import CheckRows, Lines, Source, is_number, open_source

THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")  # a sign that may separate thousands


@dataclass(slots=True, kw_only=True)
class Columns:
    """The columns of a table by role, and the line of every row."""

    source: Source
    headers: dict[str, str]  # role -> header
    codes: dict[str, Codes]  # columns of labels
    numbers: dict[str, FloatArray]
    extra: dict[str, FloatArray]  # further columns of numbers, by header
    lines: Lines | None  # None for a table in memory

    def __len__(self) -> int:
        return len(next(iter(self.codes.values())).code)

    def where(self, i: int) -> str:
        """Return the place of row `i` for messages."""
        return f"row {i}" if self.lines is None else f"line {self.lines[i]}"

    def error(self, i: int, message: str, role: str | None = None, **facts: Any) -> ModelError:
        """Return the error about row `i`, counted from 0; `role` names its column."""
        line = None if self.lines is None else int(self.lines[i])
        return self.source.error(message, line, int(i), self.headers.get(role or ""), **facts)


def read_table(
    table: Any, kind: Kind, columns: Mapping[str, str] | None = None, check_rows: CheckRows = int
) -> Columns:
    """Return the columns of a file (.csv, .csv.gz, .xlsx, .parquet) or of a table in memory by role.

    `columns` gives the headers of roles whose columns have other names; `check_rows` is called with the number of rows read so
    far. Labels are numbered in the order in which they appear.

    >>> strategy = Kind(name="strategy", required=("state", "action"))
    >>> found = read_table({"state": ["Well", "Sick"], "action": ["wait", "cure"]}, strategy)
    >>> found.codes["action"].labels, found.codes["action"].code.tolist()
    (['wait', 'cure'], [0, 1])
    """
    source = open_source(table, kind, check_rows)
    place = _match(source, columns)
    headers = {key: source.header[i] for key, i in place.items()}
    books = {role: numbering() for role in place if role in kind.roles and role not in kind.numbers}
    books |= {role: books[other] for role, other in kind.shared.items() if role in books}
    numeric = [key for key in place if key not in books]
    numeric.sort(key=lambda key: key != "probability")  # which shows the decimal sign
    parts: dict[str, list[Any]] = {key: [] for key in place}
    lines: list[Lines] = []
    numbers, rows = _Numbers(source=source, headers=headers), 0
    for block, begins in source.blocks:
        cells = {key: _cells(source, headers[key], block[i], key in books) for key, i in place.items()}
        lengths = {headers[key]: len(column) for key, column in cells.items()}
        if len(set(lengths.values())) > 1:
            message = "the columns of a table must have one length of at least 1"
            raise source.error(f"{message}, got {one_line(lengths)}; complete them")
        for key in place:
            if key in books:
                parts[key].append(_number_labels(books[key], cells[key]))
        for key in numeric:
            parts[key].append(numbers.read(key, cells[key], begins))
        lines += [] if begins is None else [begins]
        rows += next(iter(lengths.values()))
        check_rows(rows)
    if rows == 0:
        below = "expected rows below the header, got no rows; is the file truncated?"
        raise source.error(below if source.path else "expected at least one row, got no rows", source.line)
    if numbers.doubt is not None:
        raise numbers.doubt
    whole = {key: np.concatenate(part) for key, part in parts.items()}
    codes = {role: code_labels(list(book)) for role, book in books.items()}
    for role, found in codes.items():
        found.code, found.values = found.code[whole[role]], None if isinstance(table, (str, Path)) else found.values
    read = Columns(
        source=source, headers=headers, codes=codes, numbers={key: whole[key] for key in numeric if key in kind.roles},
        extra={key: whole[key] for key in numeric if key not in kind.roles}, lines=np.concatenate(lines) if lines else None,
    )  # fmt: skip
    _check_names(read)
    return read


def _match(source: Source, columns: Mapping[str, str] | None) -> dict[str, int]:
    """Return the position of each role's column, and of each extra column by its header."""
    header = source.header
    try:
        return match_columns(header, source.kind, columns)
    except ModelError as error:
        message = str(error)
        with suppress(ModelError, StopIteration, TypeError):
            first = [str(cell).strip() for cell in next(source.blocks)[0][0]]
            if len(header) > 2 and first[: len(header) - 1] == header[1:]:
                message = "expected one line per outcome, got a transition matrix"
                message += "; pass one matrix per action to bqrl.MDP: np.stack(matrices, axis=1)"
        found = source.error(message, source.line, name=error.name)
        found.column = error.column
        raise found from None


# -- labels ------------------------------------------------------------------------------------------------------------


def _cells(source: Source, header: str, column: Any, labels: bool) -> list[Any]:
    """Return the cells of a column of values; labels may be tuples and, where the kind allows it, lists."""
    nested: tuple[type, ...] = (list, dict, np.ndarray) if labels else (list, tuple, dict, np.ndarray)
    nested, cells = () if source.sign or (labels and source.kind.nested) else nested, None
    with suppress(TypeError):  # a single value has no cells
        if not isinstance(column, (str, bytes, Mapping)):
            plain = next((getattr(column, name) for name in ("to_list", "tolist") if hasattr(column, name)), None)
            cells = list(column if plain is None else plain())
    bad = [x for x in cells or () if isinstance(x, nested) and getattr(x, "shape", 1) != ()] if nested else []
    if cells is None or bad:
        got = one_line(bad[0] if bad else column)
        raise source.kind.error(f"the column {one_line(header)} must be a flat list, got {got}", column=header)
    return cells


def _number_labels(book: Any, cells: Sequence[Any]) -> IntArray:
    """Return the numbers of labels; a label that is not hashable, such as a list, becomes text."""
    try:
        return np.fromiter(map(book.__getitem__, cells), np.int64, len(cells))
    except TypeError:
        found = code_labels(cells)
        return _number_labels(book, found.labels)[found.code]


def _check_names(columns: Columns) -> None:
    """Raise an error if a label cannot be shown on one line."""
    for role, codes in columns.codes.items():
        bad = [i for i, text in enumerate(codes.labels) if not text.isprintable() and not is_one_line(text)]
        rows = np.flatnonzero(np.isin(codes.code, bad))
        if rows.size and (role in IDS or columns.source.path):
            got = one_line(codes.labels[codes.code[rows[0]]])
            raise columns.error(rows[0], f"expected a printable name, got {got}; remove control characters", role)


# -- numbers -----------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class _Numbers:
    """Reads columns as numbers.

    In text a decimal comma is allowed if commas do not separate the columns. The decimal sign must be the same in the whole
    file. If every comma may separate thousands (1,500), or every point between semicolons, the file is refused.
    """

    source: Source
    headers: dict[str, str]
    decimal: str | None = None  # the decimal sign of text, once a number has one
    sure: bool = False  # whether that sign cannot separate thousands
    doubt: ModelError | None = None  # about the first sign that may separate thousands

    def read(self, key: str, cells: Sequence[Any], lines: Lines | None) -> FloatArray:
        """Return the cells of one column as numbers; probabilities may be percentages."""
        given = list(cells)
        if key == "probability" and any("%" in cell for cell in given if isinstance(cell, str)):
            given = list(map(_without_percent, given))
        with suppress(TypeError, ValueError, OverflowError):
            return self._values(given) if self.source.sign is None else self._floats(key, given, lines)
        i = next((i for i, cell in enumerate(given) if not self._is_number(cell)), None)
        rule, hint = "a number", ""
        if i is None:  # numbers with both decimal signs
            used = self.decimal or next(sign for cell in given for sign in ".," if sign in cell)
            i = next((i for i, cell in enumerate(given) if {".": ",", ",": "."}[used] in cell), 0)
            rule = f"the decimal sign {used!r} as above"
        elif isinstance(cells[i], date):
            hint = "; the cell holds a date, format it as a number"
        elif isinstance(given[i], str) and any(map(str.isdecimal, given[i])):
            commas = self.source.sign in (";", "\t") and re.search(r"\d,\d", " ".join(given))
            hint = f"; write it as 1234{self.decimal or (',' if commas else '.')}5"
            hint = "; give a number from 0 to 1" if key == "probability" and self.source.sign else hint
        got = one_line(cells[i].strip()[:40] if isinstance(cells[i], str) else cells[i])
        raise self._error(key, i, lines, f"expected {rule}, got {got}{hint}")

    def _values(self, cells: list[Any]) -> FloatArray:
        """Return values as numbers; truth values are numbers in logs only."""
        if np.asarray(cells).dtype.kind in ("c" if self.source.kind.nested else "bc"):
            raise TypeError
        return np.array(cells, dtype=np.float64)

    def _floats(self, key: str, cells: list[str], lines: Lines | None) -> FloatArray:
        """Return text as numbers; raise ValueError if a cell is not a number or signs are mixed."""
        joined = "".join(cells)
        if not joined.isascii():  # no-break spaces and typographic minus signs
            cells = list(map(_plain, cells))
            joined = "".join(cells)
        style = "." if "." in joined else "," if "," in joined and self.source.sign != "," else None
        if "_" in joined or not joined.isascii() or (style and self.decimal not in (None, style)):
            raise ValueError
        points = [cell.replace(",", ".", 1) for cell in cells] if style == "," else cells
        numbers = np.fromiter(map(float, points), np.float64, len(cells))
        if style and not self.sure:
            signs = [(i, cell.strip()) for i, cell in enumerate(cells) if style in cell]
            clear = key == "probability" or (style == "." and self.source.sign != ";")
            self.decimal, self.sure = style, clear or not all(THOUSANDS.fullmatch(cell) for _, cell in signs)
            i, cell = signs[0]
            whole = cell.replace(",", "").replace(".", "")
            message = f"expected a number without thousands separators, got {cell!r}; write {whole} or {cell}0"
            self.doubt = None if self.sure else self.doubt or self._error(key, i, lines, message)
        return numbers

    def _is_number(self, cell: Any) -> bool:
        """Return whether a cell is a number, or spells one with either decimal sign that is allowed."""
        if self.source.sign is not None:
            comma = self.source.sign != "," and "." not in cell
            text = _plain(cell)
            return is_number(text.replace(",", ".", 1) if comma else text)
        with suppress(TypeError, ValueError, OverflowError):
            return not isinstance(cell, (bool, np.bool_)) and np.float64(cell).ndim == 0
        return False

    def _error(self, key: str, i: int, lines: Lines | None, message: str) -> ModelError:
        """Return the error about a cell of the block."""
        return self.source.error(message, None if lines is None else int(lines[i]), i, self.headers[key])


def _plain(cell: str) -> str:
    """Return a cell without outer spaces and with the minus sign of a keyboard."""
    return cell.strip().replace("\N{MINUS SIGN}", "-")


def _without_percent(cell: Any) -> Any:
    """Return a percentage as a number: "12.5 %" becomes "12.5e-2"; return other cells unchanged."""
    if isinstance(cell, str) and cell.rstrip().endswith("%"):
        return f"{cell.rstrip()[:-1].rstrip()}e-2"
    return cell
