"""Theorem 3, the hardness of exact quantile evaluation: the reduction from counting knapsack solutions.

At every stage a fair coin decides whether the weight w_h is packed; the return is the packed share of W = sum_h w_h. Then

    P(G <= K / W) = (number of subsets of weight at most K) / 2^n.

Let tau = (2 M - 1) / 2^(n+1). Deciding whether Q_tau(G) <= K / W decides whether at least M subsets have weight at most K,
which is PP-complete; n such decisions count the subsets by binary search. The quantile buffered by beta = 2^-(n+1) decides
the same question.

The law of G can have 2^n atoms. With integer weights all sums lie on a lattice of W + 1 points, and one convolution per
stage computes the law: the problem is pseudo-polynomial. With small weights the lattice grows far more slowly than 2^n.
With weights of about n bits the law has nearly 2^n atoms and the lattice has even more points: no grid helps, in agreement
with the theorem (remark on representation size). All computations here use integers and fractions.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate, pairwise
from math import gcd

import numpy as np

from bqrl.checks import bad_type, bad_value, choice, whole
from bqrl.errors import SizeError
from bqrl.mdp.model import MDP

MAX_ATOMS = 2**20

Decision = Callable[[Fraction, Fraction, Fraction], bool]  # (tau, beta, c) -> Q^beta_tau(G) <= c; Q_tau for beta = 0


def knapsack_instance(weights: Sequence[int]) -> MDP:
    """Return the two-state, one-action problem in the proof of Theorem 3: H = n + 1, and state 1 pays w_h / W at stage h.

    Parameters
    ----------
    weights : sequence of int
        Positive integers w_1, ..., w_n.

    Returns
    -------
    MDP
        The problem. `knapsack_law(weights)` is its return law in exact fractions.

    Examples
    --------
    >>> knapsack_instance([1, 2, 3])
    MDP(H=4, S=2, A=1, start=0, 4 transitions, stationary)
    """
    w = check_weights(weights)
    total = sum(w)
    rewards = np.zeros((len(w) + 1, 2, 1))
    rewards[1:, 1, 0] = [x / total for x in w]
    return MDP(np.full((2, 1, 2), 0.5), rewards, horizon=len(w) + 1, state_names=["left", "packed"])


@dataclass(frozen=True, slots=True, kw_only=True)
class KnapsackLaw:
    """The law of the packed weight, in integers."""

    sums: tuple[int, ...]  # attainable weights, increasing
    running: tuple[int, ...]  # number of subsets, of 2^n, with weight at most each of `sums`
    n: int  # number of weights
    total: int  # W, the sum of all weights

    def quantile(self, tau: Fraction) -> Fraction:
        """Return Q_tau(G) of the return G = packed weight / W."""
        return Fraction(self.sums[bisect_left(self.running, tau * 2**self.n)], self.total)

    def buffered_quantile(self, tau: Fraction, beta: Fraction) -> Fraction:
        """Return the average of Q_u over u in [tau - beta, tau] (Definition 1), computed as a sum over the atoms."""
        low, high = (tau - beta) * 2**self.n, tau * 2**self.n
        first, last = bisect_left(self.running, low), bisect_left(self.running, high)
        ends = [low, *self.running[first:last], high]
        area = sum(x * (b - a) for x, (a, b) in zip(self.sums[first : last + 1], pairwise(ends), strict=True))
        return Fraction(area, beta * 2**self.n * self.total)

    def decide(self, tau: Fraction, beta: Fraction, c: Fraction) -> bool:
        """Return whether Q_tau(G) <= c or, for beta > 0, whether Q_tau^beta(G) <= c."""
        return (self.buffered_quantile(tau, beta) if beta else self.quantile(tau)) <= c


def knapsack_law(weights: Sequence[int], *, lattice: bool = True, max_atoms: int = MAX_ATOMS) -> KnapsackLaw:
    """Return the exact law of the packed weight in the proof of Theorem 3.

    Parameters
    ----------
    weights : see `knapsack_instance`
    lattice : bool
        If True, compute the law by one convolution per weight on the lattice 0, 1, ..., W, in n W steps; if False, atom by
        atom, with one step per atom. Both give the same law.
    max_atoms : see `bqrl.theory`

    Returns
    -------
    KnapsackLaw

    Examples
    --------
    >>> knapsack_law([1, 2, 3]).running
    (1, 2, 3, 5, 6, 7, 8)
    """
    w, limit = check_weights(weights), whole(max_atoms, "max_atoms", 1)
    total, ways = sum(w), {0: 1}
    if lattice:
        if total >= limit:
            message = f"the weights must sum to less than max_atoms={limit}, got {total}; raise max_atoms or use lattice=False"
            raise SizeError(message, needed=total + 1, limit=limit, name="max_atoms")
        row = [1] + [0] * total
        for x in w:
            row = [here + (row[k - x] if k >= x else 0) for k, here in enumerate(row)]
        ways = {k: count for k, count in enumerate(row) if count}
    else:
        for x in w:
            grown = dict(ways)
            for k, count in ways.items():
                grown[k + x] = grown.get(k + x, 0) + count
            if len(grown) > limit:
                message = f"the law must have at most max_atoms={limit} atoms, got {len(grown)}"
                remedy = "raise max_atoms or use lattice=True"
                raise SizeError(f"{message}; {remedy}", needed=len(grown), limit=limit, name="max_atoms")
            ways = grown
    sums = tuple(sorted(ways))
    return KnapsackLaw(sums=sums, running=tuple(accumulate(ways[k] for k in sums)), n=len(w), total=total)


def count_subsets(weights: Sequence[int], capacity: int, by: str = "quantile", decide: Decision | None = None) -> int:
    """Return the number of subsets of weight at most `capacity`, from quantile decisions alone (proof of Theorem 3).

    Parameters
    ----------
    weights : see `knapsack_instance`
    capacity : int
        From 0 to the sum of the weights.
    by : {"quantile", "buffered"}
        Whether the decisions are about Q_tau or about the buffered quantile.
    decide : callable, optional
        decide(tau, beta, c) returns whether the quantile (beta = 0) or the buffered quantile is at most c; it is called n
        times. By default the exact law decides, computed on the lattice or, if the weights are too large, atom by atom.

    Returns
    -------
    int
        The number of subsets, from 1 to 2^n.

    Examples
    --------
    >>> count_subsets([1, 2, 3], 3), count_subsets([1, 2, 3], 3, by="buffered")
    (5, 5)
    """
    w = check_weights(weights)
    n, total = len(w), sum(w)
    capacity = whole(capacity, "capacity", 0, total)
    choice(by, "by", ("quantile", "buffered"))
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


def check_weights(weights: Sequence[int]) -> list[int]:
    """Return the weights as a list of positive integers."""
    if isinstance(weights, str | bytes) or not isinstance(weights, Iterable):
        raise bad_type("weights", weights, "be a list of positive whole numbers")
    found = [whole(x, f"weights[{i}]", 1) for i, x in enumerate(weights)]
    if not found:
        raise bad_value("weights", weights, "contain at least one positive whole number", "none")
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportGrowth:
    """Growth of a return law with the horizon; one entry per number of weights n = 1, 2, ..."""

    horizon: tuple[int, ...]  # n + 1 stages
    histories: tuple[int, ...]  # 2^n
    support: tuple[int | None, ...]  # number of distinct returns; None if there are too many to list
    lattice: tuple[int, ...]  # points W / gcd + 1 of the lattice that contains them


def support_growth(weights: Sequence[int], max_atoms: int = MAX_ATOMS) -> SupportGrowth:
    """Return the growth of law and lattice as weights are added (remark on representation size and hardness).

    Parameters
    ----------
    weights : see `knapsack_instance`
    max_atoms : see `bqrl.theory`
        Beyond this limit the number of atoms is None; no error is raised.

    Returns
    -------
    SupportGrowth

    Examples
    --------
    >>> support_growth([1, 1, 1]).support, support_growth([1, 2, 4]).support
    ((2, 3, 4), (2, 4, 8))
    """
    w, limit = check_weights(weights), whole(max_atoms, "max_atoms", 1)
    sums, support = {0}, list[int | None]()
    for x in w:
        if len(sums) <= limit:
            sums |= {k + x for k in sums}
        support.append(len(sums) if len(sums) <= limit else None)
    n = range(1, len(w) + 1)
    return SupportGrowth(
        horizon=tuple(k + 1 for k in n),
        histories=tuple(2**k for k in n),
        support=tuple(support),
        lattice=tuple(total // step + 1 for total, step in zip(accumulate(w), accumulate(w, gcd), strict=True)),
    )
