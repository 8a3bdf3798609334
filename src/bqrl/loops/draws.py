"""The draw from a law, in plain Python, so that models and environments do not need Numba; `rollout` compiles it."""

from collections.abc import Sequence
from typing import Any

import numpy as np


def draw(probability: Sequence[float], begin: int, end: int, u: float) -> int:
    """Return the first entry of begin .. end - 1 at which the running sum exceeds the uniform u.

    If no running sum exceeds u because of rounding, the last entry of positive probability is returned: an entry of
    probability 0 is never drawn. Outcomes, events, first states, actions and the policies of a mixture are all drawn with this
    function. Called from Python, it is fastest on a list.
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
    """Return the entry that `draw` returns for each uniform of an array, given running sums that increase strictly to 1."""
    return np.searchsorted(running, u, side="right")
