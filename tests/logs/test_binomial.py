"""Exact limits for fixed sample sizes."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import beta, binom

from bqrl.logs.binomial import largest_excess


@pytest.mark.parametrize(("n", "x"), [(20, 0), (20, 3), (100, 70), (1, 1)])
def test_two_outcomes_give_the_limits_of_clopper_and_pearson(n, x):
    alpha = 0.05
    low = beta.ppf(alpha / 2, x, n - x + 1) if x else 0.0
    high = beta.ppf(1 - alpha / 2, x + 1, n - x) if x < n else 1.0
    seen = 1 if x in (0, n) else 2
    found = largest_excess(n, max(x, n - x), seen, seen == 2, alpha / 2)
    assert found == pytest.approx(max(x / n - low, high - x / n), rel=1e-9)


@pytest.mark.parametrize("counts", [(5, 3, 2), (1, 1, 1, 1), (40, 30, 20, 10), (300, 1, 1)])
def test_the_search_bounds_every_set_of_outcomes(counts):
    n, alpha = sum(counts), 0.01
    sums = {sum(part) for size in range(1, len(counts)) for part in combinations(counts, size)}
    exact = max(x / n - beta.ppf(alpha, x, n - x + 1) for x in sums)
    found = largest_excess(n, max(counts), len(counts), True, alpha)
    every = max(x / n - beta.ppf(alpha, x, n - x + 1) for x in range(1, n))
    assert exact - 1e-12 <= found <= every * 1.005 + 1e-12


def test_the_search_over_many_draws_stays_close_to_the_largest_excess():
    n, most, alpha = 30_000, 9_000, 1e-4
    x = np.arange(1, n)
    every = (x / n - beta.ppf(alpha, x, n - x + 1)).max()
    assert every <= largest_excess(n, most, 7, True, alpha) <= every * 1.005


@pytest.mark.parametrize("p", [0.03, 0.2, 0.5])
def test_the_exact_coverage_of_a_row_with_two_successors_is_at_least_the_confidence(p):
    """The probability that the truth lies within the largest excess, summed over all samples."""
    n, alpha = 25, 0.3
    covered = 0.0
    for x in range(n + 1):
        seen = 1 if x in (0, n) else 2
        error = largest_excess(n, max(x, n - x), seen, seen == 2, alpha / 2)
        covered += binom.pmf(x, n, p) * (abs(x / n - p) <= error + 1e-12)
    assert 1 - alpha <= covered < 1.0
