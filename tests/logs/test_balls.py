"""Radii and missing masses against brute force and simulation."""

from itertools import combinations

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.special import rel_entr

from bqrl.logs.balls import Balls, largest_error, set_level
from bqrl.logs.fit import fit


def balls(visits, outcomes, most, free, delta=0.05, seen=None):
    one = np.ones((1, 1, 1))
    return Balls(
        visits=(one * visits).astype(int), outcomes=(one * outcomes).astype(int), most=one * most,
        seen=(one * (outcomes if seen is None else seen)).astype(int),
        known=np.zeros((1, 1, 1), bool), free=free, rows=1, delta=delta,
    )  # fmt: skip


def smallest_mass(x, bound):
    """The smallest q with KL(x || q) <= bound."""
    distance = lambda q: rel_entr(x, q) + rel_entr(1 - x, 1 - q) - bound  # noqa: E731
    return 0.0 if x == 0 else brentq(distance, 1e-300, x) if distance(1e-300) > 0 else 0.0


@pytest.mark.parametrize("counts", [(50, 50), (97, 2, 1), (100,), (40, 30, 20, 10), (995, 3, 2), (60, 40)])
@pytest.mark.parametrize("bound", [0.3, 0.05, 0.002])
def test_the_largest_error_bounds_every_set_of_outcomes(counts, bound):
    p = np.array(counts) / sum(counts)
    sets = [p[list(g)].sum() for size in range(1, p.size + 1) for g in combinations(range(p.size), size)]
    worst = max(x - smallest_mass(min(x, 1.0), bound) for x in sets)
    found = float(largest_error(np.array(bound), np.array(p.max())))
    assert worst - 1e-12 <= found <= max(1.05 * np.sqrt(bound / 2), worst)
    if p.max() == 1.0:
        assert found == pytest.approx(1 - np.exp(-bound), rel=0.2)


@pytest.mark.parametrize(
    "law", [np.full(5, 0.2), np.array([0.97, 0.01, 0.01, 0.01]), np.array([1.0]), np.full(400, 1 / 400)]
)
@pytest.mark.parametrize("free", [True, False])
def test_radii_hold_for_all_visit_numbers_at_once(law, free):
    """At delta = 0.5, 60 rows of 300 visits: fails with probability below 1e-9 if the radius holds in half of them.

    The union over sets is far from tight, so that a violation is not expected at all.
    """
    rng, broken = np.random.default_rng(1), 0
    for _ in range(60):
        draws = rng.choice(law.size, 300, p=law)
        for n in (1, 3, 10, 30, 100, 300):
            count = np.bincount(draws[:n], minlength=law.size)
            error = np.maximum(count / n - law, 0.0)[count > 0].sum()  # the largest over sets of seen outcomes
            outcomes = np.count_nonzero(count) if free else law.size
            ball = balls(n, outcomes, count.max(), free, 0.5, seen=np.count_nonzero(count))
            if law.size > 1 and error > ball.radii()[0, 0, 0] / 2 + 1e-12:
                broken += 1
                break
    assert broken == 0


def test_radii_hold_if_logging_stops_at_a_lucky_moment():
    """Action a is tried until it has won more often than 0.6, which happens by chance alone: its frequency is biased.

    The union bound is far from tight, so that no violation is expected even at confidence 0.5.
    """
    rng = np.random.default_rng(2)
    for _ in range(20):
        wins = rng.random(3000) < 0.5
        share = np.cumsum(wins) / np.arange(1, 3001)
        lucky = np.flatnonzero((share > 0.6) & (np.arange(3000) >= 4))
        n = int(lucky[0]) + 1 if lucky.size else 3000
        log = {"episode": range(n + 10), "state": ["s"] * (n + 10), "action": ["a"] * n + ["b"] * 10}
        estimate = fit(log | {"reward": [*wins[:n].astype(float), *[0.0] * 10]}, 0.5, reward_range=(0, 1))
        assert share[n - 1] - 0.5 <= estimate.radii[0, 0, 0] / 2


def test_a_row_that_always_shows_something_new_promises_nothing():
    """Every one of 200 draws was new, so the true row may give the seen outcomes no mass at all.

    Weissman's radius with the states of the log as the support would be about 1.2.
    """
    log = {"episode": range(200), "state": ["s"] * 200, "action": ["a"] * 200, "reward": np.arange(200) / 1000}
    estimate = fit(log, reward_range=(-1, 1))
    assert estimate.radii[0, 0, 0] == 2.0
    assert estimate.solve(0.9).value == -1.0


@pytest.mark.parametrize("law", [np.full(3, 1 / 3), np.r_[0.9, np.full(50, 0.002)], np.full(2000, 1 / 2000)])
def test_missing_masses_hold_for_all_visit_numbers_at_once(law):
    """At delta = 1, 300 rows: the bound may fail in half of them (it has delta / 2), far fewer are expected."""
    rng, broken = np.random.default_rng(3), 0
    for _ in range(300):
        draws = rng.choice(law.size, 2000, p=law)
        for n in (2, 10, 50, 300, 2000):
            seen = np.unique(draws[:n])
            found = balls(n, seen.size, np.bincount(draws[:n]).max(), True, 1.0).missing()[0, 0, 0]
            broken += 1.0 - law[seen].sum() > found > 0.0
    assert broken <= 30


def test_missing_mass_falls_like_one_over_n_and_is_used_below_the_radius_only():
    small, large = (balls(n, 5, n / 5, True).missing()[0, 0, 0] for n in (1_000, 100_000))
    assert 0.0 < large < small / 90
    ball = balls(3, 3, 1, True)
    assert ball.radii()[0, 0, 0] == 2.0
    assert ball.missing()[0, 0, 0] == 0.0 or ball.missing()[0, 0, 0] < 1.0
    assert balls(100, 5, 20, False).missing() is None
    assert balls(1_000, 5, 200, True).missing(100)[0, 0, 0] == pytest.approx(large)


def test_missing_mass_by_hand():
    """One outcome in n visits: with rate 4, (L + 4) / n over 1 - exp(-4), to first order."""
    n = 10_000
    level = np.log(2 * 7 * 1 * 2 / 0.05)
    rates = np.array([0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0])
    expected = min((1 - np.exp(-(level + r) / n)) / (1 - np.exp(-r)) for r in rates)
    assert balls(n, 1, n, True).missing()[0, 0, 0] in (pytest.approx(expected), 0.0)


@pytest.mark.parametrize("k", [2, 3, 4, 7, 12])
def test_the_shares_of_all_sets_add_up_to_one(k):
    level = {g: float(set_level(np.array([float(k)]), np.array([g]))[0]) for g in range(1, k)}
    shares = [np.exp(-level[min(size, k - size)]) for size in range(1, k) for _ in combinations(range(k), size)]
    assert sum(shares) == pytest.approx(1.0, abs=1e-12)
    assert list(level.values()) == sorted(level.values())  # the largest of the sets of at most g outcomes


def test_outcomes_that_are_possible_but_not_seen_cost_little():
    """Two outcomes seen of 40 possible ones: equal shares for all sets gave the level log(2^40 - 2) = 27.7 in place of 11."""
    assert set_level(np.array([40.0]), np.array([2]))[0] == pytest.approx(np.log(2 * 39 * 780), abs=1e-6)
    few, all_seen = (balls(1000, 40, 500, False, seen=seen).radii()[0, 0, 0] for seen in (2, 40))
    assert few < 0.75 * all_seen
