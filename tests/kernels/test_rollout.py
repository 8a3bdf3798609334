"""Forward loops: pushed mass."""

import numpy as np

from bqrl.kernels.layout import Moves, Rows
from bqrl.kernels.rollout import push_mass


def test_mass_is_pushed_and_kept():
    row_start, successor = np.array([0, 2, 3]), np.array([0, 1, 1], np.int32)
    mass, out = np.array([[0.25, 0.25], [0.5, 0.0]]), np.zeros((2, 4))
    action, column = np.zeros(2, np.int16), np.zeros(2, np.int64)
    rows = Rows(row_start, successor, np.array([0.5, 0.5, 1.0]))
    push_mass(rows, Moves(np.array([0, 2, 1]), np.empty((0, 0), np.int64)), action, column, mass, out, (0, 4), False)
    assert out.tolist() == [[0.125, 0.125, 0.0, 0.0], [0.0, 0.5, 0.125, 0.125]]
