"""Loads models from files; the ending of the name selects the reader."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from bqrl.checks import bad_value
from bqrl.mdp.columns import MODEL
from bqrl.mdp.files import CHECKERS, checked_ending, name_errors, read_arrays
from bqrl.mdp.files.facts import USUAL_HORIZON, read_facts
from bqrl.mdp.files.json import read_json
from bqrl.mdp.files.npz import read_dense, read_stored
from bqrl.mdp.files.regular import MAX_JSON, MAX_TEXT, check_unpacked, read_regular, size_limit
from bqrl.mdp.files.sources import TABLES, open_source
from bqrl.mdp.files.tables import read_table
from bqrl.mdp.files.umb import read_umb, umb_of_drn
from bqrl.mdp.listing import to_table
from bqrl.mdp.model import MDP
from bqrl.mdp.validation import check_horizon

Kinds = Mapping[str, tuple[str, Callable[[dict[str, Any]], Any]]]  # marker array -> (what a file holds, its reader)


def load_model(path: str | Path, *, max_bytes: int | None = None, kinds: Kinds | None = None, **options: Any) -> Any:
    """Return the model in a file; `options` are horizon, start, discount, columns and rewards, see `bqrl.load`.

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
    checker = place.suffix.lower() in CHECKERS
    if "rewards" in given and not checker:
        raise bad_value("rewards", given["rewards"], "be given for .umb and .drn files only", remedy="omit it")
    with name_errors(place, {*given, "horizon", "rewards", "start"} if checker else given):
        if isinstance(content, Path):
            return MDP.from_table(**_read_table(content, **given))
        if "columns" in given:
            raise bad_value(
                "columns", given["columns"], "be given for .csv, .xlsx and .parquet files only", remedy="omit it"
            )
        if checker:
            return MDP.from_table(**read_umb(content, size_limit(max_bytes), **given))
        if not isinstance(content, dict):
            return MDP.from_table(**read_json(content, **given))
        if "transitions" in content:
            return MDP(**read_dense(content) | given)
        mdp = MDP.from_table(**read_stored(content))
        return mdp.replace(**given) if given else mdp


def states_horizon(path: str | Path) -> bool:
    """Return whether a model file states its horizon; a table need not."""
    place = Path(path)
    if checked_ending(place) not in TABLES:
        return True
    with name_errors(place):
        return "horizon" in read_facts(open_source(place, MODEL).comments, quiet=True)


def _content(place: Path, max_bytes: int | None) -> Any:
    """Return the arrays of an .npz file, the bytes of a .json file, or the path of a table; check the size of the file."""
    kind = checked_ending(place, remedy="read other tables with pandas and pass them to bqrl.MDP")
    if kind == ".npz":
        return read_arrays(place, max_bytes=max_bytes)
    with name_errors(place):
        if kind in CHECKERS:
            content = read_regular(place, size_limit(max_bytes))
            return umb_of_drn(place) if kind == ".drn" else content
        if kind == ".json":
            return read_regular(place, size_limit(max_bytes, MAX_JSON))
        check_unpacked(place, size_limit(max_bytes, MAX_TEXT))
        return place


def _read_table(
    path: Path, horizon: int | None = None, start: Any = None, discount: float | None = None, columns: Any = None
) -> dict[str, Any]:
    """Return the arguments of MDP.from_table for a file with a table of transitions."""
    listing = read_table(path, MODEL, columns)
    facts = read_facts(listing.source.comments)
    if horizon is None:
        horizon = facts.get("horizon", None if "stage" in listing.numbers else USUAL_HORIZON)
    noise = {key: facts[key] for key in ("events_observed", "cut") if key in facts}
    table, H, found = to_table(listing, horizon, facts.get("states"), facts.get("actions"), **noise)
    return found | {
        "table": table,
        "H": H,
        "start": facts.get("start", 0) if start is None else start,
        "discount": facts.get("discount", 1.0) if discount is None else discount,
        **{key: facts.get(key) for key in ("units", "terminal", "words")},
    }
