"""Values and probabilities of a law: checks, merging of equal values, running sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bqrl.checks import bad_type, bad_value
from bqrl.loops.tolerance import MASS_TOL, SUM_TOL

FloatArray = NDArray[np.float64]

VALUE_TOL = 1e-13  # values closer than this, relative to the value or to min(1, size of the law), are the same value
EXACT_TOL = 4 * np.finfo(np.float64).eps  # a sum this close to 1 is left untouched


def size_of(values: FloatArray) -> float:
    """Return the largest absolute value, or 1.0 if all are zero: tolerances are relative to it."""
    return float(np.abs(values).max()) or 1.0


def smallest_scale(values: FloatArray) -> float:
    """Return the scale of the tolerance for values near zero."""
    return min(1.0, size_of(values))


def running_mass(probabilities: FloatArray) -> FloatArray:
    """Return the running sums, each within about an ulp of the exact one.

    The rounding errors of the plain cumulative sum (Knuth's two-sum) are summed separately and added back: a small buffer
    divides these sums by beta, rounding errors included.
    """
    total = np.cumsum(probabilities)
    before = np.concatenate(([0.0], total[:-1]))
    part = total - before
    error = (before - (total - part)) + (probabilities - part)
    return np.asarray(total + np.cumsum(error), dtype=np.float64)


def as_floats(given: ArrayLike, name: str, rule: str) -> FloatArray:
    """Return `given` as an array of floats; otherwise raise an error that quotes `rule`."""
    try:
        array = np.asarray(given)
        if array.dtype.kind not in "biufO":
            raise TypeError
        return np.asarray(array, dtype=np.float64)
    except OverflowError:
        raise bad_value(name, given, f"be within {np.finfo(np.float64).max:.1e}, the largest float") from None
    except (TypeError, ValueError):
        raise bad_type(name, given, rule) from None


def numbers_of(given: ArrayLike, name: str) -> FloatArray:
    """Return a new one-dimensional array of finite floats."""
    array = as_floats(given, name, "be a flat list of numbers")
    if array.ndim != 1 or array.size == 0:
        raise bad_value(name, given, "be one-dimensional with at least one entry", f"shape {array.shape}")
    if not np.isfinite(array).all():
        i = int(np.argmin(np.isfinite(array)))
        raise bad_value(name, array[i], "be finite", f"{name}[{i}] = {array[i]}")
    return array + 0.0  # turns -0.0 into 0.0


def masses_of(given: ArrayLike, name: str) -> FloatArray:
    """Return the given nonnegative floats, rescaled unless they already sum to 1."""
    p = numbers_of(given, name)
    if p.min() < -MASS_TOL:
        raise bad_value(name, p.min(), "not be negative", f"{name}[{p.argmin()}] = {p.min():g}")
    p = np.maximum(p, 0.0)
    total = float(running_mass(p)[-1])
    if abs(total - 1.0) > SUM_TOL:
        raise bad_value(name, total, f"sum to 1 (tolerance {SUM_TOL:g})", f"{total:.12g}")
    return p if abs(total - 1.0) <= EXACT_TOL else p / total


def merge_atoms(x: FloatArray, p: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return increasing values and their masses; values that equal the first of their group are merged."""
    order = np.argsort(x, kind="stable")
    x, p = x[order], p[order]
    apart = VALUE_TOL * np.maximum(smallest_scale(x), np.abs(x))
    starts = np.flatnonzero(np.r_[True, np.diff(x) > apart[1:]])
    ends = np.r_[starts[1:], x.size] - 1
    if np.any(x[ends] - x[starts] > apart[ends]):  # neighbours are equal, but the last differs from the first
        first = [0]
        for i in range(1, x.size):
            if x[i] - x[first[-1]] > apart[i]:
                first.append(i)
        starts = np.array(first)
    return (x, p) if starts.size == x.size else (x[starts], np.add.reduceat(p, starts))
