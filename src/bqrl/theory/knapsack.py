"""Why exact quantiles are hard in general, and what saves them in practice (Theorem 3 and its proof).

A fair coin decides at every stage whether the weight w_h is packed; the return is the packed share of W = sum w_h. Then

    P(G <= K / W) = (number of subsets of weight at most K) / 2^n,

so whoever decides Q_tau(G) <= K / W at the levels tau = (2M - 1) / 2^(n+1) decides whether there are at least M such
subsets, and n + 1 decisions count them: a problem that is PP-hard. The same decisions on the quantile buffered by
beta = 2^-(n+1) do it, too. The law of G may have 2^n atoms; the escape is pseudo-polynomial: with whole weights all sums
lie on a lattice of W + 1 points, and one convolution a stage gives the law. Everything here is in whole numbers and
fractions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from math import gcd
from typing import Any

import numpy as np

from bqrl.mdp.model import MDP
from bqrl.theory.checks import whole

MAX_ATOMS = 2**20
ORACLES = ("quantile", "buffered")

Decision = Callable[[Fraction, Fraction, Fraction], bool]  # (tau, beta, c) -> whether Q^beta_tau(G) <= c; beta 0: Q_tau


def knapsack_instance(weights: Sequence[int]) -> MDP:
    """The two-state, one-action problem of the hardness proof: H = n + 1, and state 1 at stage h pays w_h / W.

    Its return law in exact fractions is `knapsack_law(weights)`.
    """
    w = check_weights(weights)
    total = sum(w)
    rewards = np.zeros((len(w) + 1, 2, 1))
    rewards[1:, 1, 0] = [x / total for x in w]
    return MDP(np.full((2, 1, 2), 0.5), rewards, horizon=len(w) + 1, state_names=["left", "packed"])


@dataclass(frozen=True, slots=True)
class KnapsackLaw:
    """The law of the packed weight: increasing whole sums and how many of the 2^n subsets lie at or below each."""

    sums: tuple[int, ...]
    running: tuple[int, ...]
    n: int
    total: int  # W

    def quantile(self, tau: Fraction) -> Fraction:
        """Q_tau(G) of the return G = sum / W."""
        return Fraction(self.sums[bisect_left(self.running, tau * 2**self.n)], self.total)

    def buffered_quantile(self, tau: Fraction, beta: Fraction) -> Fraction:
        """Average of Q_u over u in [tau - beta, tau] (Definition 1), atom by atom."""
        low, high = (tau - beta) * 2**self.n, tau * 2**self.n
        first, last = bisect_left(self.running, low), bisect_left(self.running, high)
        area, before = Fraction(0), max(low, Fraction(0))
        for j in range(first, last + 1):
            upto = min(high, Fraction(self.running[j]))
            area += self.sums[j] * max(upto - before, Fraction(0))
            before = max(before, upto)
        return area / (beta * 2**self.n * self.total)

    def decide(self, tau: Fraction, beta: Fraction, c: Fraction) -> bool:
        """Whether Q_tau(G) <= c, or the buffered quantile where beta > 0."""
        return (self.buffered_quantile(tau, beta) if beta else self.quantile(tau)) <= c


def knapsack_law(weights: Sequence[int], *, lattice: bool = True, max_atoms: int = MAX_ATOMS) -> KnapsackLaw:
    """The exact law of the return, on the lattice 0, 1, ..., W (a convolution a stage) or atom by atom.

    Both give the same law; the first costs n W steps however many subsets there are, the second one step per atom.
    """
    w = check_weights(weights)
    total = sum(w)
    ways: dict[int, int]
    if lattice:
        if total >= max_atoms:
            raise ValueError(f"weights sum to {total}, more than {max_atoms - 1} lattice points; raise max_atoms")
        row = [1] + [0] * total
        for x in w:
            row = [here + (row[k - x] if k >= x else 0) for k, here in enumerate(row)]
        ways = {k: count for k, count in enumerate(row) if count}
    else:
        ways = {0: 1}
        for x in w:
            grown = dict(ways)
            for k, count in ways.items():
                grown[k + x] = grown.get(k + x, 0) + count
            if len(grown) > max_atoms:
                raise ValueError(f"the law has more than {max_atoms} atoms; raise max_atoms, or take lattice=True")
            ways = grown
    sums = tuple(sorted(ways))
    return KnapsackLaw(sums, tuple(accumulate(ways[k] for k in sums)), len(w), total)


def count_subsets(weights: Sequence[int], capacity: int, by: str = "quantile", decide: Decision | None = None) -> int:
    """Number of subsets of weight at most `capacity`, through quantile decisions alone (proof of Theorem 3).

    `by` "quantile" asks Q_tau(G) <= capacity / W, "buffered" asks it of the buffered quantile; a binary search over M needs
    at most n + 1 answers. `decide(tau, beta, c)` gives them (beta = 0: the plain quantile), by default from the exact
    law: on the lattice, or atom by atom where the weights are too large for it.

    >>> count_subsets([1, 2, 3], 3), count_subsets([1, 2, 3], 3, by="buffered")
    (5, 5)
    """
    w = check_weights(weights)
    n, total = len(w), sum(w)
    capacity = whole(capacity, "capacity", 0)
    if capacity > total:
        raise ValueError(f"capacity is {capacity}, but all weights together are {total}; it must lie in [0, {total}]")
    if by not in ORACLES:
        raise ValueError(f"by must be one of {', '.join(ORACLES)}, got {by!r}")
    answer = knapsack_law(w, lattice=total < MAX_ATOMS).decide if decide is None else decide
    beta = Fraction(1, 2 ** (n + 1)) if by == "buffered" else Fraction(0)
    low, high = 1, 2**n  # the empty set always fits
    while low < high:
        M = (low + high + 1) // 2
        if answer(Fraction(2 * M - 1, 2 ** (n + 1)), beta, Fraction(capacity, total)):
            low = M
        else:
            high = M - 1
    return low


@dataclass(frozen=True, slots=True, eq=False)
class SupportGrowth:
    """How a law grows with the horizon; one entry for each number of weights n = 1, 2, ..."""

    horizon: tuple[int, ...]  # n + 1 stages
    histories: tuple[int, ...]  # 2^n
    support: tuple[int | None, ...]  # distinct returns, None where there are too many to list
    lattice: tuple[int, ...]  # points of the lattice that holds them: W / gcd + 1


def support_growth(weights: Sequence[int], max_atoms: int = MAX_ATOMS) -> SupportGrowth:
    """Atoms of the return law against the lattice as the weights are added one by one.

    Small weights: the lattice grows with their sum, far slower than 2^n. Weights of about n bits: the support has nearly
    2^n atoms and the lattice still more points: no grid helps there, which is what the theorem says.
    """
    w = check_weights(weights)
    sums: Any = {0}
    support: list[int | None] = []
    for x in w:
        if sums is not None:
            sums |= {k + x for k in sums}
            if len(sums) > max_atoms:
                sums = None
        support.append(None if sums is None else len(sums))
    steps = accumulate(w, gcd)
    lattice = tuple(total // step + 1 for total, step in zip(accumulate(w), steps, strict=True))
    n = range(1, len(w) + 1)
    return SupportGrowth(tuple(k + 1 for k in n), tuple(2**k for k in n), tuple(support), lattice)


def knapsack_families(n: int = 16, seed: int = 0) -> dict[str, list[int]]:
    """Weights for the picture of support against horizon: equal, small, and as long as the horizon."""
    n = whole(n, "n", 1)
    rng = np.random.default_rng(seed)
    return {
        "all equal": [1] * n,
        "up to 10": [int(x) for x in rng.integers(1, 11, n)],
        "up to 100": [int(x) for x in rng.integers(1, 101, n)],
        f"of {n} bits": [int(x) for x in rng.integers(2 ** (n - 1), 2**n, n)],
    }


def support_experiment(families: dict[str, Iterable[int]] | None = None) -> dict[str, SupportGrowth]:
    """Support size against horizon for every family of weights, full support beside the lattice."""
    chosen = knapsack_families() if families is None else families
    return {name: support_growth(list(weights)) for name, weights in chosen.items()}


def check_weights(weights: Sequence[int]) -> list[int]:
    """Positive whole weights as a list; else one clear line."""
    if isinstance(weights, str | bytes) or not isinstance(weights, Iterable):
        raise TypeError(f"weights must be a list of positive whole numbers, got {weights!r}")
    found = [whole(x, f"weights[{i}]", 1) for i, x in enumerate(weights)]
    if not found:
        raise ValueError("weights is empty; give at least one positive whole number")
    return found
