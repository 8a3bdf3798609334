"""Objectives: what a plan maximises. A small frozen record scores a law of the return and names itself.

    objective(law)           the value of a law
    objective.label          the name in tables and titles: "0.1-quantile", "CVaR at 0.1"
    objective.promise(x)     the part of a sentence: "in 9 of 10 runs you get at least 12 EUR"
    objective.text           the form on the command line and in files: "quantile:0.1", "cvar:0.1"

The records of this file are the quantile, the buffered quantile with CVaR as its widest buffer, and the mean. A further
objective is a file in `planners/` with its record and its recursion, and one entry in `planners/solve.py`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from bqrl.checks import bad_type, bad_value, exact_text, number
from bqrl.display import percent, runs
from bqrl.laws.law import Law
from bqrl.laws.rows import buffered_rows, mean_rows, quantile_rows

LEVEL_SLACK = 1e-9  # rounding may move levels this close to [tau - beta, tau] into it; no buffer is smaller


class Objective(ABC):
    """What a plan maximises: a functional of the law of the return.

    Write a subclass with these two methods to score laws by a measure of your own; `solve` needs a planner for it.

    Attributes
    ----------
    probability : bool
        Whether values are probabilities; otherwise they have the unit of the return.
    name : str
        The name before the colon of `text`; "" if the objective has no such form.

    Examples
    --------
    >>> import bqrl
    >>> law = bqrl.Law([0, 1, 2], [0.25, 0.25, 0.5])
    >>> bqrl.Quantile(0.5)(law), bqrl.CVaR(0.5)(law), bqrl.Mean()(law)
    (1.0, 0.5, 1.25)
    """

    __slots__ = ()
    probability: ClassVar[bool] = False
    name: ClassVar[str] = ""

    @abstractmethod
    def __call__(self, law: Law) -> float:
        """Return the value of a law."""

    @property
    @abstractmethod
    def label(self) -> str:
        """The name in tables and titles."""

    @property
    def kind(self) -> str:
        """The name without its numbers, for the title of a column: "quantile", "CVaR"."""
        return self.label

    @property
    def text(self) -> str:
        """The form on the command line and in files, such as "chance:100"; "" if the objective has none."""
        numbers = ",".join(exact_text(getattr(self, one.name)) for one in fields(self)) if self.name else ""  # type: ignore[arg-type]
        return f"{self.name}:{numbers}" if numbers else self.name

    def promise(self, amount: str, noun: str = "runs", total: str = "return") -> str:
        """Return the part of a sentence that states a value, given as text with its unit.

        `noun` is what users call runs, such as "patients", and `total` what a run brings, such as "net benefit".
        """
        return f"the {self.label} of the {total} is {amount}"

    def axis(self, noun: str = "runs", total: str = "return") -> str:
        """Return the title of an axis of values."""
        return f"{self.label} of the {total}"

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True, slots=True)
class Quantile(Objective):
    """The tau-quantile of the return, also called Value-at-Risk: the result that is reached in a share 1 - tau of runs.

    Parameters
    ----------
    tau : float
        Level in (0, 1): the share of runs that may fall short.

    Examples
    --------
    >>> Quantile(0.1).label
    '0.1-quantile'
    """

    tau: float
    beta: ClassVar[float] = 0.0
    name: ClassVar[str] = "quantile"
    kind: ClassVar[str] = "quantile"

    def __post_init__(self) -> None:
        object.__setattr__(self, "tau", check_levels(self.tau)[0])

    def __call__(self, law: Law) -> float:
        """Return the lower tau-quantile of a law."""
        return law.quantile(self.tau)

    @property
    def label(self) -> str:
        """The name in tables and titles."""
        return f"{_level(self.tau)}-quantile"

    def promise(self, amount: str, noun: str = "runs", total: str = "return") -> str:
        """Return "in 9 of 10 runs you get at least AMOUNT"."""
        return f"in {runs(self.tau, noun)} {gets(f'at least {amount}', noun, total)}"

    def axis(self, noun: str = "runs", total: str = "return") -> str:
        """Return "return reached in 9 of 10 runs"."""
        return f"{total} reached in {runs(self.tau, noun)}"


@dataclass(frozen=True, slots=True)
class Buffered(Objective):
    """The lower-buffered quantile (paper, Definition 1): the mean of the quantiles of levels tau - beta to tau.

    Parameters
    ----------
    tau : float
        Level in (0, 1].
    beta : float
        Width of the buffer, in (0, tau]: from the quantile (a buffer near 0) to CVaR (`beta = tau`).

    Examples
    --------
    >>> Buffered(0.1, 0.1) == CVaR(0.1), Buffered(0.1, 0.03).label
    (True, '0.1-quantile buffered by 0.03')
    """

    tau: float
    beta: float
    name: ClassVar[str] = "buffered"

    def __post_init__(self) -> None:
        tau, beta = check_levels(self.tau, self.beta)
        if beta == 0.0:
            raise bad_value("beta", beta, "be positive", "0", remedy="use Quantile(tau) for the quantile")
        object.__setattr__(self, "tau", tau)
        object.__setattr__(self, "beta", beta)

    def __call__(self, law: Law) -> float:
        """Return the buffered quantile of a law."""
        return law.buffered_quantile(self.tau, self.beta)

    @property
    def label(self) -> str:
        """The name in tables and titles."""
        level = _level(self.tau)
        return f"CVaR at {level}" if self.beta == self.tau else f"{level}-quantile buffered by {self.beta:g}"

    @property
    def kind(self) -> str:
        """The name without its numbers."""
        return "CVaR" if self.beta == self.tau else "buffered quantile"

    @property
    def text(self) -> str:
        """The form on the command line and in files."""
        tau, beta = exact_text(self.tau), exact_text(self.beta)
        return f"cvar:{tau}" if self.beta == self.tau else f"buffered:{tau},{beta}"

    def promise(self, amount: str, noun: str = "runs", total: str = "return") -> str:
        """Return "over the worst 10 % of runs you get AMOUNT on average", or between which quantiles."""
        worst = f"over the worst {percent(self.tau)} of {noun}"
        window = f"between the {percent(self.tau - self.beta)} and the {percent(self.tau)} quantile"
        return f"{worst if self.beta == self.tau else window} {gets(amount, noun, total)} on average"

    def __repr__(self) -> str:
        return f"CVaR({self.tau!r})" if self.beta == self.tau else f"Buffered({self.tau!r}, {self.beta!r})"


def CVaR(tau: float) -> Buffered:
    """The lower CVaR: the mean return of the worst share tau of runs; the same record as `Buffered(tau, tau)`.

    Parameters
    ----------
    tau : float
        Level in (0, 1].

    Returns
    -------
    Buffered

    Examples
    --------
    >>> CVaR(0.1)
    CVaR(0.1)
    """
    return Buffered(tau, tau)


@dataclass(frozen=True, slots=True)
class Mean(Objective):
    """The mean return: the objective of risk-neutral planning.

    Attributes
    ----------
    label : str
        "mean".

    Examples
    --------
    >>> Mean()(Law([0, 2], [0.5, 0.5]))
    1.0
    """

    name: ClassVar[str] = "mean"

    def __call__(self, law: Law) -> float:
        """Return the mean of the return, which is exact although a law may be a bound."""
        return law.exact_mean

    @property
    def label(self) -> str:
        """The name in tables and titles."""
        return "mean"


def _level(tau: float) -> str:
    """Return a level as text; a level below 1 is never rounded to 1."""
    return exact_text(tau) if tau < 1.0 == float(f"{tau:g}") else f"{tau:g}"


def gets(amount: str, noun: str, total: str) -> str:
    """Return "you get AMOUNT", or "AMOUNT net benefit" if users have named the runs or the return."""
    own = amount if total == "return" else f"{amount} {total}"
    return f"you get {own}" if noun in ("runs", "episodes") else own


def check_levels(tau: Any, beta: Any = 0.0) -> tuple[float, float]:
    """Return level and buffer as floats: tau in (0, 1), or 1 with a positive buffer; beta is 0 or in [LEVEL_SLACK, tau]."""
    tau = number(tau, "tau", 0.0, 1.0, "(]")
    beta = number(beta, "beta")
    if not 0.0 <= beta <= tau:
        remedy = "beta = tau is CVaR, beta = 0 the quantile"
        rule = f"be a number in [0, tau] = [0, {exact_text(tau)}]"
        raise bad_value("beta", beta, rule, exact_text(beta), remedy=remedy)
    if 0.0 < beta < LEVEL_SLACK:
        remedy = "smaller buffers are below rounding errors; beta = 0 is the quantile"
        raise bad_value("beta", beta, f"be 0 or at least {LEVEL_SLACK:g}", exact_text(beta), remedy=remedy)
    if tau == 1.0 and beta == 0.0:
        raise bad_value("tau", tau, "be below 1 if beta is 0", "1", remedy="give a buffer beta")
    return tau, beta


def quantile_objective(tau: float, beta: float = 0.0) -> Quantile | Buffered:
    """Return the record of a level and a buffer, which may be 0."""
    return Quantile(tau) if beta == 0.0 else Buffered(tau, beta)


def averaged_levels(objective: Objective) -> tuple[float, float]:
    """Return level and buffer of an objective that averages the quantiles over [level - buffer, level]; [0, 1] for the mean."""
    if isinstance(objective, Quantile | Buffered):
        return objective.tau, objective.beta
    if isinstance(objective, Mean):
        return 1.0, 1.0
    raise bad_value("objective", objective, "average quantiles: Quantile, Buffered or Mean", objective.label)


def value_rows(objective: Objective, points: NDArray[np.float64], pmf: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the values of laws on common points, one law per row of `pmf`."""
    if isinstance(objective, Quantile):
        return quantile_rows(points, pmf, objective.tau)
    if isinstance(objective, Buffered):
        return buffered_rows(points, pmf, objective.tau, objective.beta)
    if isinstance(objective, Mean):
        return mean_rows(points, pmf)
    return np.array([objective(Law(points, row)) for row in pmf])


def check_objective(given: Any, tau: Any = None, beta: Any = 0.0) -> Objective:
    """Return the objective given as a record, or as a level (in its place or as `tau`) with the buffer `beta`."""
    if isinstance(given, Objective):
        if tau is not None or beta != 0.0:
            name, value = ("tau", tau) if tau is not None else ("beta", beta)
            raise bad_value(name, value, f"not be given together with the objective {given.label}", remedy="omit it")
        return given
    if isinstance(tau, Objective):
        raise bad_type(
            "tau", tau, "be a level in (0, 1)", tau.label, remedy=f"pass the objective as objective=bqrl.{tau!r}"
        )
    if given is not None and tau is not None:
        raise bad_value(
            "tau", tau, "be given once", f"also {exact_text(float(given))}" if isinstance(given, float) else "two"
        )
    level = tau if given is None else given
    if level is None or (tau is None and isinstance(level, (str, type))):
        rule = "be an objective such as bqrl.CVaR(0.1), or a level in (0, 1)"
        raise bad_type("objective", level, rule, None if level is not None else "none", remedy="pass e.g. tau=0.1")
    return quantile_objective(*check_levels(level, beta))
