"""Rows of columns, against NumPy indexing."""

import numpy as np
import pytest

from bqrl.loops.layout import Rows
from bqrl.loops.moves import add_rows, columns_inside, move_columns, one_shift, shift_into


@pytest.mark.parametrize("shift", [-9, -3, -1, 0, 1, 2, 7])
def test_shifted_columns_are_clipped_to_both_ends(shift):
    source, out = np.arange(5.0) ** 2, np.empty(6)
    shift_into(out, source, shift, 0.5)
    assert np.array_equal(out, source[np.clip(np.arange(6) + shift, 0, 4)] + 0.5)
    begin, end = columns_inside(6, 4, shift)
    assert [c for c in range(6) if 0 <= c + shift <= 4] == list(range(begin, end))


@pytest.mark.parametrize("k", range(1, 10))
def test_rows_of_all_possible_outcomes_are_added(k):
    rng = np.random.default_rng(k)
    source, probability = rng.random((4, 7)), rng.random(k)
    probability[rng.random(k) < 0.3] = 0.0
    source[3] = np.nan  # reached by impossible outcomes only, which are skipped
    successor = np.where(probability > 0.0, rng.integers(0, 3, k), 3)
    out = np.ones(7)
    add_rows(out, 2, 4, 0, k, Rows(np.array([0, k]), successor, probability), source, 3)
    wanted = np.ones(7)
    possible = probability > 0.0
    wanted[2:6] += probability[possible] @ source[successor[possible], 3:7]
    assert np.allclose(out, wanted, rtol=1e-14)


def test_a_table_of_jumps_replaces_the_shift():
    out, source = np.empty(3), np.array([1.0, 2.0, 4.0, 8.0])
    move_columns(out, source, 1, np.array([[0, 0, 0], [3, 1, 2]]))
    assert out.tolist() == [8.0, 2.0, 4.0]
    move_columns(out, source, 1, np.empty((0, 0), np.int64))
    assert out.tolist() == [2.0, 4.0, 8.0]


def test_rows_with_one_reward_are_recognised():
    shift = np.array([2, 2, 2, 1])
    assert one_shift(shift, 0, 3)
    assert not one_shift(shift, 1, 4)
