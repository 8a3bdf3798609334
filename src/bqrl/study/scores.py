"""Scores of finished runs: measures of every episode, bands of means, orders of learners, and what gaps are measured against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import numpy as np

from bqrl.learners.record import Record, capped_reference
from bqrl.mdp.arrays import FloatArray, IntArray
from bqrl.mdp.derived import per_model
from bqrl.mdp.model import MDP
from bqrl.planners.expected import best_mean
from bqrl.planners.solve import guarantee_curve

CONFIDENCE = 0.95
RESAMPLES = 2000
BAND = "95 % confidence band of the mean, percentile bootstrap over {seeds} seeds"
LAST = 0.1  # share of the last episodes whose realised returns are reported


# Measures of the episodes of a run: the name for people, and the values (T,) at a level.
MEASURES: dict[str, tuple[str, Callable[[Record, float], FloatArray]]] = {
    "capped": ("gap to the capped reference", lambda record, tau: record.gap(tau, "capped")),
    "exact": ("gap to the exact optimum", Record.gap),
    "expected": ("expected-return regret", lambda record, _: record.expected_regret()),
    "return": ("return", lambda record, _: record.returns),
}
SCORED = ("capped", "exact", "expected")  # the measures of a study
MEASURES |= {"gap": MEASURES["exact"], "regret": MEASURES["expected"]}


@dataclass(frozen=True, slots=True)
class Reference:
    """What runs on a problem are measured against at one level."""

    tau: float
    capped: float  # the paper's numerical reference
    exact: float  # the true optimum of the quantile
    best_mean: float
    margin: float  # tau - P(G < exact) under the optimal policy: how far the level is from the next lower quantile


@per_model
def reference(mdp: MDP, tau: float) -> Reference:
    """References of a model at one level."""
    curve = guarantee_curve(mdp)
    exact = float(curve(tau))
    shortfall = np.maximum.accumulate(curve.shortfall)[int(np.searchsorted(curve.points, exact))]
    return Reference(
        tau=tau,
        capped=capped_reference(mdp, tau),
        exact=exact,
        best_mean=best_mean(mdp)[0],
        margin=tau - float(shortfall),
    )


def late_return(record: Record, share: float = LAST) -> float:
    """Mean realised return of the last `share` of the episodes."""
    return float(record.returns[-max(1, round(share * record.returns.size)) :].mean())


def standard_error(values: FloatArray) -> float:
    """Standard error of the mean; NaN for a single value."""
    return float(values.std(ddof=1) / np.sqrt(values.size)) if values.size > 1 else float("nan")


def in_order(values: Mapping[str, FloatArray], *, largest: bool = False) -> list[dict[str, Any]]:
    """Learners from the smallest (or largest) mean on, each with its distance to the next, seed by seed.

    The next learner is clearly worse if its mean is more than two standard errors away; one seed does not tell.

    >>> [row["clear"] for row in in_order({"a": np.array([5.0, 6.0]), "b": np.array([1.0, 2.0])})]
    [True, None]
    """
    sign = -1.0 if largest else 1.0
    order = sorted(values, key=lambda label: (round(sign * float(values[label].mean()), 9), label))
    rows = []
    for label, after in zip_longest(order, order[1:]):
        row: dict[str, Any] = {"learner": label, "mean": float(values[label].mean())}
        row |= {"to_next": None, "to_next_error": None, "clear": None}
        if after is not None:
            distance = sign * (values[after] - values[label])
            row["to_next"] = float(distance.mean())
            if distance.size > 1:
                row["to_next_error"] = standard_error(distance)
                row["clear"] = row["to_next"] > 2.0 * row["to_next_error"]
        rows.append(row)
    return rows


def beats(mine: FloatArray, other: FloatArray) -> float:
    """Probability that a run with the losses `mine` ends below one with the losses `other`; ties count one half.

    >>> beats(np.array([1.0, 2.0]), np.array([2.0, 3.0]))
    0.875
    """
    difference = mine[:, None] - other[None, :]
    equal = np.abs(difference) <= 1e-9 * max(1.0, float(np.abs(mine).max()), float(np.abs(other).max()))
    return float(np.mean(np.where(equal, 0.5, difference < 0.0)))


def evenly(size: int, points: int) -> IntArray:
    """At most `points` indices below `size`, evenly spread, the first and the last included.

    >>> evenly(10, 4).tolist()
    [0, 3, 6, 9]
    """
    return np.unique(np.linspace(0, size - 1, min(size, points)).round().astype(np.int64))


def bootstrap_band(values: FloatArray) -> tuple[FloatArray, FloatArray]:
    """95 % confidence band of the mean of each column, by a percentile bootstrap over the rows.

    Parameters
    ----------
    values
        One row per seed, shape (seeds, columns).

    Returns
    -------
    Lower and upper end, shape (columns,). With one row both are that row.
    """
    n = values.shape[0]
    drawn = np.random.default_rng(0).multinomial(n, np.full(n, 1.0 / n), RESAMPLES) / n
    centre = values[0]  # equal rows give a band of width exactly zero
    low, high = np.quantile(drawn @ (values - centre), ((1.0 - CONFIDENCE) / 2, (1.0 + CONFIDENCE) / 2), axis=0)
    return centre + low, centre + high
