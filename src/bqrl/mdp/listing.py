"""Transitions as a table with named columns: one line per outcome, ids as numbers or names.

The same rules serve files (.csv) and frames: how ids become indices, and what is wrong with a line. With a column `event`
the rows share noise: a line says where one event leads, and its probability is that of the event. A column `law` tells
several laws of events apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.checks import nearest, shown
from bqrl.errors import ModelError, SizeError
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.build import Table, are_ids, check_gaps, from_columns
from bqrl.mdp.headers import EVENT, IDS, LAW, STAGE
from bqrl.mdp.noise import LAW_TOL, SharedNoise, outcome_numbers, shared_noise
from bqrl.mdp.validation import ROW_TOL, percentages


@dataclass(slots=True)
class Ids:
    """A column of ids: `code[i]` is the place of line i's id in `labels`, the distinct ids as they are written."""

    code: IntArray
    labels: list[Any]


@dataclass(slots=True)
class Listing:
    """The lines of a table by role."""

    ids: dict[str, Ids]  # state, action, next_state, and event and law where there are such columns
    probability: FloatArray
    reward: FloatArray
    stage: FloatArray | None
    headers: dict[str, str]  # role -> header, for messages
    lines: Sequence[int] | None = None  # line numbers in a file; None for a frame

    def where(self, i: int) -> str:
        """Line `i` as a message names it."""
        return f"row {i}" if self.lines is None else f"line {self.lines[i]}"

    def error(self, i: int, message: str, role: str | None = None, **facts: Any) -> ModelError:
        """A ModelError about line `i`."""
        line = None if self.lines is None else int(self.lines[i])
        column = None if role is None else self.headers[role]
        return ModelError(f"{self.where(i)}: {message}", line=line, column=column, **facts)


def to_table(
    listing: Listing, horizon: int | None, state_names: Any = None, action_names: Any = None, **noise: Any
) -> tuple[Table, int, dict[str, Any]]:
    """Table, horizon, and names and noise of the listed lines. A count in place of names says how many ids there are.

    `noise` holds further fields of `SharedNoise`, used if there is a column of events.
    """
    (s, s_next), S, states = _numbered(listing, ("state", "next_state"), state_names)
    (a,), A, actions = _numbered(listing, ("action",), action_names)
    stage, first_stage = np.zeros(s.size, np.int64), 0
    if listing.stage is not None:
        first_stage = _first_stage(listing, listing.stage)
        stage = listing.stage.astype(np.int64) - first_stage
    K = int(stage.max()) + 1
    try:
        check_gaps(K, S, A, s.size)
    except SizeError as error:
        widest = int(np.maximum(np.maximum(s, s_next), np.maximum(a, stage)).argmax())
        raise listing.error(widest, str(error)) from None
    row = (stage * S + s) * A + a
    _check_numbers(listing, row, s_next, (S, A), states, actions, first_stage)
    staged, shared = listing.stage is not None, EVENT in listing.ids
    table, H = from_columns(
        stage, s, a, s_next, listing.probability, listing.reward, horizon, staged=staged, S=S, A=A, keep_zeros=shared
    )
    facts: dict[str, Any] = {"state_names": states, "action_names": actions, "noise": None}
    if shared and set(listing.ids[EVENT].labels) != {""}:
        facts["noise"] = _read_events(listing, row, s_next, table, **noise)
        table.probability = facts["noise"].image(facts["noise"].probabilities, table.probability)
    return table, H, facts


def _numbered(listing: Listing, roles: tuple[str, ...], given: Any) -> tuple[list[IntArray], int, list[str] | None]:
    """Indices of the id columns, the number of ids, and their names. `given`: names, how many there are, or None."""
    columns, kind = [listing.ids[role] for role in roles], IDS[roles[0]]
    labels = list(dict.fromkeys(label for column in columns for label in column.labels))
    numbers = np.array([_number(label) for label in labels])
    names = None if given is None or isinstance(given, int) else [str(name) for name in given]
    total = given if isinstance(given, int) else None if names is None else len(names)
    listed = names is not None and not (np.all(are_ids(numbers)) and not set(labels) & set(names))
    if "" in labels and "" not in (names or ()):
        raise _about(listing, roles, "", f"the {kind} is empty; is the line complete?")
    if np.isnan(numbers).all() and names is None and total in (None, len(labels)):
        names, listed = labels, True
    if names is not None and listed:
        index = {name: i for i, name in enumerate(names)}
        for label in labels:
            if label not in index:
                raise _about(listing, roles, label, f"there is no {kind} {shown(label)}{nearest(label, names)}")
    elif np.isnan(numbers).any():
        word = labels[int(np.isnan(numbers).argmax())]
        raise _about(
            listing, roles, word, f"the {kind} {shown(word)} is a name where other {kind}s are numbers; use one kind"
        )
    else:
        first = _first_id(listing, roles, labels, numbers, total)
        index = {label: int(x) - first for label, x in zip(labels, numbers, strict=True)}
        total = max(index.values()) + 1 if total is None else total
        if names is None and first and total <= max(2**24, 100 * listing.probability.size):
            names = [
                str(i) for i in range(1, total + 1)
            ]  # ids from 1 are the names, so that tables show the file's ids
    places = [np.array([index[label] for label in column.labels], np.int64)[column.code] for column in columns]
    return places, len(names) if names is not None else int(total or 0), names


