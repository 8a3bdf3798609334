"""Parameters of learners on the command line: NAME=VALUE. The learner itself checks what a value may be."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from bqrl.learners.run import check_params, find_learner

WORDS = {"true": True, "yes": True, "false": False, "no": False, "none": None}


def read_params(learner: str, given: Sequence[str]) -> dict[str, Any]:
    """The parameters of a learner from texts such as "c_conf=0.01"; ValueError or TypeError of one line."""
    kind = find_learner(learner)
    found: dict[str, Any] = {}
    for item in given:
        name, sign, text = (part.strip() for part in item.partition("="))
        name = name.replace("-", "_")
        if not sign or not name:
            raise ValueError(f"a learner's parameter is given as name=value, e.g. --set c_conf=0.01, got {item!r}")
        if name in found:
            raise ValueError(f"{name} is given twice, the second time as {text!r}")
        found[name] = read_value(text)
    check_params(kind, found)
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
