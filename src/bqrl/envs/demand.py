"""The law of demand that several problems share."""

from __future__ import annotations

import math

from bqrl.checks import number


def poisson(mean: float, mass: float = 0.999) -> dict[int, float]:
    """Return {demand: probability} of a Poisson law, cut at the first demand whose CDF reaches `mass` and rescaled to sum to 1.

    >>> {k: round(p, 4) for k, p in poisson(0.1, 0.99).items()}
    {0: 0.9091, 1: 0.0909}
    """
    mean, mass = number(mean, "mean", 0.0, 700.0, "(]"), number(mass, "mass", 0.0, 1.0, "()")
    weights = [math.exp(-mean)]
    while math.fsum(weights) < mass:
        weights.append(weights[-1] * mean / len(weights))
    total = math.fsum(weights)
    return {k: weight / total for k, weight in enumerate(weights)}
