"""Sample: the returns of independent episodes, and what they prove about the law of the return."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from bqrl.checks import bad_type, bad_value, number
from bqrl.display import Charted, count_of, format_number, percent, runs
from bqrl.laws.interval import cvar_interval, episodes_needed, lower_quantile_bound, quantile_interval
from bqrl.laws.law import FloatArray, Law, numbers_of

CONFIDENCE = 0.95
LEVELS = (0.05, 0.1, 0.25, 0.5)  # levels of the rows


class Promise(float):
    """A lower bound on a quantile that holds with a stated confidence: a number whose text is the sentence.

    Attributes
    ----------
    tau, confidence : float
        Level of the quantile, and the probability with which the bound holds.
    episodes : int
        Number of episodes behind it.

    Examples
    --------
    >>> print(Sample(np.arange(1000.0)).promise(0.1))
    with 95 % confidence, in 9 of 10 episodes at least 84
    """

    tau: float
    confidence: float
    episodes: int

    def __new__(cls, value: float, tau: float, confidence: float, episodes: int) -> Promise:
        """Return the promise of a bound."""
        found = super().__new__(cls, value)
        found.tau, found.confidence, found.episodes = tau, confidence, episodes
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return Promise, (float(self), self.tau, self.confidence, self.episodes)

    def __str__(self) -> str:
        if self == -np.inf:
            needed = episodes_needed(self.tau, self.confidence)
            return (
                f"no promise at {percent(self.confidence)} confidence from {count_of('episode', self.episodes)}; "
                f"a promise for {runs(self.tau, 'episodes')} needs at least {needed}"
            )
        amount = format_number(float(self), 6, -1)  # rounded down, so it is still a bound
        return f"with {percent(self.confidence)} confidence, in {runs(self.tau, 'episodes')} at least {amount}"


class Sample(NDArrayOperatorsMixin, Charted):
    """The returns of independent episodes; made by `simulate`.

    It behaves as an array: `np.asarray(sample)`, `len(sample)`, `sample[:10]`, `sample.mean()`, `(sample >= 0).mean()`. Its
    intervals and promises hold for every law of the return; they assume only that the episodes are independent.

    Parameters
    ----------
    returns : array_like of shape (n,)
        One return per episode.
    cut : int
        Number of episodes that were stopped by a time limit or the horizon and did not end by themselves.
    unknown : int
        Number of episodes in which the policy met a state that it does not know.

    Attributes
    ----------
    returns : ndarray of shape (n,)
        The returns, in the order of the episodes; read-only.

    Examples
    --------
    >>> sample = Sample(np.arange(1000.0))
    >>> sample.quantile(0.1), sample.interval(0.1), sample.promise(0.1) == 84.0
    (99.0, (81.0, 119.0), True)
    """

    def __init__(self, returns: Any, cut: int = 0, unknown: int = 0) -> None:
        self.returns = np.array(numbers_of(returns, "returns"))
        self.returns.flags.writeable = False
        self.cut, self.unknown = int(cut), int(unknown)

    @cached_property
    def law(self) -> Law:
        """The empirical law: each return has the probability 1 / n."""
        return Law(self.returns, np.full(self.returns.size, 1.0 / self.returns.size))

    def quantile(self, tau: float) -> float:
        """Return the lower tau-quantile of the returns."""
        return self.law.quantile(tau)

    def interval(self, tau: float, confidence: float = CONFIDENCE) -> tuple[float, float]:
        """Return an interval that contains the tau-quantile of the return with the stated confidence.

        Parameters
        ----------
        tau : float
            Level in (0, 1).
        confidence : float
            Probability in (0, 1) with which the interval contains the quantile, for every law of the return.

        Returns
        -------
        tuple of float
            Two returns of the sample; an end is infinite if there are too few episodes for it.
        """
        found = quantile_interval(self.returns, *_levels(tau, confidence))
        return found["lower"], found["upper"]

    def promise(self, tau: float, confidence: float = CONFIDENCE) -> Promise:
        """Return the largest return of the sample that lies below the tau-quantile with the stated confidence.

        Parameters
        ----------
        tau, confidence : float
            Level and confidence, each in (0, 1).

        Returns
        -------
        Promise
            A float whose text is "with 95 % confidence, in 9 of 10 episodes at least x"; -inf if there are too few episodes.
        """
        tau, confidence = _levels(tau, confidence)
        bound = lower_quantile_bound(self.returns, tau, confidence)
        return Promise(bound, tau, confidence, self.returns.size)

    def cvar(self, tau: float) -> float:
        """Return the mean of the worst fraction tau of the returns."""
        return self.law.cvar(tau)

    def cvar_interval(
        self, tau: float, confidence: float = CONFIDENCE, *, lowest: float | None = None, highest: float | None = None
    ) -> tuple[float, float]:
        """Return an interval that contains the lower CVaR at level tau with the stated confidence.

        Parameters
        ----------
        tau : float
            Level in (0, 1].
        confidence : float
            Probability in (0, 1) with which the interval contains the CVaR.
        lowest, highest : float, optional
            The lowest and the highest possible return, if they are known; no sample can tell them.

        Returns
        -------
        tuple of float
            Both ends; the lower one is -inf without `lowest`, the upper one needs `highest` only for levels near 1.
        """
        tau, confidence = number(tau, "tau", 0.0, 1.0, "(]"), number(confidence, "confidence", 0.0, 1.0, "()")
        worst, best = float(self.returns.min()), float(self.returns.max())
        low = -np.inf if lowest is None else number(lowest, "lowest")
        high = np.inf if highest is None else number(highest, "highest")
        if low > worst:
            raise bad_value("lowest", lowest, f"be at most {worst:g}, the smallest return of the sample")
        if high < best:
            raise bad_value("highest", highest, f"be at least {best:g}, the largest return of the sample")
        return cvar_interval(self.law, self.returns.size, tau, confidence, low, high)

    def mean(self, **options: Any) -> float:
        """Return the mean of the returns; `numpy.mean` passes options of its own."""
        return float(self.returns.mean(**options))

    def rows(self) -> list[dict[str, float]]:
        """Return one row per level: the quantile of the sample, its 95 % interval, and the promise."""
        found = []
        for tau in LEVELS:
            lower, upper = self.interval(tau)
            promise = float(self.promise(tau))
            found.append(
                {"tau": tau, "quantile": self.quantile(tau), "lower": lower, "upper": upper, "promise": promise}
            )
        return found

    # -- the sample as an array ------------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the array of returns: min, max, std, shape, tolist, ..."""
        if name.startswith("_") or name == "returns":
            raise AttributeError(f"Sample has no attribute {name!r}")
        return getattr(self.returns, name)

    def __len__(self) -> int:
        return self.returns.size

    def __getitem__(self, place: Any) -> Any:
        return self.returns[place]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> FloatArray:
        return np.array(self.returns, dtype=dtype, copy=copy)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        if "out" in options:
            raise bad_type("out", options["out"], "not be given for a Sample, which is read-only")
        arrays = [each.returns if isinstance(each, Sample) else each for each in inputs]
        return getattr(ufunc, method)(*arrays, **options)

    def __repr__(self) -> str:
        notes = [
            f"{count_of('episode', n)} {what}"
            for n, what in ((self.cut, "cut off"), (self.unknown, "with states unknown to the policy"))
            if n
        ]
        facts = f"{count_of('episode', len(self))}, mean {self.mean():.6g}, 0.1-quantile {self.quantile(0.1):.6g}"
        return f"Sample({', '.join([facts, *notes])})"


def _levels(tau: float, confidence: float) -> tuple[float, float]:
    """Return a level and a confidence, both checked to lie in (0, 1)."""
    return number(tau, "tau", 0.0, 1.0, "()"), number(confidence, "confidence", 0.0, 1.0, "()")
