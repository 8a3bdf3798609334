"""Arguments of the theory, checked once: each fault is one line that names the argument, its value and the remedy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bqrl.checks import shown
from bqrl.mdp.model import MDP


def as_number(given: Any, name: str, wanted: str) -> float:
    """`given` as a float; text and arrays are refused."""
    try:
        if isinstance(given, str | bytes) or np.ndim(given):
            raise TypeError
        return float(given)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be {wanted}, got {shown(given)}") from None


def whole(given: Any, name: str, least: int) -> int:
    """`given` as a whole number of at least `least`; a float that is one (1e6) will do."""
    if isinstance(given, float | np.floating) and math.isfinite(given) and given == int(given):
        given = int(given)
    if isinstance(given, bool) or not isinstance(given, int | np.integer):
        raise TypeError(f"{name} must be a whole number, got {given!r}")
    if given < least:
        raise ValueError(f"{name} must be at least {least}, got {given}")
    return int(given)


def positive(given: Any, name: str) -> float:
    """`given` as a positive finite float."""
    number = as_number(given, name, "a positive number")
    if not 0.0 < number < math.inf:
        raise ValueError(f"{name} must be positive and finite, got {number:g}")
    return number


def open_share(given: Any, name: str) -> float:
    """`given` as a float strictly between 0 and 1."""
    number = as_number(given, name, "a number strictly between 0 and 1")
    if not 0.0 < number < 1.0:
        raise ValueError(f"{name} must lie strictly between 0 and 1, got {number:g}")
    return number


def buffers(given: Any, tau: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    """`given` as an array of buffers in (0, tau]."""
    betas = np.asarray(given, dtype=np.float64)
    wrong = ~((betas > 0.0) & (betas <= tau))
    if wrong.any():
        raise ValueError(f"beta must lie in (0, tau] = (0, {tau:g}], got {betas[wrong].flat[0]:g}")
    return betas


def problem(given: Any, name: str = "mdp") -> MDP:
    """`given` if it is an MDP."""
    if not isinstance(given, MDP):
        raise TypeError(
            f"{name} must be an MDP, got {type(given).__name__}; build one with bqrl.MDP, load or envs.make"
        )
    return given
