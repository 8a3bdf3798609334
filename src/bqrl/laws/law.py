"""Law: a finite probability law, the form in which every return is handed over."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from reprlib import repr as short_repr
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike

from bqrl.laws import functionals
from bqrl.laws.functionals import MASS_TOL, VALUE_TOL, FloatArray, Margin

if TYPE_CHECKING:
    from rich.table import Table

__all__ = ["MASS_TOL", "VALUE_TOL", "Law", "Margin"]

SUM_TOL = 1e-9  # how far from 1 the given probabilities may sum
EXACT_TOL = 4 * np.finfo(np.float64).eps  # a sum this close to 1 is left untouched


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Law:
    """A finite law with increasing values and positive probabilities.

    Values may come unsorted: equal ones are merged, and so are neighbours closer than VALUE_TOL * max(1, |value|),
    where the smaller value stays. Atoms of zero mass are dropped. Probabilities that sum to 1 only up to SUM_TOL are
    rescaled. Arrays are read-only; two laws are compared with `equals`, and a law hashes by identity.

    >>> law = Law([0, 1, 2], [0.25, 0.25, 0.5])
    >>> law.quantile(0.5), law.buffered_quantile(0.5, 0.5), law.cvar(1)
    (1.0, 0.5, 1.25)
    """

    values: FloatArray  # (m,) increasing
    probabilities: FloatArray  # (m,) positive
    running: FloatArray  # (m,) P(G <= values[j]); the last is exactly 1

    __array_ufunc__ = None  # array + law is an error, not an array of laws

    def __init__(self, values: ArrayLike, probabilities: ArrayLike) -> None:
        x, p = _numbers(values, "values"), _masses(probabilities, "probabilities")
        if x.size != p.size:
            raise ValueError(f"values has {x.size} entries and probabilities {p.size}; give one probability per value")
        x, p = _merged(x[p > 0.0], p[p > 0.0])
        running = np.minimum(np.maximum.accumulate(functionals.running_mass(p)), 1.0)
        running[-1] = 1.0
        for name, array in (("values", x), ("probabilities", p), ("running", running)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)

    @classmethod
    def point(cls, x: float) -> Law:
        """The law of the constant x."""
        return cls([x], [1.0])

    @classmethod
    def mixture(cls, laws: Iterable[Law], weights: ArrayLike) -> Law:
        """The law of a draw from laws[i], where i is drawn with probability weights[i]."""
        parts, w = [_law(part, "laws") for part in laws], _masses(weights, "weights")
        if len(parts) != w.size:
            raise ValueError(f"laws has {len(parts)} entries and weights {w.size}; give one weight per law")
        masses = [share * part.probabilities for share, part in zip(w, parts, strict=True)]
        return cls(np.concatenate([part.values for part in parts]), np.concatenate(masses))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Law:
        """The law that `to_dict` wrote."""
        if not isinstance(data, Mapping) or set(data) != {"values", "probabilities"}:
            raise ValueError(f"a law is stored under the keys values and probabilities, got {short_repr(data)}")
        return cls(data["values"], data["probabilities"])

    def to_dict(self) -> dict[str, list[float]]:
        """Values and probabilities as lists, ready for JSON and exact on the way back."""
        return {"values": self.values.tolist(), "probabilities": self.probabilities.tolist()}

    def mean(self) -> float:
        """E G."""
        return functionals.mean(self)

    def std(self) -> float:
        """Standard deviation of G."""
        return functionals.std(self)

    def expect(self, f: Callable[[float], float]) -> float:
        """E f(G) for any function of one number."""
        return functionals.expect(self, f)

    @overload
    def cdf(self, x: float) -> float: ...
    @overload
    def cdf(self, x: FloatArray) -> FloatArray: ...
    def cdf(self, x: Any) -> Any:
        """P(G <= x), for a number or an array; a value within VALUE_TOL of x counts as x."""
        return functionals.cdf(self, x)

    @overload
    def shortfall(self, x: float) -> float: ...
    @overload
    def shortfall(self, x: FloatArray) -> FloatArray: ...
    def shortfall(self, x: Any) -> Any:
        """P(G < x), for a number or an array; a value within VALUE_TOL of x counts as x."""
        return functionals.shortfall(self, x)

    def quantile(self, tau: float) -> float:
        """Lower quantile inf{x : P(G <= x) >= tau}, mass compared up to MASS_TOL; level 0 is the smallest value."""
        return functionals.quantile(self, tau)

    def upper_quantile(self, tau: float) -> float:
        """Upper quantile sup{x : P(G < x) <= tau}, mass compared up to MASS_TOL; level 1 is the largest value."""
        return functionals.upper_quantile(self, tau)

    def margin(self, tau: float) -> Margin:
        """Distances tau - P(G < x) and P(G <= x) - tau at x = quantile(tau): a tiny one is a fragile answer."""
        return functionals.margin(self, tau)

    def buffered_quantile(self, tau: float, beta: float) -> float:
        """Average of the quantiles of levels tau - min{beta, tau} to tau (paper, Definition 1); beta = 0: quantile."""
        return functionals.buffered_quantile(self, tau, beta)

    def cvar(self, tau: float) -> float:
        """Mean of the worst share tau of outcomes: the buffered quantile at beta = tau; level 1 is the mean."""
        return functionals.cvar(self, tau)

    def wasserstein(self, other: Law) -> float:
        """Wasserstein-1 distance to `other`."""
        return functionals.wasserstein(self, _law(other, "other"))

    def dominates(self, other: Law) -> bool:
        """First-order dominance, weak: P(G <= x) is nowhere above that of `other`, up to MASS_TOL."""
        return functionals.dominates(self, _law(other, "other"))

    def equals(self, other: Law, tol: float = 1e-9) -> bool:
        """Whether the laws agree up to `tol` in mass and in max(1, |value|): their Lévy distance is at most tol."""
        other = _law(other, "other")
        return functionals.under(self, other, tol, tol) and functionals.under(other, self, tol, tol)

    def shift(self, c: float) -> Law:
        """The law of G + c."""
        with np.errstate(over="ignore"):  # the constructor names what overflowed
            return Law(self.values + _finite(c, "shift"), self.probabilities)

    def scale(self, c: float) -> Law:
        """The law of c * G, for any finite c."""
        with np.errstate(over="ignore"):  # as in shift
            return Law(self.values * _finite(c, "scale"), self.probabilities)

    def __add__(self, c: float) -> Law:
        return NotImplemented if isinstance(c, Law) else self.shift(c)

    __radd__ = __add__

    def __sub__(self, c: float) -> Law:
        return NotImplemented if isinstance(c, Law) else self.shift(-_finite(c, "shift"))

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Array of n independent draws, by inverting the CDF at uniforms of `rng`."""
        if not isinstance(rng, np.random.Generator):
            raise TypeError(f"rng must be a Generator such as np.random.default_rng(0), got {short_repr(rng)}")
        if n < 0:
            raise ValueError(f"n is {n}; the number of draws must be >= 0")
        return self.values[np.searchsorted(self.running, rng.random(n), side="right")]

    def rows(self) -> list[dict[str, float]]:
        """One row per atom: value, probability, and the probability of at most this value."""
        names = ("value", "probability", "at_most")
        return [dict(zip(names, map(float, row), strict=True)) for row in zip(*self._columns(), strict=True)]

    def to_frame(self) -> Any:
        """The rows as a pandas DataFrame."""
        from bqrl.results.views import frame

        return frame(self.rows())

    def chart(self) -> Any:
        """The law as an Altair chart; requires the extra "plots"."""
        from bqrl.results.views import law_view

        return law_view(self)

    def _repr_html_(self) -> str:
        from bqrl.results.views import law_html

        return law_html(self)

    def __len__(self) -> int:
        return self.values.size

    def __reduce__(self) -> tuple[type[Law], tuple[FloatArray, FloatArray]]:
        return Law, (self.values, self.probabilities)  # arrays come back read-only, unlike a pickled state

    def __repr__(self) -> str:
        shown = [f"{x:.6g}: {p:.4g}" for x, p in zip(self.values, self.probabilities, strict=True)]
        if len(self) > 6:
            shown[3:-2] = ["..."]
        count = "1 atom" if len(self) == 1 else f"{len(self)} atoms"
        return f"Law({', '.join(shown)}; {count}, mean {self.mean():.6g})"

    def __rich__(self) -> Table:
        """A table of the atoms, the middle of a long one left out."""
        from rich.table import Table

        table = Table("value", "probability", "P(G <= value)", caption=f"{len(self)} atoms, mean {self.mean():.6g}")
        rows = [(f"{x:.6g}", f"{p:.4g}", f"{c:.6g}") for x, p, c in zip(*self._columns(), strict=True)]
        if len(rows) > 24:
            rows[12:-11] = [("...", "...", "...")]
        for row in rows:
            table.add_row(*row)
        return table

    def _columns(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        return self.values, self.probabilities, self.running


def _numbers(given: ArrayLike, name: str) -> FloatArray:
    """A fresh one-dimensional array of finite floats."""
    try:
        array = np.asarray(given)
        if array.dtype.kind not in "biufO":
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(f"{name} must be a flat list of numbers, got {' '.join(short_repr(given).split())}") from None
    if array.ndim != 1:
        raise ValueError(f"{name} has shape {array.shape}; give a one-dimensional array")
    if array.size == 0:
        raise ValueError(f"{name} is empty; give at least one entry")
    if not np.isfinite(array).all():
        i = int(np.argmin(np.isfinite(array)))
        raise ValueError(f"{name}[{i}] is {array[i]}; every entry must be finite")
    return array + 0.0  # turns -0.0 into 0.0


def _masses(given: ArrayLike, name: str) -> FloatArray:
    """Nonnegative floats that sum to 1, left untouched where they already do."""
    p = _numbers(given, name)
    if p.min() < -MASS_TOL:
        raise ValueError(f"{name}[{p.argmin()}] is {p.min():g}; {name} must be >= 0")
    p = np.maximum(p, 0.0)
    total = float(functionals.running_mass(p)[-1])
    if abs(total - 1.0) > SUM_TOL:
        raise ValueError(f"{name} sum to {total:.12g}; they must sum to 1 (tolerance 1e-9)")
    return p if abs(total - 1.0) <= EXACT_TOL else p / total


def _merged(x: FloatArray, p: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Increasing values with the masses of equal neighbours added up."""
    order = np.argsort(x, kind="stable")
    x, p = x[order], p[order]
    new = np.concatenate(([True], np.diff(x) > VALUE_TOL * np.maximum(1.0, np.abs(x[1:]))))
    return (x, p) if new.all() else (x[new], np.add.reduceat(p, np.flatnonzero(new)))


def _law(given: object, name: str) -> Law:
    if not isinstance(given, Law):
        raise TypeError(f"{name} must be a Law, got {type(given).__name__}; make one with Law(values, probabilities)")
    return given


def _finite(c: object, name: str) -> float:
    number = functionals.as_number(c, name, "a finite number")
    if not math.isfinite(number):
        raise ValueError(f"{name} must be a finite number, got {number}")
    return number
