"""What is read off a law: numbers from one law, and vectors from many laws on a shared grid.

    Q_tau = inf{x : P(G <= x) >= tau}                       the lower quantile
    Q_tau^beta = (1 / l) * integral of Q_u over [tau - l, tau],  l = min{beta, tau}      (paper, Definition 1)

beta is one dial: beta = tau is the lower CVaR, beta -> 0 the quantile (Value-at-Risk).

One constant decides every comparison of a probability with a level, here and everywhere else: eight weights of 0.1
sum to 0.7999999999999999, so Q_tau is the first atom whose running mass is at least tau - MASS_TOL. `reaches` is the
same decision seen from P(G < x). Level 0 is the smallest value.
Deviation: Definition 1 gives its endpoint rule twice for level 0 and none for level 1; at level 1 the integral decides.
"""

from __future__ import annotations

from collections.abc import Callable
from reprlib import repr as short_repr
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bqrl.kernels.tolerance import MASS_TOL as MASS_TOL

if TYPE_CHECKING:
    from bqrl.laws.law import Law

FloatArray = NDArray[np.float64]

VALUE_TOL = 1e-12  # values closer than this times max(1, |value|) are the same value


class Margin(NamedTuple):
    """How far tau lies inside the quantile's atom x: a tiny entry is a fragile answer.

    `above` may be negative, by at most MASS_TOL, where the tolerance decided.
    """

    below: float  # tau - P(G < x)
    above: float  # P(G <= x) - tau


@overload
def reaches(short: float, tau: float) -> bool: ...
@overload
def reaches(short: FloatArray, tau: float | FloatArray) -> NDArray[np.bool_]: ...
def reaches(short: Any, tau: Any) -> Any:
    """Whether Q_tau(G) >= x, given short = P(G < x); equality of short and tau does not reach x, a short of 0 always."""
    return (short < tau - MASS_TOL) | (short == 0.0)


def as_number(given: Any, name: str, wanted: str) -> float:
    """`given` as a float; text and arrays are none."""
    try:
        if isinstance(given, str | bytes) or np.ndim(given):
            raise TypeError
        return float(given)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be {wanted}, got {' '.join(short_repr(given).split())}") from None


def check_level(tau: object, name: str = "tau") -> float:
    """`tau` as a float in [0, 1]."""
    level = as_number(tau, name, "a number in [0, 1]")
    if not 0.0 <= level <= 1.0:
        raise ValueError(f"{name} must lie in [0, 1], got {level:g}; give a probability such as 0.1")
    return level


def running_mass(probabilities: FloatArray) -> FloatArray:
    """Running sums, each within about an ulp of the exact one.

    What each rounding of the plain cumulative sum lost (Knuth's two-sum) is summed beside it: a small buffer divides
    these sums by beta, noise included.
    """
    total = np.cumsum(probabilities)
    before = np.concatenate(([0.0], total[:-1]))
    part = total - before
    error = (before - (total - part)) + (probabilities - part)
    return np.asarray(total + np.cumsum(error), dtype=np.float64)


def mean(law: Law) -> float:
    """E G."""
    return float(law.values @ law.probabilities)


def std(law: Law) -> float:
    """Standard deviation of G."""
    return float(np.sqrt(law.probabilities @ (law.values - mean(law)) ** 2))


def expect(law: Law, f: Callable[[float], float]) -> float:
    """E f(G) for any function of one number."""
    images = np.array([f(x) for x in law.values.tolist()], dtype=np.float64)
    if np.isnan(images).any():
        x = law.values[np.isnan(images)][0]
        raise ValueError(f"f({x:g}) is nan; f must be defined on every value of the law")
    return float(images @ law.probabilities)


def _mass_left_of(law: Law, x: ArrayLike, side: int, tol: float) -> FloatArray:
    """Mass of the values up to x + slack (side 1) or below x - slack (side -1), with slack = tol * max(1, |x|)."""
    points = np.asarray(x, dtype=np.float64)
    if np.isnan(points).any():
        raise ValueError("x is nan; give a number to compare the return with")
    slack = np.where(np.isinf(points), 0.0, tol * np.maximum(1.0, np.abs(points)))
    count = np.searchsorted(law.values, points + side * slack, side="right" if side > 0 else "left")
    mass: FloatArray = np.concatenate(([0.0], law.running))[count]
    return mass


@overload
def cdf(law: Law, x: float) -> float: ...
@overload
def cdf(law: Law, x: FloatArray) -> FloatArray: ...
def cdf(law: Law, x: Any) -> Any:
    """P(G <= x); a value within VALUE_TOL of x counts as x, so 0.1 + 0.2 is not above 0.3."""
    mass = _mass_left_of(law, x, 1, VALUE_TOL)
    return mass if mass.ndim else float(mass)


@overload
def shortfall(law: Law, x: float) -> float: ...
@overload
def shortfall(law: Law, x: FloatArray) -> FloatArray: ...
def shortfall(law: Law, x: Any) -> Any:
    """P(G < x), the probability of ending short of x; a value within VALUE_TOL of x counts as x."""
    mass = _mass_left_of(law, x, -1, VALUE_TOL)
    return mass if mass.ndim else float(mass)


def _atom_of(law: Law, tau: float) -> int:
    """Index of the atom Q_tau."""
    return int(np.searchsorted(law.running, tau - MASS_TOL))


def quantile(law: Law, tau: float) -> float:
    """Lower quantile inf{x : P(G <= x) >= tau}, mass compared up to MASS_TOL; level 0 is the smallest value."""
    return float(law.values[_atom_of(law, check_level(tau))])


