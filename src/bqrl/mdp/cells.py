"""Laws of events for a problem with continuous states: a table of events, or a continuous distribution cut into cells.

A cell is an interval of events with its probability. If the next state and the reward are monotone in the event, the worse end of
a cell bounds every event in it from below and the better end from above. The outermost cells of an unbounded distribution have
an infinite end and the small probability `TAIL`. Inner cells keep the sum of probability times width small: their density is
proportional to the square root of the density of the events. Where the widest cell counts (`even`), all have the same width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bqrl.checks import bad_type, bad_value
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.noise import event_laws

TAIL = 1e-7  # probability of each infinite cell
FINE = 20_001  # points at which a density is tabulated


@dataclass(frozen=True, eq=False, kw_only=True)
class Cells:
    """The events of one law: single events, whose two ends are equal, or intervals of a continuous distribution."""

    low: Any  # (m,) lower ends; an array of objects if the events are not numbers
    high: Any  # (m,) upper ends
    probability: FloatArray  # (m,)
    source: Any = None  # the SciPy distribution; None for single events

    @property
    def middle(self) -> Any:
        """The events themselves, or the middles of the cells; the middle of an infinite cell is infinite."""
        return self.low if self.source is None else (self.low + self.high) / 2.0

    @cached_property
    def mean(self) -> Any:
        """The mean event of every cell, by Gauss-Legendre integration of the distribution; single events themselves."""
        if self.source is None:
            return self.low
        node, weight = np.polynomial.legendre.leggauss(16)
        below = np.r_[0.0, np.cumsum(self.probability)][:-1]
        u = below[:, None] + self.probability[:, None] * (node + 1.0) / 2.0
        tail = np.asarray(_inverse(self.source)(u) @ weight / 2.0, float)
        width = self.high - self.low
        finite = np.isfinite(width) & (self.probability > 0.0)
        low, wide = np.where(finite, self.low, 0.0), np.where(finite, width, 0.0)
        mass = np.asarray(self.source.cdf(low[:, None] + wide[:, None] * (node + 1.0) / 2.0), float) - below[:, None]
        inner = low + wide * (1.0 - mass @ weight / 2.0 / np.where(finite, self.probability, 1.0))
        return np.where(finite, np.clip(inner, low, low + wide), tail)

    @property
    def half_width(self) -> float:
        """Half the width of the widest finite cell; 0 for single events."""
        if self.source is None:
            return 0.0
        widths = self.high - self.low
        return float(widths[np.isfinite(widths)].max()) / 2.0

    @cached_property
    def index(self) -> dict[Any, int]:
        """The position of every single event."""
        return {event: i for i, event in enumerate(self.low.tolist())}

    def find(self, events: Any) -> IntArray:
        """Return the cells of the given events; raise ArgumentError for an event that the law does not have."""
        if self.source is not None:
            return np.clip(np.searchsorted(self.high, np.asarray(events, float)), 0, self.high.size - 1)
        listed = events.tolist() if isinstance(events, np.ndarray) else list(events)
        missing = [event for event in listed if event not in self.index]
        if missing:
            raise bad_value("event", missing[0], "be an event of the noise")
        return np.array([self.index[event] for event in listed], np.int64)

    def draw(self, u: FloatArray) -> Any:
        """Return the events for uniform draws."""
        if self.source is not None:
            return np.asarray(_inverse(self.source)(u), float)
        place = np.searchsorted(np.cumsum(self.probability), u, side="right")
        return self.low[np.minimum(place, self.probability.size - 1)]


def cells_of(
    noise: Any, H: int, cells: int, mass: float | None = None, *, even: bool = False
) -> tuple[list[Cells], bool]:
    """Return the laws of the events, and whether there is one per stage; continuous distributions are cut into `cells`."""
    if isinstance(noise, (list, tuple)):
        if len(noise) != H:
            raise bad_value("noise", noise, f"be one law or {H} laws, one per stage", len(noise))
        return [_cells(law, cells, mass, f"noise[{h}]", even) for h, law in enumerate(noise)], True
    return [_cells(noise, cells, mass, "noise", even)], False


def _cells(noise: Any, cells: int, mass: float | None, name: str, even: bool) -> Cells:
    if hasattr(noise, "pdf") and hasattr(noise, "support") and not _is_discrete(noise):
        return _cut(noise, cells, even)
    if not (isinstance(noise, Mapping) or _is_discrete(noise)):
        raise bad_type(name, noise, "be {event: probability} or a frozen SciPy distribution")
    (law,), _ = event_laws(noise, 1, mass)
    if all(isinstance(event, (int, float)) for event in law.events):
        events = np.array(law.events)
    else:
        events = np.empty(len(law.events), object)
        events[:] = law.events
    return Cells(low=events, high=events, probability=law.probabilities)


def _is_discrete(noise: Any) -> bool:
    """Return whether a SciPy distribution is discrete; the new continuous ones have `pmf`, too."""
    return hasattr(noise, "pmf") and not any(c.__name__ == "ContinuousDistribution" for c in type(noise).__mro__)


def _inverse(noise: Any) -> Any:
    return noise.ppf if hasattr(noise, "ppf") else noise.icdf  # SciPy's new distributions have icdf


def _cut(noise: Any, cells: int, even: bool) -> Cells:
    """Return the cells of a continuous distribution."""
    first, last = (float(end) for end in noise.support())
    low = first if math.isfinite(first) else float(_inverse(noise)(TAIL))
    high = last if math.isfinite(last) else float(_inverse(noise)(1.0 - TAIL))
    fine = np.linspace(low, high, FINE)
    density = (
        np.ones(FINE - 1)
        if even
        else np.sqrt(np.nan_to_num(np.asarray(noise.pdf((fine[1:] + fine[:-1]) / 2.0), float), posinf=0.0))
    )
    total = np.r_[0.0, np.cumsum(density + 1e-3 * density.max(initial=1e-300))]
    inner = cells - (not math.isfinite(first)) - (not math.isfinite(last))
    ends = np.interp(np.linspace(0.0, total[-1], max(inner, 1) + 1), total, fine)
    ends = np.r_[[] if math.isfinite(first) else -np.inf, ends, [] if math.isfinite(last) else np.inf]
    below = np.asarray(noise.cdf(ends), float)
    below[0], below[-1] = 0.0, 1.0
    return Cells(low=ends[:-1], high=ends[1:], probability=np.diff(below), source=noise)
