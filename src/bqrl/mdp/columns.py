"""Columns of tables: the role of each column, and labels as codes; shared by models (files, frames) and logs."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import takewhile
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, nearest, one_line, warn_caller
from bqrl.errors import ModelError
from bqrl.mdp.arrays import FloatArray, IntArray

ROLES = ("state", "action", "next_state", "probability", "reward")
STAGE, EVENT, LAW = "stage", "event", "law"
OPTIONAL = (STAGE, EVENT, LAW)
SYNONYMS = {
    "state": (
        "s", "from", "idstatefrom", "statefrom", "fromstate", "currentstate", "startstate", "source", "stateid", "idstate",
    ),
    "action": ("a", "idaction", "actionid", "decision", "choice"),
    "next_state": (
        "s'", "next", "to", "idstateto", "stateto", "tostate", "endstate", "target", "sp", "snext", "sprime", "newstate",
        "successor",
    ),
    "probability": ("p", "prob", "proba", "pr", "chance", "transitionprobability"),
    "reward": ("r", "rewards", "payoff"),
    "stage": ("h", "idstage", "stageid"),  # not time or step: such columns often mean a duration
    "event": ("idevent", "eventid"),
    "law": ("idlaw", "lawid"),
}  # fmt: skip
ENDS = ("done", "terminal", "isterminal", "terminated", "truncated", "ended")  # headers of columns that end an episode
IDS = {"state": "state", "next_state": "state", "action": "action"}  # which roles share their ids
TEXT = (*IDS, EVENT, LAW)  # columns of ids; the others hold numbers
HEADERS = {name for role, names in SYNONYMS.items() for name in (role.replace("_", ""), *names)}
EXPECTED = f"expected a header such as {','.join(ROLES)}"
COSTS = ("cost", "costs", "expense", "expenses", "loss", "losses", "penalty", "penalties")
GAINS = frozenset(  # headers with these words name gains, savings, or amounts from which costs are already subtracted
    "after avoided benefit benefits difference effectiveness gain gains income less margin minus net payoff profit qaly qalys"
    " reduction revenue reward rewards saved saving savings utility value without".split()
)
LARGEST = 2.0**53  # whole numbers up to this size are exact as floats


# -- roles -------------------------------------------------------------------------------------------------------------


def match_columns(header: Sequence[str], columns: Mapping[str, str] | None) -> dict[str, int]:
    """Return the position of each role's column in a table of transitions; warn about columns without a role."""
    names = [str(name).strip() for name in header]
    if columns is None and len(HEADERS & set(map(plain_header, names))) < 2:
        got = ", ".join(map(one_line, names[:8]))
        remedy = "add this line, or name the columns with columns"
        if len(names) == 1:
            remedy = "separate the columns by commas, semicolons or tabs"
        raise ModelError(f"{EXPECTED}, got {got}; {remedy}", name="columns")
    twice = repeated_header(names)
    if twice is not None:
        raise ModelError(f"expected distinct headers, got {one_line(twice)} twice; rename one of them", column=twice)
    found = chosen_columns(names, columns, SYNONYMS)
    for role in (*ROLES, *OPTIONAL):
        if role in found:
            continue
        own = role.replace("_", "")
        near = [
            i
            for i, name in enumerate(names)
            if i not in found.values() and plain_header(name) in (own, *SYNONYMS[role])
        ]
        exact = [i for i in near if plain_header(names[i]) == own]
        if len(exact or near) > 1:
            both = " and ".join(one_line(names[i]) for i in (exact or near)[:2])
            message = f"expected one column for the {role}, got {both}; choose one with columns"
            raise ModelError(message, column=role, name="columns")
        if near:
            found[role] = (exact or near)[0]
    if EVENT not in found:
        found.pop(LAW, None)  # it only distinguishes laws of events
    extra = [name for i, name in enumerate(names) if name and i not in found.values()]
    for role in ROLES:
        if role not in found:
            raise ModelError(_missing_message(role, extra), column=role, name="columns" if extra else None)
    if extra:
        listed = ", ".join(one_line(name) for name in extra[:5]) + (", ..." if len(extra) > 5 else "")
        if any(plain_header(name) in ENDS for name in extra):
            listed += "; an episode ends in a state that leads back to itself with reward 0"
        warn_caller(f"columns ignored: {listed}")
    return found


