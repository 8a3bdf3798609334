"""Parameters of learners on the command line: NAME=VALUE, read as the learner's own signature says."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import Any

from bqrl.learners.run import check_params, find_learner

WORDS = {"true": True, "yes": True, "false": False, "no": False}
KINDS = (
    ("tuple", "numbers such as 0.5,0.05"),
    ("bool", "true or false"),
    ("float", "a number"),
    ("int", "a whole number"),
)


def read_params(learner: str, given: Sequence[str]) -> dict[str, Any]:
    """The parameters of a learner from texts such as "c_conf=0.01"; ValueError or TypeError of one line."""
    kind = find_learner(learner)
    texts: dict[str, str] = {}
    for item in given:
        name, sign, text = item.partition("=")
        name = name.strip().replace("-", "_")
        if not sign or not name:
            raise ValueError(f"a learner's parameter is given as name=value, e.g. --set c_conf=0.01, got {item!r}")
        if name in texts:
            raise ValueError(f"{name} is given twice, as {texts[name]!r} and as {text.strip()!r}")
        texts[name] = text.strip()
    check_params(kind, texts)
    types = {name: str(each.annotation) for name, each in inspect.signature(kind.__init__).parameters.items()}
    return {name: read_value(name, text, types[name]) for name, text in texts.items()}


def read_value(name: str, text: str, annotation: str) -> Any:
    """A value as its annotation allows: a word, a number, several numbers, or text.

    >>> read_value("c_conf", "theory", "float | str"), read_value("epsilon", "0.5,0.1", "tuple[float, float] | None")
    ('theory', (0.5, 0.1))
    """
    kinds = set(re.findall(r"\w+", annotation))
    if "None" in kinds and text.lower() == "none":
        return None
    if "bool" in kinds and text.lower() in WORDS:
        return WORDS[text.lower()]
    try:
        if "tuple" in kinds:
            return tuple(float(part) for part in text.split(","))
        if "int" in kinds and re.fullmatch(r"[+-]?\d+", text):
            return int(text)
        if "float" in kinds:
            return float(text)
    except ValueError:
        pass
    if "str" in kinds:
        return text
    wanted = next((words for kind, words in KINDS if kind in kinds), annotation)
    raise ValueError(f"{name} must be {wanted}, got {text!r}")
