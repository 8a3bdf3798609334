"""Least-squares fit of a power law, for growth rates that the theorems predict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from bqrl.checks import numbers
from bqrl.errors import ArgumentError


@dataclass(frozen=True, slots=True, kw_only=True)
class Slope:
    """A power law y = factor * x^slope.

    Attributes
    ----------
    slope : float
        The exponent.
    error : float
        Standard error of the exponent.
    factor : float
        The constant factor.
    """

    slope: float
    error: float
    factor: float


def loglog_slope(x: Any, y: Any, error: Any = None) -> Slope:
    """The exponent with which y grows in x, by least squares on logarithms.

    Parameters
    ----------
    x, y : array_like of shape (n,)
        Positive numbers; at least three points, or two if `error` is given.
    error : array_like of shape (n,), optional
        Standard errors of y. Points are then weighted by their relative precision, and the standard error of the slope
        follows from them; otherwise it follows from the scatter around the line.

    Returns
    -------
    Slope
        Exponent, its standard error, and factor.

    Examples
    --------
    >>> round(loglog_slope([1, 2, 4], [3, 12, 48]).slope, 9)
    2.0
    """
    a, b = numbers(x, "x"), numbers(y, "y")
    least = 3 if error is None else 2
    if a.shape != b.shape or a.ndim != 1 or a.size < least:
        raise ArgumentError(
            f"x and y must have the same length, at least {least}, got shapes {a.shape} and {b.shape}",
            name="x",
            value=x,
        )
    for name, array, value in (("x", a, x), ("y", b, y)):
        if not np.all(array > 0.0):
            raise ArgumentError(
                f"{name} must be positive, got {array.min():g}; leave out points without a logarithm",
                name=name,
                value=value,
            )
    if np.ptp(a) == 0.0:
        raise ArgumentError(f"x must contain two different values, got {a[0]:g} only", name="x", value=x)
    weight = np.ones(a.size)
    if error is not None:
        sigma = numbers(error, "error")
        if sigma.shape != b.shape or not np.all(sigma > 0.0):
            raise ArgumentError(
                f"error must contain one positive standard error per point, got {error}", name="error", value=error
            )
        weight = (b / sigma) ** 2
    u, v = np.log(a), np.log(b)
    centre = (weight @ u) / weight.sum()
    scale = weight @ (u - centre) ** 2
    slope = float(weight @ ((u - centre) * v) / scale)
    level = (weight @ (v - slope * u)) / weight.sum()
    spread = 1.0 if error is not None else float(np.sum((v - level - slope * u) ** 2)) / (a.size - 2)
    return Slope(slope=slope, error=math.sqrt(spread / scale), factor=math.exp(level))
