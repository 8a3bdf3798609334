"""Small checks that the baselines share, each with one line of complaint."""

from __future__ import annotations

from typing import Any

import numpy as np

from bqrl.learners.protocol import Task
from bqrl.mdp.arrays import BoolArray
from bqrl.mdp.model import Structure

UPDATE_DISCOUNT = 0.99  # the paper's, in the updates of model-free methods only


def available_by_stage(structure: Structure) -> BoolArray:
    """Which actions exist, shape (H, S, A)."""
    return np.array(np.broadcast_to(structure.available, (structure.H, structure.S, structure.A)))


def update_discount(given: float | None, task: Task) -> float:
    """The discount of a model-free learner's updates: 0.99 unless given, or unless the problem has one of its own."""
    if given is None:
        return UPDATE_DISCOUNT if task.discount == 1.0 else task.discount
    return number("discount", given, 0.0, 1.0)


def number(name: str, given: Any, above: float, at_most: float = np.inf, *, closed: bool = False) -> float:
    """`given` as a float above `above` (or equal to it where `closed`) and at most `at_most`."""
    if isinstance(given, bool) or not isinstance(given, (int, float, np.integer, np.floating)):
        raise TypeError(f"{name} must be a number, got {given!r}")
    if not (above <= given if closed else above < given) or not given <= at_most or not np.isfinite(given):
        if np.isfinite(at_most):
            raise ValueError(f"{name} must lie in {'[' if closed else '('}{above:g}, {at_most:g}], got {given}")
        raise ValueError(f"{name} must be {'at least' if closed else 'above'} {above:g}, got {given}")
    return float(given)


def whole(name: str, given: Any, least: int = 1) -> int:
    """`given` as an int of at least `least`."""
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)):
        raise TypeError(f"{name} must be a whole number, got {given!r}")
    if given < least:
        raise ValueError(f"{name} must be at least {least}, got {given}")
    return int(given)
