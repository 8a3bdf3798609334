"""Size of the return law against size of the lattice (remark on representation size after Theorem 3).

With small weights the lattice that contains all returns of `knapsack_instance` grows with their sum, far more slowly than
2^n. With weights of about n bits the law has nearly 2^n atoms and the lattice has even more points: no grid helps, in
agreement with the theorem.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from math import gcd

import numpy as np

from bqrl.checks import whole
from bqrl.theory.knapsack import MAX_ATOMS, check_weights


@dataclass(frozen=True, slots=True, kw_only=True)
class SupportGrowth:
    """Growth of a return law with the horizon; one entry per number of weights n = 1, 2, ...

    Attributes
    ----------
    horizon : tuple of int
        n + 1 stages.
    histories : tuple of int
        2^n.
    support : tuple of int or None
        Number of distinct returns; None if there are too many to list.
    lattice : tuple of int
        Number of points W / gcd + 1 of the lattice that contains them.
    """

    horizon: tuple[int, ...]
    histories: tuple[int, ...]
    support: tuple[int | None, ...]
    lattice: tuple[int, ...]


def support_growth(weights: Sequence[int], max_atoms: int = MAX_ATOMS) -> SupportGrowth:
    """Atoms of the return law and points of the lattice as the weights are added one by one.

    Parameters
    ----------
    weights : sequence of int
        Positive integers.
    max_atoms : int
        Limit beyond which the atoms are no longer listed.

    Returns
    -------
    SupportGrowth
        The sizes for the first 1, 2, ... weights.

    Examples
    --------
    >>> support_growth([1, 1, 1]).support, support_growth([1, 2, 4]).support
    ((2, 3, 4), (2, 4, 8))
    """
    w, limit = check_weights(weights), whole(max_atoms, "max_atoms", 1)
    sums: set[int] | None = {0}
    support: list[int | None] = []
    for x in w:
        if sums is not None:
            sums |= {k + x for k in sums}
            if len(sums) > limit:
                sums = None
        support.append(None if sums is None else len(sums))
    steps = accumulate(w, gcd)
    lattice = tuple(total // step + 1 for total, step in zip(accumulate(w), steps, strict=True))
    n = range(1, len(w) + 1)
    return SupportGrowth(
        horizon=tuple(k + 1 for k in n), histories=tuple(2**k for k in n), support=tuple(support), lattice=lattice
    )


def knapsack_families(n: int = 16, seed: int = 0) -> dict[str, list[int]]:
    """Four families of n weights: equal, up to 10, up to 100, and of n bits.

    Parameters
    ----------
    n : int
        Number of weights.
    seed : int
        Seed of the random weights.

    Returns
    -------
    dict
        Weights by name of the family.

    Examples
    --------
    >>> list(knapsack_families(8))
    ['all equal', 'up to 10', 'up to 100', 'of 8 bits']
    """
    n = whole(n, "n", 1)
    rng = np.random.default_rng(whole(seed, "seed", 0))
    return {
        "all equal": [1] * n,
        "up to 10": [int(x) for x in rng.integers(1, 11, n)],
        "up to 100": [int(x) for x in rng.integers(1, 101, n)],
        f"of {n} bits": [int(x) for x in rng.integers(2 ** (n - 1), 2**n, n)],
    }


def support_experiment(families: Mapping[str, Iterable[int]] | None = None) -> dict[str, SupportGrowth]:
    """Support and lattice sizes against the horizon, for several families of weights.

    Parameters
    ----------
    families : mapping, optional
        Weights by name; by default `knapsack_families()`.

    Returns
    -------
    dict
        SupportGrowth by name of the family.

    Examples
    --------
    >>> support_experiment({"equal": [1] * 9})["equal"].lattice[-1]
    10
    """
    chosen = knapsack_families() if families is None else families
    return {name: support_growth(list(weights)) for name, weights in chosen.items()}
