"""Models as JSON, to be read and written by hand: names in place of numbers, one transition per line.

    {
      "horizon": 3, "discount": 1.0, "start": "low",
      "states": ["low", "high"], "actions": ["wait", "sell"],
      "transitions": [
        ["low", "wait", "high", 0.5, 0.0],
        ...
    ]}

A transition is [state, action, next state, probability, reward], with the stage in front if stages differ. A string is a
name and a number counts from 0; `states` may also be the number of states. A list of rewards gives one per stage. A
probability of 0 marks an outcome as possible. `known` lists rows [state, action] that learners may know, in addition to
rows with one outcome. `start` is a state, a law {state: probability} or a list of probabilities. `units` names the unit of
the rewards, `words` holds what users call things ({"run": "patient"}), and `comment` is ignored.

`terminal` holds the values of the states in which episodes end, {state: value}. Further outcomes stand at the end of every
transition, as ["low", "wait", "high", 0.5, 0.0, {"cost": 3.0}]; like rewards they may be lists with one number per stage.

The key `noise` holds the laws of events that rows share, and where each event leads:

    "noise": {
      "laws": [{"events": ["rain", "dry"], "probabilities": [0.3, 0.7], "cut": 0.0}],
      "events_observed": true,
      "rows": [["low", "wait", 0, [1, 0]], ...]
    }

A row is [state, action, law, outcomes], with the stage in front if stages differ. `outcomes` has one entry per event of
the law: the place of its outcome among the transitions of the row, counted from 0. Probabilities that are not known are
null; `cut` and `events_observed` are optional.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, NoReturn

import numpy as np

from bqrl.checks import bad_value, nearest, one_line
from bqrl.errors import FileFormatError
from bqrl.loops.tolerance import SUM_TOL
from bqrl.mdp import model
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray
from bqrl.mdp.files.regular import decode_text
from bqrl.mdp.noise import SharedNoise, shared_noise
from bqrl.mdp.table import MAX_ID, Table, from_columns, row_place
from bqrl.mdp.validation import check_horizon, sum_hint, sum_remedy

HINTS = {"gamma": "; did you mean 'discount'?"} | dict.fromkeys(("P", "R", "rewards"), "; pass arrays to bqrl.MDP")
KEYS = (
    "horizon", "discount", "start", "states", "actions", "known", "units", "words", "terminal", "transitions", "noise", "comment",
)  # fmt: skip


def read_json(
    content: bytes, horizon: int | None = None, start: Any = None, discount: float | None = None
) -> dict[str, Any]:
    """Return the arguments of MDP.from_table for the bytes of a JSON file."""
    data = _parse(content)
    rows = data["transitions"]
    if not isinstance(rows, list) or not rows:
        raise _expected_error(
            "transitions", "a list of [state, action, next state, probability, reward]", rows, "transitions"
        )
    rows, further = _split_further(rows)
    width = len(rows[0]) if isinstance(rows[0], list) else 0
    items = _Items(data, staged=width == 6)
    columns = [items.transition(i, row, width) for i, row in enumerate(rows)]
    stage, s, a, s_next = np.array([line[:4] for line in columns], np.int64).T
    p = np.array([line[4] for line in columns], np.float64)

    stored = check_horizon(data["horizon"]) if "horizon" in data else None
    given = [line[5] for line in columns] + [x for values in further.values() for x in values]
    lengths = {len(x) for x in given} - {1}
    if len(lengths) > 1 or (lengths and (items.staged or stored not in (None, *lengths))):
        message = "transitions: expected lists with one reward per stage, in transitions without stages"
        raise FileFormatError(f"{message}, got lists of {one_line(sorted(lengths))} rewards", column="transitions")
    spread = lengths.pop() if lengths else 1
    paid = np.array([line[5] if len(line[5]) == spread else line[5] * spread for line in columns], np.float64)
    extra = {name: _by_stage(values) for name, values in further.items()}
    H = spread if spread > 1 else stored
    if horizon is not None and H is not None and horizon != H and (items.staged or spread > 1):
        raise bad_value("horizon", horizon, f"be {H} for a model whose stages differ")
    H = H if items.staged or spread > 1 or horizon is None else horizon
    kinds, which = np.unique(paid, axis=0, return_inverse=True)  # outcomes with equal rewards are merged
    reward = which.reshape(-1).astype(np.float64)
    table, H = from_columns(
        stage, s, a, s_next, p, reward, H, staged=items.staged, S=items.count["state"], A=items.count["action"],
        keep_zeros=True, further=extra,
    )  # fmt: skip
    items.K = table.K
    row = (stage * table.S + s) * table.A + a
    _check_sums(row, p, items)
    _set_rewards(table, kinds)
    noise = _read_noise(data["noise"], table, row, items) if "noise" in data else None
    if noise is not None and noise.known and table.further is not None and table.further.split:
        table.probability = noise.image(noise.probabilities, table.probability)  # sums of cases may differ by rounding
    return {
        "table": table, "H": H, "start": data.get("start", 0) if start is None else start,
        "discount": data.get("discount", 1.0) if discount is None else discount,
        "known": _known_mask(data.get("known", []), table, items), "state_names": items.names["state"],
        "action_names": items.names["action"], "units": data.get("units"), "words": data.get("words"),
        "terminal": _terminal(data.get("terminal"), items), "noise": noise,
    }  # fmt: skip


def _split_further(rows: list[Any]) -> tuple[list[Any], dict[str, list[list[float]]]]:
    """Return the transitions without further outcomes, and the values of every outcome, one list per transition."""
    ends = [row[-1] if isinstance(row, list) and row and isinstance(row[-1], dict) else {} for row in rows]
    names = list(ends[0])
    if not any(ends):
        return rows, {}
    for i, found in enumerate(ends):
        if set(found) != set(names):
            rule = (
                f"the outcomes {', '.join(names)} as in transitions[0]"
                if names
                else "no outcomes, as in transitions[0]"
            )
            raise _expected_error(f"transitions[{i}]", rule, found, "transitions")

    def values(i: int, name: str) -> list[float]:
        given = ends[i][name]
        return [
            json_number(x, f"transitions[{i}], {name}")
            for x in (given if isinstance(given, list) and given else [given])
        ]

    further = {name: [values(i, name) for i in range(len(rows))] for name in names}
    return [row[:-1] for row in rows], further


def _by_stage(values: list[list[float]]) -> FloatArray:
    """Return the values of an outcome, shape (1 or H, transitions), from lists with one number or one per stage."""
    longest = max(map(len, values))
    return np.array([x if len(x) == longest else x * longest for x in values], np.float64).T


def _terminal(given: Any, items: _Items) -> FloatArray | None:
    """Return the terminal values by state."""
    if given is None:
        return None
    if not isinstance(given, dict):
        raise _expected_error("terminal", "an object {state: value}", given, "terminal")
    found, numbered = np.zeros(items.count["state"]), items.names["state"] is None
    for state, value in given.items():
        label = int(state) if numbered and state.isdecimal() else state
        found[items.label(label, "state", "terminal, state")] = json_number(value, f"terminal, {state}")
    return found


def _check_sums(row: IntArray, p: FloatArray, items: _Items) -> None:
    """Raise FileFormatError for the first row whose probabilities do not sum to 1; the message names a transition of the row."""
    sums = np.bincount(row, weights=p)
    off = np.flatnonzero(np.abs(sums[row] - 1.0) > SUM_TOL)
    if off.size and np.all(p >= 0.0):  # another check reports negative ones
        i = int(off[0])
        states, actions = (None if each is None else list(each) for each in items.names.values())
        shape = items.count["state"], items.count["action"]
        place, text = row_place(int(row[i]), shape, items.staged, (states, actions))
        hint = sum_remedy(sums[row[i]], p[row == row[i]])
        message = f"transitions[{i}]: row {text} must sum to 1, got {sums[row[i]]:.12g}{hint}"
        raise FileFormatError(message, column="transitions", row=place)


def _set_rewards(table: Table, kinds: Any) -> None:
    """Replace reward indices by rewards."""
    if table.reward is not None:
        table.reward = np.ascontiguousarray(kinds[table.reward[0].astype(np.int64)].T)
    else:
        assert table.row_reward is not None
        by_row = table.row_reward.reshape(-1).astype(np.int64)
        table.row_reward = np.ascontiguousarray(kinds[by_row].T).reshape(-1, table.S, table.A)


# -- writing -----------------------------------------------------------------------------------------------------------


def write_json(mdp: model.MDP) -> bytes:
    """Return a model as JSON, one transition per line."""
    K, S, A = mdp.available.shape
    sizes = np.diff(mdp.row_start)
    state: list[Any] = list(mdp.state_names or range(S))
    action: list[Any] = list(mdp.action_names or range(A))
    place = [([] if K == 1 else [q // (S * A)]) + [state[q // A % S], action[q % A]] for q in range(K * S * A)]
    extra = np.flatnonzero(mdp.known.reshape(-1) & (sizes != 1))
    own, further = mdp.own_reward, mdp.further
    i, p = np.arange(mdp.successor.size), mdp.probability  # the transition and the probability of every line
    if further is not None and further.split:
        i, p = np.repeat(i, np.diff(further.start)), further.joint(p)
    paid = own[:, i].T.tolist() if len(own) > 1 else own[0, i].tolist()
    row = np.repeat(np.arange(K * S * A), sizes)[i].tolist()
    ends: Any = [[]] * i.size
    if further is not None:
        listed = {name: x.T.tolist() if len(x) > 1 else x[0].tolist() for name, x in further.values.items()}
        ends = ([dict(zip(listed, case, strict=True))] for case in zip(*listed.values(), strict=True))
    outcomes = zip(row, mdp.successor[i].tolist(), p.tolist(), paid, ends, strict=True)
    head = {
        "horizon": mdp.H,
        "discount": mdp.discount,
        "start": mdp.mu.tolist() if np.count_nonzero(mdp.mu) > 1 or mdp.mu.max() < 1.0 else state[int(mdp.mu.argmax())],
        "states": state if mdp.state_names else S,
        "actions": action if mdp.action_names else A,
        "known": [place[q] for q in extra],
    }
    head |= {"units": mdp.units} if mdp.units else {}
    head |= {"words": mdp.words} if mdp.words else {}
    if mdp.terminal is not None:
        head["terminal"] = {str(state[s]): mdp.terminal[s].item() for s in np.flatnonzero(mdp.terminal).tolist()}
    lines = [f"  {_dumps(key)}: {_dumps(value)}," for key, value in head.items()]
    if mdp.noise is not None:
        lines += ['  "noise": {', *_noise_lines(mdp, mdp.noise, place), "  },"]
    lines += _block("transitions", [[*place[q], state[t], p, r, *end] for q, t, p, r, end in outcomes], "  ", "")
    return "\n".join(["{", *lines, "}", ""]).encode()


def _noise_lines(mdp: model.MDP, noise: SharedNoise, place: list[list[Any]]) -> list[str]:
    """Return the lines of the key `noise`, one per law and one per row with a law."""
    # first line of a transition
    line = np.arange(mdp.successor.size) if mdp.further is None else mdp.further.start[:-1]

    def places(q: int) -> list[int]:
        first = int(noise.row_start[q])
        return [int(x) for x in line[first + noise.outcome_of(q)] - line[first]]

    laws = [
        {"events": list(events), "probabilities": p.tolist() if noise.known else None, "cut": cut}
        for events, p, cut in zip(noise.event_names, noise.probabilities, noise.cut, strict=True)
    ]
    driven = [(q, law) for q, law in enumerate(noise.row_law.reshape(-1).tolist()) if law >= 0]
    rows = [[*place[q], law, places(q)] for q, law in driven]
    observed = f'    "events_observed": {_dumps(noise.events_observed)},'
    return [*_block("laws", laws, "    ", ","), observed, *_block("rows", rows, "    ", "")]


def _block(key: str, items: list[Any], indent: str, end: str) -> list[str]:
    """Return the lines of a key whose value is a list, one item per line."""
    body = ",\n".join(f"{indent}  {_dumps(item)}" for item in items)
    return [f'{indent}"{key}": [', body, f"{indent}]{end}"]


def _dumps(value: Any) -> str:
    """Return JSON on one line; raise ValueError for NaN and infinities."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


