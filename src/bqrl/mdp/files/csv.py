"""Models as CSV: one line per possible transition, columns by name.

    # horizon: 20
    # start: Well=0.8, Sick=0.2
    state,action,next_state,probability,reward
    Well,Wait,Sick,0.1,5
    ...

Lines `# key: value` above the header hold what a table cannot: horizon, discount, start, states, actions, units. Ids are
names, or numbers that count from 0 or from 1, states and actions separately. Lines with the same (s, a, s') merge: equal
rewards add up, different ones are random rewards. A (s, a) without a line is an action that does not exist. A column
`stage` makes the kernel stage-dependent. Columns are separated by commas, semicolons or tabs; a decimal comma is read
where columns are not separated by commas. With a column `event` the rows share noise (see `bqrl.mdp.listing`).

A spreadsheet that saves such a file may add empty cells and quotes to the `#` lines and empty lines at the end; they are
read all the same.
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np

from bqrl.checks import shown
from bqrl.errors import FileFormatError, ModelError
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.headers import ROLES, STAGE, TEXT, match_columns
from bqrl.mdp.listing import Ids, Listing, to_table
from bqrl.mdp.model import MDP

FACTS = ("horizon", "discount", "start", "states", "actions", "units", "events_observed", "cut")
FACT = re.compile(r"#[#\s]*([\w ]+?)\s*[:=]\s*(.*)")
EXPECTED = f"expected a header such as {','.join(ROLES)}"
USUAL_HORIZON = 100  # the horizon of published results on such files, which do not state one
CHUNK = 100_000  # lines per block, which bounds the memory for text
SIGNS = (",", ";", "\t")
BLANK = " \r,;\t"
WANTED = {
    "horizon": "a whole number",
    "discount": "a number",
    "events_observed": "yes or no",
    "cut": "numbers separated by commas",
}


def read_csv(
    content: bytes, horizon: int | None, start: Any, discount: float | None, columns: Mapping[str, str] | None = None
) -> MDP:
    """Model of the bytes of a CSV file; errors name the line."""
    lines = _lines(content)
    facts, head = _facts(lines)
    listing = _listing(lines, head, columns)
    if horizon is None:
        horizon = facts.get("horizon", None if listing.stage is not None else USUAL_HORIZON)
    noise = {key: facts[key] for key in ("events_observed", "cut") if key in facts}
    table, H, found = to_table(listing, horizon, facts.get("states"), facts.get("actions"), **noise)
    return MDP.from_table(
        table,
        H,
        facts.get("start", 0) if start is None else start,
        facts.get("discount", 1.0) if discount is None else discount,
        units=facts.get("units"),
        **found,
    )


def read_facts(content: bytes) -> dict[str, Any]:
    """What the `# key: value` lines at the head of a CSV file state."""
    return _facts(_lines(content))[0]


# -- reading ---------------------------------------------------------------------------------------------------------------


def _lines(content: bytes) -> list[str]:
    """The physical lines of a text file."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise FileFormatError(
            f"line {line}: this is not text in UTF-8; save the file as CSV UTF-8", line=line
        ) from None
    if not text.strip():
        raise FileFormatError(f"the file is empty; {EXPECTED}")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.split("\n")


def _facts(lines: list[str]) -> tuple[dict[str, Any], int]:
    """Facts stated above the header, and the index of the header's line."""
    facts: dict[str, Any] = {}
    for i, line in enumerate(lines):
        text = line.strip()
        if text.startswith('"#'):  # as spreadsheets write it
            text = ",".join(_cells(text, max(SIGNS, key=text.count)) or [])
        text = text.rstrip(BLANK)
        if not text or (not i and text.lower().startswith("sep=")):  # spreadsheets state the separator
            continue
        if not text.startswith("#"):
            return facts, i
        match = FACT.match(text)
        key, value = (match[1].lower(), match[2]) if match else ("", "")
        if key not in FACTS:
            near = get_close_matches(key, FACTS, 1, cutoff=0.75)
            if near and key not in ROLES:  # "# state: ..." may explain a column
                raise FileFormatError(f"line {i + 1}: unknown key {shown(key)}; did you mean {near[0]!r}?", line=i + 1)
            continue  # a comment
        if key in facts:
            raise FileFormatError(f"line {i + 1}: the key {key!r} is given twice", line=i + 1)
        try:
            facts[key] = _fact(key, value)
        except (ValueError, KeyError, RecursionError):
            wanted = WANTED.get(key, "names separated by commas")
            raise FileFormatError(
                f"line {i + 1}: {key} must be {wanted}, got {shown(value)}", line=i + 1, column=key
            ) from None
    raise FileFormatError(f"line {len(lines)}: no header after the comments; {EXPECTED}", line=len(lines))


