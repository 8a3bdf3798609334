"""The key `noise` of a JSON file: the laws of events that rows share, and where each event leads.

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

import math
from typing import Any

import numpy as np

from bqrl.checks import shown
from bqrl.errors import FileFormatError
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.build import Table
from bqrl.mdp.files.json_items import Labels, dumps, index_of, number_of, row_of
from bqrl.mdp.noise import LAW_TOL, SharedNoise, shared_noise
from bqrl.mdp.validation import percentages


def noise_lines(noise: SharedNoise, place: list[list[Any]]) -> list[str]:
    """The lines of the key `noise`, one per law and one per row with a law."""
    laws = [
        {"events": list(events), "probabilities": p.tolist() if noise.known else None, "cut": cut}
        for events, p, cut in zip(noise.event_names, noise.probabilities, noise.cut, strict=True)
    ]
    driven = [(q, law) for q, law in enumerate(noise.row_law.reshape(-1).tolist()) if law >= 0]
    rows = [[*place[q], law, noise.outcome_of(q).tolist()] for q, law in driven]
    return [
        '  "noise": {',
        *_block("laws", laws),
        f'    "events_observed": {dumps(noise.events_observed)},',
        *_block("rows", rows, ""),
        "  },",
    ]


def _block(key: str, items: list[Any], end: str = ",") -> list[str]:
    """The lines of a key of `noise` whose value is a list, one item per line."""
    return [f'    "{key}": [', ",\n".join(f"      {dumps(item)}" for item in items), f"    ]{end}"]


def read_noise(
    given: Any, table: Table, row: IntArray, outcome: IntArray, states: Labels, actions: Labels
) -> SharedNoise:
    """The laws of events and the rows that they drive; `row` and `outcome` are those of the transitions."""
    if not isinstance(given, dict) or not {"laws", "rows"} <= set(given) <= {"laws", "rows", "events_observed"}:
        raise FileFormatError("noise must have the keys laws, rows and optionally events_observed", column="noise")
    laws, rows, observed = given["laws"], given["rows"], given.get("events_observed", True)
    if not isinstance(laws, list) or not isinstance(rows, list) or not isinstance(observed, bool):
        raise FileFormatError("noise: laws and rows must be lists, events_observed true or false", column="noise")
    parsed = [_law(law, f"noise, laws[{i}]") for i, law in enumerate(laws)]
    first = np.r_[0, np.cumsum(np.bincount(row, minlength=table.row_start.size - 1))]
    by_row = outcome[np.argsort(row, kind="stable")]  # outcomes of each row's transitions in the order of the file
    pairs: list[tuple[int, int, int, int]] = []
    seen: set[int] = set()
    for i, entry in enumerate(rows):
        where = f"noise, rows[{i}]"
        if not isinstance(entry, list) or len(entry) != (4 if table.K == 1 else 5):
            raise FileFormatError(
                f"{where} must be [state, action, law, outcomes], with the stage in front where stages differ"
            )
        q = row_of(entry[:-2], table, states, actions, where)
        law = index_of(entry[-2], None, len(parsed), f"{where}, law")
        leads, size = entry[-1], int(first[q + 1] - first[q])
        if not isinstance(leads, list) or len(leads) != len(parsed[law][0]):
            raise FileFormatError(
                f"{where} must hold one outcome for each of the {len(parsed[law][0])} events of its law"
            )
        if q in seen:
            raise FileFormatError(f"{where}: the row is listed twice")
        seen.add(q)
        for e, number in enumerate(leads):
            pairs.append((q, int(by_row[first[q] + index_of(number, None, size, f"{where}, outcome")]), law, e))
    return shared_noise(
        np.array(pairs, np.int64).reshape(-1, 4).T,
        table.row_start,
        (table.K, table.S, table.A),
        events=tuple(events for events, _, _ in parsed),
        probabilities=tuple(p for _, p, _ in parsed),
        cut=tuple(cut for _, _, cut in parsed),
        events_observed=observed,
    )


def _law(given: Any, where: str) -> tuple[tuple[str, ...], FloatArray, float]:
    """Events, probabilities (NaN if they are null) and the mass that was cut off."""
    needed = {"events", "probabilities"}
    if not isinstance(given, dict) or not needed <= set(given) <= needed | {"cut"}:
        raise FileFormatError(
            f"{where} must have the keys events, probabilities and optionally cut, got {shown(given)}"
        )
    events, p = given["events"], given["probabilities"]
    if not isinstance(events, list) or not events or len(set(map(str, events))) < len(events):
        raise FileFormatError(f"{where}, events must be a list of distinct names, got {shown(events)}")
    if p is None:
        p = np.full(len(events), np.nan)
    elif not isinstance(p, list) or len(p) != len(events):
        raise FileFormatError(f"{where}, probabilities must hold {len(events)} numbers, got {shown(p)}")
    else:
        p = np.array([number_of(x, f"{where}, probabilities") for x in p])
        if not (p.min() >= 0.0 and abs(math.fsum(p) - 1.0) <= LAW_TOL):
            total = math.fsum(p)
            found = f"the sum {total:.12g}{percentages(total)}"
            raise FileFormatError(f"{where}, probabilities must be at least 0 and sum to 1, got {found}")
    return tuple(map(str, events)), p, number_of(given.get("cut", 0.0), f"{where}, cut")
