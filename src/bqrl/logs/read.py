"""Tables of logged steps as coded columns.

One row is one step: episode, state, action, reward, and optionally stage, next_state, event and end. The one reader of tables
(`bqrl.mdp.files.tables`) reads files and frames; here are the limits on their size and the rules for labels, which may be any
text or numbers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, one_line
from bqrl.errors import SizeError
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.columns import LOG, Codes, plain_header, warn_of_costs
from bqrl.mdp.files import ending
from bqrl.mdp.files.regular import LIMIT_VARIABLE, MAX_TEXT, regular_size, size_limit, unpacked_exceeds
from bqrl.mdp.files.sources import TABLES, is_frame
from bqrl.mdp.files.tables import Columns, read_table

# Columns that mark only cut-off episodes; a column `end` is needed as well.
CUT_OFF = ("truncated", "truncation", "timeout", "istruncated", "timelimittruncated")
MISSING = "NA N/A #N/A <NA> NaN nan NaT None none null NULL".split()  # words for a missing next_state
WHOLE = re.compile(r"(-?\d+)(?:\.0+)?")  # pandas writes 3 as 3.0 if a column has missing values
MAX_ROWS = 2**24  # a row takes up to 300 bytes while a log is fitted
ROW_BYTES = 64  # bytes per row of a file: a higher limit on bytes also raises the limit on rows


def read_columns(log: Any, columns: Mapping[str, str] | None = None) -> Columns:
    """Return the coded columns of a log in any format, see `bqrl.fit`; a label that is missing has the code -1.

    >>> log = {"episode": [1, 2], "state": ["a", "a"], "action": [0, 1], "reward": [0.5, 1.0]}
    >>> read_columns(log).codes["state"].labels
    ['a']
    """
    name = _checked_name(log)
    found = read_table(log, LOG, columns, lambda rows: _check_rows(name, rows))
    if found.source.comments:
        line, text = found.source.comments[0]
        message = (
            f"expected the header, got {one_line(text)}; remove comments, and pass facts such as horizon as arguments"
        )
        raise found.source.error(message, line)
    _check_ends(found, columns)
    for role, codes in found.codes.items():
        labels, place = _merge_labels(codes.labels)
        found.codes[role] = Codes(code=place[codes.code], labels=labels)
    if "next_state" in found.codes:
        _drop_missing(found.codes["state"], found.codes["next_state"])
    reward = found.numbers["reward"]
    bad = np.flatnonzero(~np.isfinite(reward))
    if bad.size:
        message = f"expected a finite number, got {reward[bad[0]]}; correct or drop it"
        raise found.error(bad[0], message, "reward")
    warn_of_costs(found.headers["reward"], reward)
    return found


# -- what is read ------------------------------------------------------------------------------------------------------


def _checked_name(log: Any) -> str:
    """Return the name of a log for messages; raise an error if it is neither a table nor a file of allowed size."""
    if isinstance(log, (str, Path)):
        path = Path(log)
        if ending(path, TABLES) is None:
            rule = f"be a {', '.join(TABLES[:-1])} or {TABLES[-1]} file"
            raise bad_value("log", log, rule, f"{path.name!r}", remedy="convert it")
        limit = size_limit(None, MAX_TEXT)
        if regular_size(path) > limit or unpacked_exceeds(path, limit):
            rule = f"{path.name}: a log must have at most {limit} bytes, unpacked, got more"
            remedy = f"drop columns that are not needed, fit its first episodes only, or raise {LIMIT_VARIABLE}"
            raise SizeError(f"{rule}; {remedy}", limit=limit, name=LIMIT_VARIABLE)
        return path.name
    if is_frame(log):
        return "log"
    rule, remedy = "be a file, a frame or a dict of arrays", f"name the columns {', '.join(LOG.required)}"
    if isinstance(log, (list, tuple)) and any(isinstance(part, (str, Path)) or is_frame(part) for part in log):
        remedy = "concatenate the parts, with different episodes in each"
    raise bad_type("log", log, rule, type(log).__name__, remedy=remedy)


def _check_rows(name: str, rows: int) -> None:
    """Raise SizeError if a log has too many rows."""
    limit = max(MAX_ROWS, size_limit(None, MAX_TEXT) // ROW_BYTES)
    if rows > limit:
        rule = f"{name}: a log must have at most {limit} rows, got more"
        remedy = f"fit its first episodes only, or raise {LIMIT_VARIABLE}, by {ROW_BYTES} per row"
        raise SizeError(f"{rule}; {remedy}", limit=limit, name=LIMIT_VARIABLE)


def _check_ends(found: Columns, columns: Mapping[str, str] | None) -> None:
    """Raise an error if a column marks episodes that were cut off, and none marks those that are complete."""
    header = found.source.header
    cut = next((name for name in header if plain_header(name).removesuffix("s") in CUT_OFF), None)
    if cut is None or "end" in (columns or {}):
        return
    rule = f"expected a column end or terminated beside {cut}"
    end = found.headers.get("end")
    if end is None:
        remedy = "add one, or rename this column and declare ends"
        raise found.source.error(f"{rule}, got none; {remedy}", found.source.line, column=cut, name="ends")
    if plain_header(end).removesuffix("s") == "done":  # it may also mark episodes that were cut off
        remedy = f"map end to {one_line(end)} with columns if it marks complete episodes only"
        raise found.source.error(f"{rule}, got {end}; {remedy}", found.source.line, column=end, name="columns")


def rounded_down(rewards: FloatArray, step: float) -> FloatArray:
    """Return rewards rounded down to multiples of `step`; a multiple up to rounding error stays as it is.

    >>> rounded_down(np.array([0.3, 0.39, -0.01]), 0.1).round(9).tolist()
    [0.3, 0.3, -0.1]
    """
    units = rewards / step
    nearest = np.round(units)
    exact = np.abs(units - nearest) <= 1e-9 * np.maximum(1.0, np.abs(units))
    return np.asarray(np.where(exact, nearest, np.floor(units)) * step + 0.0)


# -- labels ------------------------------------------------------------------------------------------------------------


def _merge_labels(texts: list[str]) -> tuple[list[str], IntArray]:
    """Return the distinct labels, sorted if they are numbers, and the index of every given label, -1 if it is missing."""
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


def _drop_missing(state: Codes, after: Codes) -> None:
    """Turn words such as NA in the column next_state into missing values, unless a step has a state of that name."""
    acts = np.zeros(len(state.labels), bool)
    acts[state.code[state.code >= 0]] = True
    stays = np.array([used or text not in MISSING for used, text in zip(acts, state.labels, strict=True)], bool)
    place = np.append(np.where(stays, np.cumsum(stays) - 1, -1), -1)
    labels = [text for text, keep in zip(state.labels, stays, strict=True) if keep]
    for codes in (state, after):
        codes.code, codes.labels = place[codes.code], labels


def speller(labels: Iterable[str]) -> Callable[[str], str]:
    """Return a function from a text to the label that it means: 3 and 3.0 agree unless both are labels."""
    known = list(labels)
    table = {_drop_point(text): text for text in known} | {text: text for text in known}
    return lambda text: table.get(text, table.get(_drop_point(text), text))


def near_labels(text: str, labels: Iterable[str]) -> str:
    """Return the end of a message: the nearest label, or the first and the last label."""
    known = list(labels)
    found = get_close_matches(text, known, n=1, cutoff=0.5)
    if not found and len(known) == 1:
        return f"; there is only {known[0]!r}"
    return f"; did you mean {found[0]!r}?" if found else f"; there are {len(known)}, from {known[0]!r} to {known[-1]!r}"