def repeated_header(names: Sequence[str]) -> str | None:
    """Return the first header that names two columns."""
    return next((name for name, times in Counter(names).items() if name and times > 1), None)


def chosen_columns(names: Sequence[str], columns: Any, roles: Iterable[str]) -> dict[str, int]:
    """Return the positions of the columns that the caller names by role."""
    if columns is not None and not isinstance(columns, Mapping):
        raise bad_type("columns", columns, "be a dict such as {'state': 'from'}")
    found = {}
    lower = [name.lower() for name in names]
    for role, wanted in (columns or {}).items():
        given = str(wanted).strip()
        if role not in roles:
            got = one_line(role) + nearest(role, roles, listed=False)
            raise bad_value("columns", columns, f"map {', '.join(roles)} to headers", got)
        if given not in names and given.lower() not in lower:
            raise bad_value("columns", columns, "name headers of the table", one_line(given) + nearest(given, names))
        found[str(role)] = names.index(given) if given in names else lower.index(given.lower())
    if len(set(found.values())) < len(found):
        raise bad_value("columns", columns, "give each role a column of its own")
    return found


def plain_header(header: str) -> str:
    """Return a header in lower case without spaces, underscores, hyphens and dots."""
    return "".join(sign for sign in header.lower() if sign not in " _-.")


def _missing_message(role: str, unused: list[str]) -> str:
    """Return the message for a role without a column, with the nearest header."""
    words = {name.lower(): name for name in unused}
    near = [match for word in (role, *SYNONYMS[role]) for match in get_close_matches(word, words, 1, cutoff=0.6)]
    if not unused:
        return f"expected a column for the {role}, got none; add it"
    header = one_line(words[near[0]]) if near else "a header"
    signs = ", and negate costs" if role == "reward" and any(map(is_cost, unused)) else ""
    got = ", ".join(map(one_line, unused[:8]))
    if role == "probability" and any(plain_header(name).startswith("episode") for name in unused):
        return f"expected a column for the probability, got {got}; read a log of episodes with bqrl.fit"
    return f"expected a column for the {role}, got {got}; map {role} to {header} with columns{signs}"


def is_cost(header: str) -> bool:
    """Return whether a header names costs, which are negative rewards, rather than gains, savings or a difference.

    >>> [is_cost(header) for header in ("Total cost", "costEUR", "qaly_minus_cost", "cost savings", "revenue - cost")]
    [True, True, False, False, False]
    """
    words = re.findall("[a-z]+", re.sub("(?<=[a-z])(?=[A-Z])", " ", header).lower())
    words = list(takewhile(lambda word: word not in ("per", "of"), words))  # "cost per QALY" is a cost
    if GAINS & set(words) or re.search(r"\w\s+[-\N{MINUS SIGN}]\s+\w", header):
        return False
    return any(word.startswith(COSTS) or word.endswith(COSTS) for word in words)


def warn_of_costs(header: str, rewards: FloatArray) -> None:
    """Issue a ModelWarning if positive costs are read as rewards."""
    if is_cost(header) and np.any(rewards > 0):
        warn_caller(f"the column {one_line(header)} is read as rewards, which are maximised; negate costs")


# -- frames ------------------------------------------------------------------------------------------------------------


def is_frame(thing: Any) -> bool:
    """Return whether `thing` has named columns: a pandas or polars frame, a dict of columns or a list of dicts."""
    if isinstance(thing, (list, tuple)):
        return bool(thing) and all(isinstance(row, Mapping) for row in thing)
    if isinstance(thing, Mapping) or hasattr(thing, "collect_schema"):  # a lazy frame warns if its columns are read
        return True
    return hasattr(thing, "columns") and hasattr(thing, "__getitem__") and not isinstance(thing, np.ndarray)