def _fact(key: str, value: str) -> Any:
    """The value of a key; ValueError if it has none."""
    if key == "horizon":
        return int(value)
    if key == "discount":
        return float(value.replace(",", "."))
    if key == "units":
        return value
    if key == "events_observed":
        return {"yes": True, "no": False}[value.lower()]
    if key == "cut":
        return tuple(float(part) for part in value.split(","))
    if value.startswith(("[", "{")):
        return json.loads(value)
    if key == "start":
        return parse_start(value)
    if value.isdecimal():
        return int(value)
    return [name.strip() for name in value.split(",")]


def parse_start(text: str) -> str | dict[str, float]:
    """A start as people write it: a state, or a law "Well=0.8, Sick=0.2", also "Well=80%, Sick=20%" and "Well=0,8; Sick=0,2".

    >>> parse_start("Well=0.8, Sick=0.2")
    {'Well': 0.8, 'Sick': 0.2}
    """
    law: dict[str, float] = {}
    for part in text.replace(",", ".").split(";") if ";" in text else text.split(","):
        name, sign, share = part.rpartition("=")
        number, percent, _ = share.strip().partition("%")
        try:
            law[name.strip()] = float(number) / (100.0 if percent else 1.0)
        except ValueError:
            return text
        if not sign or not name.strip():
            return text
    return law


def _listing(lines: list[str], head: int, columns: Mapping[str, str] | None) -> Listing:
    """The transitions of a file by role."""
    sign, header = _header(lines[head], head + 1)
    try:
        place = match_columns(header, columns)
    except ModelError as error:
        raise FileFormatError(
            f"line {head + 1}: {error}", line=head + 1, column=error.column, name=error.name
        ) from None
    filled = [n for n, line in enumerate(lines[head + 1 :], head + 2) if line.strip(BLANK)]
    if not filled:
        raise FileFormatError(
            f"line {head + 1}: a header and no transitions after it; is the file truncated?", line=head + 1
        )
    body = lines[head + 1 :] if len(filled) == len(lines) - head - 1 else [lines[n - 1] for n in filled]
    reader = _Reader(header, place, sign, filled, body)
    reader.read()
    return Listing(
        ids={role: Ids(np.concatenate(codes), list(reader.index[role])) for role, codes in reader.codes.items()},
        probability=np.concatenate(reader.numbers["probability"]),
        reward=np.concatenate(reader.numbers["reward"]),
        stage=np.concatenate(reader.numbers[STAGE]) if STAGE in place else None,
        headers={role: header[i] for role, i in place.items()},
        lines=filled,
    )


def _header(line: str, number: int) -> tuple[str, list[str]]:
    """The sign that separates the columns, and their names."""
    if not line.replace("\t", " ").isprintable():
        raise FileFormatError(f"line {number}: this is not text; {EXPECTED}", line=number)
    sign = max(SIGNS, key=line.count)
    cells = _cells(line, sign)
    if cells is None or len(cells) < len(ROLES):
        width = 0 if cells is None else len(cells)
        raise FileFormatError(f"line {number}: {width} columns, but a model has at least 5; {EXPECTED}", line=number)
    if all(map(_is_number, cells)):
        raise FileFormatError(f"line {number}: the header is missing; {EXPECTED}", line=number)
    return sign, cells


def _cells(line: str, sign: str) -> list[str] | None:
    """The cells of one line; None if a quote is left open."""
    try:
        rows = list(csv.reader([line], delimiter=sign, skipinitialspace=True, strict=True))
    except csv.Error:
        return None
    return [cell.strip() for cell in rows[0]] if rows else []


