"""The one draw from a law. Plain Python, so that models and environments do not need Numba; `rollout` compiles it for loops."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def draw(probability: Sequence[float], begin: int, end: int, u: float) -> int:
    """Return the first entry of begin .. end - 1 at which the running sum exceeds the uniform u.

    If the sums round to at most u, it is the last entry of positive probability: an entry of probability 0 is never drawn.
    Every draw of an outcome, an event, a first state, an action or a part of a mixture is made here. Called from Python, it
    is fastest on a list.
    """
    i, last = begin, end - 1
    mass = probability[i]
    while i < last and u >= mass:
        i += 1
        mass += probability[i]
    while probability[i] == 0.0 and i > begin:
        i -= 1
    return i


def draw_sorted(running: Any, u: Any) -> Any:
    """Return the entry that `draw` picks for each uniform of an array, given running sums that increase strictly to 1."""
    return np.searchsorted(running, u, side="right")