# -- reading -----------------------------------------------------------------------------------------------------------


def _parse(content: bytes) -> dict[str, Any]:
    """Return the object in a file, with its keys checked."""
    try:
        data = json.loads(
            decode_text(content), parse_constant=_refuse_constant, parse_int=_parse_whole, object_pairs_hook=_parse_object
        )  # fmt: skip
    except json.JSONDecodeError as error:
        message = f"line {error.lineno}: expected JSON, got other text ({error.msg})"
        raise FileFormatError(message, line=error.lineno) from None
    except UnicodeDecodeError:
        raise FileFormatError("expected JSON in UTF-8, got other bytes") from None
    except RecursionError:
        raise FileFormatError("expected a flat JSON object, got one that is nested too deeply") from None
    if not isinstance(data, dict):
        message = f"expected a JSON object with the keys {', '.join(KEYS)}"
        remedy = "; pass a list of dicts to bqrl.MDP" if isinstance(data, list) else ""
        raise FileFormatError(f"{message}, got a {type(data).__name__}{remedy}")
    if data and all(isinstance(value, dict) for value in data.values()):
        remedy = "pass {state: {action: [[probability, next state, reward, ended]]}} to bqrl.from_gymnasium"
        raise FileFormatError(f"expected the key 'transitions', got a dict of dicts; {remedy}", column="transitions")
    for key in data:
        if key not in KEYS:
            hint = HINTS.get(key) or nearest(key, KEYS)
            raise FileFormatError(f"expected a known key, got {one_line(key)}{hint}", column=key)
    for key in ("states", "actions", "transitions"):
        if key not in data:
            raise FileFormatError(f"expected the key {key!r}, got only {', '.join(data)}", column=key)
    return data


