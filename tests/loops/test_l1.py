"""The fast forms of the l1 step against `l1_expectation`, which walks a sorted row."""

import numpy as np
import pytest

from bqrl.loops.l1 import (
    l1_columns,
    l1_dense_rows,
    l1_expectation,
    l1_ordered,
    l1_sparse,
    move_mass,
    move_mass_around,
    sort_by_value,
)
from bqrl.loops.layout import Ball

KINDS = ("apart", "alike", "tied", "nearly", "steps")


def a_row(rng, kind, k, n):
    """Values (k, n) of the outcomes of a row, never falling along it, and its probabilities: some zero."""
    p = rng.random(k) * (rng.random(k) < 0.8) + (np.arange(k) == rng.integers(k)) * 0.1
    if kind == "apart":  # columns with little in common
        values = np.sort(rng.random((k, n)) ** rng.integers(1, 6), axis=1)
    elif kind == "alike":  # slowly crossing curves, as in a sweep
        values = np.cumsum(rng.random((k, n)) ** 4, axis=1) / n
    elif kind == "tied":
        values = np.sort(rng.integers(0, 3, (k, n)) / 2.0, axis=1)
    elif kind == "nearly":  # ties that rounding has parted
        values = np.sort(rng.integers(0, 3, (k, n)) / 2.0 * (1.0 + rng.integers(-2, 3, (k, n)) * 2.0**-53), axis=1)
    else:  # safe, then lost
        values = (np.arange(n) >= rng.integers(0, n + 1, k)[:, None]).astype(float)
    return values, p / p.sum()


def reference(values, p, half, sense):
    orders = np.argsort(sense * values, axis=0, kind="stable")
    return np.array([l1_expectation(orders[:, c], values[:, c], p, half) for c in range(values.shape[1])])


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("half", [1e-3, 0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("sense", [1.0, -1.0])
def test_following_the_givers_equals_sorting_every_column(kind, half, sense):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        values, p = a_row(rng, kind, int(rng.integers(2, 20)), int(rng.integers(1, 40)))
        out = np.empty(values.shape[1])
        l1_columns(values, np.arange(p.size), p, half, sense, out)
        np.testing.assert_allclose(out, reference(values, p, half, sense), rtol=0.0, atol=4e-15)


@pytest.mark.parametrize("seed", range(60))
def test_a_ball_that_just_covers_the_bad_outcomes_leaves_exactly_zero(seed):
    rng = np.random.default_rng(seed)
    bad, good = (rng.multinomial(5, np.full(k, 1 / k)) for k in rng.integers(1, 5, 2))
    p = np.r_[bad, good] / 10.0  # half of the mass is bad, and half of it may move
    parted = 1.0 + np.sort(rng.integers(-2, 3, (bad.size, 3)), axis=1) * 2.0**-53  # one but for rounding
    values = np.r_[parted, np.zeros((good.size, 3))]
    out = np.empty(3)
    l1_columns(values, np.arange(p.size), p, 0.5, 1.0, out)
    assert out.tolist() == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("half", [1e-3, 0.1, 0.5, 1.0])
@pytest.mark.parametrize("sense", [1.0, -1.0])
def test_moving_mass_after_a_product_equals_sorting_the_row(kind, half, sense):
    for seed in range(20):
        rng = np.random.default_rng(seed)
        values, p = a_row(rng, kind, int(rng.integers(2, 12)), int(rng.integers(1, 30)))
        possible = (p > 0.0) | (rng.random(p.size) < 0.5)  # a successor of probability zero may still receive mass
        product = (p @ values)[None, :]
        order = np.argsort(values.T, axis=1, kind="stable")
        chance, plain = np.where(possible, p, -1.0), p @ values
        l1_dense_rows(chance[None, :], Ball(np.array([half]), sense, order, values.T.copy(), np.zeros(0)), product)
        wanted = reference(values[possible], p[possible], half, sense)
        np.testing.assert_allclose(product[0], wanted, rtol=1e-12, atol=1e-14)
        assert not product[0, wanted == 0.0].any()  # ties stay ties
        alone = [l1_ordered(order, values.T.copy(), c, chance, half, sense, plain[c]) for c in range(plain.size)]
        assert alone == product[0].tolist()
        found, rows = plain.copy(), rng.permutation(np.flatnonzero(possible)).astype(np.int32)
        if rows.size > 1:
            l1_sparse(values, rows, p[rows], half, sense, p.size, 0, plain.size, found)
            assert found.tolist() == alone  # every bit


@pytest.mark.parametrize("half", [1e-3, 0.1, 0.5, 1.0])
def test_the_extreme_row_lies_in_the_ball_and_attains_the_expectation(half):
    for seed in range(50):
        rng = np.random.default_rng(seed)
        values, p = a_row(rng, "tied", int(rng.integers(2, 12)), 1)
        order = np.argsort(values[:, 0], kind="stable")
        moved = np.empty(p.size)
        move_mass(order, p, half, moved)
        assert moved.min() >= -1e-15
        assert moved.sum() == pytest.approx(1.0, abs=1e-14)
        assert np.abs(moved - p).sum() <= 2 * half + 1e-14
        assert moved @ values[:, 0] == pytest.approx(l1_expectation(order, values[:, 0], p, half), abs=1e-14)
        for _ in range(20):  # no other row of the ball does better
            other = rng.dirichlet(np.ones(p.size))
            step = min(1.0, 2 * half / max(np.abs(other - p).sum(), 1e-300))
            assert (p + step * (other - p)) @ values[:, 0] >= moved @ values[:, 0] - 1e-14


def test_equal_values_are_sorted_by_rising_index():
    rng = np.random.default_rng(0)
    order = np.arange(6)
    for _ in range(20):
        values = rng.integers(0, 3, 6).astype(float)
        sort_by_value(order, values, -1.0)
        assert order.tolist() == sorted(range(6), key=lambda j: (-values[j], j))
        sort_by_value(order, values, 1.0)
        assert order.tolist() == sorted(range(6), key=lambda j: (values[j], j))


def test_mass_moves_in_cyclic_order():
    kernels = np.array([[0.1, 0.2, 0.3, 0.4]])
    move_mass_around(1, 1, 0, 4, 0.5, kernels, 0)  # to outcome 1, from the second after it on: 3, then 0
    assert np.allclose(kernels, [[0.0, 0.7, 0.3, 0.0]])
