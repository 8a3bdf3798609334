"""Values of a settings file: each is checked where it is read, and a bad one gets one line that names its place."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import numpy as np

Params = tuple[tuple[str, Any], ...]


def known(table: Any, valid: Iterable[str], what: str, where: str = "") -> None:
    """Refuse a table with a key that is none of `valid`, naming the nearest."""
    if not isinstance(table, Mapping):
        raise TypeError(f"{where or 'the file'} must be a table, got {table!r}")
    for key in table:
        one_of(key, valid, what, where)


def one_of(given: Any, valid: Iterable[str], what: str, where: str = "") -> None:
    """Refuse what is none of `valid`, naming the nearest."""
    choices = list(valid)
    if given not in choices:
        near = get_close_matches(str(given), choices, 1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"choose from {', '.join(choices)}"
        raise ValueError(f"{where + ' ' if where else ''}there is no {what} {str(given)[:60]!r}; {hint}")


def table_of(tables: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """The table of that name."""
    found = tables.get(name)
    if not isinstance(found, Mapping):
        raise ValueError(f"the table [{name}] is missing")
    return found


def listed(given: Any, where: str) -> list[Any]:
    """A list with something in it."""
    if not isinstance(given, list) or not given:
        raise ValueError(f"{where} must be a list with something in it, got {given!r}")
    return given


def text(given: Any, where: str) -> str:
    """A text that is not empty."""
    if not isinstance(given, str) or not given:
        raise ValueError(f"{where} must be a text, got {given!r}")
    return given


def whole(given: Any, where: str, least: int) -> int:
    """A whole number of at least `least`."""
    if isinstance(given, bool) or not isinstance(given, int) or given < least:
        raise ValueError(f"{where} must be a whole number of at least {least}, got {given!r}")
    return given


def number(given: Any, where: str, above: float, below: float = np.inf) -> float:
    """A number strictly between `above` and `below`."""
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not above < given < below:
        span = f"between {above:g} and {below:g}" if np.isfinite(below) else f"above {above:g}"
        raise ValueError(f"{where} must be a number {span}, got {given!r}")
    return float(given)


def frozen(params: Any, where: str = "params") -> Params:
    """Parameters in the order of their names; lists stay lists within JSON but cannot change here."""
    if not isinstance(params, Mapping):
        raise TypeError(f"{where} must be a table, got {params!r}")
    return tuple(sorted((str(key), tuple(x) if isinstance(x, list) else x) for key, x in params.items()))
