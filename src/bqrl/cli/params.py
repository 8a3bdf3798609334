"""NAME=VALUE on the command line: columns of files, and parameters of learners, which the learner itself checks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from bqrl.errors import ArgumentError

WORDS = {"true": True, "yes": True, "false": False, "no": False, "none": None}


def column_names(text: str | None) -> dict[str, str] | None:
    """Headers by role from the option --columns "state=from,next_state=to"."""
    rule = "--columns must hold ROLE=HEADER pairs"
    return None if text is None else dict(_pair(part, rule, "state=from,next_state=to") for part in text.split(","))


def read_params(given: Sequence[str]) -> dict[str, Any]:
    """Parameters from texts such as "c_conf=0.01".

    >>> read_params(["c-conf=0.01", "planner=greedy"])
    {'c_conf': 0.01, 'planner': 'greedy'}
    """
    found: dict[str, Any] = {}
    for item in given:
        name, text = _pair(item, "a parameter of a learner must be given as name=value", "c_conf=0.01")
        name = name.replace("-", "_")
        if name in found:
            raise ArgumentError(f"{name} is given twice, the second time as {text!r}; drop one of them")
        found[name] = read_value(text)
    return found


def read_value(text: str) -> Any:
    """A number, a word such as true or none, several of these as a tuple, or else the text itself.

    >>> read_value("3"), read_value("theory"), read_value("0.5,0.1"), read_value("yes")
    (3, 'theory', (0.5, 0.1), True)
    """
    if text.lower() in WORDS:
        return WORDS[text.lower()]
    for kind in (int, float):
        with suppress(ValueError):
            return kind(text)
    return tuple(map(read_value, text.split(","))) if "," in text else text


def _pair(text: str, rule: str, example: str) -> tuple[str, str]:
    """Name and value of NAME=VALUE."""
    name, _, value = (part.strip() for part in text.partition("="))
    if not (name and value):
        raise ArgumentError(f"{rule}, got {text.strip()[:60]!r}; write e.g. {example}")
    return name, value
