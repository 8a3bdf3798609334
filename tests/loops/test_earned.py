"""Passes over pairs against plain NumPy; run compiled and, a second time, interpreted."""

import numpy as np
import pytest

from bqrl.loops.earned import best_actions, find_totals, least_costs, least_costs_threads

# two states, two actions; the second action of state 1 does not exist
START = np.array([0, 2, 3, 5, 5])
PROBABILITY = np.array([0.25, 0.75, 1.0, 0.5, 0.5])
STATE, BEGIN = np.array([0, 0, 1]), np.array([0, 3, 6])
CHILD = np.array([0, 1, 2, 1, 2, 3, 0, 3], np.int32)
REWARD = np.array([1.0, 1.0, 2.0, 0.0, 4.0])


@pytest.mark.parametrize("loop", [least_costs, least_costs_threads])
def test_least_costs_by_hand(loop):
    after = np.array([[0.0, 1.0], [1.0, 0.0], [0.5, 0.5], [1.0, 1.0]])
    out = np.empty((3, 2))
    loop(STATE, BEGIN, CHILD, START, PROBABILITY, 2, after, out)
    assert out.tolist() == [[0.5, 0.25], [0.625, 0.375], [0.5, 1.0]]


def test_ties_go_to_the_larger_mean():
    after = np.array([[1.0, 0.0], [1.0, 0.0], [1.0, 3.0], [1.0, 0.0]])
    out, action = np.empty((3, 2)), np.empty(3, np.int16)
    best_actions(STATE, BEGIN, CHILD, START, PROBABILITY, REWARD, 2, after, 1e-13, 1e-12, out, action)
    assert action.tolist() == [1, 0, 0]
    assert out.tolist() == [[1.0, 5.0], [1.0, 3.25], [1.0, 2.0]]


def test_amounts_between_entries_count_as_the_lower_one():
    start, total = np.array([0, 3, 3, 4]), np.array([0.0, 1.0, 2.0, 5.0])
    s, earned = np.array([0, 0, 0, 0, 1, 2, 2]), np.array([-1.0, 0.999, 1.5, 9.0, 0.0, 4.0, 6.0])
    out = np.empty(7, np.int64)
    find_totals(start, total, s, earned, 1e-2, out)
    assert out.tolist() == [0, 1, 1, 2, -1, 3, 3]