def check_flat(table: Any) -> None:
    """Raise ModelError if a dict holds matrices or dicts in place of columns."""
    cells = list(table.values()) if isinstance(table, Mapping) else []
    if cells and all(isinstance(cell, Mapping) for cell in cells):
        remedy = "list its outcomes as dicts, or read {state: {action: [(p, s_next, r, ended)]}} with from_gymnasium"
        raise ModelError(f"transitions must be a dict of columns, got a dict of dicts; {remedy}", name="transitions")
    if cells and all(getattr(cell, "ndim", 0) == 2 or _is_nested(cell) for cell in cells):
        remedy = "for one matrix (S,S) per action pass np.stack(list(P.values()), axis=1) and rewards"
        raise ModelError(f"transitions must be a dict of columns, got a dict of matrices; {remedy}", name="transitions")


def _is_nested(cell: Any) -> bool:
    """Return whether a cell is a list of lists."""
    return isinstance(cell, list) and bool(cell) and all(isinstance(row, list) for row in cell)


def frame_columns(frame: Any) -> list[tuple[str, Any]]:
    """Return headers and columns of a frame; a list of dicts is transposed, a lazy frame collected, a named index reset."""
    if isinstance(frame, (list, tuple)):
        frame = {name: [row.get(name) for row in frame] for name in dict.fromkeys(key for row in frame for key in row)}
    elif hasattr(frame, "collect"):
        frame = frame.collect()
    elif hasattr(frame, "reset_index") and any(name is not None for name in frame.index.names):
        frame = frame.reset_index(level=[i for i, name in enumerate(frame.index.names) if name not in frame.columns])
    return [(str(key), frame[key]) for key in (frame.keys() if isinstance(frame, Mapping) else frame.columns)]


def cells_of(column: Any) -> list[Any]:
    """Return a column as a list of plain Python values."""
    if hasattr(column, "to_list"):
        return list(column.to_list())
    return list(column.tolist() if hasattr(column, "tolist") else column)


# -- labels ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True, kw_only=True)
class Codes:
    """A column of labels: `code[i]` is the index of row i's label in `labels`, the distinct labels as text."""

    code: IntArray
    labels: list[str]
    values: list[Any] | None = None  # the first cell of each label; None for the columns of files


def numbering() -> defaultdict[Any, int]:
    """Return a dict that numbers its keys in the order of their first use."""
    numbers: defaultdict[Any, int] = defaultdict()
    numbers.default_factory = numbers.__len__
    return numbers


def code_labels(cells: Sequence[Any]) -> Codes:
    """Return the labels of a column in order of appearance; 3, 3.0 and "3" are one label."""
    raw, text = numbering(), numbering()
    try:
        code = np.fromiter(map(raw.__getitem__, cells), np.int64, len(cells))
    except TypeError:  # a cell that is not hashable
        return code_labels([label_text(cell) for cell in cells])
    place = [text[label_text(cell)] for cell in raw]
    first = dict(zip(reversed(place), reversed(raw), strict=True))
    return Codes(code=np.array(place, np.int64)[code], labels=list(text), values=[first[i] for i in range(len(text))])


def without_percent(cell: Any) -> Any:
    """Return a percentage as a number: "12.5 %" becomes "12.5e-2"; return other cells unchanged."""
    if isinstance(cell, str) and cell.rstrip().endswith("%"):
        return f"{cell.rstrip()[:-1].rstrip()}e-2"
    return cell


def label_text(cell: Any) -> str:
    """Return a label as text: 3, 3.0 and "3" agree; None, NaN and other missing values are empty."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return ""
    if isinstance(cell, (float, np.floating)):
        if math.isnan(cell):
            return ""
        if float(cell).is_integer() and abs(float(cell)) <= LARGEST:
            return str(int(cell))
    if isinstance(cell, np.ndarray):  # str() of an array leaves out digits and entries
        cell = cell.tolist()
    return str(cell).strip()
