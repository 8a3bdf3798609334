"""Facts above the header of a table of transitions, in lines `# key: value`: horizon, discount, start, names, units.

    # horizon: 20
    # start: Well=0.8, Sick=0.2
    # terminal: Well=500, Sick=100
    # words: run=patient, return=net benefit, stage=year

Spreadsheets may add empty cells and quotes to these lines. Other lines that begin with # are comments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import Any

from bqrl.checks import one_line, warn_caller
from bqrl.errors import FileFormatError
from bqrl.mdp.columns import MODEL

FACT = re.compile(r"#[#\s]*([\w ]+?)\s*[:=]\s*(.*)")
USUAL_HORIZON = 100  # the horizon of published results on tables that do not state one


def read_facts(comments: Sequence[tuple[int, str]], *, quiet: bool = False) -> dict[str, Any]:
    """Return the facts in the lines above a header; warn about comments that may be meant as facts."""
    facts: dict[str, Any] = {}
    for line, text in comments:
        match = FACT.match(text)
        key, value = (match[1].lower(), match[2]) if match else ("", "")
        if key not in FACTS:
            near = get_close_matches(key, FACTS, 1, cutoff=0.75)
            if near and key not in MODEL.required:  # "# state: ..." may explain a column
                message = f"line {line}: expected a known key, got {one_line(key)}; did you mean {near[0]!r}?"
                raise FileFormatError(message, line=line, column=key)
            meant = _nearest_fact(key)
            if meant is not None and not quiet:
                warn_caller(f"line {line}: {one_line(text)} is read as a comment; did you mean # {meant}: ...?")
            continue
        if key in facts:
            raise FileFormatError(f"line {line}: expected each key once, got {key!r} twice", line=line, column=key)
        wanted, parse = FACTS[key]
        try:
            facts[key] = parse(value)
        except (ValueError, KeyError, RecursionError):
            message = f"line {line}: {key} must be {wanted}, got {one_line(value)}"
            raise FileFormatError(message, line=line, column=key) from None
    return facts


def _nearest_fact(key: str) -> str | None:
    """Return the fact that a comment of one or two words may mean: "gamma", "time horizon", "initial state"."""
    words = re.split("[ _]+", key)
    meant = (SPELLINGS.get(word, word) for word in words)
    return next((word for word in meant if word in FACTS), None) if len(words) <= 2 else None


def parse_start(text: str) -> str | dict[str, float]:
    """Return a start given as text: a state, or a law such as "Well=0.8, Sick=0.2", "Well=80%, Sick=20%" or "Well=0,8; Sick=0,2".

    >>> parse_start("Well=0.8, Sick=0.2")
    {'Well': 0.8, 'Sick': 0.2}
    """
    law: dict[str, float] = {}
    for part in text.replace(",", ".").split(";") if ";" in text else text.split(","):
        name, sign, share = part.rpartition("=")
        number, percent, _ = share.strip().partition("%")
        try:
            law[name.strip()] = float(number) / (100.0 if percent else 1.0)
        except ValueError:
            return text
        if not sign or not name.strip():
            return text
    return law


def _names(value: str) -> Any:
    """Return names from a list or from JSON, or their number."""
    if value.startswith(("[", "{")):
        return json.loads(value)
    return int(value) if value.isdecimal() else [name.strip() for name in value.split(",")]


def _pairs(parse: Callable[[str], Any], value: str) -> dict[str, Any]:
    """Return a mapping written as NAME=VALUE, NAME=VALUE or as JSON; raise ValueError if it is neither."""
    found = json.loads(value) if value.startswith("{") else parse(value)
    if not isinstance(found, dict):
        raise ValueError
    return found


def _parse_words(value: str) -> dict[str, str]:
    parts = [part.partition("=") for part in value.split(",")]
    if not all(sign for _, sign, _ in parts):
        raise ValueError
    return {key.strip(): text.strip() for key, _, text in parts}


FACTS: dict[str, tuple[str, Callable[[str], Any]]] = {  # key -> (what its value must be, reader)
    "horizon": ("a whole number", int),
    "discount": (
        "a factor such as 0.97, or 1 / 1.03 for interest of 3 % per stage",
        lambda value: float(value.replace(",", ".")),
    ),
    "start": ("names separated by commas", lambda value: _names(value) if value[:1] in "[{" else parse_start(value)),
    "states": ("names separated by commas", _names),
    "actions": ("names separated by commas", _names),
    "units": ("a word", str),
    "terminal": ("values of states such as Good=500, Poor=-100", lambda value: _pairs(parse_start, value)),
    "words": ("pairs such as run=patient, stage=year", lambda value: _pairs(_parse_words, value)),
    "events_observed": ("yes or no", lambda value: {"yes": True, "no": False}[value.lower()]),
    "cut": ("numbers separated by commas", lambda value: tuple(float(part) for part in value.split(","))),
}
SPELLINGS = {"gamma": "discount", "h": "horizon", "stages": "horizon", "periods": "horizon", "initial": "start"}
