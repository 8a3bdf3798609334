"""Writes models as CSV, with the facts that the columns cannot hold above the header."""

from __future__ import annotations

import csv
import io
import json
from typing import Any

import numpy as np

from bqrl.errors import ArgumentError
from bqrl.mdp.build import check_gaps
from bqrl.mdp.columns import ROLES, STAGE
from bqrl.mdp.model import MDP

PLAIN = ("idstatefrom", "idaction", "idstateto", "probability", "reward")


def write_csv(mdp: MDP, *, plain: bool = False) -> bytes:
    """CSV of a model; raises ValueError if the columns cannot hold it.

    `plain` writes the columns alone, with ids as numbers, for tools that read no comments.
    """
    K, S, A = mdp.available.shape
    sizes = np.diff(mdp.row_start)
    row = np.repeat(np.arange(K * S * A), sizes)
    s, a, s_next = row // A % S, row % A, mdp.successor
    ends = (min(s.min(), s_next.min()), max(s.max(), s_next.max())), (a.min(), a.max())
    for refused, what in (
        (len(mdp.reward) > 1, "rewards that differ by stage on a stationary kernel"),
        (np.any(mdp.probability == 0), "possible successors of probability zero"),
        (not np.array_equal(mdp.known.reshape(-1), sizes == 1), "rows known to learners"),
        (
            any(name != name.strip() for name in (mdp.state_names or ()) + (mdp.action_names or ())),
            "names with blank ends",
        ),
        (plain and ends[0] != (0, S - 1), "a first or last state without transitions, if plain"),
        (plain and ends[1] != (0, A - 1), "a first or last action that is never available, if plain"),
    ):
        if refused:
            raise ArgumentError(f"a .csv file cannot hold {what}; save to .npz instead", name="path")
    check_gaps(K, S, A, row.size)
    text = io.StringIO()
    if not plain:
        text.writelines(f"# {key}: {value}\n" for key, value in _stated(mdp, ends))
    state, action = _ids(mdp.state_names, S, plain), _ids(mdp.action_names, A, plain)
    columns: list[Any] = [
        [state[i] for i in s.tolist()],
        [action[i] for i in a.tolist()],
        [state[i] for i in s_next.tolist()],
        map(repr, mdp.probability.tolist()),
        map(repr, mdp.reward[0].tolist()),
    ]
    header = list(PLAIN if plain else ROLES)
    if not mdp.stationary:
        columns.insert(0, (row // (S * A)).tolist())
        header.insert(0, STAGE)
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(zip(*columns, strict=True))
    return text.getvalue().encode()


def _ids(names: tuple[str, ...] | None, count: int, plain: bool) -> list[str]:
    """Ids as a file writes them: names, or numbers, which count from 1 if the names do."""
    if names is None or (plain and names != _counted(count)):
        return [str(i) for i in range(count)]
    return list(names)


def _counted(count: int) -> tuple[str, ...]:
    return tuple(str(i) for i in range(1, count + 1))


def _stated(mdp: MDP, ends: tuple[tuple[int, int], tuple[int, int]]) -> list[tuple[str, str]]:
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
    return facts + ([("units", mdp.units)] if mdp.units else [])


def _simple(name: str) -> bool:
    """Whether a name can stand in a list without quotes."""
    return name == name.strip() and bool(name) and not set(name) & set(",=[]{}\"'#")
