"""NAME=VALUE pairs on the command line: columns of files, strategies, and parameters, which each learner checks itself."""

from __future__ import annotations

from ast import literal_eval
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from bqrl.errors import ArgumentError
from bqrl.mdp.files import ending
from bqrl.policies.convert import ALWAYS

WORDS = {"true": True, "yes": True, "false": False, "no": False, "none": None}


def column_names(text: str | None) -> dict[str, str] | None:
    """Headers by role from the option --columns "state=from,next_state=to"."""
    rule = "--columns must hold ROLE=HEADER pairs"
    return None if text is None else _pairs(text.split(","), rule, "state=from,next_state=to")


def read_params(given: Iterable[str]) -> dict[str, Any]:
    """Parameters from texts such as "c_conf=0.01" or "c-conf=0.01"."""
    found = _pairs(given, "a parameter of a learner must be given as name=value", "c_conf=0.01")
    return {name: read_value(text) for name, text in found.items()}


def read_policies(given: Iterable[str]) -> dict[str, str]:
    """Strategies by name from texts such as "today=rule.csv", "always:Repair" or "plan.npz".

    >>> read_policies(["today=rule.csv", "always:Repair", "folder/plan.npz"])
    {'today': 'rule.csv', 'always:Repair': 'always:Repair', 'plan': 'folder/plan.npz'}
    """
    rule, example = "--policy must be a strategy", "today=rule.csv, always:Repair or plan.npz"
    return _named(given, "--policy", rule, example)


def read_models(given: Iterable[str]) -> dict[str, str]:
    """Problems by name from texts such as "low=low.csv" or "low.csv".

    >>> read_models(["low=demand_low.csv", "folder/high.csv"])
    {'low': 'demand_low.csv', 'high': 'folder/high.csv'}
    """
    return _named(given, "--model", "--model must be a problem", "low=low.csv or low.csv")


def _named(given: Iterable[str], option: str, rule: str, example: str) -> dict[str, str]:
    """Texts by name from NAME=TEXT or TEXT, which names itself; a file by its name without the ending."""
    found: dict[str, str] = {}
    for text in map(str.strip, given):
        name, sign, form = (part.strip() for part in text.partition("="))
        if text.startswith(ALWAYS) or not sign or Path(text).is_file():
            form = text
            name = Path(text).name.partition(".")[0] if ending(text) else text
        if not (name and form):
            raise ArgumentError(f"{rule}, got {text[:60]!r}; write e.g. {example}")
        if name in found:
            raise ArgumentError(f"{option} {name} is given twice, the second time as {form[:60]!r}; choose other names")
        found[name] = form
    return found


def read_value(text: str) -> Any:
    """A number, several of them as a tuple ("0.5,0.1"), a word such as true or none, or else the text itself."""
    with suppress(ValueError, SyntaxError):
        return literal_eval(text)
    return WORDS.get(text.lower(), text)


def _pairs(given: Iterable[str], rule: str, example: str) -> dict[str, str]:
    """Values by name from texts NAME=VALUE, each name once."""
    found: dict[str, str] = {}
    for item in given:
        name, _, text = (part.strip() for part in item.partition("="))
        name = name.replace("-", "_")
        if not (name and text):
            raise ArgumentError(f"{rule}, got {item.strip()[:60]!r}; write e.g. {example}")
        if name in found:
            raise ArgumentError(f"{name} is given twice, the second time as {text!r}; drop one of them")
        found[name] = text
    return found
