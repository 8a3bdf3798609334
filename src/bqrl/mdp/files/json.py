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
the rewards, and `comment` is ignored. `noise` is described in
`bqrl.mdp.files.json_noise`.
"""

from __future__ import annotations

import json
from collections import Counter
from typing import Any, NoReturn

import numpy as np

from bqrl.checks import nearest, shown
from bqrl.errors import ArgumentError, FileFormatError
from bqrl.mdp.arrays import BoolArray
from bqrl.mdp.build import MAX_ID, Table, check_horizon, from_columns
from bqrl.mdp.files.json_items import Labels, dumps, index_of, number_of, row_of
from bqrl.mdp.files.json_noise import noise_lines, read_noise
from bqrl.mdp.model import MDP
from bqrl.mdp.noise import outcome_numbers

KEYS = ("horizon", "discount", "start", "states", "actions", "known", "units", "transitions", "noise", "comment")


def read_json(content: bytes, horizon: int | None, start: Any, discount: float | None) -> MDP:
    """Model of the bytes of a JSON file."""
    data = _parse(content)
    states, S = _labels(data, "states")
    actions, A = _labels(data, "actions")
    rows = data["transitions"]
    if not isinstance(rows, list) or not rows:
        raise FileFormatError("transitions must be a list of [state, action, next state, probability, reward]")
    width = len(rows[0]) if isinstance(rows[0], list) else 0
    columns = [_transition(i, row, width, states, S, actions, A) for i, row in enumerate(rows)]
    stage, s, a, s_next = np.array([line[:4] for line in columns], np.int64).T
    p = np.array([line[4] for line in columns], np.float64)
    staged = width == 6

    stored = check_horizon(data["horizon"]) if "horizon" in data else None
    lengths = {len(line[5]) for line in columns} - {1}
    if len(lengths) > 1 or (lengths and (staged or stored not in (None, *lengths))):
        raise FileFormatError("a list of rewards must hold one reward per stage, and the transitions no stage")
    spread = lengths.pop() if lengths else 1
    paid = np.array([line[5] if len(line[5]) == spread else line[5] * spread for line in columns], np.float64)
    H = spread if spread > 1 else stored
    if horizon is not None and H is not None and horizon != H and (staged or spread > 1):
        raise ArgumentError(f"horizon is fixed at {H}: the stages of this model differ", name="horizon", value=horizon)
    H = H if staged or spread > 1 or horizon is None else horizon
    kinds, reward = np.unique(paid, axis=0, return_inverse=True)  # outcomes merge if they pay the same at every stage
    table, H = from_columns(
        stage, s, a, s_next, p, reward.reshape(-1).astype(np.float64), H, staged=staged, S=S, A=A, keep_zeros=True
    )
    row = (stage * S + s) * A + a
    outcome = outcome_numbers(row, s_next, reward.reshape(-1).astype(np.float64))
    _pay(table, kinds)
    return MDP.from_table(
        table,
        H,
        data.get("start", 0) if start is None else start,
        data.get("discount", 1.0) if discount is None else discount,
        known=_known(data.get("known", []), table, states, actions),
        state_names=states,
        action_names=actions,
        units=data.get("units"),
        noise=read_noise(data["noise"], table, row, outcome, states, actions) if "noise" in data else None,
    )


def write_json(mdp: MDP) -> bytes:
    """JSON of a model, one transition per line."""
    K, S, A = mdp.available.shape
    sizes = np.diff(mdp.row_start)
    state: list[Any] = list(mdp.state_names or range(S))
    action: list[Any] = list(mdp.action_names or range(A))
    place = [([] if K == 1 else [q // (S * A)]) + [state[q // A % S], action[q % A]] for q in range(K * S * A)]
    extra = np.flatnonzero(mdp.known.reshape(-1) & (sizes != 1))
    paid = mdp.reward.T.tolist() if len(mdp.reward) > 1 else mdp.reward[0].tolist()
    outcomes = zip(
        np.repeat(np.arange(K * S * A), sizes).tolist(),
        mdp.successor.tolist(),
        mdp.probability.tolist(),
        paid,
        strict=True,
    )
    head = {
        "horizon": mdp.H,
        "discount": mdp.discount,
        "start": state[int(mdp.mu.argmax())] if np.count_nonzero(mdp.mu) == 1 else mdp.mu.tolist(),
        "states": state if mdp.state_names else S,
        "actions": action if mdp.action_names else A,
        "known": [place[q] for q in extra],
    }
    head |= {"units": mdp.units} if mdp.units else {}
    lines = [f"  {json.dumps(key)}: {dumps(value)}," for key, value in head.items()]
    body = ",\n".join(f"    {dumps([*place[q], state[t], p, r])}" for q, t, p, r in outcomes)
    noise = [] if mdp.noise is None else noise_lines(mdp.noise, place)
    return "\n".join(["{", *lines, *noise, '  "transitions": [', body, "  ]", "}", ""]).encode()


def _parse(content: bytes) -> dict[str, Any]:
    """The object that a file holds, with its keys checked."""
    try:
        data = json.loads(
            content.decode("utf-8-sig"), parse_constant=_no_constant, parse_int=_whole, object_pairs_hook=_distinct
        )
    except json.JSONDecodeError as error:
        raise FileFormatError(f"line {error.lineno}: this is not JSON ({error.msg})", line=error.lineno) from None
    except UnicodeDecodeError:
        raise FileFormatError("this is not text in UTF-8, so it is not JSON") from None
    except RecursionError:
        raise FileFormatError("the JSON is nested too deeply") from None
    if not isinstance(data, dict):
        raise FileFormatError(f"a model is a JSON object with the keys {', '.join(KEYS)}, got a {type(data).__name__}")
    for key in data:
        if key not in KEYS:
            raise FileFormatError(f"unknown key {shown(key)}{nearest(key, KEYS)}", column=key)
    for key in ("states", "actions", "transitions"):
        if key not in data:
            raise FileFormatError(f"the key {key!r} is missing", column=key)
    return data


def _whole(digits: str) -> int | float:
    """An integer; one that no index or count can be becomes a float, at once for any number of digits."""
    return int(digits) if len(digits) <= 18 else float(digits)


def _no_constant(name: str) -> NoReturn:
    raise FileFormatError(f"{name} is not a number that a model can hold")


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; raises FileFormatError if a key is given twice."""
    data = dict(pairs)
    if len(data) < len(pairs):
        key = _repeated([key for key, _ in pairs])
        raise FileFormatError(f"the key {shown(key)} is given twice", column=key)
    return data


