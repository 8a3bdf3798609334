"""Models as CSV: one line per possible transition, columns by name.

    # horizon: 20
    # start: Well=0.8, Sick=0.2
    state,action,next_state,probability,reward
    Well,Wait,Sick,0.1,5
    ...

Lines `# key: value` above the header hold the other facts: horizon, discount, start, states, actions, units. Ids are names,
or numbers that begin at 0 or 1, states and actions separately. Lines with the same (s, a, s') are merged: the probabilities of
equal rewards add up, and different rewards are random rewards. A (s, a) without a line is an action that does not exist. A
column `stage` makes the kernel stage-dependent. Columns are separated by commas, semicolons or tabs; a decimal comma is allowed
if commas do not separate the columns. If every comma may separate thousands (1,500), or every point in a file with
semicolons, the file is refused. With a column `event` the rows share noise (see `bqrl.mdp.listing`).

Spreadsheets may add empty cells and quotes to the `#` lines, and empty lines at the end; such files are read as well.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import numpy as np

from bqrl.checks import is_one_line, one_line, warn_caller
from bqrl.errors import ArgumentError, FileFormatError, ModelError
from bqrl.mdp import model
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.columns import EVENT, EXPECTED, LAW, ROLES, STAGE, TEXT, Codes, match_columns, numbering, without_percent
from bqrl.mdp.files.regular import decode_text
from bqrl.mdp.listing import Listing, to_table
from bqrl.mdp.noise import SharedNoise
from bqrl.mdp.table import check_gaps

PLAIN = {"state": "idstatefrom", "action": "idaction", "next_state": "idstateto"}
Used = tuple[tuple[int, int], tuple[int, int]]  # smallest and largest state, and action, in the columns
FACT = re.compile(r"#[#\s]*([\w ]+?)\s*[:=]\s*(.*)")
USUAL_HORIZON = 100  # the horizon of published results on such files, which do not state one
CHUNK = 100_000  # lines per block, which bounds the memory for text
SIGNS = (",", ";", "\t")
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}[.,]\d{3}")  # a sign that may separate thousands
BLANK = " \r,;\t"


def read_csv(
    content: bytes, horizon: int | None = None, start: Any = None, discount: float | None = None, columns: Any = None
) -> dict[str, Any]:
    """Return the arguments of MDP.from_table for the bytes of a CSV file; errors name the line."""
    lines = _lines(content)
    facts, head = _facts(lines)
    listing = _listing(lines, head, columns)
    if horizon is None:
        horizon = facts.get("horizon", None if listing.stage is not None else USUAL_HORIZON)
    noise = {key: facts[key] for key in ("events_observed", "cut") if key in facts}
    table, H, found = to_table(listing, horizon, facts.get("states"), facts.get("actions"), **noise)
    return found | {
        "table": table,
        "H": H,
        "start": facts.get("start", 0) if start is None else start,
        "discount": facts.get("discount", 1.0) if discount is None else discount,
        "units": facts.get("units"),
    }


def read_facts(content: bytes) -> dict[str, Any]:
    """Return the facts in the `# key: value` lines at the head of a CSV file."""
    return _facts(_lines(content), quiet=True)[0]


# -- reading ---------------------------------------------------------------------------------------------------------------


def _lines(content: bytes) -> list[str]:
    """Return the physical lines of a text file."""
    try:
        text = decode_text(content)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        message = f"line {line}: expected text in UTF-8, got other bytes; save the file as CSV UTF-8"
        raise FileFormatError(message, line=line) from None
    if not text.strip():
        raise FileFormatError(f"{EXPECTED}, got an empty file")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    return text.split("\n")


def _facts(lines: list[str], *, quiet: bool = False) -> tuple[dict[str, Any], int]:
    """Return the facts above the header, and the index of the header's line; warn about comments that may be meant as facts."""
    facts: dict[str, Any] = {}
    for i, line in enumerate(lines):
        text = line.strip()
        if text.startswith('"#'):  # spreadsheets quote it
            text = ",".join(_cells(text, separator(text)) or [])
        text = text.rstrip(BLANK)
        if not text or (i == 0 and states_separator(text)):
            continue
        if not text.startswith("#"):
            return facts, i
        match = FACT.match(text)
        key, value = (match[1].lower(), match[2]) if match else ("", "")
        if key not in FACTS:
            near = get_close_matches(key, FACTS, 1, cutoff=0.75)
            if near and key not in ROLES:  # "# state: ..." may explain a column
                message = f"line {i + 1}: expected a known key, got {one_line(key)}; did you mean {near[0]!r}?"
                raise FileFormatError(message, line=i + 1, column=key)
            meant = _nearest_fact(key)
            if meant is not None and not quiet:
                notice = f"line {i + 1}: {one_line(text)} is read as a comment; did you mean # {meant}: ...?"
                warn_caller(notice)
            continue  # a comment
        if key in facts:
            raise FileFormatError(f"line {i + 1}: expected each key once, got {key!r} twice", line=i + 1, column=key)
        wanted, parse = FACTS[key]
        try:
            facts[key] = parse(value)
        except (ValueError, KeyError, RecursionError):
            message = f"line {i + 1}: {key} must be {wanted}, got {one_line(value)}"
            raise FileFormatError(message, line=i + 1, column=key) from None
    raise FileFormatError(f"line {len(lines)}: {EXPECTED}, got comments only", line=len(lines))