def _read_events(listing: Listing, row: IntArray, s_next: IntArray, table: Table, **fields: Any) -> SharedNoise:
    """The shared noise of lines with events; a line without an event belongs to a row that no law drives."""
    event, laws = listing.ids[EVENT], listing.ids.get(LAW, Ids(np.zeros(row.size, np.int64), [""]))
    named = np.array([label != "" for label in event.labels])[event.code]
    key = np.where(named, laws.code * len(event.labels) + event.code, -1)
    _, first, place = np.unique(key, return_index=True, return_inverse=True)  # the first line of each event of a law
    p, first = listing.probability, first[place.reshape(-1)]
    differs = np.flatnonzero(named & (np.abs(p - p[first]) > LAW_TOL))
    if differs.size:
        i, j = int(differs[0]), int(first[differs[0]])
        raise listing.error(
            i,
            f"the event {shown(event.labels[event.code[i]])} has the probability {p[i]:.12g} here and {p[j]:.12g} in"
            f" {listing.where(j)}; give rows with other probabilities another law in a column 'law', or rename the column",
            "probability",
        )
    opening = np.unique(first[named])  # one line per event of a law, in order of appearance
    members = [opening[laws.code[opening] == law] for law in range(len(laws.labels))]
    members = [lines for lines in members if lines.size]
    number_of = np.full((len(laws.labels), len(event.labels)), -1)
    law_of = np.full(len(laws.labels), -1)
    for i, lines in enumerate(members):
        number_of[laws.code[lines], event.code[lines]] = np.arange(lines.size)
        law_of[laws.code[lines[0]]] = i
    law = np.where(named, law_of[laws.code], -1)
    number = np.where(named, number_of[laws.code, event.code], -1)
    _check_events(listing, row, law, number, [lines.size for lines in members])
    return shared_noise(
        (row, outcome_numbers(row, s_next, listing.reward), law, number),
        table.row_start,
        (table.K, table.S, table.A),
        events=tuple(tuple(event.labels[event.code[i]] for i in lines) for lines in members),
        probabilities=tuple(p[lines] for lines in members),
        **fields,
    )


def _check_events(listing: Listing, row: IntArray, law: IntArray, event: IntArray, sizes: list[int]) -> None:
    """Raise ModelError unless every row lists each event of one law once, or no event."""
    order = np.lexsort((event, row))
    q, e, i = row[order], event[order], law[order]
    opens = np.r_[True, q[1:] != q[:-1]]
    start = np.flatnonzero(opens)
    group = np.cumsum(opens) - 1
    expected = np.where(i < 0, -1, np.arange(q.size) - start[group])
    bad = np.flatnonzero((i != i[start][group]) | (e != expected))
    counts = np.diff(np.r_[start, q.size])
    short = np.flatnonzero((i[start] >= 0) & (counts != np.array([*sizes, 0])[i[start]]))
    if bad.size or short.size:
        line = int(order[bad[0]] if bad.size else order[start[short[0]]])
        raise listing.error(
            line, "the row must list every event of one law once, or leave the event empty in all its lines", EVENT
        )


