"""Models from frames: a pandas or polars frame, a dict of columns or a list of dicts, with one row per outcome."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bqrl.checks import shown
from bqrl.errors import ModelError
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.build import MAX_ID, Table
from bqrl.mdp.headers import STAGE, TEXT, match_columns
from bqrl.mdp.listing import Ids, Listing, to_table


def is_frame(thing: Any) -> bool:
    """Whether `thing` has named columns: a pandas or polars frame, a dict of columns or a list of dicts."""
    if isinstance(thing, (list, tuple)):
        return bool(thing) and all(isinstance(row, Mapping) for row in thing)
    if isinstance(thing, Mapping) or hasattr(thing, "collect_schema"):  # a lazy frame warns if asked for its columns
        return True
    return hasattr(thing, "columns") and hasattr(thing, "__getitem__") and not isinstance(thing, np.ndarray)


def read_frame(
    frame: Any,
    columns: Mapping[str, str] | None,
    horizon: int | None,
    state_names: Any = None,
    action_names: Any = None,
) -> tuple[Table, int, dict[str, Any]]:
    """Table, horizon, and names and noise of a frame with one row per outcome."""
    frame = _by_column(frame)
    header = list(frame.keys() if isinstance(frame, Mapping) else frame.columns)
    place = match_columns(header, columns)
    content = {role: _column(frame[header[i]], str(header[i])) for role, i in place.items()}
    lengths = {len(column) for column in content.values()}
    if len(lengths) > 1 or not lengths.pop():
        raise ModelError("the columns of a table must be of one length and hold at least one transition")
    headers = {role: str(header[i]) for role, i in place.items()}
    numbers = {role: _floats(column, headers[role]) for role, column in content.items() if role not in TEXT}
    listing = Listing(
        ids={role: _coded(column) for role, column in content.items() if role in TEXT},
        probability=numbers["probability"],
        reward=numbers["reward"],
        stage=numbers.get(STAGE),
        headers=headers,
    )
    return to_table(listing, horizon, state_names, action_names)


def _by_column(frame: Any) -> Any:
    """The frame with all ids as columns: a list of dicts turned, a named index reset, a lazy frame collected."""
    if isinstance(frame, (list, tuple)):
        return {name: [row.get(name) for row in frame] for name in dict.fromkeys(key for row in frame for key in row)}
    if hasattr(frame, "collect"):
        return frame.collect()
    if hasattr(frame, "reset_index") and any(name is not None for name in frame.index.names):
        return frame.reset_index()
    return frame


def _column(column: Any, header: str) -> Any:
    """A column as a flat array."""
    array = column.to_numpy() if hasattr(column, "to_numpy") else np.asarray(column)
    if array.ndim != 1:
        raise ModelError(f"the column {shown(header)} must be a flat list, got shape {array.shape}", column=header)
    return array


def _coded(column: Any) -> Ids:
    """Distinct ids of a column as text, in order of appearance."""
    if column.dtype.kind in "iuf":
        distinct, first, code = np.unique(column, return_index=True, return_inverse=True)
        order = np.argsort(first)
        rank = np.empty_like(order)
        rank[order] = np.arange(order.size)
        return Ids(rank[code], [_text(distinct[i].item()) for i in order])
    index: dict[str, int] = {}
    code = np.array([index.setdefault(_text(cell), len(index)) for cell in column.tolist()], np.int64)
    return Ids(code, list(index))


def _text(cell: Any) -> str:
    """An id as text; 3.0 is 3, and a missing value is empty."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType") or (isinstance(cell, float) and math.isnan(cell)):
        return ""
    if isinstance(cell, float) and cell.is_integer() and abs(cell) <= MAX_ID:
        return str(int(cell))
    return str(cell).strip()


def _floats(column: Any, header: str) -> FloatArray:
    """A column as numbers."""
    try:
        if column.dtype.kind in "bc":
            raise TypeError
        return np.array(column, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        bad = next((i for i, cell in enumerate(column.tolist()) if not isinstance(cell, (int, float))), 0)
        message = f"row {bad}: {shown(column[bad])} is not a number (column {header})"
        raise ModelError(message, column=header) from None
