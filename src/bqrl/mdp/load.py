"""Loads models from files; the ending of the name selects the reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bqrl.checks import bad_value
from bqrl.mdp.files import checked_ending, name_errors, read_arrays
from bqrl.mdp.files.csv import read_csv, read_facts
from bqrl.mdp.files.json import read_json
from bqrl.mdp.files.npz import read_dense, read_stored
from bqrl.mdp.files.regular import MAX_JSON, MAX_TEXT, gunzip, read_regular, size_limit
from bqrl.mdp.model import MDP
from bqrl.mdp.validation import check_horizon

LIMITS = {".csv": MAX_TEXT, ".csv.gz": MAX_TEXT, ".json": MAX_JSON}
Kinds = Mapping[str, tuple[str, Callable[[dict[str, Any]], Any]]]  # marker array -> (what a file holds, its reader)


def load_model(path: str | Path, *, max_bytes: int | None = None, kinds: Kinds | None = None, **options: Any) -> Any:
    """Return the model in a file; `options` are horizon, start, discount and columns, see `bqrl.load`.

    `kinds` lists other content that an .npz file may hold, each marked by the name of an array.
    """
    place = Path(path)
    given = {name: value for name, value in options.items() if value is not None}
    content = _content(place, max_bytes)
    marker = next((marker for marker in kinds or () if marker in content), None) if isinstance(content, dict) else None
    if kinds is not None and marker is not None:
        what, reader = kinds[marker]
        for name in given:
            raise bad_value(name, given[name], f"not be given for {place.name}, which holds a {what}")
        with name_errors(place):
            return reader(content)
    if "horizon" in given:
        check_horizon(given["horizon"])
    with name_errors(place, given):
        if place.name.lower().endswith((".csv", ".csv.gz")):
            return MDP.from_table(**read_csv(content, **given))
        if "columns" in given:
            raise bad_value("columns", given["columns"], "be given for .csv files only", remedy="omit it")
        if not isinstance(content, dict):
            return MDP.from_table(**read_json(content, **given))
        if "transitions" in content:
            return MDP(**read_dense(content) | given)
        mdp = MDP.from_table(**read_stored(content))
        return mdp.replace(**given) if given else mdp


def states_horizon(path: str | Path) -> bool:
    """Return whether a model file states its horizon; a .csv file need not."""
    place = Path(path)
    if checked_ending(place) in (".npz", ".json"):
        return True
    with name_errors(place):
        return "horizon" in read_facts(_content(place, None))


def _content(place: Path, max_bytes: int | None) -> Any:
    """Return the arrays of an .npz file, or the bytes of a text file."""
    kind = checked_ending(place, "read other tables with pandas and pass them to bqrl.MDP")
    if kind == ".npz":
        return read_arrays(place, max_bytes=max_bytes)
    limit = size_limit(max_bytes, LIMITS[kind])
    with name_errors(place):
        content = read_regular(place, limit)
        return gunzip(content, limit) if kind == ".csv.gz" else content
