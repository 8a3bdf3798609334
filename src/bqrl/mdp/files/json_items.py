"""Checked items of a JSON file: names, numbers and rows, each with the place that an error names."""

from __future__ import annotations

import json
import math
from typing import Any

from bqrl.checks import shown
from bqrl.errors import FileFormatError
from bqrl.mdp.build import Table

Labels = dict[str, int] | None  # index of each name, if there are names


def dumps(value: Any) -> str:
    """JSON on one line; raises ValueError for NaN and infinities."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False)


def index_of(given: Any, names: Labels, count: int, where: str) -> int:
    """Index of a state or action given by name or number."""
    if isinstance(given, str) and names is not None and given in names:
        return names[given]
    if isinstance(given, int) and not isinstance(given, bool) and 0 <= given < count:
        return given
    rule = f"a number from 0 to {count - 1}" + ("" if names is None else " or a name of the list")
    raise FileFormatError(f"{where}: expected {rule}, got {shown(given)}")


def number_of(given: Any, where: str) -> float:
    """A finite number."""
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not abs(given) < math.inf:
        raise FileFormatError(f"{where}: expected a finite number, got {shown(given)}")
    return float(given)


def row_of(given: list[Any], table: Table, states: Labels, actions: Labels, where: str) -> int:
    """Number of the row [state, action], or [stage, state, action]."""
    h = index_of(given[0], None, table.K, f"{where}, stage") if table.K > 1 else 0
    s = index_of(given[-2], states, table.S, f"{where}, state")
    return (h * table.S + s) * table.A + index_of(given[-1], actions, table.A, f"{where}, action")
