"""Writes models as CSV, with the facts that the columns cannot hold above the header."""

from __future__ import annotations

import csv
import io
import json
import warnings
from typing import Any

import numpy as np

from bqrl.errors import ArgumentError, ModelWarning
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.build import check_gaps
from bqrl.mdp.headers import EVENT, LAW, STAGE
from bqrl.mdp.model import MDP
from bqrl.mdp.noise import SharedNoise

PLAIN = {"state": "idstatefrom", "action": "idaction", "next_state": "idstateto"}
Ends = tuple[tuple[int, int], tuple[int, int]]  # smallest and largest state, and action, in the columns


def write_csv(mdp: MDP, *, plain: bool = False) -> bytes:
    """CSV of a model; raises ArgumentError if the columns cannot hold it.

    `plain` writes the columns alone, with ids as numbers, for tools that read no comments.
    """
    K, S, A = mdp.available.shape
    shared = None if plain or mdp.noise is None or np.all(mdp.noise.row_law < 0) else mdp.noise
    if shared is not None and not shared.known:
        warnings.warn(
            "the .csv file does not keep the noise, whose laws are not known; save to .json or .npz",
            ModelWarning,
            stacklevel=4,
        )
        shared = None
    outcome, event, probability = _lines(mdp, shared)
    row = np.repeat(np.arange(K * S * A), np.diff(mdp.row_start))[outcome]
    s, a, s_next = row // A % S, row % A, mdp.successor[outcome]
    ends = (min(s.min(), s_next.min()), max(s.max(), s_next.max())), (a.min(), a.max())
    _refuse(mdp, shared, ends, plain)
    check_gaps(K, S, A, mdp.successor.size)
    text = io.StringIO()
    if not plain:
        text.writelines(f"# {key}: {value}\n" for key, value in _stated(mdp, shared, ends))
    state, action = _ids(mdp.state_names, S, plain), _ids(mdp.action_names, A, plain)
    columns: dict[str, Any] = {} if mdp.stationary else {STAGE: (row // (S * A)).tolist()}
    columns |= {"state": [state[i] for i in s.tolist()], "action": [action[i] for i in a.tolist()]}
    if shared is not None:
        if len(shared.events) > 1:
            columns[LAW] = [law if law >= 0 else "" for law in shared.row_law.reshape(-1)[row].tolist()]
        names = [*(name for names in shared.event_names for name in names), ""]
        columns[EVENT] = [names[i] for i in event.tolist()]
    columns["next_state"] = [state[i] for i in s_next.tolist()]
    columns["probability"] = map(repr, probability.tolist())
    columns["reward"] = map(repr, mdp.reward[0, outcome].tolist())
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([PLAIN.get(role, role) if plain else role for role in columns])
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()


def _lines(mdp: MDP, noise: SharedNoise | None) -> tuple[IntArray, IntArray, FloatArray]:
    """Outcome, event (-1: none) and probability of every line: one per event in rows with a law, else one per outcome."""
    if noise is None:
        outcome = np.arange(mdp.successor.size)
        return outcome, np.full(outcome.size, -1), mdp.probability
    row = np.repeat(np.arange(mdp.row_start.size - 1), np.diff(mdp.row_start))
    free = np.flatnonzero(noise.row_law.reshape(-1)[row] < 0)
    outcome = np.r_[free, noise.pair_outcome]
    event = np.r_[np.full(free.size, -1), noise.pair_event]
    order = np.lexsort((event, row[outcome]))
    outcome, event = outcome[order], event[order]
    return outcome, event, np.where(event < 0, mdp.probability[outcome], np.concatenate(noise.probabilities)[event])


def _refuse(mdp: MDP, noise: SharedNoise | None, ends: Ends, plain: bool) -> None:
    """Raise ArgumentError if the columns cannot hold the model."""
    names = (mdp.state_names or ()) + (mdp.action_names or ())
    events = () if noise is None else noise.event_names
    single = np.diff(mdp.row_start) == 1
    zero = mdp.probability == 0
    for refused, what in (
        (len(mdp.reward) > 1, "rewards that differ by stage on a stationary kernel"),
        (bool(zero.any()) and noise is None, "possible successors of probability zero"),
        (not np.array_equal(mdp.known.reshape(-1), single), "rows known to learners"),
        (any(name != name.strip() for name in names), "names with blank ends"),
        (any(len(set(labels)) < len(labels) for labels in events), "events that share a name"),
        (any(not name or name != name.strip() for labels in events for name in labels), "events without a proper name"),
        (plain and ends[0] != (0, mdp.S - 1), "a first or last state without transitions, if plain"),
        (plain and ends[1] != (0, mdp.A - 1), "a first or last action that is never available, if plain"),
    ):
        if refused:
            raise ArgumentError(f"a .csv file cannot hold {what}; save to .npz instead", name="path")


def _ids(names: tuple[str, ...] | None, count: int, plain: bool) -> list[str]:
    """Ids as a file writes them: names, or numbers, which count from 1 if the names do."""
    if names is None or (plain and names != _counted(count)):
        return [str(i) for i in range(count)]
    return list(names)


def _counted(count: int) -> tuple[str, ...]:
    return tuple(str(i) for i in range(1, count + 1))


def _stated(mdp: MDP, noise: SharedNoise | None, ends: Ends) -> list[tuple[str, str]]:
    """The facts of a model that its columns do not hold."""
    facts = [("horizon", str(mdp.H))] if mdp.stationary else []
    if mdp.discount != 1.0:
        facts.append(("discount", repr(mdp.discount)))
    possible = np.flatnonzero(mdp.mu).tolist()
    if possible != [0]:
        law = {mdp.state_label(s): mdp.mu[s].item() for s in possible}
        simple = all(_simple(name) for name in law)
        first = mdp.state_label(possible[0])
        if len(law) == 1:
            facts.append(("start", first if simple else json.dumps({first: 1.0}, ensure_ascii=False)))
        else:
            short = ", ".join(f"{name}={share!r}" for name, share in law.items())
            facts.append(("start", short if simple else json.dumps(law, ensure_ascii=False)))
    for key, names, count, (low, high) in (
        ("states", mdp.state_names, mdp.S, ends[0]),
        ("actions", mdp.action_names, mdp.A, ends[1]),
    ):
        full = (low, high) == (0, count - 1)
        if names is None and not full:
            facts.append((key, str(count)))
        elif names is not None and not (full and names == _counted(count)):
            simple = len(names) > 1 and all(map(_simple, names))
            facts.append((key, ", ".join(names) if simple else json.dumps(names, ensure_ascii=False)))
    if noise is not None and not noise.events_observed:
        facts.append(("events_observed", "no"))
    if noise is not None and any(noise.cut):
        used = np.unique(noise.row_law[noise.row_law >= 0]).tolist()  # the columns hold no other laws
        facts.append(("cut", ", ".join(repr(noise.cut[law]) for law in used)))
    return facts + ([("units", mdp.units)] if mdp.units else [])


def _simple(name: str) -> bool:
    """Whether a name can stand in a list without quotes."""
    return name == name.strip() and bool(name) and not set(name) & set(",;=[]{}\"'#")
