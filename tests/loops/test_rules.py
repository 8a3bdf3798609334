"""The loops of the rule search against plain Python."""

from itertools import product

import numpy as np
import pytest
from helpers import stage_rows

from bqrl.loops.layout import Moves
from bqrl.loops.rules import cost_rows, monotone_choice, pull_back


@pytest.mark.parametrize("seed", range(30))
def test_monotone_choice_is_the_best_of_all(seed):
    rng = np.random.default_rng(seed)
    S, A = int(rng.integers(1, 5)), int(rng.integers(1, 4))
    costs, allowed = rng.integers(0, 3, (2, S, A)).astype(float), rng.random((S, A)) < 0.8
    order, out = rng.permutation(S), np.full(S, -1)
    rising = [
        picked for picked in product(range(A), repeat=S)
        if list(picked) == sorted(picked) and all(allowed[s, a] for s, a in zip(order, picked, strict=True))
    ]  # fmt: skip
    found = monotone_choice(order, costs, allowed, np.full(2, 1e-9), out)
    assert found == bool(rising)
    if found:
        totals = [tuple(sum(costs[k, s, a] for s, a in zip(order, p, strict=True)) for k in (0, 1)) for p in rising]
        assert tuple(out[order]) in rising
        assert totals[rising.index(tuple(out[order]))] == min(totals)


@pytest.mark.parametrize("jumps", [False, True])
def test_costs_and_pulled_costs_agree(jumps):
    rng = np.random.default_rng(1)
    S, A, n = 3, 2, 4
    start = np.arange(S * A + 1) * 2
    rows = stage_rows(start, rng.integers(0, S, 2 * S * A), np.tile([0.25, 0.75], S * A))
    table = np.minimum(np.arange(n)[None] + np.arange(3)[:, None], n + 1)
    moves = Moves(rng.integers(0, 3, 2 * S * A), table if jumps else np.empty((0, 0), np.int64))
    mass, other, after = rng.random((S, n)), rng.random((S, n)), rng.random((S, n + 2))
    low, high, out = np.array([0, 1, 2]), np.array([4, 3, 2]), np.zeros((2, S, A))
    cost_rows(rows, moves, mass, other, after, low, high, out)
    for a in range(A):
        now = np.zeros((S, n))
        pull_back(rows, moves, np.full(S, a), after, low, high, now)
        np.testing.assert_allclose(out[:, :, a], [(mass * now).sum(axis=1), (other * now).sum(axis=1)])
        q = A + a  # by hand for state 1
        expected = sum(
            p * after[rows.successor[i], 1 + moves.shift[i]]
            for i, p in zip((2 * q, 2 * q + 1), (0.25, 0.75), strict=True)
        )
        assert now[1, 1] == pytest.approx(expected)
        assert now[1, 0] == now[2, 3] == 0.0
