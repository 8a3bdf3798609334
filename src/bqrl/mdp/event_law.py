"""The law of the event behind a step function: a dict, a discrete SciPy distribution, or one of these per stage."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from bqrl.checks import number, shown
from bqrl.errors import ArgumentError, ArgumentTypeError
from bqrl.mdp.arrays import FloatArray
from bqrl.mdp.noise import LAW_TOL
from bqrl.mdp.validation import percentages


class EventLaw(NamedTuple):
    """A law of events."""

    events: tuple[Any, ...]
    probabilities: FloatArray
    cut: float  # mass that was cut off


def event_laws(noise: Any, H: int, mass: float | None) -> tuple[list[EventLaw], bool]:
    """The laws of events, and whether there is one per stage."""
    if mass is not None:
        mass = number(mass, "mass", 0.0, 1.0, "()")
    if isinstance(noise, (list, tuple)):
        if len(noise) != H:
            raise ArgumentError(
                f"noise must be one law or {H} laws, one per stage, got {len(noise)}; write one law as"
                " {event: probability}",
                name="noise",
            )
        return [_law(law, mass, f"noise[{h}]") for h, law in enumerate(noise)], True
    return [_law(noise, mass, "noise")], False


def _law(noise: Any, mass: float | None, name: str) -> EventLaw:
    frozen = hasattr(noise, "pmf") and hasattr(noise, "support") and not getattr(noise, "numargs", 0)
    if frozen:
        return _from_scipy(noise, mass, name)
    if not isinstance(noise, Mapping):
        raise ArgumentTypeError(
            f"{name} must be {{event: probability}} or a frozen discrete SciPy distribution, got {shown(noise)}",
            name=name,
            value=noise,
        )
    if mass is not None:
        raise ArgumentError("mass cuts a SciPy distribution; leave it out where noise lists its events", name="mass")
    if not noise:
        raise ArgumentError(f"{name} must have at least one event, got none", name=name, value=noise)
    p = np.array([number(value, f"{name}[{shown(event)}]", 0.0) for event, value in noise.items()])
    total = math.fsum(p)
    if abs(total - 1.0) > LAW_TOL:
        hint = percentages(total) or "; divide by the sum if it holds weights"
        raise ArgumentError(f"{name} must sum to 1, got {total:.12g}{hint}", name=name)
    return EventLaw(tuple(noise), p / total if abs(total - 1.0) > p.size * 2.0**-52 else p, 0.0)


def _from_scipy(noise: Any, mass: float | None, name: str) -> EventLaw:
    low, high = noise.support()
    inverse = noise.ppf if hasattr(noise, "ppf") else noise.icdf  # distributions of the newer kind have the second
    if mass is None and not (math.isfinite(low) and math.isfinite(high)):
        raise ArgumentError(
            f"{name} has infinitely many events and must be cut; give mass, e.g. mass=0.9999", name=name, value=noise
        )
    if mass is not None:
        rest = 1.0 - mass
        if math.isfinite(low):
            high = min(high, inverse(mass))
        elif math.isfinite(high):
            low = max(low, inverse(rest))
        else:
            low, high = inverse(rest / 2), inverse(1.0 - rest / 2)
    events = np.arange(int(low), int(high) + 1)
    p = np.asarray(noise.pmf(events), np.float64)
    total = math.fsum(p)
    if not total > 0.0:
        raise ArgumentError(f"{name} must put mass on whole numbers, got none", name=name, value=noise)
    return EventLaw(tuple(events.tolist()), p / total, max(0.0, 1.0 - total) if mass is not None else 0.0)
