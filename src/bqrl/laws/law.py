"""Law: a finite probability law, the form in which returns are reported.

    Q_tau = inf{x : P(G <= x) >= tau}                                            the lower quantile
    Q_tau^beta = (1 / l) * integral of Q_u over [tau - l, tau],  l = min{beta, tau}      (paper, Definition 1)

beta = tau gives the lower CVaR, beta -> 0 the quantile (Value-at-Risk).

One tolerance decides every comparison of a probability with a level: eight weights of 0.1 sum to 0.7999999999999999, so
Q_tau is the first atom whose running mass is at least tau - MASS_TOL. `reaches` is the same decision in terms of P(G < x).
The quantile of level 0 is the smallest value.
Deviation: Definition 1 states its endpoint rule twice for level 0 and not at all for level 1; here the integral also
defines level 1.

`laws/rows.py` has the same functionals for many laws on a shared grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bqrl.checks import bad_type, bad_value, number, whole
from bqrl.display import Charted
from bqrl.loops.draws import draw_sorted
from bqrl.loops.tolerance import MASS_TOL as MASS_TOL
from bqrl.loops.tolerance import SUM_TOL

if TYPE_CHECKING:
    from rich.table import Table

FloatArray = NDArray[np.float64]

VALUE_TOL = 1e-13  # values closer than this, relative to the value or to min(1, size of the law), are the same value
EXACT_TOL = 4 * np.finfo(np.float64).eps  # a sum this close to 1 is left untouched
SIDES = ("lower", "upper")


class Margin(NamedTuple):
    """Distances of the level tau from both ends of the quantile's atom x; a tiny distance marks a fragile answer.

    `above` may be negative, by at most MASS_TOL, if the tolerance determined the quantile.
    """

    below: float  # tau - P(G < x)
    above: float  # P(G <= x) - tau


class Bound(NamedTuple):
    """The relation of a law that is only a bound to the law of the return."""

    side: str  # "lower" or "upper": the law of the return dominates this law, or is dominated by it
    mean: float  # the exact mean of the return


@overload
def reaches(short: float, tau: float) -> bool: ...
@overload
def reaches(short: FloatArray, tau: float | FloatArray) -> NDArray[np.bool_]: ...
def reaches(short: Any, tau: Any) -> Any:
    """Return whether Q_tau(G) >= x, given short = P(G < x), which must be strictly below tau or exactly 0."""
    return (short < tau - MASS_TOL) | (short == 0.0)


def check_level(tau: Any, name: str = "tau") -> float:
    """Return `tau` as a float in [0, 1]."""
    return number(tau, name, 0.0, 1.0)


@dataclass(frozen=True, slots=True, init=False, eq=False, repr=False)
class Law(Charted):
    """A probability law on finitely many values, such as the law of the return: `plan.law`, `evaluate(mdp, policy)`.

    Values that are equal, or closer than `VALUE_TOL * max(min(1, size), |value|)`, are merged into the smaller one, where
    the size is the largest absolute value. Atoms of zero mass are dropped. Probabilities that sum to 1 only up to SUM_TOL
    are rescaled. The arrays are read-only; compare two laws with `equals`.

    Parameters
    ----------
    values : array_like of shape (m,)
        Values in any order.
    probabilities : array_like of shape (m,)
        One probability per value.
    bound : Bound, optional
        Side and exact mean, if the law is only a bound on the law of the return; `evaluate` returns bounds if no exact law fits.

    Attributes
    ----------
    values : ndarray of shape (m,)
        The distinct values with positive probability, increasing, in the unit of the rewards.
    probabilities : ndarray of shape (m,)
        Their probabilities, all positive.
    running : ndarray of shape (m,)
        P(G <= values[j]); the last entry is exactly 1.
    bound : Bound or None
        None unless this law is a lower or an upper bound in first-order dominance; `bound.mean` is then the exact mean.

    Examples
    --------
    >>> law = Law([0, 1, 2], [0.25, 0.25, 0.5])
    >>> law.quantile(0.5), law.buffered_quantile(0.5, 0.5), law.cvar(1)
    (1.0, 0.5, 1.25)
    """

    values: FloatArray
    probabilities: FloatArray
    running: FloatArray
    bound: Bound | None

    __array_ufunc__ = None  # array + law is an error, not an array of laws

    def __init__(self, values: ArrayLike, probabilities: ArrayLike, bound: Bound | None = None) -> None:
        x, p = numbers_of(values, "values"), numbers_of(probabilities, "probabilities")
        if x.size != p.size:
            raise bad_value("probabilities", probabilities, f"have one entry per value ({x.size})", p.size)
        p = masses_of(p, "probabilities")
        x, p = merge_atoms(x[p > 0.0], p[p > 0.0])
        running = np.minimum(np.maximum.accumulate(running_mass(p)), 1.0)
        running[-1] = 1.0
        for name, array in (("values", x), ("probabilities", p), ("running", running)):
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        if bound is not None and (not isinstance(bound, Bound) or bound.side not in SIDES):
            raise bad_type("bound", bound, "be None or a Bound with the side 'lower' or 'upper'")
        object.__setattr__(self, "bound", bound)

    @classmethod
    def point(cls, x: float) -> Law:
        """Return the law of the constant x."""
        return cls([x], [1.0])

    @classmethod
    def mixture(cls, laws: Iterable[Law], weights: ArrayLike) -> Law:
        """Return the law of a draw from laws[i], where i is drawn with probability weights[i]."""
        if not isinstance(laws, Iterable):
            raise bad_type("laws", laws, "be a list of laws")
        parts, w = [_check_law(part, "laws") for part in laws], masses_of(weights, "weights")
        if len(parts) != w.size:
            raise bad_value("weights", weights, f"have one entry per law ({len(parts)})", w.size)
        masses = [share * part.probabilities for share, part in zip(w, parts, strict=True)]
        sides, bound = {part.bound.side for part in parts if part.bound is not None}, None
        if len(sides) > 1:
            raise bad_value("laws", laws, "not mix lower with upper bounds", "both")
        if sides:
            bound = Bound(sides.pop(), float(sum(u * part.exact_mean for u, part in zip(w, parts, strict=True))))
        return cls(np.concatenate([part.values for part in parts]), np.concatenate(masses), bound)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Law:
        """Return the law that `to_dict` wrote."""
        if not isinstance(data, Mapping) or set(data) - {"bound"} != {"values", "probabilities"}:
            raise bad_value("data", data, "have the keys 'values' and 'probabilities'")
        bound = data.get("bound")
        if bound is not None and (not isinstance(bound, Mapping) or set(bound) != {"side", "mean"}):
            raise bad_value("bound", bound, "have the keys 'side' and 'mean'")
        return cls(data["values"], data["probabilities"], None if bound is None else Bound(**bound))

    def to_dict(self) -> dict[str, Any]:
        """Return values, probabilities and the bound, if there is one, for JSON; `from_dict` restores the law exactly."""
        bound = {} if self.bound is None else {"bound": self.bound._asdict()}
        return {"values": self.values.tolist(), "probabilities": self.probabilities.tolist(), **bound}

    # -- functionals ----------------------------------------------------------------------------------------------------

    def mean(self) -> float:
        """Return E G, the mean of the atoms; if this law is a bound, `exact_mean` is the mean of the return."""
        return float(self.values @ self.probabilities)

    @property
    def exact_mean(self) -> float:
        """Mean of the return: that of the atoms, or the one stored with a bound, which needs no grid."""
        return self.mean() if self.bound is None else self.bound.mean

    def std(self) -> float:
        """Return the standard deviation of G."""
        return float(np.sqrt(self.probabilities @ (self.values - self.mean()) ** 2))

    def expect(self, f: Callable[[float], float]) -> float:
        """Return E f(G) for a function of one number."""
        if not callable(f):
            raise bad_type("f", f, "be a function of one number")
        images = as_floats([f(x) for x in self.values.tolist()], "f", "return a number for every value of the law")
        if images.ndim != 1:
            raise bad_type("f", f, "return a number for every value of the law", f"arrays of shape {images.shape[1:]}")
        if np.isnan(images).any():
            x = self.values[np.isnan(images)][0]
            raise bad_value("f", f, "be defined on every value of the law", f"f({x:g}) = nan")
        return float(images @ self.probabilities)

    @overload
    def cdf(self, x: float) -> float: ...
    @overload
    def cdf(self, x: FloatArray) -> FloatArray: ...
    def cdf(self, x: Any) -> Any:
        """Return P(G <= x) for a number or an array; values within VALUE_TOL of x count as x, so 0.1 + 0.2 is not above 0.3."""
        mass = self._mass_left_of(x, 1, VALUE_TOL)
        return mass if mass.ndim else float(mass)

    @overload
    def shortfall(self, x: float) -> float: ...
    @overload
    def shortfall(self, x: FloatArray) -> FloatArray: ...
    def shortfall(self, x: Any) -> Any:
        """Return P(G < x) for a number or an array; values within VALUE_TOL of x count as x."""
        mass = self._mass_left_of(x, -1, VALUE_TOL)
        return mass if mass.ndim else float(mass)

    def quantile(self, tau: float) -> float:
        """Return the lower quantile inf{x : P(G <= x) >= tau}, comparing masses up to MASS_TOL; the smallest value at level 0."""
        return float(self.values[self._atom_of(check_level(tau))])

    def upper_quantile(self, tau: float) -> float:
        """Return the upper quantile sup{x : P(G < x) <= tau}, comparing masses up to MASS_TOL; the largest value at level 1.

        It differs from `quantile` only if some running mass equals tau; it is then the next atom.
        """
        tau = check_level(tau)
        if tau == 0.0:
            return float(self.values[0])
        above = int(np.searchsorted(self.running, tau + MASS_TOL, side="right"))
        return float(self.values[min(above, self.values.size - 1)])

    def margin(self, tau: float) -> Margin:
        """Return tau - P(G < x) and P(G <= x) - tau at x = quantile(tau): a tiny distance marks a fragile answer."""
        tau = check_level(tau)
        i = self._atom_of(tau)
        below = float(self.running[i - 1]) if i else 0.0
        return Margin(tau - below, float(self.running[i]) - tau)

    def buffered_quantile(self, tau: float, beta: float) -> float:
        """Return the average of the quantiles of levels tau - min{beta, tau} to tau (paper, Definition 1).

        Atom j is Q_u for u in (c_{j-1}, c_j], where c_j is the running mass, so its weight in the average is the overlap of
        that interval with the buffer (the closed form of the paper). If all levels of the buffer lie in one atom, the
        result is exactly that atom. It never exceeds Q_tau.

        Parameters
        ----------
        tau : float
            Level in [0, 1].
        beta : float
            Width of the buffer in [0, 1]. 0 gives the quantile and tau the lower CVaR. As in the paper, a buffer wider
            than tau is cut at level 0: `buffered_quantile(0.5, 0.6)` equals `cvar(0.5)`.

        Returns
        -------
        float
            The buffered quantile.

        Examples
        --------
        >>> Law([0, 1, 2], [0.25, 0.25, 0.5]).buffered_quantile(0.75, 0.5)
        1.5
        """
        tau, beta = check_level(tau), check_level(beta, "beta")
        width = min(beta, tau)
        if width == 0.0:
            return self.quantile(tau)
        low, c = tau - width, self.running
        top = self._atom_of(tau) if tau < 1.0 else c.size - 1
        below = c[top - 1] if top else 0.0
        if below <= (low + MASS_TOL if low > 0.0 else 0.0):
            return float(self.values[top])

        first = int(np.searchsorted(c, low, side="right"))
        last = int(np.searchsorted(c, tau))
        x, overlap = self.values[first : last + 1], self.probabilities[first : last + 1].copy()
        # Only the end atoms are cut; the others keep their own mass, because c_j - c_{j-1} is rounded.
        if (c[first - 1] if first else 0.0) < low:
            overlap[0] = c[first] - low
        if c[last] > tau:
            overlap[-1] = tau - c[last - 1]
        # Divide by the sum of the overlaps rather than by the width, since tau - (tau - width) loses digits of a tiny width.
        # Sum in the order of the loop over rows, so that both give the same bits.
        average = np.cumsum(x * overlap)[-1] / np.cumsum(overlap)[-1]
        return float(min(max(average, x[0]), self.values[top]))

    def cvar(self, tau: float) -> float:
        """Return the lower CVaR, the mean of the worst fraction tau of outcomes: the buffered quantile at beta = tau."""
        return self.buffered_quantile(tau, tau)

    # -- comparison and arithmetic --------------------------------------------------------------------------------------

    def wasserstein(self, other: Law) -> float:
        """Return the Wasserstein-1 distance to `other`, the integral of `|F - F_other|`."""
        x = np.union1d(self.values, _check_law(other, "other").values)
        gap = np.abs(self._mass_left_of(x, 1, 0.0) - other._mass_left_of(x, 1, 0.0))
        return float(gap[:-1] @ np.diff(x))

    def dominates(self, other: Law) -> bool:
        """Return whether this law weakly dominates `other` in first order: its CDF is nowhere larger, up to MASS_TOL."""
        return self._lies_below(_check_law(other, "other"), MASS_TOL, VALUE_TOL)

    def equals(self, other: Law, tol: float = 1e-9) -> bool:
        """Whether the Lévy distance is at most `tol`; values are compared relative to `max(min(1, size), |value|)`."""
        tol = number(tol, "tol", 0.0)
        return self._lies_below(_check_law(other, "other"), tol, tol) and other._lies_below(self, tol, tol)

    def shift(self, c: float) -> Law:
        """Return the law of G + c."""
        c = number(c, "shift")
        bound = self.bound and self.bound._replace(mean=self.bound.mean + c)
        with np.errstate(over="ignore"):  # the constructor reports an overflow
            return Law(self.values + c, self.probabilities, bound)

    def scale(self, c: float) -> Law:
        """Return the law of c * G, for any finite c."""
        c, bound = number(c, "scale"), None
        if self.bound is not None and c != 0.0:  # a negative factor turns a lower bound into an upper one
            bound = Bound(self.bound.side if c > 0.0 else SIDES[self.bound.side == "lower"], c * self.bound.mean)
        with np.errstate(over="ignore"):  # as in shift
            return Law(self.values * c, self.probabilities, bound)

    def __add__(self, c: float) -> Law:
        return NotImplemented if isinstance(c, Law) else self.shift(c)

    __radd__ = __add__

    def __sub__(self, c: float) -> Law:
        return NotImplemented if isinstance(c, Law) else self.shift(-number(c, "shift"))

    def sample(self, n: int, rng: np.random.Generator) -> FloatArray:
        """Return n independent draws: the first atom whose running mass exceeds each uniform of `rng`."""
        if not isinstance(rng, np.random.Generator):
            raise bad_type("rng", rng, "be a Generator", remedy="pass np.random.default_rng(0)")
        return self.values[draw_sorted(self.running, rng.random(whole(n, "n")))]

    # -- display --------------------------------------------------------------------------------------------------------

    def rows(self) -> list[dict[str, float]]:
        """Return one row per atom: value, probability, and the probability of at most this value."""
        columns = zip(self.values.tolist(), self.probabilities.tolist(), self.running.tolist(), strict=True)
        return [{"value": x, "probability": p, "at_most": c} for x, p, c in columns]

    def __len__(self) -> int:
        return self.values.size

    def __reduce__(self) -> tuple[type[Law], tuple[FloatArray, FloatArray, Bound | None]]:
        return Law, (self.values, self.probabilities, self.bound)  # the constructor makes the arrays read-only

    def __repr__(self) -> str:
        atoms = [f"{x:.6g}: {p:.4g}" for x, p in zip(self.values, self.probabilities, strict=True)]
        if len(self) > 6:
            atoms[3:-2] = ["..."]
        count = "1 atom" if len(self) == 1 else f"{len(self)} atoms"
        return f"Law({', '.join(atoms)}; {count}, {self._means()})"

    def _means(self) -> str:
        """Return the mean in words, with the exact one if the law is a bound."""
        mean = f"mean {self.mean():.6g}"
        return mean if self.bound is None else f"{mean}, {self.bound.side} bound; exact mean {self.bound.mean:.6g}"

    def __rich__(self) -> Table:
        """Return a table of the atoms, without the middle of a long one."""
        from rich.table import Table

        table = Table("value", "probability", "P(G <= value)", caption=f"{len(self)} atoms, {self._means()}")
        columns = zip(self.values, self.probabilities, self.running, strict=True)
        rows = [(f"{x:.6g}", f"{p:.4g}", f"{c:.6g}") for x, p, c in columns]
        if len(rows) > 24:
            rows[12:-11] = [("...", "...", "...")]
        for row in rows:
            table.add_row(*row)
        return table

    # -- private --------------------------------------------------------------------------------------------------------

    def _atom_of(self, tau: float) -> int:
        """Return the index of the atom Q_tau."""
        return int(np.searchsorted(self.running, tau - MASS_TOL))

    def _mass_left_of(self, x: ArrayLike, side: int, tol: float) -> FloatArray:
        """Return the mass of the values up to x + slack (side 1) or below x - slack (side -1); slack = tol * max(floor, |x|)."""
        points = as_floats(x, "x", "be a number or an array of numbers")
        if np.isnan(points).any():
            raise bad_value("x", x, "be a number to compare the return with", "nan")
        slack = np.where(np.isinf(points), 0.0, tol * np.maximum(smallest_scale(self.values), np.abs(points)))
        count = np.searchsorted(self.values, points + side * slack, side="right" if side > 0 else "left")
        return np.concatenate(([0.0], self.running))[count]

    def _lies_below(self, other: Law, mass_tol: float, value_tol: float) -> bool:
        """Return whether F(x) <= F_other(x + slack) + mass_tol for all x; only the jumps of F need checking."""
        return bool(np.all(self.running <= other._mass_left_of(self.values, 1, value_tol) + mass_tol))


def _check_law(given: object, name: str) -> Law:
    """Return `given` if it is a Law; raise ArgumentTypeError otherwise."""
    if not isinstance(given, Law):
        raise bad_type(name, given, "be a Law", type(given).__name__, remedy="make one with Law(values, probabilities)")
    return given


# -- values and masses ------------------------------------------------------------------------------------------------------


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
