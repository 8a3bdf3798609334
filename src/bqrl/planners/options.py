"""The options that several planners share: each type carries the check of its value.

def plan_x(mdp: MDP, objective: X, *, points: Points = None, laws: Annotated[int, count(1)] = 16) -> Plan
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

from bqrl.checks import LARGEST, bad_type, choice, flag, number, whole
from bqrl.mdp.model import MDP
from bqrl.planners.on_demand import PRECISIONS
from bqrl.planners.room import existing_folder

Check = Callable[[Any, str, Any], Any]  # value and name of an argument; raises an error if the value is invalid


def count(low: int, most: float = LARGEST) -> Check:
    """Return the check of a whole number of at least `low`."""
    return lambda value, name, mdp: whole(value, name, low, most=most)


def one_of(*valid: str) -> Check:
    """Return the check of a choice."""
    return lambda value, name, mdp: choice(value, name, valid)


def positive(value: Any, name: str, mdp: MDP) -> float:
    """Check a number above 0."""
    return number(value, name, 0.0, ends="(]")


def switch(value: Any, name: str, mdp: MDP) -> Any:
    """Check True or False."""
    return flag(value, name)


def function(value: Any, name: str, mdp: MDP) -> None:
    """Check a function of the stage."""
    if not callable(value):
        raise bad_type(name, value, "be a function of the stage")


def folder(value: Any, name: str, mdp: MDP) -> Path:
    """Check a folder that exists."""
    return existing_folder(value, name)


Points = Annotated[int | None, count(2)]
Gap = Annotated[float | None, positive]
MaxBytes = Annotated[float, positive]
Pairs = Annotated[bool | None, switch]
Folder = Annotated[str | Path | None, folder]
Precision = Annotated[str, one_of(*PRECISIONS)]
Tick = Annotated[Callable[[int], None] | None, function]