def _nearest_fact(key: str) -> str | None:
    """Return the fact that a comment of one or two words may mean: "gamma", "time horizon", "initial state"."""
    words = re.split("[ _]+", key)
    meant = (SPELLINGS.get(word, word) for word in words)
    return next((word for word in meant if word in FACTS), None) if len(words) <= 2 else None


def parse_start(text: str) -> str | dict[str, float]:
    """Return a start given as text: a state, or a law such as "Well=0.8, Sick=0.2", "Well=80%, Sick=20%" or "Well=0,8; Sick=0,2".

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


def _names(value: str) -> Any:
    """Return names from a list or from JSON, or their number."""
    if value.startswith(("[", "{")):
        return json.loads(value)
    return int(value) if value.isdecimal() else [name.strip() for name in value.split(",")]


FACTS: dict[str, tuple[str, Callable[[str], Any]]] = {  # key -> (what its value must be, reader)
    "horizon": ("a whole number", int),
    "discount": (
        "a factor such as 0.97, or 1 / 1.03 for interest of 3 % per stage",
        lambda value: float(value.replace(",", ".")),
    ),
    "start": ("names separated by commas", lambda value: _names(value) if value[:1] in "[{" else parse_start(value)),
    "states": ("names separated by commas", _names),
    "actions": ("names separated by commas", _names),
    "units": ("a word", str),
    "events_observed": ("yes or no", lambda value: {"yes": True, "no": False}[value.lower()]),
    "cut": ("numbers separated by commas", lambda value: tuple(float(part) for part in value.split(","))),
}
SPELLINGS = {"gamma": "discount", "h": "horizon", "stages": "horizon", "periods": "horizon", "initial": "start"}


def _listing(lines: list[str], head: int, columns: Mapping[str, str] | None) -> Listing:
    """Return the transitions of a file by role, read in blocks: ids become codes, and numbers become floats."""
    sign, header = _header(lines[head], head + 1)
    try:
        place = match_columns(header, columns)
    except ModelError as error:
        message = f"line {head + 1}: {error}"
        states = [(_cells(line, sign) or [""])[0] for line in lines[head + 1 : head + len(header)]]
        if len(header) > 2 and states == header[1:]:
            remedy = "pass one matrix per action to bqrl.MDP: np.stack(matrices, axis=1)"
            message = f"line {head + 1}: expected one line per outcome, got a transition matrix; {remedy}"
        raise FileFormatError(message, line=head + 1, column=error.column, name=error.name) from None
    filled = [n for n, line in enumerate(lines[head + 1 :], head + 2) if line.strip(BLANK)]
    if not filled:
        message = f"line {head + 1}: expected transitions below the header, got none; is the file truncated?"
        raise FileFormatError(message, line=head + 1)
    body = lines[head + 1 :] if len(filled) == len(lines) - head - 1 else [lines[n - 1] for n in filled]
    index = {role: numbering() for role in place if role in TEXT}
    parts: dict[str, list[Any]] = {role: [] for role in place}
    decimal = None  # the decimal sign, once a number has one
    try:
        for done in range(0, len(body), CHUNK):
            cells = _columns(body[done : done + CHUNK], sign, len(header))
            for role, j in sorted(place.items(), key=lambda item: item[0] != "probability"):
                if role in TEXT:
                    codes = map(index[role].__getitem__, map(str.strip, cells[j]))
                    parts[role].append(np.fromiter(codes, np.int64, len(cells[j])))
                else:
                    percent = role == "probability" and "%" in "".join(cells[j])
                    column = list(map(without_percent, cells[j])) if percent else cells[j]
                    numbers, decimal = floats(column, sign, decimal, certain=role == "probability")  # no thousands
                    parts[role].append(numbers)
    except DecimalSignError as doubt:
        n, name = filled[done + doubt.place], header[place[role]]
        raise FileFormatError(f"line {n}: {doubt} (column {name})", line=n, column=name) from None
    except (ValueError, csv.Error):
        raise _fault(filled, body, header, place, sign) from None
    found = {role: np.concatenate(part) for role, part in parts.items()}
    for role, labels in index.items():
        bad = next((label for label in labels if not label.isprintable() and not is_one_line(label)), None)
        if bad is not None:
            n, name = filled[int((found[role] == labels[bad]).argmax())], header[place[role]]
            message = (
                f"line {n}: expected a printable name, got {one_line(bad)} (column {name}); remove control characters"
            )
            raise FileFormatError(message, line=n, column=name)
    return Listing(
        ids={role: Codes(code=found[role], labels=list(labels)) for role, labels in index.items()},
        probability=found["probability"],
        reward=found["reward"],
        stage=found.get(STAGE),
        headers={role: header[i] for role, i in place.items()},
        lines=filled,
    )


def _header(line: str, number: int) -> tuple[str, list[str]]:
    """Return the sign that separates the columns, and their names."""
    if not is_one_line(line.replace("\t", " ")):
        raise FileFormatError(f"line {number}: {EXPECTED}, got control characters", line=number)
    sign = separator(line)
    cells = _cells(line, sign)
    if cells is None or all(map(_is_number, cells)):
        got = "an open quote" if cells is None else "numbers"
        raise FileFormatError(f"line {number}: {EXPECTED}, got {got}", line=number)
    return sign, cells


def states_separator(line: str) -> bool:
    """Return whether a line is "sep=;", as spreadsheets write it above the header."""
    return line.lstrip('"').lower().startswith("sep=")


def separator(line: str) -> str:
    """Return the sign that separates the columns of a header: a comma, a semicolon or a tab."""
    return max(SIGNS, key=line.count)


def _cells(line: str, sign: str) -> list[str] | None:
    """Return the cells of one line; None if a quote is left open."""
    try:
        rows = list(csv.reader([line], delimiter=sign, skipinitialspace=True, strict=True))
    except csv.Error:
        return None
    return [cell.strip() for cell in rows[0]] if rows else []


def _columns(lines: list[str], sign: str, width: int) -> list[list[str]]:
    """Return the cells of some lines by column; raise ValueError or csv.Error if a line does not have `width` cells."""
    together = sign.join(lines)
    if '"' not in together:  # one split for all lines: a list per line would cost most of the time
        if any(line.count(sign) != width - 1 for line in lines):
            raise ValueError
        cells = together.split(sign)
        return [cells[j::width] for j in range(width)]
    rows = list(csv.reader(lines, delimiter=sign, skipinitialspace=True, strict=True))
    if len(rows) != len(lines) or any(len(row) != width for row in rows):
        raise ValueError
    return [list(column) for column in zip(*rows, strict=True)]


class DecimalSignError(ValueError):
    """The commas or points of a column may be decimal signs or separate thousands; `place` is the index of the first one."""

    def __init__(self, cell: str, place: int) -> None:
        whole = cell.replace(",", "").replace(".", "")
        super().__init__(f"expected a number without thousands separators, got {cell!r}; write {whole} or {cell}0")
        self.place = place


def floats(
    cells: Sequence[str], sign: str, decimal: str | None, *, certain: bool = False
) -> tuple[FloatArray, str | None]:
    """Return the numbers of a column and the decimal sign; raise ValueError if a cell is not a number or signs are mixed.

    Raise DecimalSignError if no column so far shows the decimal sign and the signs of this one may separate thousands;
    `certain` states that they do not. Spreadsheets write 1,500 for 1500 between tabs or semicolons, and 1.500 between semicolons.
    """
    cells = cells if all(map(str.isascii, cells)) else [cell.strip() for cell in cells]  # without no-break spaces
    style = "." if any("." in cell for cell in cells) else None
    try:
        numbers = np.fromiter(map(float, cells), np.float64, len(cells))
    except ValueError:
        points = [cell.replace(",", ".", 1) for cell in cells]
        if sign == "," or style:
            raise
        numbers, style = np.fromiter(map(float, points), np.float64, len(cells)), ","
    if (
        not all(map(str.isascii, cells))
        or any("_" in cell for cell in cells)
        or (style and decimal not in (None, style))
    ):
        raise ValueError
    if decimal is None and not certain and (style == "," or (style and sign == ";")):
        signs = [(cell.strip(), i) for i, cell in enumerate(cells) if style in cell]
        if all(THOUSANDS.fullmatch(cell) for cell, _ in signs):
            raise DecimalSignError(*signs[0])
    return numbers, style or decimal


def _fault(numbers: list[int], body: list[str], header: list[str], place: dict[str, int], sign: str) -> FileFormatError:
    """Return the error for the first line that cannot be read, found by a slow second pass."""
    numeric = [(role, j) for role, j in place.items() if role not in TEXT]
    style, usual = None, "," if sign != "," and any(re.search(r"\d,\d", line) for line in body) else "."
    for n, line in zip(numbers, body, strict=True):
        cells = _cells(line, sign)
        if cells is None:
            return FileFormatError(f"line {n}: expected closed quotes, got an open one or text after a quote", line=n)
        if len(cells) != len(header):
            cut = "; is the file truncated?" if n == numbers[-1] and len(cells) < len(header) else ""
            message = f"line {n}: expected {len(header)} columns as in the header, got {len(cells)}{cut}"
            return FileFormatError(message, line=n)
        for role, j in numeric:
            name, cell = header[j], without_percent(cells[j]) if role == "probability" else cells[j]
            comma = sign != "," and cell.count(",") == 1 and "." not in cell
            written = "," if comma else "." if "." in cell else style
            rule = hint = ""
            if not _is_number(cell.replace(",", ".") if comma else cell):
                rule = "a number"
                hint = "; is the file truncated?" if n == numbers[-1] and not cell else ""
                hint = f"; write it as 1234{style or usual}5" if any(map(str.isdecimal, cell)) else hint
                hint = "; give a number from 0 to 1" if hint and role == "probability" else hint
            elif style not in (None, written):
                rule = f"the decimal sign {style!r} as above"
            if rule:
                message = f"line {n}: expected {rule}, got {one_line(cells[j][:40])} (column {name}){hint}"
                return FileFormatError(message, line=n, column=name)
            style = written
    return FileFormatError("expected numbers, got text that cannot be read")


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return cell.isascii() and "_" not in cell


# -- writing -----------------------------------------------------------------------------------------------------------


def write_csv(mdp: model.MDP, *, plain: bool = False) -> bytes:
    """Return a model as CSV; raise ArgumentError if the columns cannot hold it.

    `plain` writes only the columns, with ids as numbers, for tools that do not read comments.
    """
    K, S, A = mdp.available.shape
    noise = None if plain or mdp.noise is None or np.all(mdp.noise.row_law < 0) else mdp.noise
    if noise is not None and not noise.known:
        notice = "the .csv file does not keep the noise, whose laws are not known; save to .json or .npz"
        warn_caller(notice)
        noise = None
    row = np.repeat(np.arange(K * S * A), np.diff(mdp.row_start))
    outcome, event, probability = np.arange(row.size), np.full(row.size, -1), mdp.probability
    if noise is not None:  # one line per event in rows with a law, else one per outcome
        free = np.flatnonzero(noise.row_law.reshape(-1)[row] < 0)
        outcome, event = np.r_[free, noise.pair_outcome], np.r_[np.full(free.size, -1), noise.pair_event]
        order = np.lexsort((event, row[outcome]))
        outcome, event = outcome[order], event[order]
        probability = np.where(event < 0, probability[outcome], np.concatenate(noise.probabilities)[event])
    row = row[outcome]
    s, a, s_next = row // A % S, row % A, mdp.successor[outcome]
    used = (min(s.min(), s_next.min()), max(s.max(), s_next.max())), (a.min(), a.max())
    _check_storable(mdp, noise, used, plain)
    check_gaps(K, S, A, mdp.successor.size)
    text = io.StringIO()
    if not plain:
        text.writelines(f"# {key}: {value}\n" for key, value in _header_facts(mdp, noise, used))
    state, action = _ids(mdp.state_names, S, plain), _ids(mdp.action_names, A, plain)
    columns: dict[str, Any] = {} if mdp.stationary else {STAGE: (row // (S * A)).tolist()}
    columns |= {"state": [state[i] for i in s.tolist()], "action": [action[i] for i in a.tolist()]}
    if noise is not None:
        if len(noise.events) > 1:
            columns[LAW] = [law if law >= 0 else "" for law in noise.row_law.reshape(-1)[row].tolist()]
        names = [*(name for names in noise.event_names for name in names), ""]
        columns[EVENT] = [names[i] for i in event.tolist()]
    columns["next_state"] = [state[i] for i in s_next.tolist()]
    columns["probability"] = map(repr, probability.tolist())
    columns["reward"] = map(repr, mdp.reward[0, outcome].tolist())
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([PLAIN.get(role, role) if plain else role for role in columns])
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()


def _check_storable(mdp: model.MDP, noise: SharedNoise | None, used: Used, plain: bool) -> None:
    """Raise ArgumentError if the columns cannot hold the model."""
    names = (mdp.state_names or ()) + (mdp.action_names or ())
    for refused, what in (
        (len(mdp.reward) > 1, "rewards that differ by stage on a stationary kernel"),
        (noise is None and bool(np.any(mdp.probability == 0)), "possible successors of probability zero"),
        (not np.array_equal(mdp.known.reshape(-1), np.diff(mdp.row_start) == 1), "rows known to learners"),
        (any(name != name.strip() for name in names), "names that begin or end with a blank"),
        (
            not plain and mdp.units is not None and mdp.units != mdp.units.strip(BLANK),
            "units that begin or end with a separator",
        ),
        (plain and used[0] != (0, mdp.S - 1), "a first or last state without transitions, if plain"),
        (plain and used[1] != (0, mdp.A - 1), "a first or last action that is never available, if plain"),
    ):
        if refused:
            message = f"expected a model that a .csv file can hold, got one with {what}; save to .npz instead"
            raise ArgumentError(message, name="path")


def _ids(names: tuple[str, ...] | None, count: int, plain: bool) -> list[str]:
    """Return the ids for a file: names, or numbers, which begin at 1 if the names do."""
    numbers = names is None or (plain and names != tuple(map(str, range(1, count + 1))))
    return [str(i) for i in range(count)] if numbers else list(names or ())


def _header_facts(mdp: model.MDP, noise: SharedNoise | None, used: Used) -> list[tuple[str, str]]:
    """Return the facts of a model that its columns do not hold."""
    facts = [("horizon", str(mdp.H))] if mdp.stationary else []
    if mdp.discount != 1.0:
        facts.append(("discount", repr(mdp.discount)))
    law = {mdp.state_label(s): mdp.mu[s].item() for s in np.flatnonzero(mdp.mu).tolist()}
    if law != {mdp.state_label(0): 1.0}:
        one = list(law.values()) == [1.0]
        short = next(iter(law)) if one else ", ".join(f"{name}={share!r}" for name, share in law.items())
        facts.append(("start", short if all(map(_is_simple, law)) else json.dumps(law, ensure_ascii=False)))
    for key, names, count, (low, high) in (
        ("states", mdp.state_names, mdp.S, used[0]),
        ("actions", mdp.action_names, mdp.A, used[1]),
    ):
        full = (low, high) == (0, count - 1)
        if names is None and not full:
            facts.append((key, str(count)))
        elif names is not None and not (full and names == tuple(map(str, range(1, count + 1)))):
            simple = len(names) > 1 and all(map(_is_simple, names))
            facts.append((key, ", ".join(names) if simple else json.dumps(names, ensure_ascii=False)))
    if noise is not None and not noise.events_observed:
        facts.append(("events_observed", "no"))
    if noise is not None and any(noise.cut):
        laws = np.unique(noise.row_law[noise.row_law >= 0]).tolist()  # the columns hold no other laws
        facts.append(("cut", ", ".join(repr(noise.cut[law]) for law in laws)))
    return facts + ([("units", mdp.units)] if mdp.units else [])


def _is_simple(name: str) -> bool:
    """Return whether a name can be listed without quotes."""
    return name == name.strip() and bool(name) and not set(name) & set(",;=[]{}\"'#")
