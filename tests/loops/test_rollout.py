"""Forward loops: pushed mass."""

import numpy as np
import pytest
from helpers import stage_rows

from bqrl.loops.layout import Moves
from bqrl.loops.plain import plain_mass
from bqrl.loops.rollout import push_mass
from bqrl.mdp.arrays import read_only


def test_mass_is_pushed_and_kept():
    row_start, successor = np.array([0, 2, 3]), np.array([0, 1, 1], np.int32)
    mass, out = np.array([[0.25, 0.25], [0.5, 0.0]]), np.zeros((2, 4))
    action, column = read_only(np.zeros(2, np.int16)), np.zeros(2, np.int64)
    rows = stage_rows(row_start, successor, np.array([0.5, 0.5, 1.0]))
    push_mass(rows, Moves(np.array([0, 2, 1]), np.empty((0, 0), np.int64)), action, column, mass, out, (0, 4), False)
    assert out.tolist() == [[0.125, 0.125, 0.0, 0.0], [0.0, 0.5, 0.125, 0.125]]


@pytest.mark.parametrize("seed", range(10))
def test_a_stage_does_not_depend_on_split_runs_spans_or_the_form_of_its_moves(seed, monkeypatch):
    monkeypatch.setattr("bqrl.loops.plain.PLAIN_BLOCK", 40 if seed > 4 else 1_000)
    rng = np.random.default_rng(seed)
    S, A, k, n = 3, 2, 2, 9
    rows = stage_rows(np.arange(S * A + 1) * k, rng.integers(0, S, S * A * k), rng.random(S * A * k))
    shift = rng.integers(0, 3, S * A * k)
    action, column = read_only(rng.integers(0, A, S * 4).astype(np.int16)), rng.integers(0, 4, n)
    mass = rng.random((S, n)) * (rng.random((S, n)) < 0.5)  # sums without mass lie between the others
    expected = np.zeros((S, n + 2))
    for s in range(S):
        for g in range(n):
            q = s * A + int(action[s * 4 + column[g]])
            for i in range(rows.start[q], rows.start[q + 1]):
                expected[rows.successor[i], g + shift[i]] += rows.probability[i] * mass[s, g]
    on_lattice = Moves(shift, np.empty((0, 0), np.int64))
    on_set = Moves(shift, np.arange(3)[:, None] + np.arange(n))
    for moves, split, spans in ((on_lattice, False, [(0, n + 2)]), (on_lattice, True, [(0, 4), (4, n + 2)]),
                                (on_set, False, [(0, 5), (5, n + 2)]), (on_set, True, [(0, n + 2)])):  # fmt: skip
        out = np.zeros((S, n + 2))
        for span in spans:
            push_mass(rows, moves, action, column, mass, out, span, split)
        np.testing.assert_allclose(out, expected, rtol=1e-14)
    for moves in (on_lattice, on_lattice._replace(shift=shift - 2), on_set):  # with sums outside of the block, too
        by_loop, by_numpy = np.zeros((2, S, n + 1))
        push_mass(rows, moves, action, column, mass, by_loop, (0, n + 1), False)
        plain_mass(rows, moves, action, column, mass, by_numpy)
        assert by_numpy.tobytes() == by_loop.tobytes()
