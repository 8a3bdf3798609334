"""Two laws between which an unknown one lies."""

from __future__ import annotations

from typing import NamedTuple

from bqrl.laws.law import Law


class Interval(NamedTuple):
    """A proven lower and a proven upper value."""

    low: float
    high: float

    @property
    def width(self) -> float:
        """How much is left open."""
        return self.high - self.low


class LawBracket:
    """A return law known only up to first-order dominance: lower <= true law <= upper."""

    def __init__(self, lower: Law, upper: Law) -> None:
        self.lower, self.upper = lower, upper

    def mean(self) -> Interval:
        """Bracket of the mean."""
        return Interval(self.lower.mean(), self.upper.mean())

    def quantile(self, tau: float) -> Interval:
        """Bracket of the lower tau-quantile."""
        return Interval(self.lower.quantile(tau), self.upper.quantile(tau))

    def buffered_quantile(self, tau: float, beta: float) -> Interval:
        """Bracket of the buffered quantile."""
        return Interval(self.lower.buffered_quantile(tau, beta), self.upper.buffered_quantile(tau, beta))

    def cvar(self, tau: float) -> Interval:
        """Bracket of the lower CVaR."""
        return Interval(self.lower.cvar(tau), self.upper.cvar(tau))

    def cdf(self, x: float) -> Interval:
        """Bracket of P(G <= x)."""
        return Interval(float(self.upper.cdf(x)), float(self.lower.cdf(x)))

    def __repr__(self) -> str:
        mean = self.mean()
        return f"LawBracket(mean in [{mean.low:.6g}, {mean.high:.6g}], {self.lower.values.size} atoms)"
