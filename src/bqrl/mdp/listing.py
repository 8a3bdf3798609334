"""From the columns of a table to a model: one line per outcome, ids as numbers or names.

Files and frames share these rules: how ids become indices, and which lines are not valid. With a column `event` the
rows share noise: a line gives the outcome of one event, and its probability is that of the event. A column `law`
distinguishes several laws of events.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value, nearest, numbers, one_line
from bqrl.errors import ModelError, SizeError
from bqrl.loops.tolerance import SUM_TOL
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.columns import EVENT, IDS, LAW, MODEL, STAGE, Codes, warn_of_costs
from bqrl.mdp.files.tables import Columns, read_table
from bqrl.mdp.noise import SharedNoise, shared_noise
from bqrl.mdp.outcomes import check_outcomes
from bqrl.mdp.table import Table, check_gaps, from_columns, is_id, row_place
from bqrl.mdp.validation import sum_hint, sum_remedy

Mentioned = Mapping[int, tuple[str, int | None]]  # state -> first place and line of a file that name it
PADDED = re.compile(r"[+-]?0\d")  # codes such as 007, which are names


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rows:
    """Row and next state of each line as indices, and the names of states and actions."""

    row: IntArray
    s_next: IntArray
    shape: tuple[int, int]  # states and actions
    staged: bool
    states: list[str] | None
    actions: list[str] | None
    first_stage: int

    def place(self, q: int) -> tuple[tuple[int | None, int, int], str]:
        """Return row `q` as indices and in words."""
        return row_place(q, self.shape, self.staged, (self.states, self.actions), self.first_stage)


def check_flat(table: Any) -> None:
    """Raise ModelError if a dict holds matrices or dicts in place of columns."""
    cells = list(table.values()) if isinstance(table, Mapping) else []
    if cells and all(isinstance(cell, Mapping) for cell in cells):
        remedy = "list its outcomes as dicts, or read {state: {action: [(p, s_next, r, ended)]}} with from_gymnasium"
        raise ModelError(f"transitions must be a dict of columns, got a dict of dicts; {remedy}", name="transitions")
    if cells and all(
        getattr(cell, "ndim", 0) == 2
        or (isinstance(cell, list) and cell and all(isinstance(row, list) for row in cell))
        for cell in cells
    ):
        remedy = "for one matrix (S,S) per action pass np.stack(list(P.values()), axis=1) and rewards"
        raise ModelError(f"transitions must be a dict of columns, got a dict of matrices; {remedy}", name="transitions")


def read_frame(
    frame: Any, given: Mapping[str, Any], outcomes: Mapping[str, Any] | None, columns: Mapping[str, str] | None,
    horizon: int | None, state_names: Any, action_names: Any,
) -> tuple[Table, int, dict[str, Any]]:  # fmt: skip
    """Return `to_table` of a table in memory; `given` arguments must be None, because the table has columns for them."""
    check_flat(frame)
    for name, value in given.items():
        if value is not None:
            remedy = "add a column reward, or pass arrays" if name == "rewards" else ""
            raise bad_value(name, value, "not be given with a table, which has its own columns", remedy=remedy)
    further = {f"{MODEL.extra}{name}": each for name, each in check_outcomes(outcomes).items()}
    headers = {name: each for name, each in further.items() if isinstance(each, str)}
    read = read_table(frame, MODEL, {**(columns or {}), **headers} if headers else columns)
    for name in further.keys() - headers.keys():
        read.extra[name] = numbers(further[name], f"outcomes[{name.partition(':')[2]!r}]")
        if read.extra[name].shape != (len(read),):
            rule = f"be the header of a column or {len(read)} numbers"
            raise bad_value("outcomes", further[name], rule, f"shape {read.extra[name].shape}")
    return to_table(read, horizon, state_names, action_names)


def to_table(
    listing: Columns, horizon: int | None, state_names: Any = None, action_names: Any = None, **noise: Any
) -> tuple[Table, int, dict[str, Any]]:
    """Return the table, the horizon, and the names, values and noise of the listed lines.

    `state_names` and `action_names` may also be the number of ids. The result also says, for messages, where states without
    lines of their own are `mentioned`. `noise` holds further fields of `SharedNoise`, used if there is a column of events.
    """
    (s, s_next), S, states = _number_ids(listing, ("state", "next_state"), state_names)
    (a,), A, actions = _number_ids(listing, ("action",), action_names)
    staged, shared = STAGE in listing.numbers, EVENT in listing.codes
    stage, first_stage = np.zeros(s.size, np.int64), 0
    if staged:
        first_stage = _first_stage(listing, listing.numbers[STAGE])
        stage = listing.numbers[STAGE].astype(np.int64) - first_stage
    K = int(stage.max()) + 1
    try:
        check_gaps(K, S, A, s.size)
    except SizeError as error:
        widest = int(np.maximum(np.maximum(s, s_next), np.maximum(a, stage)).argmax())
        raise listing.error(widest, str(error)) from None
    rows = _Rows(
        row=(stage * S + s) * A + a, s_next=s_next, shape=(S, A), staged=staged, states=states, actions=actions,
        first_stage=first_stage,
    )  # fmt: skip
    _check_numbers(listing, rows)
    p, reward = listing.numbers["probability"], listing.numbers["reward"]
    warn_of_costs(listing.headers["reward"], reward)
    further = {header.partition(":")[2].strip(): values[None] for header, values in listing.extra.items()}
    if len(further) < len(listing.extra):
        got = ", ".join(map(one_line, listing.extra))
        raise ModelError(f"expected one column per outcome, got {got}; rename one of them", name="outcomes")
    for header, values in listing.extra.items():
        if not np.isfinite(values).all():
            i = int(np.isfinite(values).argmin())
            raise listing.error(i, f"expected a finite number, got {values[i]:.15g}", header)
    table, H = from_columns(
        stage, s, a, s_next, p, reward, horizon, staged=staged, S=S, A=A, keep_zeros=shared, further=further
    )
    facts: dict[str, Any] = {"state_names": states, "action_names": actions, "noise": None}
    facts["mentioned"] = _first_mentions(listing, s, s_next, S)
    if state_names is None:
        facts["state_values"] = _values(listing, {"next_state": s_next, "state": s}, states or range(S))
    if shared and set(listing.codes[EVENT].labels) != {""}:
        facts["noise"] = _read_events(listing, rows, table, **noise)
        table.probability = facts["noise"].image(facts["noise"].probabilities, table.probability)
    return table, H, facts


# -- ids ---------------------------------------------------------------------------------------------------------------


def _number_ids(listing: Columns, roles: tuple[str, ...], given: Any) -> tuple[list[IntArray], int, list[str] | None]:
    """Return the indices of the id columns, the number of ids, and their names; `given` holds names, their number, or None."""
    columns, kind = [listing.codes[role] for role in roles], IDS[roles[0]]
    labels = list(dict.fromkeys(label for column in columns for label in column.labels))
    numbers = np.array([_number(label) for label in labels])
    if given is None and any(map(PADDED.match, labels)):  # such labels are names, sorted by the numbers that they spell
        labels, numbers = [labels[i] for i in np.argsort(numbers, kind="stable")], np.full(len(labels), np.nan)
    words = np.isnan(numbers)
    if not isinstance(given, int | Iterable | None):
        raise bad_type(f"{kind}_names", given, "be a list of names")
    names = None if given is None or isinstance(given, int) else [str(name) for name in given]
    total = given if isinstance(given, int) else None if names is None else len(names)
    listed = names is not None and not (np.all(is_id(numbers)) and not set(labels) & set(names))

    def about(label: str, message: str) -> ModelError:
        """Return the error about the first line that holds a label."""
        role, column = next((r, c) for r, c in zip(roles, columns, strict=True) if label in c.labels)
        return listing.error(int((column.code == column.labels.index(label)).argmax()), message, role)

    by_name = (
        f"list them as names with {kind}_names"
        if listing.source.path is None
        else f"name them in a line # {kind}s: ..."
    )
    if "" in labels and "" not in (names or ()):
        hint = " states without a choice need an action, too" if kind == "action" else ""
        raise about("", f"expected the {kind}, got an empty cell; is the line complete?{hint}")
    if words.all() and names is None and total in (None, len(labels)):
        names, listed = labels, True
    if names is not None and listed:
        index = {name: i for i, name in enumerate(names)}
        for label in labels:
            if label not in index:
                raise about(label, f"expected one of the named {kind}s, got {one_line(label)}{nearest(label, names)}")
    elif words.any():
        word = labels[int(words.argmax())]
        raise about(word, f"expected a number as for other {kind}s, got the name {one_line(word)}; use one kind")
    else:  # numbers that begin at 0 or 1
        if not is_id(numbers).all():
            label = labels[int((~is_id(numbers)).argmax())]
            raise about(label, f"expected a name or a whole number from 0 or 1, got {one_line(label)}; {by_name}")
        low, high = int(numbers.min()), int(numbers.max())
        if total is None and low > 1:
            label = labels[int(numbers.argmin())]
            raise about(label, f"expected {kind} ids that begin at 0 or 1, got {low}; renumber them, or {by_name}")
        first = low if total is None else int(low > 0 and high == total)
        if total is not None and high - first >= total:
            label = labels[int(numbers.argmax())]
            raise about(label, f"expected one of the {total} declared {kind}s, got {label}")
        index = {label: int(x) - first for label, x in zip(labels, numbers, strict=True)}
        total = high - first + 1 if total is None else total
        if names is None and first and total <= max(2**24, 100 * len(listing)):
            names = list(map(str, range(1, total + 1)))  # ids that begin at 1 become names, so that tables show them
    places = [np.array([index[label] for label in column.labels], np.int64)[column.code] for column in columns]
    return places, len(names) if names is not None else int(total or 0), names


def _first_mentions(listing: Columns, s: IntArray, s_next: IntArray, S: int) -> Mentioned:
    """Return the first line that names each next state without a line of its own."""
    own = np.zeros(S, dtype=bool)
    own[s] = True
    lines = np.flatnonzero(~own[s_next])
    states, first = np.unique(s_next[lines], return_index=True)
    places = zip(states.tolist(), lines[first].tolist(), strict=True)
    return {
        state: (f"{listing.where(i)}: ", None if listing.lines is None else int(listing.lines[i]))
        for state, i in places
    }


def _values(listing: Columns, places: dict[str, IntArray], names: Sequence[Any]) -> tuple[Any, ...] | None:
    """Return the cells that name the states, by index; None for a file. A state that no line names has its name as value."""
    values = list(names)
    for role, place in places.items():
        column = listing.codes[role]
        if column.values is None:
            return None
        line = np.unique(column.code, return_index=True)[1]
        for s, value in zip(place[line].tolist(), column.values, strict=True):
            values[s] = value
    return tuple(values)


def _number(label: str) -> float:
    """Return the number that an id spells, or NaN."""
    try:
        number = float(label)
    except ValueError:
        return np.nan
    return number if label.isascii() and "_" not in label and np.isfinite(number) else np.nan


def _first_stage(listing: Columns, stages: FloatArray) -> int:
    """Return the smallest stage, which must be 0 or 1; all stages must be whole numbers."""
    proper = is_id(stages)
    i = int(stages.argmin() if proper.all() else proper.argmin())
    if not proper[i] or stages[i] > 1:
        hint = f"; subtract {stages[i]:.15g}" if proper[i] else ""
        raise listing.error(i, f"expected stages as whole numbers from 0 or 1, got {stages[i]:.15g}{hint}", STAGE)
    return int(stages[i])


# -- probabilities and rewards -----------------------------------------------------------------------------------------


def _check_numbers(listing: Columns, rows: _Rows) -> None:
    """Raise ModelError for the first line or row whose numbers are not valid."""
    p, reward, row = listing.numbers["probability"], listing.numbers["reward"], rows.row
    bad = np.flatnonzero(~np.isfinite(reward))
    if bad.size:
        hint = "; leave out actions that do not exist" if reward[bad[0]] == -np.inf else ""
        raise listing.error(int(bad[0]), f"expected a finite reward, got {reward[bad[0]]:.15g}{hint}", "reward")
    sums = np.bincount(row, weights=np.clip(np.nan_to_num(p), 0.0, 1e6))
    outside = np.flatnonzero(~((p >= 0) & (p <= 1 + SUM_TOL)))
    if outside.size:
        i = int(outside[0])
        hint = sum_hint(sums[row[i]], p[row == row[i]])
        more = f"; the row sums to {sums[row[i]]:.12g}{hint}" if hint else ""
        raise listing.error(i, f"expected a probability in [0, 1], got {p[i]:.15g}{more}", "probability")
    off = np.flatnonzero(np.abs(sums[row] - 1.0) > SUM_TOL)
    if off.size:
        raise _bad_row(listing, rows, int(row[off[0]]))


def _bad_row(listing: Columns, rows: _Rows, q: int) -> ModelError:
    """Return the error for row `q`, whose probabilities do not sum to 1; it names a repeated line if there is one."""
    where, text = rows.place(q)
    members = np.flatnonzero(rows.row == q)
    total = listing.numbers["probability"][members].sum()
    twice = total > 1.5 and abs(total - round(total)) <= SUM_TOL and STAGE not in listing.numbers
    staged = "; if the model differs by stage, name the column of the stages with columns" if twice else ""
    seen: dict[tuple[int, float], int] = {}
    for i in members.tolist():
        outcome = int(rows.s_next[i]), float(listing.numbers["reward"][i])
        if outcome in seen and total > 1:
            first, second = (j if listing.lines is None else listing.lines[j] for j in (seen[outcome], i))
            unit = "rows" if listing.lines is None else "lines"
            after = outcome[0] if rows.states is None else str(rows.states[outcome[0]])[:40]
            got = f"({text[1:-1]}, s'={after}) with reward {outcome[1]:.15g} twice"
            message = (
                f"{unit} {first} and {second}: expected distinct outcomes, got {got};"
                f" the row sums to {total:.12g}{staged}"
            )
            return ModelError(message, row=where, line=None if listing.lines is None else int(second))
        seen.setdefault(outcome, i)
    last = listing.lines is not None and total < 1 and members[-1] == len(rows.row) - 1
    cut = _split_row(listing, rows, q, total) or sum_hint(total) or ("; is the file truncated?" if last else staged)
    cut = cut or sum_remedy(total)
    return listing.error(int(members[0]), f"row {text} must sum to 1, got {total:.12g}{cut}", "probability", row=where)


def _split_row(listing: Columns, rows: _Rows, q: int, total: float) -> str:
    """Return the hint that another row of the same state holds the rest of row `q`, as with a misspelt action; else ""."""
    actions = rows.shape[1]
    for other in np.unique(rows.row[(rows.row // actions == q // actions) & (rows.row != q)]).tolist():
        rest = listing.numbers["probability"][rows.row == other].sum()
        if 0 < rest < 1 - SUM_TOL and abs(total + rest - 1.0) <= SUM_TOL:
            return f"; with the lines of {rows.place(other)[1]} it sums to 1: is one of the two misspelt?"
    return ""


# -- events ------------------------------------------------------------------------------------------------------------


def _read_events(listing: Columns, rows: _Rows, table: Table, **fields: Any) -> SharedNoise:
    """Return the shared noise of lines with events; a line without an event belongs to a row without a law."""
    row, p = rows.row, listing.numbers["probability"]
    event, laws = listing.codes[EVENT], listing.codes.get(LAW, Codes(code=np.zeros(row.size, np.int64), labels=[""]))
    named = np.array([label != "" for label in event.labels])[event.code]
    key = np.where(named, laws.code * len(event.labels) + event.code, -1)
    _, first, place = np.unique(key, return_index=True, return_inverse=True)  # the first line of each event of a law
    first = first[place.reshape(-1)]
    differs = np.flatnonzero(named & (np.abs(p - p[first]) > SUM_TOL))
    if differs.size:
        i, j = int(differs[0]), int(first[differs[0]])
        event_name = one_line(event.labels[event.code[i]])
        raise listing.error(
            i,
            f"expected the probability {p[j]:.12g} of event {event_name} as in {listing.where(j)}, got {p[i]:.12g}; give rows"
            " with other probabilities another law in a column 'law', or rename the column", "probability",
        )  # fmt: skip
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
        table, row, table.line_outcome, law, number,
        events=tuple(tuple(event.labels[event.code[i]] for i in lines) for lines in members),
        probabilities=tuple(p[lines] for lines in members), **fields,
    )  # fmt: skip


def _check_events(listing: Columns, row: IntArray, law: IntArray, event: IntArray, sizes: list[int]) -> None:
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
        message = "expected each event of one law once per row, or no event in the whole row, got other events; complete the row"
        raise listing.error(line, message, EVENT)
