"""The functionals of `Law` for many laws at once: each row of `pmf` is a law on the shared, increasing `atoms`.

For each row the result equals, bit for bit, that of the method of the same name of `Law(atoms, row)`; only means may differ
by rounding.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bqrl.checks import wrong
from bqrl.kernels import masses as kernels
from bqrl.laws.atoms import FloatArray
from bqrl.laws.law import MASS_TOL, check_level


def mean_rows(atoms: ArrayLike, pmf: ArrayLike) -> FloatArray:
    """Means of the rows, shape (n,)."""
    x, p = _grid(atoms, pmf)
    return p @ x


def quantile_rows(atoms: ArrayLike, pmf: ArrayLike, tau: float) -> FloatArray:
    """Lower tau-quantiles of the rows, shape (n,)."""
    x, p = _grid(atoms, pmf)
    out = np.empty(p.shape[0])
    kernels.quantile_rows(x, p, check_level(tau), MASS_TOL, out)
    return out


def buffered_rows(atoms: ArrayLike, pmf: ArrayLike, tau: float, beta: float) -> FloatArray:
    """Buffered tau-quantiles of the rows, shape (n,); beta = 0 gives the quantiles."""
    x, p = _grid(atoms, pmf)
    out = np.empty(p.shape[0])
    kernels.buffered_rows(x, p, check_level(tau), check_level(beta, "beta"), MASS_TOL, np.empty(x.size), out)
    return out


def cdf_rows(atoms: ArrayLike, pmf: ArrayLike) -> FloatArray:
    """P(G <= atoms[j]) for every row and atom, shape (n, m)."""
    _, p = _grid(atoms, pmf)
    out = np.empty_like(p)
    kernels.running_rows(p, out)
    return out


def _grid(atoms: ArrayLike, pmf: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Both as contiguous float arrays of shapes (m,) and (n, m)."""
    x = np.ascontiguousarray(atoms, dtype=np.float64)
    p = np.ascontiguousarray(pmf, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or p.ndim != 2 or p.shape[1] != x.size:
        raise wrong("pmf", pmf, "have shape (n, m) with atoms of shape (m,) and m >= 1", f"{p.shape} and {x.shape}")
    return x, p