def _expected_error(where: str, rule: str, got: Any, column: str | None = None) -> FileFormatError:
    """Return the error "WHERE: expected RULE, got GOT"."""
    return FileFormatError(f"{where}: expected {rule}, got {one_line(got)}", column=column)


def _parse_whole(digits: str) -> int | float:
    """Return an integer; integers of more than 18 digits become floats, because parsing them as int is slow."""
    return int(digits) if len(digits) <= 18 else float(digits)


def _refuse_constant(name: str) -> NoReturn:
    raise FileFormatError(f"expected finite numbers, got {name}")


def _parse_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object; raise FileFormatError if a key is given twice."""
    data = dict(pairs)
    if len(data) < len(pairs):
        key = _first_repeated([key for key, _ in pairs])
        raise FileFormatError(f"expected each key once, got {one_line(key)} twice", column=key)
    return data


def _first_repeated(names: list[str]) -> str:
    return next(name for name, times in Counter(names).items() if times > 1)


class _Items:
    """Checks the items of a file: indices, numbers and rows; errors name the place of the item."""

    def __init__(self, data: dict[str, Any], *, staged: bool) -> None:
        self.staged, self.K = staged, MAX_ID
        self.names: dict[str, dict[str, int] | None] = {}
        self.count: dict[str, int] = {}
        for kind in ("state", "action"):
            key, given = f"{kind}s", data[f"{kind}s"]
            if isinstance(given, list) and given and all(isinstance(name, str) for name in given):
                self.names[kind], self.count[kind] = {name: i for i, name in enumerate(given)}, len(given)
                if len(set(given)) < len(given):
                    raise FileFormatError(
                        f"{key} must be distinct, got {one_line(_first_repeated(given))} twice", column=key
                    )
            elif isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= MAX_ID:
                self.names[kind], self.count[kind] = None, given
            else:
                raise _expected_error(key, "a list of names or their number", given, key)

    def label(self, given: Any, kind: str, where: str) -> int:
        """Return the index of a state or action given by name or number."""
        names = self.names[kind]
        if names is not None and isinstance(given, str) and given in names:
            return names[given]
        if names is not None and isinstance(given, str):
            rule = f"a number from 0 to {self.count[kind] - 1} or a name of the list"
            raise FileFormatError(
                f"{where}: expected {rule}, got {one_line(given)}{nearest(given, names, listed=False)}"
            )
        return index_of(given, self.count[kind], where, "" if names is None else " or a name of the list")

    def row(self, given: list[Any], where: str) -> int:
        """Return the index of the row [state, action], or [stage, state, action]."""
        h = index_of(given[0], self.K, f"{where}, stage") if self.K > 1 else 0
        s = self.label(given[-2], "state", f"{where}, state")
        a = self.label(given[-1], "action", f"{where}, action")
        return (h * self.count["state"] + s) * self.count["action"] + a

    def transition(self, i: int, row: Any, width: int) -> tuple[int, int, int, int, float, list[float]]:
        """Return one transition: stage, state, action, next state, probability, rewards."""
        where = f"transitions[{i}]"
        if not isinstance(row, list) or len(row) != width or width not in (5, 6):
            rule = "[state, action, next state, probability, reward], with the stage in front in all or none"
            raise _expected_error(where, rule, row, "transitions")
        s, a, s_next, p, r = row[-5:]
        paid = r if isinstance(r, list) else [r]
        if not paid:
            raise _expected_error(where, "a reward or a list of rewards", r, "transitions")
        return (
            index_of(row[0], MAX_ID, f"{where}, stage") if width == 6 else 0, self.label(s, "state", f"{where}, state"),
            self.label(a, "action", f"{where}, action"), self.label(s_next, "state", f"{where}, next state"),
            json_number(p, f"{where}, probability"), [json_number(x, f"{where}, reward") for x in paid],
        )  # fmt: skip


def index_of(given: Any, count: int, where: str, also: str = "") -> int:
    """Return `given` if it is a whole number from 0 to count - 1."""
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < count:
        return given
    raise _expected_error(where, f"a number from 0 to {count - 1}{also}", given)


def json_number(given: Any, where: str) -> float:
    """Return `given` as a float if it is a finite number."""
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not abs(given) < math.inf:
        raise _expected_error(where, "a finite number", given)
    return float(given)


def _known_mask(given: Any, table: Table, items: _Items) -> BoolArray:
    """Return the mask of known rows."""
    if not isinstance(given, list):
        raise _expected_error("known", "a list of rows [state, action]", given, "known")
    known = np.zeros((table.K, table.S, table.A), bool)
    for i, row in enumerate(given):
        if not isinstance(row, list) or len(row) != (2 if table.K == 1 else 3):
            rule = "[state, action], with the stage in front where stages differ"
            raise _expected_error(f"known[{i}]", rule, row, "known")
        known.flat[items.row(row, f"known[{i}]")] = True
    return known


def _read_noise(given: Any, table: Table, row: IntArray, items: _Items) -> SharedNoise:
    """Return the laws of events and the rows that they drive; `row` is the row of each transition."""
    if not isinstance(given, dict) or not {"laws", "rows"} <= set(given) <= {"laws", "rows", "events_observed"}:
        raise _expected_error("noise", "the keys laws, rows and optionally events_observed", given, "noise")
    laws, rows, observed = given["laws"], given["rows"], given.get("events_observed", True)
    if not isinstance(laws, list) or not isinstance(rows, list) or not isinstance(observed, bool):
        raise _expected_error("noise", "lists of laws and rows, and events_observed true or false", given, "noise")
    parsed = [_law(law, f"noise, laws[{i}]") for i, law in enumerate(laws)]
    first = np.r_[0, np.cumsum(np.bincount(row, minlength=table.row_start.size - 1))]
    assert table.line_outcome is not None
    # outcomes of each row's transitions in the order of the file
    by_row = table.line_outcome[np.argsort(row, kind="stable")]
    pairs: list[tuple[int, int, int, int]] = []
    seen: set[int] = set()
    for i, entry in enumerate(rows):
        where = f"noise, rows[{i}]"
        if not isinstance(entry, list) or len(entry) != (4 if table.K == 1 else 5):
            rule = "[state, action, law, outcomes], with the stage in front where stages differ"
            raise _expected_error(where, rule, entry, "noise")
        q = items.row(entry[:-2], where)
        law = index_of(entry[-2], len(parsed), f"{where}, law")
        events, leads, size = parsed[law][0], entry[-1], int(first[q + 1] - first[q])
        if not isinstance(leads, list) or len(leads) != len(events):
            raise _expected_error(where, f"one outcome for each of the {len(events)} events of its law", leads, "noise")
        if q in seen:
            raise FileFormatError(f"{where}: expected each row once, got it twice", column="noise")
        seen.add(q)
        found = [int(by_row[first[q] + index_of(number, size, f"{where}, outcome")]) for number in leads]
        pairs += [(q, number, law, e) for e, number in enumerate(found)]
    events, probabilities, cut = zip(*parsed, strict=True) if parsed else ((), (), ())
    return shared_noise(
        table, *np.array(pairs, np.int64).reshape(-1, 4).T, events=events, probabilities=probabilities, cut=cut,
        events_observed=observed,
    )  # fmt: skip


def _law(given: Any, where: str) -> tuple[tuple[str, ...], FloatArray, float]:
    """Return the events, the probabilities (NaN if they are null) and the mass that was cut off."""
    needed = {"events", "probabilities"}
    if not isinstance(given, dict) or not needed <= set(given) <= needed | {"cut"}:
        raise _expected_error(where, "the keys events, probabilities and optionally cut", given, "noise")
    events, p = given["events"], given["probabilities"]
    if not isinstance(events, list) or not events or len(set(map(str, events))) < len(events):
        raise _expected_error(f"{where}, events", "a list of distinct names", events, "noise")
    if p is None:
        p = [math.nan] * len(events)
    elif not isinstance(p, list) or len(p) != len(events):
        raise _expected_error(f"{where}, probabilities", f"{len(events)} numbers", p, "noise")
    else:
        p = [json_number(x, f"{where}, probabilities") for x in p]
        total = math.fsum(p)
        if not (min(p) >= 0.0 and abs(total - 1.0) <= SUM_TOL):
            message = f"{where}, probabilities: expected numbers of at least 0 that sum to 1"
            raise FileFormatError(f"{message}, got the sum {total:.12g}{sum_hint(total)}", column="noise")
    return tuple(map(str, events)), np.array(p), json_number(given.get("cut", 0.0), f"{where}, cut")