class _Reader:
    """Reads lines in blocks; ids become codes, numbers floats."""

    def __init__(
        self, header: list[str], place: dict[str, int], sign: str, numbers: list[int], body: list[str]
    ) -> None:
        self.header, self.place, self.sign, self.line, self.body = header, place, sign, numbers, body
        self.index: dict[str, defaultdict[str, int]] = {}
        for role in TEXT:
            self.index[role] = defaultdict()
            self.index[role].default_factory = self.index[role].__len__
        self.codes: dict[str, list[IntArray]] = {role: [] for role in place if role in TEXT}
        self.numbers: dict[str, list[FloatArray]] = {role: [] for role in place if role not in TEXT}
        self.decimal: str | None = None  # the decimal sign, once a number has one

    def read(self) -> None:
        """Read everything, or raise FileFormatError for the first line that cannot be read."""
        for done in range(0, len(self.body), CHUNK):
            columns = self._columns(self.body[done : done + CHUNK], done)
            for role, j in self.place.items():
                if role in TEXT:
                    codes = map(self.index[role].__getitem__, map(str.strip, columns[j]))
                    self.codes[role].append(np.fromiter(codes, np.int64, len(columns[j])))
                else:
                    self.numbers[role].append(self._floats(columns[j], done))

    def _columns(self, lines: list[str], done: int) -> list[list[str]]:
        """The cells of some lines by column."""
        width = len(self.header)
        together = self.sign.join(lines)
        if '"' not in together:  # one split for all lines: a list per line would cost most of the time
            if any(line.count(self.sign) != width - 1 for line in lines):
                raise self._fault(done)
            cells = together.split(self.sign)
            return [cells[j::width] for j in range(width)]
        try:
            rows = list(csv.reader(lines, delimiter=self.sign, skipinitialspace=True, strict=True))
        except csv.Error:
            raise self._fault(done) from None
        if len(rows) != len(lines) or any(len(row) != width for row in rows):
            raise self._fault(done)
        return [list(column) for column in zip(*rows, strict=True)]

    def _floats(self, cells: list[str], done: int) -> FloatArray:
        """Numbers of a column; raises FileFormatError if a cell is none, or if decimal commas and points are mixed."""
        style = "." if any("." in cell for cell in cells) else None
        try:
            numbers = np.fromiter(map(float, cells), np.float64, len(cells))
        except ValueError:
            points = [cell.replace(",", ".", 1) for cell in cells]
            if self.sign == "," or style or not all(map(_is_number, points)):
                raise self._fault(done) from None
            numbers, style = np.fromiter(map(float, points), np.float64, len(cells)), ","
        if not all(map(str.isascii, cells)) or any("_" in cell for cell in cells):
            raise self._fault(done)
        if style and self.decimal not in (None, style):
            raise self._fault(0)
        self.decimal = style or self.decimal
        return numbers

    def _fault(self, done: int) -> FileFormatError:
        """The error for the first line after `done` that cannot be read, found by a slow second pass."""
        width = len(self.header)
        numeric = [(role, self.place[role]) for role in self.numbers]
        style = None
        for n, line in zip(self.line[done:], self.body[done:], strict=True):
            cells = _cells(line, self.sign)
            if cells is None:
                return FileFormatError(f"line {n}: a quote is not closed", line=n)
            if len(cells) != width:
                cut = "; is the file truncated?" if n == self.line[-1] and len(cells) < width else ""
                return FileFormatError(f"line {n}: {len(cells)} columns where the header has {width}{cut}", line=n)
            for role, j in numeric:
                cell, name = cells[j], self.header[j]
                comma = self.sign != "," and cell.count(",") == 1 and "." not in cell
                if not _is_number(cell.replace(",", ".") if comma else cell):
                    hint = "; is the file truncated?" if n == self.line[-1] and not cell else ""
                    hint = "; give a number from 0 to 1" if cell.endswith("%") and role == "probability" else hint
                    return FileFormatError(
                        f"line {n}: {shown(cell[:40])} is not a number (column {name}){hint}", line=n, column=name
                    )
                written = "," if comma else "." if "." in cell else style
                if style not in (None, written):
                    return FileFormatError(
                        f"line {n}: {shown(cell[:40])} mixes decimal commas and points (column {name})",
                        line=n,
                        column=name,
                    )
                style = written
        return FileFormatError("the numbers cannot be read")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and "_" not in cell
