"""Rows known exactly, declared as tuples or as a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from bqrl.mdp.columns import MODEL
from bqrl.mdp.files.sources import is_frame
from bqrl.mdp.files.tables import read_table


def copy_rows(given: Any) -> Any:
    """Return the items of a list or iterator as a new list of tuples; return anything else unchanged."""
    if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
        return given
    return [tuple(item) if isinstance(item, list) else item for item in given]


def known_rows(given: Any) -> Any:
    """Return known rows as tuples ([stage,] state, action, next_state, probability, reward), from these or from a table.

    A table has the columns of a model; its stages are counted from 0 or 1, whichever is the lowest.

    >>> known_rows({"state": ["b"], "action": ["x"], "next_state": ["b"], "probability": [1], "reward": [0]})
    [('b', 'x', 'b', 1.0, 0.0)]
    """
    if not (isinstance(given, (str, Path)) or is_frame(given)) or given == []:
        return copy_rows(given)
    table = read_table(given, MODEL)
    parts: list[Any] = []
    if "stage" in table.numbers:
        stage = table.numbers["stage"]
        bad = np.flatnonzero((stage != np.floor(stage)) | (stage < 0))
        if bad.size:
            raise table.error(bad[0], f"expected a whole number, got {stage[bad[0]]:g}; number the stages", "stage")
        parts.append((stage - min(1.0, stage.min())).astype(int).tolist())
    for role in ("state", "action", "next_state"):
        labels = table.codes[role].labels
        parts.append([labels[i] for i in table.codes[role].code])
    return list(zip(*parts, table.numbers["probability"].tolist(), table.numbers["reward"].tolist(), strict=True))
