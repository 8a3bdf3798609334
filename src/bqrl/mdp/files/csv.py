"""Writes models as CSV: one line per possible transition, and the facts that columns cannot hold above the header.

    # horizon: 20
    # start: Well=0.8, Sick=0.2
    state,action,next_state,probability,reward
    Well,Wait,Sick,0.1,5
    ...

`bqrl.mdp.load` reads such files.
"""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np

from bqrl.checks import warn_caller
from bqrl.errors import ArgumentError
from bqrl.mdp import model
from bqrl.mdp.arrays import IntArray
from bqrl.mdp.columns import EVENT, LAW, MODEL, STAGE
from bqrl.mdp.files.sources import BLANK
from bqrl.mdp.noise import SharedNoise
from bqrl.mdp.outcomes import Outcomes
from bqrl.mdp.table import check_gaps

PLAIN = {"state": "idstatefrom", "action": "idaction", "next_state": "idstateto"}
Used = tuple[tuple[int, int], tuple[int, int]]  # smallest and largest state, and action, in the columns


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
    further = None if plain else mdp.further
    outcome, event, probability = np.arange(row.size), np.full(row.size, -1), mdp.probability
    case = outcome  # the case of the outcome that each line describes
    if further is not None:
        outcome, case = further.cases_of(outcome)
        probability, event = further.joint(probability), np.full(case.size, -1)
    if noise is not None:  # one line per event in rows with a law, else one per case of an outcome
        free = np.flatnonzero(noise.row_law.reshape(-1)[row[outcome]] < 0)
        case = np.r_[case[free], _event_cases(noise, further)]
        probability = np.r_[probability[free], np.concatenate(noise.probabilities)[noise.pair_event]]
        outcome, event = np.r_[outcome[free], noise.pair_outcome], np.r_[event[free], noise.pair_event]
        order = np.lexsort((event, row[outcome]))
        outcome, event, case, probability = (column[order] for column in (outcome, event, case, probability))
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
    columns["reward"] = map(repr, (mdp.reward if plain else mdp.own_reward)[0, outcome].tolist())
    for name, values in ({} if further is None else further.values).items():
        columns[f"{MODEL.extra}{name}"] = map(repr, values[0, case].tolist())
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([PLAIN.get(role, role) if plain else role for role in columns])
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()


def _event_cases(noise: SharedNoise, further: Outcomes | None) -> IntArray:
    """Return the case of every pair (row, event): the cases of an outcome are those of its events, in their order, or one."""
    outcome = noise.pair_outcome
    if further is None or not outcome.size:
        return outcome
    order = np.argsort(outcome, kind="stable")
    first = np.flatnonzero(np.r_[True, np.diff(outcome[order]) != 0])
    sizes = np.diff(np.r_[first, outcome.size])
    rank = np.empty(outcome.size, np.int64)
    rank[order] = np.arange(outcome.size) - np.repeat(first, sizes)
    cases, events = np.diff(further.start)[outcome], np.bincount(outcome)[outcome]
    if np.any((cases > 1) & (cases != events)):
        message = "expected a model that a .csv file can hold, got one whose outcomes do not follow from its events"
        raise ArgumentError(f"{message}; save to .npz instead", name="path")
    return further.start[outcome] + np.where(cases > 1, rank, 0)


def _check_storable(mdp: model.MDP, noise: SharedNoise | None, used: Used, plain: bool) -> None:
    """Raise ArgumentError if the columns cannot hold the model."""
    names = (mdp.state_names or ()) + (mdp.action_names or ())
    for refused, what in (
        (len(mdp.reward if plain else mdp.own_reward) > 1, "rewards that differ by stage on a stationary kernel"),
        (
            not plain and mdp.further is not None and mdp.further.stages > 1,
            "outcomes that differ by stage on a stationary kernel",
        ),
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
    if mdp.terminal is not None:
        values = {mdp.state_label(s): mdp.terminal[s].item() for s in np.flatnonzero(mdp.terminal).tolist()}
        facts.append(("terminal", json.dumps(values, ensure_ascii=False)))
        if all(map(_is_simple, values)):
            facts[-1] = ("terminal", ", ".join(f"{name}={value!r}" for name, value in values.items()))
    if mdp.words:
        listed = ", ".join(f"{key}={text}" for key, text in mdp.words.items())
        simple = all(map(_is_simple, mdp.words.values()))
        facts.append(("words", listed if simple else json.dumps(mdp.words, ensure_ascii=False)))
    if noise is not None and not noise.events_observed:
        facts.append(("events_observed", "no"))
    if noise is not None and any(noise.cut):
        laws = np.unique(noise.row_law[noise.row_law >= 0]).tolist()  # the columns hold no other laws
        facts.append(("cut", ", ".join(repr(noise.cut[law]) for law in laws)))
    return facts + ([("units", mdp.units)] if mdp.units else [])


def _is_simple(name: str) -> bool:
    """Return whether a name can be listed without quotes."""
    return name == name.strip() and bool(name) and not set(name) & set(",;=[]{}\"'#")
