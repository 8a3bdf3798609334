"""Laws in exact fractions: slow, obvious truths that use nothing of the library, and the strategies that draw them."""

from fractions import Fraction
from itertools import pairwise

from hypothesis import strategies as st

ExactLaw = list[tuple[Fraction, Fraction]]  # increasing values with positive probabilities that sum to 1


def exact_law(values, counts) -> ExactLaw:
    """Values with probabilities counts / sum(counts)."""
    n = sum(counts)
    mass: dict[Fraction, Fraction] = {}
    for x, k in zip(values, counts, strict=True):
        if k:
            mass[Fraction(x)] = mass.get(Fraction(x), Fraction(0)) + Fraction(k, n)
    return sorted(mass.items())


def exact_quantile(law: ExactLaw, tau: Fraction) -> Fraction:
    """inf{x : P(G <= x) >= tau}; the smallest value at level 0."""
    return next(x for x, _ in law if sum(p for y, p in law if y <= x) >= tau)


def exact_upper_quantile(law: ExactLaw, tau: Fraction) -> Fraction:
    """sup{x : P(G < x) <= tau}; the largest value at level 1."""
    return max(x for x, _ in law if sum(p for y, p in law if y < x) <= tau)


def exact_buffered(law: ExactLaw, tau: Fraction, beta: Fraction) -> Fraction:
    """Integral of the quantile over [tau - beta, tau], cut where the quantile jumps, over beta; 0 < beta <= tau."""
    jumps = [sum(p for _, p in law[: j + 1]) for j in range(len(law))]
    cuts = sorted({tau - beta, tau, *(c for c in jumps if tau - beta < c < tau)})
    return sum((right - left) * exact_quantile(law, (left + right) / 2) for left, right in pairwise(cuts)) / beta


@st.composite
def exact_laws(draw, max_atoms=6, denominator=24):
    """Few atoms on a coarse grid and probabilities k / denominator: ties with the levels below are common."""
    n = draw(st.integers(1, max_atoms))
    values = draw(st.lists(st.integers(-8, 8), min_size=n, max_size=n))
    cuts = sorted(draw(st.lists(st.integers(0, denominator), min_size=n - 1, max_size=n - 1)))
    counts = [b - a for a, b in zip([0, *cuts], [*cuts, denominator], strict=True)]
    return exact_law([Fraction(v, 4) for v in values], counts)


def levels(denominator=24, first=1):
    """Levels k / denominator, which the running masses of `exact_laws` hit exactly."""
    return st.integers(first, denominator).map(lambda k: Fraction(k, denominator))


@st.composite
def levels_and_buffers(draw, denominator=24):
    """(tau, beta) with 0 < beta <= tau."""
    k = draw(st.integers(1, denominator))
    return Fraction(k, denominator), Fraction(draw(st.integers(1, k)), denominator)
