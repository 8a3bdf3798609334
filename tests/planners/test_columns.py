"""The best column at a level; the exact grid within a limit of memory is tested in test_target.py."""

import numpy as np
import pytest

import bqrl
from bqrl.errors import SizeError
from bqrl.planners.columns import best_column, check_memory, exact_grid, sweep_bytes


def test_the_best_column_is_the_highest_target_that_is_missed_with_less_than_the_level():
    shortfall = np.array([0.0, 0.05, 0.1, 0.3])
    assert best_column(shortfall, np.array([0.01, 0.1, 0.11, 1.0])).tolist() == [0, 1, 2, 3]
    assert best_column(np.array([0.2, 0.4]), 0.1) == -1
    assert best_column(np.array([0.0, 0.2, 0.1]), 0.15) == 0  # decreases are rounding errors


def test_a_grid_that_exceeds_the_memory_is_refused_with_its_size():
    mdp = bqrl.envs.make("SafeOrRisky")
    grid = exact_grid(mdp)
    assert exact_grid(mdp, 1.0, or_rounded=True) is None
    with pytest.raises(SizeError) as caught:
        check_memory(mdp, grid, 10.0)
    assert caught.value.needed == sweep_bytes(mdp, grid)