def _repeated(names: list[str]) -> str:
    return next(name for name, times in Counter(names).items() if times > 1)


def _labels(data: dict[str, Any], key: str) -> tuple[Labels, int]:
    """Index of each name, and how many states or actions there are."""
    given = data[key]
    if isinstance(given, list) and given and all(isinstance(name, str) for name in given):
        numbered = {name: i for i, name in enumerate(given)}
        if len(numbered) < len(given):
            raise FileFormatError(f"{key} must be distinct, got {shown(_repeated(given))} twice", column=key)
        return numbered, len(given)
    if isinstance(given, int) and not isinstance(given, bool) and 1 <= given <= MAX_ID:
        return None, given
    raise FileFormatError(f"{key} must be a list of names or their number, got {shown(given)}", column=key)


def _transition(
    i: int, row: Any, width: int, states: Labels, S: int, actions: Labels, A: int
) -> tuple[int, int, int, int, float, list[float]]:
    """One transition: stage, state, action, next state, probability, rewards."""
    where = f"transitions[{i}]"
    if not isinstance(row, list) or len(row) != width or width not in (5, 6):
        raise FileFormatError(
            f"{where} must be [state, action, next state, probability, reward], with the stage in front in all or none"
        )
    stage = index_of(row[0], None, MAX_ID, f"{where}, stage") if width == 6 else 0
    s, a, s_next, p, r = row[-5:]
    paid = r if isinstance(r, list) else [r]
    if not paid:
        raise FileFormatError(f"{where}: the list of rewards is empty")
    return (
        stage,
        index_of(s, states, S, f"{where}, state"),
        index_of(a, actions, A, f"{where}, action"),
        index_of(s_next, states, S, f"{where}, next state"),
        number_of(p, f"{where}, probability"),
        [number_of(x, f"{where}, reward") for x in paid],
    )


def _pay(table: Table, kinds: Any) -> None:
    """Replace the numbers that stand for rewards by the rewards."""
    if table.reward is not None:
        table.reward = np.ascontiguousarray(kinds[table.reward[0].astype(np.int64)].T)
    else:
        assert table.row_reward is not None
        by_row = table.row_reward.reshape(-1).astype(np.int64)
        table.row_reward = np.ascontiguousarray(kinds[by_row].T).reshape(-1, table.S, table.A)


def _known(given: Any, table: Table, states: Labels, actions: Labels) -> BoolArray:
    """The mask of known rows."""
    if not isinstance(given, list):
        raise FileFormatError("known must be a list of rows [state, action]")
    known = np.zeros(table.K * table.S * table.A, bool)
    for i, row in enumerate(given):
        if not isinstance(row, list) or len(row) != (2 if table.K == 1 else 3):
            raise FileFormatError(f"known[{i}] must be [state, action], with the stage in front where stages differ")
        known[row_of(row, table, states, actions, f"known[{i}]")] = True
    return known.reshape(table.K, table.S, table.A)