def _first_id(
    listing: Listing, roles: tuple[str, ...], labels: list[str], numbers: FloatArray, total: int | None
) -> int:
    """Whether ids that are numbers count from 0 or from 1."""
    kind = IDS[roles[0]]
    bad = ~are_ids(numbers)
    if bad.any():
        label = labels[int(bad.argmax())]
        raise _about(
            listing, roles, label, f"the {kind} must be a name or a whole number from 0 or 1, got {shown(label)}"
        )
    low, high = int(numbers.min()), int(numbers.max())
    if total is None:
        if low > 1:
            label = labels[int(numbers.argmin())]
            raise _about(listing, roles, label, f"the smallest {kind} id is {low}; ids must start at 0 or 1")
        return low
    first = int(low > 0 and high == total)
    if high - first >= total:
        label = labels[int(numbers.argmax())]
        raise _about(listing, roles, label, f"there is no {kind} {label}; {total} {kind}s are declared")
    return first


def _about(listing: Listing, roles: tuple[str, ...], label: str, message: str) -> ModelError:
    """A ModelError about the first line that holds `label`."""
    for role in roles:
        column = listing.ids[role]
        if label in column.labels:
            return listing.error(int((column.code == column.labels.index(label)).argmax()), message, role)
    raise AssertionError(label)


def _number(label: str) -> float:
    """The number that an id spells, or NaN."""
    try:
        number = float(label)
    except ValueError:
        return np.nan
    return number if label.isascii() and "_" not in label and np.isfinite(number) else np.nan


def _first_stage(listing: Listing, stages: FloatArray) -> int:
    """The smallest stage, which must be 0 or 1; the others must be whole numbers, too."""
    proper = are_ids(stages)
    i = int(stages.argmin() if proper.all() else proper.argmin())
    if not proper[i] or stages[i] > 1:
        raise listing.error(i, f"stages must be whole numbers that start at 0 or 1, got {stages[i]:.15g}", STAGE)
    return int(stages[i])


def _check_numbers(
    listing: Listing,
    row: IntArray,
    s_next: IntArray,
    shape: tuple[int, int],
    states: Any,
    actions: Any,
    first_stage: int,
) -> None:
    """Raise ModelError for the first line or row whose numbers are not valid."""
    p, reward = listing.probability, listing.reward
    bad = np.flatnonzero(~np.isfinite(reward))
    if bad.size:
        raise listing.error(int(bad[0]), f"the reward must be a finite number, got {reward[bad[0]]:.15g}", "reward")
    sums = np.bincount(row, weights=np.clip(np.nan_to_num(p), 0.0, 1e6))
    wrong = ~((p >= 0) & (p <= 1 + ROW_TOL))
    if wrong.any():
        i = int(np.flatnonzero(wrong)[0])
        hint = percentages(sums[row[i]])
        more = f"; the row sums to {sums[row[i]]:.12g}{hint}" if hint else ""
        raise listing.error(i, f"the probability must be a number in [0, 1], got {p[i]:.15g}{more}", "probability")
    off = np.abs(sums[row] - 1.0) > ROW_TOL
    if off.any():
        raise _bad_row(listing, row, s_next, int(row[np.flatnonzero(off)[0]]), shape, states, actions, first_stage)


def _bad_row(
    listing: Listing, row: IntArray, s_next: IntArray, q: int, shape: tuple[int, int], states: Any, actions: Any,
    first_stage: int,
) -> ModelError:  # fmt: skip
    """The error for row `q`, whose probabilities do not sum to 1: a repeated line if there is one."""
    S, A = shape
    h, s, a = q // (S * A), q // A % S, q % A
    staged = listing.stage is not None
    text = f"s={_label(states, s)}, a={_label(actions, a)}"
    text = f"h={h + first_stage}, {text}" if staged else text
    where = (h if staged else None, s, a)
    members = np.flatnonzero(row == q)
    total = listing.probability[members].sum()
    seen: dict[tuple[int, float], int] = {}
    for i in members.tolist():
        outcome = int(s_next[i]), float(listing.reward[i])
        if outcome in seen and total > 1:
            first, second = (j if listing.lines is None else listing.lines[j] for j in (seen[outcome], i))
            unit = "rows" if listing.lines is None else "lines"
            return ModelError(
                f"{unit} {first} and {second} both give ({text}, s'={_label(states, outcome[0])}) with reward"
                f" {outcome[1]:.15g}; the row sums to {total:.12g}",
                row=where,
                line=None if listing.lines is None else int(second),
            )
        seen.setdefault(outcome, i)
    last = listing.lines is not None and total < 1 and members[-1] == len(row) - 1
    cut = "; is the file truncated?" if last else ""
    return listing.error(int(members[0]), f"row ({text}) sums to {total:.12g}, not to 1{cut}", "probability", row=where)


def _label(names: Any, i: int) -> str:
    return str(i) if names is None else str(names[i])[:40]