def upper_quantile(law: Law, tau: float) -> float:
    """Upper quantile sup{x : P(G < x) <= tau}, mass compared up to MASS_TOL; level 1 is the largest value.

    It differs from `quantile` only where some running mass equals tau: it is then the next atom.
    """
    tau = check_level(tau)
    if tau == 0.0:
        return float(law.values[0])
    above = int(np.searchsorted(law.running, tau + MASS_TOL, side="right"))
    return float(law.values[min(above, law.values.size - 1)])


def margin(law: Law, tau: float) -> Margin:
    """Distances tau - P(G < x) and P(G <= x) - tau at x = Q_tau."""
    tau = check_level(tau)
    i = _atom_of(law, tau)
    below = float(law.running[i - 1]) if i else 0.0
    return Margin(tau - below, float(law.running[i]) - tau)


def buffered_quantile(law: Law, tau: float, beta: float) -> float:
    """Lower-buffered quantile: the average of Q_u over u in [tau - min{beta, tau}, tau] (paper, Definition 1).

    The closed sum of the paper: atom j is Q_u for u in (c_{j-1}, c_j], so it weighs the overlap of that interval
    with the buffer. Where both ends fall into one atom the answer is exactly that atom, and it never exceeds Q_tau.
    beta = 0 gives Q_tau itself.
    """
    tau, beta = check_level(tau), check_level(beta, "beta")
    width = min(beta, tau)
    if width == 0.0:
        return quantile(law, tau)
    low = tau - width
    c = law.running
    top = _atom_of(law, tau) if tau < 1.0 else c.size - 1
    below = c[top - 1] if top else 0.0
    if below <= (low + MASS_TOL if low > 0.0 else 0.0):
        return float(law.values[top])

    first = int(np.searchsorted(c, low, side="right"))
    last = int(np.searchsorted(c, tau))
    x, overlap = law.values[first : last + 1], law.probabilities[first : last + 1].copy()
    # Only the atoms at the ends are cut; the others keep their own mass, which the difference c_j - c_{j-1} has rounded.
    if (c[first - 1] if first else 0.0) < low:
        overlap[0] = c[first] - low
    if c[last] > tau:
        overlap[-1] = tau - c[last - 1]
    # Divided by the sum of the overlaps, not by the width: tau - (tau - width) has lost digits of a tiny width.
    # Summed in order, as the loop over rows does, so that both give the same bits.
    average = np.cumsum(x * overlap)[-1] / np.cumsum(overlap)[-1]
    return float(min(max(average, x[0]), law.values[top]))


def cvar(law: Law, tau: float) -> float:
    """Lower CVaR: the mean of the worst share tau of outcomes, Q_tau^tau; level 1 is the mean."""
    return buffered_quantile(law, tau, tau)


def wasserstein(law: Law, other: Law) -> float:
    """Wasserstein-1 distance: the integral of |F - F_other|."""
    x = np.union1d(law.values, other.values)
    gap = np.abs(_mass_left_of(law, x, 1, 0.0) - _mass_left_of(other, x, 1, 0.0))
    return float(gap[:-1] @ np.diff(x))


def under(law: Law, other: Law, mass_tol: float, value_tol: float) -> bool:
    """Whether F(x) <= F_other(x + slack) + mass_tol for all x; it is enough to look where F jumps."""
    return bool(np.all(law.running <= _mass_left_of(other, law.values, 1, value_tol) + mass_tol))


def dominates(law: Law, other: Law) -> bool:
    """First-order dominance, weak: F <= F_other everywhere, up to MASS_TOL."""
    return under(law, other, MASS_TOL, VALUE_TOL)


def _grid(atoms: ArrayLike, pmf: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Both as contiguous float arrays of shapes (m,) and (n, m)."""
    x = np.ascontiguousarray(atoms, dtype=np.float64)
    p = np.ascontiguousarray(pmf, dtype=np.float64)
    if x.ndim != 1 or x.size == 0 or p.ndim != 2 or p.shape[1] != x.size:
        raise ValueError(f"pmf has shape {p.shape} and atoms {x.shape}; give pmf (n, m) and atoms (m,) with m >= 1")
    return x, p


def mean_rows(atoms: ArrayLike, pmf: ArrayLike) -> FloatArray:
    """Means (n,) of the laws in the rows of pmf (n, m) on the increasing atoms (m,)."""
    x, p = _grid(atoms, pmf)
    return p @ x


def quantile_rows(atoms: ArrayLike, pmf: ArrayLike, tau: float) -> FloatArray:
    """Lower quantiles (n,) of the laws in the rows of pmf (n, m) on the increasing atoms (m,); as `quantile`."""
    from bqrl.kernels import law as kernels

    x, p = _grid(atoms, pmf)
    out = np.empty(p.shape[0])
    kernels.quantile_rows(x, p, check_level(tau), MASS_TOL, out)
    return out


def buffered_rows(atoms: ArrayLike, pmf: ArrayLike, tau: float, beta: float) -> FloatArray:
    """Buffered quantiles (n,) of the laws in the rows of pmf (n, m); as `buffered_quantile`."""
    from bqrl.kernels import law as kernels

    x, p = _grid(atoms, pmf)
    out = np.empty(p.shape[0])
    kernels.buffered_rows(x, p, check_level(tau), check_level(beta, "beta"), MASS_TOL, np.empty(x.size), out)
    return out


def cdf_rows(atoms: ArrayLike, pmf: ArrayLike) -> FloatArray:
    """P(G <= atoms[j]) for every row and atom, (n, m)."""
    from bqrl.kernels import law as kernels

    _, p = _grid(atoms, pmf)
    out = np.empty_like(p)
    kernels.running_rows(p, out)
    return out
