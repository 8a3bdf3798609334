"""Scans over rows of masses on a shared increasing grid of atoms.

A row is the mass function of one law: mass[j] is the probability of atoms[j], zeros allowed. Every comparison of a
running mass with a level uses the tolerance `tol` of the caller, and every running mass is a compensated sum, so that a
row and the Law made from it give the same answer. A row without mass gives nan. Nothing is checked.
"""

import numpy as np
from numba import njit


@njit(cache=True)
def add(total, error, x):
    """Return the rounded sum total + x, and `error` plus the rounding error of this sum (Knuth's two-sum)."""
    rounded = total + x
    part = rounded - total
    return rounded, error + ((total - (rounded - part)) + (x - part))


@njit(cache=True)
def last_atom(mass):
    """Return the index of the last atom of positive mass; -1 if there is none."""
    for j in range(mass.size - 1, -1, -1):
        if mass[j] > 0.0:
            return j
    return -1


@njit(cache=True)
def running_mass(mass, out):
    """Fill out[j] with mass[0] + ... + mass[j]; exactly 1 from the last atom of positive mass on."""
    last = last_atom(mass)
    total, error, before = 0.0, 0.0, 0.0
    for j in range(mass.size):
        if j >= last:
            out[j] = 1.0
        else:
            total, error = add(total, error, mass[j])
            before = max(before, min(total + error, 1.0))
            out[j] = before


@njit(cache=True)
def lower_quantile(atoms, mass, tau, tol):
    """Return the first atom of positive mass whose running mass reaches tau - tol."""
    total, error, reached = 0.0, 0.0, np.nan
    for j in range(atoms.size):
        if mass[j] > 0.0:
            total, error = add(total, error, mass[j])
            reached = atoms[j]
            if total + error >= tau - tol:
                break
    return reached


@njit(cache=True)
def buffered_quantile(atoms, mass, tau, beta, tol, running):
    """Return the average of the quantiles at the levels tau - min(beta, tau) to tau; `running` is a work array."""
    last = last_atom(mass)
    if last < 0:
        return np.nan
    width = min(beta, tau)
    if width <= 0.0:
        return lower_quantile(atoms, mass, tau, tol)
    low = tau - width
    running_mass(mass, running)

    top = 0
    while top < last and (mass[top] <= 0.0 or tau >= 1.0 or running[top] < tau - tol):
        top += 1
    below = running[top - 1] if top > 0 else 0.0
    if below <= (low + tol if low > 0.0 else 0.0):
        return atoms[top]  # all levels of the buffer lie in one atom

    weighted, weight, before, lowest = 0.0, 0.0, 0.0, atoms[top]
    for j in range(last + 1):
        if running[j] > low:
            overlap = mass[j]  # the part of the atom within the buffer, here all of it
            if before < low or running[j] > tau:
                overlap = min(tau, running[j]) - max(low, before)
            if weight == 0.0:
                lowest = atoms[j]
            weighted += atoms[j] * overlap
            weight += overlap
            if running[j] >= tau:
                break
        before = running[j]
    return min(max(weighted / weight, lowest), atoms[top])


@njit(cache=True)
def quantile_rows(atoms, pmf, tau, tol, out):
    """Fill out[i] with the lower quantile of row i."""
    for i in range(pmf.shape[0]):
        out[i] = lower_quantile(atoms, pmf[i], tau, tol)


@njit(cache=True)
def buffered_rows(atoms, pmf, tau, beta, tol, running, out):
    """Fill out[i] with the buffered quantile of row i; `running` is a work array of the size of a row."""
    for i in range(pmf.shape[0]):
        out[i] = buffered_quantile(atoms, pmf[i], tau, beta, tol, running)


@njit(cache=True)
def running_rows(pmf, out):
    """Fill out[i] with the running masses of row i."""
    for i in range(pmf.shape[0]):
        running_mass(pmf[i], out[i])
