"""Confidence balls: the l1 radius of every row of an empirical model.

Fix a row, a set G of its outcomes and a rate lambda > 0. By Ville's inequality, with probability at least 1 - exp(-L) the
frequency p_hat(G) after n visits satisfies for all n at once, also in adaptive logs,

    lambda p_hat(G) - log(1 + p(G) (exp(lambda) - 1))  <=  L / n.

This bounds the error p_hat(G) - p(G) by about sqrt(L / (2 n)) for the best rate, and by less if one outcome has most of the
visits (`largest_error`). The radius is twice the largest error over all sets. A grid of m rates replaces the union over visit
numbers of `planners.confidence.radius`: a factor m = 31 in place of T H.

If the support is known (`support=`, `model=`) and has k outcomes, take the union over sets, rates and the R rows that are not
known. The sets need not have equal shares of delta. A set G of g outcomes, 0 < g < k, has the weight

    w(g) = 1 / 2 / (2^k - 2)  +  1 / 2 / ((k - 1) binom(k, g)),    and    L = log( m R / (delta w(g)) ).

The weights of all sets add up to 1: the first terms are equal shares, the second ones give every size the same share. The
second term keeps the radius small where the log shows only d of many possible outcomes. Outcomes without visits can be left
out of G, which does not lower its error, so only sets of at most d outcomes matter, and L is largest for g = min(d, k // 2).
If `support="states"`, the actions are not known beforehand: label them in the order of their discovery and let the K S rows
of label j share 1 / (j (j + 1)); no row has less than 1 / R for R = K S A (A + 1), where the log shows A actions.

A log does not reveal the support. If it is not known, each row has the d distinct outcomes (next state, reward) that the
log shows and one more, "unseen", which is worse than every other. Label the outcomes of a row in the order of their
discovery and let G be a set of labels. The draws that hit an outcome of G that was discovered before have a conditional
probability of at most p(G), and all draws but the first of each outcome are of this kind: the bound holds with p_hat(G)
reduced by d / n. The union over the 2^d sets, over d with weights 1 / (d (d + 1)), over rates, and over the R seen rows,
with weights 1 / (R (R + 1)), gives

    L = log( 2^d d (d + 1) m R (R + 1) / delta ),    and the radius is 2 d / n larger.

No assumption on the support is needed, not even that it is finite. The bound is one-sided, which suffices: the worst
kernel of the ball only takes mass from seen outcomes. States of the log that the row has not shown are part of "unseen".

How much of that mass can go to "unseen"? Let q_t be the conditional probability that visit t shows a new outcome; it never
rises, so that q_t >= u, the mass of all outcomes not seen in n visits. The product over t <= n of
exp(-lambda 1{visit t is new}) / (1 - q_t (1 - exp(-lambda))) is a martingale with mean 1, and by Ville's inequality with
probability at least 1 - exp(-L), for all n at once,

    exp(-lambda d)  <=  exp(L) (1 - u (1 - exp(-lambda)))^n,    hence
    u  <=  ( 1 - exp(-(L + lambda d) / n) ) / ( 1 - exp(-lambda) ),    L = log( m' R (R + 1) / delta ) for m' rates.

This falls like 1 / n, the radius like 1 / sqrt(n). Move the mass u of the true law to the worst seen outcome: no set of
seen outcomes becomes less likely, so the new law lies in the ball over the seen outcomes. The expectation of W under the
true law is thus at most the greatest one over that ball plus u (W(unseen) - W(worst seen outcome)). Both bounds are taken
at delta / 2.

Tables of counts (`fit_counts`) have fixed sample sizes: the exact binomial limit of each set, at delta w(g) / R, replaces the
bound over rates (`bqrl.logs.binomial`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from bqrl.logs.binomial import largest_excess
from bqrl.mdp.arrays import BoolArray, FloatArray, IntArray

NOVELTY_RATES = np.array([0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0])  # lambda of the bound on unseen outcomes
RATES = 2.0 ** np.arange(-9.0, 6.5, 0.5)  # lambda; for n from 10 to 10^7 one of them is within 20 % of the best


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Balls:
    """The numbers from which radii are computed: visits, numbers of outcomes, and the sizes of the union bound."""

    visits: IntArray  # (K, S, A)
    outcomes: IntArray  # (K, S, A)  distinct outcomes seen, or possible ones where the support is known
    seen: IntArray  # (K, S, A)  distinct outcomes seen
    most: FloatArray  # (K, S, A)  visits of the most frequent outcome
    known: BoolArray  # (K, S, A)  rows that are known, with radius 0
    free: bool  # whether the support is not known
    rows: int  # rows of the union: seen ones, or all that are not known
    delta: float
    fixed: bool = False  # whether the number of visits of each row was fixed beforehand; the support is then known

    def radii(self, more: int = 1) -> FloatArray:
        """Return the l1 radii of the rows, shape (K, S, A), with `more` times as many episodes of the same frequencies."""
        n, d = np.maximum(self.visits, 1) * float(more), np.maximum(self.outcomes, 1).astype(np.float64)
        if self.fixed:
            width = 2.0 * self._exact_errors(n, more)
            return np.where(self.known, 0.0, np.where(self.visits > 0, np.minimum(width, 2.0), 2.0))
        if self.free:
            union = 2.0 * RATES.size * self.rows * (self.rows + 1.0) / self.delta
            level, first = d * math.log(2.0) + np.log(d * (d + 1.0)) + math.log(union), d / n
        else:
            level = set_level(np.maximum(d, 2.0), self.seen) + math.log(RATES.size * self.rows / self.delta)
            first = np.zeros(n.shape)
        width = 2.0 * (first + largest_error(level / n, self.most * more / n - first / d))
        return np.where(self.known, 0.0, np.where(self.visits > 0, np.minimum(width, 2.0), 2.0))

    def _exact_errors(self, n: FloatArray, more: int) -> FloatArray:
        """Return bounds on p_hat(G) - p(G) over all sets of outcomes, from exact binomial limits."""
        level = set_level(np.maximum(self.outcomes, 2.0), self.seen) + math.log(self.rows / self.delta)
        found = np.zeros(n.shape)
        for row in map(tuple, np.argwhere((self.visits > 0) & ~self.known).tolist()):
            seen, most = int(self.seen[row]), round(float(self.most[row]) * more)
            found[row] = largest_excess(int(n[row]), most, seen, seen == self.outcomes[row], math.exp(-level[row]))
        return found

    def missing(self, more: int = 1) -> FloatArray | None:
        """Return the bounds on unseen mass, shape (K, S, A); 0 where the radius is smaller, None if the support is known.

        Where it is 0, "unseen" is an outcome of the ball like any other.
        """
        if not self.free:
            return None
        n = np.maximum(self.visits, 1)[..., None] * float(more)
        level = math.log(2.0 * NOVELTY_RATES.size * self.rows * (self.rows + 1.0) / self.delta)
        least = -np.expm1(-(level + NOVELTY_RATES * self.outcomes[..., None]) / n) / -np.expm1(-NOVELTY_RATES)
        mass = least.min(axis=-1)
        return np.where((self.visits > 0) & (mass < self.radii(more) / 2.0), mass, 0.0)


def set_level(k: FloatArray, seen: IntArray) -> FloatArray:
    """Return log(1 / w(g)) for the sets of at most `seen` of k outcomes, k >= 2; see above.

    >>> np.exp(set_level(np.array([2.0, 4.0, 30.0]), np.array([1, 4, 1]))).round(2).tolist()
    [2.0, 15.75, 1740.0]
    """
    g = np.clip(seen, 1.0, k // 2)
    equal = k * math.log(2.0) + np.log1p(-(2.0 ** (1.0 - k)))
    by_size = np.log(k - 1.0) + gammaln(k + 1.0) - gammaln(g + 1.0) - gammaln(k - g + 1.0)
    return math.log(2.0) - np.logaddexp(-equal, -by_size)


def largest_error(bound: FloatArray, most: FloatArray) -> FloatArray:
    """Return a bound on p_hat(G) - p(G) over all sets G of outcomes of a row, given bound = L / n.

    `most` is the largest frequency of one outcome. If it is large, no set has a frequency between 1 - most and most, where
    the error would be largest. The bound is concave in the frequency, so its slope shows where it decreases.

    >>> largest_error(np.array([0.02, 0.02]), np.array([0.5, 1.0])).round(3).tolist()
    [0.101, 0.02]
    """
    highest = np.log(np.expm1(RATES) / RATES) / RATES - 1.0 / RATES + 1.0 / np.expm1(RATES)  # over all frequencies
    plain = np.min(bound[..., None] / RATES + highest, axis=-1)
    edge = np.clip(most, 0.0, 1.0)
    above, falls = _error_at(edge, bound)
    below, rises = _error_at(1.0 - edge, bound)
    apart = (edge > 0.5) & (falls <= 0.0) & (rises >= 0.0)
    return np.where(apart, np.minimum(plain, np.maximum(above, below)), plain)


def _error_at(x: FloatArray, bound: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the error bound of a set with frequency x and its slope; p(G) >= (exp(lambda x - bound) - 1) / (exp(lambda) - 1)."""
    error, slope = x.astype(np.float64), np.ones(x.shape)
    for rate in RATES:
        lower = np.expm1(rate * x - bound) / np.expm1(rate)
        better = x - lower < error
        slope = np.where(better, 1.0 - rate * np.exp(rate * x - bound) / np.expm1(rate), slope)
        error = np.where(better, x - lower, error)
    return error, slope
