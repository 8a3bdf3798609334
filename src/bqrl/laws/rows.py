"""The functionals of `Law` for many laws at once: each row of `pmf` is a law on the shared, increasing `atoms`.

Each result is bit-identical to that of the corresponding method of `Law(atoms, row)`; only means may differ by rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bqrl.checks import bad_value
from bqrl.laws.law import MASS_TOL, FloatArray, check_level
from bqrl.loops import masses


def mean_rows(atoms: ArrayLike, pmf: ArrayLike) -> FloatArray:
    """Return the means of the rows, shape (n,)."""
    x, p = _check_grid(atoms, pmf)
    return p @ x


def quantile_rows(atoms: ArrayLike, pmf: ArrayLike, tau: float) -> FloatArray:
    """Return the lower tau-quantiles of the rows, shape (n,)."""
    x, p = _check_grid(atoms, pmf)
    out = np.empty(p.shape[0])
    masses.quantile_rows(x, p, check_level(tau), MASS_TOL, out)
    return out


def buffered_rows(atoms: ArrayLike, pmf: ArrayLike, tau: float, beta: float) -> FloatArray:
    """Return the buffered tau-quantiles of the rows, shape (n,); beta = 0 gives the quantiles."""
    x, p = _check_grid(atoms, pmf)
    out = np.empty(p.shape[0])
    masses.buffered_rows(x, p, check_level(tau), check_level(beta, "beta"), MASS_TOL, np.empty(x.size), out)
    return out


def cdf_rows(atoms: ArrayLike, pmf: ArrayLike) -> FloatArray:
    """Return P(G <= atoms[j]) for every row and atom, shape (n, m)."""
    _, p = _check_grid(atoms, pmf)
    out = np.empty_like(p)
    masses.running_rows(p, out)
    return out


def _check_grid(atoms: ArrayLike, pmf: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return both as contiguous float arrays of shapes (m,) and (n, m)."""
    x = np.ascontiguousarray(atoms, dtype=np.float64)
    p = np.ascontiguousarray(pmf, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or p.ndim != 2 or p.shape[1] != x.size:
        raise bad_value("pmf", pmf, "have shape (n, m) with atoms of shape (m,) and m >= 1", f"{p.shape} and {x.shape}")
    return x, p
